"""A model against test ratings."""

import math

import numpy as np
import pytest

import starcast as sc
from starcast import bootstrap, metrics
from starcast.bootstrap import resample
from starcast.errors import DataError, DivergenceError, NotFittedError, ParameterError, UnknownNameError
from starcast.evaluate import THRESHOLDS, answer_for, compare, cross_validate, evaluate, make_folds, overall_measures
from starcast.objectives import measure


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    cell = rng.permutation(600)[:300]
    return sc.holdout(sc.Ratings.from_arrays(cell // 20, cell % 20, rng.integers(1, 6, 300)), random_state=0)


def test_there_is_a_row_per_threshold_with_every_measure(split):
    model = sc.ItemFrequency().fit(split.train)
    table = evaluate(model, split.test)
    assert table["threshold"] == list(THRESHOLDS)
    assert set(table["model"]) == {"ItemFrequency"}
    answer = model.predict_proba(split.test.users[split.test.user], split.test.items[split.test.item])
    paper = metrics.paper_measures(split.test, answer, THRESHOLDS)
    for name in metrics.PAPER_MEASURES:
        assert table[name] == pytest.approx(paper[name].tolist(), nan_ok=True)
    truth = split.test.values
    assert table["nll"] == [metrics.nll(truth, answer)] * 10
    assert table["rmse"] == [metrics.rmse(truth, answer.mean())] * 10
    assert table["ece"] == [metrics.ece(truth, answer)] * 10
    assert table["aurc_mae"] == [metrics.aurc(truth, answer, "absolute")] * 10


def test_relevance_and_the_rule_for_nobody_left_are_passed_on(split):
    model = sc.GlobalFrequency().fit(split.train)
    assert math.isnan(evaluate(model, split.test, [1.0])["accuracy"][0])
    assert evaluate(model, split.test, [1.0], empty="zero")["1-MAE"] == [1.0]
    assert evaluate(model, split.test, [0.0], relevant=1)["mAP"] == [1.0]


def test_the_answer_has_a_row_per_rating_in_order(split):
    model = sc.ItemFrequency().fit(split.train)
    answer = answer_for(model, split.test)
    one = model.predict_proba(split.test.users[split.test.user[3]], split.test.items[split.test.item[3]])
    assert len(answer) == len(split.test)
    assert np.array_equal(answer.probs[3], one.probs[0])
    assert set(overall_measures(split.test, answer)) == {"nll", "brier", "rps", "rmse", "ece", "aurc", "aurc_mae"}


def test_ratings_off_the_scale_of_the_model_are_said(split):
    model = sc.GlobalFrequency().fit(split.train)
    other = sc.Ratings.from_arrays([1, 2], [1, 1], [9, 1])
    with pytest.raises(
        DataError, match=r"truth must be on the scale \[1\.0, 2\.0, 3\.0, 4\.0, 5\.0\], got 9 \(1 such of 2\)"
    ):
        evaluate(model, other)


def test_an_unfitted_model_and_a_wrong_threshold_are_said(split):
    with pytest.raises(NotFittedError, match=r"GlobalFrequency is not fitted\. Call fit\(ratings\) first\."):
        evaluate(sc.GlobalFrequency(), split.test)
    with pytest.raises(ParameterError, match=r"threshold must be a number from 0 to 1, got 7\."):
        evaluate(sc.GlobalFrequency().fit(split.train), split.test, [7])


def test_no_test_ratings_give_undefined_figures(split):
    table = evaluate(sc.GlobalFrequency().fit(split.train), split.test.take(np.zeros(len(split.test), bool)), [0.5])
    assert all(math.isnan(table[name][0]) for name in table.columns if name not in ("model", "threshold"))


def test_every_fold_has_the_rows_of_an_evaluation(split):
    ratings = split.train
    model = sc.ItemFrequency(5)
    table = cross_validate(model, ratings, 3, [0.0, 0.5], random_state=1)
    assert table["fold"] == [0, 0, 1, 1, 2, 2]
    assert set(table["status"]) == {"ok"}
    assert not model.is_fitted
    for fold, part in enumerate(sc.k_fold(ratings, 3, random_state=1)):
        alone = evaluate(sc.ItemFrequency(5).fit(part.train), part.test, [0.0, 0.5])
        for row, own in zip(table.where(fold=fold), alone, strict=True):
            assert {name: row[name] for name in own} == pytest.approx(own, nan_ok=True)


def test_a_fold_that_diverges_is_a_row(split, monkeypatch):
    fit, calls = sc.ItemFrequency.fit, []

    def diverge_once(self, ratings):
        calls.append(1)
        if len(calls) == 2:
            raise DivergenceError("its factors ran away")
        return fit(self, ratings)

    monkeypatch.setattr(sc.ItemFrequency, "fit", diverge_once)
    table = cross_validate(sc.ItemFrequency(), split.train, 3, [0.0], random_state=0)
    assert table["status"] == ["ok", "diverged", "ok"]
    assert table["error"] == [None, "its factors ran away", None]
    assert table["nll"][1] is None


def test_folds_may_be_the_papers_or_ones_own(split):
    paper = make_folds(split.train, "paper", 43)
    assert [p.test.digest() for p in paper] == [
        p.test.digest() for p in sc.k_fold(split.train, method="paper", random_state=43)
    ]
    assert make_folds(split.train, [split])[0].test is split.test
    for cv in ("papers", 0.5, [], [split.train], True):
        with pytest.raises(ParameterError, match='cv must be a number of folds, "paper" or a list of Splits, got'):
            make_folds(split.train, cv)


MEASURES = ["nll", "brier", "rps", "rmse", "ece", "aurc", "aurc_mae", "1-MAE@0.3", "coverage@0.3", "accuracy@0", "mAP@0", "cumulative 1-MAE", "cumulative coverage"]  # fmt: skip


@pytest.fixture(scope="module")
def models():
    train, test = sc.holdout(sc.make_ratings(n_users=60, n_items=40, random_state=0)[0], test_size=0.3, random_state=0)
    return {"item": sc.ItemFrequency().fit(train), "global": sc.GlobalFrequency().fit(train)}, test


def resampled_by_hand(test, answer, drawn, name):
    """The table with the ratings of every drawn user, a user drawn twice being two users."""
    rows = [np.flatnonzero(test.user == user) for user in drawn]
    users = np.repeat(np.arange(len(drawn)), [len(r) for r in rows])
    rows = np.concatenate(rows)
    table = sc.Ratings.from_arrays(users, test.items[test.item[rows]], test.values[rows], scores=test.scores)
    return measure(table, sc.Distribution(answer.probs[rows], answer.scores), [name])[name]


@pytest.mark.parametrize("name", MEASURES)
def test_a_resample_is_the_measure_on_the_ratings_of_the_drawn_users(models, name):
    (model, _), test = models[0].values(), models[1]
    answer = answer_for(model, test)
    found = resample(test, {"item": answer}, [name], unit="user", n_resamples=3, random_state=7)[name]["item"]
    rng = np.random.default_rng(7)
    users = np.unique(test.user)
    for value in found.values:
        drawn = users[rng.integers(0, len(users), len(users))]
        assert value == pytest.approx(resampled_by_hand(test, answer, drawn, name), rel=1e-6)
    assert found.value == pytest.approx(measure(test, answer, [name])[name], rel=1e-6)


def test_a_comparison_has_a_row_per_measure_and_pair(models):
    fitted, test = models
    table = compare({**fitted, "again": fitted["item"]}, test, MEASURES, unit="user", n_resamples=60)
    assert len(table) == 3 * len(MEASURES)
    assert table.rows[0]["model"] == "item"
    for row in table:
        assert row["difference"] == pytest.approx(row["value"] - row["other_value"])
        assert row["low"] <= row["high"]
    same = table.where(model="item", other="again")
    assert set(same["difference"]) == {0.0}
    assert set(same["better"]) == {0.5}
    ahead = table.where(model="item", other="global", measure="nll").rows[0]
    assert ahead["high"] < 0
    assert ahead["better"] > 0.9
    behind = table.where(model="global", other="again", measure="accuracy@0").rows[0]
    assert behind["better"] < 0.3


def test_a_comparison_hangs_on_its_seed_alone(models, monkeypatch):
    fitted, test = models
    one = compare(fitted, test, n_resamples=30, random_state=3)
    monkeypatch.setattr(bootstrap, "BLOCK", 64)
    assert [row["low"] for row in compare(fitted, test, n_resamples=30, random_state=3)] == pytest.approx(one["low"])
    assert compare(fitted, test, n_resamples=30, random_state=4)["low"] != one["low"]


def test_the_interval_covers_as_often_as_it_says():
    # The mean of independent users: the interval must be about 2 × 1.96 standard errors wide.
    rng = np.random.default_rng(0)
    cell = rng.permutation(400 * 50)[:4000]
    test = sc.Ratings.from_arrays(cell // 50, cell % 50, rng.integers(1, 6, 4000))
    models = [sc.GlobalFrequency().fit(test.take(np.arange(k, k + 200))) for k in (0, 500)]
    row = compare(models, test, ["rmse"], unit="user", n_resamples=2000).rows[0]
    errors = [(answer_for(m, test).mean() - test.values) ** 2 for m in models]
    root = [np.sqrt(e.mean()) for e in errors]
    influence = errors[0] / (2 * root[0]) - errors[1] / (2 * root[1]) - row["difference"] / 2
    by_user = np.bincount(test.user, influence) / len(test) * len(test.users)
    expected = 2 * 1.96 * by_user.std() / np.sqrt(len(test.users))
    assert row["high"] - row["low"] == pytest.approx(expected, rel=0.15)


def test_models_in_a_list_are_named_by_their_class(models):
    fitted, test = models
    table = compare([fitted["item"], fitted["item"], fitted["global"]], test, ["nll"], n_resamples=2)
    assert table["other"] == ["ItemFrequency 2", "GlobalFrequency", "GlobalFrequency"]


def test_a_rating_that_was_called_impossible_costs_infinity(models):
    test = models[1]
    wrong = np.zeros((len(test), 5))
    wrong[np.arange(len(test)), (test.score + 1) % 5] = 1
    answers = {"wrong": sc.Distribution(wrong, test.scores)}
    assert np.isinf(resample(test, answers, ["nll"], n_resamples=3)["nll"]["wrong"].values).all()
    assert np.isfinite(resample(test, answers, ["rmse"], n_resamples=3)["rmse"]["wrong"].values).all()


def test_what_is_undefined_everywhere_has_no_interval(models):
    fitted, test = models
    row = compare(fitted, test, ["accuracy@1"], n_resamples=5).rows[0]
    assert all(math.isnan(row[name]) for name in ("value", "difference", "low", "high", "better"))


def test_mistakes_in_a_comparison_are_said(models):
    fitted, test = models
    with pytest.raises(DataError, match=r"compare needs at least two models, got 1\."):
        compare([fitted["item"]], test)
    with pytest.raises(ParameterError, match=r"n_resamples must be a whole number of at least 1, got 0\."):
        compare(fitted, test, n_resamples=0)
    with pytest.raises(ParameterError, match=r"level must be a number from 0 to 1, got 95\."):
        compare(fitted, test, level=95)
    with pytest.raises(DataError, match=r"test must hold at least one rating, got none\."):
        compare(fitted, test.take(np.zeros(len(test), bool)))
    with pytest.raises(UnknownNameError, match="unknown measure 'mae'"):
        compare(fitted, test, ["mae"])
