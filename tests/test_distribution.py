"""Distributions against loops over their rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starcast.distribution import Distribution, check_fraction
from starcast.errors import DataError, ParameterError, UnknownNameError

EXACT = settings(derandomize=True, max_examples=80, deadline=None)


@st.composite
def distributions(draw):
    """Rows of 64ths, so that sums are exact and ties are common, or of any floats."""
    n_scores = draw(st.integers(2, 9))
    scores = sorted(draw(st.lists(st.integers(-8, 8), min_size=n_scores, max_size=n_scores, unique=True)))
    cuts = draw(st.lists(st.lists(st.integers(0, 64), min_size=n_scores - 1, max_size=n_scores - 1), max_size=6))
    probs = np.array([np.diff([0, *sorted(row), 64]) / 64 for row in cuts]).reshape(-1, n_scores)
    return Distribution(probs.astype(draw(st.sampled_from([np.float64, np.float32]))), np.array(scores) / 2)


def narrowest(p, level):
    """All runs, the shortest first, then the likeliest, then the lowest."""
    runs = [(b - a, -sum(p[a : b + 1]), a, b) for a in range(len(p)) for b in range(a, len(p))]
    _, _, low, high = min(run for run in runs if -run[1] >= level - 1e-12)
    return low, high


@EXACT
@given(distributions(), st.integers(0, 64))
def test_every_answer_is_that_of_a_loop(d, level):
    level /= 64
    low, high = d.interval(level)
    for row, p in enumerate(d.probs.astype(float)):
        s = d.scores
        mode = max(range(len(p)), key=lambda k: (p[k], -k))
        median = next(k for k in range(len(p)) if sum(p[: k + 1]) >= 0.5)
        error = sum(p[k] * abs(s[k] - s[median]) for k in range(len(p)))
        assert d.mode()[row] == s[mode]
        assert d.median()[row] == s[median]
        assert d.mean()[row] == pytest.approx(sum(p * s), abs=1e-12)
        assert d.reliability()[row] == p[mode]
        assert d.reliability("error")[row] == pytest.approx(1 - error / (s[-1] - s[0]), abs=1e-6)
        assert d.absolute_error()[row] == pytest.approx(error, abs=1e-6)
        assert d.entropy()[row] == pytest.approx(-sum(x * np.log(x) for x in p if x), abs=1e-6)
        assert (low[row], high[row]) == tuple(s[at] for at in narrowest(p.tolist(), level))
        assert bool(d.keep(level)[row]) == bool(p[mode] >= level)


@EXACT
@given(distributions())
def test_the_median_has_the_least_absolute_error(d):
    errors = np.array([d.absolute_error(np.full(len(d), score)) for score in d.scores])
    assert np.allclose(d.absolute_error(), errors.min(axis=0), atol=1e-6)


@EXACT
@given(distributions())
def test_one_row_at_a_time_gives_the_same_bits(d):
    for ask in (
        Distribution.mean,
        Distribution.mode,
        Distribution.median,
        Distribution.reliability,
        Distribution.entropy,
    ):
        assert ask(d).tolist() == [ask(d[row])[0] for row in range(len(d))]


def test_the_mean_of_a_row_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    for n_scores in (2, 5, 9, 10, 33):
        probs = rng.dirichlet(np.ones(n_scores), 1000)
        d = Distribution(probs, np.arange(n_scores) * 0.1 + 0.1)
        means = d.mean()
        for rows in (slice(1, None), slice(0, 1), slice(3, 10), slice(None, None, -1)):
            assert np.array_equal(d[rows].mean(), means[rows])
        assert np.array_equal(Distribution(np.asfortranarray(probs), d.scores).mean(), means)


def test_ties_go_to_the_lowest_score():
    d = Distribution([[0.25, 0.25, 0.25, 0.25], [0, 0.5, 0, 0.5]], [1, 2, 3, 4])
    assert d.mode().tolist() == [1, 2]
    assert d.median().tolist() == [2, 2]
    assert d.interval(0.25)[0].tolist() == [1, 2]


def test_halves_that_add_up_in_floating_point_are_a_half():
    assert Distribution([[0.1, 0.35, 0.05, 0.5]], [1, 2, 3, 4]).median().tolist() == [3]


def test_a_threshold_is_compared_alike_whatever_its_type():
    d = Distribution.trusted(np.array([[0.3, 0.7]], np.float32), np.array([1.0, 2.0]))
    assert d.keep(0.7).tolist() == d.keep(np.float64(0.7)).tolist() == d.keep(np.float32(0.7)).tolist() == [True]


def test_zero_keeps_all_and_one_keeps_the_certain():
    d = Distribution([[0.5, 0.5], [1, 0]], [1, 2])
    assert d.keep(0).tolist() == [True, True]
    assert d.keep(1).tolist() == [False, True]
    assert d.keep(0.9, "error").tolist() == [False, True]


def test_point_is_what_it_names():
    d = Distribution([[0.1, 0.2, 0.7]], [1, 2, 3])
    assert [d.point(kind)[0] for kind in ("mode", "median", "mean")] == pytest.approx([3, 3, 2.6])
    assert d.point()[0] == 3


def test_integers_are_taken_as_probabilities():
    assert Distribution([[0, 1]], [1, 2]).probs.dtype == np.float64


def test_single_precision_becomes_double():
    assert Distribution(np.array([[0.5, 0.5]], np.float32), [1, 2]).probs.dtype == np.float64


def test_no_pairs_are_a_distribution():
    d = Distribution(np.empty((0, 3)), [1, 2, 3])
    assert len(d) == len(d.mode()) == len(d.mean()) == len(d.median()) == len(d.interval()[0]) == len(d.entropy()) == 0
    assert len(d.to_frame()) == 0


def test_rows_can_be_taken():
    d = Distribution([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], [1, 2])
    assert d[1].mode().tolist() == [1]
    assert d[[2, 0]].probs.tolist() == [[0.5, 0.5], [0.1, 0.9]]
    assert d[np.array([True, False, True])].mode().tolist() == [2, 1]
    assert len(d[[]]) == 0


def test_repr_counts():
    assert repr(Distribution([[0.1, 0.9]], [0.5, 2])) == "Distribution(1 pairs, 2 scores from 0.5 to 2)"


@pytest.mark.parametrize("like", [None, pd.DataFrame(), pa.table({"a": [1]}), pd.Series([1])], ids=str)
def test_the_frame_has_a_column_per_score(like):
    frame = Distribution([[0.25, 0.75]], [0.5, 4]).to_frame(like)
    columns = {name: frame[name].to_numpy().tolist() for name in list(getattr(frame, "column_names", frame.columns))} if not isinstance(like, pa.Table) else frame.to_pydict()  # fmt: skip
    assert columns == {
        "mode": [4],
        "median": [4],
        "mean": [3.125],
        "reliability": [0.75],
        "p_0.5": [0.25],
        "p_4": [0.75],
    }


def test_scores_that_are_close_keep_a_column_each():
    frame = Distribution([[0.25, 0.75]], [1_000_000, 1_000_001]).to_frame()
    assert frame.columns[4:] == ["p_1000000", "p_1000001"]


@pytest.mark.parametrize(
    ("probs", "scores", "message"),
    [
        ([[0.5, 0.5]], [1, 2, 3], r"probs must have a column per score, got the shapes \(1, 2\) and \(3,\)\."),
        ([0.5, 0.5], [1, 2], r"probs must have a column per score, got the shapes \(2,\) and \(2,\)\."),
        ([[1.0]], [1], r"scores must be two or more and ascend, got \[1\.0\]\."),
        ([[0.5, 0.5]], [2, 1], r"scores must be two or more and ascend, got \[2\.0, 1\.0\]\."),
        ([[0.5, 0.5]], [1, 1], r"scores must be two or more and ascend"),
        ([[0.5, 0.5]], [1, float("nan")], r"scores must be two or more and ascend"),
        ([[0.5, 0.5]], [1, float("inf")], r"scores must be two or more and ascend"),
        ([[0.5, 0.5], [0.5, 0.6], [1, 1]], [1, 2], r"each row of probs must be zero or more and add up to one, got \[0\.5, 0\.6\] in row 1 \(2 such of 3\)\."),
        ([[1.5, -0.5]], [1, 2], r"each row of probs must be zero or more"),
        ([[float("nan"), 1]], [1, 2], r"each row of probs must be zero or more"),
        ([[float("inf"), 0]], [1, 2], r"each row of probs must be zero or more"),
        ([["a", "b"]], [1, 2], r"probs and scores must be numbers"),
        ([[0.5, 0.5]], ["a", "b"], r"probs and scores must be numbers"),
        ([[0.5, 0.5], [1]], [1, 2], r"probs and scores must be numbers"),
        ([[1j, 1]], [1, 2], r"probs and scores must be numbers"),
    ],
)  # fmt: skip
def test_what_is_no_distribution_is_said(probs, scores, message):
    with pytest.raises(DataError, match=message):
        Distribution(probs, scores)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), True, "0.5", None, [0.5], 1j])
def test_what_is_no_fraction_is_said(value):
    d = Distribution([[0.5, 0.5]], [1, 2])
    for call, name in ((lambda: d.keep(value), "threshold"), (lambda: d.interval(value), "level")):
        with pytest.raises(ParameterError) as caught:
            call()
        assert str(caught.value) == f"{name} must be a number from 0 to 1, got {value!r}."


def test_a_fraction_comes_back_as_a_float():
    assert check_fraction(np.float32(0.5), "x") == 0.5
    assert type(check_fraction(1, "x")) is float


def test_unknown_kinds_are_said():
    d = Distribution([[0.5, 0.5]], [1, 2])
    with pytest.raises(
        UnknownNameError, match=r"unknown point 'modus'\. Did you mean 'mode'\? Known: mean, median, mode"
    ):
        d.point("modus")
    with pytest.raises(
        UnknownNameError, match=r"unknown reliability 'eror'\. Did you mean 'error'\? Known: error, mode"
    ):
        d.reliability("eror")
