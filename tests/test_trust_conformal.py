"""Rating sets: they hold the rating as often as they say, whatever the model, in every group."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from world import draw, make_world

import starcast as sc
from starcast.errors import DataError, NotFittedError, ParameterError, UnknownNameError
from starcast.trust.conformal import _quantile, probability_before


@pytest.fixture(scope="module")
def uneven():
    """A model that knows half of its users little, and new ratings to calibrate on and to be judged by."""
    world = make_world()
    rng = np.random.default_rng(0)
    share = np.array([0.02, 0.05, 0.3, 1.0])[world.train.user % 4]
    train = world.train.take(rng.random(len(world.train)) < share)
    model = sc.BiasedMF(n_factors=2, random_state=0, n_jobs=1).fit(train)
    known = np.isin(world.new.users[world.new.user], train.users) & np.isin(
        world.new.items[world.new.item], train.items
    )
    rows = rng.permutation(np.flatnonzero(known))
    return model, world.new.take(rows[:10_000]), world.new.take(rows[10_000:]), train


def within_sampling_error(row, alpha, n_calibration):
    """Whether a coverage differs from 1 - alpha by chance: of the calibration ratings and of the test ratings."""
    return abs(row["coverage"] - (1 - alpha)) < 4 * np.sqrt(alpha * (1 - alpha) * (1 / n_calibration + 1 / row["ratings"]))  # fmt: skip


@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_sets_hold_as_many_ratings_as_they_say_overall_and_in_every_group(uneven, alpha):
    model, calibration, test, _ = uneven
    sets = sc.conformal(model, calibration, alpha, by="activity")
    overall, *groups = sets.evaluate(test).rows
    assert within_sampling_error(overall, alpha, len(calibration))
    assert [row["group"].split()[0] for row in groups] == ["users"] * 4
    assert sum(row["ratings"] for row in groups) == overall["ratings"] == len(test)
    for row, n in zip(groups, sets.counts, strict=False):
        assert within_sampling_error(row, alpha, n)
    sizes = [row["size"] for row in groups]
    assert sizes[0] > sizes[-1] + 0.1  # of whom the model knows little, it says less


def test_without_groups_the_promise_holds_on_the_average_only(uneven):
    model, calibration, test, _ = uneven
    sets = sc.conformal(model, calibration, 0.25)
    overall, known = sets.evaluate(test).rows
    assert (overall["group"], known["group"]) == ("all", "known pairs")
    assert within_sampling_error(overall, 0.25, len(calibration))
    frame = sets.predict(test.users[test.user], test.items[test.item])
    inside = (frame["low"].to_numpy() <= test.values) & (test.values <= frame["high"].to_numpy())
    activity = np.diff(model.seen_start_)[model._user_lookup.codes(test.users, "users")[test.user]]
    few, many = activity < 10, activity > 200
    assert inside[few].mean() < 0.71
    assert inside[many].mean() > 0.78


def test_a_poor_model_holds_its_promise_with_wider_sets(uneven):
    model, calibration, test, train = uneven
    poor = sc.conformal(sc.GlobalFrequency().fit(train), calibration, 0.1).evaluate(test).rows[0]
    good = sc.conformal(model, calibration, 0.1).evaluate(test).rows[0]
    assert poor["coverage"] > 0.9 - 4 * np.sqrt(0.09 / len(calibration))
    assert poor["size"] > good["size"] + 0.5


def test_with_few_ratings_the_promise_still_holds_on_the_average():
    """Over many draws of 19 ratings the coverage lies between 1 - alpha and 1 - alpha + 1/20, not below."""
    world, rng = make_world(), np.random.default_rng(0)
    before = probability_before(world.truth[:20_000])
    held = []
    for _ in range(3000):
        rows = rng.integers(20_000, size=20)
        score = draw(world.truth[rows], rng)
        own = before[rows, score]
        held.append(own[-1] <= _quantile(own[:-1], 0.2))
    assert 0.8 - 0.02 < np.mean(held) < 0.85 + 0.02


# The sets.


def slow_before(probs):
    """A set that grows, score by score."""
    low = high = int(np.argmax(probs))
    before, held = {low: 0.0}, probs[low]
    while len(before) < len(probs):
        left = probs[low - 1] if low > 0 else -1
        right = probs[high + 1] if high + 1 < len(probs) else -1
        taken = low - 1 if left >= right else high + 1
        low, high = min(low, taken), max(high, taken)
        before[taken] = held
        held += probs[taken]
    return [before[s] for s in range(len(probs))]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(hnp.arrays(float, st.tuples(st.integers(1, 4), st.integers(2, 6)), elements=st.floats(0, 1)))
def test_sets_grow_as_in_a_plain_loop(weights):
    probs = (weights + 1e-3) / (weights + 1e-3).sum(axis=1, keepdims=True)
    assert probability_before(probs) == pytest.approx(np.array([slow_before(row) for row in probs]))


def test_sets_are_runs_around_the_mode_and_grow_as_alpha_falls(uneven):
    model, calibration, test, _ = uneven
    pairs = test.users[test.user][:2000], test.items[test.item][:2000]
    mode = model.predict_proba(*pairs).mode()
    frames = [sc.conformal(model, calibration, alpha).predict(*pairs) for alpha in (0.5, 0.2, 0.05)]
    for frame in frames:
        assert (frame["low"].to_numpy() <= mode).all()
        assert (frame["high"].to_numpy() >= mode).all()
        assert np.array_equal(frame["size"], frame["high"] - frame["low"] + 1)
    for small, large in itertools.pairwise(frames):
        assert ((large["low"] <= small["low"]) & (small["high"] <= large["high"])).all()
        assert large["size"].mean() > small["size"].mean()


def test_sets_are_about_as_narrow_as_any_that_hold_as_much():
    """With the truth in hand, no rule with the same coverage has much smaller sets: those of the likeliest scores."""
    world = make_world()
    probs = world.truth[:20_000]
    score = draw(probs, np.random.default_rng(0))
    before = probability_before(probs)
    level = _quantile(before[np.arange(20_000), score], 0.1)
    size = (before <= level).sum(axis=1).mean()
    best = (probs >= np.quantile(probs[np.arange(20_000), score], 0.1)).sum(axis=1).mean()
    assert size < best + 0.15


def test_the_quantile_counts_the_new_rating_too():
    values = np.arange(1.0, 20.0)  # 19 ratings: one in twenty misses
    assert _quantile(values, 0.05) == 19
    assert _quantile(values, 0.1) == 18
    assert _quantile(values[:18], 0.05) == np.inf


def test_groups_part_the_training_ratings_evenly(uneven):
    model, calibration, _, _ = uneven
    sets = sc.conformal(model, calibration, by="activity", n_groups=3)
    activity = np.diff(model.seen_start_)
    group = np.searchsorted(sets.edges, activity, side="right")
    assert np.bincount(group, activity) / activity.sum() == pytest.approx([1 / 3] * 3, abs=0.02)
    assert [sets._name(g) for g in range(4)] == [
        f"users with 1 to {sets.edges[0] - 1} ratings", f"users with {sets.edges[0]} to {sets.edges[1] - 1} ratings",
        f"users with {sets.edges[1]} or more ratings", "unknown pairs",
    ]  # fmt: skip
    assert repr(sets) == f"RatingSets({model!r}, alpha=0.1, 3 groups)"


def test_one_group_is_no_group(uneven):
    model, calibration, _, _ = uneven
    one, none = sc.conformal(model, calibration, by="activity", n_groups=1), sc.conformal(model, calibration)
    assert np.array_equal(one.levels, none.levels)


# Unknown pairs.


def test_unknown_pairs_get_the_whole_scale_unless_there_are_enough_to_learn_from(uneven):
    model, calibration, _, _ = uneven
    sets = sc.conformal(model, calibration)
    unknown = sets.predict([10**6, model.users_[0]], [model.items_[0], 10**6])
    assert unknown.select("low", "high", "size", "known").rows() == [(1, 5, 5, False)] * 2
    rng = np.random.default_rng(0)
    strangers = sc.Ratings.from_arrays(
        np.concatenate([calibration.users[calibration.user], 10**6 + np.arange(500)]),
        np.concatenate([calibration.items[calibration.item], rng.choice(model.items_, 500)]),
        np.concatenate([calibration.values, rng.choice([3.0, 4.0], 500)]),
        scores=model.scores_,
    )
    taught = sc.conformal(model, strangers)
    assert taught.counts.tolist() == [10_000, 500]
    assert np.array_equal(taught.levels[:-1], sets.levels[:-1])
    row = taught.predict(10**7, model.items_[0]).row(0, named=True)
    assert row["low"] <= 3
    assert row["high"] >= 4
    assert row["size"] < 5


def test_the_frame_is_of_the_callers_kind(uneven):
    model, calibration, test, _ = uneven
    frame = sc.conformal(model, calibration).predict(pd.Series(test.users[test.user][:3]), pd.Series(test.items[test.item][:3]))  # fmt: skip
    assert isinstance(frame, pd.DataFrame)
    assert list(frame) == ["user", "item", "low", "high", "size", "known"]


# Mistakes.


def test_too_few_ratings_are_refused(uneven):
    model, calibration, _, _ = uneven
    with pytest.raises(DataError, match=r"sets that miss at most 0\.01 need at least 99 ratings of known users and items: got 98\. Give more ratings or a larger alpha"):  # fmt: skip
        sc.conformal(model, calibration.take(np.arange(98)), 0.01)
    assert sc.conformal(model, calibration.take(np.arange(99)), 0.01).counts[0] == 99
    with pytest.raises(DataError, match=r"need at least 9 ratings of known users and items in each group, and group \d has fewer: got \d\. Give more ratings, fewer groups or"):  # fmt: skip
        sc.conformal(model, calibration.take(np.arange(12)), 0.1, by="activity")


def test_more_groups_than_ratings_cost_no_memory(uneven):
    model, calibration, _, _ = uneven
    with pytest.raises(DataError, match=r"in each group, and group \d+ has fewer"):
        sc.conformal(model, calibration, 0.001, by="activity", n_groups=10**15)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0}, ParameterError, "alpha must lie between 0 and 1, got 0"),
        ({"alpha": "some"}, ParameterError, "alpha must lie between 0 and 1, got 'some'"),
        ({"by": "age"}, UnknownNameError, "unknown by 'age'.* Known: activity"),
        ({"by": "activity", "n_groups": 0}, ParameterError, "n_groups must be a whole number of at least 1, got 0"),
    ],
)
def test_mistakes_are_named(uneven, options, error, message):
    with pytest.raises(error, match=message):
        sc.conformal(uneven[0], uneven[1], **options)


def test_only_a_fitted_model_and_ratings_that_it_has_not_seen_will_do(uneven):
    model, calibration, _, _ = uneven
    with pytest.raises(NotFittedError):
        sc.conformal(sc.BiasedMF(), calibration, by="activity")
    with pytest.raises(DataError, match="conformal needs ratings that the model has not seen, but it was fitted on"):
        sc.conformal(model, make_world().train)
