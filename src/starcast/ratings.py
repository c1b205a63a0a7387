"""The one table that everything starts from: who rated what, and how."""

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.columns import column_positions
from starcast.errors import DataError, choose, plural
from starcast.frames import make_frame, read_columns
from starcast.names import (
    Array,
    Codes,
    as_column,
    code_names,
    column_values,
    is_integer,
    is_missing,
    named_rows,
    plain,
    strings,
)
from starcast.scale import (
    as_numbers,
    as_seconds,
    as_times,
    finite_rows,
    make_scale,
    nearest,
    read_times,
    score_codes,
)


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
    n_skipped : int
        Lines or rows that ``on_bad="skip"`` left out when the table was read.

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
    n_skipped: int = 0

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
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
        on_bad: str = "error",
        ids: str = "auto",
        off_scale: str = "error",
    ) -> "Ratings":
        """Return the ratings that three columns hold.

        Parameters
        ----------
        users, items : sequence of str or int
            Names, one per rating. Floats that are whole numbers are taken for integers.
        values : sequence of float
            The ratings themselves.
        scores : sequence of float, optional
            The scale; by default the distinct values. Values that differ from a score by rounding only are on it.
        timestamps : sequence of numbers, dates or str, optional
            Seconds since 1970, dates of any kind (datetime, datetime64, pandas.Timestamp) or ISO text such as
            ``2005-09-06`` or ``2005-09-06T12:30:00+02:00``; a time without zone is UTC. Numbers of at least 1e11, 1e14
            and 1e17 are milli-, micro- and nanoseconds.
        titles : mapping from item to str, optional
            The keys 7 and "7" are the same.
        duplicates : {"error", "first", "last", "mean"}
            What becomes of a pair that is rated more than once. "first" takes its first row. "last" takes the row with
            the latest timestamp, the last one of several; without timestamps it takes the last row. "mean" is moved to
            the nearest score, the lower one if two are as near. The rating that is left stands at the place of the
            first.
        on_bad : {"error", "skip"}
            What becomes of rows whose user or item is missing, whose rating is no finite number or whose timestamp is
            no time. `n_skipped` of the table counts those left out.
        ids : {"auto", "text"}
            Whether integers stay integers or become text.
        off_scale : {"error", "nearest"}
            What becomes of ratings between the scores of a scale. "nearest" moves them to the nearest score, the lower
            one if two are as near. Ratings beyond the ends by more than half a step are an error.
        """
        choose("off_scale", off_scale, ["error", "nearest"])
        columns = [as_column(users, "users"), as_column(items, "items"), as_values(values)]
        columns += [] if timestamps is None else [as_times(timestamps)]
        read = columns_of(columns, on_bad, ids)
        scale = make_scale(np.unique(read.values) if scores is None else scores)
        score = score_codes(read.values, scale, off_scale)
        titled = titles_of(read.items, titles)
        table = cls(read.users, read.items, scale, read.user, read.item, score, read.time, titled, read.skipped)
        return table.without_duplicates(duplicates)

    @classmethod
    def from_frame(cls, frame: object, *, columns: Sequence[str] | None = None, **options: Any) -> "Ratings":
        """Return the ratings of a data frame: pandas, Polars, PyArrow, DuckDB or whatever else Narwhals takes.

        `columns` names the columns of users, items, ratings and, if there is one, timestamps. Without it, usual
        names are recognised (user, user_id, userId, …); to read no timestamps, name three columns. `options` are
        those of :meth:`from_arrays`, among them ``on_bad="skip"`` for frames with missing values.
        """
        table = read_columns(frame)
        positions = column_positions(table.columns, columns, "the frame")
        user, item = as_column(table[:, positions[0]], "users"), as_column(table[:, positions[1]], "items")
        value = table[:, positions[2]].to_numpy()
        time = [as_times(table[:, at].to_native()) for at in positions[3:]]
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
        score, times = settle(rule, self.score, self.scores, again, first, self.timestamps)
        keep = np.ones(len(self), bool)
        keep[again] = False
        table = dataclasses.replace(self, score=score, timestamps=times).take(keep)
        return dataclasses.replace(table, n_skipped=self.n_skipped)

    def _describe_duplicates(self, again: Array, first: Array) -> str:
        a, b = again[:3], first[:3]
        rows = zip(self.users[self.user[a]], self.items[self.item[a]], self.values[b], self.values[a], strict=True)
        return describe_duplicates(len(again), list(rows))


def settle(
    rule: str,
    score: npt.NDArray[np.int8],
    scores: npt.NDArray[np.float64],
    again: Array,
    first: Array,
    times: npt.NDArray[np.int64] | None = None,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64] | None]:
    """Return scores and times with the first row of each pair changed as the rule says; `again` are its other rows."""
    score = score.copy()
    if rule == "last":
        pairs = np.unique(first)
        rows, pair = np.concatenate([pairs, again]), np.concatenate([pairs, first])
        when = np.zeros(len(rows), np.int64) if times is None else times[rows]
        order = np.lexsort((rows, when, pair))
        latest = rows[order[np.searchsorted(pair[order], pairs, side="right") - 1]]
        score[pairs] = score[latest]
        if times is not None:
            times = times.copy()
            times[pairs] = times[latest]
    elif rule == "mean":
        pairs = np.unique(first)
        total, count = np.zeros(len(score)), np.ones(len(score))
        np.add.at(total, first, scores[score[again]])
        np.add.at(count, first, 1)
        score[pairs] = nearest((scores[score[pairs]] + total[pairs]) / count[pairs], scores)
    return score, times


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
    check_table(ratings, "fit")
    if len(ratings) == 0:  # type: ignore[arg-type]
        raise DataError("fit needs at least one rating, got none.")


def check_table(ratings: object, what: str) -> None:
    """Raise an error unless `what`, a function, is given Ratings."""
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"{what} needs Ratings, got {type(ratings).__name__}. Make them with Ratings.from_frame, "
            "Ratings.from_arrays or read_ratings."
        )


def titles_of(items: Array, titles: Mapping[Any, str] | None) -> Array | None:
    """Return one title per item, empty where the mapping has none; the keys 7 and "7" are the same."""
    if titles is None:
        return None
    if not hasattr(titles, "items"):
        raise DataError(
            f"titles must be a mapping from item to title, such as {{7: 'Heat'}}, got {type(titles).__name__}."
        )
    known = {_integer_key(key): title for key, title in titles.items() if not is_missing(title)}
    keys = [_integer_key(item) for item in items.tolist()]
    if known and keys and not any(key in known for key in keys):
        warnings.warn(
            f"none of {plural(len(known), 'title')} is of an item that was rated: titles have keys such as "
            f"{next(iter(known))!r}, items are called {plain(items[0])!r}.",
            stacklevel=3,
        )
    return strings(known.get(key, "") for key in keys)


def _integer_key(key: Any) -> Any:
    """Return a key as an integer if it is one, as a number or as text."""
    key = plain(key)
    whole = is_integer(key) if isinstance(key, str) else isinstance(key, float) and key.is_integer()
    return int(key) if whole else key


def as_values(values: object) -> Any:
    """Return a column of ratings that can be indexed by rows."""
    if hasattr(values, "to_numpy"):
        return column_values(values)
    return list(values) if isinstance(values, Iterable) and not isinstance(values, (str, np.ndarray)) else values


class Columns(NamedTuple):
    """Names, codes and numbers of the rows that could be read, and how many could not."""

    users: Array
    items: Array
    user: Codes
    item: Codes
    values: npt.NDArray[np.float64]
    time: npt.NDArray[np.int64] | None
    skipped: int


def columns_of(columns: Sequence[Any], on_bad: str, ids: str) -> Columns:
    """Return columns of users, items, values and maybe times as codes and numbers."""
    choose("on_bad", on_bad, ["error", "skip"])
    choose("ids", ids, ["auto", "text"])
    skipped = 0
    if on_bad == "skip":
        columns, skipped = _without_bad_rows(columns)
    try:
        users, user = code_names(columns[0], "users", ids)
        items, item = code_names(columns[1], "items", ids)
        values = as_numbers(columns[2], "values")
        if not len(user) == len(item) == len(values):
            raise DataError(
                f"users, items and values must have one length, got {len(user):,}, {len(item):,} and {len(values):,}."
            )
        time = as_seconds(columns[3], len(user)) if len(columns) > 3 else None
    except DataError as error:
        bad = _count_bad_rows(columns)
        if not bad:
            raise
        cure = f'Drop such rows, or pass on_bad="skip" to leave out {plural(bad, "row")}.'
        raise DataError(f"{error} {cure}") from None
    return Columns(users, items, user, item, values, time, skipped)


def _good_rows(columns: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Tell which rows of user, item, value and maybe time could be ratings."""
    user, item, value, *time = columns
    masks = [named_rows(user), named_rows(item), finite_rows(value), *(read_times(times)[1] for times in time)]
    if len({len(mask) for mask in masks}) > 1 or any(mask.ndim > 1 for mask in masks):
        lengths = ", ".join(f"{len(mask):,}" for mask in masks)
        raise DataError(f"users, items, values and timestamps must have one length, got {lengths}.")
    return np.asarray(np.logical_and.reduce(masks), bool)


def _count_bad_rows(columns: Sequence[Any]) -> int:
    """Return how many rows could be left out to mend the table; 0 if that would not mend it."""
    try:
        good = _good_rows(columns)
    except (DataError, TypeError):  # columns of another shape
        return 0
    return int((~good).sum()) if good.any() else 0


def _without_bad_rows(columns: Sequence[Any]) -> tuple[list[Any], int]:
    try:
        good = _good_rows(columns)
    except TypeError:  # columns of another shape, which is said where they are read
        return list(columns), 0
    if len(good) == 0:
        raise DataError("ratings must have at least one row, got none.")
    if not good.any():
        raise DataError(f'on_bad="skip" leaves no rating: all of {plural(len(good), "row")} are bad.')
    rows = (
        column if isinstance(column, np.ndarray) else np.fromiter(column, object, len(column)) for column in columns
    )
    return [column[good] for column in rows], int((~good).sum())


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
