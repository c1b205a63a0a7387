"""One number that makes probabilities bolder or more cautious."""

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import ParameterError
from starcast.metrics import nll
from starcast.recalibration import log_probs


def temper(distribution: Distribution, temperature: float) -> Distribution:
    r"""Return the distribution with its logits divided by a temperature.

    .. math:: p_s' \propto p_s^{1/T}

    Above 1 it grows cautious, below 1 bold; modes stay where they are.

    >>> temper(Distribution([[0.8, 0.2]], [1, 2]), 2.0).probs.round(3).tolist()
    [[0.667, 0.333]]
    """
    if not isinstance(temperature, (int, float, np.number)) or not 0 < temperature < np.inf:
        raise ParameterError(f"temperature must be a finite number above zero, got {temperature!r}.")
    logits = log_probs(distribution.probs) / float(temperature)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Distribution.trusted(weights / weights.sum(axis=1, keepdims=True), distribution.scores)


def fit_temperature(truth: npt.ArrayLike, distribution: Distribution) -> float:
    """Return the temperature with the lowest log-loss, found by golden-section search between 1/8 and 8.

    The log-loss is convex in 1/T, so the search cannot miss it.

    >>> answer = Distribution([[0.9, 0.1]] * 10, [1, 2])
    >>> sharp = temper(answer, fit_temperature([1] * 6 + [2] * 4, answer))
    >>> sharp.probs[0].round(2).tolist()
    [0.6, 0.4]
    """
    golden = (np.sqrt(5) - 1) / 2
    low, high = np.log(1 / 8), np.log(8)

    def loss(log_temperature: float) -> float:
        return nll(truth, temper(distribution, float(np.exp(log_temperature))))

    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 1e-4:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = loss(right)
    return float(np.exp((low + high) / 2))
