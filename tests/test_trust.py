"""Temperatures."""

import numpy as np
import pytest

import starcast as sc
from starcast.errors import ParameterError
from starcast.trust import fit_temperature, temper


@pytest.fixture(scope="module")
def planted():
    return sc.make_ratings(n_users=300, n_items=200, density=0.3, random_state=0)


def test_a_temperature_of_one_changes_nothing(planted):
    _, truth = planted
    assert temper(truth, 1.0).probs == pytest.approx(truth.probs, abs=1e-9)


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_modes_stay_and_reliabilities_move(planted, temperature):
    _, truth = planted
    moved = temper(truth, temperature)
    assert np.array_equal(moved.mode(), truth.mode())
    assert ((moved.reliability() < truth.reliability()) == (temperature > 1)).mean() > 0.99


@pytest.mark.parametrize("distortion", [0.4, 1.0, 2.5])
def test_a_distortion_is_undone(planted, distortion):
    ratings, truth = planted
    assert fit_temperature(ratings.values, temper(truth, distortion)) == pytest.approx(1 / distortion, rel=0.05)


def test_no_temperature_is_better_than_the_one_found(planted):
    ratings, truth = planted
    answer = temper(truth, 0.6)
    best = sc.metrics.nll(ratings.values, temper(answer, fit_temperature(ratings.values, answer)))
    others = [sc.metrics.nll(ratings.values, temper(answer, t)) for t in np.geomspace(0.2, 5, 60)]
    assert best <= min(others) + 1e-6


def test_impossible_scores_stay_finite():
    answer = sc.Distribution([[1.0, 0.0], [1.0, 0.0]], [1, 2])
    assert np.isfinite(sc.metrics.nll([1, 2], temper(answer, fit_temperature([1, 2], answer))))


@pytest.mark.parametrize("temperature", [0, -1, float("nan"), float("inf"), "hot"])
def test_a_wrong_temperature_is_named(planted, temperature):
    with pytest.raises(ParameterError, match="temperature must be a finite number above zero, got"):
        temper(planted[1], temperature)
