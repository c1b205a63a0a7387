"""Ratings drawn from a truth that is known, so that calibration can be tested as calibration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DataError, ParameterError, UnknownNameError, choose
from starcast.names import Codes, Lookup, code_names
from starcast.ratings import Ratings
from starcast.scale import MOST_SCORES
from starcast.split import Seed


def make_ratings(
    n_users: int = 200,
    n_items: int = 100,
    n_scores: int = 5,
    *,
    density: float = 0.2,
    n_factors: int = 2,
    confidence: float = 2.0,
    names: str = "int",
    random_state: Seed = None,
) -> tuple[Ratings, "PlantedTruth"]:
    r"""Return ratings and the distributions that they were drawn from, a row per rating.

    .. math:: P(s \mid u, i) \propto \exp\left(-\tfrac{1}{2} c_u (x_s - b_u - b_i - p_u \cdot q_i)^2\right)

    with :math:`x_s` evenly from -2 to 2, biases and factors drawn from normal distributions, and a confidence
    :math:`c_u` drawn from a log-normal one: some users can be foretold better than others.

    Parameters
    ----------
    n_users, n_items, n_scores : int
        Every user and every item has at least one rating; the scores are 1, 2, …
    density : float
        The share of all pairs that are rated.
    n_factors : int
        The length of :math:`p_u` and :math:`q_i`.
    confidence : float
        The median of :math:`c_u`.
    names : {"int", "str"}
        Whether users and items are called 1, 2, … or u1, u2, … and i1, i2, …, in the order of appearance.
    random_state : int, Generator or None

    Examples
    --------
    >>> ratings, truth = make_ratings(random_state=0)
    >>> ratings
    Ratings(4,000 ratings, 200 users, 100 items, 5 scores from 1 to 5)
    >>> truth
    Distribution(4,000 pairs, 5 scores from 1 to 5)
    >>> truth.predict_proba(users=[1, 2], items=[3, 3])
    Distribution(2 pairs, 5 scores from 1 to 5)
    """
    _check_planted(n_users, n_items, n_scores, density, n_factors, confidence)
    choose("names", names, ["int", "str"])
    rng = _generator(random_state)
    user, item = _draw_pairs(n_users, n_items, round(density * n_users * n_items), rng)
    planted = _plant(n_users, n_items, n_factors, confidence, rng)
    below = planted.probs(user, item, n_scores).cumsum(axis=1)[:, :-1]  # (ratings, scores - 1)
    value = 1 + (below <= rng.random(len(user))[:, None]).sum(axis=1)
    users, items = (user + 1).tolist(), (item + 1).tolist()
    if names == "str":
        users, items = [f"u{name}" for name in users], [f"i{name}" for name in items]
    ratings = Ratings.from_arrays(users, items, value, scores=np.arange(1, n_scores + 1))
    return ratings, PlantedTruth(ratings, planted)


class PlantedTruth(Distribution):
    """The distributions that ratings were drawn from, a row per rating."""

    def __init__(self, ratings: Ratings, planted: "_Planted") -> None:
        super().__init__(planted.probs(ratings.user, ratings.item, len(ratings.scores)), ratings.scores)
        self._planted, self._users, self._items = planted, Lookup(ratings.users), Lookup(ratings.items)

    def predict_proba(self, users: object, items: object) -> Distribution:
        """Return the true distributions of pairs of names, rated or not, as a model returns those it believes in."""
        user, item = self._users.codes(users, "users"), self._items.codes(items, "items")
        if len(user) != len(item):
            raise DataError(f"users and items must have one length, got {len(user):,} and {len(item):,}.")
        for code, what in ((user, "users"), (item, "items")):
            if (code < 0).any():
                raise UnknownNameError(
                    f"{what} must be among those of the planted ratings, but {int((code < 0).sum()):,} of "
                    f"{len(code):,} are not, the first at position {int((code < 0).argmax())}."
                )
        return Distribution(self._planted.probs(user, item, len(self.scores)), self.scores)


def _check_planted(
    n_users: int, n_items: int, n_scores: int, density: float, n_factors: int, confidence: float
) -> None:
    _check_whole("n_users", n_users, 1, None)
    _check_whole("n_items", n_items, 1, None)
    _check_whole("n_scores", n_scores, 2, MOST_SCORES)
    _check_whole("n_factors", n_factors, 0, None)
    if not _is_number(confidence) or not 0 < confidence < np.inf:
        raise ParameterError(f"confidence must be a finite number above zero, got {confidence!r}.")
    least = max(n_users, n_items) / (n_users * n_items)
    if not _is_number(density) or not least <= density <= 1:  # written so that NaN fails too
        raise ParameterError(
            f"density must lie from {least:g} (one rating for every user and item) to 1, got {density!r}."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _check_whole(name: str, value: object, low: int, high: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low or (high and value > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(f"{name} must be a whole number {limits}, got {value!r}.")


def _generator(random_state: Seed) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state must be a whole number of at least 0, a Generator or None, got {random_state!r}."
        ) from None


def _draw_pairs(n_users: int, n_items: int, n: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Return `n` different pairs in random order, with every user and item in at least one, numbered as they appear."""
    turn = np.arange(max(n_users, n_items))
    cover = rng.permutation(n_users)[turn % n_users] * n_items + rng.permutation(n_items)[turn % n_items]
    others = rng.choice(n_users * n_items, n, replace=False)
    others = others[~np.isin(others, cover)][: n - len(cover)]
    pair = rng.permutation(np.concatenate([cover, others]))
    return code_names(pair // n_items, "users")[1], code_names(pair % n_items, "items")[1]


def _plant(n_users: int, n_items: int, n_factors: int, confidence: float, rng: np.random.Generator) -> "_Planted":
    # The variances of the means' three terms (0.16, 0.36, 0.5) add up to about one, so that all scores occur.
    users = np.hstack([rng.normal(0, 0.4, (n_users, 1)), np.ones((n_users, 1)), rng.normal(size=(n_users, n_factors))])
    factors = rng.normal(0, np.sqrt(0.5 / max(n_factors, 1)), (n_items, n_factors))
    items = np.hstack([np.ones((n_items, 1)), rng.normal(0, 0.6, (n_items, 1)), factors])
    return _Planted(users, items, confidence * np.exp(rng.normal(0, 0.8, n_users)))


@dataclass(frozen=True)
class _Planted:
    """What :func:`make_ratings` draws: the mean of a pair's bell is the product of its two vectors."""

    user_vectors: npt.NDArray[np.float64]  # (users, 2 + factors): bias, 1, factors
    item_vectors: npt.NDArray[np.float64]  # (items, 2 + factors): 1, bias, factors
    confidence: npt.NDArray[np.float64]  # (users,)

    def probs(self, user: npt.NDArray[Any], item: npt.NDArray[Any], n_scores: int) -> npt.NDArray[np.float64]:
        mean = (self.user_vectors[user] * self.item_vectors[item]).sum(axis=1)
        logit = -0.5 * self.confidence[user][:, None] * (np.linspace(-2, 2, n_scores) - mean[:, None]) ** 2
        weight = np.exp(logit - logit.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))
