"""Who rated what, whatever the score: the company that users and items keep, in a few numbers each."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.kernels import Side, fast
from starcast.models.tall import STEP, cross, times

Floats = npt.NDArray[np.float64]

EXTRA = 8  # columns beyond those asked for, and
TURNS = 6  # products with the table and its transpose: together they settle the leading singular vectors
# What columns of length one are summed up in, by row and all rows: fine enough to tell directions from rounding.
FINE, FINEST = 2.0**-40, 2.0**-50


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
    V = random_columns(n_items, width)
    for _ in range(TURNS):
        V = _orthogonal(_product(items, users, _product(users, items, V, n_threads), n_threads))
    AV = _product(users, items, V, n_threads)
    sigma, rotation = singular_values(cross(AV, AV, FINEST))
    U, V = times(AV, rotation) / sigma, times(V, rotation)
    user_counts, item_counts = np.diff(users.start), np.diff(items.start)
    return Company(load(U, sigma, user_counts, n_items, n_features), load(V, sigma, item_counts, n_users, n_features))


def random_columns(n: int, width: int) -> Floats:
    """Return where the search begins: columns that are at most about one long."""
    return np.asarray(np.random.default_rng(0).normal(size=(n, width)) / 2.0 ** np.ceil(np.log2(n) / 2))


def singular_values(gram: Floats) -> tuple[Floats, Floats]:
    """Return the singular values of a matrix, given its small Gram matrix, and what turns its columns accordingly."""
    squared, rotation = np.linalg.eigh(gram)
    order = np.argsort(-squared)[: int((squared > 1e-12 * squared[-1]).sum())]
    return np.sqrt(squared[order]), rotation[:, order]


def load(
    vectors: Floats, sigma: Floats, counts: npt.NDArray[np.int64], n_others: int, n_features: int
) -> npt.NDArray[np.float32]:
    """Return the loadings of rows with so many ratings from their singular vectors."""
    kept = min(n_features, len(sigma))
    loaded = np.zeros((len(vectors), n_features), np.float32)
    loaded[:, :kept] = np.sqrt(n_others) * scale_of(counts)[:, None] * vectors[:, :kept] / sigma[:kept]
    return loaded


def describe(side: Side, loadings: npt.NDArray[np.float32]) -> Floats:
    """Return the features of rows with the given ratings: one, how many they are, and the company that they keep."""
    counts = np.diff(side.start)
    return features_of(counts, gather(side, scale_of(counts), np.ones(len(loadings)), loadings.astype(np.float64)))


def features_of(counts: npt.NDArray[np.int64], company: Floats) -> Floats:
    """Return the features of rows with so many ratings, which keep such company."""
    features = np.empty((len(counts), 2 + company.shape[1]))
    features[:, 0] = 1.0
    features[:, 1] = np.log1p(counts) / 3 - 1  # from -1 to about 1
    features[:, 2:] = company
    return features


def gather(
    side: Side, weight: Floats, other_weight: Floats, X: Floats, n_threads: int = 1, step: float = STEP
) -> Floats:
    """Return for each row the sum over its ratings of the others' weighted rows of X, on a grid, weighted."""
    out = np.empty((len(side.start) - 1, X.shape[1]))
    fast.gather_company(side, weight, other_weight, np.ascontiguousarray(X), step, out, n_threads)
    return out


def _product(side: Side, other: Side, X: Floats, n_threads: int) -> Floats:
    return gather(side, scale_of(np.diff(side.start)), scale_of(np.diff(other.start)), X, n_threads, FINE)


def _orthogonal(X: Floats) -> Floats:
    rotation, lengths = straighten(cross(X, X, FINEST))
    return np.asarray(times(X, rotation) * lengths)


def straighten(gram: Floats) -> tuple[Floats, Floats]:
    """Return what turns and what scales columns with the given Gram matrix to make them orthonormal: directions that it
    cannot tell from rounding come out as zeros."""
    length, rotation = np.linalg.eigh(gram)
    good = length > 1e-12 * length[-1]
    return rotation, np.where(good, 1 / np.sqrt(np.where(good, length, 1)), 0)


def scale_of(counts: npt.NDArray[np.int64]) -> Floats:
    """Return one over the root of how many ratings rows have."""
    return np.asarray(1 / np.sqrt(np.maximum(counts, 1)))
