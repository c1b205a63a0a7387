"""Recommendations: every user's best items, block by block."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from starcast import _native
from starcast.distribution import Distribution, check_fraction, kind_of
from starcast.errors import ParameterError
from starcast.frames import make_frame
from starcast.names import Array, Codes

if TYPE_CHECKING:
    from starcast.models.base import Model

BLOCK = 1 << 20  # probabilities that are held at once: a few tens of megabytes


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
    user = np.flatnonzero(model._user_known) if users is None else model._codes_or_error(users, "user")
    item = np.flatnonzero(model._item_known) if candidates is None else model._codes_or_error(candidates, "item")
    user, item = user.astype(np.int32), np.unique(item).astype(np.int32)
    length, size = min(int(n), len(item)), max(1, BLOCK // max(1, len(item) * len(model.scores_)))
    blocks: list[dict[str, Array]] = []
    for begin in range(0, max(1, len(user)), size):
        blocks.append(_best_items(model, user[begin : begin + size], item, length, limit, exclude_seen))
        if on_progress is not None:
            on_progress(min(begin + size, len(user)), len(user))
    columns: dict[str, Any] = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    chosen, columns["item"] = columns["item"], model.items_[columns["item"]]
    columns["user"] = model.users_[columns["user"]]
    if model.titles_ is not None:
        columns["title"] = model.titles_[chosen]
    return make_frame(columns, users)


def check_number(n: object) -> None:
    """Raise an error unless `n` can be the length of a list."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ParameterError(f"n must be a whole number of at least 1, got {n!r}.")


def _best_items(
    model: "Model", user: Codes, item: Codes, n: int, threshold: float, exclude_seen: bool
) -> dict[str, Array]:
    """Return the `n` best of the items, ascending codes, for each user, by mode, then by mean, as columns of codes."""
    shape = (len(user), len(item))
    probs = model._known_proba(np.repeat(user, len(item)), np.tile(item, len(user)))
    answer = Distribution.trusted(probs, model.scores_)
    columns = answer.mode(), answer.mean(), answer.reliability(kind_of(threshold))
    mode, mean, reliability = (column.reshape(shape) for column in columns)
    allowed = reliability >= threshold
    if exclude_seen:
        for place, u in enumerate(user):
            seen = model.seen_items_[model.seen_start_[u] : model.seen_start_[u + 1]]
            at = np.searchsorted(item, seen)
            at = at[item[np.minimum(at, len(item) - 1)] == seen] if len(item) else at[:0]
            allowed[place, at] = False
    best = _native.top_n(mode, mean, allowed, n)
    row, rank = np.nonzero(best >= 0)
    column = best[row, rank]
    return {
        "user": user[row],
        "rank": rank + 1,
        "item": item[column],
        "prediction": mode[row, column],
        "mean": mean[row, column],
        "reliability": reliability[row, column],
    }
