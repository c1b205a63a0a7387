"""Ratings from a text of any length: the native reader, one stretch of whole records after the other."""

import codecs
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from starcast import _native
from starcast.errors import FileFormatError
from starcast.io import (
    GZIP,
    LONGEST_HEADER,
    check_lines,
    check_text,
    find_layout,
    first_record,
    not_utf8,
    reading,
    threads_for,
    unpacking,
    wrong_encoding,
)

Mistakes = dict[str, tuple[int, int, bytes]]
SHORTEST = 2 * LONGEST_HEADER  # bytes that are read at once, at least
LONGEST_RECORD = 64 << 20  # bytes; a quote that is open longer than that takes in the rest of the file


def read_text(
    file: Path,
    sep: str | None,
    columns: Sequence[str | int] | None,
    header: bool | None,
    on_bad: str,
    encoding: str,
    size: int,
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield what the native reader finds in stretches of about `size` bytes, and the lines above each.

    Where the text has mistakes, the error comes at its end, as it tells how many there are.
    """
    stretches = _stretches(file, encoding, max(size, SHORTEST))
    text, last = next(stretches)
    if not text.strip():
        return
    start = text.startswith(b"\xef\xbb\xbf") * 3  # a byte order mark is not part of the first name
    first, sep, end = first_record(file, text, start, sep)
    positions, has_header = find_layout(file, first, sep, columns, header)
    begin = end if has_header else start
    above = text.count(b"\n", 0, begin)
    mistakes: Mistakes = {}
    while True:
        try:
            table = _native.read_text(text, begin, sep, *positions, threads_for(len(text)))
        except UnicodeDecodeError:
            raise not_utf8(file) from None
        found: Mistakes = table["mistakes"]
        rest = b""
        if "open_quote" in found and not last:  # it may be closed in the next stretch
            rest = _from_line(text, begin, found["open_quote"][1])
            if len(rest) < LONGEST_RECORD:
                del found["open_quote"]
        for kind, (count, line, what) in found.items():
            before, first_line, first_text = mistakes.get(kind, (0, line + above, what))
            mistakes[kind] = before + count, first_line, first_text
        if "open_quote" in found:
            check_lines(mistakes, file.name, 0, above + text.rstrip().count(b"\n", begin) + 1, on_bad)
        if on_bad == "skip" or not mistakes:
            yield table, above
        del table
        if last:
            break
        above += text.count(b"\n", begin) - rest.count(b"\n")
        begin = 0
        following, last = next(stretches)
        text = rest + following
    check_lines(mistakes, file.name, 0, 0, on_bad)


def _from_line(text: bytes, begin: int, line: int) -> bytes:
    """Return the text from a line on, counted from 1 at `begin`."""
    for _ in range(line - 1):
        begin = text.index(b"\n", begin) + 1
    return text[begin:]


def _stretches(file: Path, encoding: str, size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the text as UTF-8 in stretches that end with a line, and whether it is the last."""
    pieces = _pieces(file, encoding, size)
    text = next(pieces, b"")
    check_text(file, text)
    for piece in pieces:
        end = text.rfind(b"\n") + 1
        if end and text[:end].strip():
            yield text[:end], False
            text = text[end:]
        elif not end and len(text) >= LONGEST_RECORD:
            raise FileFormatError(
                f"{file.name} must have a rating a line, got a line of more than {LONGEST_RECORD >> 20} MB. If lines "
                "end with a carriage return alone, let them end with a line feed."
            )
        text += piece
    yield text, True


def _pieces(file: Path, encoding: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked and as UTF-8, `size` at a time."""
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8") if isinstance(encoding, str) else False
    try:
        decoder = None if plain else codecs.getincrementaldecoder(encoding)()
    except (LookupError, TypeError, ValueError) as error:
        raise wrong_encoding(file, encoding, error) from None
    with reading(file):
        handle = file.open("rb")
    with handle:
        packed = handle.read(2) == GZIP
        handle.seek(0)
        stream: IO[bytes] = gzip.GzipFile(fileobj=handle) if packed else handle  # type: ignore[assignment]
        while True:
            with unpacking(file) if packed else reading(file):
                piece = stream.read(size)
            if decoder is not None:
                try:
                    yield decoder.decode(piece, final=not piece).encode()
                except ValueError as error:
                    raise wrong_encoding(file, encoding, error) from None
            elif piece:
                yield piece
            if not piece:
                return
