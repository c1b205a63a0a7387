"""Files larger than memory become a folder of shards: names and codes first, then every rating to its place."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from starcast.distributed import shardfiles, spill
from starcast.distributed.naming import Naming, as_json
from starcast.distributed.parts import Reading, find_parts, parse_memory
from starcast.distributed.shards import Shards, cut_evenly
from starcast.distributed.spill import Bucket, Spilled
from starcast.distributed.tasks import run_tasks, workers_of
from starcast.errors import DataError, ParameterError, choose
from starcast.io import read_titles
from starcast.names import Array
from starcast.ratings import describe_duplicates, titles_of
from starcast.scale import MOST_SCORES, make_scale

PURPOSE = "cutting ratings on many machines"
BUCKET_SHARE = 100  # bytes of memory for a rating while those of some users are brought together
OnProgress = Callable[[str, int], None]  # what is being done, how many parts of it are


def cut_ratings(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    memory: str | int = "1GB",
    sep: str | None = None,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    scores: Sequence[float] | None = None,
    off_scale: str = "error",
    duplicates: str = "error",
    on_bad: str = "error",
    ids: str = "auto",
    encoding: str = "utf-8",
    titles: Mapping[Any, str] | str | os.PathLike[str] | None = None,
    engine: Any = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> Shards:
    """Write ratings that need not fit in memory to a folder, by user, and return them as :class:`starcast.Shards`.

    The table is the one that :func:`starcast.read_ratings` would make of the parts one after the other: the same codes,
    scale, duplicates and digest.

    Parameters
    ----------
    source : path, pattern, folder, many of them, or a Ray Dataset
        Parts that :func:`starcast.read_ratings` can read, of one kind or of several: files, all files of a folder, all
        that a pattern such as ``"ratings-*.parquet"`` fits. The blocks of a Ray Dataset are parts, too.
    folder : path
        A new folder; on many machines, one that all of them see. It takes 5 bytes a rating, and while it is being made
        about 27 more, 43 with timestamps and ``duplicates="last"``.
    memory : str or int
        The bytes that ratings may take, such as ``"500MB"``: of this process, or of all workers together. Beside them
        there are the names of users and items (about 40 bytes each where they are numbers, 200 where they are text)
        and the libraries (65 MB, in a process of Ray's 150; to read Parquet, Polars takes 30 more, on many cores 60).
    sep, columns, header, scores, off_scale, duplicates, on_bad, ids, encoding, titles
        As in :func:`starcast.read_ratings`. ``duplicates="last"`` goes by time if every part has timestamps. The keys
        of JSON lines are sought in the first stretch of each part (2 MB or more).
    engine : "ray", optional
        Who reads: the workers of a Ray cluster, or this process.
    workers : int, optional
        How many workers; 2 if not given.
    on_progress : callable, optional
        Called with what is being done and how many parts of it are.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / "a.csv").write_text("ann,7,5\\nbob,7,3\\n"), (place / "b.csv").write_text("ann,9,4\\n")
    >>> shards = cut_ratings(place / "*.csv", place / "cut")
    >>> shards
    Shards(3 ratings, 2 users, 2 items, 3 scores from 3 to 5; 1 shard)
    >>> shards.load(0).user.tolist(), shards.load(0).item.tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    choose("duplicates", duplicates, ["error", "first", "last", "mean"])
    n_workers = workers_of(engine, workers)
    share = max(parse_memory(memory) // (n_workers or 1), 1 << 22)
    scale = None if scores is None else make_scale(scores).tolist()
    how = Reading(sep, columns, header, scale, on_bad, encoding, share, ids, off_scale)
    if isinstance(titles, (str, os.PathLike)):
        titles = read_titles(titles)
    parts = _parts_of(source, n_workers)
    with shardfiles.making(folder) as place:
        room = place.path / "spill"
        room.mkdir()
        table = _fill(place, room, parts, how, duplicates, n_workers, on_progress or _silent)
        place.finish(table | {"titles": titles_of(table["items"], titles)})
    return replace(Shards.open(folder), n_skipped=table["skipped"])


def _silent(doing: str, done: int) -> None:
    pass


def _fill(
    place: shardfiles.Folder,
    room: Path,
    parts: Iterable[Any],
    how: Reading,
    duplicates: str,
    workers: int | None,
    tell: OnProgress,
) -> dict[str, Any]:
    """Add the ratings of all parts to a folder, by user, and return what else makes the table."""
    blocks, naming = _read(parts, how, room, workers, duplicates == "last", tell)
    scale = make_scale(np.array(sorted(naming.values)) if how.scores is None else how.scores)
    users, items = naming.finish(blocks, how.ids)
    bounds = _bucket_bounds(naming.user_counts, how.memory)
    sorting = ((block, scale, bounds, how.off_scale) for block in blocks)
    for done, _ in enumerate(run_tasks(spill.sort_block, sorting, workers, PURPOSE), 1):
        tell("sorting", done)
    gathering = ((k, blocks, bounds, len(items), scale, duplicates) for k in range(len(bounds) - 1))
    buckets: list[Bucket] = []
    for bucket in run_tasks(spill.gather_bucket, gathering, workers, PURPOSE):
        buckets.append(bucket)
        tell("gathering", len(buckets))
    _check_duplicates(buckets, duplicates, users, items, scale)
    for bucket in buckets:
        place.add_rows(*bucket.rows())
    table = {
        "users": users,
        "items": items,
        "scores": scale,
        "counts": sum(bucket.counts for bucket in buckets),
        "user_counts": np.concatenate([bucket.user_counts() for bucket in buckets]),
        "item_counts": sum(bucket.item_counts() for bucket in buckets),
        "skipped": naming.skipped,
        "digest": spill.digest(blocks, buckets, chain(as_json(users), as_json(items), [scale.tobytes()])),
    }
    spill.remove(room)
    return table


class _Names:
    """What is known of a table once every part has been read: names, counts by user, and the ratings that occur."""

    def __init__(self) -> None:
        self.users, self.items = Naming("users"), Naming("items")
        self.values: set[float] = set()
        self.user_counts = np.zeros(0, np.int64)
        self.skipped = 0

    def finish(self, blocks: Sequence[Spilled], ids: str) -> tuple[Array, Array]:
        """Return the names of users and items; those that turn out to be whole numbers get their last codes."""
        users, user = self.users.finish(ids)
        items, item = self.items.finish(ids)
        for side, codes in (("to_user", user), ("to_item", item)):
            for block in blocks if codes is not None else ():
                block.save(side, np.asarray(codes)[np.array(block.load(side))])
        if user is not None:
            self.user_counts = np.bincount(user, self.user_counts, len(users)).astype(np.int64)
        return users, items

    def add(self, block: Spilled, fixed_scale: bool) -> None:
        """Give codes to the names of the block that follows, and leave them where its ratings lie."""
        user = self.users.codes(block.names("users"), block.mixes)
        block.save("to_user", user)
        block.save("to_item", self.items.codes(block.names("items"), block.mixes))
        grown = np.zeros(len(self.users), np.int64)
        grown[: len(self.user_counts)] = self.user_counts
        grown[user] += block.load("count")
        self.user_counts = grown
        if fixed_scale:
            return
        self.values |= set(block.load("values").tolist())
        if len(self.values) > MOST_SCORES:
            make_scale(np.array(sorted(self.values)))  # which says what is wrong with that


def _read(
    parts: Iterable[Any], how: Reading, room: Path, workers: int | None, with_times: bool, tell: OnProgress
) -> tuple[list[Spilled], _Names]:
    naming, blocks = _Names(), list[Spilled]()
    tasks = ((part, number, how, room, with_times) for number, part in enumerate(parts))
    for done, (found, skipped) in enumerate(run_tasks(spill.spill_part, tasks, workers, PURPOSE), 1):
        naming.skipped += skipped
        for block in found:
            naming.add(block, how.scores is not None)
            blocks.append(block)
        tell("reading", done)
    if not blocks:
        raise DataError("the parts hold no rating that can be read.")
    return blocks, naming


def _parts_of(source: Any, workers: int | None) -> Iterable[Any]:
    """Return the files, or references to the blocks of a Ray Dataset, in their order."""
    if not hasattr(source, "to_arrow_refs"):
        return find_parts(source)
    if workers is None:
        raise ParameterError('a Ray Dataset is cut by Ray\'s workers: pass engine="ray".')
    options = source.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return list(source.to_arrow_refs())
    finally:
        options.preserve_order = before


def _bucket_bounds(user_counts: Array, memory: int) -> Array:
    """Return where to cut the users so that the ratings of those between two cuts fit in memory."""
    n = int(user_counts.sum() * BUCKET_SHARE // memory) + 1
    return cut_evenly(user_counts, min(n, len(user_counts)))


def _check_duplicates(buckets: list[Bucket], rule: str, users: Array, items: Array, scale: Array) -> None:
    count = sum(bucket.n_again for bucket in buckets)
    if count and rule == "error":
        first = [pair for bucket in buckets for pair in bucket.first_again][:3]
        rows = [(users[user], items[item], scale[one], scale[two]) for user, item, one, two in first]
        raise DataError(describe_duplicates(count, rows))
