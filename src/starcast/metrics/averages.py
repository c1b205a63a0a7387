"""The paper's averages over all thresholds, by which its search compares settings."""

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import choose
from starcast.ratings import Ratings

Floats = npt.NDArray[np.float64]


def paper_averages(
    test: Ratings,
    distribution: Distribution,
    *,
    n: int = 20,
    empty: str = "undefined",
    point: npt.ArrayLike | None = None,
) -> dict[str, float]:
    r"""Return 1-MAE and coverage averaged over the thresholds k/(n-1), as the paper's search does.

    .. math:: \frac{2}{n(n+1)} \sum_{k=0}^{n-1} (n-k)\, x_k

    with :math:`x_k` the measure at threshold k. With ``empty="undefined"`` a threshold at which no user is left adds
    nothing to 1-MAE; with ``empty="zero"`` it counts as no error. All thresholds are taken in one pass.
    """
    choose("empty", empty, ["undefined", "zero"])
    prediction = distribution.mode() if point is None else np.asarray(point, np.float64)
    error = np.abs(prediction - test.values) / (test.scores[-1] - test.scores[0])
    reliability = distribution.reliability()
    given = ~(np.isnan(error) | np.isnan(reliability))
    reached = np.searchsorted(np.arange(n) / (n - 1), reliability[given], side="right")  # how many thresholds
    cell = test.user[given] * (n + 1) + reached
    shape = (len(test.users), n + 1)

    def at_least(weights: Floats | None) -> Floats:
        """Sum over the ratings of each user that reach each threshold."""
        sums = np.bincount(cell, weights, shape[0] * shape[1]).reshape(shape)
        return np.asarray(sums[:, :0:-1].cumsum(axis=1)[:, ::-1], np.float64)

    count, errors = at_least(None), at_least(error[given])
    n_ratings = np.bincount(test.user, minlength=shape[0])
    tested = n_ratings > 0
    coverage = (count[tested] / n_ratings[tested, None]).mean(axis=0)
    users = (count > 0).sum(axis=0)
    mae = np.divide(errors, count, out=np.zeros_like(errors), where=count > 0).sum(axis=0) / np.maximum(users, 1)
    near = np.where(users > 0, 1 - mae, 1.0 if empty == "zero" else 0.0)
    weight = (n - np.arange(n)) / (n * (n + 1) / 2)
    return {"1-MAE": float(near @ weight), "coverage": float(coverage @ weight)}
