"""The gradient rounds of the ordinal model on the GPU, with the doors of ``models.ascent.Passes`` on the CPU."""

from typing import Any

import numpy as np
import torch

from starcast.kernels import Side
from starcast.kernels.gpu.device import cut, find_device, to_device
from starcast.kernels.gpu.glide import glide
from starcast.kernels.gpu.ordinal import Scratch, slopes, spell

PIECE = 2048  # rows whose products are added up in single precision, before these are in double


class Passes:
    """Rows of users (0) and items (1), laid out as those of the CPU, with velocities and a place to come back to.

    A round is handed to the GPU as a whole: what a pass needs of the one before it stays there, and what both have to
    tell comes back in one piece.
    """

    def __init__(
        self, users: Side, items: Side, P: Any, Q: Any, user_features: Any, item_features: Any, base: Any, basis: Any,
        ranks: Any, n_threads: int, columns: Any, most_variance: Any,
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
        n_factors, n_functions, stride = sum(self._ranks), len(ranks), self._rows[0].shape[1]
        self._n_columns = n_factors + n_functions
        self._wide_basis = torch.zeros((stride, len(base)), device=device)
        self._wide_basis[n_factors : self._n_columns] = self._basis.T
        self._spelt = [self._spell(rows) for rows in self._rows]
        self._room = [Scratch(side, rows, n_functions) for side, rows in zip(self._sides, self._spelt, strict=True)]
        self._columns = [to_device(part, device) for part in columns]
        self._n = max(float(len(users.other)), 1.0)
        # In one piece: log-likelihood and squares of residuals; sums over users, then items, as glide() gives them.
        self._found = torch.zeros(1 + n_functions + 8 * stride, dtype=torch.float64, device=device)
        self._told = self._found[: 1 + n_functions]
        self._sums = list(self._found[1 + n_functions :].view(2, 4, stride))
        self._most_told = torch.full_like(self._told, torch.inf)  # no variance may be larger than without a model
        self._most_told[1:] = to_device(np.asarray(most_variance) * self._n, device)
        self._told[1:] = self._most_told[1:]
        self._prior: list[Any] = [None, None]
        self._measure()
        self._fetch()

    def set_prior(self, which: int, weights: Any, precision: Any, doubt: Any) -> None:
        """Take the prior of a side's rows and what the doubt about the others adds to their curvature."""
        parts = [np.asarray(part, np.float32) for part in (weights, precision, doubt)]
        sent = to_device(np.concatenate([part.ravel() for part in parts]), self._base.device)  # in one go
        self._prior[which] = torch.split(sent, [part.size for part in parts])

    def round(self, length: float, memory: float) -> float:
        """Take a step with all users, then with all items; return the log-posterior before it."""
        for which in (0, 1):
            side, room, is_asked = self._sides[which], self._room[which], which == 0
            slopes(
                side, self._spelt[which], self._spelt[1 - which], self._base, self._basis, self._ranks, room,
                scored=is_asked,
            )  # fmt: skip
            glide(
                self._rows[which], self._velocity[which], self._spelt[which], room.slopes, self._features[which],
                side.counts, self._prior[which], self._columns, (self._sums[1 - which], self._told[1:]),
                self._wide_basis, sum(self._ranks), self._n, length, memory, self._sums[which],
            )  # fmt: skip
            if is_asked:
                torch.sum(room.told, 0, dtype=torch.float64, out=self._told)
                torch.minimum(self._told, self._most_told, out=self._told)
        return self._fetch()

    def sums(self, which: int) -> Any:
        """Return the products of features and numbers of a side's rows with their numbers, added up over rows."""
        both = torch.cat([self._features[which], self._rows[which]], 1)
        missing = -len(both) % PIECE
        pieces = torch.nn.functional.pad(both, (0, 0, 0, missing)).view(-1, PIECE, both.shape[1])
        numbers = pieces[:, :, self._features[which].shape[1] :]
        return torch.bmm(pieces.transpose(1, 2), numbers).sum(0, dtype=torch.float64).cpu().numpy()

    def keep(self) -> None:
        """Keep the rows where they are, to come back to."""
        for kept, rows in zip(self._kept, self._rows, strict=True):
            kept.copy_(rows)

    def go_back(self) -> None:
        """Put the rows back to where they were kept, at rest."""
        for kept, rows, velocity, spelt in zip(self._kept, self._rows, self._velocity, self._spelt, strict=True):
            rows.copy_(kept)
            velocity.zero_()
            spelt.copy_(self._spell(rows))
        self._told[:] = torch.where(self._told.isfinite(), self._told, self._most_told)
        self._measure()
        self._fetch()

    def rows(self, which: int) -> Any:
        """Return the rows of a side."""
        return self._rows[which].cpu().numpy()

    def _spell(self, rows: Any) -> Any:
        return spell(rows[:, : self._n_columns], self._basis, sum(self._ranks))

    def _measure(self) -> None:
        """Take the mean squares of rows that no step has left."""
        for side, rows, sums in zip(self._sides, self._rows, self._sums, strict=True):
            sums[0] = side.counts.double() @ rows.double() ** 2

    def _fetch(self) -> float:
        """Wait for what was found, keep the moments and variances, and return the log-posterior."""
        found = self._found.cpu().numpy()
        n = len(self._told)
        sums = found[n:].reshape(2, 4, -1)
        self.moments, self.variance = list(sums[:, :3]), found[1:n] / self._n
        return float(found[0] - sums[:, 3].sum())
