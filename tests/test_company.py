"""Who rated what: loadings against a dense decomposition, and features of one size."""

import numpy as np
import pytest

import starcast as sc
from starcast.kernels import Side, make_sides
from starcast.models.company import FINE, describe, find_company, gather


def table(n_users=60, n_items=45, seed=0, empty=False):
    """Ratings with a few tastes, so that the leading singular values stand apart; `empty` adds names without ratings."""
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, 4, n_users)[:, None] == rng.integers(0, 4, n_items)
    rated = rng.random((n_users, n_items)) < np.where(taste, 0.6, 0.08)
    rated[np.arange(n_users), np.arange(n_users) % n_items] = True
    rated[np.arange(n_items) % n_users, np.arange(n_items)] = True
    if empty:
        rated[3] = rated[:, 5] = False
    user, item = (codes.astype(np.int32) for codes in np.nonzero(rated))
    score = rng.integers(0, 5, len(user)).astype(np.int8)
    return sc.Ratings(np.arange(n_users), np.arange(n_items), np.arange(1.0, 6.0), user, item, score)


def dense(ratings):
    """1 / sqrt(n_u n_i) where u rated i."""
    A = np.zeros((len(ratings.users), len(ratings.items)))
    A[ratings.user, ratings.item] = 1
    counts = A.sum(axis=1)[:, None] * A.sum(axis=0)
    return A / np.sqrt(np.maximum(counts, 1))


def signed(vectors):
    """With the largest entry of each column positive."""
    return vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])


@pytest.mark.parametrize("empty", [False, True])
def test_features_are_the_leading_singular_vectors(empty):
    ratings = table(empty=empty)
    sides = make_sides(ratings)
    company = find_company(*sides, 4)
    U, sigma, V = np.linalg.svd(dense(ratings))
    counts = (
        np.maximum(np.bincount(ratings.item, minlength=45), 1),
        np.maximum(np.bincount(ratings.user, minlength=60), 1),
    )
    for side, loadings, own, vectors, n in (
        (sides[0], company.items, U, V.T, counts[0]), (sides[1], company.users, V.T, U, counts[1]),
    ):  # fmt: skip
        features = describe(side, loadings)
        rows = len(own)
        assert signed(features[:, 2:]) == pytest.approx(signed(np.sqrt(rows) * own[:, :4]), abs=2e-3)
        expected = np.sqrt(rows) * vectors[:, :4] / sigma[:4] / np.sqrt(n)[:, None]
        assert signed(loadings) == pytest.approx(signed(expected), rel=1e-3, abs=2e-3)


@pytest.mark.parametrize(
    ("n_users", "n_items", "n_features"), [(60, 45, 16), (6, 40, 16), (40, 3, 16), (1, 9, 4), (9, 1, 4), (1, 1, 16)]
)
def test_every_feature_has_a_mean_square_of_one_or_is_not_there(n_users, n_items, n_features):
    ratings = table(n_users, n_items)
    sides = make_sides(ratings)
    company = find_company(*sides, n_features)
    assert company.users.shape == (n_users, n_features)
    assert company.items.shape == (n_items, n_features)
    rank = np.linalg.matrix_rank(dense(ratings))
    for side, loadings in zip(sides, (company.items, company.users), strict=True):
        assert loadings.dtype == np.float32
        squares = (describe(side, loadings)[:, 2:] ** 2).mean(axis=0)
        assert squares == pytest.approx(np.where(np.arange(n_features) < rank, 1.0, 0.0), abs=1e-3)


def test_the_first_two_features_are_one_and_the_number_of_ratings():
    side = Side(np.array([0, 0, 1, 8]), np.zeros(8, np.int32), np.zeros(8, np.int8))
    features = describe(side, np.array([[2.0, -1.0]], np.float32))
    assert features[:, 0].tolist() == [1, 1, 1]
    assert features[:, 1] == pytest.approx([-1, np.log(2) / 3 - 1, np.log(8) / 3 - 1])
    assert features[:, 2:] == pytest.approx(np.array([[0, 0], [2, -1], [7 * 2 / np.sqrt(7), -7 / np.sqrt(7)]]))


def test_without_company_there_are_two_features():
    sides = make_sides(table())
    company = find_company(*sides, 0)
    assert company.users.shape == (60, 0)
    assert describe(sides[0], company.items).shape == (60, 2)


def test_rows_without_ratings_have_no_company():
    ratings = table(empty=True)
    sides = make_sides(ratings)
    company = find_company(*sides, 4)
    assert company.users[3] == pytest.approx(np.zeros(4), abs=1e-9)
    assert company.items[5] == pytest.approx(np.zeros(4), abs=1e-9)
    assert describe(sides[0], company.items)[3].tolist() == [1, -1, 0, 0, 0, 0]
    # and who was never there changes nothing for the others but the size that makes the mean square one
    users, items = np.delete(np.arange(60), 3), np.delete(np.arange(45), 5)
    without = sc.Ratings(
        users,
        items,
        ratings.scores,
        np.searchsorted(users, ratings.user).astype(np.int32),
        np.searchsorted(items, ratings.item).astype(np.int32),
        ratings.score,
    )
    smaller = find_company(*make_sides(without), 4)
    assert np.abs(company.users[users]) == pytest.approx(np.abs(smaller.users) * np.sqrt(45 / 44), rel=1e-3, abs=2e-3)


def test_scores_do_not_matter():
    ratings = table()
    turned = sc.Ratings(ratings.users, ratings.items, ratings.scores, ratings.user, ratings.item, 4 - ratings.score)
    for one, other in zip(find_company(*make_sides(ratings), 4), find_company(*make_sides(turned), 4), strict=True):
        assert np.array_equal(one, other)


def test_sums_over_users_are_the_same_wherever_users_are():
    """What users in several places add up to for the items, and what that makes of all columns."""
    ratings, rng = table(n_users=300), np.random.default_rng(1)
    columns, weights = rng.normal(0, 0.1, (300, 5)), rng.random(300)

    def sums(who):
        here = np.isin(ratings.user, who)
        names = ratings.users, ratings.items, ratings.scores
        some = make_sides(sc.Ratings(*names, ratings.user[here], ratings.item[here], ratings.score[here]))[1]
        return gather(some, np.ones(45), weights, columns, step=FINE)

    whole = sums(np.arange(300))
    assert whole == pytest.approx((dense(ratings) > 0).T @ (weights[:, None] * columns), abs=1e-9)
    for n_parts in (2, 3, 9):
        place = rng.integers(0, n_parts, 300)
        assert np.array_equal(sum(sums(np.flatnonzero(place == k)) for k in range(n_parts)), whole)
