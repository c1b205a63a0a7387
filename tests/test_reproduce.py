"""The paper's figures come out again, to the digit. Everything: python benchmarks/check_published.py PUBLISHED."""

import numpy as np
import pytest

import starcast as sc
from starcast.errors import FileError, UnknownNameError
from starcast.models import make_model
from starcast.reproduce import (
    EXPERIMENTS,
    compare_curves,
    front_rows,
    measures_as_published,
    number_as_published,
    published_model,
)

DIGITS = 1e-9  # the files print eleven decimals


@pytest.mark.data
@pytest.mark.parametrize(
    ("dataset", "model", "n_rows", "dead"),
    [
        ("ml-100k", "resbemf", 42, [2, 8, 32]),
        ("ml-100k", "pmf", 1, []),
        ("ml-100k", "biasedmf", 1, []),
        ("filmtrust", "resbemf", 31, [4, 7]),
        ("filmtrust", "pmf", 1, []),
        ("filmtrust", "biasedmf", 1, []),
        pytest.param("filmtrust", "bemf", 94, [], marks=pytest.mark.slow),
        pytest.param("ml-1m", "pmf", 1, [], marks=pytest.mark.slow),
        pytest.param("ml-1m", "biasedmf", 1, [], marks=pytest.mark.slow),
    ],
)
def test_the_published_curves_come_out_again(data_folder, published_folder, dataset, model, n_rows, dead):
    curves = list(compare_curves(dataset, published_folder, (model,)))
    assert len(curves) == n_rows
    assert [curve.row for curve in curves if curve.diverged] == dead
    for measure in ("coverage", "1-MAE", "accuracy", "mAP"):
        gaps = np.array([curve.difference(measure) for curve in curves])
        assert np.isnan(gaps).all() if measure == "accuracy" and n_rows == 1 else (gaps <= DIGITS).all()


@pytest.mark.data
@pytest.mark.parametrize(
    ("dataset", "model", "rows"),
    [
        ("ml-100k", "bemf", [0, 5, 40]),
        ("ml-100k", "dirmf", [0]),
        ("filmtrust", "dirmf", [1]),  # learning rate 0.3: the last bit of exp and digamma decides
        pytest.param("ml-1m", "resbemf", [0, 7], marks=pytest.mark.slow),
        pytest.param("ml-1m", "bemf", [3], marks=pytest.mark.slow),
    ],
)
def test_some_rows_of_the_longer_fronts_come_out_again(data_folder, published_folder, dataset, model, rows):
    experiment = EXPERIMENTS[dataset]
    split = number_as_published(sc.benchmark_split(sc.load_dataset(dataset)))
    front = front_rows(published_folder / "gridsearch" / experiment.folder / f"{model}.csv")
    for row in rows:
        fitted = published_model(model, front[row]).fit(split.train)
        here = measures_as_published(fitted, split.test, experiment.relevant)
        there = published_column(published_folder, experiment.folder, f"{type(fitted).__name__}_{row}")
        for measure, values in here.items():
            assert np.abs(values - there[measure]).max() <= DIGITS


def published_column(folder, name, column):
    import polars as pl

    files = {"coverage": "coverage", "1-MAE": "mae", "accuracy": "accuracy", "mAP": "map"}
    return {m: pl.read_csv(folder / "test-split" / name / f"{f}.csv")[column].to_numpy() for m, f in files.items()}


@pytest.mark.data
@pytest.mark.parametrize(("folder", "n"), [("ml100k", 42), ("ft", 31), ("ml1m", 16), ("anime", 16), ("ml10m", 10)])
def test_the_fronts_have_the_published_rows(published_folder, folder, n):
    assert len(front_rows(published_folder / "gridsearch" / folder / "resbemf.csv")) == n


def test_the_test_part_is_numbered_first():
    ratings = sc.Ratings.from_arrays(["a", "b", "c", "a"], ["x", "y", "z", "z"], [1, 2, 3, 2])
    split = number_as_published(sc.Split(ratings.take([0, 1]), ratings.take([2, 3])))
    for part in split:
        assert part.users.tolist() == ["c", "a", "b"]
        assert part.items.tolist() == ["z", "x", "y"]
    assert split.train.users[split.train.user].tolist() == ["a", "b"]
    assert split.test.values.tolist() == [3, 2]


def test_a_front_holds_what_no_row_beats(tmp_path):
    rows = [(0.8, 0.5, 0.5), (0.7, 0.5, 0.5), (0.6, 0.9, 0.9), (0.9, 0.6, 0.01), (0.8, 0.5, 0.5)]
    folds = ",".join(f"cummulativecoverage_fold_{f}" for f in range(5))
    text = f"numIters,cummulativemae_avg,cummulativecoverage_avg,{folds}\n"
    text += "".join(f"{k},{m},{c},{','.join([str(least)] * 5)}\n" for k, (m, c, least) in enumerate(rows))
    (tmp_path / "x.csv").write_text(text)
    assert [row["numIters"] for row in front_rows(tmp_path / "x.csv")] == ["0", "2", "4"]


def test_mistakes_are_told(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown data set of the paper 'ml-1k'"):
        next(compare_curves("ml-1k", tmp_path))
    with pytest.raises(FileError, match=r"x\.csv cannot be read: No such file.*published results"):
        front_rows(tmp_path / "x.csv")


@pytest.mark.data
@pytest.mark.parametrize(
    ("dataset", "bar"), [("ml-100k", 1.262), ("filmtrust", 1.630), pytest.param("ml-1m", 1.205, marks=pytest.mark.slow)]
)
def test_the_exact_update_forecasts_better(data_folder, dataset, bar):
    train, test = sc.benchmark_split(sc.load_dataset(dataset))
    answer = sc.ResBeMF(random_state=0).fit(train).predict_proba(test.users[test.user], test.items[test.item])
    assert sc.metrics.nll(test.values, answer) <= bar


@pytest.mark.data
@pytest.mark.slow
def test_no_setting_of_the_papers_grid_diverges_with_the_exact_update(data_folder):
    # 500 settings in the paper; the exact update has no learning rate, and fewer rounds are the beginning of more.
    train, test = sc.benchmark_split(sc.load_dataset("ml-100k"))
    for n_factors in (2, 4, 6, 8, 10):
        for regularization in (0.01, 0.05, 0.10, 0.15, 0.20):
            params = {"n_factors": n_factors, "regularization": regularization, "n_iters": 100}
            model = make_model("resbemf", params | {"tolerance": 0, "random_state": 0}).fit(train)
            assert np.isfinite(model.history_).all()
            assert (np.diff(model.history_) >= -1e-7 * len(train)).all()
            assert np.isfinite(model.predict_proba(test.users[test.user], test.items[test.item]).probs).all()
