"""A model against test ratings."""

import math

import numpy as np
import pytest

import starcast as sc
from starcast import metrics
from starcast.errors import DataError, NotFittedError, ParameterError
from starcast.evaluate import THRESHOLDS, answer_for, evaluate, overall_measures


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
