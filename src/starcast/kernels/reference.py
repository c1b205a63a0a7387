"""The float32 kernels as plain loops in float64: what they must compute, step by step.

Factors are [row][plane][score]: n_factors planes, and with biases one more at the end. A side is (start, other,
score). z_s is base_s + sum_k P_uk^s Q_ik^s + b_us + b_is. Scores' values v lie on -1 .. 1 for the variance, whose
largest value is then 1.
"""

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

Side = tuple[Any, Any, Any]  # start, other, score
Floats = npt.NDArray[Any]

MAX_BLOCK = 8
LEAST_GAIN = 2e-7


def logits(x: Floats, f: Floats, base: Floats, biased: bool) -> Any:
    if not biased:
        return base + (x * f).sum(0)
    return base + (x[:-1] * f[:-1]).sum(0) + (x[-1] + f[-1])


def softmax(z: Floats) -> Any:
    e = np.exp(z - z.max())
    return e / e.sum()


def variance(p: Floats, v: Floats) -> Any:
    return (p * (v - (p * v).sum()) ** 2).sum()


def variance_slope(p: Floats, v: Floats) -> Any:
    """Derivative of the variance of softmax(z) by z."""
    c = (v - (p * v).sum()) ** 2
    return p * (c - (p * c).sum())


def row_loglik(x: Floats, fs: Any, scores: Any, base: Floats, v: Floats, biased: bool, recklessness: float) -> Any:
    total = 0.0
    for f, r in zip(fs, scores, strict=False):
        p = softmax(logits(x, f, base, biased))
        total += math.log(p[r]) - recklessness * variance(p, v)
    return total


def penalty(x: Floats, biased: bool, regularization: float, bias_regularization: float) -> Any:
    if not biased:
        return 0.5 * regularization * (x**2).sum()
    return 0.5 * regularization * (x[:-1] ** 2).sum() + 0.5 * bias_regularization * (x[-1] ** 2).sum()


def objective(
    user_side: Side,
    P: Floats,
    Q: Floats,
    base: Floats,
    v: Floats,
    biased: bool,
    regularization: float,
    bias_regularization: float,
    recklessness: float = 0.0,
) -> Any:
    indptr, other, score = user_side
    total = sum(
        row_loglik(P[u], Q[other[a:b]], score[a:b], base, v, biased, recklessness)
        for u, (a, b) in enumerate(itertools.pairwise(indptr))
    )
    return total - sum(penalty(x, biased, regularization, bias_regularization) for X in (P, Q) for x in X)


def row_gradient(
    x: Floats,
    fs: Any,
    scores: Any,
    base: Floats,
    v: Floats,
    biased: bool,
    regularization: float,
    bias_regularization: float,
    recklessness: float = 0.0,
) -> Any:
    g = -regularization * x
    if biased:
        g[-1] = -bias_regularization * x[-1]
    for f, r in zip(fs, scores, strict=False):
        p = softmax(logits(x, f, base, biased))
        slope = np.eye(len(p))[r] - p - recklessness * variance_slope(p, v)
        g += slope * features(f, biased)
    return g


def features(f: Floats, biased: bool) -> Any:
    """What multiplies each plane of the moving row: the other row's factors, and 1 for the bias."""
    return np.vstack([f[:-1], np.ones((1, f.shape[1]))]) if biased else f


def exact_row(
    x: Floats,
    fs: Any,
    scores: Any,
    base: Floats,
    v: Floats,
    biased: bool,
    regularization: float,
    bias_regularization: float,
    recklessness: float,
) -> Any:
    """Block Newton steps with curvature (1 + |r|) d/(d-1) p (1 - p), halved until the row's objective rises."""
    if len(scores) == 0:
        return np.zeros_like(x)
    d, K = x.shape[1], len(x) - biased
    scale = (1 + abs(recklessness)) * d / (d - 1)
    n_blocks = max(1, -(-K // MAX_BLOCK))
    reg = np.full(len(x), regularization)
    if biased:
        reg[-1] = bias_regularization

    def value(y: Floats) -> Any:
        return row_loglik(y, fs, scores, base, v, biased, recklessness) - penalty(
            y, biased, regularization, bias_regularization
        )

    for b in range(n_blocks):
        planes = list(range(K * b // n_blocks, K * (b + 1) // n_blocks)) + ([K] if biased and b == 0 else [])
        now = value(x)
        g = row_gradient(x, fs, scores, base, v, biased, regularization, bias_regularization, recklessness)[planes]
        step = np.zeros_like(x)
        for s in range(d):
            H = np.diag(reg[planes])
            for f in fs:
                p = softmax(logits(x, f, base, biased))[s]
                a = features(f, biased)[planes, s]
                H += scale * p * (1 - p) * np.outer(a, a)
            step[planes, s] = np.linalg.solve(H, g[:, s]) if planes else 0
        if not 0.5 * (g * step[planes]).sum() > LEAST_GAIN * abs(now):
            continue
        for trial in range(6):
            y = x + 0.5**trial * step
            if value(y) > now:
                x = y
                break
    return x


def exact_pass(
    side: Side,
    X: Floats,
    Y: Floats,
    base: Floats,
    v: Floats,
    biased: bool,
    regularization: float,
    bias_regularization: float,
    recklessness: float = 0.0,
) -> Any:
    indptr, other, score = side
    return np.array(
        [
            exact_row(
                X[r], Y[other[a:b]], score[a:b], base, v, biased, regularization, bias_regularization, recklessness
            )
            for r, (a, b) in enumerate(itertools.pairwise(indptr))
        ]
    )


def centre(side: Side, X: Floats, base: Floats, bias_regularization: float, total: float) -> Any:
    """Moves the mean biases of the rows that have ratings into base, if that gains over 1e-5 of the objective."""
    rated = np.diff(side[0]) > 0
    mean = X[rated, -1].mean(0)
    gain = 0.5 * bias_regularization * rated.sum() * (mean**2).sum()
    if not gain > 1e-5 * abs(total):
        return X, base, 0.0
    X = X.copy()
    X[rated, -1] -= mean
    return X, base + mean, gain


def exact_round(
    user_side: Side,
    item_side: Side,
    P: Floats,
    Q: Floats,
    base: Floats,
    v: Floats,
    biased: bool,
    regularization: float,
    bias_regularization: float,
    recklessness: float = 0.0,
) -> Any:
    args = (v, biased, regularization, bias_regularization, recklessness)
    P = exact_pass(user_side, P, Q, base, *args)
    Q = exact_pass(item_side, Q, P, base, *args)
    total = objective(user_side, P, Q, base, *args)
    if biased:
        P, base, gain = centre(user_side, P, base, bias_regularization, total)
        total += gain
        Q, base, gain = centre(item_side, Q, base, bias_regularization, total)
        total += gain
    return P, Q, base, total


def resbemf_pass(
    side: Side, X: Floats, Y: Floats, v: Floats, learning_rate: float, regularization: float, recklessness: float = 0.0
) -> Any:
    """One plain gradient step of every row, without biases and base."""
    indptr, other, score = side
    rest = (np.zeros(X.shape[2]), v, False, regularization, 0.0, recklessness)
    return np.array(
        [
            x + learning_rate * row_gradient(x, Y[other[a:b]], score[a:b], *rest)
            for x, a, b in zip(X, indptr, indptr[1:], strict=False)
        ]
    )


def logistic(z: Floats) -> Any:
    return 1 / (1 + np.exp(-z))


def bemf_loglik(side: Side, X: Floats, Y: Floats, v: Floats, recklessness: float = 0.0) -> Any:
    indptr, other, score = side
    total = 0.0
    for x, a, b in zip(X, indptr, indptr[1:], strict=False):
        for i, r in zip(other[a:b], score[a:b], strict=False):
            like = logistic((x * Y[i]).sum(0))
            hit = np.eye(len(like))[r]
            total += np.log(np.where(hit, like, 1 - like)).sum() - recklessness * variance(like / like.sum(), v)
    return total


def bemf_pass(
    side: Side, X: Floats, Y: Floats, v: Floats, learning_rate: float, regularization: float, recklessness: float = 0.0
) -> Any:
    indptr, other, score = side
    new = []
    for x, a, b in zip(X, indptr, indptr[1:], strict=False):
        g = -regularization * x
        for i, r in zip(other[a:b], score[a:b], strict=False):
            like = logistic((x * Y[i]).sum(0))
            slope = np.eye(len(like))[r] - like
            if recklessness:
                slope -= recklessness * (1 - like) * variance_slope(like / like.sum(), v)
            g += slope * Y[i]
        new.append(x + learning_rate * g)
    return np.array(new)


def digamma(x: float) -> float:
    total = 0.0
    while x < 49:
        total -= 1 / x
        x += 1
    i = 1 / (x * x)
    return total + math.log(x) - 0.5 / x - i * (1 / 12 - i * (1 / 120 - i / 252))


def dirmf_pass(side: Side, X: Floats, Y: Floats, ratings: Floats, learning_rate: float, regularization: float) -> Any:
    indptr, other, score = side
    d = X.shape[2]
    new = []
    for x, a, b in zip(X.copy(), indptr, indptr[1:], strict=False):
        for i, r in zip(other[a:b], score[a:b], strict=False):
            alpha = logistic((x * Y[i]).sum(0))
            target = np.where(np.arange(d) == r, math.exp(ratings[r]), 1.0) / (d - 1 + math.exp(ratings[r]))
            level = np.array([digamma(t) for t in alpha]) - digamma(alpha.sum()) - np.log(target)
            x = x - learning_rate * (alpha * (1 - alpha) * level * Y[i] + regularization * x)
        new.append(x)
    return np.array(new)


def point_pass(
    side: Side,
    X: Floats,
    Y: Floats,
    row_bias: Any,
    other_bias: Any,
    ratings: Floats,
    mean: float,
    learning_rate: float,
    regularization: float,
) -> Any:
    """PMF (biases None) or BiasedMF; returns the new rows and their biases."""
    indptr, other, score = side
    biased = row_bias is not None
    X, bias = X.copy(), row_bias.copy() if biased else np.zeros(len(X))
    for row, (a, b) in enumerate(itertools.pairwise(indptr)):
        for i, r in zip(other[a:b], score[a:b], strict=False):
            e = ratings[r] - mean - X[row] @ Y[i] - (bias[row] + other_bias[i] if biased else 0.0)
            X[row] += learning_rate * (e * Y[i] - regularization * X[row])
            if biased:
                bias[row] += learning_rate * (e - regularization * bias[row])
    return X, bias if biased else None
