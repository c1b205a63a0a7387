"""Hyper-parameters tried out on folds."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import starcast as sc
from starcast.errors import (
    DivergenceError,
    FileError,
    FileFormatError,
    MissingExtraError,
    ParameterError,
    UnknownNameError,
)
from starcast.evaluate import answer_for
from starcast.front import Front
from starcast.journal import Journal
from starcast.models import make_model
from starcast.objectives import measure
from starcast.reproduce.experiment import FACTORIZATIONS, grid_of
from starcast.search import STUDIES, search
from starcast.spaces import SPACES, Range, make_axes, paper_space, random_settings, read_space

SPACE = {"shrinkage": [1, 5, 20, 100]}
GOALS = ["nll", "coverage@0.4"]


@pytest.fixture(scope="module")
def table():
    return sc.make_ratings(n_users=40, n_items=25, density=0.4, random_state=0)[0]


def plain(results):
    """The rows without what the clock says; NaN as text, so that it equals itself."""
    return [{name: repr(value) for name, value in row.items() if name != "seconds"} for row in results]


def test_a_grid_has_a_row_per_setting_with_means_and_folds(table):
    results = search("item", table, SPACE, objectives=GOALS, method="grid", cv=3, random_state=0)
    assert results["shrinkage"] == [1, 5, 20, 100]
    assert results["trial"] == [0, 1, 2, 3]
    assert set(results["model"]) == {"ItemFrequency"}
    assert set(results["status"]) == {"ok"}
    folds = list(sc.k_fold(table, 3, random_state=0))
    for row in results:
        by_hand = [measure(f.test, answer_for(sc.ItemFrequency(row["shrinkage"]).fit(f.train), f.test), GOALS) for f in folds]  # fmt: skip
        for name in GOALS:
            assert [row[f"{name} fold {k}"] for k in range(3)] == [values[name] for values in by_hand]
            assert row[name] == pytest.approx(np.mean([values[name] for values in by_hand]))
    assert STUDIES == {}


def test_a_front_of_a_search_is_fitted(table):
    results = search("item", table, SPACE, objectives=GOALS, method="grid", cv=3, random_state=0)
    front = Front(results, GOALS, min_coverage=0.01)
    assert front.fit(front.pick(nll=10.0), table).is_fitted


def test_a_random_search_tries_no_setting_twice_and_continues_a_shorter_one(table):
    space = {"user_shrinkage": [1, 2, 3], "item_shrinkage": [1, 2]}
    every = search("bayes", table, space, cv=2, random_state=5)
    settings = [(row["user_shrinkage"], row["item_shrinkage"]) for row in every]
    assert len(set(settings)) == 6
    assert settings != sorted(settings)
    some = search("bayes", table, space, cv=2, random_state=5, n_trials=4)
    assert plain(some) == plain(every)[:4]
    assert len(search("bayes", table, space, cv=2, random_state=5, n_trials=99)) == 6


def test_ranges_are_drawn_within_their_ends():
    axes = make_axes({"n_factors": (2, 4), "regularization": (0.1, 10.0, "log"), "n_iters": (1, 64, "log"), "learning_rate": (0.0, 1.0)}, sc.BeMF())  # fmt: skip
    settings = random_settings(axes, 400, 0)
    assert {s["n_factors"] for s in settings} == {2, 3, 4}
    assert all(0.1 <= s["regularization"] <= 10 and 0 <= s["learning_rate"] <= 1 for s in settings)
    assert 0.4 < np.mean([s["regularization"] < 1 for s in settings]) < 0.6
    assert {s["n_iters"] for s in settings} >= {1, 2, 3, 4, 64}
    assert all(isinstance(s["n_iters"], int) for s in settings)
    assert settings[:50] == random_settings(axes, 50, 0)
    assert len(random_settings({"a": Range(1, 3)}, 50, 0)) == 3


@pytest.mark.parametrize("method", ["tpe", "nsga2"])
def test_optuna_learns_from_what_it_tried(table, method):
    space = {"user_shrinkage": (0.01, 1e4, "log"), "item_shrinkage": (0.01, 1e4, "log")}
    losses = search("bayes", table, space, method=method, n_trials=60, cv=2, random_state=0)["nll"]
    assert len(losses) == 60
    assert np.mean(losses[30:]) < np.mean(losses[:15])
    coarse = {"user_shrinkage": [1, 10, 100, 1000], "item_shrinkage": [1, 10, 100, 1000]}
    assert min(losses) < min(search("bayes", table, coarse, method="grid", cv=2, random_state=0)["nll"]) + 0.01


def test_a_seed_repeats_what_optuna_suggests(table):
    space = {"shrinkage": (0.01, 1e4, "log")}
    one, longer = (search("item", table, space, method="tpe", n_trials=n, cv=2, random_state=0) for n in (12, 14))
    assert plain(longer)[:12] == plain(one)
    assert search("item", table, space, method="tpe", n_trials=3, cv=2)["status"] == ["ok"] * 3


@pytest.mark.parametrize("method", ["tpe", "nsga2"])
def test_optuna_takes_lists_whole_numbers_and_several_objectives(table, method):
    space = {"n_factors": (0, 3), "biases": [True, False], "regularization": (1.0, 30.0), "n_iters": [2]}
    results = search("resbemf", table, space, objectives=GOALS, method=method, n_trials=8, cv=2, random_state=0)
    assert len(results) == 8
    # No factors and no biases leave nothing to learn, which the model refuses.
    refused = [row for row in results if row["n_factors"] == 0 and not row["biases"]]
    assert [row["status"] for row in refused] == ["failed"] * len(refused)
    assert all(isinstance(row["n_factors"], int) and isinstance(row["biases"], bool) for row in results)


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_processes_find_what_one_finds(table, method):
    options = {"method": method, "n_trials": 4, "cv": 2, "random_state": 1}
    one = search("item", table, SPACE, **options)
    two = search("item", table, SPACE, n_jobs=2, **options)
    assert len(two) == 4
    if method == "random":
        assert plain(two) == plain(one)


@pytest.mark.parametrize("method", ["grid", "random", "tpe", "nsga2"])
def test_a_search_goes_on_where_it_stopped(table, tmp_path, method, monkeypatch):
    options = {"method": method, "cv": 2, "random_state": 0, "storage": tmp_path / "deep" / "trials"}
    begun = []
    fit = sc.ItemFrequency.fit
    monkeypatch.setattr(sc.ItemFrequency, "fit", lambda self, ratings: begun.append(1) or fit(self, ratings))

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    n_trials = {} if method == "grid" else {"n_trials": 4}
    with pytest.raises(KeyboardInterrupt):
        search("item", table, SPACE, on_progress=stop, **options, **n_trials)
    assert len(begun) == 4
    told = []
    results = search("item", table, SPACE, on_progress=lambda *done: told.append(done), **options, **n_trials)
    assert told[0] == (2, 4)
    assert len(results) == 4
    assert len(begun) == 8
    assert plain(search("item", table, SPACE, **options, **n_trials)) == plain(results)
    assert len(begun) == 8


def test_a_database_keeps_a_study_too(table, tmp_path):
    options = {"method": "tpe", "cv": 2, "random_state": 0, "storage": f"sqlite:///{tmp_path}/study.db"}
    some = search("item", table, SPACE, n_trials=2, **options)
    assert plain(search("item", table, SPACE, n_trials=3, **options))[:2] == plain(some)


SHARED_STUDY = """
import sys
import starcast as sc
table = sc.make_ratings(n_users=40, n_items=25, density=0.4, random_state=0)[0]
sc.search("item", table, {"shrinkage": (1.0, 99.0)}, method="tpe", n_trials=10, cv=2, random_state=0, storage=sys.argv[1])
"""


def test_processes_share_a_study(table, tmp_path):
    storage = str(tmp_path / "study")
    workers = [subprocess.Popen([sys.executable, "-W", "error", "-c", SHARED_STUDY, storage]) for _ in range(2)]
    assert [worker.wait(600) for worker in workers] == [0, 0]
    results = search("item", table, {"shrinkage": (1.0, 99.0)}, method="tpe", n_trials=10, cv=2, random_state=0, storage=storage)  # fmt: skip
    assert 10 <= len(results) <= 11
    assert len(set(results["shrinkage"])) == len(results)


class Diverging(sc.ItemFrequency):
    """Diverges in its second fit at a shrinkage of 5, answers with nonsense at 20."""

    fits = 0

    def _fit(self, ratings):
        type(self).fits += 1
        super()._fit(ratings)
        if self.shrinkage == 5 and type(self).fits % 2 == 0:
            raise DivergenceError("its counts ran away")
        if self.shrinkage == 20:
            self.probs_ = np.full_like(self.probs_, np.nan)


@pytest.mark.parametrize("method", ["grid", "tpe", "nsga2"])
def test_a_fold_that_diverges_ends_its_trial_and_is_recorded(table, method, monkeypatch):
    monkeypatch.setattr(Diverging, "fits", 0)
    n_trials = None if method == "grid" else 12
    space = SPACE if method == "grid" else {"shrinkage": [5, 20]}
    goals = GOALS if method != "tpe" else "nll"
    results = search(
        Diverging(), table, space, objectives=goals, method=method, n_trials=n_trials, cv=4, random_state=0
    )
    if method == "grid":
        assert results["status"] == ["ok", "diverged", "diverged", "ok"]
        assert Diverging.fits == 4 + 2 + 1 + 4
        row = results.rows[1]
        assert row["error"] == "its counts ran away"
        assert math.isnan(row["nll"])
        assert [math.isnan(row[f"nll fold {k}"]) for k in range(4)] == [False, True, True, True]
        assert results["error"][2] == "Diverging diverged: its probabilities are no longer finite."
    else:
        assert results["status"] == ["diverged"] * 12


def test_parameters_that_the_model_refuses_fail_alone(table):
    results = search("item", table, {"shrinkage": [-1, 1]}, method="grid", cv=2, random_state=0)
    assert results["status"] == ["failed", "ok"]
    assert "shrinkage" in results["error"][0]


def test_a_model_of_ones_own_keeps_its_parameters_and_gets_the_seed(table):
    model = sc.BeMF(n_iters=2, n_jobs=1, regularization=1.0)
    row = search(model, table, {"n_factors": [2]}, method="grid", cv=2, random_state=9).rows[0]
    assert {name: row[name] for name in ("n_iters", "regularization", "n_factors", "random_state")} == {"n_iters": 2, "regularization": 1.0, "n_factors": 2, "random_state": 9}  # fmt: skip
    assert "n_jobs" not in row
    assert model.random_state is None
    assert search(model.set_params(random_state=np.int64(3)), table, {"n_factors": [2]}, cv=2, random_state=9)[
        "random_state"
    ] == [3]


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_a_storage_of_another_search_is_refused(table, tmp_path, method):
    base = {
        "objectives": ["nll"],
        "method": method,
        "n_trials": 1,
        "cv": 2,
        "random_state": 0,
        "storage": tmp_path / "trials",
    }
    search("item", table, SPACE, **base)
    for change, words in [
        ({"cv": 3}, "cv was 2, is 3"),
        ({"random_state": 1}, "random_state was 0, is 1"),
        ({"objectives": ["rps"]}, r'objectives was \["nll"\], is \["rps"\]'),
        ({"cv": list(sc.k_fold(table, 2, random_state=0))}, 'cv was 2, is "2 splits '),
        ({"relevant": 3}, r"relevant was null, is 3\.0"),
    ]:
        with pytest.raises(
            ParameterError, match=rf"trials holds another search: {words}.*Give this one a storage of its own\."
        ):
            search("item", table, SPACE, **base | change)
    with pytest.raises(ParameterError, match=r'model was "ItemFrequency", is "NaiveBayes"'):
        search("bayes", table, {"item_shrinkage": [1]}, **base)
    with pytest.raises(ParameterError, match=r'ratings was "[0-9a-f]{19}…, is "'):
        search("item", table.take(np.arange(200)), SPACE, **base)
    assert len(search("item", table, {"shrinkage": [7]}, **base)) == 1


def test_a_file_that_is_something_else_is_refused(table, tmp_path):
    options = {"n_trials": 2, "cv": 2, "random_state": 0}
    search("item", table, SPACE, storage=tmp_path / "ours", **options)
    search("item", table, SPACE, storage=tmp_path / "optunas", method="tpe", **options)
    Journal(tmp_path / "other").add("a", {})
    with pytest.raises(
        FileFormatError,
        match=r'ours is not a journal of Optuna, which tpe and nsga2 need\. Choose another file, or method="random"\.',
    ):
        search("item", table, SPACE, storage=tmp_path / "ours", method="tpe", **options)
    with pytest.raises(FileFormatError, match=r"line 1 of .*optunas is not a record of a journal"):
        search("item", table, SPACE, storage=tmp_path / "optunas", **options)
    with pytest.raises(FileFormatError, match=r"other is a journal, but not of a search\. Choose another file"):
        search("item", table, SPACE, storage=tmp_path / "other", **options)
    with pytest.raises(
        FileError,
        match=r"storage 'nosuch://x' cannot be opened: .*Give a file, or the URL of a database such as sqlite:///search\.db",
    ):
        search("item", table, SPACE, storage="nosuch://x", method="tpe", **options)


def test_optuna_is_an_extra(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "starcast.optuna_study", raising=False)
    with pytest.raises(
        MissingExtraError,
        match=r"search by tpe or nsga2 needs optuna\. Install it with: pip install 'starcast\[search\]'",
    ):
        search("item", table, SPACE, method="tpe", n_trials=1)
    assert len(search("item", table, SPACE, n_trials=1, cv=2)) == 1


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"method": "gird"}, UnknownNameError, "unknown method 'gird'. Did you mean 'grid'?"),
        ({"n_jobs": 0}, ParameterError, "n_jobs must be a whole number of at least 1, got 0"),
        ({"n_trials": 0}, ParameterError, "n_trials must be a whole number of at least 1, got 0"),
        ({"random_state": -1}, ParameterError, "random_state must be a whole number of at least 0, got -1"),
        ({"storage": "x"}, ParameterError, "random_state must be a whole number where there is a storage"),
        ({"method": "grid", "n_trials": 3}, ParameterError, "a grid tries all of its 4 settings, so n_trials must be None, got 3"),
        ({"method": "tpe"}, ParameterError, 'n_trials must be a whole number of at least 1 with method="tpe", got None'),
        ({"cv": "half"}, ParameterError, "cv must be a number of folds"),
        ({"cv": "paper"}, ParameterError, 'random_state must be a whole number with method="paper", got None'),
        ({"objectives": ["nll", "mea"]}, UnknownNameError, "unknown measure 'mea'"),
        ({"model": "itm"}, UnknownNameError, "unknown model 'itm'. Did you mean 'item'?"),
    ],
)  # fmt: skip
def test_mistakes_are_said(table, options, kind, words):
    options = {"model": "item", "ratings": table, "space": SPACE} | options
    with pytest.raises(kind) as error:
        search(**options)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("space", "method", "words"),
    [
        ({}, "grid", "space must map parameters to lists of values or ranges, got {}"),
        ([1], "grid", "space must map parameters to lists of values or ranges, got [1]"),
        ({"shrinkage": 5}, "grid", "shrinkage in space must be a list of values or a tuple (low, high) or (low, high, 'log'), got 5"),
        ({"shrinkage": []}, "grid", "shrinkage in space must be a list of values"),
        ({"shrinkage": "auto"}, "grid", "shrinkage in space must be a list of values"),
        ({"shrinkage": [[1]]}, "grid", "shrinkage in space must hold numbers, texts, True, False or None, got [1]"),
        ({"shrinkage": (5, 1)}, "random", "must be a range (low, high) with low below high, or (low, high, 'log') with low above zero, got (5, 1)"),
        ({"shrinkage": (0, 1, "log")}, "random", "with low above zero, got (0, 1, 'log')"),
        ({"shrinkage": (1, 2, "lin")}, "random", "got (1, 2, 'lin'). Values to choose from stand in a list."),
        ({"shrinkage": (1, 2, 3, 4)}, "random", "got (1, 2, 3, 4)"),
        ({"shrinkage": (1.0, float("inf"))}, "random", "got (1.0, inf)"),
        ({"shrinkage": (1, 9)}, "grid", 'a grid needs a list for every parameter, but shrinkage has the range 1 to 9. List its values, or choose method="random"'),
        ({"shrinkage": (1, 9)}, "random", "n_trials must be a whole number of at least 1 where the space has a range, got None"),
    ],
)  # fmt: skip
def test_a_space_that_makes_no_sense_is_said(table, space, method, words):
    with pytest.raises(ParameterError) as error:
        search("item", table, space, method=method)
    assert words in str(error.value)


def test_an_unknown_parameter_and_a_huge_grid_are_said(table):
    with pytest.raises(
        UnknownNameError, match=r"unknown parameter of ItemFrequency 'shrink'\. Did you mean 'shrinkage'\?"
    ):
        search("item", table, {"shrink": [1]})
    with pytest.raises(
        ParameterError,
        match=r"space has 16,000,000 settings, more than the 10,000,000 that can be listed\. Give ranges instead\.",
    ):
        search("bayes", table, {"user_shrinkage": range(4000), "item_shrinkage": np.arange(4000)})


def test_a_space_is_read_from_a_file(tmp_path):
    file = tmp_path / "space.json"
    file.write_text('{"a": [1, 2], "b": {"low": 1, "high": 9}, "c": {"low": 0.1, "high": 1, "log": true}}')
    assert read_space(file) == {"a": [1, 2], "b": (1, 9), "c": (0.1, 1, "log")}
    for text, words in [("{", "is not JSON"), ("[1]", "must hold an object"), ('{"a": {"low": 1}}', "a in .*space.json must be a list, or an object with low, high")]:  # fmt: skip
        file.write_text(text)
        with pytest.raises(FileFormatError, match=words):
            read_space(file)
    with pytest.raises(
        FileError, match=r"nothing\.json cannot be read: No such file.*Give a JSON file with the space\."
    ):
        read_space(tmp_path / "nothing.json")


NAMES = {"numIters": "n_iters", "numFactors": "n_factors", "learningRate": "learning_rate", "regularization": "regularization", "gamma": "learning_rate", "lambda": "regularization"}  # fmt: skip


@pytest.mark.parametrize("model", FACTORIZATIONS)
@pytest.mark.parametrize("dataset", ["ml-100k", "ml-1m", "filmtrust", "ml-10m", "myanimelist"])
def test_the_papers_spaces_are_those_of_its_experiments(model, dataset):
    published = {NAMES[name]: sorted(map(float, values)) for name, values in grid_of(dataset, model).items()}
    space = paper_space(model, dataset)
    assert space.pop("update", ["paper"]) == ["paper"]
    assert {name: sorted(values) for name, values in space.items()} == published
    make_axes(SPACES[model][dataset], make_model(model))


def test_a_space_that_the_paper_does_not_have_is_said():
    with pytest.raises(UnknownNameError, match="unknown model with a space of the paper 'item'"):
        paper_space("item", "ml-100k")
    with pytest.raises(UnknownNameError, match="unknown data set of the paper 'ml-20m'"):
        paper_space("pmf", "ml-20m")


KILLED = """
import sys, time
from pathlib import Path
import numpy as np
import starcast as sc
from starcast.models import base

class Slow(sc.ItemFrequency):
    # Writes down every fit that ends; hangs in the fit of that number, if one is given.
    def _fit(self, ratings):
        log = Path(sys.argv[2])
        if len(log.read_text().splitlines()) == int(sys.argv[4]):
            Path(sys.argv[2] + ".hangs").touch()
            time.sleep(3600)
        time.sleep(float(sys.argv[5]))
        super()._fit(ratings)
        with log.open("a") as file:
            file.write(f"{self.shrinkage}\\n")

if __name__ == "__main__":
    table = sc.make_ratings(n_users=40, n_items=25, density=0.4, random_state=0)[0]
    space = {"shrinkage": [1, 2, 5, 10, 20, 50]}
    results = sc.search(Slow(), table, space, objectives=["nll", "1-MAE@0.3"], cv=2, random_state=3,
                        storage=sys.argv[1], n_jobs=int(sys.argv[3]))
    Path(sys.argv[1] + ".csv").write_text(results.to_csv())
"""


@pytest.fixture
def start(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)

    def start(name, n_jobs=1, hang=-1, seconds=0.0):
        log = tmp_path / f"{name}.log"
        log.touch()
        words = [tmp_path / f"{name}.jsonl", log, n_jobs, hang, seconds]
        return subprocess.Popen([sys.executable, "-W", "error", script, *map(str, words)])

    return start


def table_without_seconds(file):
    import polars as pl

    return pl.read_csv(file).drop("seconds").to_dicts()


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_search_killed_three_times_ends_like_one_that_was_not(start, tmp_path):
    # Within the first fold of all, between the folds of a trial, between two trials.
    for fits in (0, 3, 9):
        process = start("killed", hang=fits)
        while not (tmp_path / "killed.log.hangs").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait(300) == -signal.SIGKILL
        (tmp_path / "killed.log.hangs").unlink()
    assert start("killed").wait(600) == 0
    assert start("whole").wait(600) == 0
    assert table_without_seconds(tmp_path / "killed.jsonl.csv") == table_without_seconds(tmp_path / "whole.jsonl.csv")
    fits = (tmp_path / "killed.log").read_text().split()
    assert len((tmp_path / "whole.log").read_text().split()) == 12
    # Of all trials only the one cut between its folds began anew, and none ended twice.
    assert sorted(fits.count(shrinkage) for shrinkage in set(fits)) == [2, 2, 2, 2, 2, 3]
    keys = [json.loads(line)["key"] for line in (tmp_path / "killed.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 7


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_processes_killed_at_random_moments_lose_nothing(start, tmp_path):
    for seed in range(3):
        process = start("killed", n_jobs=2, seconds=0.2)
        time.sleep(random.Random(seed).uniform(0.5, 3.0))
        process.send_signal(signal.SIGKILL)
        process.wait(300)
    assert start("killed", n_jobs=2).wait(600) == 0
    assert start("whole", n_jobs=2).wait(600) == 0
    assert table_without_seconds(tmp_path / "killed.jsonl.csv") == table_without_seconds(tmp_path / "whole.jsonl.csv")
    keys = [json.loads(line)["key"] for line in (tmp_path / "killed.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 7


def test_workers_need_an_engine_and_an_engine_no_processes(table):
    space = {"shrinkage": [1, 2]}
    with pytest.raises(sc.ParameterError, match='workers are those of engine="ray", got workers=2 without an engine'):
        sc.search("item", table, space, workers=2)
    with pytest.raises(sc.ParameterError, match=r"give one of them, got n_jobs=2\."):
        sc.search("item", table, space, engine="ray", n_jobs=2)
