"""The stages of the reproduction, on a tiny data set that stands in for FilmTrust's file."""

import csv
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import starcast as sc
from starcast.errors import DataError, FileError, FileFormatError, ParameterError, UnknownNameError
from starcast.metrics import paper_measures
from starcast.metrics.averages import paper_averages
from starcast.reproduce import experiment, published, searching, testing, verdict
from starcast.reproduce.run import Run

FOLDS = [f"fold_{k}" for k in range(5)]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A planted FilmTrust of some hundred ratings; processes find it through the environment."""
    planted, _ = sc.make_ratings(n_users=40, n_items=30, n_scores=8, density=0.5, random_state=1)
    folder = tmp_path / "data" / "filmtrust"
    folder.mkdir(parents=True)
    names = zip(planted.user + 1, planted.item + 1, planted.values / 2, strict=True)
    (folder / "ratings.txt").write_text("".join(f"{user} {item} {value:g}\n" for user, item, value in names))
    monkeypatch.setenv("STARCAST_DATA", str(folder.parent))
    return tmp_path / "out"


def read(file):
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_the_search_writes_the_published_columns(tiny):
    run = Run("filmtrust", tiny, ("resbemf", "pmf"), n_jobs=1, limit=8)
    searching.run_search(run)
    rows = read(run.search_file("resbemf"))
    measures = [f"{m}_{of}" for m in ("cummulativemae", "cummulativecoverage") for of in (*FOLDS, "avg", "std")]
    assert list(rows[0]) == [*measures, "numIters", "numFactors", "learningRate", "regularization", "scores", "seed"]
    assert list(read(run.search_file("pmf"))[0])[14:] == ["numIters", "numFactors", "gamma", "lambda", "seed"]
    assert len(rows) == 8
    assert {row["seed"] for row in rows} == {"4815162342"}
    for row in rows:
        folds = [float(row[f"cummulativemae_{fold}"]) for fold in FOLDS]
        assert float(row["cummulativemae_avg"]) == pytest.approx(np.mean(folds), rel=1e-15)
        assert float(row["cummulativemae_std"]) == pytest.approx(np.std(folds), rel=1e-15)


def test_a_row_of_the_search_is_five_fits_of_their_own(tiny):
    run = Run("filmtrust", tiny, ("bemf",), n_jobs=1, limit=4)
    searching.run_search(run)
    row = next(row for row in read(run.search_file("bemf")) if row["numIters"] == "100")
    train = experiment.published_split("filmtrust").train
    thresholds = np.arange(20) / 19
    for k, fold in enumerate(sc.k_fold(train, 5, method="paper", random_state=experiment.SEED)):
        fold = experiment.number_as_published(fold)
        model = experiment.published_model("bemf", row).fit(fold.train)
        answer, _ = experiment.answer_as_published(model, fold.test)
        measures = paper_measures(fold.test, answer, thresholds)
        for measure, column in (("1-MAE", "cummulativemae"), ("coverage", "cummulativecoverage")):
            expected = sum((20 - j) * x for j, x in enumerate(np.nan_to_num(measures[measure]))) / 210
            assert float(row[f"{column}_fold_{k}"]) == pytest.approx(expected, abs=1e-14)


def test_processes_find_what_one_process_finds(tiny):
    files = []
    for n_jobs in (1, 2):
        run = Run("filmtrust", tiny / str(n_jobs), ("pmf",), n_jobs=n_jobs, limit=8)
        searching.run_search(run)
        files.append(run.search_file("pmf").read_text())
    assert files[0] == files[1]


def test_a_larger_search_goes_on_from_a_smaller_one(tiny, monkeypatch):
    searching.run_search(Run("filmtrust", tiny, ("pmf",), n_jobs=1, limit=4))
    climbed = []
    climb = searching.climb
    monkeypatch.setattr(searching, "climb", lambda task: climbed.append(task) or climb(task))
    run = Run("filmtrust", tiny, ("pmf",), n_jobs=1, limit=8)
    searching.run_search(run)
    assert len(climbed) == 5  # the second ladder, on five folds
    assert len(read(run.search_file("pmf"))) == 8


SEARCH = """
import sys, time
from pathlib import Path
from starcast.journal import Journal
from starcast.reproduce import searching
from starcast.reproduce.run import Run

add = Journal.add

def add_and_wait(self, key, record):  # for the kill, once there are so many lines
    add(self, key, record)
    if self.path.read_bytes().count(b"\\n") >= int(sys.argv[2]):
        time.sleep(3600)

if __name__ == "__main__":
    if sys.argv[2:]:
        Journal.add = add_and_wait
    searching.run_search(Run("filmtrust", Path(sys.argv[1]), ("resbemf",), n_jobs=2, limit=60))
"""


@pytest.mark.slow
def test_a_killed_search_ends_with_the_same_table_and_repeats_nothing(tiny, tmp_path):
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    subprocess.run([sys.executable, script, tiny / "whole"], check=True)
    whole = tiny / "whole" / "filmtrust"
    journal = tiny / "killed" / "filmtrust" / "journal" / "search.jsonl"
    for least in (3, 20, 41):  # lines in the journal at the moment of the kill
        command = [sys.executable, script, tiny / "killed", str(least)]
        with subprocess.Popen(command, start_new_session=True) as search:
            while search.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= least):
                time.sleep(0.005)
            search.kill()
        assert search.returncode == -signal.SIGKILL
    subprocess.run([sys.executable, script, tiny / "killed"], check=True)
    file = "gridsearch/resbemf.csv"
    assert (tiny / "killed" / "filmtrust" / file).read_bytes() == (whole / file).read_bytes()
    keys = [json.loads(line)["key"] for line in journal.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == len((whole / "journal" / "search.jsonl").read_text().splitlines())


def test_the_test_writes_the_published_columns(tiny):
    run = Run("filmtrust", tiny, ("resbemf", "pmf"), n_jobs=1, limit=8)
    searching.run_search(run)
    testing.run_test(run)
    folder = tiny / "filmtrust" / "test-split"
    front = [f"ResBeMF_{k}" for k in range(len(published.front_rows(run.search_file("resbemf"))))]
    for name in ("mae", "coverage", "map"):
        assert list(read(folder / f"{name}.csv")[0]) == ["reliability", *front, "PMF"]
    assert list(read(folder / "accuracy.csv")[0]) == ["reliability", *front]
    assert [row["reliability"] for row in read(folder / "mae.csv")][:4] == ["0", "0.05", "0.15", "0.2"]
    assert {row["PMF"] for row in read(folder / "coverage.csv")} == {"1"}
    setting = run.tested("resbemf")["ResBeMF_0"]
    train, test = experiment.published_split("filmtrust")
    model = experiment.published_model("resbemf", setting).fit(train)
    expected = experiment.measures_as_published(model, test, 3.0)["accuracy"]
    found = [float(row["ResBeMF_0"]) for row in read(folder / "accuracy.csv")]
    assert found == pytest.approx(expected, abs=5.1e-12)
    assert all(len(row["ResBeMF_0"]) <= 13 for row in read(folder / "accuracy.csv"))


def test_what_was_tested_is_not_fitted_again(tiny, monkeypatch):
    run = Run("filmtrust", tiny, ("pmf", "biasedmf"), n_jobs=1, limit=4)
    searching.run_search(run)
    testing.run_test(run)
    monkeypatch.setattr(testing, "curves_of", lambda task: pytest.fail("fitted again"))
    testing.run_test(run)


def test_every_tested_row_has_a_time(tiny):
    run = Run("filmtrust", tiny, ("pmf", "biasedmf"), n_jobs=1, limit=4)
    searching.run_search(run)
    testing.run_time(run)
    rows = read(tiny / "filmtrust" / "test-split" / "fittingTime.csv")
    assert [row["method"] for row in rows] == ["PMF", "BiasedMF"]
    assert all(int(row["time"]) >= 0 for row in rows)
    assert set(published.read_times(tiny / "filmtrust" / "test-split" / "fittingTime.csv")) == {"PMF", "BiasedMF"}


def pretend_published(run, folder):
    """Copy what a run wrote to where published results would lie."""
    for part, files in (("gridsearch", "*.csv"), ("test-split", "*.csv")):
        target = folder / part / "ft"
        target.mkdir(parents=True)
        for file in (run.folder / "filmtrust" / part).glob(files):
            (target / file.name).write_bytes(file.read_bytes())


def test_the_verdict_finds_no_difference_and_finds_a_planted_one(tiny, tmp_path):
    models = ("resbemf", "pmf")
    searching.run_search(Run("filmtrust", tiny, models, n_jobs=1, limit=8))
    testing.run_test(Run("filmtrust", tiny, models, n_jobs=1, limit=8))
    pretend_published(Run("filmtrust", tiny), tmp_path / "published")
    run = Run("filmtrust", tiny, models, tmp_path / "published", 1, 8)
    same = verdict.verdicts(run)
    assert [(v.stage, v.model) for v in same] == [(s, m) for s in ("search", "test") for m in models]
    assert all(v.agrees and max(v.all_differences.values()) == 0 for v in same)
    assert same[0].front[0] == same[0].front[2] == len(run.tested("resbemf"))

    file = tmp_path / "published" / "gridsearch" / "ft" / "resbemf.csv"
    rows = read(file)
    best = next(row for row in rows if float(row["cummulativecoverage_fold_2"]) > 0.02)
    best["cummulativemae_fold_2"] = str(float(best["cummulativemae_fold_2"]) + 1e-3)
    rows[-1]["cummulativecoverage_fold_0"] = "0.0"
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = verdict.search_verdict(run, "resbemf")
    assert not found.agrees
    assert found.differences["1-MAE"] == pytest.approx(1e-3)
    assert len(rows) - 1 in found.diverged_there
    assert json.loads(json.dumps(found.to_dict()))["agrees"] is False


def test_the_verdict_fits_a_terminal(tiny, tmp_path, capsys):
    from rich.console import Console

    few = verdict.Verdict("search", "biasedmf", 500, {"1-MAE": 8e-16, "coverage": 0.0}, {}, [3], [3], (42, 42, 42))
    many = verdict.Verdict(
        "test", "biasedmf", 94, dict.fromkeys(published.MEASURE_FILES, 5e-12), {}, list(range(40)), [1]
    )
    Console(width=80).print(verdict.verdict_tables([few, many]))
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "8.0e-16" in text
    assert "42 of 42" in text
    assert "diverged there and here: rows 3" in text
    assert "and 27 more" in " ".join(text.split())


def test_nothing_to_compare_gives_no_verdict(tiny):
    assert verdict.verdicts(Run("filmtrust", tiny)) == []


@pytest.mark.parametrize("empty", ["undefined", "zero"])
def test_the_averages_are_those_of_the_curves(empty):
    ratings, truth = sc.make_ratings(random_state=3)
    curves = paper_measures(ratings, truth, np.arange(20) / 19, empty=empty)
    found = paper_averages(ratings, truth, empty=empty)
    for measure in ("1-MAE", "coverage"):
        expected = sum((20 - k) * x for k, x in enumerate(np.nan_to_num(curves[measure]))) / 210
        assert found[measure] == pytest.approx(expected, abs=1e-14)
    with pytest.raises(UnknownNameError, match="unknown empty 'one'"):
        paper_averages(ratings, truth, empty="one")


@pytest.mark.parametrize("model", experiment.FACTORIZATIONS)
def test_going_on_gives_the_bits_of_a_fresh_fit(model, ratings):
    rate, decay = ("gamma", "lambda") if model in ("pmf", "biasedmf") else ("learningRate", "regularization")
    row = {"numFactors": "3", rate: "0.01", decay: "0.05"}
    gone = experiment.published_model(model, row | {"numIters": "4"}).fit(ratings).continue_fit(ratings, 9)
    fresh = experiment.published_model(model, row | {"numIters": "9"}).fit(ratings)
    assert gone.user_factors_.tobytes() == fresh.user_factors_.tobytes()
    assert gone.item_factors_.tobytes() == fresh.item_factors_.tobytes()
    assert gone.n_iter_ == gone.n_iters == 9
    assert gone._proba(ratings.user, ratings.item).tobytes() == fresh._proba(ratings.user, ratings.item).tobytes()


def test_going_on_has_its_conditions(ratings):
    row = {"numFactors": "3", "learningRate": "0.01", "regularization": "0.05", "numIters": "4"}
    model = experiment.published_model("resbemf", row)
    with pytest.raises(
        ParameterError, match=r"continue_fit goes on with the ratings of fit\. Call fit\(ratings\) first"
    ):
        model.continue_fit(ratings, 5)
    model.fit(ratings)
    with pytest.raises(ParameterError, match="continue_fit goes on with the ratings of fit"):
        model.continue_fit(ratings.take([0, 1, 2]), 5)
    with pytest.raises(ParameterError, match="n_iters must be at least the 4 rounds of the fit, got 3"):
        model.continue_fit(ratings, 3)
    with pytest.raises(ParameterError, match="continue_fit needs the published double-precision program"):
        sc.ResBeMF().fit(ratings).continue_fit(ratings, 60)
    wild = experiment.published_model("resbemf", row | {"learningRate": "90"}).set_params(
        on_divergence="raise", n_iters=1
    )
    with pytest.raises(sc.errors.DivergenceError, match="ResBeMF diverged in iteration"):
        wild.fit(ratings).continue_fit(ratings, 200)


def test_mistakes_are_told_before_any_work(tmp_path, tiny):
    with pytest.raises(UnknownNameError, match="unknown data set of the paper 'ml-1k'"):
        Run("ml-1k", tmp_path)
    with pytest.raises(UnknownNameError, match="unknown model of the paper 'bayes'"):
        Run("ml-100k", tmp_path, ("bayes",))
    with pytest.raises(ParameterError, match="limit must be at least 1 row, got 0"):
        Run("ml-100k", tmp_path, limit=0)
    with pytest.raises(FileError, match=r"has no folder gridsearch\. Name the folder of the published results"):
        Run("ml-100k", tmp_path, published=tmp_path)
    with pytest.raises(FileError, match=r"there is no .*pmf\.csv.*Run the stage search first"):
        testing.run_test(Run("filmtrust", tiny, ("pmf",)))
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be made: .*Choose another folder"):
        Run("filmtrust", tmp_path / "file").search_file("pmf")


def test_a_failed_task_is_told(tiny, monkeypatch):
    def fail(task):
        raise ParameterError("no such luck.")

    monkeypatch.setattr(searching, "climb", fail)
    with pytest.raises(
        DataError, match=r"pmf numFactors=.* fold=0 failed: no such luck\. To try it again, remove its line"
    ):
        searching.run_search(Run("filmtrust", tiny, ("pmf",), n_jobs=1, limit=4))


def test_broken_files_are_told(tmp_path):
    (tmp_path / "pmf.csv").write_text("cummulativemae_avg,cummulativecoverage_avg,cummulativecoverage_fold_0\n1,1,x\n")
    with pytest.raises(FileFormatError, match="a search file must have a number in cummulativecoverage_fold_0 to _4"):
        published.front_rows(tmp_path / "pmf.csv")
    for name in ("mae", "coverage", "accuracy", "map"):
        (tmp_path / f"{name}.csv").write_text("reliability,PMF\n0,1\n0.1,1\n")
    with pytest.raises(FileError, match="must hold curves at the paper's 19 thresholds"):
        published.read_curves(tmp_path)


@pytest.mark.data
@pytest.mark.parametrize("dataset", experiment.EXPERIMENTS)
@pytest.mark.parametrize("model", experiment.FACTORIZATIONS)
def test_the_settings_are_those_of_the_published_search(published_folder, dataset, model):
    rows = read(published_folder / "gridsearch" / experiment.EXPERIMENTS[dataset].folder / f"{model}.csv")
    settings = experiment.settings_of(dataset, model)
    names = list(settings[0])
    assert [column for column in rows[0] if column in names] == names
    assert {tuple(s.values()) for s in settings} == {tuple(row[name] for name in names) for row in rows}
    assert len(settings) == len(rows)


@pytest.mark.data
@pytest.mark.parametrize(
    ("dataset", "models"), [("filmtrust", experiment.FACTORIZATIONS), ("ml-100k", ("resbemf", "pmf"))]
)
def test_some_published_folds_come_out_again(data_folder, published_folder, tmp_path, dataset, models):
    models = tuple(model for model in models if model != "dirmf")  # a minute of its own
    run = Run(dataset, tmp_path, models, published_folder, limit=4)
    searching.run_search(run)
    for found in verdict.verdicts(run):
        assert found.agrees
        assert found.rows == 4
        assert found.diverged_there == found.diverged_here


def test_a_process_holds_one_fold_at_a_time(tiny):
    searching.prepare("filmtrust")
    shared = searching._shared[0]
    assert shared.fold(3) is shared.fold(3)
    shared.fold(4)
    assert list(shared.last) == [4]
