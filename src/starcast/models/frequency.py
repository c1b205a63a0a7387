"""Counting: the score frequencies of the table, of items, and of users and items together. What must be beaten."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from starcast.errors import ParameterError
from starcast.models.base import Floats, Model
from starcast.names import Codes
from starcast.ratings import Ratings

Counts = npt.NDArray[np.float64]
SHRINKAGES = np.geomspace(0.1, 1000, 25)  # where "auto" looks; the likelihood is flat between two neighbours
SAMPLE = 20_000  # ratings that decide between them in naive Bayes


class GlobalFrequency(Model):
    r"""The score frequencies of the whole table, for every pair alike.

    .. math:: P(s) = \frac{n_s + 1}{n + d}

    with :math:`n_s` the number of times score *s* was given, *n* the number of ratings and *d* that of scores.

    Examples
    --------
    >>> ratings = Ratings.from_arrays(["ann", "ann", "bob"], ["x", "y", "x"], [1, 2, 2])
    >>> GlobalFrequency().fit(ratings).predict_proba("ann", "x").probs.tolist()
    [[0.4, 0.6]]
    """

    def _fit(self, ratings: Ratings) -> None:
        """Nothing to learn: the prior is the answer."""

    def _proba(self, user: Codes, item: Codes) -> Floats:
        return np.broadcast_to(self.prior_, (len(user), len(self.prior_)))

    def _newcomer_proba(self, item: Codes) -> Floats:
        return self._proba(item, item)


class ItemFrequency(Model):
    r"""Each item's score frequencies, drawn towards those of the whole table.

    .. math:: P(s \mid i) = \frac{n_{is} + \kappa\,\pi_s}{n_i + \kappa}

    with :math:`n_{is}` the number of times item *i* got score *s* and :math:`\pi` the frequencies in the whole table.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        :math:`\kappa`, how many ratings the table's frequencies count for; "auto" takes the value under which the
        training ratings, each left out in turn, are likeliest.

    Attributes
    ----------
    probs_ : ndarray of shape (n_items, n_scores)
    shrinkage_ : float
        The value in use.
    """

    LEARNT: ClassVar = {"probs_": "items scores", "shrinkage_": ""}

    probs_: Counts
    shrinkage_: float

    def __init__(self, shrinkage: float | str = "auto") -> None:
        self.shrinkage = shrinkage

    def _check_params(self) -> None:
        _check_shrinkage("shrinkage", self.shrinkage)

    def _fit(self, ratings: Ratings) -> None:
        counts = ratings.counts_by_item()
        self.shrinkage_ = _resolve(self.shrinkage, lambda k: _left_out_likelihood(counts, self.prior_, k))
        self.probs_ = _smooth(counts, self.prior_, self.shrinkage_)

    def _proba(self, user: Codes, item: Codes) -> Floats:
        return self.probs_[item]

    def _newcomer_proba(self, item: Codes) -> Floats:
        return self.probs_[item]


class NaiveBayes(Model):
    r"""The user's and the item's score frequencies, taken as independent evidence.

    .. math:: P(s \mid u, i) \propto \pi_s \cdot \frac{P(s \mid u)}{\pi_s} \cdot \frac{P(s \mid i)}{\pi_s}

    each smoothed towards the frequencies :math:`\pi` of the whole table as in :class:`ItemFrequency`.

    Parameters
    ----------
    user_shrinkage, item_shrinkage : float or "auto", default="auto"
        How many ratings the table's frequencies count for against a user's and an item's own; "auto" takes the values
        under which the training ratings, each left out in turn, are likeliest.

    Attributes
    ----------
    user_probs_ : ndarray of shape (n_users, n_scores)
    item_probs_ : ndarray of shape (n_items, n_scores)
    user_shrinkage_, item_shrinkage_ : float
        The values in use.
    """

    LEARNT: ClassVar = {
        "user_probs_": "users scores",
        "item_probs_": "items scores",
        "user_shrinkage_": "",
        "item_shrinkage_": "",
    }

    user_probs_: Counts
    item_probs_: Counts
    user_shrinkage_: float
    item_shrinkage_: float

    def __init__(self, user_shrinkage: float | str = "auto", item_shrinkage: float | str = "auto") -> None:
        self.user_shrinkage = user_shrinkage
        self.item_shrinkage = item_shrinkage

    def _check_params(self) -> None:
        # With zero, a score that either side never gave would leave nothing to normalise.
        _check_shrinkage("user_shrinkage", self.user_shrinkage, at_least="more than zero")
        _check_shrinkage("item_shrinkage", self.item_shrinkage, at_least="more than zero")

    def _fit(self, ratings: Ratings) -> None:
        by_user, by_item = ratings.counts_by_user(), ratings.counts_by_item()
        self.user_shrinkage_, self.item_shrinkage_ = self._choose_shrinkages(ratings, by_user, by_item)
        self.user_probs_ = _smooth(by_user, self.prior_, self.user_shrinkage_)
        self.item_probs_ = _smooth(by_item, self.prior_, self.item_shrinkage_)

    def _proba(self, user: Codes, item: Codes) -> Floats:
        return _joint(self.user_probs_[user], self.item_probs_[item], self.prior_)

    def _newcomer_proba(self, item: Codes) -> Floats:
        return self.item_probs_[item]

    def _choose_shrinkages(self, ratings: Ratings, by_user: Counts, by_item: Counts) -> tuple[float, float]:
        """Return the two values, searched one after the other on a sample of the ratings until neither moves."""
        if self.user_shrinkage != "auto" and self.item_shrinkage != "auto":
            return float(self.user_shrinkage), float(self.item_shrinkage)
        rows = np.unique(np.linspace(0, len(ratings) - 1, SAMPLE).astype(np.int64))
        score = ratings.score[rows]
        left_out = np.eye(len(ratings.scores))[score]
        user_counts = by_user[ratings.user[rows]] - left_out
        item_counts = by_item[ratings.item[rows]] - left_out

        def likelihood(user_k: float, item_k: float) -> float:
            joint = _joint(
                _smooth(user_counts, self.prior_, user_k), _smooth(item_counts, self.prior_, item_k), self.prior_
            )
            return float(np.log(joint[np.arange(len(rows)), score]).sum())

        user_k = item_k = 10.0
        for _ in range(3):
            before = user_k, item_k
            user_k = _resolve(self.user_shrinkage, lambda k: likelihood(k, item_k))  # noqa: B023
            item_k = _resolve(self.item_shrinkage, lambda k: likelihood(user_k, k))  # noqa: B023
            if (user_k, item_k) == before:
                break
        return user_k, item_k


def _smooth(counts: Counts, prior: Counts, shrinkage: float) -> Counts:
    total = counts.sum(axis=1, keepdims=True) + shrinkage
    empty = total == 0  # no rating and no shrinkage: only the prior is left
    return np.where(empty, prior, (counts + shrinkage * prior) / np.where(empty, 1, total))


def _joint(user_probs: Counts, item_probs: Counts, prior: Counts) -> Counts:
    joint = user_probs * (item_probs / prior)
    total = joint.sum(axis=1, keepdims=True)
    nothing = total == 0  # so little shrinkage that the product is too small for a number
    return np.where(nothing, prior, joint / np.where(nothing, 1, total))


def _left_out_likelihood(counts: Counts, prior: Counts, shrinkage: float) -> float:
    """Return the log-likelihood of every rating when it is taken out of its item's counts."""
    total = counts.sum(axis=1, keepdims=True)
    seen = counts > 0
    others = np.where(seen, counts - 1 + shrinkage * prior, 1)
    return float((counts * np.log(others / np.where(total > 0, total - 1 + shrinkage, 1)))[seen].sum())


def _resolve(shrinkage: float | str, likelihood: Callable[[float], float]) -> float:
    """Return the given value, or for "auto" the likeliest of the grid."""
    if shrinkage != "auto":
        return float(shrinkage)
    return float(max(SHRINKAGES, key=likelihood))


def _check_shrinkage(name: str, value: object, *, at_least: str = "zero or more") -> None:
    if isinstance(value, str) and value == "auto":
        return
    good = (
        isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) and 0 <= value < np.inf
    )
    if not good or (value == 0 and at_least != "zero or more"):
        raise ParameterError(f'{name} must be {at_least}, or "auto", got {value!r}.')
