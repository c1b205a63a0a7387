"""How good the probabilities are: proper scores, smaller is better, lowest in expectation for the true distribution."""

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DataError


def nll(truth: npt.ArrayLike, distribution: Distribution) -> float:
    r"""Return the negative log-likelihood :math:`-\frac1n \sum \log p_{r}`, in nats a rating.

    >>> round(nll([2], Distribution([[0.5, 0.5]], [1, 2])), 6)
    0.693147
    """
    chosen = np.take_along_axis(distribution.probs, score_codes(truth, distribution)[:, None], axis=1)
    with np.errstate(divide="ignore"):  # a rating that was called impossible costs infinity
        return float(-np.log(chosen.astype(np.float64)).mean()) if len(chosen) else float("nan")


def brier(truth: npt.ArrayLike, distribution: Distribution) -> float:
    r"""Return the Brier score :math:`\frac1n \sum \sum_s (p_s - 1[r = s])^2`, from 0 to 2.

    >>> brier([2], Distribution([[0.5, 0.5]], [1, 2]))
    0.5
    """
    return _mean((distribution.probs - _one_hot(truth, distribution)) ** 2)


def rps(truth: npt.ArrayLike, distribution: Distribution) -> float:
    r"""Return the ranked probability score, which knows that 4 is nearer to 5 than 1 is; from 0 to 1.

    .. math:: \frac{1}{n (d - 1)} \sum \sum_{s} \Bigl(\sum_{t \le s} p_t - 1[r \le s]\Bigr)^2

    >>> rps([3, 3], Distribution([[0, 1, 0], [1, 0, 0]], [1, 2, 3]))
    0.75
    """
    below = (distribution.probs - _one_hot(truth, distribution)).cumsum(axis=1)
    return _mean(below[:, :-1] ** 2) / (len(distribution.scores) - 1)


def score_codes(truth: npt.ArrayLike, distribution: Distribution) -> npt.NDArray[np.intp]:
    """Return the place of each true rating on the scale of the distribution."""
    values = true_ratings(truth, distribution)
    codes = np.searchsorted(distribution.scores, values)
    off = distribution.scores[np.minimum(codes, len(distribution.scores) - 1)] != values
    if off.any():
        raise DataError(
            f"truth must be on the scale {distribution.scores.tolist()}, got {values[off][0]:g} "
            f"({int(off.sum()):,} such of {len(values):,})."
        )
    return codes


def true_ratings(truth: npt.ArrayLike, distribution: Distribution) -> npt.NDArray[np.float64]:
    """Return the true ratings as an array, one per pair."""
    values = np.asarray(truth, np.float64)
    if values.shape != (len(distribution),):
        raise DataError(f"truth must have a rating per pair, got {values.shape} for {len(distribution):,} pairs.")
    return values


def _one_hot(truth: npt.ArrayLike, distribution: Distribution) -> npt.NDArray[np.float64]:
    return np.eye(len(distribution.scores))[score_codes(truth, distribution)]


def _mean(squares: npt.NDArray[np.floating]) -> float:
    return float(squares.sum(axis=1, dtype=np.float64).mean()) if len(squares) else float("nan")
