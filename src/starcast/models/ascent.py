"""Gradient rounds of an ordinal model: a heavy ball for every row, on a prior that is learnt on the way."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.errors import ParameterError
from starcast.kernels import Side, fast, wants_gpu
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
        self._columns = _columns_of(ranks)
        self._n = max(float(len(chain.sides[0].other)), 1.0)
        P, Q = (self._spread_out(rows[:, : ties.n_columns]) for rows in chain.rows)
        features = (prior.features.astype(np.float32) for prior in chain.priors)
        frequency, basis = np.exp(ties.base.astype(np.float64)), ties.basis.astype(np.float64)
        variance = basis**2 @ frequency - (basis @ frequency) ** 2
        self._passes = _passes_of(device)(
            *chain.sides, P, Q, *features, ties.base, ties.basis, ranks, chain.n_threads, self._columns, variance
        )
        self._length, self._n_rounds = LENGTH, 0
        self._before = -np.inf  # log-posterior a round ago, under the same prior
        self._stand([np.zeros(self._stride, np.float32)] * 2)

    def climb(self) -> float:
        """Move all rows, learn the priors every other time, and return the log-posterior where this round began."""
        self._n_rounds += 1
        objective = self._passes.round(self._length, MEMORY)
        if not objective >= self._before:
            self._go_back()
        elif self._n_rounds % LEARN_EVERY:
            self._before = objective
        else:
            self._learn()
        return float(objective)

    def land(self) -> None:
        """Leave the rows to the chain that they came from."""
        for which in (0, 1):
            self._chain.rows[which] = padded(self._passes.rows(which)[:, self._place], self._chain.ties.stride)

    def _learn(self) -> None:
        learnt = []
        for which, prior in enumerate(self._chain.priors):
            n_features = prior.features.shape[1]
            sums = self._passes.sums(which)
            learnt.append((sums[:n_features, self._place], sums[n_features:][np.ix_(self._place, self._place)]))
        if not all(np.isfinite(sums).all() for pair in learnt for sums in pair):
            self._go_back()
            return
        for prior, pair, moments in zip(self._chain.priors, learnt, self._passes.moments, strict=True):
            prior.learn_from(*pair, np.diag(moments[2, self._place]))
        self._stand([self._doubt(which) for which in (0, 1)])

    def _stand(self, doubts: list[Rows]) -> None:
        """Keep the rows where they are, and climb on under the prior as it is now."""
        for which, (prior, doubt) in enumerate(zip(self._chain.priors, doubts, strict=True)):
            precision = np.eye(self._stride, dtype=np.float32)
            precision[np.ix_(self._place, self._place)] = prior.precision
            self._passes.set_prior(which, self._spread_out(prior.weights), precision, doubt)
        self._passes.keep()
        self._before = -np.inf

    def _doubt(self, which: int) -> Rows:
        """Return what a rating adds to the curvature of each column because little is known of the others."""
        columns, moments = self._columns, self._passes.moments[1 - which]
        doubt = self._passes.variance[columns.function] * columns.factor * moments[1] / self._n
        return np.asarray(doubt, np.float32)

    def _go_back(self) -> None:
        """Return to where the prior was learnt last, at rest, and go on with shorter steps."""
        self._passes.go_back()
        self._length, self._before = self._length * SHORTER, -np.inf

    @property
    def _stride(self) -> int:
        return len(self._columns.function)

    def _spread_out(self, rows: npt.NDArray[np.floating]) -> Rows:
        wide = np.zeros((len(rows), self._stride), np.float32)
        wide[:, self._place] = rows
        return wide


class Columns(NamedTuple):
    """What the numbers of a row are: each belongs to a basis function, as a factor or as a bias, or to none."""

    function: npt.NDArray[np.int32]
    factor: Rows  # 1 or 0
    bias: Rows


class Passes:
    """Rows on the CPU; ``kernels/gpu/ascent.py`` has them on the GPU.

    `moments` are sums over the rows of each side of :math:`n x^2`, :math:`n / h` and :math:`1 / h`; `variance` is that
    of each basis function.
    """

    def __init__(
        self, users: Side, items: Side, P: Rows, Q: Rows, user_features: Rows, item_features: Rows, base: Rows,
        basis: Rows, ranks: npt.NDArray[np.int32], n_threads: int, columns: Columns, most_variance: Floats,
    ) -> None:  # fmt: skip
        self._kernel = fast.OrdinalAscent(
            users, items, P, Q, user_features, item_features, base, basis, ranks, n_threads
        )
        self._columns = columns
        self._counts = [np.diff(side.start).astype(np.float64) for side in (users, items)]
        self._n = max(float(len(users.other)), 1.0)
        self._priors: list[tuple[Rows, Rows, Rows]] = [(P[:0],) * 3] * 2
        self._n_features = [features.shape[1] for features in (user_features, item_features)]
        self.variance = self._most_variance = most_variance
        self.moments = [np.zeros((3, P.shape[1])) for _ in range(2)]
        self._measure()

    def set_prior(self, which: int, weights: Rows, precision: Rows, doubt: Rows) -> None:
        """Take the prior of a side's rows and what the doubt about the others adds to their curvature."""
        self._priors[which] = weights, precision, doubt

    def round(self, length: float, memory: float) -> float:
        """Take a step with all users, then with all items; return the log-posterior before it."""
        objective = 0.0
        for which, (weights, precision, doubt) in enumerate(self._priors):
            squares = np.empty(len(self.variance))
            bend = (self._bend(self.moments[1 - which][0] / self._n) + doubt).astype(np.float32)
            loglik, price = self._kernel.move(
                which, weights, precision, bend, doubt, length, memory, which == 0, squares, self.moments[which]
            )
            objective += loglik - price
            if which == 0:  # whose pass has the likelihood
                self.variance = np.minimum(self._most_variance, squares / self._n)
        return objective

    def sums(self, which: int) -> Floats:
        """Return the products of features and numbers of a side's rows with their numbers, added up over rows."""
        stride = len(self._columns.function)
        out = np.empty((self._n_features[which] + stride, stride))
        self._kernel.sums(which, out)
        return out

    def keep(self) -> None:
        """Keep the rows where they are, to come back to."""
        self._kernel.keep()

    def go_back(self) -> None:
        """Put the rows back to where they were kept, at rest."""
        self._kernel.go_back()
        # What overflowed says nothing about where the rows are now.
        self.variance = np.where(np.isfinite(self.variance), self.variance, self._most_variance)
        self._measure()

    def rows(self, which: int) -> Rows:
        """Return the rows of a side."""
        out = np.empty((len(self._counts[which]), len(self._columns.function)), np.float32)
        self._kernel.rows(which, out)
        return out

    def _bend(self, mean_square: Floats) -> Floats:
        """Return the curvature that a rating adds to each column of a row."""
        columns = self._columns
        return np.asarray(self.variance[columns.function] * (columns.factor * mean_square + columns.bias))

    def _measure(self) -> None:
        """Take the mean squares of rows that no step has left."""
        for which, counts in enumerate(self._counts):
            self.moments[which][0] = counts @ self.rows(which).astype(np.float64) ** 2


def _passes_of(device: str) -> type[Any]:
    """Return what moves the rows on the CPU or on the GPU."""
    if not wants_gpu(device):
        return Passes
    from starcast.kernels.gpu import ascent  # an extra

    return ascent.Passes


def _columns_of(ranks: npt.NDArray[np.int32]) -> Columns:
    """Return what the columns are: the factors of each basis function, a bias for each, and zeros up to the stride."""
    n_factors, n = int(ranks.sum()), int(ranks.sum()) + len(ranks)
    stride = -(-n // LANES) * LANES
    if stride > MOST_COLUMNS:
        raise ParameterError(
            f'update="gradient" takes up to {MOST_COLUMNS} factors and biases, got {n}. '
            'Ask for fewer factors, or for update="exact".'
        )
    function = np.zeros(stride, np.int32)
    function[:n] = np.concatenate([np.repeat(np.arange(len(ranks)), ranks), np.arange(len(ranks))])
    at = np.arange(stride)
    factor, bias = at < n_factors, (at >= n_factors) & (at < n)
    return Columns(function, factor.astype(np.float32), bias.astype(np.float32))


def _places(ranks: npt.NDArray[np.int32], padded_ranks: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    """Return where columns come to lie when the factors of each basis function are padded.

    >>> _places(np.array([3, 1]), np.array([4, 4])).tolist()
    [0, 1, 2, 4, 8, 9]
    """
    first = np.concatenate([[0], np.cumsum(padded_ranks)])
    factors = [np.arange(start, start + rank) for start, rank in zip(first, ranks, strict=False)]
    return np.concatenate([*factors, first[-1] + np.arange(len(ranks))]).astype(np.intp)
