"""Ratings from files: delimited text of any dialect, JSON lines, Parquet, Arrow, and what packs them."""

import contextlib
import importlib
import io
import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from starcast import _native
from starcast.columns import (
    column_positions,
    is_rating_name,
    is_time_name,
    names_a_role,
    pair_positions,
    title_positions,
)
from starcast.errors import DataError, FileError, FileFormatError, choose, plural
from starcast.names import Array, Codes, as_names, is_integer, whole_names
from starcast.ratings import Ratings, titles_of
from starcast.scale import make_scale, place_on
from starcast.scale import off_scale as describe_off_scale

if TYPE_CHECKING:
    import polars as pl

PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"PK\x03\x04": "zip", b"PK\x05\x06": "zip"}
MOST_GROWTH = 250  # bytes out of a packed byte; texts give 3 to 30, a file of one repeated line 1,000
CHUNK = 1 << 24
LONGEST_HEADER = 1 << 20  # bytes; a quote that is open longer than that was none
HALF = re.compile("[\ud800-\udfff]")  # half a character of UTF-16
NOT_BLANK = re.compile(rb"\S")
QUOTED, QUOTED_TEXT = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"'), re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
QUOTE_NEEDED = re.compile(r'[",\n\r]|^\s|\s$').search
SEPARATORS = ("::", "\t", ",", ";", "|", " ")
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?", re.IGNORECASE)
FOREIGN = [  # place and bytes by which files that hold no text are known, and what to do with them
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook", "Save the sheet as CSV."),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it first: zstd -d FILE."),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Extract the file with the ratings first."),
    (0, b"Rar!", "a RAR archive", "Extract the file with the ratings first."),
    (257, b"ustar", "a tar archive", "Extract the file with the ratings first."),
    (0, b"SQLite format 3", "an SQLite database", "Read the table into a data frame and use Ratings.from_frame."),
    (0, b"\x89HDF", "an HDF5 file", "Read the table into a data frame and use Ratings.from_frame."),
    (0, b"\x93NUMPY", "a NumPy array", "Load it and use Ratings.from_arrays."),
    (0, b"\x80\x04", "a pickle", "Starcast never unpickles: load it yourself and use Ratings.from_frame."),
    (0, b"\x80\x05", "a pickle", "Starcast never unpickles: load it yourself and use Ratings.from_frame."),
    (0, b"%PDF", "a PDF", "Save the table as CSV."),
]


class Layout(NamedTuple):
    """The columns of user, item, rating and timestamp (-1: none), and how many fields a line must have."""

    user: int
    item: int
    rating: int
    time: int
    least: int
    most: int  # fields beyond it must be empty


def read_ratings(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    scores: object = None,
    off_scale: str = "error",
    duplicates: str = "error",
    on_bad: str = "error",
    ids: str = "auto",
    encoding: str = "utf-8",
    titles: Mapping[Any, str] | str | os.PathLike[str] | None = None,
) -> Ratings:
    """Return the ratings of a file.

    Parameters
    ----------
    path : path
        Text (CSV, TSV, ``::``, spaces, …), JSON lines, Parquet or an Arrow file, each also packed as gzip, bzip2, xz or
        as the only file of a zip archive. ``"-"`` is the standard input.
    sep : str, optional
        What separates the columns of a text; found out if not given. ``" "`` is any run of blanks.
    columns : sequence of str or int, optional
        The user, item and rating column and, if wanted, the timestamp's, by name or position. By default usual
        names are recognised; a text without header is read as user, item, rating and maybe timestamp.
    header : bool, optional
        Whether the first line names the columns; found out if not given.
    scores : sequence of float, optional
        The scale; by default the ratings that occur.
    off_scale : {"error", "nearest"}
        What becomes of ratings between the scores of the scale. See :meth:`Ratings.from_arrays`.
    duplicates : {"error", "first", "last", "mean"}
        See :meth:`Ratings.from_arrays`. "last" is the latest by time where there are timestamps.
    on_bad : {"error", "skip"}
        What becomes of lines that cannot be read: with another number of fields than the first line, without a user or
        item, with a rating that is no number or a timestamp that is no time. `n_skipped` of the result counts those
        left out.
    ids : {"auto", "text"}
        Whether users and items become integers if all of them are whole numbers (``7`` or ``7.0``), or stay text.
    encoding : str
        Of a text.
    titles : mapping from item to str, or path, optional
        A path is read by :func:`read_titles`. The keys 7 and "7" are the same.

    Notes
    -----
    Timestamps may be ISO dates (``2005-09-06``, ``2005-09-06 12:30:00``, ``2005-09-06T12:30:00+02:00``; UTC without
    a zone) or seconds since 1970. Numbers of at least 1e11, 1e14 and 1e17 are milli-, micro- and nanoseconds.

    JSON lines: the keys are those of the first object with a user, an item, a rating and a timestamp. If no object has
    all of them, the keys of all objects together are taken. Where some objects have a timestamp, all need one.
    """
    choose("on_bad", on_bad, ["error", "skip"])
    choose("ids", ids, ["auto", "text"])
    choose("off_scale", off_scale, ["error", "nearest"])
    file = _source(path)
    if isinstance(titles, (str, os.PathLike)):
        titles = read_titles(titles)
    with memory_errors(file):
        content = _read_bytes(path)
        if is_columnar(content):
            frame = _read_columnar(file, content)
            options = {"scores": scores, "off_scale": off_scale, "duplicates": duplicates, "on_bad": on_bad, "ids": ids}
            return Ratings.from_frame(frame, columns=columns, titles=titles, **options)  # type: ignore[arg-type]
        text = _decode(file, content, encoding)
        check_separator(sep)
        text, begin, sep, layout, objects = begin_text(file, text, sep, columns, header, on_bad)
        above = text.count(b"\n", 0, begin)  # lines that are not counted among those that hold ratings
        try:
            table = _native.read_text(text, begin, sep, *layout, ids == "text", threads_for(len(text)))
        except UnicodeDecodeError:
            raise not_utf8(file) from None
        mistakes = table["mistakes"]
        last = text.rstrip().count(b"\n") + 1 if "open_quote" in mistakes else 0
        check_lines(mistakes, file.name, above, last, on_bad, layout, len(table["user"]))
        skipped = sum(mistake[0] for mistake in mistakes.values()) + (objects.n_bad if objects else 0)
        del content, text
        ratings = _table(table, file, scores, off_scale, above, titles, layout.time >= 0, ids, skipped)
        return ratings.without_duplicates(duplicates)


def read_pairs(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the users and the items of a file with a column for each, as text.

    The columns are recognised by their names; without a header the first two are taken.
    """
    file = _source(path)
    header, rows, named = _read_rows(path, "A file of pairs has a line per pair: user, item.")
    found = pair_positions(header)
    if found is None and (named or names_a_role(header)):
        raise DataError(
            f"a header of pairs must name the user and the item, got {', '.join(header)} in {file.name}. Call these "
            "columns user and item."
        )
    if found is None:
        rows.insert(0, header)
    user, item = found or (0, 1)
    short = [row for row in rows if len(row) <= max(user, item) or not row[user] or not row[item]]
    if short:
        raise DataError(
            f"a line must have a user and an item, got {short[0]!r} ({plural(len(short), 'such line')}) in {file.name}."
        )
    return [row[user] for row in rows], [row[item] for row in rows]


def read_titles(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> dict[Any, str]:
    """Return the titles of items from a file with a column for each.

    The columns are recognised by their names (item, item_id, movieId, …; title or name); without such a header the
    first two are taken. The file may be packed, or Parquet, as in :func:`read_ratings`. Items are integers if all of
    them are whole numbers, else text; where ratings take titles, the keys 7 and "7" are the same.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "titles.csv"
    >>> _ = file.write_text('item,title\\n7,Heat\\n9,"Apollo 13, the film"\\n')
    >>> read_titles(file)
    {7: 'Heat', 9: 'Apollo 13, the film'}
    """
    file = _source(path)
    header, rows, named = _read_rows(path, "A file of titles has a line per item: item, title.", encoding)
    found = title_positions(header)
    if found is None and named:
        raise DataError(
            f"a table of titles must name the item and the title, got {', '.join(header)} in {file.name}. Call these "
            "columns item and title."
        )
    if found is None:
        rows.insert(0, header)
    item, title = found or (0, 1)
    short = [row for row in rows if len(row) <= max(item, title) or not row[item]]
    if short:
        raise DataError(
            f"a line must have an item and a title, got {short[0]!r} ({plural(len(short), 'such line')}) in "
            f"{file.name}."
        )
    whole = all(is_integer(row[item]) for row in rows)
    return {int(row[item]) if whole else row[item]: row[title] for row in rows}


def _read_rows(
    path: str | os.PathLike[str], what: str, encoding: str = "utf-8"
) -> tuple[tuple[str, ...], list[Any], bool]:
    """Return the first row of a small table and the others, as text, and whether the first surely names columns."""
    file = _source(path)
    with memory_errors(file):
        content = _read_bytes(path)
        if is_columnar(content):
            frame = _read_columnar(file, content)
            cells = [tuple("" if cell is None else str(cell) for cell in row) for row in frame.rows()]
            return tuple(frame.columns), cells, True
        text = _utf8(file, _decode(file, content, encoding)).removeprefix("\ufeff")
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if not lines:
            raise DataError(f"{file} is empty. {what}")
        if is_json(file, text[:4096].encode()):
            return *_read_objects(file, lines), True
        sep = next((sep for sep in SEPARATORS if len(_fields(lines[0][1], sep)) >= 2), ",")
        header, *rows = [tuple(_fields(line, sep)) for _, line in lines]
    for (number, line), row in zip(lines[1:], rows, strict=True):
        if any(row[len(header) :]):
            raise DataError(
                f"a line must have {plural(len(header), 'field')}, as the first one has, got {len(row)} in "
                f"{line[:60]!r} (line {number:,} of {file.name}). Quote a field that holds {sep!r}."
            )
    return header, rows, False


def _read_objects(file: Path, lines: Sequence[tuple[int, str]]) -> tuple[tuple[str, ...], list[Any]]:
    """Return the keys and the rows of a small table with one JSON object a line."""
    objects = []
    for number, line in lines:
        row = _json_object(line)
        if row is None:
            raise DataError(
                f"a line must be a JSON object, got {line[:60]!r} (line {number:,} of {file.name}). Fix or remove it."
            )
        objects.append(row)
    header = tuple(dict.fromkeys(key for row in objects for key in row))
    return header, [tuple("" if row.get(key) is None else str(row[key]) for key in header) for row in objects]


def _source(path: str | os.PathLike[str]) -> Path:
    """Return the path, with a name for the standard input that can stand in an error."""
    return Path("standard input") if path == "-" else Path(path)


@contextlib.contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into an error that says so."""
    try:
        if file.is_dir():
            raise FileError(f"{file} is a folder. Give the file with the ratings in it.")
        if file.is_char_device() or file.is_block_device():
            raise FileError(f"{file} is a device. Give a file, or - for the standard input.")
        yield
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"there is no file {file}. Check the name; relative paths start at {Path.cwd()}.") from None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # a name with a NUL byte
        raise FileError(f"{str(file)!r} is no name of a file: {error}.") from None


@contextlib.contextmanager
def memory_errors(file: Path) -> Iterator[None]:
    """Turn a MemoryError into an error that says what to do."""
    try:
        yield
    except MemoryError:
        raise FileError(
            f"{file} does not fit in memory. Read it in parts that do: starcast.cut_ratings, or starcast shards."
        ) from None


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file or of the standard input, unpacked."""
    file = _source(path)
    if path == "-":
        content = _read_input()
    else:
        with reading(file):
            content = file.read_bytes()
    if packing(content):
        content = _unpack(file, content)
    if not content or content.isspace():
        raise DataError(f"{file} is empty. A ratings file has a line per rating: user, item, rating.")
    return content


def _read_input() -> bytes:
    if sys.stdin is None:  # closed before Python began
        raise FileError("standard input is closed. Send a file to it: - < ratings.csv.")
    stream = sys.stdin.buffer
    mode = 0
    with contextlib.suppress(OSError, ValueError):  # not a real file, as in a notebook
        mode = os.fstat(stream.fileno()).st_mode
    if stat.S_ISCHR(mode) and not stream.isatty():
        raise FileError("standard input is a device, which may never end. Send a file to it: - < ratings.csv.")
    return stream.read()


def _unpack(file: Path, content: bytes) -> bytes:
    """Return what a packed file holds, unless it is many times larger than any text would be."""
    most = MOST_GROWTH * len(content) + CHUNK
    pieces: list[bytes] = []
    with unpacking(file, packing(content)):
        stream = unpacked(file, io.BytesIO(content))
        while piece := stream.read(CHUNK):
            pieces.append(piece)
            most -= len(piece)
            if most < 0:
                raise FileFormatError(
                    f"{file} unpacks to more than {MOST_GROWTH} times its size, which no file of ratings does. Unpack "
                    "it yourself if you trust it."
                )
    return b"".join(pieces)


def is_columnar(head: bytes) -> bool:
    """Tell whether a file that begins like this is Parquet or Arrow."""
    return head.startswith((b"PAR1", b"ARROW1"))


def packing(head: bytes) -> str:
    """Return how a file that begins like this is packed, or nothing."""
    return next((kind for magic, kind in PACKED.items() if head.startswith(magic)), "")


def unpacked(file: Path, handle: IO[bytes]) -> IO[bytes]:
    """Return a stream of what an open file holds, unpacked if it is packed."""
    kind = packing(handle.read(8))
    handle.seek(0)
    if kind == "zip":
        return _only_member(file, handle)
    if kind == "":
        return handle
    module = importlib.import_module({"gzip": "gzip", "bzip2": "bz2", "xz": "lzma"}[kind])
    return module.open(handle)  # type: ignore[no-any-return]


def _only_member(file: Path, handle: IO[bytes]) -> IO[bytes]:
    import zipfile

    archive = zipfile.ZipFile(handle)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if "[Content_Types].xml" in names:
        raise FileFormatError(
            f"{file.name} is an Excel workbook or another Office document. Save the sheet with the ratings as CSV."
        )
    if len(names) != 1:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise FileFormatError(
            f"{file.name} must hold one file to be read as a zip archive, got {len(names)}"
            f"{f' ({shown})' if names else ''}. Extract the file with the ratings."
        )
    with archive.open(names[0]) as member:
        kind = packing(member.read(8))
    if kind:
        raise FileFormatError(
            f"{file.name} holds {names[0]}, which is packed itself ({kind}). Extract it and read the file that it is."
        )
    return archive.open(names[0])


@contextlib.contextmanager
def unpacking(file: Path, kind: str) -> Iterator[None]:
    """Turn what goes wrong with a packed file into an error that says so."""
    try:
        yield
    except (FileError, MemoryError):
        raise
    except RuntimeError as error:  # a password, or a way of packing that Python does not know
        raise FileFormatError(f"{file} cannot be unpacked: {error}. Unpack it by other means.") from None
    except Exception as error:  # each of the four libraries has errors of its own
        raise FileFormatError(f"{file} is a damaged {kind} file ({error}). Fetch it again.") from None


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
            with warnings.catch_warnings():  # unicode_escape warns of escapes that it does not know
                warnings.simplefilter("ignore", DeprecationWarning)
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
    for place, magic, kind, advice in FOREIGN:
        if content[place : place + len(magic)] == magic:
            raise FileFormatError(f"{file.name} is {kind}, no text. {advice}")
    if re.match(rb"(?:\xef\xbb\xbf)?\s*+\[\s*+\{", content):
        raise FileFormatError(f"{file.name} is a JSON array. Write one object a line (JSON lines): jq -c '.[]' FILE.")
    if b"\n" not in content and b"\r" in content.strip():
        raise FileFormatError(
            f"the lines of {file.name} must end with a line feed, got carriage returns alone. Convert them: "
            "tr '\\r' '\\n' < FILE."
        )
    if b"\0" in content[:4096]:
        raise FileFormatError(f"{file.name} is no text: it holds NUL bytes. If it is UTF-16, pass encoding='utf-16'.")


def check_separator(sep: object) -> None:
    """Raise an error unless columns can be cut there."""
    if sep is not None and (not isinstance(sep, str) or not sep or "\n" in sep or '"' in sep):
        raise DataError(f"sep must be a text of at least one character, not a quote or a line break, got {sep!r}.")


def begin_text(
    file: Path, text: bytes, sep: str | None, columns: Sequence[str | int] | None, header: bool | None, on_bad: str
) -> tuple[bytes, int, str, Layout, "JsonLines | None"]:
    """Return the text for the native reader, where its ratings begin, its separator and its layout.

    Of JSON lines it is the converted text; the converter for what follows comes with it.
    """
    start = text.startswith(b"\xef\xbb\xbf") * 3  # a byte order mark is not part of the first name
    if is_json(file, text[start:]):
        objects = JsonLines(file, columns, on_bad)
        text = objects.convert(text[start:])
        return text, 0, ",", objects.layout(), objects
    first, sep, end = first_record(file, text, start, sep)
    layout, has_header = find_layout(file, first, sep, columns, header)
    return text, end if has_header else start, sep, layout, None


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
) -> tuple[Layout, bool]:
    """Return where the columns are and whether there is a header."""
    fields = _fields(first, sep)
    if len(fields) < 3:
        raise DataError(
            f"a line needs at least 3 columns (user, item, rating), got {len(fields)} when {file.name} is cut at "
            f"{sep!r}: {first[:60]!r}.{_layout_hint(file, first)}"
        )
    if header is None:
        named = isinstance(columns, Sequence) and any(isinstance(column, str) for column in columns)
        header = named or any(map(is_rating_name, fields)) or not any(map(_is_number, fields))
    if header:
        found = column_positions(fields, columns, file.name)
    elif columns is not None:
        found = column_positions([str(at) for at in range(len(fields))], columns, file.name)
    else:
        timed = len(fields) > 3 and (_is_number(fields[3]) or DATE.fullmatch(fields[3]))
        found = [0, 1, 2, 3] if timed else [0, 1, 2]
    user, item, rating, time = (*found, -1)[:4]
    least = len(fields)
    while not fields[least - 1] and least > max(found) + 1:  # a separator at the end, or a last field that is empty
        least -= 1
    return Layout(user, item, rating, time, least, len(fields)), header


def _layout_hint(file: Path, first: str) -> str:
    """Return what is known of a file whose first line cannot be cut into three columns."""
    if re.fullmatch(r"\d+:", first.strip()):
        command = f'awk -F, \'/:$/{{m=$1+0;next}}{{print $1","m","$2","$3}}\' {file.name} > ratings.csv'
        return f" Lines such as {first.strip()!r} are the layout of the Netflix Prize; make a CSV of it: {command}"
    better = [repr(s) for s in SEPARATORS if len(_fields(first, s)) >= 3]
    return f" The line looks separated by {better[0]}: pass sep={better[0]}." if better else ""


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
    "field_count": "a line must have {wanted}, as the first one has, got {fields} in {text!r}",
    "open_quote": "a quote must be closed, got {text!r}",
    "no_user": "a user must have a name, got an empty one in {text!r}",
    "no_item": "an item must have a name, got an empty one in {text!r}",
    "rating_not_number": "rating must be a number, got {text!r}",
    "rating_not_finite": "rating must be finite, got {text!r}",
    "bad_time": "timestamp must be a number of seconds or a date such as 2005-09-06, got {text!r}",
}
NAMED_COLUMNS = 'columns=("USER", "ITEM", "RATING")'
ADVICE = {
    "field_count": 'Quote a field that holds the separator, or pass on_bad="skip" to leave such lines out.',
    "open_quote": "Close or remove it: all that follows would be lost.",
    "bad_time": f'Fix them, pass on_bad="skip" to leave them out, or read no timestamps: {NAMED_COLUMNS}.',
}
NOTHING_READ = {
    "field_count": "No line has as many fields as the first. Give the first line a name for each column.",
    "bad_time": f"No line can be read. Write dates as 2005-09-06, or read no timestamps: {NAMED_COLUMNS}.",
}
Mistakes = dict[str, tuple[int, int, bytes, int]]  # count, first line, its text, its number of fields


def check_lines(mistakes: Mistakes, name: str, above: int, last: int, on_bad: str, layout: Layout, n_good: int) -> None:
    """Raise an error for the first mistake; where they are to be skipped, only for one that takes good lines along."""
    if on_bad == "skip":  # a quote without an end takes in the rest of the file
        mistakes = {kind: at for kind, at in mistakes.items() if kind == "open_quote" and at[1] + above < last}
    if not mistakes:
        return
    kind, (count, line, found, fields) = min(mistakes.items(), key=lambda mistake: mistake[1][1])
    text = found.decode(errors="replace")
    wanted = plural(layout.least if fields < layout.least else layout.most, "field")
    advice = ADVICE.get(kind, 'Fix them, or pass on_bad="skip" to leave them out.')
    if n_good == 0 and kind != "open_quote":  # to skip them would leave nothing
        advice = NOTHING_READ.get(kind, f"No line can be read. Name the right columns: {NAMED_COLUMNS}.")
    if kind == "rating_not_number" and re.fullmatch(r"-?\d+,\d+", text):
        advice = f"Write numbers with a decimal point, not a comma: {text.replace(',', '.')}."
    told = MISTAKES[kind].format(text=text, wanted=wanted, fields=fields)
    raise DataError(f"{told} (line {line + above:,} of {name}; {plural(count, 'such line')}). {advice}")


def is_json(file: Path, text: bytes) -> bool:
    """Tell whether a text is one JSON object a line."""
    return file.suffix.lower() in (".jsonl", ".ndjson") or re.match(rb"\s*\{\s*\"", text) is not None


class JsonLines:
    """One JSON object a line, turned into the text that the native reader reads.

    What makes names, ratings and times of the values is the same as for any other text. Each line gives one line, so
    that errors name the right one.
    """

    def __init__(self, file: Path, columns: Sequence[str | int] | None, on_bad: str) -> None:
        self.file, self.columns, self.on_bad = file, columns, on_bad
        self.n_bad = self._lines_above = 0
        self._keys: list[str] = []
        self._met: set[str] = set()

    def layout(self) -> Layout:
        """Return where user, item, rating and maybe timestamp are in the text that was made."""
        n = max(len(self._keys), 3)
        return Layout(0, 1, 2, 3 if n == 4 else -1, n, n)

    def convert(self, text: bytes) -> bytes:
        """Return the lines that follow as comma-separated text."""
        try:
            lines = text.decode().split("\n")
        except UnicodeDecodeError:
            raise not_utf8(self.file) from None
        if not self._keys:
            self._find_keys(lines)
        converted = [self._convert_line(number, line) for number, line in enumerate(lines, self._lines_above + 1)]
        self._lines_above += len(lines) - 1  # what follows begins after the last line break
        try:
            return "\n".join(converted).encode()
        except UnicodeEncodeError:  # JSON can write half a character, which no text can hold
            first = self._lines_above - len(lines) + 2
            whole = [self._reject(n, line) if HALF.search(line) else line for n, line in enumerate(converted, first)]
            return "\n".join(whole).encode()

    def _find_keys(self, lines: Sequence[str]) -> None:
        """Take the keys of the first object with all roles; where none has them, what the objects have together."""
        seen: dict[str, None] = {}
        for line in lines:
            row = _json_object(line)
            if row is None or row.keys() <= seen.keys():
                continue
            seen |= dict.fromkeys(row)
            with contextlib.suppress(DataError):
                keys = self._choose_keys(list(row))
                if self.columns is not None or len(keys) == 4:
                    self._keys = keys
                    return
        if seen:
            self._keys = self._choose_keys(list(seen))

    def _choose_keys(self, header: Sequence[str]) -> list[str]:
        return [header[at] for at in column_positions(header, self.columns, self.file.name)]

    def _convert_line(self, number: int, line: str) -> str:
        if not line or line.isspace():
            return ""
        row = _json_object(line)
        if row is None:
            return self._reject(number, line)
        if not row.keys() <= self._met:
            self._meet(number, row)
        return ",".join([_cell(row.get(key)) for key in self._keys])

    def _meet(self, number: int, row: dict[str, Any]) -> None:
        """Raise an error for times that begin after the first stretch of a long file, from which the keys come."""
        late = [key for key in row if is_time_name(key)]
        if late and self.columns is None and len(self._keys) == 3:
            raise DataError(
                f"all objects must have a timestamp, or none; got {late[0]!r} first in line {number:,} of "
                f"{self.file.name}. Read no timestamps: {NAMED_COLUMNS}."
            )
        self._met |= row.keys()

    def _reject(self, number: int, line: str) -> str:
        """Return an empty line in place of a bad one, if these are to be skipped."""
        if self.on_bad == "error":
            must = "hold text that UTF-8 can hold" if HALF.search(line) else "be a JSON object"
            raise DataError(
                f"a line must {must}, got {line[:60]!r} (line {number:,} of {self.file.name}). Fix it, or pass "
                'on_bad="skip" to leave it out.'
            )
        self.n_bad += 1
        return ""


def _json_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object of a line, or None if it holds none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _cell(value: object) -> str:
    """Return a value of JSON as a field."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"' if QUOTE_NEEDED(value) else value
    if value is None:
        return ""
    return repr(value) if isinstance(value, (int, float)) else _cell(json.dumps(value))


def _table(
    table: dict[str, Any],
    file: Path,
    scores: object,
    rule: str,
    above: int,
    titles: Mapping[Any, str] | None,
    timed: bool,
    ids: str,
    skipped: int,
) -> Ratings:
    """Return the columns that were read as ratings on their scale."""
    if len(table["user"]) == 0:
        raise DataError(f"{file.name} holds no rating that can be read.")
    values = table["scores"]
    scale = make_scale(values if scores is None else scores)
    places, off = place_on(values, scale, rule)
    if off.any():
        at = int(np.flatnonzero(off)[np.argmin(table["score_lines"][off])])
        count = int(np.isin(table["score"], np.flatnonzero(off)).sum())
        raise DataError(
            describe_off_scale(
                values[at], count, scale, f" in line {table['score_lines'][at] + above:,} of {file.name}"
            )
        )
    users, user = _named(table["users"], table["user"], "users", ids)
    items, item = _named(table["items"], table["item"], "items", ids)
    times = table["time"] if timed else None
    return Ratings(users, items, scale, user, item, places[table["score"]], times, titles_of(items, titles), skipped)


def _named(names: Any, codes: Codes, what: str, ids: str) -> tuple[Array, Codes]:
    """Return the names that the native reader found, and the codes for them."""
    if ids == "auto" and isinstance(names, list):
        names, codes = whole_names(names, codes)
    return as_names(names, what), codes
