"""The gradient rounds of the ordinal model on the GPU, with the doors of ``fast.OrdinalAscent`` on the CPU."""

from typing import Any

import numpy as np
import torch

from starcast.kernels import Side
from starcast.kernels.gpu.device import Tensor, cut, find_device, to_device
from starcast.kernels.gpu.ordinal import slopes, spell, unspell


class OrdinalAscent:
    """Rows of users (0) and items (1), laid out as those of the CPU, with velocities and a place to come back to."""

    def __init__(
        self, users: Side, items: Side, P: Any, Q: Any, user_features: Any, item_features: Any, base: Any, basis: Any,
        ranks: Any, n_threads: int = 1,
    ) -> None:  # fmt: skip
        device = find_device()
        self._sides = [
            cut(to_device(np.diff(side.start), device), to_device(side.other, device), to_device(side.score, device))
            for side in (users, items)
        ]
        self._rows = [to_device(rows, device) for rows in (P, Q)]
        self._velocity = [torch.zeros_like(rows) for rows in self._rows]
        self._kept = [rows.clone() for rows in self._rows]
        self._features = [to_device(features, device) for features in (user_features, item_features)]
        self._base, self._basis = (
            to_device(base, device),
            to_device(basis, device).T.contiguous(),
        )  # (scores, functions)
        self._ranks = int(ranks[0]), int(ranks[1]) if len(ranks) > 1 else 0
        self._n_columns = sum(self._ranks) + len(ranks)

    def slopes(self, which: int, out: Any, squares: Any) -> float:
        """Write the slopes of all rows of a side and the squared residuals by basis function; return the likelihood."""
        found, loglik, residuals = self._slopes(which, scored=True)
        out[...] = found.cpu().numpy()
        squares[...] = residuals.cpu().numpy()
        return float(loglik)

    def move(
        self, which: int, weights: Any, precision: Any, bend: Any, doubt: Any, length: float, memory: float,
        is_asked: bool, squares: Any, moments: Any,
    ) -> tuple[float, float]:  # fmt: skip
        """Take a step with all rows of a side; return log-likelihood (0 unless asked for) and price before it."""
        rows, velocity, device = self._rows[which], self._velocity[which], self._base.device
        weights, precision, bend, doubt = (to_device(part, device) for part in (weights, precision, bend, doubt))
        slope, loglik, residuals = self._slopes(which, scored=is_asked)
        count = self._sides[which].counts[:, None]
        away = rows - self._features[which] @ weights
        pull = away @ precision
        doubtful = doubt * count * rows
        price = 0.5 * (torch.sum(away * pull, dtype=torch.float64) + torch.sum(doubtful * rows, dtype=torch.float64))
        sure = 1 / (bend * count + precision.diagonal())
        velocity.mul_(memory).add_((slope - pull - doubtful) * sure, alpha=1 / length)
        rows += velocity
        sums = [(count * rows.square()).sum(0), (count * sure).sum(0), sure.sum(0)]
        found = torch.cat([*(part.double() for part in sums), residuals, loglik[None], price[None]]).cpu().numpy()
        moments[...] = found[: moments.size].reshape(moments.shape)
        squares[...] = found[moments.size : -2]
        return float(found[-2]), float(found[-1])

    def sums(self, which: int, out: Any) -> None:
        """Write the products of features and numbers of a side's rows with their numbers, added up over rows."""
        rows = self._rows[which].double()
        out[...] = (torch.cat([self._features[which].double(), rows], 1).T @ rows).cpu().numpy()

    def keep(self) -> None:
        """Keep the rows where they are, to come back to."""
        for kept, rows in zip(self._kept, self._rows, strict=True):
            kept.copy_(rows)

    def go_back(self) -> None:
        """Put the rows back to where they were kept, at rest."""
        for kept, rows, velocity in zip(self._kept, self._rows, self._velocity, strict=True):
            rows.copy_(kept)
            velocity.zero_()

    def rows(self, which: int, out: Any) -> None:
        """Write the rows of a side."""
        out[...] = self._rows[which].cpu().numpy()

    def _slopes(self, which: int, *, scored: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return the slopes of a side's rows, laid out as rows are, the log-likelihood and the squared residuals."""
        n_factors = sum(self._ranks)
        own, others = (spell(self._rows[k][:, : self._n_columns], self._basis, n_factors) for k in (which, 1 - which))
        found, told = slopes(self._sides[which], own, others, self._base, self._basis, self._ranks, scored=scored)
        wide = torch.zeros_like(self._rows[which])
        wide[:, : self._n_columns] = unspell(found, self._basis, n_factors)
        return wide, told[0], told[1:]
