"""Standard output and error: any encoding, no control characters from data, and an error if not all was written."""

import codecs
import contextlib
import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.segment import Segment

from starcast.errors import FileError

# C0 and C1 control characters, and those that change the direction or break the line of what follows.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
LOOK_ALIKES = dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)) | {
    "—": "-", "–": "-", "‑": "-", "−": "-", "…": "~", "θ": "t", "✓": "+", "×": "x", "±": "+", "★": "*", "≥": ">",
    "≤": "<", "→": ">", "│": "|", "─": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "•": "*", "·": ".",
}  # fmt: skip
HANDLER = "starcast.look_alike"


class SafeConsole(Console):
    """A console on which text from data cannot control the terminal."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, with control characters in their text as visible escapes."""
        for segment in super().render(renderable, options):
            if segment.control is None and CONTROL.search(segment.text.replace("\n", "")):
                segment = Segment("\n".join(map(visible, segment.text.split("\n"))), segment.style)
            yield segment


def visible(text: str) -> str:
    r"""Return the text with control characters as escapes.

    >>> print(visible("Heat\x1b[2J"))
    Heat\x1b[2J
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def prepare_streams() -> None:
    """Let stdout and stderr replace what their encoding lacks, rather than raise an error in the middle of a table."""
    codecs.register_error(HANDLER, replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a closed one is None
            stream.reconfigure(errors=HANDLER)


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return look-alikes for what cannot be encoded, as the codecs module asks for it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(look_alike, error.object[error.start : error.end])), error.end


def look_alike(letter: str) -> str:
    """Return ASCII that resembles a character, as wide as it where possible; '?' if there is none.

    >>> [look_alike(letter) for letter in "é█—Ж"]
    ['e', '#', '-', '?']
    """
    if letter in LOOK_ALIKES:
        return LOOK_ALIKES[letter]
    parts = [part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)]
    return "".join(parts) if parts and all(part < "\x7f" for part in parts) else "?"


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Turn a failure to write to stdout into an error that says so; a reader that has gone is none."""
    if sys.stdout is None:
        raise FileError("standard output is closed, so the answer cannot be printed.")
    try:
        yield
    except BrokenPipeError:
        _abandon_stdout()
        raise SystemExit(1) from None
    except OSError as error:
        _abandon_stdout()
        raise FileError(f"standard output could not be written: {error.strerror or error}.") from None


def flush_output() -> None:
    """Raise an error now if stdout cannot take what it still holds; Python would ignore it at the end."""
    if sys.stdout is not None:
        with writing():
            sys.stdout.flush()


def _abandon_stdout() -> None:
    """Drop what stdout still holds, or Python would try to write it once more at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream without a file, as in tests
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
