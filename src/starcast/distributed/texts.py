"""Ratings from a text of any length: the native reader, one stretch of whole records after the other."""

import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from starcast import _native
from starcast.errors import FileFormatError
from starcast.io import (
    LONGEST_HEADER,
    Mistakes,
    begin_text,
    check_lines,
    check_text,
    not_utf8,
    packing,
    reading,
    threads_for,
    unpacked,
    unpacking,
    wrong_encoding,
)

SHORTEST = 2 * LONGEST_HEADER  # bytes that are read at once, at least
LONGEST_RECORD = 64 << 20  # bytes; a quote that is open longer than that takes in the rest of the file


def read_text(
    file: Path,
    sep: str | None,
    columns: Sequence[str | int] | None,
    header: bool | None,
    on_bad: str,
    encoding: str,
    ids: str,
    size: int,
) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield what the native reader finds in stretches of about `size` bytes, the lines above each and those skipped.

    Where the text has mistakes, the error comes at its end, as it tells how many there are.
    """
    stretches = _stretches(file, encoding, max(size, SHORTEST))
    text, last = next(stretches)
    if not text.strip():
        return
    text, begin, sep, layout, objects = begin_text(file, text, sep, columns, header, on_bad)
    above = text.count(b"\n", 0, begin)
    mistakes: Mistakes = {}
    n_good = 0
    while True:
        try:
            table = _native.read_text(text, begin, sep, *layout, ids == "text", threads_for(len(text)))
        except UnicodeDecodeError:
            raise not_utf8(file) from None
        found: Mistakes = table["mistakes"]
        n_good += len(table["user"])
        rest = b""
        if "open_quote" in found and not last:  # it may be closed in the next stretch
            rest = _from_line(text, begin, found["open_quote"][1])
            if len(rest) < LONGEST_RECORD:
                del found["open_quote"]
        for kind, (count, line, what, fields) in found.items():
            before, *first_seen = mistakes.get(kind, (0, line + above, what, fields))
            mistakes[kind] = (before + count, *first_seen)  # type: ignore[assignment]
        if "open_quote" in found:
            check_lines(mistakes, file.name, 0, above + text.rstrip().count(b"\n", begin) + 1, on_bad, layout, n_good)
        if on_bad == "skip" or not mistakes:
            skipped = sum(mistake[0] for mistake in found.values())
            if objects:
                skipped, objects.n_bad = skipped + objects.n_bad, 0
            yield table, above, skipped
        del table
        if last:
            break
        above += text.count(b"\n", begin) - rest.count(b"\n")
        begin = 0
        following, last = next(stretches)
        if objects:
            following = objects.convert(following)
            layout = objects.layout()  # known from the first object on
        text = rest + following
    check_lines(mistakes, file.name, 0, 0, on_bad, layout, n_good)


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
        kind = packing(handle.read(8))
        handle.seek(0)
        with unpacking(file, kind) if kind else reading(file):
            stream = unpacked(file, handle)
        while True:
            with unpacking(file, kind) if kind else reading(file):
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
