"""Moves of rows with a vector per score: ResBeMF's exact step and BeMF's step along the gradient."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.distributed.moves import F32, F64, Ask, Move, Moved, Part
from starcast.kernels import Side, fast
from starcast.models.per_score import pack, unpack

LEAST_GAIN = 2e-7  # of a row's objective: what a step must promise, as in the native kernel
MOST_TRIALS = 6  # of a step, each half as long as the one before
LEAST_SHIFT = 1e-5  # of the objective: what moving the mean of the biases must gain

Flags = npt.NDArray[np.bool_]


@dataclass
class ScoreMoves:
    """What the rows of models with a vector per score have in common: numbers of shape (rows, planes, scores)."""

    n_factors: int
    values: F32  # (scores,) the scores on a scale from -1 to 1

    def pack(self, numbers: F32) -> F32:
        """Return the numbers in the layout of the kernels."""
        return pack(np.ascontiguousarray(numbers, np.float32))

    def unpack(self, rows: F32) -> F32:
        """Return the numbers from the layout of the kernels."""
        return unpack(rows, (len(rows), self._n_planes(), len(self.values)))

    def _n_planes(self) -> int:
        return self.n_factors


@dataclass
class ResBeMFMoves(ScoreMoves):
    r"""ResBeMF with ``update="exact"``: Newton steps of blocks of factors, halved until the row's objective rises.

    With *f* the other's numbers, *g* and *w* the slope and the curvature of a rating's log-likelihood by the logit of a
    score, the additive sums are :math:`\sum g f` and the lower triangle of :math:`\sum w f f^\top`, for every score.

    Parameters
    ----------
    n_factors : int
    values : ndarray of shape (scores,)
    biased : bool
    regularization, bias_regularization, recklessness : float
    base : ndarray of shape (scores,)
    n_threads : int
    """

    biased: bool
    regularization: float
    bias_regularization: float
    recklessness: float
    base: F32
    n_threads: int = 1

    def _n_planes(self) -> int:
        return self.n_factors + self.biased

    def look(self, side: Side, ask: Ask, others: F32, first: int = 0) -> Part:
        """Return what the side's ratings of the (packed) others say of its rows from `first` on."""
        part = self._room(len(ask.rows), ask.block) if ask.want == "curve" else Part(np.empty(len(ask.rows)))
        fast.look_scores(
            side, self.pack(ask.rows), others, self.base.copy(), self.values, self.n_factors, self.biased,
            self.recklessness, first, ask.some, ask.block, part.loglik, part.slope, part.curve, self.n_threads,
        )  # fmt: skip
        return part

    def move(self, numbers: F32, counts: npt.NDArray[np.integer]) -> Move:
        """Move all rows, given how many ratings each of them has in all places together."""
        rows = np.array(numbers, np.float32)
        rated = np.asarray(counts) > 0
        rows[~rated] = 0  # nothing but the prior
        part = yield Ask(rows, "curve")
        at = _Place(rows, part.loglik.copy(), self._penalty(rows))
        for block in range(self._n_blocks()):
            step, gain = self._aim(rows, part, block)
            moving = rated & (gain > LEAST_GAIN * np.abs(at.loglik - at.penalty))
            step[~moving] = 0
            part = yield from self._step(at, step, moving, block)
        return Moved(rows, float(at.loglik.sum()), float(at.penalty.sum()))

    def _step(self, at: "_Place", step: F32, moving: Flags, block: int) -> Generator[Ask, Part, Part]:
        """Take the step of every row that gains by it or by a part of it; return the sums that the next block wants."""
        planes, value, n = self._block(block), at.loglik - at.penalty, len(step)
        is_last = block + 1 == self._n_blocks()
        sums = Part(at.loglik) if is_last else self._room(n, block + 1)
        left = np.flatnonzero(moving) if is_last else np.arange(n)  # the next block wants to know of those at rest, too
        for trial in range(MOST_TRIALS + (not is_last)):
            if not len(left):
                break
            size = 0.5**trial if trial < MOST_TRIALS else 0.0  # who never gained is asked about where it is
            rows = at.rows[left]
            rows[:, planes] += np.float32(size) * step[left]
            some = None if len(left) == n else left
            part = yield Ask(rows, "value", some) if is_last else Ask(rows, "curve", some, block + 1)
            penalty = self._penalty(rows)
            good = (part.loglik - penalty > value[left]) | ~moving[left] | (size == 0)
            to = left[good]
            at.rows[to], at.penalty[to] = rows[good], penalty[good]
            for mine, found in ((at.loglik, part.loglik), (sums.slope, part.slope), (sums.curve, part.curve)):
                if mine is not None and found is not None:
                    mine[to] = found[good]
            left = left[~good]
        return sums

    def whole(self, side: Side, rows: F32, others: F32) -> Moved:
        """Move packed rows, in place, whose ratings are all here: to the bit what a pass of a fit does."""
        loglik, penalty = fast.pass_scores(
            "resbemf", side, rows, others, self.base.copy(), self.values, self.n_factors, self.biased,
            regularization=self.regularization, bias_regularization=self.bias_regularization,
            recklessness=self.recklessness, n_threads=self.n_threads,
        )  # fmt: skip
        return Moved(rows, loglik, penalty)

    def bias_sums(self, rows: F32, counts: npt.NDArray[np.integer]) -> F64:
        """Return the biases of packed rows that have ratings, added up, and how many such rows there are."""
        sums = np.empty(len(self.values) + 1)
        fast.sum_biases(rows, np.asarray(counts) > 0, self.n_factors, sums)
        return sums

    def centre(self, sums: F64, objective: float) -> tuple[F32, float]:
        r"""Return what biases and base may exchange, and what the objective gains by it.

        The mean *m* of the biases of *n* rows moves into the base: the same predictions, at a penalty that is less by
        :math:`\tfrac{\lambda}{2} n \lVert m \rVert^2`. Zeros where that would drown in rounding.
        """
        mean = sums[:-1] / sums[-1] if sums[-1] else np.zeros(len(sums) - 1)
        gain = 0.0
        for m in mean.tolist():
            gain += 0.5 * float(np.float32(self.bias_regularization)) * float(sums[-1]) * m * m
        if not gain > LEAST_SHIFT * abs(objective):
            return np.zeros(len(mean), np.float32), 0.0
        return mean.astype(np.float32), gain

    def shift(self, rows: F32, counts: npt.NDArray[np.integer], shift: F32) -> None:
        """Take `shift` from the biases of packed rows that have ratings, in place."""
        fast.shift_biases(rows, np.asarray(counts) > 0, self.n_factors, shift)

    def _n_blocks(self) -> int:
        return max(1, -(-self.n_factors // fast.max_block))

    def _block(self, block: int) -> list[int]:
        """Return the planes that a block takes: some factors and, in the first one, the biases."""
        begin, end = (self.n_factors * b // self._n_blocks() for b in (block, block + 1))
        return [*range(begin, end), *([self.n_factors] if self.biased and block == 0 else [])]

    def _room(self, n: int, block: int) -> Part:
        planes, n_scores = len(self._block(block)), len(self.values)
        slope = np.empty((n, planes, n_scores), np.float32)
        return Part(np.empty(n), slope, np.empty((n, planes * (planes + 1) // 2, n_scores), np.float32))

    def _aim(self, rows: F32, part: Part, block: int) -> tuple[F32, F64]:
        """Return Newton's step of a block and the gain that it promises."""
        assert part.slope is not None
        assert part.curve is not None
        step, gain = np.empty_like(part.slope), np.empty(len(rows))
        fast.aim_scores(
            rows, part.slope, part.curve, self.n_factors, self.biased, self.regularization, self.bias_regularization,
            block, step, gain, self.n_threads,
        )  # fmt: skip
        return step, gain

    def _penalty(self, rows: F32) -> F64:
        squares = np.einsum("nks,nks->nk", rows, rows).astype(np.float64)
        factors, biases = squares[:, : self.n_factors].sum(axis=1), squares[:, self.n_factors :].sum(axis=1)
        return np.asarray(0.5 * (self.regularization * factors + self.bias_regularization * biases))


@dataclass
class BeMFMoves(ScoreMoves):
    r"""BeMF: a step of every row along its gradient, :math:`x \leftarrow x + \eta (\sum g f - \gamma x)`.

    The additive sum is the gradient of the log-likelihood.

    Parameters
    ----------
    n_factors : int
    values : ndarray of shape (scores,)
    learning_rate, regularization, recklessness : float
    n_threads : int
    """

    learning_rate: float
    regularization: float
    recklessness: float
    n_threads: int = 1

    def look(self, side: Side, ask: Ask, others: F32, first: int = 0) -> Part:
        """Return what the side's ratings of the (packed) others say of its rows from `first` on.

        Only the sum of the log-likelihoods means something: the kernel has one for many rows.
        """
        part = Part(np.empty(len(ask.rows)), np.empty(ask.rows.shape, np.float32))
        assert part.slope is not None
        fast.look_bemf(
            side, self.pack(ask.rows), others, self._base(), self.values, self.n_factors, self.recklessness, first,
            part.loglik, part.slope, self.n_threads,
        )  # fmt: skip
        return part

    def move(self, numbers: F32, counts: npt.NDArray[np.integer]) -> Move:
        """Move all rows; `counts` says nothing here. The log-likelihood is that before the move."""
        rows = np.array(numbers, np.float32)
        part = yield Ask(rows, "slope")
        assert part.slope is not None
        rows += np.float32(self.learning_rate) * (part.slope - np.float32(self.regularization) * rows)
        return Moved(rows, float(part.loglik.sum()), 0.0)

    def whole(self, side: Side, rows: F32, others: F32, is_asked: bool = True) -> Moved:
        """Move packed rows, in place, whose ratings are all here: to the bit what a pass of a fit does.

        The log-likelihood before the move is 0 unless it is asked for, as a fit does of items alone.
        """
        loglik, penalty = fast.pass_scores(
            "bemf", side, rows, others, self._base(), self.values, self.n_factors, learning_rate=self.learning_rate,
            regularization=self.regularization, recklessness=self.recklessness, is_asked=is_asked,
            n_threads=self.n_threads,
        )  # fmt: skip
        return Moved(rows, loglik, penalty)

    def _base(self) -> F32:
        return np.zeros(len(self.values), np.float32)


class _Place(NamedTuple):
    """Where rows are."""

    rows: F32
    loglik: F64
    penalty: F64
