"""What no other point beats, and the volume that a front wins."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from starcast.errors import DataError
from starcast.pareto import hypervolume, pareto_mask

# Few different numbers, so that ties and duplicates are the rule.
COORDINATES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan])
TABLES = st.tuples(st.integers(0, 14), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=COORDINATES)
)


def naive_mask(points):
    defined = [not any(np.isnan(p)) for p in points]
    return [
        good and not any(d and all(q >= p) and any(q > p) for q, d in zip(points, defined, strict=True))
        for p, good in zip(points, defined, strict=True)
    ]


@given(TABLES)
def test_the_mask_is_the_definition(points):
    assert pareto_mask(points).tolist() == naive_mask(points)


@given(TABLES, st.randoms())
def test_the_order_of_the_points_does_not_matter(points, random):
    order = list(range(len(points)))
    random.shuffle(order)
    assert pareto_mask(points[order]).tolist() == pareto_mask(points)[order].tolist()


def test_undefined_points_neither_count_nor_beat():
    assert pareto_mask([[1, np.nan], [0, 0], [np.nan, 9]]).tolist() == [False, True, False]


def test_equal_points_all_stay():
    assert pareto_mask([[1, 2], [1, 2], [2, 1], [1, 1]]).tolist() == [True, True, True, False]


def test_a_point_that_ties_in_one_column_and_loses_the_other_is_beaten():
    assert pareto_mask([[2, 1], [3, 1], [3, 0]]).tolist() == [False, True, False]
    assert pareto_mask([[2, 1, 1], [3, 1, 1], [3, 0, 1]]).tolist() == [False, True, False]


def test_no_points_have_no_front():
    assert pareto_mask(np.empty((0, 2))).tolist() == []
    assert pareto_mask(np.empty((0, 3))).tolist() == []


def test_a_hundred_thousand_points_agree_with_a_sweep():
    points = np.random.default_rng(0).normal(size=(100_000, 2)).round(3)
    mask = pareto_mask(points)
    front = points[mask]
    beaten = points[~mask][::100]
    assert not any(((front >= p).all(axis=1) & (front > p).any(axis=1)).any() for p in front)
    assert all(((front >= p).all(axis=1) & (front > p).any(axis=1)).any() for p in beaten)


def volume_by_inclusion_and_exclusion(points, reference):
    total = 0.0
    heights = np.maximum(points - reference, 0)
    for size in range(1, len(points) + 1):
        for some in itertools.combinations(heights, size):
            total += (-1) ** (size + 1) * np.prod(np.min(some, axis=0))
    return total


@given(
    st.tuples(st.integers(0, 6), st.integers(1, 4)).flatmap(
        lambda shape: arrays(np.float64, shape, elements=st.integers(-2, 5).map(float))
    )
)
def test_the_volume_is_that_of_inclusion_and_exclusion(points):
    reference = np.zeros(points.shape[1]) + 0.5
    assert hypervolume(points, reference) == pytest.approx(volume_by_inclusion_and_exclusion(points, reference))


@pytest.mark.parametrize("n_columns", [2, 3, 4])
def test_the_volume_is_the_share_of_darts_below_some_point(n_columns):
    rng = np.random.default_rng(n_columns)
    points = rng.random((30, n_columns))
    darts = rng.random((20_000, n_columns))
    hit = np.zeros(len(darts), bool)
    for point in points:
        hit |= (darts <= point).all(axis=1)
    assert hypervolume(points, np.zeros(n_columns)) == pytest.approx(hit.mean(), abs=0.015)


def test_beaten_undefined_and_low_points_win_nothing():
    front = [[1, 3], [3, 1]]
    more = [*front, [1, 1], [np.nan, 9], [-5, 9], [9, 0]]
    assert hypervolume(more, [0, 0]) == hypervolume(front, [0, 0]) == 5.0
    assert hypervolume(np.empty((0, 2)), [0, 0]) == 0.0


@pytest.mark.parametrize("of", [pareto_mask, lambda points: hypervolume(points, [0, 0])])
def test_what_is_no_table_is_said(of):
    with pytest.raises(
        DataError, match=r"points must have a row per point and a column per objective, got the shape \(3,\)"
    ):
        of([1, 2, 3])
    with pytest.raises(
        DataError, match="points must be a table of numbers, a row per point and a column per objective"
    ):
        of([["a", "b"]])


def test_a_reference_that_does_not_fit_is_said():
    with pytest.raises(DataError, match=r"reference must be 2 finite numbers, got \[0\]\."):
        hypervolume([[1, 2]], [0])
    with pytest.raises(DataError, match=r"reference must be 2 finite numbers, got \[0, nan\]\."):
        hypervolume([[1, 2]], [0, float("nan")])
    with pytest.raises(DataError, match=r"points must be finite, got infinity\. Leave such rows out\."):
        hypervolume([[1, np.inf]], [0, 0])
