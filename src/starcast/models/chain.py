"""The state of an ordinal model while it is fitted: rows and priors of both sides, moved round by round."""

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.kernels import Side, fast, make_sides
from starcast.models.company import describe, find_company
from starcast.models.hierarchy import Hierarchy, padded
from starcast.ratings import Ratings

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]

State = list[tuple[Rows, Rows, Rows]]  # of users and of items: rows, weights and precision of their prior

MOST_SCORES = 64  # of the kernels
MOST_BIASES = 9  # basis functions: enough for every score of ten to have a bias of its own
LANES = 16  # what rows are padded to, and draws that are answered for at a time
NEWTON_STEPS = 12  # of a row that is solved for alone, at most; it stops when it is where it should be


class Ties(NamedTuple):
    """How the scores hang together: logits are ``base + basis.T @ eta``, and row *j* of the basis has factors."""

    base: npt.NDArray[np.float32]  # (scores,)
    basis: npt.NDArray[np.float32]  # (functions, scores)
    ranks: npt.NDArray[np.int32]  # (functions,)

    @property
    def n_columns(self) -> int:
        """Numbers of a row: factors of each function, then a bias for each."""
        return int(self.ranks.sum()) + len(self.ranks)

    @property
    def stride(self) -> int:
        """The same, padded."""
        return -(-self.n_columns // LANES) * LANES

    def reach(self, rows: Rows) -> Rows:
        """Return the largest factor of each function in any of the rows.

        >>> ties = tie_scores(np.full(3, 1 / 3), 2, 1)
        >>> ties.reach(np.array([[1, -5, 2, 7, 8], [-3, 4, 0, 0, 0]], np.float32)).tolist()
        [5.0, 2.0]
        """
        ends = np.cumsum(self.ranks)
        parts = (rows[:, end - rank : end] for end, rank in zip(ends, self.ranks, strict=True))
        return np.array([max(part.max(), -part.min()) if part.size else 0 for part in parts], np.float32)


def tie_scores(prior: Floats, n_factors: int, n_spread_factors: int) -> Ties:
    """Return polynomials of the place of a score, orthogonal and of mean square one: a line, a parabola, …

    >>> (tie_scores(np.full(3, 1 / 3), 8, 2).basis ** 2).round(1).astype(float).round(1).tolist()
    [[1.5, 0.0, 1.5], [0.5, 2.0, 0.5]]
    """
    basis = _polynomials(len(prior))
    ranks = np.zeros(len(basis), np.int32)
    ranks[:2] = (n_factors, n_spread_factors)[: len(basis)]
    return Ties(np.log(prior).astype(np.float32), basis, ranks)


@functools.cache
def _polynomials(n_scores: int) -> npt.NDArray[np.float32]:
    powers = np.vander(np.linspace(-1, 1, n_scores), min(n_scores, MOST_BIASES + 1), increasing=True)
    polynomials = np.linalg.qr(powers)[0][:, 1:].T * np.sqrt(n_scores)
    return np.ascontiguousarray(polynomials * np.sign(polynomials[:, -1:]), np.float32)


class Chain:
    """Rows and priors of users (0) and items (1)."""

    def __init__(self, ratings: Ratings, ties: Ties, n_company: int, seed: int | None, n_threads: int) -> None:
        self.ties, self.n_threads = ties, n_threads
        self._rng = np.random.default_rng(seed)
        self.sides = make_sides(ratings)
        self._longest = [int(np.diff(side.start).max()) for side in self.sides]
        self.company = find_company(*self.sides, n_company, n_threads)
        self.priors: list[Hierarchy] = []
        self.rows: list[Rows] = []
        n_factors = int(ties.ranks.sum())
        for side, loadings in zip(self.sides, (self.company.items, self.company.users), strict=True):
            self.priors.append(Hierarchy(describe(side, loadings), ties.n_columns, len(ties.ranks)))
            start = self._rng.normal(0, 0.3 / np.sqrt(max(n_factors, 1)), (len(side.start) - 1, n_factors))
            self.rows.append(padded(start, ties.stride))

    def climb(self) -> float:
        """Take a step of Newton's with every row, learn the priors, and return the items' log-posterior."""
        objective = 0.0
        for which, prior in enumerate(self.priors):
            spread = np.empty((self.ties.n_columns, self.ties.n_columns))
            objective = self._move(which, n_steps=1, spread=spread)
            prior.learn(self._numbers(which), spread)
        return objective

    def wander(self) -> float:
        """Draw the priors and every row, and return the items' log-posterior."""
        objective = 0.0
        for which, (prior, rows) in enumerate(zip(self.priors, self.rows, strict=True)):
            prior.draw(self._numbers(which), self._rng)
            noise = self._rng.standard_normal(rows.shape, np.float32)
            luck = np.log(1 - self._rng.random(len(rows))).astype(np.float32)
            objective = self._move(which, n_steps=0, noise=noise, luck=luck)
        return objective

    def state(self) -> State:
        """Return a copy of rows, weights and precision of both sides."""
        return [
            (np.array(rows[:, : self.ties.n_columns]), prior.weights.astype("f4"), prior.precision.astype("f4"))
            for rows, prior in zip(self.rows, self.priors, strict=True)
        ]

    def _numbers(self, which: int) -> Floats:
        return self.rows[which][:, : self.ties.n_columns].astype(np.float64)

    def _move(self, which: int, n_steps: int, **how: Any) -> float:
        ties, prior, others = self.ties, self.priors[which], self.rows[1 - which]
        objective, _ = fast.move_rows(
            self.sides[which], self.rows[which], others, *ties,
            prior.means(ties.stride), padded(prior.precision, ties.stride), n_steps,
            how.get("noise"), how.get("luck"), how.get("spread"),
            ties.reach(others), self._longest[which], self.n_threads,
        )  # fmt: skip
        return float(objective)


def fresh_rows(
    side: Side,
    others: Rows,
    loadings: Rows,
    weights: Rows,
    precision: Rows,
    ties: Ties,
    n_threads: int,
    *,
    seed: int,
    is_point: bool,
) -> Rows:
    """Return rows of their own, shape (rows, columns, draws), for ratings of others whose draws are given.

    For each draw of the others a row climbs to its summit and, unless a point is wanted, makes one move from there:
    a draw that is accepted or refused, since few ratings may leave a posterior that is far from normal. Noise and luck
    are the same for all rows, so that a row does not depend on those beside it and two differ only by their ratings.
    Users and items need different seeds: with the same noise, the dot product of a new user and a new item would
    have a positive mean.
    """
    needed, place = np.unique(side.other, return_inverse=True)
    some = Side(side.start, place.astype(np.int32), side.score)
    features = describe(some, loadings[needed]).astype(np.float32)
    drawn = np.empty((len(features), ties.n_columns, others.shape[2]), np.float32)
    noise = luck = None
    if not is_point:
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal(weights.shape[::2], np.float32)
        luck = np.log(1 - rng.random(len(weights))).astype(np.float32)
    fast.place_rows(
        some, features, others[needed], weights, precision, *ties, noise, luck, NEWTON_STEPS, drawn, n_threads
    )
    return drawn
