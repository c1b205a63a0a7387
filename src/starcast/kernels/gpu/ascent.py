"""The gradient rounds of the ordinal model on the GPU, with the doors of ``fast.OrdinalAscent`` on the CPU."""

from typing import Any

import numpy as np
import torch

from starcast.kernels import Side
from starcast.kernels.gpu.device import Tensor, cut, find_device, to_device
from starcast.kernels.gpu.glide import glide
from starcast.kernels.gpu.ordinal import slopes, spell, unspell

PIECE = 2048  # rows whose products are added up in single precision, before these are in double


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
        self._base, self._basis = to_device(base, device), to_device(basis, device).T.contiguous()
        self._ranks = int(ranks[0]), int(ranks[1]) if len(ranks) > 1 else 0
        self._n_columns = sum(self._ranks) + len(ranks)
        self._wide_basis = torch.zeros((self._rows[0].shape[1], len(base)), device=device)
        self._wide_basis[sum(self._ranks) : self._n_columns] = self._basis.T
        self._spell()

    def slopes(self, which: int, out: Any, squares: Any) -> float:
        """Write the slopes of all rows of a side and the squared residuals by basis function; return the likelihood."""
        found, told = self._slopes(which, scored=True)
        wide = torch.zeros_like(self._rows[which])
        wide[:, : self._n_columns] = unspell(found, self._basis, sum(self._ranks))
        out[...], squares[...] = wide.cpu().numpy(), told[1:].cpu().numpy()
        return float(told[0])

    def move(
        self, which: int, weights: Any, precision: Any, bend: Any, doubt: Any, length: float, memory: float,
        is_asked: bool, squares: Any, moments: Any,
    ) -> tuple[float, float]:  # fmt: skip
        """Take a step with all rows of a side; return log-likelihood (0 unless asked for) and price before it."""
        parts = [np.asarray(part, np.float32) for part in (weights, precision, bend, doubt)]
        sent = to_device(np.concatenate([part.ravel() for part in parts]), self._base.device)  # in one go
        prior = torch.split(sent, [part.size for part in parts])
        slope, told = self._slopes(which, scored=is_asked)
        sums = glide(
            self._rows[which], self._velocity[which], self._spelt[which], slope, self._features[which],
            self._sides[which].counts, prior, self._wide_basis, sum(self._ranks), length, memory,
        )  # fmt: skip
        found = torch.cat([sums[:3].reshape(-1), told, sums[3].sum()[None]]).cpu().numpy()
        moments[...] = found[: moments.size].reshape(moments.shape)
        squares[...] = found[moments.size + 1 : -1]
        return float(found[moments.size]), float(found[-1])

    def sums(self, which: int, out: Any) -> None:
        """Write the products of features and numbers of a side's rows with their numbers, added up over rows."""
        both = torch.cat([self._features[which], self._rows[which]], 1)
        missing = -len(both) % PIECE
        pieces = torch.nn.functional.pad(both, (0, 0, 0, missing)).view(-1, PIECE, both.shape[1])
        numbers = pieces[:, :, self._features[which].shape[1] :]
        out[...] = torch.bmm(pieces.transpose(1, 2), numbers).sum(0, dtype=torch.float64).cpu().numpy()

    def keep(self) -> None:
        """Keep the rows where they are, to come back to."""
        for kept, rows in zip(self._kept, self._rows, strict=True):
            kept.copy_(rows)

    def go_back(self) -> None:
        """Put the rows back to where they were kept, at rest."""
        for kept, rows, velocity in zip(self._kept, self._rows, self._velocity, strict=True):
            rows.copy_(kept)
            velocity.zero_()
        self._spell()

    def rows(self, which: int, out: Any) -> None:
        """Write the rows of a side."""
        out[...] = self._rows[which].cpu().numpy()

    def _slopes(self, which: int, *, scored: bool) -> tuple[Tensor, Tensor]:
        return slopes(
            self._sides[which], self._spelt[which], self._spelt[1 - which], self._base, self._basis, self._ranks,
            scored=scored,
        )  # fmt: skip

    def _spell(self) -> None:
        n_factors = sum(self._ranks)
        self._spelt = [spell(rows[:, : self._n_columns], self._basis, n_factors) for rows in self._rows]
