"""Ratings from files: delimited text of any dialect, gzip, Parquet, Arrow."""

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from starcast import _native
from starcast.columns import column_positions, is_rating_name, pair_positions
from starcast.errors import DataError, FileError, FileFormatError, choose, plural
from starcast.names import as_names
from starcast.ratings import Ratings, titles_of
from starcast.scale import make_scale, off_scale

if TYPE_CHECKING:
    import polars as pl

GZIP = b"\x1f\x8b"
LONGEST_HEADER = 1 << 20  # bytes; a quote that is open longer than that was none
NOT_BLANK = re.compile(rb"\S")
QUOTED, QUOTED_TEXT = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"'), re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
SEPARATORS = ("::", "\t", ",", ";", "|", " ")


def read_ratings(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    scores: object = None,
    duplicates: str = "error",
    on_bad: str = "error",
    encoding: str = "utf-8",
    titles: Mapping[Any, str] | None = None,
) -> Ratings:
    """Return the ratings of a file.

    Parameters
    ----------
    path : path
        Text (CSV, TSV, ``::``, spaces, …), the same compressed with gzip, Parquet, or an Arrow file.
    sep : str, optional
        What separates the columns of a text; found out if not given. ``" "`` is any run of blanks.
    columns : sequence of str or int, optional
        The user, item and rating column and, if wanted, the timestamp's, by name or position. By default usual
        names are recognised; a text without header is read as user, item, rating and maybe timestamp.
    header : bool, optional
        Whether the first line names the columns; found out if not given.
    scores : sequence of float, optional
        The scale; by default the ratings that occur.
    duplicates : {"error", "first", "last", "mean"}
        See :meth:`Ratings.from_arrays`.
    on_bad : {"error", "skip"}
        What becomes of lines that cannot be read.
    encoding : str
        Of a text.
    titles : mapping from item to str, optional
    """
    choose("on_bad", on_bad, ["error", "skip"])
    file = Path(path)
    content = _read_bytes(file)
    if content[:4] == b"PAR1" or content[:6] == b"ARROW1":
        frame = _read_columnar(file, content)
        return Ratings.from_frame(frame, columns=columns, scores=scores, duplicates=duplicates, titles=titles)  # type: ignore[arg-type]
    text = _decode(file, content, encoding)
    start = text.startswith(b"\xef\xbb\xbf") * 3  # a byte order mark is not part of the first name
    check_separator(sep)
    first, sep, end = first_record(file, text, start, sep)
    positions, has_header = find_layout(file, first, sep, columns, header)
    begin = end if has_header else start
    above = text.count(b"\n", 0, begin)  # lines that are not counted among those that hold ratings
    try:
        table = _native.read_text(text, begin, sep, *positions, threads_for(len(text)))
    except UnicodeDecodeError:
        raise not_utf8(file) from None
    last = text.rstrip().count(b"\n") + 1 if "open_quote" in table["mistakes"] else 0
    check_lines(table["mistakes"], file.name, above, last, on_bad)
    return _table(table, file, scores, above, titles, positions[3] >= 0).without_duplicates(duplicates)


def read_pairs(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the users and the items of a file with a column for each, as text.

    The columns are recognised by their names; without a header the first two are taken.
    """
    file = Path(path)
    content = _read_bytes(file)
    if content[:4] == b"PAR1" or content[:6] == b"ARROW1":
        frame = _read_columnar(file, content)
        header = tuple(frame.columns)
        rows = [tuple("" if cell is None else str(cell) for cell in row) for row in frame.rows()]
    else:
        text = _decode(file, content, "utf-8").decode("utf-8-sig", "replace")
        lines = [line for line in text.split("\n") if line.strip()]
        if not lines:
            raise DataError(f"{file} is empty. A file of pairs has a line per pair: user, item.")
        sep = next((sep for sep in SEPARATORS if len(_fields(lines[0], sep)) >= 2), ",")
        header, *rows = [tuple(_fields(line, sep)) for line in lines]
        if pair_positions(header) is None:
            rows.insert(0, header)
    user, item = pair_positions(header) or (0, 1)
    short = [row for row in rows if len(row) <= max(user, item) or not row[user] or not row[item]]
    if short:
        raise DataError(
            f"a line must have a user and an item, got {short[0]!r} ({plural(len(short), 'such line')}) in {file.name}."
        )
    return [row[user] for row in rows], [row[item] for row in rows]


@contextlib.contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into an error that says so."""
    try:
        if file.is_dir():
            raise FileError(f"{file} is a folder. Give the file with the ratings in it.")
        yield
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"there is no file {file}. Check the name; relative paths start at {Path.cwd()}.") from None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # a name with a NUL byte
        raise FileError(f"{str(file)!r} is no name of a file: {error}.") from None


def _read_bytes(file: Path) -> bytes:
    with reading(file):
        content = file.read_bytes()
    if content[:2] == GZIP:
        with unpacking(file):
            content = gzip.decompress(content)
    if not content or content.isspace():
        raise DataError(f"{file} is empty. A ratings file has a line per rating: user, item, rating.")
    return content


@contextlib.contextmanager
def unpacking(file: Path) -> Iterator[None]:
    """Turn what goes wrong with a gzip file into an error that says so."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{file} is a damaged gzip file ({error}). Fetch it again.") from None


def _read_columnar(file: Path, content: bytes) -> "pl.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(content) if content[:4] == b"PAR1" else pl.read_ipc(content)
    # Polars raises many kinds, one of them no Exception, and all of them mean that the file is damaged.
    except (Exception, pl.exceptions.PanicException) as error:
        raise FileFormatError(
            f"{file} cannot be read as {'Parquet' if content[:4] == b'PAR1' else 'Arrow'}: {error}"
        ) from None


def _decode(file: Path, content: bytes, encoding: str) -> bytes:
    """Return the text as UTF-8."""
    try:
        if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
            content = content.decode(encoding).encode()
    except (LookupError, AttributeError, ValueError) as error:
        raise wrong_encoding(file, encoding, error) from None
    check_text(file, content)
    return content


def wrong_encoding(file: Path, encoding: object, error: Exception) -> DataError:
    """Return the error for an encoding that the text has not, or that there is not."""
    if isinstance(error, UnicodeError):
        return DataError(f"{file.name} is not {encoding} text ({error}). Pass the right encoding=.")
    return DataError(f"encoding must be one that Python knows, got {encoding!r}.")


def check_text(file: Path, content: bytes) -> None:
    """Raise an error if a file does not begin like a text."""
    if file.suffix.lower() in (".parquet", ".arrow", ".feather", ".ipc"):
        raise FileFormatError(f"{file.name} does not begin like a Parquet or Arrow file. Write it again, or rename it.")
    if b"\0" in content[:4096]:
        raise FileFormatError(f"{file.name} is no text: it holds NUL bytes. If it is UTF-16, pass encoding='utf-16'.")


def check_separator(sep: object) -> None:
    """Raise an error unless columns can be cut there."""
    if sep is not None and (not isinstance(sep, str) or not sep or "\n" in sep or '"' in sep):
        raise DataError(f"sep must be a text of at least one character, not a quote or a line break, got {sep!r}.")


def first_record(file: Path, text: bytes, start: int, sep: str | None) -> tuple[str, str, int]:
    """Return the first record that is not blank, the separator that cuts it, and where the next record begins.

    The most telling separator that gives three columns is taken. Where quotes are open, the record goes on in the next
    line; where they are open to no end, they were none, and the line stands for itself.
    """
    letter = NOT_BLANK.search(text, start)
    if letter is None:
        raise DataError(f"{file} is empty. A ratings file has a line per rating: user, item, rating.")
    begin = max(text.rfind(b"\n", start, letter.start()) + 1, start)
    window = text[begin : begin + LONGEST_HEADER]
    for candidate in SEPARATORS if sep is None else (sep,):
        length = _record_length(window, candidate)
        record = _utf8(file, window[:length])
        if len(_fields(record, candidate)) >= 3 and (length < len(window) or begin + length == len(text)):
            return record, candidate, begin + length
    end = text.find(b"\n", begin) + 1 or len(text)
    return _utf8(file, text[begin:end]), "," if sep is None else sep, end


def _record_length(text: bytes, sep: str) -> int:
    """Return the length of the first record with its line break; 0 if one of its quotes is never closed."""
    stops = re.compile(b"\n|" + (rb"[ \t]+" if sep == " " else re.escape(sep.encode("utf-8", "replace"))))
    at = 0
    while True:
        quoted = QUOTED.match(text, at)
        if quoted is None and text[at : at + 1] == b'"':
            return 0
        stop = stops.search(text, quoted.end() if quoted else at)
        if stop is None or stop[0] == b"\n":
            return stop.end() if stop else len(text)
        at = stop.end()


def _utf8(file: Path, text: bytes) -> str:
    try:
        return text.decode().strip("\r\n")
    except UnicodeDecodeError:
        raise not_utf8(file) from None


def not_utf8(file: Path) -> DataError:
    """Return the error for bytes that are no text."""
    return DataError(f"{file.name} is not UTF-8 text. Pass its encoding, such as encoding='latin-1'.")


def _fields(record: str, sep: str) -> list[str]:
    """Return the fields of one record, cut as the native reader cuts them: a quoted field may hold the separator."""
    stops = re.compile(r"[ \t]+" if sep == " " else re.escape(sep))
    record = record.strip(" \t") if sep == " " else record
    fields: list[str] = []
    at = 0
    while True:
        quoted = QUOTED_TEXT.match(record, at)
        stop = stops.search(record, quoted.end() if quoted else at)
        field = record[at : stop.start() if stop else len(record)].strip(" \t\r")
        fields.append(field[1:-1].replace('""', '"') if len(field) > 1 and field[0] == field[-1] == '"' else field)
        if stop is None:
            return fields
        at = stop.end()


def find_layout(
    file: Path, first: str, sep: str, columns: Sequence[str | int] | None, header: bool | None
) -> tuple[tuple[int, int, int, int], bool]:
    """Return the columns of user, item, rating, timestamp (-1: none) and whether there is a header."""
    fields = _fields(first, sep)
    if len(fields) < 3:
        better = [repr(s) for s in SEPARATORS if len(_fields(first, s)) >= 3]
        hint = f" The line looks separated by {better[0]}: pass sep={better[0]}." if better else ""
        raise DataError(
            f"a line needs at least 3 columns (user, item, rating), got {len(fields)} when {file.name} is cut at "
            f"{sep!r}: {first[:60]!r}.{hint}"
        )
    if header is None:
        named = isinstance(columns, Sequence) and any(isinstance(column, str) for column in columns)
        header = named or any(map(is_rating_name, fields)) or not any(map(_is_number, fields))
    if header:
        found = column_positions(fields, columns, file.name)
    elif columns is not None:
        found = column_positions([str(at) for at in range(len(fields))], columns, file.name)
    else:
        found = [0, 1, 2, 3] if len(fields) > 3 and _is_number(fields[3]) else [0, 1, 2]
    user, item, rating, time = (*found, -1)[:4]
    return (user, item, rating, time), header


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def threads_for(size: int) -> int:
    """Return how many threads a text of so many bytes is worth."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, size // 1_000_000))


MISTAKES = {
    "few_columns": "a line must have a column for user, item, rating and what else was named, got {text!r}",
    "open_quote": "a quote must be closed, got {text!r}",
    "no_user": "a user must have a name, got an empty one in {text!r}",
    "no_item": "an item must have a name, got an empty one in {text!r}",
    "rating_not_number": "rating must be a number, got {text!r}",
    "rating_not_finite": "rating must be finite, got {text!r}",
    "bad_time": "timestamp must be a number of seconds, got {text!r}",
}


def check_lines(mistakes: dict[str, tuple[int, int, bytes]], name: str, above: int, last: int, on_bad: str) -> None:
    """Raise an error for the first mistake; where they are to be skipped, only for one that takes good lines along."""
    if on_bad == "skip":  # a quote without an end takes in the rest of the file
        mistakes = {kind: at for kind, at in mistakes.items() if kind == "open_quote" and at[1] + above < last}
    if not mistakes:
        return
    kind, (count, line, text) = min(mistakes.items(), key=lambda mistake: mistake[1][1])
    found = MISTAKES[kind].format(text=text.decode(errors="replace"))
    cure = 'Fix them, or pass on_bad="skip" to leave them out.'
    if kind == "open_quote":
        cure = "Close or remove it: all that follows would be lost."
    raise DataError(f"{found} (line {line + above:,} of {name}; {plural(count, 'such line')}). {cure}")


def _table(
    table: dict[str, Any], file: Path, scores: object, above: int, titles: Mapping[Any, str] | None, timed: bool
) -> Ratings:
    """Return the columns that were read as ratings on their scale."""
    if len(table["user"]) == 0:
        raise DataError(f"{file.name} holds no rating that can be read.")
    values = table["scores"]
    scale = make_scale(values if scores is None else scores)
    places = np.searchsorted(scale, values)
    off = scale[np.minimum(places, len(scale) - 1)] != values
    if off.any():
        at = int(np.flatnonzero(off)[np.argmin(table["score_lines"][off])])
        count = int(np.isin(table["score"], np.flatnonzero(off)).sum())
        raise DataError(
            off_scale(values[at], count, scale, f" in line {table['score_lines'][at] + above:,} of {file.name}")
        )
    users, items = as_names(table["users"], "users"), as_names(table["items"], "items")
    return Ratings(
        users,
        items,
        scale,
        table["user"],
        table["item"],
        places.astype(np.int8)[table["score"]],
        table["time"] if timed else None,
        titles_of(items, titles),
    )
