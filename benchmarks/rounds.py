r"""Rounds of the models on one table, and what a round costs at least: operations, bytes.

A round visits every rating twice, once by user and once by item. A visit reads the row of the other side, forms the
logits, passes them through the link and adds to the row's gradient (or moves the row at once). With *S* scores, *K*
factors, *E* = 14 operations for an exponential (its range reduced by four, a polynomial of five multiply-adds) and
*R* = 5 for a division (an estimate and a step of Newton's); a multiply-add is two operations:

=============  ==========================================================================================
model          operations a visit
=============  ==========================================================================================
ResBeMF        :math:`4SK + (E + 5)S + R`: products, maximum, exponentials, sum, scale, residuals, gradient;
               the biases are :math:`4S` more
plain          the same without biases: steps with a learning rate, as the paper takes them
BeMF           :math:`4SK + (E + R + 3)S`: a logistic function per score
DirMF          :math:`5SK + (E + R + 29)S + 40`: logistic and digamma functions, a step at once
PMF            :math:`5K + 4`
BiasedMF       :math:`5K + 8`
ResBeMF exact  two products, a softmax and :math:`b^2 + 4b` multiply-adds a score for each block of *b* factors
OrdinalMF      :math:`4(K + 4) + 4SJ + (E + 5)S + R + 2J`, *J* basis functions between the factors, of which
               four more are along the parabola, and the scores; its prior is learnt every other round, too
=============  ==========================================================================================

Bytes a visit: the other's row (4SK, or 4K where a row is one vector) and five for index and score. Padding is not
counted: it is part of what a kernel loses. Each pass reads and writes its own rows once more.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import starcast as sc
from starcast.kernels import Side, fast, make_sides
from starcast.models.ascent import Ascent
from starcast.models.chain import Chain, tie_scores
from starcast.models.per_score import pack
from starcast.models.resbemf import curvature_weights

EXP, DIVISION = 14, 5
SPREAD, COMPANY = 4, 16  # OrdinalMF's defaults: factors along the parabola, features of its prior
TITLES = {
    "resbemf": "ResBeMF, gradient", "plain": "ResBeMF, plain steps", "bemf": "BeMF", "pmf": "PMF",
    "biasedmf": "BiasedMF", "dirmf": "DirMF", "exact": "ResBeMF, exact", "ordinalmf": "OrdinalMF, gradient",
}  # fmt: skip


class Cost(NamedTuple):
    """What one visit costs: operations, floats of a row; and operations once a row."""

    operations: float
    row_floats: int
    per_row: float = 0


def cost(model: str, n_factors: int, n_scores: int) -> Cost:
    """Return what a visit costs; see the table above.

    >>> cost("plain", 8, 5)
    Cost(operations=260, row_floats=40, per_row=0)
    """
    K, S = n_factors, n_scores
    softmax = (EXP + 5) * S + DIVISION
    if model == "resbemf":
        return Cost(4 * S * K + softmax + 4 * S, S * (K + 1))
    if model == "plain":
        return Cost(4 * S * K + softmax, S * K)
    if model == "bemf":
        return Cost(4 * S * K + (EXP + DIVISION + 3) * S, S * K)
    if model == "dirmf":
        return Cost(5 * S * K + (EXP + DIVISION + 29) * S + 40, S * K)
    if model == "pmf":
        return Cost(5 * K + 4, K)
    if model == "biasedmf":
        return Cost(5 * K + 8, K + 1)
    if model == "ordinalmf":
        J = len(tie_scores(np.full(S, 1 / S), K, SPREAD).ranks)
        return Cost(4 * (K + SPREAD) + 4 * S * J + softmax + 2 * J, K + SPREAD + J)
    n_blocks = max(1, -(-K // 8))
    b = K / n_blocks
    sweeps = 2 * S * K + softmax + n_blocks * (3 * S + 2 * S * b + softmax)
    return Cost(sweeps + n_blocks * S * (b * b + 4 * b), S * (K + 1), n_blocks * S * (b + 1) ** 3 / 3)


class Rounds:
    """Rounds of every model on one table; each goes on from where its last one ended."""

    def __init__(self, ratings: sc.Ratings, n_factors: int) -> None:
        self.ratings, self.n_factors = ratings, n_factors
        self.n_scores, self.n_ratings = len(ratings.scores), len(ratings)
        self.sizes = len(ratings.users), len(ratings.items)
        self.sides = make_sides(ratings)
        self.spread = np.linspace(-1, 1, self.n_scores).astype(np.float32)
        self.scores = ratings.scores.astype(np.float32)
        self.mean = float(ratings.values.mean())
        self.base = np.zeros(self.n_scores, np.float32)
        self.weights = curvature_weights(np.bincount(ratings.score, minlength=self.n_scores) / len(ratings))
        self._rng = np.random.default_rng(0)
        self._rows: dict[str, list[Any]] = {}

    def run(self, model: str, n_threads: int, n_rounds: int = 1, sides: tuple[Side, Side] | None = None) -> list[float]:
        """Run some rounds of one model and return its objective after each."""
        return RUN[model](self, sides or self.sides, n_threads, n_rounds)

    def one_sided(self, which: int) -> tuple[Side, Side]:
        """Return sides of which one has no ratings, so that a round is the pass of the other alone."""
        none = Side(np.zeros(self.sizes[1 - which] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))
        return (self.sides[0], none) if which == 0 else (none, self.sides[1])

    def planes(self, model: str, extra: int = 0) -> list[Any]:
        if model not in self._rows:
            shape = self.n_factors + extra, self.n_scores
            self._rows[model] = [pack(self._rng.normal(0, 0.1, (n, *shape)).astype(np.float32)) for n in self.sizes]
        return self._rows[model]

    def vectors(self, model: str) -> list[Any]:
        if model not in self._rows:
            stride = -(-self.n_factors // 8) * 8
            rows = [self._rng.normal(0, 0.1, (n, stride)).astype(np.float32) for n in self.sizes]
            biases = [np.zeros(n, np.float32) if model == "biasedmf" else None for n in self.sizes]
            self._rows[model] = [*rows, *biases]
        return self._rows[model]

    def _momentum(self, sides: Any, n_threads: int, n_rounds: int) -> list[float]:
        return fast.fit_resbemf_gradient(
            *sides, *self.planes("resbemf", 1), self.base.copy(), self.spread, self.weights, self.n_factors, True, 10.0,
            2.0, 0.0, n_rounds, -1.0, n_threads,
        )  # fmt: skip

    def _gradient(self, model: str, sides: Any, n_threads: int, n_rounds: int) -> list[float]:
        values = self.scores if model == "dirmf" else self.spread
        name = "resbemf" if model == "plain" else model
        return fast.fit_gradient(
            name, *sides, *self.planes(model), self.base, values, self.n_factors, learning_rate=1e-4,
            regularization=0.05, n_rounds=n_rounds, n_threads=n_threads,
        )  # fmt: skip

    def _exact(self, sides: Any, n_threads: int, n_rounds: int) -> list[float]:
        return fast.fit_resbemf_exact(
            *sides, *self.planes("exact", 1), self.base.copy(), self.spread, self.n_factors, True, 10.0, 2.0, 0.0,
            n_rounds, -1.0, n_threads,
        )  # fmt: skip

    def _ascent(self, sides: Any, n_threads: int, n_rounds: int) -> list[float]:
        key = f"ordinalmf, {n_threads}"
        if key not in self._rows:
            ties = tie_scores(self.ratings.counts() / self.n_ratings, self.n_factors, SPREAD)
            self._rows[key] = [Ascent(Chain(self.ratings, ties, COMPANY, 0, n_threads))]
        return [self._rows[key][0].climb() for _ in range(n_rounds)]

    def _point(self, model: str, sides: Any, n_threads: int, n_rounds: int) -> list[float]:
        return fast.fit_point(*sides, *self.vectors(model), self.scores, self.mean, 0.005, 0.02, n_rounds, n_threads)


Run = Callable[[Rounds, Any, int, int], list[float]]
RUN: dict[str, Run] = {
    "resbemf": lambda rounds, *how: rounds._momentum(*how),
    "plain": lambda rounds, *how: rounds._gradient("plain", *how),
    "bemf": lambda rounds, *how: rounds._gradient("bemf", *how),
    "pmf": lambda rounds, *how: rounds._point("pmf", *how),
    "biasedmf": lambda rounds, *how: rounds._point("biasedmf", *how),
    "dirmf": lambda rounds, *how: rounds._gradient("dirmf", *how),
    "exact": lambda rounds, *how: rounds._exact(*how),
    "ordinalmf": lambda rounds, *how: rounds._ascent(*how),
}


def like_movielens(n_ratings: int, n_users: int, n_items: int, n_scores: int) -> sc.Ratings:
    """Return random ratings in the shape of MovieLens: few users and items have many ratings, many have few.

    Pairs may repeat, which no kernel minds.
    """
    rng = np.random.default_rng(0)
    user, item = (
        np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(n_ratings))
        .clip(0, len(weight) - 1)
        .astype(np.int32)
        for weight in (rng.lognormal(0, 1.1, n_users), rng.lognormal(0, 2.0, n_items))
    )
    names = np.arange(n_users), np.arange(n_items), np.arange(1.0, n_scores + 1)
    return sc.Ratings(*names, user, item, rng.integers(0, n_scores, n_ratings, np.int8))
