"""Moves of rows of PMF and BiasedMF with ``update="exact"``: each solves its least squares."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from starcast.distributed.moves import F32, Ask, Move, Moved, Part
from starcast.kernels import Side, fast
from starcast.models.point import wide_rows


@dataclass
class PointMoves:
    r"""Least squares: numbers of shape (rows, columns), with biases these first.

    The additive sums are :math:`\sum e q` and the upper triangle of :math:`\sum q q^\top`, and in the place of the
    log-likelihood :math:`-\sum e^2`, with *e* what the mean and the other's bias leave of a rating.

    Parameters
    ----------
    n_factors : int
    biased : bool
    regularization : float
    values : ndarray of shape (scores,)
        The ratings that scores stand for.
    mean : float
    n_threads : int
    """

    n_factors: int
    biased: bool
    regularization: float
    values: F32
    mean: float
    n_threads: int = 1

    @property
    def n_columns(self) -> int:
        """Numbers of a row."""
        return self.n_factors + self.biased

    def pack(self, numbers: F32) -> F32:
        """Return the numbers with zeros up to the stride of the kernels."""
        return wide_rows(numbers)

    def unpack(self, rows: F32) -> F32:
        """Return the numbers alone."""
        return np.ascontiguousarray(rows[:, : self.n_columns])

    def look(self, side: Side, ask: Ask, others: F32, first: int = 0) -> Part:
        """Return what the side's ratings of the (packed) others add up to for its rows from `first` on."""
        n, columns = len(ask.rows), self.n_columns
        squares, pull = np.empty(n), np.empty((n, columns), np.float32)
        gram = np.empty((n, columns * (columns + 1) // 2), np.float32)
        fast.look_squares(
            side, others, self.values, columns, self.biased, self.mean, first, squares, pull, gram, self.n_threads
        )
        return Part(-squares, pull, gram)

    def move(self, numbers: F32, counts: npt.NDArray[np.integer]) -> Move:
        """Solve for all rows, given how many ratings each of them has in all places together."""
        part = yield Ask(numbers, "curve")
        assert part.slope is not None
        assert part.curve is not None
        rows = np.empty((len(numbers), self.pack(numbers[:0]).shape[1]), np.float32)
        loss, penalty = fast.solve_squares(
            -part.loglik, part.slope, part.curve, np.asarray(counts, np.int64), self.regularization, rows,
            self.n_threads,
        )  # fmt: skip
        return Moved(self.unpack(rows), -loss, penalty)

    def whole(self, side: Side, rows: F32, others: F32) -> Moved:
        """Solve for packed rows, in place, whose ratings are all here: to the bit what a pass of a fit does."""
        loss, penalty = fast.pass_squares(
            side, rows, others, self.values, self.n_columns, self.biased, self.mean, self.regularization, self.n_threads
        )
        return Moved(rows, -loss, penalty)
