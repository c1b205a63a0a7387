"""Why a forecast is what it is: what it would be without each of the user's ratings."""

from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from starcast.errors import DataError
from starcast.frames import first_of_frame, make_frame
from starcast.kernels import Side
from starcast.models.growth import check_scores_seen, check_solvable, place_users
from starcast.models.ranking import check_number, codes_of
from starcast.names import Codes

if TYPE_CHECKING:
    from starcast.models.base import Model

MOST_VISITS = 1 << 20  # ratings that all variants of a user hold together; takes about half a second
BLOCKS = 16  # in which they are solved for at least, if there are so many


def explain(model: "Model", user: object, item: object, n: int, should_stop: Callable[[], bool] = lambda: False) -> Any:
    """Return a frame with the `n` ratings that move a forecast most; see :meth:`Model.explain`.

    `should_stop` is called between blocks of solves; once it returns True, a CancelledError is raised.
    """
    model._check_fitted()
    check_number(n)
    check_solvable(model, "explain")
    check_scores_seen(model, "explain")
    whom, what = _lone(model, user, "user"), _lone(model, item, "item")
    rated = slice(model.seen_start_[whom], model.seen_start_[whom + 1])
    order = np.argsort(model.seen_items_[rated])
    others, scores = model.seen_items_[rated][order], model.seen_scores_[rated][order]
    cost = getattr(model, "ROW_COST", 1)  # of a row, beside that of a model with one number per factor
    left_out = _least_expected(model, whom, others, scores, MOST_VISITS // (cost * len(others)))
    variants = np.arange(len(left_out) + 1)
    # Both forecasts of a difference go on from the same row for as long, so that what is left of the way cancels out.
    whole = place_users(model, variants[:1], _variants(others, scores, left_out[:0]))
    side, per_block = _variants(others, scores, left_out), max(1, MOST_VISITS // (cost * len(others) * BLOCKS))
    blocks = []
    for rows in np.split(variants, range(per_block, len(variants), per_block)):
        if should_stop():
            raise CancelledError
        start = np.zeros(len(rows), np.int32) if model.SETTLES else None
        placed = place_users(whole, rows, _rows_of(side, rows), start)
        blocks.append(placed.predict_proba(rows, model.items_[what : what + 1]))
    mean = np.concatenate([answer.mean() for answer in blocks])
    probs = np.concatenate([answer.probs for answer in blocks])
    moved = np.abs(probs[0] - probs[1:]).sum(axis=1) / 2
    shift = mean[0] - mean[1:]
    best = np.argsort(-moved, kind="stable")[: int(n)]
    chosen = left_out[best]
    columns = {
        "item": model.items_[others[chosen]],
        "rating": model.scores_[scores[chosen]],
        "shift": shift[best],
        "moved": moved[best],
        "direction": np.array(["level", "up", "down"], object)[np.sign(shift[best]).astype(int)],
    }
    if model.titles_ is not None:
        columns["title"] = model.titles_[others[chosen]]
    return make_frame(columns, first_of_frame(user, item))


def _lone(model: "Model", name: object, what: str) -> int:
    codes = codes_of(model, name, what)
    if len(codes) != 1:
        raise DataError(f"explain takes one user and one item, got {len(codes):,} {what}s.")
    return int(codes[0])


def _least_expected(
    model: "Model", user: int, items: Codes, scores: npt.NDArray[np.int8], most: int
) -> npt.NDArray[np.intp]:
    """Return the places of the ratings to leave out in turn: all, or the `most` that the model finds least likely,
    since a rating that was to be expected moves little."""
    if len(items) <= most:
        return np.arange(len(items))
    probs = model._proba(np.full(len(items), user, np.int32), items)
    likely = probs[np.arange(len(items)), scores]
    return np.sort(np.argsort(likely, kind="stable")[: max(1, most)])


def _variants(items: Codes, scores: npt.NDArray[np.int8], left_out: npt.NDArray[np.intp]) -> Side:
    """Return all ratings as the first row, and one row without each of those to be left out."""
    keep = np.ones((len(left_out) + 1, len(items)), bool)
    keep[np.arange(1, len(keep)), left_out] = False
    column = np.nonzero(keep)[1]
    start = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return Side(start, items[column], scores[column])


def _rows_of(side: Side, rows: npt.NDArray[np.intp]) -> Side:
    """Return a range of rows."""
    first, last = side.start[rows[0]], side.start[rows[-1] + 1]
    return Side(side.start[rows[0] : rows[-1] + 2] - first, side.other[first:last], side.score[first:last])
