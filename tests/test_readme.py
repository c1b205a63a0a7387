"""The README's code runs and prints what it says."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.mark.parametrize(("code", "output"), EXAMPLE.findall(README.read_text(encoding="utf-8")))
def test_the_readmes_code_prints_what_it_says(code, output, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", output).split()
    # Instruction sets differ in the last bits of single precision, and after a while a chain of draws goes another way.
    told, got = ([float(number) for number in NUMBER.findall(text)] for text in (output, printed))
    assert got == pytest.approx(told, abs=0.15)


def test_the_readme_has_an_example():
    assert EXAMPLE.search(README.read_text(encoding="utf-8"))
