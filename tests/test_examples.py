"""The examples run and find what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from pages import Block, compare

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))
INDEX = (EXAMPLES / "README.md").read_text(encoding="utf-8")


def run(name, folder):
    """Return what a script prints when it is run in an empty folder, where it must leave nothing behind."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name], cwd=folder, timeout=1800, text=True, encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert not list(folder.iterdir())
    return done.stdout


def percents(text):
    return [int(number) for number in re.findall(r"(\d+)% sure", text)]


def test_rate_and_recommend(tmp_path):
    listed, forecasts, reasons = run("rate_and_recommend.py", tmp_path).split(":\n")[1:]
    assert len(percents(listed)) == 10
    assert min(percents(listed)) >= 60
    assert "Shawshank Redemption" in listed
    shown = [int(number) for number in re.findall(r"(\d+)%", forecasts)]
    assert len(shown) == 20
    for film in (shown[:10], shown[10:]):
        assert sum(film) == pytest.approx(100, abs=5)  # each is rounded
    assert max(shown[:10]) == percents(listed)[0]
    assert len(re.findall(r"stars for .*: [+-]0\.\d+ stars", reasons)) == 3


def test_find_theta_for_a_promise(tmp_path):
    told = run("find_theta_for_a_promise.py", tmp_path)
    assert 0.3 < float(re.search(r"θ = (\S+)", told)[1]) < 0.6
    observed, surely = re.search(r"accuracy (\S+), surely at least (\S+)", told).groups()
    assert float(observed) > float(surely) >= 0.5
    assert "the promise is kept" in told
    assert "accuracy of at least 0.95 cannot be promised" in told


def test_compare_models_soundly(tmp_path):
    rows = run("compare_models_soundly.py", tmp_path).splitlines()[2:]
    assert [row.split()[0] for row in rows] == ["nll"] * 3 + ["rmse"] * 3 + ["accuracy@0"] * 3
    for row in rows:
        one, other, gap, low, high = map(float, re.findall(r"[+-]?\d\.\d{3}", row))
        assert gap == pytest.approx(one - other, abs=0.0011)
        assert low < gap < high
        assert ("not clear" in row) == (low <= 0 <= high)
    assert all(row.endswith("OrdinalMF is better") for row in rows if " OrdinalMF " in row and "accuracy" not in row)


def test_fold_in_a_stranger(tmp_path):
    told = run("fold_in_a_stranger.py", tmp_path)
    rated, coming, listed, why = (part.splitlines() for part in told.split("\n\n"))
    assert rated[1] == "  5 stars for Star Wars: Episode IV - A New Hope (1977)"
    assert [line.split()[0] for line in coming[1:]] == ["1", "3", "5"]
    assert min(percents("\n".join(listed))) >= 40
    assert len(listed) == 6
    assert not {line[2:].split(":")[0] for line in listed} & {line.partition(" for ")[2] for line in rated}
    assert any("Alien (1979)" in line for line in why)


def test_serve_a_model(tmp_path):
    told = run("serve_a_model.py", tmp_path)
    assert "served:  OrdinalMF of 91,357 ratings" in told
    assert re.search(r"Godfather, The: 5 stars, \d+% sure", told)
    assert re.search(r"Pretty Woman: silence, 3\d% sure", told)
    assert len(re.findall("^list:", told, re.MULTILINE)) == 3
    assert "for a stranger" in told
    assert told.endswith("stopped: exit code 0\n")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_example_is_short_listed_and_tested(name):
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    question = source.removeprefix('"""').splitlines()[0]
    assert f"| [{name}]({name}) | {question} |" in INDEX
    assert f"test_{name.removesuffix('.py')}" in globals()


@pytest.fixture(scope="module")
def drawing(tmp_path_factory):
    """An environment in which Matplotlib has listed its fonts: on a slow machine it would say so, in a notebook's output."""
    settings = os.environ | {"MPLCONFIGDIR": str(tmp_path_factory.mktemp("matplotlib"))}
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], env=settings, capture_output=True, check=True)  # fmt: skip
    return settings


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_prints_what_is_stored_in_it(name, tmp_path, drawing):
    stored = nbformat.read(EXAMPLES / name, as_version=4)
    file = tmp_path / name
    nbformat.write(stored, file)
    done = subprocess.run(
        [sys.executable, "-c", "from nbclient.cli import main; main()", "--inplace", "--timeout=1800", "--startup_timeout=600", file],
        env=drawing | {"IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ran = nbformat.read(file, as_version=4)
    for at, (told, got) in enumerate(zip(stored.cells, ran.cells, strict=True)):
        if told.cell_type == "code":
            compare(texts(got), texts(told), 0.02, Block(f"examples/{name}", at, "python", told.source))
            assert pictures(got) == pictures(told)


def texts(cell):
    """Return what a cell prints and returns, as text."""
    return "\n".join(out["text"] if "text" in out else out["data"]["text/plain"] for out in cell.outputs)


def pictures(cell):
    return sum("image/png" in out.get("data", {}) for out in cell.outputs)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_notebook_is_listed_executed_and_small(name):
    assert f"[{name}]({name})" in INDEX
    assert (EXAMPLES / name).stat().st_size < 150_000
    cells = [cell for cell in nbformat.read(EXAMPLES / name, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(map(pictures, cells)) >= 2
    assert not any(out.output_type == "error" or out.get("name") == "stderr" for cell in cells for out in cell.outputs)
