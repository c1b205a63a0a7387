"""What is gained by staying silent: error against coverage."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import choose
from starcast.metrics.probability import true_ratings

Floats = npt.NDArray[np.float64]


class RiskCoverage(NamedTuple):
    """The mean risk of the most reliable predictions, for every number of them that may be kept."""

    coverage: Floats
    risk: Floats


def coverage(distribution: Distribution, threshold: float) -> float:
    """Return the share of pairs that are reliable enough.

    >>> coverage(Distribution([[0.9, 0.1], [0.5, 0.5]], [1, 2]), 0.6)
    0.5
    """
    return float(distribution.keep(threshold).mean()) if len(distribution) else float("nan")


def risk_coverage(truth: npt.ArrayLike, distribution: Distribution, risk: str = "wrong") -> RiskCoverage:
    """Return the risk-coverage curve, the most reliable predictions kept first.

    `risk` is ``"wrong"`` (0 if the mode is the rating, else 1) or ``"absolute"`` (the distance of the median). Pairs
    with the same reliability share their mean risk, since no threshold can part them.
    """
    choose("risk", risk, ["wrong", "absolute"])
    values = true_ratings(truth, distribution)
    loss = (distribution.mode() != values).astype(float) if risk == "wrong" else np.abs(distribution.median() - values)
    level, place = np.unique(-distribution.reliability(), return_inverse=True)
    shared = np.bincount(place, loss, len(level)) / np.maximum(np.bincount(place, minlength=len(level)), 1)
    kept = np.arange(1, len(values) + 1)
    return RiskCoverage(kept / max(len(values), 1), np.cumsum(shared[np.sort(place)]) / kept)


def aurc(truth: npt.ArrayLike, distribution: Distribution, risk: str = "wrong") -> float:
    """Return the area under the risk-coverage curve: the risk averaged over all coverages; smaller is better.

    >>> round(aurc([1, 2], Distribution([[0.9, 0.1], [0.6, 0.4]], [1, 2])), 6)
    0.25
    """
    curve = risk_coverage(truth, distribution, risk)
    return float(curve.risk.mean()) if len(curve.risk) else float("nan")
