"""Bootstrap intervals of measures and of paired differences, by resampling users, items or both.

A resample of users draws as many users as there are, with replacement, and takes all ratings of each: it is a weight
per user. A resample of both draws items as well, independently, and a rating counts the weight of its user times the
weight of its item (the pigeonhole bootstrap of Owen, 2007).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution, check_fraction
from starcast.errors import DataError, ParameterError, choose
from starcast.metrics.paper import paper_measure_by_copies, paper_measures_by_user
from starcast.metrics.probability import score_codes
from starcast.objectives import OVERALL, cumulate, parse
from starcast.ratings import Ratings
from starcast.split import make_generator

Floats = npt.NDArray[np.float64]
Key = TypeVar("Key")
UNITS = ("both", "user", "item")
BLOCK = 1 << 22  # weights that are held at once: 32 megabytes
BINS = 15  # of the reliability, in ece


class Statistic(Protocol):
    """Weights of users (resamples, users) and, where items are resampled too, of items (resamples, items) → values."""

    def __call__(self, users: Floats, items: Floats | None = None, /) -> Floats:
        """Return a value per resample."""
        ...


@dataclass(frozen=True)
class Resampled:
    """A measure on the test ratings as they are, and on every resample of them.

    `n_drawn` is the number of users or items that are drawn, the lesser if both are. One alone is always drawn: its
    resamples are all alike and tell nothing.
    """

    value: float
    values: Floats
    n_drawn: int = 2


def paired_difference(one: Resampled, other: Resampled, *, level: float = 0.95, best: str = "min") -> dict[str, Any]:
    """Return the difference of two measures on the same resamples, its interval, and whether it is clear.

    `low` to `high` holds the share `level` of the resampled differences, `better` is the share of them in which `one`
    is better (ties count half), and `clear` tells that the interval does not hold 0. Resamples in which the difference
    is undefined do not count. Fewer than ``2 / (1 - level)`` resamples, or those of a single user or item, make no
    difference clear. Intervals of the two measures by themselves do not tell this: both hang on the same
    ratings, and most of what moves one moves the other.

    Parameters
    ----------
    one, other : Resampled
        From one call of ``resample`` or :func:`resample_statistics`.
    best : {"min", "max"}
        Whether less or more of the measure is better.

    Examples
    --------
    >>> values = np.linspace(0.2, 0.8, 50)
    >>> one, other = Resampled(0.5, values), Resampled(0.6, values + 0.1)
    >>> found = paired_difference(one, other)
    >>> round(found["low"], 3), round(found["high"], 3), found["better"], found["clear"]
    (-0.1, -0.1, 1.0, True)
    """
    tail = (1 - check_fraction(level, "level")) / 2
    sign = 1 if choose("best", best, ["min", "max"]) == "max" else -1
    with np.errstate(invalid="ignore"):  # both infinite: undefined
        gaps = np.sort(one.values - other.values)
        difference = float(np.subtract(one.value, other.value))
    gaps = gaps[~np.isnan(gaps)]
    low = high = better = np.nan
    if len(gaps):  # order statistics: an interpolation between infinities would be undefined
        low, high = gaps[int(tail * (len(gaps) - 1))], gaps[-1 - int(tail * (len(gaps) - 1))]
        better = ((sign * gaps > 0) + 0.5 * (gaps == 0)).mean()
    enough = 2 * tail * len(gaps) > 2 - 1e-9 and min(one.n_drawn, other.n_drawn) > 1
    return {
        "value": one.value,
        "other_value": other.value,
        "difference": difference,
        "low": float(low),
        "high": float(high),
        "better": float(better),
        "clear": bool(enough and (low > 0 or high < 0)),
    }


def resample(
    test: Ratings,
    answers: Mapping[str, Distribution],
    measures: Sequence[str],
    *,
    unit: str = "both",
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
    statistics = {
        (name, label): make_statistic(name, test, answer, relevant)
        for name in measures
        for label, answer in answers.items()
    }
    values = resample_statistics(test, statistics, unit=unit, n_resamples=n_resamples, random_state=random_state)
    return {name: {label: values[name, label] for label in answers} for name in measures}


def resample_statistics(
    test: Ratings,
    statistics: Mapping[Key, Statistic],
    *,
    unit: str = "both",
    n_resamples: int = 1000,
    random_state: int = 0,
) -> dict[Key, Resampled]:
    """Return each statistic on the test ratings and on the same resamples of their users, items or both.

    Parameters
    ----------
    test : Ratings
        What the statistics are of; users and items without a test rating are not drawn.
    statistics : mapping of Statistic
        For example from ``make_statistic``.
    unit : {"both", "user", "item"}
        What is drawn. Ratings of one user are alike, and so are those of one item. With "user" the items are taken as
        given and the interval says what other users of the same kind would give; "both" asks for other items, too. It
        is conservative: the noise of single ratings, which is neither of the user nor of the item, counts up to three
        times in its variance (Owen, 2007).
    """
    choose("unit", unit, UNITS)
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, (int, np.integer)) or n_resamples < 1:
        raise ParameterError(f"n_resamples must be a whole number of at least 1, got {n_resamples!r}.")
    if len(test) == 0:
        raise DataError("test must hold at least one rating, got none.")
    once = np.ones((1, len(test.users)))
    here = {key: float(statistic(once)[0]) for key, statistic in statistics.items()}
    blocks: dict[Key, list[Floats]] = {key: [] for key in statistics}
    for users, items in _draw_weights(test, unit, int(n_resamples), random_state):
        for key, statistic in statistics.items():
            blocks[key].append(statistic(users) if items is None else statistic(users, items))
    drawn = {"user": [test.user], "item": [test.item], "both": [test.user, test.item]}[unit]
    n_drawn = min(len(np.unique(codes)) for codes in drawn)
    return {key: Resampled(here[key], np.concatenate(parts), n_drawn) for key, parts in blocks.items()}


def _draw_weights(
    test: Ratings, unit: str, n_resamples: int, random_state: int
) -> Iterator[tuple[Floats, Floats | None]]:
    """Yield blocks of resamples: how often each user, and each item unless only users are drawn, a row per resample."""
    rng = make_generator(random_state)
    n_users, n_items = len(test.users), len(test.items)
    size = max(1, BLOCK // (n_users + n_items))
    present = {"user": np.unique(test.user), "item": np.unique(test.item)}  # a name without a rating is not tested

    def draw(of: str, width: int, is_drawn: bool) -> Floats:
        if not is_drawn:
            return np.ones(width)
        some = present[of]
        return np.bincount(some[rng.integers(0, len(some), len(some))], minlength=width).astype(np.float64)

    for begin in range(0, n_resamples, size):
        users, items = [], []
        for _ in range(begin, min(begin + size, n_resamples)):
            users.append(draw("user", n_users, unit != "item"))
            items.append(draw("item", n_items, unit != "user"))
        yield np.array(users), None if unit == "user" else np.array(items)


def make_statistic(
    name: str, test: Ratings, answer: Distribution, relevant: float | None = None, point: Floats | None = None
) -> Statistic:
    """Return a function from weights to the values of the named measure; the paper's may be of any `point`."""
    base, thresholds = parse(name)
    if base not in OVERALL:
        return _averaged_by_user(base, test, answer, thresholds, relevant, point)
    if base == "ece":
        return _gap(test, answer)
    if base.startswith("aurc"):
        return _area(test, answer, "wrong" if base == "aurc" else "absolute")
    return _averaged_by_rating(base, test, answer)


def _averaged_by_rating(name: str, test: Ratings, answer: Distribution) -> Statistic:
    loss = _losses(name, test, answer)
    is_infinite = np.isinf(loss)  # 0 × infinity is undefined, so these are counted instead of added up
    columns = np.array([np.where(is_infinite, 0, loss), np.ones(len(test)), is_infinite], np.float64).T
    total_of = _totals(test, columns)

    def statistic(users: Floats, items: Floats | None = None) -> Floats:
        total, count, infinite = total_of(users, items).T
        mean = np.where(infinite > 0, np.inf, total / np.where(count > 0, count, np.nan))
        return np.sqrt(mean) if name == "rmse" else mean

    return statistic


def _totals(test: Ratings, columns: Floats) -> Callable[[Floats, Floats | None], Floats]:
    """Return a function from weights to the weighted sums of columns of the ratings, a row per resample."""
    by_user = np.array([np.bincount(test.user, column, len(test.users)) for column in columns.T]).T

    def totals(users: Floats, items: Floats | None) -> Floats:
        if items is None:
            return np.asarray(users @ by_user)
        return np.array([weight @ columns for weight in _rating_weights(test, users, items)])

    return totals


def _rating_weights(test: Ratings, users: Floats, items: Floats | None) -> Iterator[Floats]:
    """Yield the weight of every rating, resample after resample."""
    for k, user_weights in enumerate(users):
        yield user_weights[test.user] if items is None else user_weights[test.user] * items[k][test.item]


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


def _averaged_by_user(
    name: str,
    test: Ratings,
    answer: Distribution,
    thresholds: Sequence[float],
    relevant: float | None,
    point: Floats | None,
) -> Statistic:
    by_threshold = paper_measures_by_user(test, answer, thresholds, relevant=relevant, point=point)
    values = np.array([found[name] for found in by_threshold]).T  # users, thresholds
    of_copies = paper_measure_by_copies(test, answer, name, thresholds, relevant=relevant, point=point)

    def mean(weights: Floats, values: Floats) -> Floats:
        defined = ~np.isnan(values)
        count = weights @ defined
        return np.asarray(weights @ np.where(defined, values, 0) / np.where(count > 0, count, np.nan))

    def statistic(users: Floats, items: Floats | None = None) -> Floats:
        if items is None:
            means = mean(users, values)
        else:
            copies = items.astype(np.int64)
            means = np.array([mean(weights, of_copies(copies[k])) for k, weights in enumerate(users)])
        return np.asarray(cumulate(means) if means.shape[1] > 1 else means[:, 0])

    return statistic


def _gap(test: Ratings, answer: Distribution) -> Statistic:
    reliability = answer.reliability().astype(np.float64)
    right = (answer.mode() == test.values).astype(np.float64)
    place = np.minimum((reliability * BINS).astype(int), BINS - 1)
    cell = test.user * BINS + place
    gaps = np.bincount(cell, reliability - right, len(test.users) * BINS).reshape(-1, BINS)
    n_ratings = np.bincount(test.user, minlength=len(test.users))

    def statistic(users: Floats, items: Floats | None = None) -> Floats:
        if items is None:
            return np.asarray(np.abs(users @ gaps).sum(axis=1) / (users @ n_ratings))
        values = np.empty(len(users))
        for k, weight in enumerate(_rating_weights(test, users, items)):
            total = weight.sum() or np.nan
            values[k] = np.abs(np.bincount(place, weight * (reliability - right))).sum() / total
        return values

    return statistic


def _area(test: Ratings, answer: Distribution, risk: str) -> Statistic:
    r"""Return the area under the risk-coverage curve: within a level of reliability, where :math:`K` ratings with the
    risk :math:`C` lie before and the mean risk is :math:`r`, the *j*-th rating adds
    :math:`(C + j r) / (K + j) = r + (C - K r) / (K + j)`, so that a level takes a difference of harmonic numbers.
    """
    reliability = answer.reliability()
    order = np.argsort(-reliability, kind="stable")
    level = -reliability[order]
    starts = np.flatnonzero(np.append(True, level[1:] != level[:-1]))
    far = np.abs(answer.median() - test.values) if risk == "absolute" else (answer.mode() != test.values) * 1.0
    loss = far[order]

    def statistic(users: Floats, items: Floats | None = None) -> Floats:
        harmonic = np.zeros(1)
        areas = np.empty(len(users))
        for k, weight in enumerate(_rating_weights(test, users, items)):
            each = weight[order]
            count = np.add.reduceat(each, starts)
            risks = np.add.reduceat(each * loss, starts)
            after, total = np.cumsum(count), np.cumsum(risks)
            if after[-1] >= len(harmonic):
                harmonic = np.append(0, np.cumsum(1 / np.arange(1, 2 * int(after[-1]) + 1)))
            mean = risks / np.where(count > 0, count, 1)
            steps = harmonic[after.astype(np.int64)] - harmonic[(after - count).astype(np.int64)]
            area = (risks + (total - risks - (after - count) * mean) * steps).sum()
            areas[k] = area / after[-1] if after[-1] else np.nan
        return areas

    return statistic
