"""Ratings on their way through the disk: blocks in codes of their own, sorted into buckets, buckets without duplicates.

All of it may run in another process. What is passed on are places of files and small numbers.
"""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.distributed.parts import Reading, read_blocks
from starcast.distributed.shardfiles import save_names
from starcast.modelfile import decode_texts
from starcast.names import Array
from starcast.ratings import settle
from starcast.scale import place_on


@dataclass(frozen=True)
class Spilled:
    """A block of ratings in a folder of its own, a file a column."""

    folder: Path
    n_ratings: int
    mixes: bool
    timed: bool

    def save(self, name: str, array: Array) -> None:
        """Write a column."""
        np.save(self.folder / f"{name}.npy", array, allow_pickle=False)

    def load(self, name: str) -> Array:
        """Return a column, mapped into memory."""
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)  # type: ignore[no-any-return]

    def names(self, name: str) -> Array:
        """Return the names that the block gave codes of its own."""
        if (self.folder / f"{name}.npy").exists():
            return np.load(self.folder / f"{name}.npy", allow_pickle=False)  # type: ignore[no-any-return]
        content, ends = (np.load(self.folder / f"{name}.{part}.npy", allow_pickle=False) for part in ("text", "ends"))
        return decode_texts(self.folder, name, content, ends)


def spill_part(part: Any, number: int, how: Reading, room: Path, with_times: bool) -> tuple[list[Spilled], int]:
    """Read a part, leave its blocks on the disk, and return them with the number of lines that were skipped."""
    blocks: list[Spilled] = []
    skipped = 0
    for block in read_blocks(part, how):
        skipped += block.skipped
        if len(block.user) == 0:
            continue
        folder = room / f"{number:06}-{len(blocks):06}"
        shutil.rmtree(folder, ignore_errors=True)  # of a worker that died
        folder.mkdir()
        times = block.time if with_times else None
        spilled = Spilled(folder, len(block.user), block.mixes, times is not None)
        if times is not None:
            spilled.save("time", times)
        save_names(folder, "users", block.users)
        save_names(folder, "items", block.items)
        spilled.save("count", np.bincount(block.user, minlength=len(block.users)))
        spilled.save("values", block.values)
        spilled.save("user", block.user)
        spilled.save("item", block.item)
        code_type = np.min_scalar_type(-len(block.values))  # the smallest signed integers that hold every code
        spilled.save("score", block.score.astype(code_type))
        blocks.append(spilled)
    return blocks, skipped


def sort_block(block: Spilled, scale: npt.NDArray[np.float64], bounds: npt.NDArray[np.int64], rule: str) -> None:
    """Give the ratings of a block their codes in the whole table, and sort them by bucket, in the table's order."""
    user = np.asarray(block.load("to_user"))[block.load("user")]
    bucket = (np.searchsorted(bounds, user, side="right") - 1).astype(np.int32)
    start, rows = _native.group_rows(bucket, len(bounds) - 1)
    del bucket
    block.save("start", start)
    block.save("row", rows.astype(np.int32))
    block.save("sorted_user", user[rows])
    block.save("sorted_item", np.asarray(block.load("to_item"))[block.load("item")][rows])
    to_score, _ = place_on(block.load("values"), scale, rule)
    block.save("sorted_score", to_score[block.load("score")][rows])
    if block.timed:
        block.save("sorted_time", block.load("time")[rows])


@dataclass(frozen=True)
class Bucket:
    """All ratings of some users, by user, one a pair, in a folder of its own."""

    folder: Path
    counts: npt.NDArray[np.float64]  # by score
    n_again: int
    first_again: list[tuple[int, int, int, int]]  # user, item, first and later score of three duplicates

    def rows(self) -> tuple[Array, Array]:
        """Return item and score of every rating."""
        return self._load("item"), self._load("score")

    def user_counts(self) -> Array:
        """Return the number of ratings of each of its users."""
        return self._load("user_counts")

    def item_counts(self) -> Array:
        """Return how many of its ratings each item of the table has."""
        return self._load("item_counts")

    def gone(self, begin: int, end: int) -> Array:
        """Return which rows of the table from `begin` to `end` are left out, counted from `begin`."""
        gone = self._load("gone")
        return gone[slice(*np.searchsorted(gone, [begin, end]))] - begin

    def changed(self, begin: int, end: int) -> tuple[Array, Array]:
        """Return which of those have another score now, and which."""
        rows = self._load("changed")
        between = slice(*np.searchsorted(rows, [begin, end]))
        return rows[between] - begin, self._load("changed_score")[between]

    def _load(self, name: str) -> Array:
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)  # type: ignore[no-any-return]


def gather_bucket(
    number: int,
    blocks: Sequence[Spilled],
    bounds: npt.NDArray[np.int64],
    n_items: int,
    scale: npt.NDArray[np.float64],
    duplicates: str,
) -> Bucket:
    """Bring together the ratings of a bucket and leave out those of pairs that were rated before."""
    begin, end = (int(bound) for bound in bounds[number : number + 2])
    n_users = end - begin
    ranges = [slice(*block.load("start")[number : number + 2].tolist()) for block in blocks]
    columns = {
        name: np.concatenate([block.load(f"sorted_{name}")[part] for block, part in zip(blocks, ranges, strict=True)])
        for name in ("user", "item", "score", *(["time"] if all(block.timed for block in blocks) else []))
    }
    user, item, score = columns["user"] - np.int32(begin), columns["item"], columns["score"]
    times = columns.get("time")
    del columns
    again, first = _native.find_duplicates(user, item, n_users, n_items)
    few = [
        (int(user[a]) + begin, int(item[a]), int(score[b]), int(score[a]))
        for a, b in zip(again[:3], first[:3], strict=True)
    ]
    folder = blocks[0].folder.parent / f"bucket-{number:06}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    def save(name: str, array: Array) -> None:
        np.save(folder / f"{name}.npy", array, allow_pickle=False)

    if len(again):
        before, (score, _) = score, settle(duplicates, score, scale, again, first, times)
        rows = _table_rows(blocks, ranges)
        changed = np.flatnonzero(score != before)
        save("gone", np.sort(rows[again]))
        save("changed", rows[changed])
        save("changed_score", score[changed])
        keep = np.ones(len(user), bool)
        keep[again] = False
        user, item, score = user[keep], item[keep], score[keep]
    start, order = _native.group_rows(user, n_users)
    save("item", item[order])
    save("score", score[order])
    save("user_counts", np.diff(start))
    save("item_counts", np.bincount(item, minlength=n_items))
    counts = np.bincount(score, minlength=len(scale)).astype(np.float64)
    return Bucket(folder, counts, len(again), few)


def _table_rows(blocks: Sequence[Spilled], ranges: Sequence[slice]) -> npt.NDArray[np.int64]:
    """Return the place in the whole table of every rating of a bucket; it ascends."""
    offsets = np.cumsum([0, *(block.n_ratings for block in blocks)])
    pieces = (block.load("row")[part] + at for block, part, at in zip(blocks, ranges, offsets[:-1], strict=True))
    return np.concatenate(list(pieces)).astype(np.int64)


def digest(blocks: Sequence[Spilled], buckets: Sequence[Bucket], head: Iterable[bytes]) -> str:
    """Return the fingerprint of the table: SHA-256 of the head and of users, items and scores in the table's order."""
    code = hashlib.sha256()
    for piece in head:
        code.update(piece)
    fewer = [bucket for bucket in buckets if bucket.n_again]
    for name, dtype in (("user", "<i4"), ("item", "<i4"), ("score", "i1")):
        begin = 0
        for block in blocks:
            column = np.empty(block.n_ratings, dtype)
            column[block.load("row")] = block.load(f"sorted_{name}")
            end = begin + len(column)
            keep = np.ones(len(column), bool)
            for bucket in fewer:
                keep[bucket.gone(begin, end)] = False
                if name == "score":
                    rows, scores = bucket.changed(begin, end)
                    column[rows] = scores
            code.update((column if keep.all() else column[keep]).data)
            begin = end
    return code.hexdigest()


def remove(room: Path) -> None:
    """Remove what was left on the disk."""
    shutil.rmtree(room)
