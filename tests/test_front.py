"""Rows that no other beats, as models."""

import json

import numpy as np
import pytest

import starcast as sc
from starcast.errors import (
    DataError,
    DivergenceError,
    FileError,
    FileFormatError,
    NotFittedError,
    ParameterError,
    UnknownNameError,
)
from starcast.front import Front, model_of

GOALS = {"1-MAE": "max", "coverage": "max"}
ROWS = [
    {"model": "ItemFrequency", "shrinkage": 1, "1-MAE": 0.9, "coverage": 0.3, "nll": 1.4, "seconds": 3.0},
    {"model": "ItemFrequency", "shrinkage": 10, "1-MAE": 0.8, "coverage": 0.6, "nll": 1.3, "seconds": 2.0},
    {"model": "NaiveBayes", "1-MAE": 0.7, "coverage": 0.9, "nll": 1.2, "seconds": 1.0},
    {"model": "NaiveBayes", "1-MAE": 0.7, "coverage": 0.5, "nll": 1.1, "seconds": 0.5},
]


@pytest.fixture
def front():
    return Front(sc.Results(ROWS), GOALS)


@pytest.fixture(scope="module")
def table():
    return sc.make_ratings(n_users=30, n_items=20, density=0.5, random_state=0)[0]


def test_a_front_holds_what_no_row_beats(front):
    assert front.rows == ROWS[:3]
    assert (len(front), list(front)) == (3, ROWS[:3])
    assert repr(front) == "Front(3 rows: 1-MAE max, coverage max)"


def test_less_is_better_where_that_is_said():
    front = Front(sc.Results(ROWS), {"nll": "min", "seconds": "min"})
    assert front.rows == ROWS[3:]
    assert Front(sc.Results(ROWS), "nll").rows == ROWS[3:]


def test_rows_that_diverged_or_have_no_value_are_out():
    rows = [
        *ROWS,
        {"1-MAE": 1.0, "coverage": 1.0, "status": "diverged"},
        {"1-MAE": 1.0},
        {"1-MAE": 1.0, "coverage": np.nan},
    ]
    assert Front(sc.Results(rows), GOALS).rows == ROWS[:3]


def test_a_row_that_covers_too_little_in_some_fold_is_out_and_beats_nothing():
    rows = [
        {"x": 1.0, "coverage": 0.5, "coverage fold 0": 0.99, "coverage fold 1": 0.01},
        {"x": 0.5, "coverage": 0.4, "coverage fold 0": 0.4, "coverage fold 1": 0.4},
        {"x": 9.0, "coverage": 0.01},
    ]
    goals = {"x": "max", "coverage": "max"}
    assert Front(sc.Results(rows), goals, min_coverage=0.02).rows == rows[1:2]
    assert Front(sc.Results(rows), goals).rows == [rows[0], rows[2]]
    with pytest.raises(ParameterError, match=r"min_coverage needs an objective of coverage, got x\."):
        Front(sc.Results(rows), {"x": "max"}, min_coverage=0.02)


def test_the_best_row_that_keeps_a_promise_is_picked(front):
    assert front.pick(coverage=0.5) == ROWS[1]
    assert front.pick(coverage=0.6) == ROWS[1]
    assert front.pick({"1-MAE": 0.75}) == ROWS[1]
    assert front.pick({"1-MAE": 0.75}, coverage=0.2) == ROWS[0]
    assert front.pick() == ROWS[0]


def test_a_promise_may_be_on_any_column(front):
    assert front.pick(seconds=2.5) == ROWS[1]
    assert front.pick(nll=1.25) == ROWS[2]


def test_a_promise_that_cannot_be_kept_names_the_best_there_is(front):
    with pytest.raises(
        ParameterError, match=r"no row of the front has coverage of at least 0\.95\. The best there is: coverage 0\.9\."
    ):
        front.pick(coverage=0.95)
    with pytest.raises(
        ParameterError,
        match=r"has 1-MAE of at least 0\.85 and seconds of at most 1\. The best there is each alone: 1-MAE 0\.9, seconds 1\.",
    ):
        front.pick({"1-MAE": 0.85}, seconds=1)
    with pytest.raises(ParameterError, match="the front is empty: no row has a value for every objective"):
        Front(sc.Results([{"nll": float("nan")}]), "nll").pick()
    with pytest.raises(UnknownNameError, match=r"unknown column 'cover'\. Did you mean 'coverage'\?"):
        front.pick(cover=0.5)
    with pytest.raises(UnknownNameError, match="unknown measure 'shrinkage'"):
        front.pick(shrinkage=3)


def test_the_hypervolume_of_a_front(front):
    assert front.hypervolume({"1-MAE": 0, "coverage": 0}) == pytest.approx(0.9 * 0.3 + 0.8 * 0.3 + 0.7 * 0.3)
    assert Front(sc.Results(ROWS), {"nll": "min"}).hypervolume({"nll": 2.0}) == pytest.approx(0.9)
    with pytest.raises(
        ParameterError, match="reference must have a value for every objective, but has none for 'coverage'"
    ):
        front.hypervolume({"1-MAE": 0})


def test_a_row_becomes_a_fitted_model(front, table):
    model = front.fit(front.pick(coverage=0.5), table)
    assert repr(model) == "ItemFrequency(shrinkage=10)"
    assert model.is_fitted
    assert repr(front.fit(2, table)) == "NaiveBayes()"
    assert repr(model_of({"model": "item", "shrinkage": 3})) == "ItemFrequency(shrinkage=3)"
    with pytest.raises(UnknownNameError, match="a row must name its model in the column 'model', got None"):
        model_of({"nll": 1})


def test_a_front_of_fitted_models_comes_back(front, table, tmp_path):
    told = []
    assert front.fit_all(table, lambda *done: told.append(done)) is front
    assert told == [(1, 3), (2, 3), (3, 3)]
    front.save(tmp_path / "deep" / "front")
    again = Front.load(tmp_path / "deep" / "front")
    assert (again.rows, again.objectives) == (front.rows, front.objectives)
    users, items = table.users[table.user], table.items[table.item]
    for row in front:
        assert np.array_equal(again.model(row).predict_proba(users, items).probs, front.model(row).predict_proba(users, items).probs)  # fmt: skip
    with pytest.raises(DataError, match="row must be a row of this front, as pick returns it"):
        front.model({"nll": 3})


def test_saving_again_leaves_only_the_new_front(front, table, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    front.fit_all(table).save(tmp_path)
    before = set(tmp_path.glob("*.starcast"))
    assert len(before) == 3
    Front(sc.Results(ROWS), "nll").fit_all(table).save(tmp_path)
    assert len(list(tmp_path.glob("*.starcast"))) == 1
    assert len(Front.load(tmp_path)) == 1
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "front.csv").read_text().startswith("model,1-MAE,coverage")


def test_a_save_that_is_cut_short_leaves_the_old_front(front, table, tmp_path, monkeypatch):
    front.fit_all(table).save(tmp_path)
    other = Front(sc.Results(ROWS), "nll").fit_all(table.take(np.arange(200)))

    def torn(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("starcast.front.json.dumps", torn)
    with pytest.raises(KeyboardInterrupt):
        other.save(tmp_path)
    monkeypatch.undo()
    assert Front.load(tmp_path).rows == front.rows


def test_a_model_that_diverges_leaves_a_gap(front, table, tmp_path, monkeypatch):
    def fit(self, ratings):
        raise DivergenceError("away")

    monkeypatch.setattr(sc.NaiveBayes, "fit", fit)
    front.fit_all(table).save(tmp_path)
    assert [model is None for model in Front.load(tmp_path).models] == [False, False, True]


def test_what_is_not_fitted_is_not_saved(front, tmp_path):
    with pytest.raises(
        NotFittedError, match=r"the models of this front are not fitted\. Call fit_all\(ratings\) first\."
    ):
        front.save(tmp_path)
    with pytest.raises(NotFittedError, match="not fitted"):
        front.model(front.rows[0])


def test_a_folder_that_holds_no_front_is_said(front, table, tmp_path):
    with pytest.raises(
        FileError, match=r"front\.json cannot be read: No such file.*Give a folder that Front\.save wrote\."
    ):
        Front.load(tmp_path)
    (tmp_path / "front.json").write_text("{")
    with pytest.raises(FileFormatError, match=r"is not JSON\. Give a folder that Front\.save wrote"):
        Front.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be written: .*Give the name of a folder"):
        front.fit_all(table).save(tmp_path / "file" / "front")


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"version": 2}, {"rows": 5}, {"rows": [1, 2, 3]}, {"models": ["a.starcast"]}, {"objectives": {}},
        {"objectives": {"nll": "up"}}, {"models": ["../a.starcast", None, None]}, {"models": ["a.txt", None, None]},
        {"models": [5, None, None]},
    ],
)  # fmt: skip
def test_a_list_that_is_not_of_a_front_is_refused(front, table, tmp_path, change):
    front.fit_all(table).save(tmp_path)
    content = json.loads((tmp_path / "front.json").read_text())
    (tmp_path / "front.json").write_text(json.dumps(content | change))
    with pytest.raises(FileFormatError, match="it does not list a front"):
        Front.load(tmp_path)


def test_an_unknown_column_is_said():
    with pytest.raises(UnknownNameError, match="unknown column 'coverage'"):
        Front(sc.Results([{"nll": 1.0}]), {"coverage": "max"})
