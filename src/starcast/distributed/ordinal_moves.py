"""Moves of rows of the ordinal model: a step of Newton's, or a draw from a row's posterior given the others."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.distributed.moves import F32, F64, Ask, Move, Moved, Part, Units
from starcast.kernels import Side, fast
from starcast.models.chain import Ties
from starcast.models.hierarchy import padded
from starcast.models.tall import ROUGH, on_grid

ENOUGH = 1e-5  # of a log-posterior: what a step must promise to be taken, as in the native kernel
MOST_TRIALS = 12  # of a step, each half as long as the one before


@dataclass
class OrdinalMoves:
    r"""OrdinalMF with ``update="exact"``: numbers of shape (rows, columns).

    The additive sums are the gradient of the log-likelihood and the upper triangle of minus its second derivative, as
    whole numbers of units: rows move to the same bits, however their ratings are spread. The prior,
    :math:`N(\mu_r, \Lambda^{-1})` for row *r*, is added where the sums come together.

    Parameters
    ----------
    ties : Ties
    n_threads : int
    """

    ties: Ties
    n_threads: int = 1

    def pack(self, numbers: F32) -> F32:
        """Return the numbers with zeros up to the stride of the kernels."""
        return padded(numbers, self.ties.stride)

    def unpack(self, rows: F32) -> F32:
        """Return the numbers alone."""
        return np.ascontiguousarray(rows[:, : self.ties.n_columns])

    def look(self, side: Side, ask: Ask, others: F32, first: int = 0) -> Part:
        """Return what the side's ratings of the (packed) others say of its rows from `first` on."""
        assert ask.units is not None
        n, columns = len(ask.rows), self.ties.n_columns
        part = Part(np.empty(n))
        if ask.want == "curve":
            slope = np.empty((n, columns), np.int32)
            part = Part(part.loglik, slope, np.empty((n, columns * (columns + 1) // 2), np.int32))
        fast.look_ordinal(
            side, self.pack(ask.rows), others, *self.ties, first, ask.some, part.loglik, part.slope, part.curve,
            *ask.units, self.n_threads,
        )  # fmt: skip
        return part

    def move(
        self,
        numbers: F32,
        counts: npt.NDArray[np.integer],
        units: Units,
        means: F32,
        precision: F64,
        noise: F32 | None = None,
        luck: F32 | None = None,
        is_spread_wanted: bool = False,
    ) -> Move:
        """Take a step of Newton's with every row or, if there are noise and the logarithms of luck, draw it.

        Rows without ratings move, too: they have their prior. `counts` says nothing here.
        """
        prior = self._prior(means, precision, units)
        rows = np.array(numbers[:, : self.ties.n_columns], np.float32)
        part = yield Ask(rows, "curve", units=units)
        spread = np.empty((self.ties.n_columns,) * 2) if is_spread_wanted else None
        if noise is None or luck is None:
            aim = self._aim(rows, part, prior, spread=spread)
            objective = yield from self._climb(rows, aim, prior)
            return Moved(rows, _total(objective), 0.0, spread=spread)
        aim = self._aim(rows, part, prior, noise=self.pack(noise), spread=spread)
        accepted = yield from self._jump(rows, aim, prior, noise, luck)
        return Moved(rows, _total(aim.objective), 0.0, accepted, spread)

    def _climb(self, rows: F32, aim: "Aim", prior: "Prior") -> Generator[Ask, Part, F64]:
        """Move rows by their steps, halved until they gain; return their log-posteriors."""
        objective = aim.objective.copy()
        left = np.flatnonzero(aim.promise > ENOUGH)
        for trial in range(MOST_TRIALS):
            if not len(left):
                break
            there = rows[left] + np.float32(0.5**trial) * aim.step[left]
            part = yield Ask(there, "value", None if len(left) == len(rows) else left, units=prior.units)
            then = self._value(there, part, prior, left)
            good = then > aim.objective[left]
            rows[left[good]], objective[left[good]] = there[good], then[good]
            left = left[~good]
        return objective

    def _jump(self, rows: F32, aim: "Aim", prior: "Prior", noise: F32, luck: F32) -> Generator[Ask, Part, int]:
        """Draw rows around the ends of their steps and accept them, or not, by Metropolis and Hastings."""
        assert aim.kick is not None
        there = rows + aim.step + aim.kick
        part = yield Ask(there, "curve", units=prior.units)
        then = self._aim(there, part, prior, origin=self.pack(rows))
        assert then.back is not None
        # One after the other, as the kernel adds them.
        squares = (noise[:, : self.ties.n_columns].astype(np.float64) ** 2).cumsum(axis=1)[:, -1]
        chance = then.objective - aim.objective + (then.size - 0.5 * then.back) - (aim.size - 0.5 * squares)
        accepted = np.asarray(luck, np.float64) < chance
        rows[accepted], aim.objective[accepted] = there[accepted], then.objective[accepted]
        return int(accepted.sum())

    def whole(
        self,
        side: Side,
        rows: F32,
        others: F32,
        units: Units,
        means: F32,
        precision: F64,
        noise: F32 | None = None,
        luck: F32 | None = None,
        is_spread_wanted: bool = False,
    ) -> Moved:
        """Move packed rows, in place, whose ratings are all here: to the bit what a pass of a fit does."""
        prior = self._prior(means, precision, units)
        spread = np.empty((self.ties.n_columns,) * 2) if is_spread_wanted else None
        objective, accepted = fast.move_rows(
            side, rows, others, *self.ties, prior.means, prior.precision, int(noise is None),
            None if noise is None else self.pack(noise), luck, spread, *units, self.n_threads,
        )  # fmt: skip
        return Moved(rows, objective, 0.0, accepted, spread)

    def _prior(self, means: F32, precision: F64, units: Units) -> "Prior":
        return Prior(self.pack(means), padded(precision, self.ties.stride), units)

    def _aim(
        self,
        rows: F32,
        part: Part,
        prior: "Prior",
        *,
        noise: F32 | None = None,
        origin: F32 | None = None,
        spread: F64 | None = None,
    ) -> "Aim":
        """Return what sums over all ratings, and the prior, make of rows."""
        assert part.slope is not None
        assert part.curve is not None
        n = len(rows)
        step = np.empty((n, self.ties.stride), np.float32)
        kick = None if noise is None else np.empty_like(step)
        back = None if origin is None else np.empty(n)
        objective, promise, size = np.empty(n), np.empty(n), np.empty(n)
        fast.aim_ordinal(
            self.pack(rows), part.loglik, part.slope, part.curve, *self.ties, prior.means, prior.precision, noise,
            origin, objective, step, promise, size, kick, back, spread, *prior.units, self.n_threads,
        )  # fmt: skip
        return Aim(objective, self.unpack(step), promise, size, None if kick is None else self.unpack(kick), back)

    def _value(self, rows: F32, part: Part, prior: "Prior", some: npt.NDArray[np.intp]) -> F64:
        """Return the log-posteriors of some rows."""
        value = np.empty(len(rows))
        means = np.ascontiguousarray(prior.means[some])
        fast.value_ordinal(self.pack(rows), part.loglik, *self.ties, means, prior.precision, value)
        return value


def _total(objective: F64) -> float:
    return float(on_grid(objective, ROUGH).sum())


class Prior(NamedTuple):
    """What is expected of rows, and how surely, padded; and what sums are counted in."""

    means: F32
    precision: F32
    units: Units


class Aim(NamedTuple):
    """Where rows are and where they would go."""

    objective: F64  # (rows,) log-posterior
    step: F32  # (rows, columns) Newton's
    promise: F64  # (rows,) what the gradient says of it
    size: F64  # (rows,) logarithm of the root of the curvature's determinant
    kick: F32 | None  # (rows, columns) noise around its end
    back: F64 | None  # (rows,) squared distance of the origin from its end
