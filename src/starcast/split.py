"""Ratings into training and test parts. Every split leaves its input alone and gives tables with names of their own."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.errors import DataError, ParameterError, choose
from starcast.javarandom import JavaRandom
from starcast.ratings import Ratings

Seed = int | np.random.Generator | None


class Split(NamedTuple):
    """A training part and a test part."""

    train: Ratings
    test: Ratings


def benchmark_split(
    ratings: Ratings, *, test_users: float = 0.3, test_items: float = 0.3, random_state: int = 43
) -> Split:
    """Return the paper's split: a rating is for testing if its user and its item were both drawn for testing.

    Java's generator runs over the rows: at the first sight of a user it decides whether the user is a test user,
    then, at the first sight of an item, whether it is a test item. With the defaults and the rows of the published
    files this gives the parts of the published benchmark, rating by rating.
    """
    _check_part(test_users, "test_users")
    _check_part(test_items, "test_items")
    seed = _whole(random_state, "random_state must be a whole number")
    first_user, first_item = _first_rows(ratings.user), _first_rows(ratings.item)
    # One draw per first sight, in the order of the rows, the user of a row before its item.
    turn = np.concatenate([2 * first_user, 2 * first_item + 1]).argsort()
    draws = np.empty(len(turn))
    draws[turn] = JavaRandom(seed).next_floats(len(turn))
    is_test_user = draws[: len(first_user)] <= test_users
    is_test_item = draws[len(first_user) :] <= test_items
    return _split(ratings, is_test_user[ratings.user] & is_test_item[ratings.item])


def holdout(ratings: Ratings, *, test_size: float = 0.1, random_state: Seed = None) -> Split:
    """Return a split with the share `test_size` of the ratings, drawn at random, for testing."""
    _check_part(test_size, "test_size")
    n_test = min(max(1, round(test_size * len(ratings))), len(ratings) - 1)  # something is left to learn from
    chosen = make_generator(random_state).permutation(len(ratings))[:n_test]
    test = np.zeros(len(ratings), bool)
    test[chosen] = True
    return _split(ratings, test)


def k_fold(
    ratings: Ratings, n_splits: int = 5, *, method: str = "random", random_state: Seed = None
) -> Iterator[Split]:
    """Return an iterator over `n_splits` splits in which every rating is tested once.

    ``method="random"`` shuffles the ratings. ``method="paper"`` is the cross-validation of the published search: the
    ratings by user and item, shuffled by Java's generator with the seed `random_state`, cut into contiguous slices of
    ``len // n_splits`` of which the last takes the rest; both parts keep the shuffled order.
    """
    choose("method", method, ["random", "paper"])
    if not isinstance(n_splits, (int, np.integer)) or not 2 <= n_splits <= len(ratings):
        raise ParameterError(
            f"n_splits must be a whole number from 2 to the {len(ratings):,} ratings, got {n_splits!r}."
        )
    if method == "paper":
        seed = _whole(random_state, 'random_state must be a whole number with method="paper"')
        return _paper_folds(ratings, n_splits, seed)
    return _random_folds(ratings, n_splits, make_generator(random_state))


def leave_last(ratings: Ratings, n: int = 1) -> Split:
    """Return a split with the last `n` ratings of each user, by time, for testing.

    Of ratings at the same second the later row counts as later. Users with `n` ratings or fewer are left in training.
    """
    if ratings.timestamps is None:
        raise DataError("leave_last needs timestamps, but these ratings have none. Read the file with its time column.")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ParameterError(f"n must be a whole number of at least 1, got {n!r}.")
    order = np.lexsort((np.arange(len(ratings)), ratings.timestamps, ratings.user))
    count = np.bincount(ratings.user, minlength=len(ratings.users))
    end = np.cumsum(count)
    from_end = end[ratings.user[order]] - 1 - np.arange(len(ratings))  # 0 is a user's last rating
    test = np.zeros(len(ratings), bool)
    test[order] = (from_end < n) & (count[ratings.user[order]] > n)
    return _split(ratings, test)


def _split(ratings: Ratings, test: npt.NDArray[np.bool_]) -> Split:
    return Split(ratings.take(~test), ratings.take(test))


def _first_rows(code: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return the row at which each code first appears."""
    first = np.full(code.max(initial=-1) + 1, len(code), np.int64)
    np.minimum.at(first, code, np.arange(len(code)))
    return first


def _random_folds(ratings: Ratings, n_splits: int, generator: np.random.Generator) -> Iterator[Split]:
    fold = np.arange(len(ratings)) % n_splits
    generator.shuffle(fold)
    for k in range(n_splits):
        yield _split(ratings, fold == k)


def _paper_folds(ratings: Ratings, n_splits: int, seed: int) -> Iterator[Split]:
    by_user = np.lexsort((ratings.item, ratings.user))
    order = by_user[JavaRandom(seed).shuffle(len(ratings))]
    size = len(order) // n_splits
    for k in range(n_splits):
        begin, end = k * size, len(order) if k == n_splits - 1 else (k + 1) * size
        yield Split(ratings.take(np.delete(order, np.s_[begin:end])), ratings.take(order[begin:end]))


def _whole(value: object, must: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ParameterError(f"{must}, got {value!r}.")
    return int(value)


def make_generator(seed: Seed) -> np.random.Generator:
    """Return the generator that `random_state` stands for."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state must be a whole number of at least 0, a NumPy generator or None, got {seed!r}."
        ) from None


def _check_part(value: float, name: str) -> None:
    if not isinstance(value, (int, float, np.number)) or not 0 < value < 1:  # written so that NaN fails too
        raise ParameterError(f"{name} must lie between 0 and 1, got {value!r}.")
