"""How far a figure hangs on the users that happened to be asked: measures over resampled users, many at a time.

A resample draws as many users as there are, with replacement, and takes all ratings of each. It is a weight per user,
so that what a measure needs is added up user by user once, and a block of resamples is a matrix product.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DataError, ParameterError
from starcast.metrics import paper_measures_by_user
from starcast.metrics.probability import score_codes
from starcast.objectives import OVERALL, cumulate, parse
from starcast.ratings import Ratings

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]  # weights (resamples, users) → a value per resample
BLOCK = 1 << 22  # weights that are held at once: 32 megabytes
BINS = 15  # of the reliability, in ece


@dataclass(frozen=True)
class Resampled:
    """A measure on the test ratings as they are, and on every resample of their users."""

    value: float
    values: Floats


def resample(
    test: Ratings,
    answers: Mapping[str, Distribution],
    measures: Sequence[str],
    *,
    n_resamples: int = 1000,
    relevant: float | None = None,
    random_state: int = 0,
) -> dict[str, dict[str, Resampled]]:
    """Return measure → name of the answer → values, over the same resamples for all.

    >>> from starcast import GlobalFrequency, ItemFrequency, make_ratings
    >>> ratings, _ = make_ratings(random_state=0)
    >>> answers = {m: model.fit(ratings).predict_proba(ratings.users[ratings.user], ratings.items[ratings.item])
    ...            for m, model in {"global": GlobalFrequency(), "item": ItemFrequency()}.items()}
    >>> nll = resample(ratings, answers, ["nll"], n_resamples=50)["nll"]
    >>> bool((nll["item"].values < nll["global"].values).all())
    True
    """
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, (int, np.integer)) or n_resamples < 1:
        raise ParameterError(f"n_resamples must be a whole number of at least 1, got {n_resamples!r}.")
    if len(test) == 0:
        raise DataError("test must hold at least one rating, got none.")
    statistics = {
        (name, label): make_statistic(name, test, answer, relevant)
        for name in measures
        for label, answer in answers.items()
    }
    here = {key: float(statistic(np.ones((1, len(test.users))))[0]) for key, statistic in statistics.items()}
    blocks: dict[tuple[str, str], list[Floats]] = {key: [] for key in statistics}
    for weights in _weights(test, int(n_resamples), random_state):
        for key, statistic in statistics.items():
            blocks[key].append(statistic(weights))
    found: dict[str, dict[str, Resampled]] = {name: {} for name in measures}
    for (name, label), parts in blocks.items():
        found[name][label] = Resampled(here[name, label], np.concatenate(parts))
    return found


def _weights(test: Ratings, n_resamples: int, random_state: int) -> Iterator[Floats]:
    """Yield blocks of resamples: how often each user was drawn, a row per resample."""
    rng = np.random.default_rng(random_state)
    n_users = len(test.users)
    present = np.unique(test.user)  # a name without a rating is no test user
    size = max(1, BLOCK // n_users)
    for begin in range(0, n_resamples, size):
        rows = [
            np.bincount(present[rng.integers(0, len(present), len(present))], minlength=n_users)
            for _ in range(begin, min(begin + size, n_resamples))
        ]
        yield np.array(rows, np.float64)


def make_statistic(
    name: str, test: Ratings, answer: Distribution, relevant: float | None = None, point: Floats | None = None
) -> Statistic:
    """Return a function from weights of users to the values of the named measure; the paper's may be of any `point`."""
    base, thresholds = parse(name)
    if base not in OVERALL:
        by_threshold = paper_measures_by_user(test, answer, thresholds, relevant=relevant, point=point)
        return _averaged_by_user(np.array([found[base] for found in by_threshold]).T)
    if base == "ece":
        return _gap(test, answer)
    if base.startswith("aurc"):
        return _area(test, answer, "wrong" if base == "aurc" else "absolute")
    return _averaged_by_rating(base, test, answer)


def _averaged_by_rating(name: str, test: Ratings, answer: Distribution) -> Statistic:
    loss = _losses(name, test, answer)
    is_infinite = np.isinf(loss)  # 0 × infinity is undefined, so these are counted instead of added up
    sums = _by_user(test, np.where(is_infinite, 0, loss), np.ones(len(test)), is_infinite)

    def statistic(weights: Floats) -> Floats:
        total, count, infinite = (weights @ sums).T
        mean = np.where(infinite > 0, np.inf, total / count)
        return np.sqrt(mean) if name == "rmse" else mean

    return statistic


def _losses(name: str, test: Ratings, answer: Distribution) -> Floats:
    code = score_codes(test.values, answer)
    if name == "rmse":
        return np.asarray((answer.mean() - test.values) ** 2)
    if name == "nll":
        with np.errstate(divide="ignore"):  # a rating that was called impossible costs infinity
            return np.asarray(-np.log(answer.probs[np.arange(len(code)), code].astype(np.float64)))
    off = answer.probs - np.eye(len(answer.scores))[code]
    if name == "brier":
        return np.asarray((off**2).sum(axis=1), np.float64)
    return np.asarray((off.cumsum(axis=1)[:, :-1] ** 2).sum(axis=1) / (len(answer.scores) - 1), np.float64)


def _averaged_by_user(values: Floats) -> Statistic:  # users, thresholds
    defined = ~np.isnan(values)
    values = np.where(defined, values, 0)

    def statistic(weights: Floats) -> Floats:
        total, count = weights @ values, weights @ defined
        mean = total / np.where(count > 0, count, np.nan)
        return np.asarray(cumulate(mean) if mean.shape[1] > 1 else mean[:, 0])

    return statistic


def _gap(test: Ratings, answer: Distribution) -> Statistic:
    reliability = answer.reliability().astype(np.float64)
    right = (answer.mode() == test.values).astype(np.float64)
    cell = test.user * BINS + np.minimum((reliability * BINS).astype(int), BINS - 1)
    gaps = np.bincount(cell, reliability - right, len(test.users) * BINS).reshape(-1, BINS)
    n_ratings = np.bincount(test.user, minlength=len(test.users))
    return lambda weights: np.abs(weights @ gaps).sum(axis=1) / (weights @ n_ratings)


def _area(test: Ratings, answer: Distribution, risk: str) -> Statistic:
    r"""Return the area under the risk-coverage curve: within a level of reliability, where :math:`K` ratings with the
    risk :math:`C` lie before and the mean risk is :math:`r`, the *j*-th rating adds
    :math:`(C + j r) / (K + j) = r + (C - K r) / (K + j)`, so that a level takes a difference of harmonic numbers.
    """
    reliability = answer.reliability()
    order = np.argsort(-reliability, kind="stable")
    level = -reliability[order]
    starts = np.flatnonzero(np.append(True, level[1:] != level[:-1]))
    user = test.user[order]
    far = np.abs(answer.median() - test.values) if risk == "absolute" else (answer.mode() != test.values) * 1.0
    loss = far[order]
    n_ratings = np.bincount(test.user, minlength=len(test.users))

    def statistic(weights: Floats) -> Floats:
        harmonic = np.append(0, np.cumsum(1 / np.arange(1, int((weights @ n_ratings).max()) + 1)))
        areas = np.empty(len(weights))
        for k, weight in enumerate(weights):
            each = weight[user]
            count = np.add.reduceat(each, starts)
            risks = np.add.reduceat(each * loss, starts)
            after, total = np.cumsum(count), np.cumsum(risks)
            mean = risks / np.where(count > 0, count, 1)
            steps = harmonic[after.astype(np.int64)] - harmonic[(after - count).astype(np.int64)]
            areas[k] = (risks + (total - risks - (after - count) * mean) * steps).sum() / after[-1]
        return areas

    return statistic


def _by_user(test: Ratings, *columns: npt.NDArray[np.generic]) -> Floats:
    n_users = len(test.users)
    return np.array([np.bincount(test.user, column, n_users) for column in columns], np.float64).T
