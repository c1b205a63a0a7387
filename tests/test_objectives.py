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


def two_forecasts():
    """A rating hit with a reliability of exactly a half, and one missed by a quarter of the scale."""
    test = sc.Ratings.from_arrays(["ann", "ann"], ["x", "y"], [5, 1], scores=[1, 2, 3, 4, 5])
    return test, sc.Distribution([[0, 0, 0.25, 0.25, 0.5], [0.3, 0.4, 0.1, 0.1, 0.1]], [1, 2, 3, 4, 5])


def test_averages_by_hand():
    # At 0 both are left: 1 - 1/8; at 1/2 the first, whose reliability is the threshold itself; at 1 none.
    found = paper_averages(*two_forecasts(), n=3)
    assert found == pytest.approx({"1-MAE": (3 * 0.875 + 2 * 1) / 6, "coverage": (3 * 1 + 2 * 0.5) / 6})
    assert paper_averages(*two_forecasts(), n=3, empty="zero")["1-MAE"] == pytest.approx((3 * 0.875 + 2 + 1) / 6)


def test_averages_leave_out_what_is_not_predicted():
    found = paper_averages(*two_forecasts(), n=3, point=[5, np.nan])
    assert found == pytest.approx({"1-MAE": (3 + 2) / 6, "coverage": (3 + 2) * 0.5 / 6})


@pytest.mark.parametrize("users", [["ann", "bob"], ["bob", "ann"]])
def test_a_name_without_ratings_is_not_averaged(users):
    test, answer = two_forecasts()
    code = np.full(2, users.index("ann"), np.int32)
    table = sc.Ratings(np.array(users), test.items, test.scores, code, test.item, test.score)
    assert paper_averages(table, answer, n=3) == paper_averages(test, answer, n=3)
    np.testing.assert_equal(metrics.paper_measures(table, answer), metrics.paper_measures(test, answer))


def test_an_unknown_rule_for_averages_is_named():
    with pytest.raises(UnknownNameError, match=r"^unknown empty 'nil'"):
        paper_averages(*two_forecasts(), empty="nil")


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
