"""Measures by name."""

import numpy as np
import pytest

import starcast as sc
from starcast import metrics
from starcast.errors import ParameterError, UnknownNameError
from starcast.evaluate import answer_for
from starcast.metrics.averages import paper_averages
from starcast.objectives import OVERALL, cumulate, direction, directions, measure, parse


@pytest.fixture(scope="module")
def case():
    train, test = sc.holdout(sc.make_ratings(random_state=0)[0], random_state=0)
    return test, answer_for(sc.ItemFrequency().fit(train), test)


def test_every_measure_has_its_name(case):
    test, answer = case
    paper = metrics.paper_measures(test, answer, [0.25, 0.5])
    found = measure(test, answer, [*OVERALL, "1-MAE@0.5", "coverage@0.25", "mAP@0.5"])
    assert found["nll"] == metrics.nll(test.values, answer)
    assert found["aurc_mae"] == metrics.aurc(test.values, answer, "absolute")
    assert found["1-MAE@0.5"] == paper["1-MAE"][1]
    assert found["coverage@0.25"] == paper["coverage"][0]
    assert found["mAP@0.5"] == paper["mAP"][1]


def test_a_cumulative_measure_is_the_papers_sum(case):
    test, answer = case
    for empty in ("undefined", "zero"):
        found = measure(test, answer, ["cumulative 1-MAE", "cumulative coverage"], empty=empty)
        for name in ("1-MAE", "coverage"):
            total = 0.0
            for k in range(20):
                x = metrics.paper_measures(test, answer, [k / 19], empty=empty)[name][0]
                total += 0 if np.isnan(x) else (20 - k) * x / 210
            assert found[f"cumulative {name}"] == pytest.approx(total, rel=1e-12)
            assert paper_averages(test, answer, empty=empty)[name] == pytest.approx(total, rel=1e-12)
    assert cumulate(np.ones((2, 20))).tolist() == pytest.approx([1, 1])


def test_relevance_is_passed_on(case):
    assert measure(*case, ["mAP@0"], relevant=1)["mAP@0"] == 1


def test_names_have_directions():
    assert [direction(name) for name in ("nll", "aurc", "mAP@0", "cumulative 1-MAE")] == ["min", "min", "max", "max"]
    assert directions("nll") == directions(("nll",)) == {"nll": "min"}
    assert directions({"seconds": "min"}) == {"seconds": "min"}


def test_a_name_that_means_nothing_is_said():
    with pytest.raises(UnknownNameError, match=r"unknown measure 'nlll'\. Did you mean 'nll'\?"):
        parse("nlll")
    with pytest.raises(UnknownNameError, match=r"unknown measure 'nll@0\.5'.*Known: 1-MAE@θ, accuracy@θ, aurc"):
        parse("nll@0.5")
    for name in ("1-MAE@2", "1-MAE@", "1-MAE@half"):
        with pytest.raises(ParameterError, match=f"the threshold of '{name}' must be a number from 0 to 1, such as 1-MAE@0.5, got "):  # fmt: skip
            parse(name)
    with pytest.raises(ParameterError, match="objectives must name at least one measure, got none"):
        directions([])
    with pytest.raises(UnknownNameError, match="unknown direction of 'nll' 'down'"):
        directions({"nll": "down"})
