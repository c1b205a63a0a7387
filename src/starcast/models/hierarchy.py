"""What rows have in common: a normal distribution around a regression, itself learnt from the rows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.models.tall import cross, times

Floats = npt.NDArray[np.float64]

FIRMNESS = 0.01  # of the prior's own prior: a guess at the variances that counts as many rows as there are columns
LOOSE = 0.01  # ridge on the intercept, which should be free
START_VARIANCES = (0.5, 0.125)  # of biases and factors before there are rows to learn from


class Hierarchy:
    r"""The prior of the rows of one side, :math:`\theta_r \sim N(W^\top f_r, \Lambda^{-1})`, with features *f*.

    *W* has a ridge prior whose strength is learnt, :math:`\Lambda` a Wishart one. :meth:`learn` moves to the most
    likely values given rows that are known up to a spread; :meth:`draw` draws from the posterior given rows.
    """

    def __init__(self, features: Floats, n_columns: int, n_biases: int) -> None:
        self.features = features
        self._begin(len(features), cross(features, features), n_columns, n_biases)

    def _begin(self, n_rows: int, gram: Floats, n_columns: int, n_biases: int) -> None:
        self._n_rows, self._gram = n_rows, gram
        self.weights = np.zeros((len(gram), n_columns))
        biases, factors = START_VARIANCES
        self.precision = np.diag(1 / np.r_[np.full(n_columns - n_biases, factors), np.full(n_biases, biases)])
        self.strength = 10.0

    def means(self, stride: int) -> npt.NDArray[np.float32]:
        """Return what is expected of each row, padded for the kernels."""
        return padded(times(self.features, self.weights), stride)

    def learn(self, rows: npt.NDArray[Any], spread: Floats) -> None:
        """Move to the likeliest prior of rows that have `spread` as the sum of their covariances."""
        self.learn_from(cross(self.features, rows), cross(rows, rows), spread)

    def learn_from(self, by_features: Floats, by_numbers: Floats, spread: Floats) -> None:
        """The same from sums over rows *x* with features *f*: of f x' and of x x'."""
        weights, scatter, _ = self._posterior(by_features, by_numbers)
        n = self._n_rows + self._firm
        self.weights, self.precision = weights, np.linalg.inv((scatter + spread) / n)
        self.strength = self._n_penalized / max(self._roughness(), 1e-9)

    def draw(self, rows: npt.NDArray[Any], rng: np.random.Generator) -> None:
        """Draw the prior from its posterior given the rows."""
        self.draw_from(cross(self.features, rows), cross(rows, rows), rng)

    def draw_from(self, by_features: Floats, by_numbers: Floats, rng: np.random.Generator) -> None:
        """The same from the sums that :meth:`learn_from` takes."""
        weights, scatter, factor = self._posterior(by_features, by_numbers)
        root = np.linalg.cholesky(np.linalg.inv(scatter)) @ _bartlett(self._n_rows + self._firm, len(scatter), rng)
        self.precision = root @ root.T
        noise = np.linalg.solve(factor.T, rng.normal(size=weights.shape))
        self.weights = weights + noise @ np.linalg.inv(root)
        self.strength = rng.gamma(1 + self._n_penalized / 2) / (0.1 + self._roughness() / 2)

    @property
    def _firm(self) -> int:
        return self.weights.shape[1] + 2

    @property
    def _n_penalized(self) -> int:
        return max(1, (len(self.weights) - 1) * self.weights.shape[1])

    def _roughness(self) -> float:
        """Return the squared size of the weights but for the intercept, in standard deviations of the rows."""
        return float(((self.weights[1:] @ self.precision) * self.weights[1:]).sum())

    def _posterior(self, by_features: Floats, by_numbers: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the mean of the weights, the scatter of the rows around it, a root of the weights' precision."""
        ridge = np.full(len(self.weights), self.strength)
        ridge[0] = LOOSE
        precision = self._gram + np.diag(ridge)
        weights = np.asarray(np.linalg.solve(precision, by_features), np.float64)
        # What the weights explain and what they cost: two of three such products cancel.
        scatter = by_numbers - 0.5 * (by_features.T @ weights + weights.T @ by_features)
        scatter += FIRMNESS * self._firm * np.eye(len(scatter))
        return weights, np.asarray(scatter), np.asarray(np.linalg.cholesky(precision), np.float64)


class SummedHierarchy(Hierarchy):
    """The same where rows and features lie elsewhere: it knows how many there are and the sum of f f'."""

    def __init__(self, n_rows: int, gram: Floats, n_columns: int, n_biases: int) -> None:
        self._begin(n_rows, gram, n_columns, n_biases)


def padded(rows: npt.NDArray[Any], stride: int) -> npt.NDArray[np.float32]:
    """Return rows in single precision with zeros up to the stride."""
    wide = np.zeros((len(rows), stride), np.float32)
    wide[:, : rows.shape[1]] = rows
    return wide


def _bartlett(freedom: int, size: int, rng: np.random.Generator) -> Floats:
    """Return a random lower triangle *T* for which *TT'* has a Wishart distribution around the identity."""
    lower = np.tril(rng.normal(size=(size, size)), -1)
    lower[np.diag_indices(size)] = np.sqrt(rng.chisquare(freedom - np.arange(size)))
    return lower
