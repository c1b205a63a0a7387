"""Ratings cut by ranges of users, each of which can be read alone."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from starcast.distributed import shardfiles
from starcast.errors import DataError, ParameterError, plural
from starcast.names import Array, Codes
from starcast.ratings import Ratings

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shard:
    """The ratings of the users from `begin` on: those of its user u are ``start[u]`` to ``start[u + 1]``.

    Users stand in the order of their codes, a user's ratings in the order of the table.

    Attributes
    ----------
    begin : int
        The code of its first user.
    start : ndarray of int64, shape (own users + 1,)
    item : ndarray of int32
    score : ndarray of int8
    """

    begin: int
    start: Counts
    item: Codes
    score: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.item)

    @property
    def n_users(self) -> int:
        """How many users it has."""
        return len(self.start) - 1

    @property
    def user(self) -> Codes:
        """The user of every rating, counted from `begin`."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.start))

    def load(self) -> "Shard":
        """Return itself: what is in memory is its own place."""
        return self


class ShardPlace(Protocol):
    """Where a shard lies; can be sent to the process that shall hold it."""

    def load(self) -> Shard:
        """Return the shard."""


@dataclass(frozen=True)
class ShardFile:
    """A shard that lies in a folder: the users from `begin` to `end`, the ratings from `first` to `last`."""

    folder: Path
    begin: int
    end: int
    first: int
    last: int

    def load(self) -> Shard:
        """Return the shard, mapped into memory."""
        counts, item, score = shardfiles.read_rows(self.folder, (self.begin, self.end), (self.first, self.last))
        return Shard(self.begin, _starts(counts), item, score)


@dataclass(frozen=True, eq=False, repr=False)
class Shards:
    """A table of ratings in shards: names, scale and counts are at hand, the ratings wherever they lie.

    Make them with :meth:`from_ratings`, or with :func:`starcast.cut_ratings` from files of any size; :meth:`open` finds
    them again.

    Attributes
    ----------
    users, items, scores, titles : ndarray
        As in :class:`starcast.Ratings`.
    counts : ndarray of float64, shape (scores,)
        How often each score was given.
    user_counts, item_counts : ndarray of int64
        How many ratings each user and each item has.
    digest : str
        The fingerprint of the table; that of :meth:`starcast.Ratings.digest`.
    bounds : ndarray of int64, shape (shards + 1,)
        Shard k has the users from ``bounds[k]`` to ``bounds[k + 1]``.
    n_skipped : int
        Lines or rows that ``on_bad="skip"`` left out, as :func:`starcast.cut_ratings` counted them; 0 for a folder that
        was opened.

    Examples
    --------
    >>> ratings = Ratings.from_arrays(["ann", "bob", "ann"], [7, 7, 9], [5, 3, 4])
    >>> shards = Shards.from_ratings(ratings, 2)
    >>> shards
    Shards(3 ratings, 2 users, 2 items, 3 scores from 3 to 5; 2 shards)
    >>> shards.range(0), shards.load(0).item.tolist(), shards.load(1).score.tolist()
    ((0, 1), [0, 1], [0])
    """

    users: Array
    items: Array
    scores: npt.NDArray[np.float64]
    titles: Array | None
    counts: npt.NDArray[np.float64]
    user_counts: Counts
    item_counts: Counts
    digest: str
    bounds: Counts
    whole: Shard | None  # all ratings, where they are in memory
    folder: Path | None = None
    n_skipped: int = 0

    @classmethod
    def from_ratings(cls, ratings: Ratings, n: int = 1) -> "Shards":
        """Return the ratings in `n` shards, in memory."""
        if len(ratings) == 0:
            raise DataError("shards need at least one rating, got none.")
        start, rows = ratings.by_user()
        counts = np.diff(start)
        return cls(
            ratings.users, ratings.items, ratings.scores, ratings.titles, ratings.counts(), counts,
            np.bincount(ratings.item, minlength=len(ratings.items)), ratings.digest(), cut_evenly(counts, n),
            Shard(0, start, ratings.item[rows], ratings.score[rows]),
        )  # fmt: skip

    @classmethod
    def open(cls, folder: str | os.PathLike[str], n: int = 1) -> "Shards":
        """Return what :meth:`save` or :func:`starcast.cut_ratings` left in a folder, in `n` shards."""
        place = Path(folder).absolute()
        table = shardfiles.read_table(place)
        return cls(**table, bounds=cut_evenly(table["user_counts"], n), whole=None, folder=place)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the table to a new folder, from which :meth:`open` maps it into memory."""
        with shardfiles.making(folder) as place:
            for k in range(len(self)):
                shard = self.load(k)
                place.add_rows(shard.item, shard.score)
            place.finish({name: getattr(self, name) for name in shardfiles.TABLE})

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __repr__(self) -> str:
        return (
            f"Shards({plural(self.n_ratings, 'rating')}, {plural(len(self.users), 'user')}, "
            f"{plural(len(self.items), 'item')}, {plural(len(self.scores), 'score')} "
            f"from {self.scores[0]:g} to {self.scores[-1]:g}; {plural(len(self), 'shard')})"
        )

    @property
    def n_ratings(self) -> int:
        """How many ratings there are."""
        return int(self.user_counts.sum())

    def range(self, k: int) -> tuple[int, int]:
        """Return the code of the first user of shard `k` and that of the first user after it."""
        return int(self.bounds[k]), int(self.bounds[k + 1])

    def place(self, k: int) -> ShardPlace:
        """Return where shard `k` lies, for the process that shall load it."""
        begin, end = self.range(k)
        first = int(self.user_counts[:begin].sum())
        last = first + int(self.user_counts[begin:end].sum())
        if self.folder is not None:
            return ShardFile(self.folder, begin, end, first, last)
        assert self.whole is not None
        rows = slice(first, last)
        return Shard(begin, self.whole.start[begin : end + 1] - first, self.whole.item[rows], self.whole.score[rows])

    def load(self, k: int) -> Shard:
        """Return the ratings of shard `k`."""
        return self.place(k).load()

    def columns(self) -> tuple[Codes, npt.NDArray[np.int8]]:
        """Return the items and the scores of all ratings by user, not copied: those of a folder are mapped into memory.

        Their codes are not looked at; :meth:`load` checks those of a shard.
        """
        if self.folder is not None:
            return shardfiles.map_columns(self.folder)
        assert self.whole is not None
        return self.whole.item, self.whole.score

    def recut(self, n: int) -> "Shards":
        """Return the same table in `n` shards; nothing is copied."""
        return replace(self, bounds=cut_evenly(self.user_counts, n))


def cut_evenly(counts: Counts, n: int) -> Counts:
    """Return where to cut users into `n` runs with about as many ratings each, at least one user in each.

    >>> cut_evenly(np.array([5, 1, 1, 1, 1, 1]), 2).tolist()
    [0, 1, 6]
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= len(counts):
        raise ParameterError(f"n must be a whole number from 1 to the {plural(len(counts), 'user')}, got {n!r}.")
    ends = np.cumsum(counts)
    wanted = ends[-1] * np.arange(1, n) / n
    inner = np.searchsorted(ends, wanted) + 1
    inner -= np.abs(np.concatenate([[0], ends])[inner - 1] - wanted) < np.abs(ends[inner - 1] - wanted)
    # One user a shard at least: each cut lies behind the one before it, and leaves users enough for those that follow.
    place = np.arange(1, n)
    inner = np.maximum.accumulate(np.maximum(inner - place, 0)) + place
    inner = np.minimum(inner, len(counts) - n + place)
    return np.concatenate([[0], inner, [len(counts)]]).astype(np.int64)


def _starts(counts: Counts) -> Counts:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
