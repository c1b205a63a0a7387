"""Recommendations: every user's best items, natively where a model can, else from all answers, block by block."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.distribution import Distribution, check_fraction, kind_of, normalize
from starcast.errors import DataError, ParameterError, UnknownNameError, plural
from starcast.frames import first_of_frame, make_frame
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
    if users is None:
        user = np.flatnonzero(model._user_known).astype(np.int32)
        names = model.users_[user]
    else:
        names, user = find_names(model, users, "user")
    wanted = model._item_known if candidates is None else _wanted_items(model, candidates)
    n_items = int(np.count_nonzero(wanted))
    ask = Question(wanted, max(1, min(int(n), n_items)), limit, exclude_seen)
    size = max(1, BLOCK // max(1, n_items * len(model.scores_)))
    step = size if on_progress is not None else WAVE * size
    known = user[user >= 0]
    lists: list[Columns] = []
    for begin in range(0, max(1, len(known)), step):
        some = known[begin : begin + step]
        lists += _on_gpu(model, some, ask) or _on_cpu(model, some, ask, size)
        if on_progress is not None:
            on_progress(len(user) - len(known) + min(begin + step, len(known)), len(user))
    columns = [part[0] if len(part) == 1 else np.concatenate(part) for part in zip(*lists, strict=True)]
    if len(known) == len(user):
        names = model.users_[columns[0]]
    else:
        place, columns = _with_newcomers(model, user, columns, ask)
        names = names[place]
    return _as_frame(model, names, columns, first_of_frame(users, candidates))


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


def find_names(model: "Model", given: object, what: str) -> tuple[Array, Codes]:
    """Return users or items, as `what` says, as an array of names, and their codes: -1 where the model does not know
    them, also for those without a rating in training.

    A batch of strings and integers is read as text, so that one name of another type does not fail the others. The
    names are of the type that the model's have, or text if some of them cannot be.
    """
    lookup, is_known = (
        (model._user_lookup, model._user_known) if what == "user" else (model._item_lookup, model._item_known)
    )
    if isinstance(given, Iterator):
        given = list(given)
    try:
        names = as_names(given, f"{what}s")
    except DataError:
        names = as_names(given, f"{what}s", "text")  # the same error, unless there are strings and integers
    if len(names) == 0:
        return lookup.names[:0], np.empty(0, np.int32)
    codes = lookup.find(names, f"{what}s")
    codes[~is_known[codes]] = -1
    with contextlib.suppress(DataError):
        names = lookup.alike(names, f"{what}s")
    return names, codes


def codes_of(model: "Model", given: object, what: str) -> Codes:
    """Return the codes of users or items, as `what` says, all of which must be known."""
    names, codes = find_names(model, given, what)
    unknown = codes < 0
    if unknown.any():
        first = names[unknown].tolist()[0]
        count = f" ({int(unknown.sum()):,} of {len(codes):,} are unknown)" if len(codes) > 1 else ""
        all_names, is_known = (model.users_, model._user_known) if what == "user" else (model.items_, model._item_known)
        known = all_names[is_known].tolist()
        reason = ", which has no rating that the model can use" if first in all_names[~is_known].tolist() else ""
        shown = f", such as {', '.join(map(repr, known[:3]))}" if known else ""
        raise UnknownNameError(
            f"unknown {what} {first!r}{reason}{count}. The model knows {plural(len(known), what)}{shown}."
        )
    return codes


def _wanted_items(model: "Model", candidates: object) -> npt.NDArray[np.bool_]:
    """Return which items are among the candidates; those that the model does not know are left out with a warning."""
    names, codes = find_names(model, candidates, "item")
    unknown = codes < 0
    if unknown.any():
        warnings.warn(
            f"{int(unknown.sum()):,} of {plural(len(codes), 'candidate')} are unknown to the model and left out, such "
            f"as {names[unknown].tolist()[0]!r}.",
            stacklevel=4,
        )
    wanted = np.zeros(len(model.items_), bool)
    wanted[codes[~unknown]] = True
    return wanted


def _with_newcomers(
    model: "Model", user: Codes, columns: list[Array], ask: Question
) -> tuple[npt.NDArray[np.intp], list[Array]]:
    """Return the lists of known users together with one list for each user that the model does not know.

    All of these have the same list. Returned are the place in `user` that each row belongs to, and the columns.
    """
    listed, rank = columns[:2]
    # A user's list begins with rank 1. Users whose list is empty have no row.
    places = np.flatnonzero(np.isin(user, listed))
    new = np.flatnonzero(user < 0)
    own = [column[:0] for column in columns]
    item = np.flatnonzero(ask.wanted).astype(np.int32)
    if len(item):
        probs = normalize(np.array(model._newcomer_proba(item), np.float64, order="C"))
        own = list(_best_of(model, probs, np.full(1, -1, np.int32), item, ask))
    place = np.concatenate([places[np.cumsum(rank == 1) - 1], np.repeat(new, len(own[0]))])
    order = np.argsort(place, kind="stable")
    joined = [
        np.concatenate([column, np.tile(more, len(new))])[order] for column, more in zip(columns, own, strict=True)
    ]
    return place[order], joined


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
    probs = model._known_proba(np.repeat(user, len(item)), np.tile(item, len(user)))
    return _best_of(model, probs, user, item, ask)


def _best_of(model: "Model", probs: npt.NDArray[np.float64], user: Codes, item: Codes, ask: Question) -> Columns:
    """Return the same from the probabilities of all pairs, user by user; a user without a row has the code -1."""
    shape = (len(user), len(item))
    answer = Distribution.trusted(probs, model.scores_)
    columns = answer.mode(), answer.mean(), answer.reliability(kind_of(ask.threshold))
    mode, mean, reliability = (column.reshape(shape) for column in columns)
    allowed = reliability >= ask.threshold
    if ask.exclude_seen and len(item):
        for place, u in enumerate(user):
            seen = model.seen_items_[model.seen_start_[u] : model.seen_start_[u + 1]] if u >= 0 else item[:0]
            at = np.minimum(np.searchsorted(item, seen), len(item) - 1)
            allowed[place, at[item[at] == seen]] = False
    best = _native.top_n(mode, mean, allowed, ask.n)
    row, rank = np.nonzero(best >= 0)
    column = best[row, rank]
    return user[row], rank + 1, item[column], mode[row, column], mean[row, column], reliability[row, column]


def _as_frame(model: "Model", users: Array, lists: list[Array], like: object) -> Any:
    user, rank, item, prediction, mean, reliability = lists
    columns = {
        "user": users,
        "rank": rank,
        "item": model.items_[item],
        "prediction": prediction,
        "mean": mean,
        "reliability": reliability,
        "known": user >= 0,
    }
    if model.titles_ is not None:
        columns["title"] = model.titles_[item]
    return make_frame(columns, like)
