"""What rows have in common: draws against the conjugate posterior, and planted priors that are found again."""

import numpy as np
import pytest
import scipy.stats

from starcast.models.hierarchy import FIRMNESS, LOOSE, Hierarchy, padded
from starcast.models.tall import ROUGH, cross, on_grid, times

RATE = 0.1  # of the exponential distribution that the ridge's strength has beforehand


def make_features(n, n_features, rng):
    return np.hstack([np.ones((n, min(n_features, 1))), rng.normal(size=(n, max(n_features - 1, 0)))])


def prior_of(n_columns):
    """Degrees of freedom and scale of the Wishart distribution that the precision has beforehand."""
    freedom = n_columns + 2
    return freedom, np.eye(n_columns) / (FIRMNESS * freedom)


def draw_from_the_prior(features, n_columns, rng):
    """Strength, weights, precision and rows, one after the other, as the docstring says."""
    freedom, scale = prior_of(n_columns)
    strength = rng.exponential(1 / RATE)
    precision = scipy.stats.wishart.rvs(freedom, scale, random_state=rng).reshape(n_columns, n_columns)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    ridge = np.r_[LOOSE, np.full(features.shape[1] - 1, strength)]
    weights = rng.normal(size=(features.shape[1], n_columns)) @ root.T / np.sqrt(ridge)[:, None]
    rows = features @ weights + rng.normal(size=(len(features), n_columns)) @ root.T
    return strength, weights, precision, rows


def conjugate(features, rows, strength):
    """By the formulas of a textbook: mean and row precision of the weights, freedom and scatter of the precision."""
    ridge = np.diag(np.r_[LOOSE, np.full(features.shape[1] - 1, strength)])
    bend = features.T @ features + ridge
    weights = np.linalg.inv(bend) @ features.T @ rows
    freedom, scale = prior_of(rows.shape[1])
    scatter = np.linalg.inv(scale) + rows.T @ rows - weights.T @ bend @ weights
    return weights, bend, freedom + len(rows), scatter


def test_draws_have_the_moments_of_the_conjugate_posterior():
    rng = np.random.default_rng(0)
    features = make_features(9, 3, rng)
    _, _, _, rows = draw_from_the_prior(features, 2, rng)
    prior = Hierarchy(features, 2, 1)
    weights, bend, freedom, scatter = conjugate(features, rows, 4.0)
    drawn = []
    for _ in range(4000):
        prior.strength = 4.0  # which it draws anew each time
        prior.draw(rows, rng)
        drawn.append(np.r_[prior.precision.ravel(), np.linalg.inv(prior.precision).ravel(), prior.weights.ravel()])
    drawn = np.array(drawn)
    away = drawn[:, 8:] - weights.ravel()
    covariance = scatter / (freedom - 2 - 1)
    for found, truth in (
        (drawn[:, :4], freedom * np.linalg.inv(scatter)),
        (drawn[:, 4:8], covariance),
        (drawn[:, 8:], weights),
        (away[:, :, None] * away[:, None], np.kron(np.linalg.inv(bend), covariance)),
    ):
        found = found.reshape(len(drawn), -1)
        error = found.std(axis=0) / np.sqrt(len(drawn))
        assert np.abs((found.mean(axis=0) - truth.ravel()) / error).max() < 4


@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_columns"), [(0, 3, 2), (1, 2, 3), (6, 3, 2), (4, 2, 1), (30, 4, 1)]
)
def test_what_was_drawn_from_the_prior_is_drawn_again_from_the_posterior(n_rows, n_features, n_columns):
    """If truth and rows come from the prior, then a draw given the rows has the distribution of the truth."""
    rng = np.random.default_rng(0)
    features = make_features(n_rows, n_features, rng)
    before, after = [], []
    for _ in range(1500):
        strength, weights, precision, rows = draw_from_the_prior(features, n_columns, rng)
        prior = Hierarchy(features, n_columns, 1)
        prior.strength = strength
        prior.draw(rows, rng)
        before.append(summary(strength, weights, precision))
        after.append(summary(prior.strength, prior.weights, prior.precision))
    for truth, found in zip(np.transpose(before), np.transpose(after), strict=True):
        assert scipy.stats.ks_2samp(truth, found).pvalue > 1e-4


def summary(strength, weights, precision):
    last = weights[-1]
    size = last @ precision @ last
    return [strength, precision[0, 0], precision[-1, 0], *weights[0], *last, size, size * strength]


def test_planted_weights_and_covariance_are_learnt():
    rng = np.random.default_rng(0)
    features, covariance = make_features(4000, 4, rng), np.array([[0.5, 0.2], [0.2, 0.3]])
    weights = np.array([[1.0, -2.0], [0.5, 0.0], [0.0, 0.3], [-0.4, 0.8]])
    rows = features @ weights + rng.multivariate_normal(np.zeros(2), covariance, 4000)
    prior = Hierarchy(features, 2, 1)
    for _ in range(5):
        prior.learn(rows, np.zeros((2, 2)))
    assert prior.weights == pytest.approx(weights, abs=0.05)
    assert np.linalg.inv(prior.precision) == pytest.approx(covariance, abs=0.03)
    assert prior.means(16)[:, :2] == pytest.approx(features @ weights, abs=0.2)


def test_planted_priors_are_learnt_from_rows_that_are_known_up_to_a_spread():
    """Rows are seen through noise; what is learnt and what is thought of them are found in turn."""
    rng = np.random.default_rng(0)
    n, covariance, noise = 4000, np.array([[0.5, 0.2], [0.2, 0.3]]), np.diag([0.4, 1.0])
    features, weights = make_features(n, 3, rng), np.array([[1.0, -2.0], [0.5, 0.0], [0.0, 0.3]])
    seen = features @ weights + rng.multivariate_normal(np.zeros(2), covariance + noise, n)
    prior = Hierarchy(features, 2, 1)
    for _ in range(60):
        spread = np.linalg.inv(prior.precision + np.linalg.inv(noise))
        rows = (features @ prior.weights @ prior.precision + seen @ np.linalg.inv(noise)) @ spread
        prior.learn(rows, n * spread)
    assert prior.weights == pytest.approx(weights, abs=0.06)
    assert np.linalg.inv(prior.precision) == pytest.approx(covariance, abs=0.06)


def test_features_that_say_nothing_get_no_weight():
    rng = np.random.default_rng(0)
    features, useful = make_features(200, 15, rng), make_features(200, 15, rng)
    prior, other = Hierarchy(features, 3, 1), Hierarchy(useful, 3, 1)
    rows = rng.normal(size=(200, 3))
    for _ in range(30):
        prior.learn(rows, np.zeros((3, 3)))
        other.learn(rows + useful[:, 1:] @ np.ones((14, 3)), np.zeros((3, 3)))
    least_squares = np.linalg.lstsq(features, rows, rcond=None)[0]
    assert np.abs(prior.weights[1:]).mean() < 0.3 * np.abs(least_squares[1:]).mean()
    assert other.weights[1:] == pytest.approx(np.ones((14, 3)), abs=0.3)


@pytest.mark.parametrize("n_rows", [0, 1, 2])
@pytest.mark.parametrize("n_features", [1, 2, 18])
def test_few_rows_leave_a_sound_prior(n_rows, n_features):
    rng = np.random.default_rng(0)
    features, rows = make_features(n_rows, n_features, rng), rng.normal(size=(n_rows, 24))
    prior = Hierarchy(features, 24, 4)
    for turn in range(20):
        if turn < 10:
            prior.learn(rows, np.zeros((24, 24)))
        else:
            prior.draw(rows, rng)
        assert np.isfinite(prior.weights).all()
        assert np.linalg.eigvalsh(prior.precision).min() > 0
        assert prior.precision == pytest.approx(prior.precision.T)
    assert prior.means(32).shape == (n_rows, 32)


def test_the_first_guess_tells_biases_from_factors():
    prior = Hierarchy(np.ones((3, 1)), 5, 2)
    assert np.diag(prior.precision).tolist() == [8.0, 8.0, 8.0, 2.0, 2.0]
    assert prior.means(16).tolist() == [[0.0] * 16] * 3


def test_padding_is_zero():
    wide = padded(np.arange(6.0).reshape(2, 3), 16)
    assert wide.dtype == np.float32
    assert wide.tolist() == [[0, 1, 2, *[0] * 13], [3, 4, 5, *[0] * 13]]


@pytest.mark.parametrize(
    ("n", "left", "right"), [(0, 3, 2), (1, 1, 1), (7, 18, 29), (5000, 24, 24), (1001, 17, 33), (40, 0, 5), (40, 5, 0)]
)
def test_tall_products_are_those_of_numpy(n, left, right):
    rng = np.random.default_rng(0)
    A, B, W = (rng.normal(size=shape) for shape in ((n, left), (n, right), (left, right)))
    assert cross(A, B, 2.0**-40) == pytest.approx(A.T @ B, abs=1e-9)
    assert cross(A, B) == pytest.approx(A.T @ B, abs=2e-5)
    assert times(A, W) == pytest.approx(A @ W, abs=1e-9)
    assert cross(np.asfortranarray(A), B[::1], 2.0**-40) == pytest.approx(A.T @ B, abs=1e-9)


def test_rows_may_lie_anywhere():
    """Products are on a grid: their sum is the same in any order and any parts, which that of floats is not."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(0, 3, (1000, 4)), rng.normal(0, 0.1, (1000, 5))
    whole, is_rounding_seen = cross(A, B), False
    for n_parts in (2, 3, 50):
        order, part = rng.permutation(1000), rng.integers(0, n_parts, 1000)
        parts = [order[part == k] for k in range(n_parts)]
        assert np.array_equal(sum(cross(A[some], B[some]) for some in parts), whole)
        is_rounding_seen |= not np.array_equal(sum(A[some].T @ B[some] for some in parts), A.T @ B)
    assert is_rounding_seen
    numbers = rng.normal(0, 1e6, 1000)
    assert np.abs(on_grid(numbers, ROUGH) - numbers).max() <= ROUGH / 2
    assert on_grid(numbers, ROUGH)[::-1].sum() == on_grid(numbers, ROUGH).sum()
