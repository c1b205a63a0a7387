"""Evidence that a mean loss is low: p-values that hold for samples of any size, and tests of many in a row."""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def binomial_p_value(losses: Floats, risk: float) -> float:
    r"""Return the p-value of losses of 0 and 1 against "the mean is `risk` or more": an exact binomial tail.

    .. math:: P(\mathrm{Bin}(n, \text{risk}) \le k)

    with *k* the sum of the losses.

    >>> round(binomial_p_value(np.array([0.0, 0.0, 1.0]), 0.5), 6)
    0.5
    """
    n, k = len(losses), round(float(losses.sum()))
    if k >= n or risk >= 1 or risk <= 0:
        return 1.0 if k >= n or risk <= 0 else 0.0
    log_last = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    log_last += k * math.log(risk) + (n - k) * math.log1p(-risk)
    down = np.arange(k, 0, -1.0)  # from P(X = k) down to P(X = 0)
    steps = np.log(down / (n - down + 1)) + math.log1p(-risk) - math.log(risk)
    return min(1.0, float(np.exp(log_last + np.concatenate([[0.0], np.cumsum(steps)])).sum()))


def betting_p_value(losses: Floats, risk: float, level: float = 0.1) -> float:
    r"""Return the p-value of losses between 0 and 1, in random order, against "the mean is `risk` or more".

    A gambler who bets on low losses, each time a share of the capital that the losses before suggest,

    .. math:: K_i = K_{i-1} \, (1 - \nu_i (L_i - \text{risk})),

    does not get rich where the mean is `risk` or more: the chance that the capital ever reaches :math:`1/p` is at most
    *p*. The shares are those of Waudby-Smith and Ramdas (2023), which learn the variance; they are best at `level`.

    >>> betting_p_value(np.zeros(100), 0.1) < 0.001, betting_p_value(np.ones(100), 0.1)
    (True, 1.0)
    """
    n = len(losses)
    if n == 0:
        return 1.0
    count = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(losses)) / (1 + count)
    variance = (0.25 + np.cumsum((losses - mean) ** 2)) / (1 + count)
    before = np.concatenate([[0.25], variance[:-1]])
    share = np.minimum(1, np.sqrt(2 * math.log(1 / level) / (n * before)))
    log_capital = np.cumsum(np.log1p(-share * (losses - risk)))
    return float(np.exp(-max(0.0, log_capital.max())))


def reject_in_turn(p_values: npt.ArrayLike, shares: npt.ArrayLike) -> Floats:
    """Return the level at which each hypothesis is rejected, 0 where it is not, by the fallback procedure.

    The hypotheses have an order that was fixed before the data were seen. Each has a share of the level, and inherits
    the level of the one before if that was rejected. The chance that any true hypothesis is rejected is at most the sum
    of the shares, whatever the dependence (Wiens and Dmitrienko 2005). All on the first is fixed-sequence testing.

    >>> reject_in_turn([0.04, 0.08, 0.2, 0.04], [0.05, 0.05, 0, 0]).tolist()
    [0.05, 0.1, 0.0, 0.0]
    """
    p_values, shares = np.asarray(p_values), np.asarray(shares)
    levels = np.zeros(len(p_values))
    inherited = 0.0
    for at, (p_value, share) in enumerate(zip(p_values, shares, strict=True)):
        level = inherited + share
        inherited = levels[at] = level if level > 0 and p_value <= level else 0.0
    return levels
