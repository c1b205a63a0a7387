"""The paper's five updates as plain loops: the specification of the strict kernels, and their oracle in the tests.

Every function does one iteration (all users, then all items from the new user factors) on ratings given as a list of
(user, item, score code), and changes P and Q in place. P and Q are [row][score][factor] for the models with a vector
per score, [row][factor] for PMF, and [row][1 + factor] with the bias in front for BiasedMF. Rows take their ratings in
ascending order of the other side's code.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Triples = Sequence[tuple[int, int, int]]
Floats = npt.NDArray[np.float64]
Rated = list[tuple[Floats, int]]


def resbemf(ratings: Triples, values: Any, P: Floats, Q: Floats, eta: float, gamma: float) -> None:
    """P_u^s += sum_i eta ((1[r = s] - sigma_r) Q_i^s - gamma P_u^s), sigma_r the softmax of the score given."""

    def step(own: Floats, rated: Rated) -> None:
        moved = np.zeros_like(own)
        for other, r in rated:
            e = [_exp(_dot(own[s], other[s])) for s in range(len(values))]
            sigma = np.float64(e[r]) / sum(e)
            for s in range(len(values)):
                moved[s] += eta * (((s == r) - sigma) * other[s] - gamma * own[s])
        own += moved

    _both_sides(ratings, P, Q, step)


def bemf(ratings: Triples, values: Any, P: Floats, Q: Floats, eta: float, gamma: float) -> None:
    """U_u^s += eta (sum_i (1[r = s] - L_s) V_i^s - gamma U_u^s)."""

    def step(own: Floats, rated: Rated) -> None:
        gradient = np.zeros_like(own)
        for other, r in rated:
            for s in range(len(values)):
                gradient[s] += ((s == r) - _logistic(_dot(own[s], other[s]))) * other[s]
        own += eta * (gradient - gamma * own)

    _both_sides(ratings, P, Q, step)


def dirmf(ratings: Triples, values: Any, P: Floats, Q: Floats, eta: float, gamma: float) -> None:
    """P_u^s -= eta (Q_i^s a_s (1 - a_s) (psi(a_s) - psi(A) - ln rho_s) + gamma P_u^s), rating by rating."""
    d = len(values)

    def step(own: Floats, rated: Rated) -> None:
        for other, r in rated:
            a = [_logistic(_dot(own[s], other[s])) for s in range(d)]
            total = d - 1 + math.exp(values[r])
            for s in range(d):
                rho = (math.exp(values[r]) if s == r else 1.0) / total
                error = _digamma(a[s]) - _digamma(sum(a)) - math.log(rho)
                own[s] -= eta * (other[s] * a[s] * (1 - a[s]) * error + gamma * own[s])

    _both_sides(ratings, P, Q, step)


def pmf(ratings: Triples, values: Any, P: Floats, Q: Floats, eta: float, gamma: float) -> None:
    """p += eta ((r - p.q) q - gamma p), rating by rating"""

    def step(own: Floats, rated: Rated) -> None:
        for other, r in rated:
            error = values[r] - _dot(own, other)
            own += eta * (error * other - gamma * own)

    _both_sides(ratings, P, Q, step)


def biasedmf(ratings: Triples, values: Any, P: Floats, Q: Floats, eta: float, gamma: float) -> None:
    """b += eta (e - gamma b), p += eta (e q - gamma p) with e = r - (mu + b_u + b_i + p.q), rating by rating"""
    mean = sum(values[r] for _, _, r in ratings) / len(ratings)

    def step(own: Floats, rated: Rated) -> None:
        for other, r in rated:
            error = values[r] - (mean + own[0] + other[0] + _dot(own[1:], other[1:]))
            own += eta * (error * np.concatenate([[1.0], other[1:]]) - gamma * own)

    _both_sides(ratings, P, Q, step)


def softmax_probs(p: Floats, q: Floats) -> Floats:
    """ResBeMF's distribution of one pair; not shifted, so that it overflows where the published one does."""
    e = np.array([_exp(_dot(p[s], q[s])) for s in range(len(p))])
    return np.asarray(e / e.sum())


def logistic_probs(p: Floats, q: Floats) -> Floats:
    """BeMF's and DirMF's distribution of one pair."""
    weights = np.array([_logistic(_dot(p[s], q[s])) for s in range(len(p))])
    return np.asarray(weights / weights.sum())


def _both_sides(ratings: Triples, P: Floats, Q: Floats, step: Callable[[Floats, Rated], None]) -> None:
    for u in range(len(P)):
        step(P[u], [(Q[i], r) for v, i, r in sorted(ratings) if v == u])
    for i in range(len(Q)):
        step(Q[i], [(P[u], r) for u, j, r in sorted(ratings) if j == i])


def _dot(p: Floats, q: Floats) -> float:
    total = 0.0
    for k in range(len(p)):
        total += float(p[k] * q[k])
    return total


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + _exp(-x))


def _digamma(x: float) -> float:
    """The published digamma, with its series' sign slip: psi(x) = psi(x + 1) - 1/x up to 49."""
    if not math.isfinite(x):
        return x
    if 0 < x <= 1e-5:
        return -0.5772156649015329 - 1 / x
    if x < 49:
        return _digamma(x + 1) - 1 / x
    inv = 1 / (x * x)
    return math.log(x) - 0.5 / x - inv * (1 / 12 + inv * (1 / 120 - inv / 252))
