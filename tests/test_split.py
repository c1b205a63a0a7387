"""Splits: exactly the published parts, every rating once, the input left alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast.errors import DataError, ParameterError, UnknownNameError
from starcast.javarandom import JavaRandom

EXACT = settings(derandomize=True, max_examples=40, deadline=None)


def make(n=60, seed=0, times=True):
    rng = np.random.default_rng(seed)
    cell = rng.permutation(200)[:n]
    return sc.Ratings.from_arrays(cell // 20 + 100, cell % 20, cell % 5, scores=range(5), timestamps=rng.integers(0, 9, n) if times else None)  # fmt: skip


def rows(ratings):
    return list(zip(ratings.users[ratings.user].tolist(), ratings.items[ratings.item].tolist(), ratings.values.tolist(), strict=True))  # fmt: skip


TABLES = st.builds(make, st.integers(2, 200), st.integers(0, 1000))


def naive_benchmark(table, seed, share):
    """The rule in words: at first sight of a user draw, then at first sight of an item draw."""
    generator, test_user, test_item, parts = JavaRandom(seed), {}, {}, ([], [])
    for row in table:
        user, item, _ = row
        if user not in test_user:
            test_user[user] = generator.next_floats(1)[0] <= np.float32(share)
        if item not in test_item:
            test_item[item] = generator.next_floats(1)[0] <= np.float32(share)
        parts[int(test_user[user] and test_item[item])].append(row)
    return parts


@EXACT
@given(TABLES, st.integers(-(2**40), 2**40), st.sampled_from([0.3, 0.5, 0.9]))
def test_the_benchmark_split_is_the_loop_over_the_rows(ratings, seed, share):
    split = sc.benchmark_split(ratings, random_state=seed, test_users=share, test_items=share)
    assert (rows(split.train), rows(split.test)) == naive_benchmark(rows(ratings), seed, share)


@EXACT
@given(TABLES, st.integers(0, 99), st.floats(0.01, 0.99))
def test_holdout_parts_the_ratings_and_keeps_their_order(ratings, seed, share):
    train, test = sc.holdout(ratings, test_size=share, random_state=seed)
    order = {row: at for at, row in enumerate(rows(ratings))}
    places = [[order[row] for row in rows(part)] for part in (train, test)]
    assert sorted(places[0] + places[1]) == list(range(len(ratings)))
    assert all(place == sorted(place) for place in places)
    assert len(train) >= 1
    assert len(test) == min(max(1, round(share * len(ratings))), len(ratings) - 1)
    assert train.scores.tolist() == test.scores.tolist() == ratings.scores.tolist()


@EXACT
@given(TABLES, st.integers(2, 7), st.sampled_from(["random", "paper"]), st.integers(0, 99))
def test_every_rating_is_tested_once(ratings, n_splits, method, seed):
    n_splits = min(n_splits, len(ratings))
    splits = list(sc.k_fold(ratings, n_splits, method=method, random_state=seed))
    assert len(splits) == n_splits
    assert sorted(row for split in splits for row in rows(split.test)) == sorted(rows(ratings))
    for train, test in splits:
        assert sorted(rows(train) + rows(test)) == sorted(rows(ratings))
        assert min(len(train), len(test)) >= 1


def test_random_folds_are_of_almost_equal_size():
    assert sorted(len(split.test) for split in sc.k_fold(make(13), 5, random_state=0)) == [2, 2, 3, 3, 3]


def test_paper_folds_are_slices_of_the_shuffled_ratings():
    ratings = make(13)
    by_user = sorted(range(13), key=lambda row: (ratings.user[row], ratings.item[row]))
    order = [by_user[at] for at in JavaRandom(7).shuffle(13)]
    slices = [order[:2], order[2:4], order[4:6], order[6:8], order[8:]]
    splits = list(sc.k_fold(ratings, 5, method="paper", random_state=7))
    for part, (train, test) in zip(slices, splits, strict=True):
        assert rows(test) == [rows(ratings)[row] for row in part]
        assert rows(train) == [rows(ratings)[row] for row in order if row not in part]


@EXACT
@given(TABLES, st.integers(1, 4))
def test_leave_last_is_the_loop_over_the_users(ratings, n):
    expected = []
    for user in range(len(ratings.users)):
        own = [row for row in range(len(ratings)) if ratings.user[row] == user]
        if len(own) > n:
            expected += sorted(own, key=lambda row: (ratings.timestamps[row], row))[-n:]
    train, test = sc.leave_last(ratings, n)
    assert rows(test) == [rows(ratings)[row] for row in sorted(expected)]
    assert rows(train) == [rows(ratings)[row] for row in range(len(ratings)) if row not in expected]


SPLITS = {
    "benchmark": lambda r, seed: [sc.benchmark_split(r, random_state=seed)],
    "holdout": lambda r, seed: [sc.holdout(r, random_state=seed)],
    "random": lambda r, seed: list(sc.k_fold(r, random_state=seed)),
    "paper": lambda r, seed: list(sc.k_fold(r, method="paper", random_state=seed)),
}


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_the_seed_decides_and_the_input_is_left_alone(split):
    ratings = make()
    digest = ratings.digest()
    one, again, other = ([(rows(s.train), rows(s.test)) for s in split(ratings, seed)] for seed in (1, np.int64(1), 2))
    assert one == again
    assert one != other
    assert ratings.digest() == digest


def seed_that_draws(value, turn):
    """A seed of Java's generator whose draw number `turn`, counted from 0, is exactly the value."""
    factor, state = 0x5DEECE66D, int(value * 2**24) << 24
    for _ in range(turn + 1):
        state = (state - 0xB) * pow(factor, -1, 2**48) % 2**48
    return state ^ factor


@pytest.mark.parametrize("turn", [0, 1])
def test_a_draw_that_is_the_share_exactly_is_for_testing(turn):
    ratings = sc.Ratings.from_arrays(["ann", "bob"], ["x", "y"], [1, 2])
    seed = seed_that_draws(0.5, turn)
    assert JavaRandom(seed).next_floats(2)[turn] == 0.5
    shares = {"test_users": 0.999, "test_items": 0.999} | {("test_users", "test_items")[turn]: 0.5}
    assert rows(sc.benchmark_split(ratings, random_state=seed, **shares).test)[:1] == [("ann", "x", 1.0)]


def test_the_defaults_are_the_paper_s_and_five_folds():
    ratings = make(200)
    default = sc.benchmark_split(ratings)
    assert rows(default.test) == naive_benchmark(rows(ratings), 43, 0.3)[1]
    assert len(list(sc.k_fold(ratings, random_state=0))) == 5
    last = sc.leave_last(ratings)
    assert len(last.test) == len(set(last.test.user.tolist()))


def test_nothing_is_split_into_nothing():
    train, test = sc.benchmark_split(make().take([]))
    assert (len(train), len(test)) == (0, 0)


def test_a_generator_is_a_seed_too():
    one, two = (sc.holdout(make(), random_state=np.random.default_rng(5)) for _ in "ab")
    assert rows(one.test) == rows(two.test)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: sc.holdout(r, test_size=0), ParameterError, r"test_size must lie between 0 and 1, got 0\."),
        (lambda r: sc.holdout(r, test_size=1.0), ParameterError, r"test_size must lie between 0 and 1, got 1\.0\."),
        (lambda r: sc.holdout(r, test_size=float("nan")), ParameterError, r"test_size must lie between 0 and 1, got nan\."),
        (lambda r: sc.holdout(r, test_size="half"), ParameterError, r"test_size must lie between 0 and 1, got 'half'\."),
        (lambda r: sc.benchmark_split(r, test_users=1), ParameterError, r"test_users must lie between 0 and 1, got 1\."),
        (lambda r: sc.benchmark_split(r, test_items=-1), ParameterError, r"test_items must lie between 0 and 1, got -1\."),
        (lambda r: sc.benchmark_split(r, random_state=None), ParameterError, r"random_state must be a whole number, got None\."),
        (lambda r: sc.benchmark_split(r, random_state=1.5), ParameterError, r"random_state must be a whole number, got 1\.5\."),
        (lambda r: sc.holdout(r, random_state=-1), ParameterError, r"random_state must be .*, got -1\."),
        (lambda r: sc.holdout(r, random_state="x"), ParameterError, r"random_state must be .*, got 'x'\."),
        (lambda r: sc.k_fold(r, random_state="x"), ParameterError, r"random_state must be .*, got 'x'\."),
        (lambda r: sc.k_fold(r, 1), ParameterError, r"n_splits must be a whole number from 2 to the 60 ratings, got 1\."),
        (lambda r: sc.k_fold(r, 61), ParameterError, r"n_splits must be a whole number from 2 to the 60 ratings, got 61\."),
        (lambda r: sc.k_fold(r, 2.0), ParameterError, r"n_splits must be a whole number .*, got 2\.0\."),
        (lambda r: sc.k_fold(r, method="papre"), UnknownNameError, r"unknown method 'papre'\. Did you mean 'paper'\?"),
        (lambda r: sc.k_fold(r, method="paper"), ParameterError, r"random_state must be a whole number with method=\"paper\", got None\."),
        (lambda r: sc.leave_last(r, 0), ParameterError, r"n must be a whole number of at least 1, got 0\."),
        (lambda r: sc.leave_last(r, 1.5), ParameterError, r"n must be a whole number of at least 1, got 1\.5\."),
        (lambda r: sc.leave_last(make(times=False)), DataError, r"leave_last needs timestamps, but these ratings have none\. Read the file with its time column\."),
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_said_at_once(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call(make())  # and not only when the first fold is asked for


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "options", "train", "test", "users", "items"),
    [
        ("ml-100k/u.data", {}, 92_026, 7_974, 280, 448),
        ("ml-1m/ratings.dat", {}, 911_031, 89_178, 1_758, 1_032),
        ("filmtrust/ratings.txt", {"duplicates": "last"}, 32_675, 2_819, 420, 325),
    ],
)
def test_the_published_splits_are_met_exactly(data_folder, file, options, train, test, users, items):
    split = sc.benchmark_split(sc.read_ratings(data_folder / file, **options))
    assert (len(split.train), len(split.test)) == (train, test)
    assert (len(split.test.users), len(split.test.items)) == (users, items)
