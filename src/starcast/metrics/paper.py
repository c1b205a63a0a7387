"""The four quality measures of the paper at a threshold, as the program behind its figures computes them.

A measure is taken user by user over the predictions with a reliability of at least θ, then averaged over the users
for whom it is defined. Two rules exist for a threshold at which no user is left: ``empty="undefined"`` gives NaN,
``empty="zero"`` gives an error, an accuracy and a precision of 0, as the program that made the test curves does, so
that its 1-MAE is 1.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DataError, ParameterError, choose
from starcast.ratings import Ratings

Floats = npt.NDArray[np.float64]
PAPER_MEASURES = ("coverage", "1-MAE", "accuracy", "mAP")
PAPER_THRESHOLDS = (0.0, 0.05, *(k / 20 for k in range(3, 20)))  # 0.10 is missing in the published curves, too


def paper_measures(
    test: Ratings,
    distribution: Distribution,
    thresholds: Sequence[float] = PAPER_THRESHOLDS,
    *,
    relevant: float | None = None,
    n: int = 10,
    empty: str = "undefined",
    hitless: str = "dropped",
    point: npt.ArrayLike | None = None,
) -> dict[str, Floats]:
    """Return coverage, 1-MAE, accuracy and mAP, each an array with one value per threshold.

    Parameters
    ----------
    test : Ratings
        The ratings to be predicted.
    distribution : Distribution
        One row per rating of `test`.
    relevant : float, optional
        The least rating of a relevant item; by default the first score in the upper 30% of the scale.
    n : int
        The length of the list of which mAP takes the precision.
    empty : {"undefined", "zero"}
        What stands where no user is left.
    hitless : {"dropped", "zero"}
        What becomes, in mAP, of users whose list holds no relevant item: left out as in the paper, or counted as 0.
    point : array, optional
        The predictions, NaN where there is none; by default the modes.
    """
    choose("empty", empty, ["undefined", "zero"])
    choose("hitless", hitless, ["dropped", "zero"])
    if len(distribution) != len(test):
        raise DataError(f"distribution must have a row per rating, got {len(distribution):,} for {len(test):,}.")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ParameterError(f"n must be a whole number of at least 1, got {n!r}.")
    prediction = distribution.mode() if point is None else np.asarray(point, np.float64)
    if prediction.shape != (len(test),):
        raise DataError(f"point must have a prediction per rating, got {prediction.shape} for {len(test):,}.")
    users = _Users(test, distribution, relevant, n, prediction)
    users.hitless = 0.0 if hitless == "zero" else np.nan
    nothing = 0.0 if empty == "zero" else np.nan
    rows = [users.measure(distribution.keep(t), nothing) for t in thresholds]
    return {name: np.array([row[name] for row in rows]) for name in PAPER_MEASURES}


def paper_measures_by_user(
    test: Ratings,
    distribution: Distribution,
    thresholds: Sequence[float],
    *,
    relevant: float | None = None,
    n: int = 10,
    point: Floats | None = None,
) -> list[dict[str, Floats]]:
    """Return, for each threshold, the four measures as arrays with one value per user, NaN where it is undefined.

    `point` is what is predicted, the mode unless given.
    """
    users = _Users(test, distribution, relevant, n, distribution.mode() if point is None else point)
    found = (users.by_user(distribution.keep(threshold)) for threshold in thresholds)
    return [{"1-MAE": 1 - values.pop("MAE")} | values for values in found]


def paper_measure_by_copies(
    test: Ratings,
    distribution: Distribution,
    name: str,
    thresholds: Sequence[float],
    *,
    relevant: float | None = None,
    n: int = 10,
    point: Floats | None = None,
) -> Callable[[npt.NDArray[np.int64]], Floats]:
    """Return a function from how often each item counts to the named measure, an array of users and thresholds.

    An item that counts twice stands twice in every list, one that does not count in none.
    """
    users = _Users(test, distribution, relevant, n, distribution.mode() if point is None else point)
    kept = [distribution.keep(threshold)[users.order] & users.given for threshold in thresholds]
    item = test.item[users.order]
    return lambda copies: np.array([users.of_copies(name, keep, copies[item]) for keep in kept]).T


def relevant_from(scores: Floats) -> float:
    """Return the least score of a relevant item: the first in the upper 30% of the scale.

    >>> relevant_from(np.arange(1.0, 6.0)), relevant_from(np.arange(0.5, 4.5, 0.5))
    (4.0, 3.0)
    """
    bound = scores[0] + 0.7 * (scores[-1] - scores[0])
    return float(scores[scores >= bound - 1e-9][0])


class _Users:
    """The test ratings in the order in which every user's list ranks them, ready for one threshold after the other."""

    hitless = np.nan  # the average precision of a user whose list holds no relevant item

    def __init__(
        self, test: Ratings, distribution: Distribution, relevant: float | None, n: int, prediction: Floats
    ) -> None:
        # By user, then mode and mean descending, then position: as the paper recommends.
        self.order = np.lexsort((test.item, -distribution.mean(), -prediction, test.user))
        self.user = test.user[self.order]
        self.n_users = len(test.users)
        n_ratings = np.bincount(self.user, minlength=self.n_users)
        self.n_ratings = np.where(n_ratings > 0, n_ratings, np.nan)  # a name without a rating is no test user
        error = np.abs(prediction - test.values)[self.order]
        self.given = ~np.isnan(error)
        error = np.where(self.given, error, 0)
        scores = distribution.scores  # the model's scale: a test table may lack its ends
        self.error = error / (scores[-1] - scores[0])
        self.right = (error == 0).astype(np.float64)
        self.relevant = test.values[self.order] >= (relevant_from(scores) if relevant is None else relevant)
        self.n = n

    def measure(self, keep: npt.NDArray[np.bool_], nothing: float) -> dict[str, float]:
        means = {name: _mean(values, nothing) for name, values in self.by_user(keep).items()}
        return {"1-MAE" if name == "MAE" else name: 1 - x if name == "MAE" else x for name, x in means.items()}

    def by_user(self, keep: npt.NDArray[np.bool_]) -> dict[str, Floats]:
        """Return each measure user by user, NaN where it is undefined."""
        kept = keep[self.order] & self.given
        count = self._per_user(kept)
        defined = np.where(count > 0, count, np.nan)
        return {
            "coverage": count / self.n_ratings,
            "MAE": self._per_user(self.error * kept) / defined,
            "accuracy": self._per_user(self.right * kept) / defined,
            "mAP": self._average_precision(np.flatnonzero(kept)),
        }

    def of_copies(self, name: str, kept: npt.NDArray[np.bool_], copies: npt.NDArray[np.int64]) -> Floats:
        """Return one measure user by user where each row counts `copies` times."""
        if name == "mAP":
            return self._average_precision(np.repeat(np.arange(len(kept)), kept * copies))
        weight = kept * copies
        good, out_of = {
            "coverage": (weight, copies),
            "1-MAE": (weight * (1 - self.error), weight),
            "accuracy": (weight * self.right, weight),
        }[name]
        count = self._per_user(out_of)
        return np.asarray(self._per_user(good) / np.where(count > 0, count, np.nan))

    def _average_precision(self, rows: npt.NDArray[np.int64]) -> Floats:
        """Return each user's average precision of the list that `rows` make; NaN for users without a list."""
        user = self.user[rows]
        listed = np.bincount(user, minlength=self.n_users)
        rank = np.arange(1, len(rows) + 1) - _before(listed)[user]
        hit = self.relevant[rows] & (rank <= self.n)
        hits = np.bincount(user, hit, self.n_users)
        precision = (np.cumsum(hit) - _before(hits)[user]) / rank
        found = np.bincount(user, precision * hit, self.n_users) / np.where(hits > 0, hits, np.nan)
        return np.where((hits == 0) & (listed > 0), self.hitless, found)

    def _per_user(self, values: npt.NDArray[np.generic]) -> Floats:
        return np.bincount(self.user, values, self.n_users).astype(np.float64)


def _before(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return, for each user, how many rows the users before have."""
    return np.asarray(np.cumsum(counts) - counts, np.int64)


def _mean(values: Floats, nothing: float) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else nothing
