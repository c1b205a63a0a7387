"""The figure of neural models: ours, the published curves, and what is told where there is nothing to draw."""

import contextlib
import csv
import itertools
import os
import sys

import numpy as np
import pytest
from small import make

import starcast as sc
from starcast import reproduction
from starcast.errors import FileError, MissingExtraError
from starcast.metrics import PAPER_THRESHOLDS, paper_measures
from starcast.reproduce import neural
from starcast.reproduce.experiment import published_split
from starcast.reproduce.neural import neural_models
from starcast.reproduce.run import Run
from starcast.spaces import paper_space

if "STARCAST_CI" not in os.environ:
    pytest.importorskip("torch")


def small_models(dataset):
    """The models of the figure in small sizes."""
    return {
        "MLP": make("mlp", n_iters=5, full_batch=True, distribution="certain"),
        "MLP in batches": make("mlp"),
        "GCMC": make("gcmc"),
        "NGCF": make("ngcf"),
        "MWGP": make("mwgp"),
    }


@contextlib.contextmanager
def no_bar(title):
    yield lambda done, total: None


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run of the stage on a tiny data set that stands in for FilmTrust's file."""
    folder = tmp_path_factory.mktemp("neural")
    planted, _ = sc.make_ratings(n_users=40, n_items=30, n_scores=8, density=0.5, random_state=1)
    (folder / "data" / "filmtrust").mkdir(parents=True)
    names = zip(planted.user + 1, planted.item + 1, planted.values / 2, strict=True)
    text = "".join(f"{user} {item} {value:g}\n" for user, item, value in names)
    (folder / "data" / "filmtrust" / "ratings.txt").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STARCAST_DATA", str(folder / "data"))
        patch.setattr(neural, "neural_models", small_models)
        reproduction.reproduce(Run("filmtrust", folder / "out", n_jobs=1), ["neural", "figures"], bar=no_bar)
        yield folder


def read(file):
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_the_stage_writes_curves_times_and_a_figure(done):
    folder = done / "out" / "filmtrust"
    assert list(read(folder / "neural" / "coverage.csv")[0]) == ["reliability", *small_models("filmtrust")]
    assert {row["method"] for row in read(folder / "neural" / "fittingTime.csv")} == set(small_models("filmtrust"))
    assert (folder / "figures" / "neural-curves.png").read_bytes().startswith(b"\x89PNG")
    rows = read(folder / "figures" / "neural-curves.csv")
    assert {row["model"] for row in rows if row["measure"] == "accuracy"} == {"MLP in batches", "GCMC", "NGCF", "MWGP"}
    page = (folder / "report.html").read_text()
    assert page.count("<figure") == 1
    assert "recomputed: MLP, MLP in batches, GCMC, NGCF, MWGP" in page


def test_the_curves_are_those_of_the_models(done):
    train, test = published_split("filmtrust")
    model = small_models("filmtrust")["GCMC"].set_params(n_jobs=1).fit(train)
    answer = model.predict_proba(test.users[test.user], test.items[test.item])
    wanted = paper_measures(test, answer, PAPER_THRESHOLDS, relevant=3.0, empty="zero")
    for measure, file in (("1-MAE", "mae"), ("coverage", "coverage"), ("accuracy", "accuracy"), ("mAP", "map")):
        values = [float(row["GCMC"]) for row in read(done / "out" / "filmtrust" / "neural" / f"{file}.csv")]
        assert values == pytest.approx(wanted[measure].tolist(), abs=1e-9)


def test_the_paper_s_mlp_is_taken_at_its_unrounded_numbers(done):
    train, test = published_split("filmtrust")
    model = small_models("filmtrust")["MLP"].set_params(n_jobs=1).fit(train)
    values = neural.unrounded(model, test)
    known = model.predict(test.users[test.user], test.items[test.item])["known"].to_numpy()
    assert known.any()
    expected = model.values(test.user[known], test.item[known])  # both parts are numbered alike
    assert values[known] == pytest.approx(expected)
    measures = neural.measures_of(model, test, 3.0)
    assert (measures["coverage"] == 1).all()
    assert np.isnan(measures["accuracy"]).all()
    per_user = [np.abs(values - test.values)[test.user == u].mean() for u in np.unique(test.user)]
    assert measures["1-MAE"][0] == pytest.approx(1 - np.mean(per_user) / 3.5)


def test_an_unknown_pair_gets_the_mean_of_the_table():
    model = make("mlp", full_batch=True, distribution="certain").fit(
        sc.Ratings.from_arrays([1, 1, 2], [7, 8, 7], [1, 2, 3])
    )
    test = sc.Ratings.from_arrays([1, 9], [7, 7], [1, 2], scores=[1, 2, 3])
    assert neural.unrounded(model, test)[1] == pytest.approx(model.prior_ @ model.scores_)
    assert (neural.measures_of(model, test)["coverage"] == 1).all()  # certain of that, too, as in the paper


def test_published_curves_stand_beside_ours(done, published_folder):
    run = Run("filmtrust", done / "out", published=published_folder)
    here, there = neural.neural_curves(run)
    assert there["1-MAE"]["GCMC"][0] == pytest.approx(0.79, abs=1e-3)
    assert set(there["1-MAE"]) == {"MLP", "GCMC", "NGCF", "MWGP"}
    assert set(there["accuracy"]) == {"GCMC", "NGCF"}
    assert np.isnan(there["1-MAE"]["GCMC"][there["coverage"]["GCMC"] <= 0.02]).all()
    assert set(here["coverage"]) == set(small_models("filmtrust"))
    page = reproduction.write_figures(run).read_text()
    assert "published, not recomputed: MLP, GCMC, NGCF, MWGP" in page
    rows = read(done / "out" / "filmtrust" / "figures" / "neural-curves.csv")
    assert {row["source"] for row in rows} == {"recomputed", "published"}


def test_without_the_stage_the_published_curves_are_drawn(tmp_path, published_folder):
    run = Run("filmtrust", tmp_path, ("bemf",), published=published_folder)
    reproduction.write_figures(run)
    rows = read(tmp_path / "filmtrust" / "figures" / "neural-curves.csv")
    assert {row["source"] for row in rows} == {"published"}
    with pytest.raises(FileError, match="there is nothing to draw"):
        reproduction.write_figures(Run("filmtrust", tmp_path / "empty"))


def test_every_data_set_has_its_models():
    for dataset in ("ml-100k", "ml-1m", "filmtrust", "ml-10m", "myanimelist"):
        for model in neural_models(dataset).values():
            model._check_params()
    assert neural_models("ml-1m")["GCMC"].n_iters == 3500
    assert neural_models("filmtrust")["MLP"].n_factors == 8


@pytest.mark.parametrize(("dataset", "folder"), [("ml-100k", "ml100k"), ("filmtrust", "ft"), ("ml-1m", "ml1m")])
def test_the_papers_space_of_mlp_is_that_of_its_search(published_folder, dataset, folder):
    rows = read(published_folder / "gridsearch" / folder / "mlp.csv")
    tried = {(int(row["numFactors"]), int(row["numEpochs"]), float(row["learningRate"])) for row in rows}
    space = paper_space("mlp", dataset)
    listed = itertools.product(*(space[name] for name in ("n_factors", "n_iters", "learning_rate")))
    assert tried == set(listed)


def test_a_neural_model_can_be_searched():
    ratings, _ = sc.make_ratings(n_users=40, n_items=30, random_state=1)
    space = {"n_factors": [2, 4], "n_hidden": [8], "n_iters": [3], "random_state": [0]}
    found = sc.search("mlp", ratings, space, cv=2, random_state=0)
    assert len(found) == 2
    assert all(np.isfinite(row["nll"]) for row in found)


def test_a_missing_library_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"the stage neural needs PyTorch\. Install it with"):
        reproduction.reproduce(Run("filmtrust", tmp_path), ["neural"], bar=no_bar)
