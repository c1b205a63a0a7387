"""The reproduction of the paper: whose numbers a page shows, how it is made again, and how models are compared."""

import contextlib
import csv
import io
import itertools
import json
import re
import sys

import numpy as np
import pytest

import starcast as sc
from starcast import cli, paper_plots, reproduction, sound
from starcast.metrics import PAPER_THRESHOLDS
from starcast.reproduce.experiment import EXPERIMENTS, FACTORIZATIONS, grid_of, title_of
from starcast.reproduce.published import MEASURE_FILES, read_times, write_curves, write_search, write_times
from starcast.reproduce.run import Run

NEURAL = ("MLP", "GCMC", "NGCF", "MWGP")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder in the form of the published results: eight settings a search and two tested rows a model."""
    folder = tmp_path_factory.mktemp("published")
    rng = np.random.default_rng(0)
    for dataset, experiment in EXPERIMENTS.items():
        for model in FACTORIZATIONS:
            grid = grid_of(dataset, model)
            settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())][:8]
            found = [(setting, {m: rng.uniform(0.5, 0.9, 5) for m in ("1-MAE", "coverage")}) for setting in settings]
            file = folder / "gridsearch" / experiment.folder / f"{model}.csv"
            file.parent.mkdir(parents=True, exist_ok=True)
            write_search(file, model, grid, [1, 2, 3], found)
        write_mlp(folder / "gridsearch" / experiment.folder / "mlp.csv", rng)
        target = folder / "test-split" / experiment.folder
        target.mkdir(parents=True)
        rows = [f"{title_of(model)}_{k}" for model in FACTORIZATIONS[:3] for k in (0, 1)] + ["PMF", "BiasedMF", *NEURAL]
        curves = {m: {row: rng.uniform(0.3, 0.9, len(PAPER_THRESHOLDS)) for row in rows} for m in MEASURE_FILES}
        write_curves(target, curves)
        write_times(target / "fittingTime.csv", {row: rng.uniform(1, 9) for row in rows if row not in NEURAL})
    return folder


def write_mlp(file, rng):
    parts = (*(f"fold_{k}" for k in range(5)), "avg", "std")
    names = [f"{measure}_{part}" for measure in ("cummulativemae", "cummulativecoverage") for part in parts]
    with file.open("w", newline="") as text:
        writer = csv.writer(text)
        writer.writerow([*names, "numEpochs", "numFactors", "learningRate", "seed"])
        for epochs, factors, rate in itertools.product((25, 50), (2, 4), ("0.01", "0.1")):
            folds = rng.uniform(0.6, 0.8, 5)
            writer.writerow([*folds, folds.mean(), folds.std(), *[1.0] * 6, 0.0, epochs, factors, rate, 1])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs a command in this process, without data sets, and returns its output."""

    def call(*words):
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.setattr(sys, "argv", ["starcast", *map(str, words)])
            patch.setattr(cli, "show", lambda facts, table, as_json: printed.write(json.dumps(facts)))
            patch.setenv("STARCAST_DATA", str(tmp_path_factory.getbasetemp() / "no data"))
            patch.setattr(paper_plots, "to_png", lambda figure: b"")  # drawing twice takes its time
            with pytest.raises(SystemExit) as end:
                cli.main()
        assert not end.value.code
        return printed.getvalue()

    return call


@pytest.fixture(scope="module")
def drawn(run, published, tmp_path_factory):
    """What is drawn of published results alone: the folder, and what programs are told."""
    folder = tmp_path_factory.mktemp("drawn")
    words = ["reproduce", "ml-10m,myanimelist", "--stage", "figures", "--models", "resbemf,pmf", "--out", folder]
    return folder, json.loads(run(*words, "--compare", published))


def read(file):
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_nothing_that_is_only_published_is_called_recomputed(drawn):
    folder, told = drawn
    page = (folder / "ml-10m" / "report.html").read_text()
    assert "recomputed" in page
    assert "recomputed" not in page.lower().replace("not recomputed", "")
    assert "No result on this page was computed here" in page
    assert all(list(found) == ["published"] for found in told["datasets"][0]["sources"].values())
    figures = folder / "ml-10m" / "figures"
    for name in ("hyperparameters", "fronts", "test-curves", "neural-curves", "mlp-search", "fitting-times"):
        assert "published" in (figures / f"{name}.svg").read_text(), name
        assert {row["source"] for row in read(figures / f"{name}.csv")} == {"published"}, name
    captions = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert len(captions) == 6
    assert all("published, not recomputed" in caption.lower() for caption in captions)


def test_what_is_recomputed_stands_beside_what_is_published(published, tmp_path):
    own = tmp_path / "filmtrust" / "gridsearch" / "bemf.csv"
    own.parent.mkdir(parents=True)
    own.write_bytes((published / "gridsearch" / "ft" / "bemf.csv").read_bytes())
    shown = reproduction.collect(Run("filmtrust", tmp_path, published=published))
    assert shown.sources()["search"] == {
        "recomputed": ["BeMF"], "published": ["ResBeMF", "DirMF", "PMF", "BiasedMF", "MLP"],
    }  # fmt: skip
    figure = paper_plots.draw_fronts(shown.searches)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert [label.endswith(", published") for label in labels] == [model != "bemf" for model in FACTORIZATIONS]


def test_a_page_has_the_command_that_gives_it(run, published, tmp_path):
    words = ["reproduce", "ml-1m", "--stage", "figures", "--models", "pmf", "--out", tmp_path]
    words += ["--compare", published, "--jobs", "1", "--limit", "5"]
    run(*words)
    page = (tmp_path / "ml-1m" / "report.html").read_text()
    told = re.search("<dt>command</dt><dd>starcast (.*?)</dd>", page)[1].split()
    assert set(told) == set(map(str, words))


def test_published_neural_curves_are_drawn_unless_recomputed(drawn):
    folder, _ = drawn
    rows = read(folder / "ml-10m" / "figures" / "neural-curves.csv")
    assert {row["model"] for row in rows} == set(NEURAL)
    assert ">GCMC, published<" in (folder / "ml-10m" / "figures" / "neural-curves.svg").read_text()


def test_several_data_sets_have_a_page_together(drawn):
    folder, told = drawn
    assert [part["dataset"] for part in told["datasets"]] == ["ml-10m", "myanimelist"]
    page = (folder / "report.html").read_text()
    titles = ["MovieLens 10M", "MyAnimeList"]
    svg = (folder / "figures" / "fronts.svg").read_text()
    assert all(title in svg for title in titles)
    sizes = read(folder / "figures" / "datasets.csv")
    assert [(row["data set"], row["source"]) for row in sizes] == [(title, "paper's table") for title in titles]
    assert "9,104,681" in page
    times = read(folder / "figures" / "fitting-times.csv")
    assert [(row["data set"], row["source"]) for row in times[-2:]] == [
        ("MyAnimeList", "published file"), ("MyAnimeList", "paper's table"),
    ]  # fmt: skip
    assert times[-1]["ResBeMF"] == "58.71 (25.12)"
    assert f"starcast reproduce ml-10m,myanimelist --stage figures --models resbemf,pmf --out {folder}" in page


def test_all_stands_for_every_data_set_of_the_paper():
    assert reproduction.parse_datasets("all") == list(EXPERIMENTS)


def test_data_sets_without_results_are_left_out_of_the_page_together(run, published, tmp_path):
    own = tmp_path / "filmtrust" / "gridsearch" / "pmf.csv"
    own.parent.mkdir(parents=True)
    own.write_bytes((published / "gridsearch" / "ft" / "pmf.csv").read_bytes())
    run("reproduce", "filmtrust,ml-100k", "--stage", "figures", "--models", "pmf", "--out", tmp_path)
    assert [row["data set"] for row in read(tmp_path / "figures" / "datasets.csv")] == ["FilmTrust"]


def test_published_times_are_said_to_differ_from_the_paper_s_table(drawn):
    page = (drawn[0] / "ml-10m" / "report.html").read_text()
    assert "157.53 (106.83)" in page  # the paper's table
    assert "differ from those of the paper&#x27;s table in every cell" in page


def test_mlp_s_published_search_is_drawn_and_its_setting_told(drawn):
    assert len(read(drawn[0] / "ml-10m" / "figures" / "mlp-search.csv")) == 8
    page = (drawn[0] / "ml-10m" / "report.html").read_text()
    assert re.search("<th scope=row>MLP</th><td>published</td><td>[24]</td><td>(25|50)</td>", page)


def test_a_page_says_from_which_rating_on_an_item_is_relevant(drawn):
    assert "rated 7 or more, as in the paper" in (drawn[0] / "myanimelist" / "report.html").read_text()


def test_the_published_times_differ_from_the_paper_s_table_in_every_cell(published_folder):
    for experiment in EXPERIMENTS.values():
        times = read_times(published_folder / "test-split" / experiment.folder / "fittingTime.csv")
        shown = [paper_plots.time_text(times[title_of(model)]).removesuffix(" s") for model in FACTORIZATIONS]
        assert all(one != other for one, other in zip(shown, experiment.times, strict=True))


@pytest.fixture(scope="module")
def found():
    ratings = sc.make_ratings(n_users=150, n_items=100, density=0.35, random_state=0)[0]
    return sound.run_sound(ratings, contenders=("global", "item", "bayes"), n_seeds=1, n_resamples=80)


def test_every_contender_has_as_many_settings():
    sizes = {key: len(contender.settings()) for key, contender in sound.CONTENDERS.items() if contender.space}
    assert set(sizes.values()) == {sound.N_SETTINGS}
    assert set(sound.CONTENDERS) - set(sizes) == {"global"}  # it has no parameters


def test_a_value_at_the_edge_of_its_grid_is_told(found):
    contender = sound.Contender("x", "item", {}, {"shrinkage": (1.0, 2.0, 4.0)})
    assert [contender.at_edge({"shrinkage": value}) for value in (1.0, 2.0, 4.0)] == [["shrinkage"], [], ["shrinkage"]]
    assert [row["settings"] for row in found.settings] == [1, 12, 12]
    assert "shrinkage: 1, 2" in found.settings.rows[1]["tried"]


def test_two_models_are_compared_by_their_paired_difference(found):
    rows = found.differences.where(model="naive Bayes", other="item frequencies", measure="nll", calibrated=False)
    overall = {row["model"]: row for row in found.overall if not row["calibrated"]}
    one, other = overall["naive Bayes"], overall["item frequencies"]
    row = rows.rows[0]
    assert row["difference"] == pytest.approx(one["nll"] - other["nll"])
    assert row["low"] < row["difference"] < row["high"]
    alone = (one["nll high"] - one["nll low"]) + (other["nll high"] - other["nll low"])
    assert row["high"] - row["low"] < alone / 2  # what moves one model moves the other
    assert row["clear"] == (row["low"] > 0 or row["high"] < 0)


def test_the_report_of_the_sound_protocol_has_differences_and_settings(monkeypatch, tmp_path):
    from rich.console import Console

    from starcast import sound_report

    ratings = sc.make_ratings(n_users=60, n_items=40, density=0.4, random_state=0)[0]
    monkeypatch.setattr(sound_report, "load_dataset", lambda name: ratings)
    found = sound_report.reproduce_soundly("ml-100k", tmp_path, contenders=("item", "bayes"), n_resamples=5)
    page = (tmp_path / "ml-100k" / "sound" / "report.html").read_text()
    assert "Differences from item frequencies" in page
    assert "12 settings for every model" in page
    assert f"starcast reproduce ml-100k --protocol sound --out {tmp_path}" in page
    console = Console(width=80, file=io.StringIO())
    console.print(sound_report.sound_table(found))
    text = " ".join(console.file.getvalue().split())
    assert "Less item frequencies" in text
    assert "12: shrinkage: 1," in text


def test_the_command_runs_the_sound_protocol_on_several_data_sets(monkeypatch, run, tmp_path):
    found = sound.Sound(*(sc.Results([{"model": "x", "calibrated": False}]) for _ in range(4)))
    monkeypatch.setattr(cli, "reproduce_soundly", lambda name, folder, on_progress: found)
    monkeypatch.setattr(cli, "sound_table", lambda found: "")
    told = json.loads(run("reproduce", "filmtrust,ml-100k", "--protocol", "sound", "--out", tmp_path))
    assert list(told) == ["filmtrust", "ml-100k"]
    assert list(told["filmtrust"]) == ["overall", "differences", "settings"]
