"""What comes after a fit: new users are placed, new ratings absorbed, without learning everything again."""

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from starcast import _native
from starcast.errors import DataError, DivergenceError, ParameterError, plural
from starcast.kernels import Side, make_sides
from starcast.names import Array, Codes, Lookup, strings
from starcast.ratings import Ratings, check_table
from starcast.scale import place_on, score_codes

if TYPE_CHECKING:
    from starcast.models.base import Model

M = TypeVar("M", bound="Model")

PASSES = 2  # over users and items: a third gains about a part in a thousand (docs/new-users.md)


def fold_in(model: M, ratings: Ratings) -> M:
    """Return a model of the users of `ratings` that shares everything but its users; see :meth:`Model.fold_in`."""
    model._check_fitted()
    check_solvable(model, "fold_in")
    score = _scores_on(model, ratings, "fold_in")
    item = model._item_lookup.codes(ratings.items, "items")
    item[~model._item_known[item]] = -1
    item = item[ratings.item]
    kept = item >= 0
    if not kept.any():
        shown = ratings.items[:3].tolist()
        raise DataError(
            f"fold_in needs at least one rating of an item that the model knows, but all {plural(len(item), 'rating')} "
            f"are of others, such as {', '.join(map(repr, shown))}."
        )
    user, item, score = ratings.user[kept], item[kept], score[kept]
    order = np.lexsort((item, user))
    start = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(ratings.users)))])
    placed = place_users(model, ratings.users, Side(start, item[order], score[order]))
    placed.digest_, placed.n_left_out = ratings.digest(), len(kept) - len(item)
    return placed


def place_users(model: M, users: Array, side: Side, start: Codes | None = None) -> M:
    """Return a model of the given users, whose ratings are `side`; all else is shared with `model`, not copied.

    `start` tells which users of `model` they may go on from, -1 for none.
    """
    placed = object.__new__(type(model))
    vars(placed).update(vars(model))
    placed.users_ = users
    placed.seen_start_, placed.seen_items_, placed.seen_scores_ = side
    vars(placed).update(_solve(model, "users", side, start))
    placed._index_users()
    return placed


def partial_fit(model: M, ratings: Ratings) -> M:
    """Learn new ratings, users and items on top of the old, and return the model; see :meth:`Model.partial_fit`."""
    if not model.is_fitted:
        return model.fit(ratings)
    model._check_fitted()
    score = _scores_on(model, ratings, "partial_fit")
    user_names, user = _extended(model._user_lookup, ratings.users, "users")
    item_names, item = _extended(model._item_lookup, ratings.items, "items")
    old = seen_ratings(model, "partial_fit")
    new = Ratings(user_names, item_names, model.scores_, user[ratings.user], item[ratings.item], score)
    merged = _merge(old, new, _titles(model, item_names, ratings, item))
    rows, columns = np.unique(new.user), np.unique(new.item)
    if model._solves_rows() and _share_of(merged, rows, columns) <= model.MOST_TOUCHED:
        grown = _grow(model, merged, rows, columns)
    else:
        grown = model.clone().fit(merged)
    vars(model).update(vars(grown))
    return model


def seen_ratings(model: "Model", what: str) -> Ratings:
    """Return the ratings that the model learnt from, user by user."""
    check_scores_seen(model, what)
    if not knows_all(model):
        raise DataError(
            f"{what} needs all ratings that the model learnt from, but a model that fold_in made has only those of its "
            f"users. Call {what} of the model that they were folded into."
        )
    user = np.repeat(np.arange(len(model.users_), dtype=np.int32), np.diff(model.seen_start_))
    return Ratings(model.users_, model.items_, model.scores_, user, model.seen_items_, model.seen_scores_)


def knows_all(model: "Model") -> bool:
    """Tell whether the model has all ratings that its items were learnt from; one that fold_in made has not."""
    counts = np.bincount(model.seen_items_, minlength=len(model.items_))
    return not hasattr(model, "item_scores_") and np.array_equal(counts, model.item_counts_)


def check_scores_seen(model: "Model", what: str) -> None:
    """Raise an error for a model from a file that does not hold the scores that users gave."""
    if not hasattr(model, "seen_scores_"):
        raise DataError(
            f"{what} needs the ratings that the model learnt from, but its file was written by an earlier Starcast, "
            "which did not keep their scores. Call fit(ratings) again."
        )


def check_solvable(model: "Model", what: str) -> None:
    """Raise an error unless the model can solve for one user at a time."""
    if not model._solves_rows():
        raise ParameterError(
            f"{what} needs a model that can solve for one user while the items stand still, and {model!r} cannot: "
            "of the models that come with Starcast, the factorizations in single precision can "
            '(ResBeMF with update="exact" or "gradient").'
        )


def _scores_on(model: "Model", ratings: Ratings, what: str) -> Array:
    """Return the ratings' places on the model's scale."""
    check_table(ratings, what)
    if len(ratings) == 0:
        raise DataError(f"{what} needs at least one rating, got none.")
    codes = score_codes(ratings.values, model.scores_)
    foreign = ratings.scores[place_on(ratings.scores, model.scores_, "error")[1]]
    if len(foreign):
        raise DataError(
            f"the scale of new ratings must be a part of the model's, from {model.scores_[0]:g} to "
            f"{model.scores_[-1]:g}, got one with {foreign[0]:g} ({plural(len(foreign), 'such score')}). "
            "Make the ratings with scores=model.scores_ if they are on the model's scale."
        )
    return codes


def _solve(model: "Model", of: str, side: Side, start: Codes | None) -> dict[str, Array]:
    rows = model._solve_rows(of, side, start)
    wild = [name for name, array in rows.items() if not np.isfinite(array).all()]
    if wild:
        raise DivergenceError(
            f"the rows of new {of} diverged: {', '.join(wild)} must be finite. Lower the model's learning_rate "
            "and fit it again."
        )
    return rows


def _extended(lookup: Lookup, names: Array, what: str) -> tuple[Array, Codes]:
    """Return the names that were there and then the new ones, and the codes of `names` among them."""
    names = lookup.alike(names, what)
    codes = lookup.find(names, what)
    new = codes < 0
    codes[new] = np.arange(len(lookup.names), len(lookup.names) + new.sum())
    return np.concatenate([lookup.names, names[new]]), codes


def _titles(model: "Model", items: Array, ratings: Ratings, item: Codes) -> Array | None:
    """Return one title per item: the model's, and those that come with the new ratings where it has none."""
    if model.titles_ is None and ratings.titles is None:
        return None
    titles = strings([""] * len(items))
    if ratings.titles is not None:
        titles[item] = ratings.titles
    if model.titles_ is not None:
        known = model.titles_ != ""
        titles[: len(known)][known] = model.titles_[known]
    return titles


def _merge(old: Ratings, new: Ratings, titles: Array | None) -> Ratings:
    """Return the old ratings and after them the new; a pair that is rated again has its new score at its old place."""
    user, item, score = (
        np.concatenate([getattr(old, column), getattr(new, column)]) for column in ("user", "item", "score")
    )
    again, first = _native.find_duplicates(user, item, len(new.users), len(new.items))
    score[first] = score[again]
    keep = np.ones(len(user), bool)
    keep[again] = False
    return Ratings(new.users, new.items, new.scores, user[keep], item[keep], score[keep], titles=titles)


def _grow(model: M, merged: Ratings, user: Codes, item: Codes) -> M:
    """Return a model that knows all of `merged` and has solved for the given users and items, and for no others."""
    grown = object.__new__(type(model))
    vars(grown).update(vars(model))
    grown._remember(merged)
    for of, length in (("users", len(merged.users)), ("items", len(merged.items))):
        for name, axis in _axes(model, of):
            vars(grown)[name] = _lengthened(getattr(model, name), axis, length)
    grown._index()
    sides = dict(zip(("users", "items"), make_sides(merged), strict=True))
    for turn in range(PASSES):
        for of, rows, before in (("users", user, len(model.users_)), ("items", item, len(model.items_))):
            start = np.where((rows < before) | (turn > 0), rows, -1).astype(np.int32)
            _put(grown, of, rows, _solve(grown, of, _rows_of(sides[of], rows), start))
    grown._finish()
    return grown


def _share_of(ratings: Ratings, user: Codes, item: Codes) -> float:
    """Return how much there is to solve for: the mean share of the ratings that these users and these items have."""
    return float(np.isin(ratings.user, user).mean() + np.isin(ratings.item, item).mean()) / 2


def _axes(model: "Model", of: str) -> list[tuple[str, int]]:
    """Return the learnt arrays that have a row per user (or item), and the axis along which these lie."""
    found = {name: axes.split() for name, axes in type(model).LEARNT.items()}
    return [(name, axes.index(of)) for name, axes in found.items() if of in axes]


def _lengthened(array: Array, axis: int, length: int) -> Array:
    """Return a copy with zeros, the mean of what regularization expects, in the rows that are new."""
    missing = [(0, length - size if at == axis else 0) for at, size in enumerate(array.shape)]
    return np.pad(array, missing)


def _put(model: "Model", of: str, rows: Codes, solved: dict[str, Array]) -> None:
    for name, axis in _axes(model, of):
        np.moveaxis(getattr(model, name), axis, 0)[rows] = np.moveaxis(solved[name], axis, 0)
    if of == "users":
        model._index_users()
    else:
        model._index_items()


def _rows_of(side: Side, rows: Codes) -> Side:
    length = np.diff(side.start)[rows]
    start = np.concatenate([[0], np.cumsum(length)])
    at = np.arange(start[-1]) + np.repeat(side.start[rows] - start[:-1], length)
    return Side(start, side.other[at], side.score[at])
