"""How far predictions lie from the ratings. Withheld predictions (NaN) do not count; with none left it is NaN."""

import numpy as np
import numpy.typing as npt

from starcast.errors import DataError


def mae(truth: npt.ArrayLike, prediction: npt.ArrayLike) -> float:
    """Return the mean absolute error.

    >>> mae([5, 3, 1], [4, 3, float("nan")])
    0.5
    """
    return _mean(np.abs(_errors(truth, prediction)))


def rmse(truth: npt.ArrayLike, prediction: npt.ArrayLike) -> float:
    """Return the root of the mean squared error.

    >>> rmse([5, 3], [3, 3]) ** 2
    2.0000000000000004
    """
    return float(np.sqrt(_mean(_errors(truth, prediction) ** 2)))


def accuracy(truth: npt.ArrayLike, prediction: npt.ArrayLike) -> float:
    """Return the share of predictions that are the rating exactly.

    >>> accuracy([5, 3], [4, 3])
    0.5
    """
    return _mean((_errors(truth, prediction) == 0).astype(np.float64))


def _errors(truth: npt.ArrayLike, prediction: npt.ArrayLike) -> npt.NDArray[np.float64]:
    wanted, given = np.asarray(truth, np.float64), np.asarray(prediction, np.float64)
    if wanted.shape != given.shape:
        raise DataError(f"truth and prediction must have one shape, got {wanted.shape} and {given.shape}.")
    return (given - wanted)[~np.isnan(given)]


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
