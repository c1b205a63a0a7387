"""Thresholds put to the test on ratings whose outcome is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.trust.evidence import betting_p_value, binomial_p_value, reject_in_turn

Floats = npt.NDArray[np.float64]

N_STARTS = 10  # candidates that have a share of the level of their own


class Trial:
    """Ratings whose reliabilities and losses are known, on which thresholds are put to the test.

    Parameters
    ----------
    promise : {"accuracy", "mae", "coverage"}
    reliability, loss : array of shape (ratings,)
        The losses from 0 to 1: whether a prediction was wrong, or how far off.
    user : array of int, optional
        With it the users' means are tested, not the ratings.
    level : float
        The chance of a broken promise that is allowed.
    """

    def __init__(
        self, promise: str, reliability: Floats, loss: Floats, user: npt.NDArray[Any] | None = None, level: float = 0.1
    ) -> None:
        # Bets depend on the order, which in a file may be anything but random.
        rng = np.random.default_rng(0)
        order = rng.permutation(len(loss))
        self.promise, self.level = promise, level
        self.reliability, self.loss = reliability[order], loss[order]
        self.user = None if user is None else rng.permutation(int(user.max()) + 1)[user[order]]

    def search(self, candidates: Floats, risk: float) -> tuple[float, float] | None:
        """Return the threshold that predicts most with a risk of at most `risk` (with a promise of coverage, least),
        and the level at which it was tested; None if there is none."""
        ascending = self.promise == "coverage"  # coverage falls with the threshold, so that one failure is the last
        order = np.sort(candidates)[:: 1 if ascending else -1]
        shares = np.zeros(len(order))
        if ascending:
            shares[0] = self.level
        else:  # the strictest predict nothing, so testing begins anew at several places
            starts = np.unique(np.linspace(0, len(order) - 1, N_STARTS + 1).astype(int))
            shares[starts] = self.level / len(starts)
        p_values = self._p_values(order, risk)
        p_values[0] = 0.0 if self._is_certain(order[0]) else p_values[0]
        levels = reject_in_turn(p_values, shares)
        kept = np.flatnonzero(levels)
        return None if len(kept) == 0 else (float(order[kept[-1]]), float(levels[kept[-1]]))

    def _p_values(self, thresholds: Floats, risk: float) -> list[float]:
        """Return the p-value of each; those that keep the same ratings share theirs."""
        n_less = np.searchsorted(np.sort(self.reliability), thresholds)
        _, first, same = np.unique(n_less, return_index=True, return_inverse=True)
        found = [self.p_value(theta, risk) for theta in thresholds[first]]
        return [found[place] for place in same]

    def p_value(self, theta: float, risk: float) -> float:
        """Return the p-value against "with this threshold the risk is above `risk`"."""
        sample = self.sample(theta)
        if self.user is None and self.promise != "mae":
            return binomial_p_value(sample, risk)
        return betting_p_value(sample, risk, self.level / N_STARTS)  # bets are made for the level of a start

    def sample(self, theta: float) -> Floats:
        """Return the losses that the promise is about, one per rating or user."""
        kept = self.reliability >= theta
        loss = (~kept).astype(np.float64) if self.promise == "coverage" else self.loss[kept]
        if self.user is None:
            return loss
        user = self.user if self.promise == "coverage" else self.user[kept]
        count = np.bincount(user)
        return np.asarray(np.bincount(user, loss)[count > 0] / count[count > 0])

    def observed(self, theta: float) -> float:
        """Return the mean loss."""
        return float(self.sample(theta).mean())

    def bound(self, theta: float, level: float) -> float:
        """Return the lowest risk that can be ruled to be an upper bound at that level."""
        return 0.0 if self._is_certain(theta) else lowest(lambda risk: self.p_value(theta, risk) <= level)

    def _is_certain(self, theta: float) -> bool:
        return self.promise == "coverage" and theta == 0  # nothing is less reliable than that


def lowest(passes: Callable[[float], bool], n_halvings: int = 24) -> float:
    """Return the lowest number between 0 and 1, to that precision, from which on `passes` is true; 1 if none is."""
    low, high = 0.0, 1.0
    for _ in range(n_halvings):
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
