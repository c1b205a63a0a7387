"""The figures, the page and the command of the reproduction."""

import contextlib
import csv
import json
import sys

import numpy as np
import pytest

import starcast as sc
from starcast import cli, paper_plots, reproduction
from starcast.errors import FileError, MissingExtraError, UnknownNameError
from starcast.reproduce import experiment, summary
from starcast.reproduce.run import Run

FIGURES = ("hyperparameters", "fronts", "test-curves", "fitting-times")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A whole reproduction of a tiny data set that stands in for FilmTrust's file: its folder, its data, its page."""
    folder = tmp_path_factory.mktemp("reproduction")
    planted, _ = sc.make_ratings(n_users=40, n_items=30, n_scores=8, density=0.5, random_state=1)
    (folder / "data" / "filmtrust").mkdir(parents=True)
    names = zip(planted.user + 1, planted.item + 1, planted.values / 2, strict=True)
    text = "".join(f"{user} {item} {value:g}\n" for user, item, value in names)
    (folder / "data" / "filmtrust" / "ratings.txt").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STARCAST_DATA", str(folder / "data"))
        reproduction.reproduce(Run("filmtrust", folder / "out", n_jobs=1, limit=4), bar=no_bar)
    return folder


@contextlib.contextmanager
def no_bar(title):
    """A bar that is not drawn."""
    yield lambda done, total: None


def read(file):
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_every_figure_is_a_picture_a_drawing_and_a_table(done):
    folder = done / "out" / "filmtrust" / "figures"
    for name in FIGURES:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.svg").read_text().startswith("<svg")
        assert len(read(folder / f"{name}.csv")) > 0
    assert {row["model"] for row in read(folder / "fronts.csv")} == {"ResBeMF", "BeMF", "DirMF", "PMF", "BiasedMF"}


def test_the_drawn_curves_are_the_means_of_the_files(done):
    folder = done / "out" / "filmtrust"
    coverage = [row for row in read(folder / "figures" / "test-curves.csv") if row["measure"] == "coverage"]
    file = read(folder / "test-split" / "coverage.csv")
    for row in (row for row in coverage if row["model"] == "BeMF"):
        line = next(line for line in file if float(line["reliability"]) == pytest.approx(float(row["threshold"])))
        values = [float(value) for name, value in line.items() if name.startswith("BeMF_")]
        assert float(row["mean"]) == pytest.approx(np.mean(values))
        assert int(row["rows"]) == len(values)


def test_the_page_stands_alone(done):
    page = (done / "out" / "filmtrust" / "report.html").read_text()
    assert page.count("<figure") == 4
    assert "FilmTrust: the paper&#x27;s experiments again" in page
    assert "Chosen hyper-parameters" in page
    assert "Fitting times" in page
    assert 'src="http' not in page
    assert "a trial with 4 rows a model" in page
    assert "recomputed: ResBeMF, BeMF, DirMF, PMF, BiasedMF" in page


def test_the_figures_are_the_same_bytes_again(done):
    run = Run("filmtrust", done / "out", n_jobs=1, limit=4)
    before = (done / "out" / "filmtrust" / "report.html").read_bytes()
    assert reproduction.write_figures(run).read_bytes() == before


def test_published_searches_are_drawn_where_there_are_no_others(done, tmp_path):
    target = tmp_path / "published" / "gridsearch" / "ft"
    target.mkdir(parents=True)
    (target / "bemf.csv").write_bytes((done / "out" / "filmtrust" / "gridsearch" / "bemf.csv").read_bytes())
    run = Run("filmtrust", tmp_path / "out", ("bemf",), tmp_path / "published")
    page = reproduction.write_figures(run).read_text()
    assert page.count("<figure") == 2  # no curves and no times
    assert "Fitting times" not in page
    assert "Chosen hyper-parameters" not in page
    assert "published, not recomputed: BeMF" in page


def test_nothing_to_draw_is_told(tmp_path):
    with pytest.raises(FileError, match=r"there is nothing to draw in .*filmtrust\. Run the stage search first"):
        reproduction.write_figures(Run("filmtrust", tmp_path))


def test_a_missing_library_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="drawing needs matplotlib"):
        reproduction.reproduce(Run("filmtrust", tmp_path), bar=lambda title: pytest.fail("worked"))


def test_an_unknown_stage_is_told(tmp_path):
    with pytest.raises(UnknownNameError, match=r"unknown stage 'serach'\. Did you mean 'search'"):
        reproduction.reproduce(Run("filmtrust", tmp_path), ["serach"], bar=no_bar)


@pytest.mark.parametrize("freedom", [1, 2, 8, 41, 93])
def test_the_t_quantile_is_students(freedom):
    from scipy.stats import t

    assert summary.t_quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=1e-6)


def test_the_band_is_a_t_interval_over_the_rows_that_are_left():
    from scipy.stats import t

    values = np.array([[0.1, 0.4, np.nan], [0.3, np.nan, np.nan], [0.8, np.nan, np.nan]])
    band = summary.mean_band(values)
    low, high = t.interval(0.95, 2, values[:, 0].mean(), values[:, 0].std(ddof=1) / np.sqrt(3))
    assert (band.low[0], band.high[0]) == (pytest.approx(low), pytest.approx(high))
    assert band.mean[1] == band.low[1] == band.high[1] == 0.4
    assert np.isnan(band.mean[2])
    assert band.rows.tolist() == [3, 1, 0]


def test_settings_that_died_are_not_drawn():
    alive = np.array([True, True, False])
    search = summary.Searched(
        np.array([0.5, 0.7, 0.0]),
        np.array([0.8, 0.7, 0.0]),
        alive,
        alive,
        {"number of factors": np.array([2.0, 4.0, 6.0])},
    )
    figure = paper_plots.draw_hyperparameters({"ResBeMF": search})
    drawn = [len(points.get_offsets()) for points in figure.axes[0].collections]
    assert drawn == [2, 2]  # the settings, and the rings of the front


def test_an_overflowing_score_is_passed_over_but_for_the_first():
    class Overflowing(sc.ResBeMF):
        def _proba(self, user, item):
            return np.array([[0.0, np.nan, 0.0], [np.nan, 0.0, 0.0], [np.nan, np.nan, np.nan], [0.2, 0.5, 0.3]])

    ratings = sc.Ratings.from_arrays(["a"] * 4, ["w", "x", "y", "z"], [1, 2, 3, 2])
    answer, point = experiment.answer_as_published(Overflowing(), ratings)
    assert point is None
    assert answer.mode().tolist() == [1, 1, 1, 2]
    assert np.array_equal(answer.reliability(), [0, np.nan, np.nan, 0.5], equal_nan=True)


@pytest.fixture
def command(done, monkeypatch, capsys):
    """Run a command in this process on the tiny data; return its exit code, output and messages."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["starcast", *map(str, words)])
        monkeypatch.setenv("STARCAST_DATA", str(done / "data"))
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return run


def test_the_command_runs_the_stages_and_compares(command, done, tmp_path):
    for part in ("gridsearch", "test-split"):
        target = tmp_path / "published" / part / "ft"
        target.mkdir(parents=True)
        for file in (done / "out" / "filmtrust" / part).glob("*.csv"):
            (target / file.name).write_bytes(file.read_bytes())
    words = ["reproduce", "filmtrust", "--models", "resbemf,pmf", "--limit", 4, "--jobs", 1, "--out", tmp_path / "out"]
    words += ["--compare", tmp_path / "published"]
    code, out, _ = command(*words)
    assert code == 0
    assert max(map(len, (line for line in out.splitlines() if "written" not in line))) <= 80
    assert out.count("agrees") == 4
    assert "Fitting times" in out
    code, out, _ = command(*words, "--stage", "search", "--json")
    facts = json.loads(out)
    assert code == 0
    assert [(v["stage"], v["model"], v["agrees"]) for v in facts["verdicts"]] == [
        ("search", "resbemf", True), ("search", "pmf", True), ("test", "resbemf", True), ("test", "pmf", True),
    ]  # fmt: skip


def test_the_command_tells_mistakes_in_a_line(command):
    code, _, err = command("reproduce", "ml-1k")
    assert code == 2
    assert "unknown data set of the paper 'ml-1k'" in " ".join(err.split())
