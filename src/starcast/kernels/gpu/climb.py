"""ResBeMF by gradient steps with momentum on the GPU; the rule is that of ``reference_climb.py``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from starcast.kernels.gpu.device import Segments, Tensor, to_device
from starcast.kernels.gpu.softmax import add_slopes, proba, step, tally
from starcast.kernels.reference_climb import MOMENTUM, ROUNDING, STIFFENING, STIFFNESS

LEAST_GAIN = 1e-5  # share of the objective for which it is worth to move mean biases into base


class Climb:
    """Rows of users (0) and items (1) with their velocities, moved round by round."""

    def __init__(
        self, sides: tuple[Segments, Segments], planes: tuple[Any, Any], base: Any, values: Any, weights: Any, *,
        biased: bool, regularization: float, bias_regularization: float, recklessness: float = 0.0,
    ) -> None:  # fmt: skip
        device = sides[0].counts.device
        self.sides, self.biased, self.recklessness = sides, biased, recklessness
        self.shape = planes[0].shape[1:]
        self.n_factors = self.shape[0] - biased
        self.rows = [to_device(part, device).reshape(1, len(part), -1) for part in planes]
        self.velocity = [torch.zeros_like(rows) for rows in self.rows]
        self.base = to_device(np.asarray(base, np.float32), device)[None, :]
        self.values = to_device(np.asarray(values, np.float32), device)
        decay = np.full(self.shape, regularization, np.float32)
        if biased:
            decay[-1] = bias_regularization
        self.decay = to_device(decay.reshape(-1), device)
        self._weights = to_device(np.tile(weights, self.shape[0]) * (1 + abs(recklessness)), device).float()
        width = self.rows[0].shape[2]
        self._sums = torch.empty((1, max(map(len, sides)), width), device=device)
        self._loglik = torch.zeros(len(sides[1]), device=device)
        self._n_ratings = float(sides[0].counts.sum(dtype=torch.float64))
        self._stiffness = STIFFNESS
        self._bias_decay = bias_regularization
        self._items: Tensor | None = None
        self._rated = [(side.counts > 0).float()[:, None] for side in sides]
        self._n_rated = [float(rated.sum(dtype=torch.float64)) for rated in self._rated]

    def run(self, n_rounds: int, tolerance: float, on_round: Callable[[int, float], bool]) -> list[float]:
        """Run rounds until one gains little or `on_round` says so; return the objectives met."""
        history: list[float] = []
        for done in range(n_rounds):
            objective = self.round()
            gain = objective - history[-1] if history else np.inf
            history.append(objective)
            if on_round(done, objective):
                break
            if gain < -ROUNDING * abs(objective):
                self._stiffness *= STIFFENING
                for velocity in self.velocity:
                    velocity.zero_()
            elif gain <= tolerance * abs(objective):
                break
        return history

    def round(self) -> float:
        """Move all users, then all items; return the objective between the two."""
        items = tally(self.sides[1], self.rows[1][0]) if self._items is None else self._items
        self._move(0, items)
        users = tally(self.sides[0], self.rows[0][0])
        self._move(1, users)
        penalty = (self.decay * (users[1] + items[1])).sum() / 2
        self._items = tally(self.sides[1], self.rows[1][0])
        n_scores = self.shape[1]
        found = [self._loglik.sum(dtype=torch.float64) - penalty, users[2, -n_scores:], self._items[2, -n_scores:]]
        objective, *sums = torch.cat([part.reshape(-1) for part in found]).tolist()  # the one wait of a round
        if self.biased:
            self._centre(0, sums[:n_scores], objective)
            self._centre(1, sums[n_scores:], objective)
        return float(objective)

    def state(self) -> list[Any]:
        """Return the rows of users and items as arrays of shape (rows, planes, scores), and the base."""
        return [*(rows[0].reshape(-1, *self.shape).cpu().numpy() for rows in self.rows), self.base[0].cpu().numpy()]

    def proba(self, user: Any, item: Any) -> Any:
        """Return the probabilities of pairs where the rows stand."""
        pairs = to_device(user, self.base.device), to_device(item, self.base.device)
        P, Q = self.rows[0][0], self.rows[1][0]
        return proba(*pairs, P, Q, self.base[0], self.n_factors, biased=self.biased).cpu().numpy()

    def _move(self, which: int, others: Tensor) -> None:
        side, width = self.sides[which], self.rows[0].shape[2]
        if not len(side):
            return
        mean_square = (others[0] / self._n_ratings).float()
        if self.biased:
            mean_square[-self.shape[1] :] = 1.0
        add_slopes(
            side, self.rows[which], self.rows[1 - which], self.base, self._sums, self._loglik if which else None,
            self.n_factors, biased=self.biased, values=self.values, recklessness=self.recklessness,
        )  # fmt: skip
        curve = self._weights * mean_square
        sums = self._sums.view(-1)[: len(side) * width]
        step(side, sums, self.rows[which][0], self.velocity[which][0], curve, self.decay, self._stiffness, MOMENTUM)

    def _centre(self, which: int, sums: list[float], objective: float) -> None:
        """Move the mean biases of a side into base, if that is worth it: the same answers at a smaller penalty."""
        n = self._n_rated[which]
        mean = np.array(sums) / n
        if not 0.5 * self._bias_decay * n * (mean**2).sum() > LEAST_GAIN * abs(objective):
            return
        shift = to_device(mean.astype(np.float32), self.base.device)
        self.rows[which][0, :, -self.shape[1] :] -= self._rated[which] * shift
        self.base += shift
        if which:
            self._items = None  # the sums that were made of these rows hold no more
