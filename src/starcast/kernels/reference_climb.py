"""ResBeMF by gradient steps with momentum, as plain loops in float64: the rule that every device follows.

A round moves all users, then all items. Row r of one side, with n_r ratings, moves by

    v <- MOMENTUM v + (G - lambda x) / h        x <- x + v
    h[k, s] = stiffness (lambda + n_r w_s m[k, s])

with G the gradient of the log-likelihood (and of recklessness) by x, lambda that of factors or biases,
w_s = (1 + |recklessness|) weights_s, weights_s = d / (d - 1) pi_s (1 - pi_s) with pi the frequencies of the scores, and
m[k, s] = sum_j n_j y_j[k, s]^2 / N over the rows y_j of the other side, which have n_j of the N ratings; m is 1 for
biases. A row without ratings goes to 0 at once, and its velocity too.

The objective of a round is that after the users' step, before the items', which the item pass meets. Then the mean
biases of both sides move into base (centre). Where the objective fell by more than ROUNDING of its size, stiffness
grows by STIFFENING and all velocities become 0; where it did not, and gained at most tolerance times its size, the
round was the last.
"""

import itertools
from typing import Any

import numpy as np

from starcast.kernels.reference import Floats, Side, centre, objective, row_gradient

STIFFNESS = 1.5
STIFFENING = 1.5
MOMENTUM = 0.5
ROUNDING = 1e-6


def mean_square(side: Side, Y: Floats, biased: bool) -> Any:
    """The mean square of the rows of a side, each as often as it has ratings; 1 for biases."""
    n = np.diff(side[0])
    m = (n[:, None, None] * Y**2).sum(0) / n.sum()
    if biased:
        m[-1] = 1
    return m


def climb_pass(
    side: Side,
    other_side: Side,
    X: Floats,
    V: Floats,
    Y: Floats,
    base: Floats,
    v: Floats,
    weights: Floats,
    stiffness: float,
    biased: bool,
    regularization: float,
    bias_regularization: float,
    recklessness: float = 0.0,
) -> Any:
    """Rows and velocities of a side after their step."""
    start, other, score = side
    m = (1 + abs(recklessness)) * weights * mean_square(other_side, Y, biased)
    reg = np.full((X.shape[1], 1), regularization)
    if biased:
        reg[-1] = bias_regularization
    X, V = X.copy(), V.copy()
    for r, (a, b) in enumerate(itertools.pairwise(start)):
        if a == b:
            X[r] = V[r] = 0
            continue
        g = row_gradient(
            X[r], Y[other[a:b]], score[a:b], base, v, biased, regularization, bias_regularization, recklessness
        )
        V[r] = MOMENTUM * V[r] + g / (stiffness * (reg + (b - a) * m))
        X[r] += V[r]
    return X, V


def climb(
    user_side: Side,
    item_side: Side,
    P: Floats,
    Q: Floats,
    base: Floats,
    v: Floats,
    weights: Floats,
    biased: bool,
    regularization: float,
    bias_regularization: float,
    recklessness: float = 0.0,
    n_rounds: int = 1,
    tolerance: float = -1.0,
) -> Any:
    """Users' and items' rows, base, and the objectives met."""
    args = (biased, regularization, bias_regularization, recklessness)
    U, V, stiffness = np.zeros_like(P), np.zeros_like(Q), STIFFNESS
    history: list[float] = []
    for _ in range(n_rounds):
        P, U = climb_pass(user_side, item_side, P, U, Q, base, v, weights, stiffness, *args)
        now = objective(user_side, P, Q, base, v, *args)
        Q, V = climb_pass(item_side, user_side, Q, V, P, base, v, weights, stiffness, *args)
        if biased:
            P, base, _ = centre(user_side, P, base, bias_regularization, now)
            Q, base, _ = centre(item_side, Q, base, bias_regularization, now)
        gain = now - history[-1] if history else np.inf
        history.append(now)
        if gain < -ROUNDING * abs(now):
            stiffness *= STIFFENING
            U, V = np.zeros_like(P), np.zeros_like(Q)
        elif gain <= tolerance * abs(now):
            break
    return P, Q, base, history
