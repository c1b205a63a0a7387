"""What the ordinal model is worth: beside a planted truth, and beside its rivals on real ratings."""

import numpy as np
import pytest
from world import ask, make_world

import starcast as sc
from starcast import metrics

RIVALS = {
    "ResBeMF": sc.ResBeMF(random_state=0),
    "BiasedMF": sc.BiasedMF(random_state=0),
    "NaiveBayes": sc.NaiveBayes(),
}


@pytest.fixture(scope="module")
def world():
    """Ninety ratings a user, and another seventeen thousand to be judged by."""
    return make_world(300, 150, 0.6, 17_500, seed=0)


@pytest.fixture(scope="module")
def answer(world):
    return ask(sc.OrdinalMF(thin=2, random_state=0, n_jobs=1).fit(world.train), world.new)


def test_the_log_loss_is_near_that_of_the_truth_and_below_all_rivals(world, answer):
    least = metrics.nll(world.new.values, sc.Distribution(world.truth, world.new.scores))
    found = metrics.nll(world.new.values, answer)
    assert least < found < 1.05 * least
    for name, rival in RIVALS.items():
        assert found < metrics.nll(world.new.values, ask(rival.clone().fit(world.train), world.new)) - 0.08, name


def test_a_reliability_is_how_often_the_prediction_is_right(world, answer):
    reliability, at = answer.reliability(), answer.probs.argmax(axis=1)
    right = answer.mode() == world.new.values
    truly = world.truth[np.arange(len(at)), at]  # without the luck of the draw
    error = np.sqrt((truly * (1 - truly)).sum()) / len(at)
    assert right.mean() == pytest.approx(truly.mean(), abs=4 * error)
    assert reliability.mean() == pytest.approx(truly.mean(), abs=0.01)
    for part in np.array_split(np.argsort(reliability), 5):  # among the least reliable, ..., among the most
        assert reliability[part].mean() == pytest.approx(truly[part].mean(), abs=0.035)
        assert reliability[part].mean() == pytest.approx(right[part].mean(), abs=0.035 + 3 * 0.5 / np.sqrt(len(part)))


def test_every_probability_is_how_often_its_score_comes(world, answer):
    for score in range(5):
        stated = answer.probs[:, score]
        for part in np.array_split(np.argsort(stated), 5):
            assert stated[part].mean() == pytest.approx(world.truth[part, score].mean(), abs=0.03)


def test_draws_are_worth_more_than_the_summit(world, answer):
    """Averaging over what is possible says better than the likeliest how little is known."""
    summit = ask(sc.OrdinalMF(n_draws=0, random_state=0, n_jobs=1).fit(world.train), world.new)
    assert metrics.nll(world.new.values, answer) < metrics.nll(world.new.values, summit) - 0.01


@pytest.mark.slow
def test_untouched_it_beats_its_rivals_on_the_sample():
    train, test = sc.holdout(sc.load_sample(), test_size=0.1, random_state=0)
    scores = {}
    for name, model in ({"OrdinalMF": sc.OrdinalMF(random_state=0)} | RIVALS).items():
        answer = ask(model.clone().fit(train), test)
        truth = test.values
        scores[name] = metrics.nll(truth, answer), metrics.aurc(truth, answer), metrics.rmse(truth, answer.mode())
    best = scores.pop("OrdinalMF")
    for name, rival in scores.items():
        assert best[0] < rival[0] - 0.08, name
        assert best[1] < rival[1] - 0.03, name
        assert best[2] < rival[2] - 0.01, name
