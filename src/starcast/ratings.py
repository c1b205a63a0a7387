"""The one table that everything starts from: who rated what, and how."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.columns import column_positions
from starcast.errors import DataError, choose, plural
from starcast.frames import make_frame, read_columns
from starcast.names import Array, Codes, code_names, plain, strings
from starcast.scale import as_numbers, as_seconds, make_scale, nearest, score_codes


class Groups(NamedTuple):
    """Rows by user or by item: those of group g are ``rows[start[g]:start[g + 1]]``, in the table's order."""

    start: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """An immutable table of coded (user, item, score) triples with the names behind the codes.

    Make one with :meth:`from_arrays`, :meth:`from_frame`, :meth:`from_sparse` or :func:`starcast.read_ratings`.
    Nine bytes a rating beside the names, eight more with timestamps. The order of the rows is kept.

    Attributes
    ----------
    users, items : ndarray
        Names, int64 or str, in the order of first appearance.
    scores : ndarray of float64
        The scale, ascending.
    user, item : ndarray of int32
        Codes, one per rating, that index `users` and `items`.
    score : ndarray of int8
        Codes, one per rating, that index `scores`.
    timestamps : ndarray of int64 or None
        Seconds since 1970, one per rating.
    titles : ndarray of str or None
        What people call each item, one per item.

    Examples
    --------
    >>> ratings = Ratings.from_arrays(["ann", "bob", "ann"], [7, 7, 9], [5, 3, 4])
    >>> ratings
    Ratings(3 ratings, 2 users, 2 items, 3 scores from 3 to 5)
    >>> ratings.users.tolist(), ratings.user.tolist(), ratings.values.tolist()
    (['ann', 'bob'], [0, 1, 0], [5.0, 3.0, 4.0])
    """

    users: Array
    items: Array
    scores: npt.NDArray[np.float64]
    user: Codes
    item: Codes
    score: npt.NDArray[np.int8]
    timestamps: npt.NDArray[np.int64] | None = field(default=None)
    titles: Array | None = field(default=None)

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def from_arrays(
        cls,
        users: object,
        items: object,
        values: object,
        *,
        scores: object = None,
        timestamps: object = None,
        titles: Mapping[Any, str] | None = None,
        duplicates: str = "error",
    ) -> "Ratings":
        """Return the ratings that three columns hold.

        Parameters
        ----------
        users, items : sequence of str or int
            Names, one per rating.
        values : sequence of float
            The ratings themselves.
        scores : sequence of float, optional
            The scale; by default the distinct values.
        timestamps : sequence of int or datetime64, optional
            Seconds since 1970, or dates.
        titles : mapping from item to str, optional
        duplicates : {"error", "first", "last", "mean"}
            What becomes of a pair that is rated more than once. The one rating that is left stands at the place of
            the first; a mean is moved to the nearest score, the lower one if two are as near.
        """
        user_names, user = code_names(users, "users")
        item_names, item = code_names(items, "items")
        numbers = as_numbers(values, "values")
        if not len(user) == len(item) == len(numbers):
            raise DataError(
                f"users, items and values must have one length, got {len(user):,}, {len(item):,} and {len(numbers):,}."
            )
        scale = make_scale(np.unique(numbers) if scores is None else scores)
        score = score_codes(numbers, scale)
        times = None if timestamps is None else as_seconds(timestamps, len(user))
        table = cls(user_names, item_names, scale, user, item, score, times, titles_of(item_names, titles))
        return table.without_duplicates(duplicates)

    @classmethod
    def from_frame(cls, frame: object, *, columns: Sequence[str] | None = None, **options: Any) -> "Ratings":
        """Return the ratings of a data frame: pandas, Polars, PyArrow, DuckDB or whatever else Narwhals takes.

        `columns` names the columns of users, items, ratings and, if there is one, timestamps. Without it, usual
        names are recognised (user, user_id, userId, …). `options` are those of :meth:`from_arrays`.
        """
        table = read_columns(frame)
        positions = column_positions(table.columns, columns, "the frame")
        user, item, value, *time = (table[:, at].to_numpy() for at in positions)
        if time:
            options.setdefault("timestamps", time[0])
        return cls.from_arrays(user, item, value, **options)

    @classmethod
    def from_sparse(cls, matrix: Any, *, users: object = None, items: object = None, **options: Any) -> "Ratings":
        """Return the stored entries of a scipy.sparse matrix of users by items; explicit zeros are ratings of 0.

        `users` and `items` name the rows and columns; by default they are called 0, 1, 2, …
        """
        if not hasattr(matrix, "tocoo") or len(matrix.shape) != 2:
            raise DataError(f"matrix must be a scipy.sparse matrix, got {type(matrix).__name__}.")
        entries = matrix.tocoo()
        user, item = np.asarray(entries.row, np.int64), np.asarray(entries.col, np.int64)
        if users is not None:
            user = _names_along(users, matrix.shape[0], "users")[user]
        if items is not None:
            item = _names_along(items, matrix.shape[1], "items")[item]
        return cls.from_arrays(user, item, entries.data, **options)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        return (
            f"Ratings({plural(len(self), 'rating')}, {plural(len(self.users), 'user')}, "
            f"{plural(len(self.items), 'item')}, {plural(len(self.scores), 'score')} "
            f"from {self.scores[0]:g} to {self.scores[-1]:g})"
        )

    def _repr_html_(self) -> str:
        from starcast.html import ratings_html

        user, item = self.user[:5], self.item[:5]
        first = {"user": self.users[user], "item": self.items[item]}
        if self.titles is not None:
            first["title"] = self.titles[item]
        first["rating"] = self.values[:5]
        span = None
        if self.timestamps is not None and len(self):
            first["date"] = np.datetime_as_string(self.timestamps[:5].astype("datetime64[s]"), "D").astype(object)
            ends = np.array([self.timestamps.min(), self.timestamps.max()]).astype("datetime64[s]")
            span = tuple(np.datetime_as_string(ends, "D").tolist())
        rows = {column: values.tolist() for column, values in first.items()}
        return ratings_html(
            len(self), len(self.users), len(self.items), self.scores.tolist(), self.counts().tolist(), rows, span
        )

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The ratings themselves, as numbers on the scale."""
        return self.scores[self.score]

    @property
    def nbytes(self) -> int:
        """Bytes that the ratings take, the names of users and items not counted."""
        times = 0 if self.timestamps is None else self.timestamps.nbytes
        return self.user.nbytes + self.item.nbytes + self.score.nbytes + self.scores.nbytes + times

    def take(self, rows: npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_] | Sequence[int]) -> "Ratings":
        """Return the table of the given rows (numbers or a mask), in their order.

        Users and items that are left without a rating are gone; the scale stays.

        >>> Ratings.from_arrays([1, 2, 3], [1, 1, 2], [5, 3, 4]).take([2, 0]).users.tolist()
        [3, 1]
        """
        users, user = code_names(self.user[rows].astype(np.int64), "users")
        items, item = code_names(self.item[rows].astype(np.int64), "items")
        return Ratings(
            self.users[users],
            self.items[items],
            self.scores,
            user,
            item,
            self.score[rows],
            None if self.timestamps is None else self.timestamps[rows],
            None if self.titles is None else self.titles[items],
        )

    def by_user(self) -> Groups:
        """Return the rows of each user."""
        return Groups(*_native.group_rows(self.user, len(self.users)))

    def by_item(self) -> Groups:
        """Return the rows of each item."""
        return Groups(*_native.group_rows(self.item, len(self.items)))

    def counts(self) -> npt.NDArray[np.float64]:
        """Return how often each score was given: shape (scores,)."""
        # A pass over the bytes for each score takes a tenth of the time of bincount, which makes whole numbers of them.
        return np.array([np.count_nonzero(self.score == score) for score in range(len(self.scores))], np.float64)

    def counts_by_user(self) -> npt.NDArray[np.float64]:
        """Return how often each user gave each score: shape (users, scores)."""
        return _counts(self.user, len(self.users), self.score, len(self.scores))

    def counts_by_item(self) -> npt.NDArray[np.float64]:
        """Return how often each item got each score: shape (items, scores)."""
        return _counts(self.item, len(self.items), self.score, len(self.scores))

    def to_frame(self, like: object = None) -> Any:
        """Return a data frame with the columns user, item, rating (and timestamp), of the kind of `like`."""
        columns: dict[str, Any] = {
            "user": self.users[self.user],
            "item": self.items[self.item],
            "rating": self.values,
        }
        if self.timestamps is not None:
            columns["timestamp"] = self.timestamps
        return make_frame(columns, like)

    def digest(self) -> str:
        """Return a fingerprint (SHA-256) of names, scale and ratings, rows in their order."""
        digest = hashlib.sha256()
        for names in (self.users, self.items):
            digest.update(json.dumps(names.tolist()).encode())
        for array in (self.scores, self.user, self.item, self.score):
            digest.update(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).data)
        return digest.hexdigest()

    def without_duplicates(self, rule: str) -> "Ratings":
        """Return the table with one rating a pair; see `duplicates` of :meth:`from_arrays`."""
        choose("duplicates", rule, ["error", "first", "last", "mean"])
        again, first = _native.find_duplicates(self.user, self.item, len(self.users), len(self.items))
        if len(again) == 0:
            return self
        if rule == "error":
            raise DataError(self._describe_duplicates(again, first))
        score, times = settle(rule, self.score, self.scores, again, first), self.timestamps
        if rule == "last" and times is not None:
            times = times.copy()
            times[first] = times[again]
        keep = np.ones(len(self), bool)
        keep[again] = False
        return Ratings(self.users, self.items, self.scores, self.user, self.item, score, times, self.titles).take(keep)

    def _describe_duplicates(self, again: Array, first: Array) -> str:
        a, b = again[:3], first[:3]
        rows = zip(self.users[self.user[a]], self.items[self.item[a]], self.values[b], self.values[a], strict=True)
        return describe_duplicates(len(again), list(rows))


def settle(
    rule: str, score: npt.NDArray[np.int8], scores: npt.NDArray[np.float64], again: Array, first: Array
) -> npt.NDArray[np.int8]:
    """Return the scores once those of the rows `again` have been told, by the rule, to the first row of their pair."""
    score = score.copy()
    if rule == "last":
        score[first] = score[again]  # `again` ascends within a pair, so the last one wins
    elif rule == "mean":
        pairs = np.unique(first)
        total, count = np.zeros(len(score)), np.ones(len(score))
        np.add.at(total, first, scores[score[again]])
        np.add.at(count, first, 1)
        score[pairs] = nearest((scores[score[pairs]] + total[pairs]) / count[pairs], scores)
    return score


def describe_duplicates(count: int, first: Sequence[tuple[Any, Any, float, float]]) -> str:
    """Return the message for so many ratings too many, of which the first are given: user, item and two ratings."""
    shown = "; ".join(
        f"user {plain(user)!r} rated item {plain(item)!r} {one:g} and {two:g}" for user, item, one, two in first
    )
    more = f"; and {count - 3:,} more" if count > 3 else ""
    return (
        f"each user may rate an item once, got {plural(count, 'rating')} too many ({shown}{more}). "
        'Pass duplicates="first", "last" or "mean".'
    )


def check_ratings(ratings: object) -> None:
    """Raise an error unless a model can be fitted to what is given."""
    if type(ratings).__name__ == "Shards":
        raise DataError(
            "fit needs an engine for Shards, got none. Pass engine=RayEngine(...), or Ratings if memory holds them."
        )
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"fit needs Ratings, got {type(ratings).__name__}. Make them with Ratings.from_frame, "
            "Ratings.from_arrays or read_ratings."
        )
    if len(ratings) == 0:
        raise DataError("fit needs at least one rating, got none.")


def titles_of(items: Array, titles: Mapping[Any, str] | None) -> Array | None:
    """Return one title per item, empty where the mapping has none."""
    return None if titles is None else strings(titles.get(item, "") for item in items.tolist())


def _names_along(names: object, n: int, what: str) -> Array:
    distinct, codes = code_names(names, what)
    if len(codes) != n or len(distinct) != n:
        raise DataError(
            f"{what} must be {n:,} different names, one along the matrix, got {len(codes):,}, "
            f"of which {len(distinct):,} different."
        )
    return distinct


def _counts(group: Codes, n_groups: int, score: npt.NDArray[np.int8], n_scores: int) -> npt.NDArray[np.float64]:
    cell = group.astype(np.int64) * n_scores + score
    return np.bincount(cell, minlength=n_groups * n_scores).reshape(n_groups, n_scores).astype(np.float64)
