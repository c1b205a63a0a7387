"""Parts of a table, files or frames, read in blocks that fit in memory, as :func:`starcast.read_ratings` reads them."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.columns import column_positions
from starcast.distributed.texts import read_text
from starcast.errors import DataError, FileError, FileFormatError, ParameterError, choose
from starcast.io import check_separator, is_columnar, reading
from starcast.names import Array, Codes, as_column, strings
from starcast.ratings import columns_of
from starcast.scale import as_times, make_scale, off_scale, place_on

if TYPE_CHECKING:
    import polars as pl

TEXT_SHARE = 16  # bytes of memory for a byte of text: short lines give that much of codes and copies
ROW_SHARE = 512  # bytes of memory for a row of a frame with names that are text
UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
LEAST_MEMORY = 16 << 20


class Block(NamedTuple):
    """Some ratings that follow each other, in codes of their own; `mixes` tells whether numbers may become text."""

    users: Array
    items: Array
    values: npt.NDArray[np.float64]
    user: Codes
    item: Codes
    score: npt.NDArray[np.integer[Any]]
    time: npt.NDArray[np.int64] | None
    mixes: bool
    skipped: int = 0


@dataclass(frozen=True)
class Reading:
    """How parts are read; those of :func:`starcast.read_ratings` and the bytes that a process may take for it."""

    sep: str | None = None
    columns: Sequence[str | int] | None = None
    header: bool | None = None
    scores: Sequence[float] | None = None
    on_bad: str = "error"
    encoding: str = "utf-8"
    memory: int = 1 << 30
    ids: str = "auto"
    off_scale: str = "error"

    def __post_init__(self) -> None:
        choose("on_bad", self.on_bad, ["error", "skip"])
        choose("ids", self.ids, ["auto", "text"])
        choose("off_scale", self.off_scale, ["error", "nearest"])
        check_separator(self.sep)


def find_parts(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that names, patterns and folders stand for: sorted where one stands for many."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[Path] = []
    for path in given:
        if Path(path).is_dir():
            inside = sorted(file for file in Path(path).iterdir() if file.is_file() and file.name[0] not in "._")
        elif not Path(path).exists() and glob.has_magic(str(path)):
            names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207, a Path globs below itself only
            inside = [Path(name) for name in names if Path(name).is_file()]
        else:
            inside = [Path(path)]
        if not inside:
            raise FileError(f"no file is meant by {os.fspath(path)!r}. Relative paths start at {Path.cwd()}.")
        found += inside
    if not found:
        raise DataError("cut_ratings needs at least one file, got none.")
    return [file.absolute() for file in found]  # a worker may be in another folder


def parse_memory(memory: str | int) -> int:
    """Return a number of bytes, given as such or as text.

    >>> parse_memory("1.5 GB"), parse_memory(1 << 26)
    (1610612736, 67108864)
    """
    text = str(memory).replace(" ", "").lower().replace("ib", "b")
    unit = text.lstrip("0123456789.")
    try:
        size = int(float(text[: len(text) - len(unit)]) * UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise ParameterError(f"memory must be a number of bytes, such as '500MB' or '2GB', got {memory!r}.") from None
    if size < LEAST_MEMORY:
        raise ParameterError(f"memory must be at least {LEAST_MEMORY >> 20} MB, got {memory!r}.")
    return size


def read_blocks(part: Any, how: Reading) -> Iterator[Block]:
    """Yield the ratings of a file or a frame, block by block; its mistakes are those that read_ratings would tell."""
    if not isinstance(part, Path):
        yield from _read_frame(_frame_of(part), "the frame", how)
        return
    with reading(part), part.open("rb") as file:
        head = file.read(6)
    if is_columnar(head):
        yield from _read_columnar(part, head, how)
    else:
        yield from _read_text(part, how)


def _read_text(file: Path, how: Reading) -> Iterator[Block]:
    scale = None if how.scores is None else make_scale(how.scores)
    seen: dict[float, tuple[int, int]] = {}  # every rating that is off the scale: its first line, and how often
    for table, above, skipped in read_text(
        file, how.sep, how.columns, how.header, how.on_bad, how.encoding, how.ids, how.memory // TEXT_SHARE
    ):
        values = table["scores"]
        if scale is not None:
            counts = np.bincount(table["score"], minlength=len(values))
            for at in np.flatnonzero(place_on(values, scale, how.off_scale)[1]).tolist():
                first, before = seen.get(float(values[at]), (int(table["score_lines"][at]) + above, 0))
                seen[float(values[at])] = first, before + int(counts[at])
        users, items = (_names(table[side]) for side in ("users", "items"))
        time = table["time"] if len(table["time"]) else None
        yield Block(users, items, values, table["user"], table["item"], table["score"], time, True, skipped)
    if seen and scale is not None:
        value = min(seen, key=lambda value: seen[value][0])
        where = f" in line {seen[value][0]:,} of {file.name}"
        raise DataError(off_scale(value, sum(count for _, count in seen.values()), scale, where))


def _names(names: Any) -> Array:
    """Return the names that the native reader found: an array if all are numbers, else a list of texts."""
    return strings(names) if isinstance(names, list) else np.asarray(names, np.int64)


def _read_columnar(file: Path, head: bytes, how: Reading) -> Iterator[Block]:
    import polars as pl

    try:
        frame = pl.scan_parquet(file) if head[:4] == b"PAR1" else pl.scan_ipc(file)
        yield from _read_frame(frame, file.name, how)
    # Polars raises many kinds, one of them no Exception, and all of them mean that the file is damaged.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if isinstance(error, FileError):
            raise
        kind = "Parquet" if head[:4] == b"PAR1" else "Arrow"
        raise FileFormatError(f"{file} cannot be read as {kind}: {error}") from None


def _frame_of(part: Any) -> "pl.LazyFrame":
    """Return a block of a Ray Dataset, which is an Arrow table, for Polars."""
    import polars as pl

    return pl.DataFrame(part).lazy()


def _read_frame(frame: "pl.LazyFrame", name: str, how: Reading) -> Iterator[Block]:
    import polars as pl

    header = frame.collect_schema().names()
    chosen = [header[at] for at in column_positions(header, how.columns, name)]
    rows = int(frame.select(pl.len()).collect().item())
    step = max(1, how.memory // ROW_SHARE)
    scale = None if how.scores is None else make_scale(how.scores)
    for begin in range(0, rows, step):
        some = frame.select(chosen).slice(begin, step).collect()
        where = f" ({name}, rows {begin:,} to {begin + len(some):,})"
        try:
            yield _coded(some, scale, how)
        except DataError as error:
            raise DataError(f"{str(error).removesuffix('.')}{where}.") from None


def _coded(frame: "pl.DataFrame", scale: npt.NDArray[np.float64] | None, how: Reading) -> Block:
    user, item, value, *time = frame
    columns = [as_column(user, "users"), as_column(item, "items"), value.to_numpy(), *map(as_times, time)]
    table = columns_of(columns, how.on_bad, how.ids)
    values, score = np.unique(table.values, return_inverse=True)
    off = np.zeros(len(values), bool) if scale is None else place_on(values, scale, how.off_scale)[1]
    if scale is not None and off.any():
        raise DataError(off_scale(values[off][0], int(off[score].sum()), scale))
    named = (table.users, table.items, values, table.user, table.item, score, table.time)
    return Block(*named, mixes=False, skipped=table.skipped)
