"""Whether a reliability of 60% is right six times in ten."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import ParameterError
from starcast.metrics.probability import true_ratings

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReliabilityCurve:
    """One entry per bin of the reliability; NaN where a bin is empty."""

    reliability: Floats
    accuracy: Floats
    count: npt.NDArray[np.int64]


def reliability_curve(truth: npt.ArrayLike, distribution: Distribution, n_bins: int = 15) -> ReliabilityCurve:
    """Return the mean reliability and the accuracy of the mode in equal bins of the reliability."""
    if not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
        raise ParameterError(f"n_bins must be a whole number of at least 1, got {n_bins!r}.")
    reliability = distribution.reliability().astype(np.float64)
    right = distribution.mode() == true_ratings(truth, distribution)
    place = np.minimum((reliability * n_bins).astype(int), n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    nonzero = np.where(count > 0, count, np.nan)
    return ReliabilityCurve(
        np.bincount(place, reliability, n_bins) / nonzero, np.bincount(place, right, n_bins) / nonzero, count
    )


def ece(truth: npt.ArrayLike, distribution: Distribution, n_bins: int = 15) -> float:
    """Return the expected calibration error: the gap between reliability and accuracy, averaged over the ratings.

    >>> ece([1, 2], Distribution([[0.5, 0.5], [0.5, 0.5]], [1, 2]))
    0.0
    """
    curve = reliability_curve(truth, distribution, n_bins)
    if curve.count.sum() == 0:
        return float("nan")
    return float(np.nansum(np.abs(curve.reliability - curve.accuracy) * curve.count) / curve.count.sum())
