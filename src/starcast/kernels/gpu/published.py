"""ResBeMF as published, in double precision, many settings at a time: the paper's search on the GPU."""

from typing import Any

import torch

from starcast.kernels.gpu.device import Segments, Tensor, to_device
from starcast.kernels.gpu.softmax import add_slopes, proba, published_step


class Crowd:
    """Models of one size that differ in learning rate and regularization, and learn from the same ratings."""

    def __init__(
        self, sides: tuple[Segments, Segments], planes: tuple[Any, Any], rates: list[float], decays: list[float]
    ) -> None:
        device = sides[0].counts.device
        self.sides, self.shape = sides, planes[0].shape[1:]  # (factors, scores)
        double = {"dtype": torch.float64, "device": device}
        self.rows = [to_device(part, device).reshape(1, len(part), -1).repeat(len(rates), 1, 1) for part in planes]
        self._rates, self._decays = torch.tensor(rates, **double), torch.tensor(decays, **double)
        self._base = torch.zeros((len(rates), self.shape[1]), **double)
        self._sums = torch.empty((len(rates), max(map(len, sides)), self.rows[0].shape[2]), **double)

    def run(self, n_rounds: int) -> None:
        """Move all users, then all items, of every model, `n_rounds` times."""
        for _ in range(n_rounds):
            for which, side in enumerate(self.sides):
                if len(side):
                    sums = self._sums.view(-1)[: len(self.rows[0]) * len(side) * self._sums.shape[2]]
                    add_slopes(
                        side, self.rows[which], self.rows[1 - which], self._base, sums, None, self.shape[0],
                        published=True,
                    )  # fmt: skip
                    published_step(side, sums, self.rows[which], self._rates, self._decays)

    def diverged(self) -> list[bool]:
        """Tell of each model whether a factor is infinite or not a number."""
        finite = [rows.isfinite().flatten(1).all(1) for rows in self.rows]
        return [not whole for whole in (finite[0] & finite[1]).tolist()]

    def proba(self, model: int, user: Tensor, item: Tensor) -> Tensor:
        """Return one model's probabilities of pairs, not a number where the published program has none."""
        P, Q = (rows[model] for rows in self.rows)
        return proba(user, item, P, Q, self._base[model], self.shape[0], published=True)

    def planes(self, model: int) -> list[Any]:
        """Return one model's rows as arrays of shape (rows, factors, scores)."""
        return [rows[model].reshape(-1, *self.shape).cpu().numpy() for rows in self.rows]
