"""Who rated what, whatever the score: the company that users and items keep, in a few numbers each."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.kernels import Side, fast
from starcast.models.tall import cross, times

Floats = npt.NDArray[np.float64]

EXTRA = 8  # columns beyond those asked for, and
TURNS = 6  # products with the table and its transpose: together they settle the leading singular vectors


class Company(NamedTuple):
    """What a rating of an item adds to the description of its user, and the other way round."""

    users: npt.NDArray[np.float32]  # (users, features)
    items: npt.NDArray[np.float32]


def find_company(users: Side, items: Side, n_features: int, n_threads: int = 1) -> Company:
    r"""Return the leading singular vectors of :math:`A_{ui} = 1/\sqrt{n_u n_i}` where *u* rated *i*, as loadings.

    They are scaled so that :func:`describe` gives every feature a mean square of one over the rows.
    """
    n_users, n_items = len(users.start) - 1, len(items.start) - 1
    if n_features == 0:
        return Company(np.zeros((n_users, 0), np.float32), np.zeros((n_items, 0), np.float32))
    width = min(n_features + EXTRA, n_users, n_items)
    V = np.random.default_rng(0).normal(size=(n_items, width))
    for _ in range(TURNS):
        V = _orthogonal(_product(items, users, _product(users, items, V, n_threads), n_threads))
    AV = _product(users, items, V, n_threads)
    squared, rotation = np.linalg.eigh(cross(AV, AV))
    order = np.argsort(-squared)[: int((squared > 1e-12 * squared[-1]).sum())]
    sigma = np.sqrt(squared[order])
    U, V = times(AV, rotation[:, order]) / sigma, times(V, rotation[:, order])
    kept = min(n_features, len(sigma))
    loadings = []
    for side, vectors, n in ((users, U, n_items), (items, V, n_users)):
        loaded = np.zeros((len(vectors), n_features), np.float32)
        loaded[:, :kept] = np.sqrt(n) * _scale(side)[:, None] * vectors[:, :kept] / sigma[:kept]
        loadings.append(loaded)
    return Company(*loadings)


def describe(side: Side, loadings: npt.NDArray[np.float32]) -> Floats:
    """Return the features of rows with the given ratings: one, how many they are, and the company that they keep."""
    features = np.empty((len(side.start) - 1, 2 + loadings.shape[1]))
    features[:, 0] = 1.0
    features[:, 1] = np.log1p(np.diff(side.start)) / 3 - 1  # from -1 to about 1
    gathered = np.empty((len(features), loadings.shape[1]))
    fast.gather_company(side, _scale(side), np.ones(len(loadings)), loadings.astype(np.float64), gathered, 1)
    features[:, 2:] = gathered
    return features


def _product(side: Side, other: Side, X: Floats, n_threads: int) -> Floats:
    out = np.empty((len(side.start) - 1, X.shape[1]))
    fast.gather_company(side, _scale(side), _scale(other), np.ascontiguousarray(X), out, n_threads)
    return out


def _orthogonal(X: Floats) -> Floats:
    """Return an orthonormal basis of the columns, by way of their small Gram matrix: directions that it cannot tell
    from rounding come out as zeros."""
    length, rotation = np.linalg.eigh(cross(X, X))
    good = length > 1e-12 * length[-1]
    return np.asarray(times(X, rotation) * np.where(good, 1 / np.sqrt(np.where(good, length, 1)), 0))


def _scale(side: Side) -> Floats:
    return np.asarray(1 / np.sqrt(np.maximum(np.diff(side.start), 1)))
