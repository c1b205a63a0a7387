"""Gradient rounds of an ordinal model: a heavy ball for every row, on a prior that is learnt on the way."""

from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.errors import ParameterError
from starcast.kernels import fast, wants_gpu
from starcast.models.chain import LANES, Chain
from starcast.models.hierarchy import padded

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]

MOST_COLUMNS = 1024  # of the kernel
LENGTH = 2.0  # by which steps are shorter than curvatures say, for the columns of a row move together
MEMORY = 0.5  # share of the last move that is made again
LEARN_EVERY = 2  # rounds: of two with the same prior, the second shows whether the first gained
SHORTER = 1.5  # steps, each time the log-posterior fell


class Ascent:
    r"""Rows of users (0) and items (1) on their way up, with one curvature for all ratings.

    A pass moves all rows *x* of one side by

    .. math:: h_c = \Lambda_{cc} + n V_{j(c)} (m_c + s_c), \qquad
              g = \nabla \log L - \Lambda (x - W^\top f) - n V_{j} s\, x, \qquad
              v \leftarrow \mu v + \frac{g}{\beta h}, \quad x \leftarrow x + v

    with *n* the ratings of the row, :math:`V_j` the variance of basis function *j* (the mean square of its residuals,
    if that is less), *m* and *s* the mean square and the mean variance :math:`1/h` of column *c* among the others,
    each as often as it is rated; for biases they are one and zero. The term with *s* is what the doubt about the others
    costs: rows are the means of a posterior in which all numbers are independent, :math:`1/h` their variances, from
    which, too, the prior is learnt, every other round (and *s*, which is zero before). If the log-posterior fell in the
    round between, rows go back to where the prior was learnt last, and steps are shorter from then on.

    ``kernels/reference_ordinal.py`` has a step in plain loops.
    """

    def __init__(self, chain: Chain, device: str = "cpu") -> None:
        self._chain, ties = chain, chain.ties
        ranks = -(-ties.ranks // 4) * 4  # what the kernel can turn
        self._place = _places(ties.ranks, ranks)
        self._of = np.concatenate([np.repeat(np.arange(len(ranks)), ranks), np.arange(len(ranks))])
        self._n_factors = int(ranks.sum())
        self._stride = -(-len(self._of) // LANES) * LANES
        if self._stride > MOST_COLUMNS:
            raise ParameterError(
                f'update="gradient" takes up to {MOST_COLUMNS} factors and biases, got {len(self._of)}. '
                'Ask for fewer factors, or for update="exact".'
            )
        self._counts = [np.diff(side.start).astype(np.float64) for side in chain.sides]
        self._n = max(float(len(chain.sides[0].other)), 1.0)
        P, Q = (self._spread_out(rows[:, : ties.n_columns]) for rows in chain.rows)
        user_features, item_features = (prior.features.astype(np.float32) for prior in chain.priors)
        self._kernel = _kernel_of(device)(
            *chain.sides, P, Q, user_features, item_features, ties.base, ties.basis, ranks, chain.n_threads
        )
        self._moments = [np.zeros((3, self._stride)) for _ in chain.rows]  # n x², n / h and 1 / h, added up over rows
        self._measure()
        frequency, basis = np.exp(ties.base.astype(np.float64)), ties.basis.astype(np.float64)
        self._variance = self._most_variance = basis**2 @ frequency - (basis @ frequency) ** 2
        self._doubt = [np.zeros(self._stride, np.float32)] * 2  # stays as it is until the prior moves
        self._length, self._n_rounds = LENGTH, 0
        self._before = -np.inf  # log-posterior a round ago, under the same prior
        self._kernel.keep()

    def climb(self) -> float:
        """Move all rows, learn the priors every other time, and return the log-posterior where this round began."""
        self._n_rounds += 1
        objective = sum(self._move(which) for which in (0, 1))
        if not objective >= self._before:
            self._go_back()
        elif self._n_rounds % LEARN_EVERY:
            self._before = objective
        else:
            self._learn()
        return objective

    def land(self) -> None:
        """Leave the rows to the chain that they came from."""
        for which in (0, 1):
            self._chain.rows[which] = padded(self._wide_rows(which)[:, self._place], self._chain.ties.stride)

    def _move(self, which: int) -> float:
        """Move the rows of one side; return their part of the log-posterior before: the users' has the likelihood."""
        bend = self._curvature(which)
        weights = self._spread_out(self._chain.priors[which].weights)
        precision = np.eye(self._stride, dtype=np.float32)
        precision[np.ix_(self._place, self._place)] = self._chain.priors[which].precision
        squares = np.empty(len(self._variance))
        loglik, price = self._kernel.move(
            which, weights, precision, bend, self._doubt[which], self._length, MEMORY, which == 0,
            squares, self._moments[which],
        )  # fmt: skip
        if which == 0:
            self._variance = np.minimum(self._most_variance, squares / self._n)
        return float(loglik - price)

    def _curvature(self, which: int) -> Rows:
        """Return the curvature that a rating adds to each column of a row."""
        bend = np.zeros(self._stride)
        bend[: len(self._of)] = self._variance[self._of]
        bend[: self._n_factors] *= self._moments[1 - which][0, : self._n_factors] / self._n
        return (bend + self._doubt[which]).astype(np.float32)

    def _doubts(self, which: int) -> Rows:
        """Return the part of it that is due to how little is known of the others."""
        doubt = np.zeros(self._stride)
        of = self._of[: self._n_factors]
        doubt[: len(of)] = self._variance[of] * self._moments[1 - which][1, : len(of)] / self._n
        return doubt.astype(np.float32)

    def _learn(self) -> None:
        learnt = []
        for which, prior in enumerate(self._chain.priors):
            n_features = prior.features.shape[1]
            sums = np.empty((n_features + self._stride, self._stride))
            self._kernel.sums(which, sums)
            learnt.append((sums[:n_features, self._place], sums[n_features:][np.ix_(self._place, self._place)]))
        if not all(np.isfinite(sums).all() for pair in learnt for sums in pair):
            self._go_back()
            return
        for prior, pair, moments in zip(self._chain.priors, learnt, self._moments, strict=True):
            prior.learn_from(*pair, np.diag(moments[2, self._place]))
        self._doubt = [self._doubts(which) for which in (0, 1)]
        self._kernel.keep()
        self._before = -np.inf

    def _go_back(self) -> None:
        """Return to where the prior was learnt last, at rest, and go on with shorter steps."""
        self._kernel.go_back()
        self._length, self._before = self._length * SHORTER, -np.inf
        self._measure()

    def _measure(self) -> None:
        """Take the mean squares of rows that no step has left."""
        for which, counts in enumerate(self._counts):
            self._moments[which][0] = counts @ self._wide_rows(which).astype(np.float64) ** 2

    def _wide_rows(self, which: int) -> Rows:
        out = np.empty((len(self._counts[which]), self._stride), np.float32)
        self._kernel.rows(which, out)
        return out

    def _spread_out(self, rows: npt.NDArray[np.floating]) -> Rows:
        wide = np.zeros((len(rows), self._stride), np.float32)
        wide[:, self._place] = rows
        return wide


def _kernel_of(device: str) -> Any:
    """Return what moves the rows on the CPU or on the GPU."""
    if not wants_gpu(device):
        return fast.OrdinalAscent
    from starcast.kernels.gpu.ascent import OrdinalAscent  # an extra

    return OrdinalAscent


def _places(ranks: npt.NDArray[np.int32], padded_ranks: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    """Return where columns come to lie when the factors of each basis function are padded.

    >>> _places(np.array([3, 1]), np.array([4, 4])).tolist()
    [0, 1, 2, 4, 8, 9]
    """
    first = np.concatenate([[0], np.cumsum(padded_ranks)])
    factors = [np.arange(start, start + rank) for start, rank in zip(first, ranks, strict=False)]
    return np.concatenate([*factors, first[-1] + np.arange(len(ranks))]).astype(np.intp)
