"""Pages of Markdown as programs: their blocks of code in order, followed as a reader would follow them."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from service import Process

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"-?\d+\.\d+")
SHELLS = ("console", "bash", "sh")
HERE = re.compile(r"(localhost|127\.0\.0\.1):8080")
DIRECTIVE = re.compile(r"\{(?!code)[a-z-]+\}.*")  # the build of the site checks it
SERVED = re.compile(r"(http://127\.0\.0\.1):\d+( with )\d+ workers?")
FREE = {"parameters"}  # whatever the model has


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def head(self) -> str:
        """The language and the first line."""
        return f"{self.language}: {self.text.partition(chr(10))[0]}"


def blocks_of(text: str, page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found, fence, indent = [], "", 0
    for at, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"( *)(`{3,})(.*)", line)
        if not fence and mark:
            (indent, fence, language), start, lines = (len(mark[1]), mark[2], mark[3].strip()), at, []
        elif fence and mark and mark[2].startswith(fence) and not mark[3].strip():
            found.append(Block(page, start, language, "\n".join(lines) + "\n"))
            fence = ""
        elif fence:
            lines.append(line[indent:])
    assert not fence, f"{page}:{start}: the block does not end"
    return found


class Reader:
    """Somebody who does what a page says, in one folder and one session of Python.

    Parameters
    ----------
    not_run : dict
        Patterns of the beginnings of commands that are passed over, with the reason.
    shown : dict
        Patterns of the language and first line of blocks that are there to be read only, with the reason.
    tolerance : float
        How far a printed number may be from the one that is shown.
    """

    def __init__(self, not_run: dict[str, str], shown: dict[str, str], tolerance: float) -> None:
        self.not_run, self.shown, self.tolerance = not_run, shown, tolerance
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.printed = ""  # by the blocks of Python since the last output that was shown
        self.answer = ""  # of the last curl
        self.service: Process | None = None

    def follow(self, block: Block) -> None:
        """Do what a block says, and compare what comes of it with what is shown."""
        if block.language == "python":
            if not matching(self.shown, block.head):
                self._run_python(block)
        elif block.language in SHELLS:
            for command, output in commands(block.text):
                if not matching(self.not_run, command):
                    self._run_command(command, output, block)
        elif block.language == "text" and self.printed:
            compare(self.printed, block.text, self.tolerance, block)
            self.printed = ""
        elif block.language == "json" and self.answer:
            self._compare_answer(block.text, block)
        else:
            told = f"{block}: how is this block of {block.language!r} to be run? Else list it, with the reason."
            assert DIRECTIVE.fullmatch(block.language) or matching(self.shown, block.head), told

    def close(self) -> None:
        """Stop what was started."""
        if self.service is not None:
            assert self.service.stop() == 0
            self.service = None

    def _run_python(self, block: Block) -> None:
        code = compile("\n" * block.line + block.text, str(ROOT / block.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.names)
        self.printed += out.getvalue()

    def _run_command(self, command: str, output: str | None, block: Block) -> None:
        if command.startswith("starcast serve"):
            self.close()
            words = shlex.split(command.rstrip("& "), comments=True)[2:]
            self.service = Process(*words, log="serve.log")
            if output is not None:
                compare(*(SERVED.sub(r"\1:#\2#", text) for text in (self.service.told, output)), 0, block)
            return
        if command.startswith("curl "):
            assert self.service, f"{block}: nothing is served yet"
            command = HERE.sub(rf"\1:{self.service.port}", command)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", command], env=os.environ | {"PATH": path, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"},
            capture_output=True, encoding="utf-8", timeout=1800, check=False,
        )  # fmt: skip
        told = done.stdout if command.startswith("curl ") else done.stdout + done.stderr
        fails = output is not None and output.startswith("error:")
        assert done.returncode == (2 if fails else 0), f"{block}: {command}\n{done.stdout}{done.stderr}"
        self.answer = done.stdout if command.startswith("curl ") else ""
        if output is not None and output.startswith("{"):
            self._compare_answer(output, block)
        elif output is not None:
            compare(told, output, self.tolerance, block)

    def _compare_answer(self, output: str, block: Block) -> None:
        got, told = shape(json.loads(self.answer)), shape(json.loads(output))
        assert got == told, f"{block}: the answer is\n{self.answer}\nand not\n{output}"
        self.answer = ""


def commands(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the commands of a block, each with the output that is shown for it, if any.

    With prompts (``$ ``) everything else is output; without, every line is a command or a part of one.
    """
    lines = text.splitlines()
    prompted = any(line.startswith("$ ") for line in lines)
    while lines:
        command = lines.pop(0)
        if not command.strip() or command.startswith("#"):
            continue
        command = command.removeprefix("$ ")
        while lines and _goes_on(command):
            command += "\n" + lines.pop(0)
        output = []
        while prompted and lines and not lines[0].startswith("$ "):
            output.append(lines.pop(0))
        yield command, "\n".join(output) if "".join(output).strip() else None


def _goes_on(command: str) -> bool:
    if command.endswith("\\"):
        return True
    try:
        shlex.split(command, comments=True)
    except ValueError:  # a quotation has not ended
        return True
    return False


def matching(patterns: dict[str, str], text: str) -> str | None:
    """Return the first pattern that the text begins with."""
    return next((pattern for pattern in patterns if re.match(pattern, text)), None)


def compare(got: str, told: str, tolerance: float, block: Block) -> None:
    """Compare word by word, numbers approximately; a line with nothing but … stands for any lines."""
    words, at = got.split(), 0
    parts = [part.split() for part in re.split(r"^\s*…\s*$", told, flags=re.MULTILINE)]
    for k, part in enumerate(parts):
        first, last = k == 0, k == len(parts) - 1
        starts = [0] if first else range(at, len(words) - len(part) + 1)
        ends = [start + len(part) for start in starts if alike(words[start : start + len(part)], part, tolerance)]
        ends = [end for end in ends if not last or end == len(words)]
        assert ends, f"{block}: it says\n{got}\nand not\n{told}"
        at = ends[0]


def alike(got: list[str], told: list[str], tolerance: float) -> bool:
    """Return whether the words are the same but for small differences of decimal numbers."""
    if [NUMBER.sub("#", word) for word in got] != [NUMBER.sub("#", word) for word in told]:
        return False
    numbers = [[float(number) for word in words for number in NUMBER.findall(word)] for words in (got, told)]
    return numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=tolerance)


def shape(value: object) -> object:
    """Return what an answer looks like, whatever the numbers: keys, and the first of a list."""
    if isinstance(value, dict):
        return {key: None if key in FREE else shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
