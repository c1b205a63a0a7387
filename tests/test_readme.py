"""The README's code runs and prints what it says."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(("code", "output"), EXAMPLE.findall(README.read_text(encoding="utf-8")))
def test_the_readmes_code_prints_what_it_says(code, output, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.split() == output.split()


def test_the_readme_has_an_example():
    assert EXAMPLE.search(README.read_text(encoding="utf-8"))
