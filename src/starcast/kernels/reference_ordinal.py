"""The kernels of the ordinal model as plain loops in float64: what they must compute, step by step.

A row is laid out as the factors of basis function 0, those of 1, …, then a bias for each. The logits of a pair are
base + basis' eta, with eta_j = bias_uj + bias_ij + p_uj . q_ij. A `row` is all that its posterior depends on: the rows
of those that it has ratings with, their scores, base, basis, ranks, and mean and precision of its prior.
"""

import math
from typing import Any

import numpy as np

from starcast.kernels.reference import Floats, softmax


def ordinal_logits(theta: Floats, other: Floats, base: Floats, basis: Floats, ranks: Any) -> Any:
    eta, d, K = [], 0, sum(ranks)
    for j, rank in enumerate(ranks):
        eta.append(theta[K + j] + other[K + j] + (theta[d : d + rank] * other[d : d + rank]).sum())
        d += rank
    return base + sum(eta[j] * basis[j] for j in range(len(ranks)))


def ordinal_units(reach: Any, longest: int, basis: Floats, ranks: Any) -> Any:
    """Powers of two, for the gradient and for the second derivative of the log-likelihood, of which every rating adds a
    whole number, so that sums do not depend on their order.

    A rating adds at most 2^16 of them, fewer where 2^30 would not be enough for the longest row. Residuals lie within
    the range of their basis function, covariances within a quarter of two, factors within their reach.
    """
    J, bits = len(ranks), 16
    while bits > 1 and longest >= 2 ** (30 - bits):
        bits -= 1
    of = [j for j in range(J) for _ in range(ranks[j])] + list(range(J))
    size = [reach[j] for j in range(J) for _ in range(ranks[j])] + [1.0] * J
    reaches = np.array([(basis[j].max() - basis[j].min()) * x for j, x in zip(of, size, strict=True)])
    exponents = [np.frexp(1.001 * np.clip(most, 1e-12, 1e12))[1] for most in (reaches, np.outer(reaches, reaches) / 4)]
    return [2.0 ** (exponent - bits) for exponent in exponents]


def ordinal_row(
    theta: Floats, others: Any, scores: Any, base: Floats, basis: Floats, ranks: Any, mean: Floats, precision: Floats,
    units: Any = None,
) -> Any:  # fmt: skip
    """Log-posterior of a row but for a constant, its gradient, and minus its second derivative, in whole units if these
    are given."""
    J = len(ranks)
    of = np.array([j for j in range(J) for _ in range(ranks[j])] + list(range(J)))  # the function of each column
    value = -0.5 * (theta - mean) @ precision @ (theta - mean)
    slope, bend = -precision @ (theta - mean), precision.copy()
    for other, r in zip(others, scores, strict=True):
        z = ordinal_logits(theta, other, base, basis, ranks)
        p, x = softmax(z), np.append(other[: sum(ranks)], np.ones(J))  # x: what multiplies each column
        value += z[r] - z.max() - math.log(np.exp(z - z.max()).sum())
        mid = basis @ p
        pull = (basis[:, r] - mid)[of] * x
        curve = ((basis * p) @ basis.T - np.outer(mid, mid))[np.ix_(of, of)] * np.outer(x, x)
        slope += pull if units is None else np.rint(pull / units[0]) * units[0]
        bend += curve if units is None else np.rint(curve / units[1]) * units[1]
    return value, slope, bend


def ordinal_step(theta: Floats, *row: Any) -> Any:
    """A step of Newton's, halved until the log-posterior rises, and how often it was halved."""
    now, slope, bend = ordinal_row(theta, *row)
    step = np.linalg.solve(bend, slope)
    for n in range(12):
        trial = theta + 0.5**n * step
        if ordinal_row(trial, *row)[0] > now:
            return trial, n
    return theta, 12


def ordinal_draw(theta: Floats, noise: Floats, *row: Any) -> Any:
    """Where a move of Metropolis and Hastings would end, and the logarithm of the odds that it is accepted."""

    def density(to: Floats, at: Floats) -> Any:
        """The log-density of a move from `at` to `to`, but for a constant, and the log-posterior at `at`."""
        value, slope, bend = ordinal_row(at, *row)
        away = to - at - np.linalg.solve(bend, slope)
        return 0.5 * np.linalg.slogdet(bend)[1] - 0.5 * away @ bend @ away, value

    _, slope, bend = ordinal_row(theta, *row)
    trial = theta + np.linalg.solve(bend, slope) + np.linalg.solve(np.linalg.cholesky(bend).T, noise)
    (there, now), (back, then) = density(trial, theta), density(theta, trial)
    return trial, then + back - now - there


def ordinal_slope(theta: Floats, others: Any, scores: Any, base: Floats, basis: Floats, ranks: Any) -> Any:
    """Log-likelihood of a row's ratings, its gradient, and for each basis function the squares of its residuals."""
    J = len(ranks)
    of = [j for j in range(J) for _ in range(ranks[j])] + list(range(J))  # the function of each column
    value, slope, squares = 0.0, np.zeros(len(theta)), np.zeros(J)
    for other, r in zip(others, scores, strict=True):
        z = ordinal_logits(theta, other, base, basis, ranks)
        p = softmax(z)
        value += z[r] - z.max() - math.log(np.exp(z - z.max()).sum())
        residual = [basis[j][r] - sum(p[s] * basis[j][s] for s in range(len(base))) for j in range(J)]
        for c in range(len(theta)):
            slope[c] += residual[of[c]] * (other[c] if c < sum(ranks) else 1.0)
        squares += np.square(residual)
    return value, slope, squares


def ordinal_bend(variance: Floats, square: Floats, spread: Floats, ranks: Any) -> Any:
    """The curvature that a rating adds to each column of a row, and the part of it that is doubt about the others.

    `square` and `spread`: of each column, the mean of x² and of 1 / h over the others, each as often as it is rated.
    `variance`: of each basis function, the mean square of its residuals, at most its variance under the frequencies of
    the scores.
    """
    bend, doubt, c = [], [], 0
    for j, rank in enumerate(ranks):
        for _ in range(rank):
            bend.append(variance[j] * (square[c] + spread[c]))
            doubt.append(variance[j] * spread[c])
            c += 1
    return np.array([*bend, *variance]), np.array([*doubt, *np.zeros(len(ranks))])


def ordinal_glide(
    theta: Floats, velocity: Floats, slope: Floats, n: int, mean: Floats, precision: Floats, bend: Floats,
    doubt: Floats, length: float, memory: float,
) -> Any:  # fmt: skip
    """Where a step ends, its velocity, 1 / h, and the price of where it began; *n*: the ratings of the row."""
    away = theta - mean
    pull = precision @ away
    price = 0.5 * away @ pull + 0.5 * sum(n * doubt * theta**2)
    h = np.diag(precision) + n * bend
    velocity = memory * velocity + (slope - pull - n * doubt * theta) / (length * h)
    return theta + velocity, velocity, 1 / h, price
