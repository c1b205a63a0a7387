"""Recommendations: every user's best items, natively where a model can, else from all answers, block by block."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.distribution import Distribution, check_fraction, kind_of
from starcast.errors import ParameterError, UnknownNameError, plural
from starcast.frames import make_frame
from starcast.kernels import fast, has_gpu, resolve_threads
from starcast.names import Array, Codes, as_names

if TYPE_CHECKING:
    from starcast.models.base import Model

Ranking: TypeAlias = fast.Ranking
Columns = tuple[Array, Array, Array, Array, Array, Array]  # user, rank, item, prediction, mean, reliability

BLOCK = 1 << 20  # probabilities that are held at once: a few tens of megabytes
FEW = 64  # users for whom a GPU is not worth the way there
MOST_CODES = 1 << 23  # items that lists on the GPU can tell apart
WAVE = 32  # blocks that are ranked natively, where none are held, between two chances to interrupt


def recommend(
    model: "Model",
    users: object,
    n: int,
    threshold: float | None,
    *,
    exclude_seen: bool,
    candidates: object,
    on_progress: Callable[[int, int], None] | None,
) -> Any:
    """Return a frame with the best `n` items of each user; see :meth:`Model.recommend`."""
    model._check_fitted()
    check_number(n)
    limit = 0.0 if threshold is None else threshold
    check_fraction(limit, "threshold")
    user = np.flatnonzero(model._user_known).astype(np.int32) if users is None else codes_of(model, users, "user")
    wanted = model._item_known
    if candidates is not None:
        wanted = np.zeros(len(model.items_), bool)
        wanted[codes_of(model, candidates, "item")] = True
    n_items = int(np.count_nonzero(wanted))
    ask = Question(wanted, max(1, min(int(n), n_items)), limit, exclude_seen)
    size = max(1, BLOCK // max(1, n_items * len(model.scores_)))
    step = size if on_progress is not None else WAVE * size
    lists: list[Columns] = []
    for begin in range(0, max(1, len(user)), step):
        some = user[begin : begin + step]
        lists += _on_gpu(model, some, ask) or _on_cpu(model, some, ask, size)
        if on_progress is not None:
            on_progress(min(begin + step, len(user)), len(user))
    return _as_frame(model, lists, users)


class Question(NamedTuple):
    """Which items are wanted, how many at most, how reliable, and whether those that a user rated are left out."""

    wanted: npt.NDArray[np.bool_]
    n: int
    threshold: float
    exclude_seen: bool


def check_number(n: object) -> None:
    """Raise an error unless `n` can be the length of a list."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ParameterError(f"n must be a whole number of at least 1, got {n!r}.")


def codes_of(model: "Model", names: object, what: str) -> Codes:
    """Return the codes of users or items, as `what` says, all of which must be known."""
    sides = {"user": (model._user_lookup, model._user_known), "item": (model._item_lookup, model._item_known)}
    lookup, known = sides[what]
    wanted = as_names(names, f"{what}s")
    codes = lookup.find(wanted, f"{what}s")
    unknown = (codes < 0) | ~known[codes]
    if unknown.any():
        first = wanted[unknown].tolist()[0]
        count = f" ({int(unknown.sum()):,} of {len(codes):,} are unknown)" if len(codes) > 1 else ""
        shown = ", ".join(repr(name) for name in lookup.names[:3].tolist())
        raise UnknownNameError(
            f"unknown {what} {first!r}{count}. The model knows {plural(len(lookup.names), what)}, such as {shown}."
        )
    return codes


def _on_gpu(model: "Model", user: Codes, ask: Question) -> list[Columns]:
    """Return the lists of users from tables of the GPU, block by block; none where it is not asked for or there."""
    whole = not hasattr(model, "calibration_") and kind_of(ask.threshold) != "error"
    if not whole or len(user) < FEW or getattr(model, "device", "cpu") == "cpu" or not has_gpu():
        return []
    item = np.flatnonzero(ask.wanted).astype(np.int32)
    if model._table(user[:0], item[:0]) is None or not 0 < len(item) < MOST_CODES:
        return []
    from starcast.kernels.gpu.lists import best_of_table, user_blocks  # an extra

    lists: list[Columns] = []
    for block in user_blocks(len(user), len(item), len(model.scores_)):
        some = user[block]
        seen = _seen_places(model, some, item) if ask.exclude_seen else np.zeros((2, 0), np.int64)
        place, rank, chosen, *numbers = best_of_table(
            model._table(some, item), model.scores_, seen, ask.n, float(ask.threshold)
        )
        lists.append((some[place], rank, item[chosen], *numbers))
    return lists


def _seen_places(model: "Model", user: Codes, item: Codes) -> npt.NDArray[np.int64]:
    """Return, of every rating of the users, the places of its user and its item, if they are among those."""
    start, count = model.seen_start_[user], np.diff(model.seen_start_)[user]
    rows = np.repeat(start - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
    where = np.full(len(model.items_), -1, np.int64)
    where[item] = np.arange(len(item))
    at = where[model.seen_items_[rows]]
    return np.stack([np.repeat(np.arange(len(user)), count), at])[:, at >= 0]


def _on_cpu(model: "Model", user: Codes, ask: Question, size: int) -> list[Columns]:
    ranked = model._rank(_natively(model, user, ask))
    return [ranked] if ranked is not None else _from_answers(model, user, ask, size)


def _natively(model: "Model", user: Codes, ask: Question) -> Ranking:
    calibration = getattr(model, "calibration_", None)
    if calibration is not None:
        calibration = np.ascontiguousarray(calibration, np.float64)
    start, items = (model.seen_start_, model.seen_items_) if ask.exclude_seen else (None, None)
    centering = float(getattr(model, "centering", 0.0))  # of models that settle ties
    return Ranking(
        user, ask.wanted, start, items, ask.n, float(ask.threshold), kind_of(ask.threshold) == "error", model.scores_,
        calibration, centering, resolve_threads(getattr(model, "n_jobs", None)),
    )  # fmt: skip


def _from_answers(model: "Model", user: Codes, ask: Question, size: int) -> list[Columns]:
    item = np.flatnonzero(ask.wanted).astype(np.int32)
    return [_best_items(model, user[begin : begin + size], item, ask) for begin in range(0, max(1, len(user)), size)]


def _best_items(model: "Model", user: Codes, item: Codes, ask: Question) -> Columns:
    """Return the best of the items, ascending codes, for each user, by mode, then by mean, as columns of codes."""
    shape = (len(user), len(item))
    probs = model._known_proba(np.repeat(user, len(item)), np.tile(item, len(user)))
    answer = Distribution.trusted(probs, model.scores_)
    columns = answer.mode(), answer.mean(), answer.reliability(kind_of(ask.threshold))
    mode, mean, reliability = (column.reshape(shape) for column in columns)
    allowed = reliability >= ask.threshold
    if ask.exclude_seen and len(item):
        for place, u in enumerate(user):
            seen = model.seen_items_[model.seen_start_[u] : model.seen_start_[u + 1]]
            at = np.minimum(np.searchsorted(item, seen), len(item) - 1)
            allowed[place, at[item[at] == seen]] = False
    best = _native.top_n(mode, mean, allowed, ask.n)
    row, rank = np.nonzero(best >= 0)
    column = best[row, rank]
    return user[row], rank + 1, item[column], mode[row, column], mean[row, column], reliability[row, column]


def _as_frame(model: "Model", lists: list[Columns], like: object) -> Any:
    user, rank, item, prediction, mean, reliability = (
        column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*lists, strict=True)
    )
    columns = {
        "user": model.users_[user],
        "rank": rank,
        "item": model.items_[item],
        "prediction": prediction,
        "mean": mean,
        "reliability": reliability,
    }
    if model.titles_ is not None:
        columns["title"] = model.titles_[item]
    return make_frame(columns, like)
