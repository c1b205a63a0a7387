"""Calibrated models: what they say is what happens, through every door."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import isotonic_regression
from world import ask, draw, make_world

import starcast as sc
from starcast import recalibration
from starcast.errors import DataError, FileFormatError, ParameterError, UnknownNameError
from starcast.recalibration import LIFT, SCALE, SHIFT, identity, recalibrate
from starcast.trust import fit_temperature, temper
from starcast.trust.logits import RIDGE, _Loss, fit_logits
from starcast.trust.maps import METHODS, _ascending, choose_map, fit_map

MAPPED = METHODS[1:]


def gaps(truth, answer):
    """How many standard errors the accuracy lies off the reliability, in each bin with enough ratings."""
    curve = sc.metrics.reliability_curve(truth, answer)
    full = curve.count >= 100
    error = np.sqrt(curve.reliability * (1 - curve.reliability) / curve.count)
    return ((curve.accuracy - curve.reliability) / error)[full]


@pytest.fixture(scope="module")
def small():
    return sc.make_ratings(n_users=300, n_items=200, density=0.3, random_state=0)


@pytest.fixture(scope="module")
def bold(small):
    return sc.BeMF(random_state=0).fit(small[0])


@pytest.fixture(scope="module")
def calibrated(small, bold):
    """The bold model, calibrated by each method."""
    return {method: sc.calibrate(bold, small[0], method, n_splits=3) for method in METHODS}


# What is said and what happens.


def test_the_truth_says_what_happens():
    world = make_world()
    answer = sc.Distribution(world.truth, world.train.scores)
    assert np.abs(gaps(world.new.values, answer)).max() < 4
    assert sc.metrics.ece(world.new.values, answer) < 0.004


@pytest.mark.parametrize("cls", [sc.BiasedMF, sc.ResBeMF])
def test_the_reliability_of_a_calibrated_model_is_the_frequency_of_being_right(cls):
    """On 200,000 pairs, within sampling error in every bin, where the model itself is many such errors off."""
    world = make_world()
    model = cls(n_factors=2, random_state=0, n_jobs=1).fit(world.train)
    assert np.abs(gaps(world.new.values, ask(model, world.new))).max() > 10
    answer = ask(sc.calibrate(model, world.train), world.new)
    assert np.abs(gaps(world.new.values, answer)).max() < 4
    assert sc.metrics.ece(world.new.values, answer) < 0.005
    # What the sampled ratings say, the truth says without their noise.
    right = np.take_along_axis(world.truth, np.searchsorted(answer.scores, answer.mode())[:, None], axis=1)[:, 0]
    assert right.mean() == pytest.approx(answer.reliability().mean(), abs=0.003)
    assert sc.metrics.nll(world.new.values, answer) < sc.metrics.nll(world.new.values, ask(model, world.new)) - 0.01


def test_calibration_does_not_cost_unseen_ratings_their_likelihood(small):
    train, test = sc.holdout(small[0], random_state=0)
    for model in (sc.BeMF(random_state=0), sc.NaiveBayes(), sc.GlobalFrequency()):
        better = sc.calibrate(model, train, n_splits=3)
        before, after = (sc.metrics.nll(test.values, ask(m, test)) for m in (model.fit(train), better))
        assert after < before + 0.002
        assert better.calibration_gain_ >= 0


# The choice.


def distorted(probs, method, rng):
    """The truth, moved in a way that the method can undo and simpler ones cannot."""
    if method == "temperature":
        return temper(sc.Distribution(probs, np.arange(1, 6)), 0.5).probs
    if method == "vector":
        return recalibrate(probs, identity(5) + np.array([[1, 0.5, 0, -0.5, 0.3], [1, 0, -1, 0, 0.5], [0] * 5, [0] * 5]))  # fmt: skip
    if method == "isotonic":
        below = np.interp(probs.cumsum(axis=1)[:, :-1], [0, 0.2, 0.4, 0.8, 1], [0, 0.02, 0.5, 0.55, 1])
        return np.diff(below, axis=1, prepend=0, append=1)
    return probs


@pytest.mark.parametrize("method", METHODS)
def test_auto_finds_the_simplest_map_that_undoes_a_distortion(small, method):
    ratings, truth = small
    rng = np.random.default_rng(0)
    probs = distorted(truth.probs, method, rng)
    group = rng.integers(5, size=len(ratings))
    choice = choose_map(probs, ratings.score.astype(int), group)
    assert choice.method == method
    assert (choice.calibration is None) == (method == "none")
    assert (choice.gain == 0) == (method == "none")
    if method != "none":
        loss = sc.metrics.nll(ratings.values, sc.Distribution(recalibrate(probs, choice.calibration), ratings.scores))
        assert loss < sc.metrics.nll(ratings.values, truth) + 0.01


def test_the_truth_is_left_alone_again_and_again():
    """The choice is made on ratings that the maps have not seen: chance must not look like a gain."""
    chosen = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        probs = rng.dirichlet(np.ones(4), 2000)
        chosen.append(choose_map(probs, draw(probs, rng), rng.integers(5, size=2000)).method)
    assert chosen.count("none") >= 8


def test_the_loss_that_decides_is_that_of_ratings_the_map_has_not_seen(small):
    """With as many groups as ratings support, a map that learnt its own ratings would always win; here it must not."""
    ratings, truth = small
    some = slice(0, 60)
    probs, score = truth.probs[some], ratings.score[some].astype(int)
    own = sc.metrics.nll(ratings.values[some], sc.Distribution(recalibrate(probs, fit_map(probs, score, "isotonic")), ratings.scores))  # fmt: skip
    assert own < sc.metrics.nll(ratings.values[some], truth[some])
    assert choose_map(probs, score, np.arange(60) % 5).method == "none"


# The maps.


@pytest.mark.parametrize("method", MAPPED)
def test_maps_give_distributions(small, method):
    ratings, _ = small
    probs = np.random.default_rng(1).dirichlet(np.full(5, 0.1), len(ratings))
    probs[:50] = np.eye(5)[np.arange(50) % 5]
    calibration = fit_map(probs, ratings.score.astype(int), method)
    assert recalibration.is_sound(calibration)
    moved = recalibrate(probs, calibration)
    assert np.abs(moved.sum(axis=1) - 1).max() < 1e-12
    assert (moved > 0).all()
    assert np.isfinite(sc.metrics.nll(ratings.values, sc.Distribution(moved, ratings.scores)))


def test_the_identity_changes_nothing(small):
    _, truth = small
    assert recalibrate(truth.probs, identity(5)) == pytest.approx(truth.probs, abs=1e-9)


def test_a_plain_loop_gives_the_same(small):
    ratings, truth = small
    calibration = fit_map(temper(truth, 0.6).probs, ratings.score.astype(int), "isotonic")
    cuts = calibration[4:].reshape(2, -1, 5)
    for probs in truth.probs[:50]:
        below = np.maximum.accumulate(
            [np.interp(probs[: s + 1].sum(), cuts[0, :, s], cuts[1, :, s]) for s in range(4)] + [1.0]
        )
        first = 0.99 * np.diff(below, prepend=0) + 0.01 * probs
        weights = [calibration[SCALE, s] * np.log(first[s]) + calibration[SHIFT, s] for s in range(5)]
        weights[first.argmax()] += np.interp(first.max(), calibration[2], calibration[LIFT])
        weights = np.exp(weights)
        assert recalibrate(probs[None], calibration)[0] == pytest.approx(weights / weights.sum(), abs=1e-9)


def test_maps_that_cross_leave_no_negative_probability():
    cuts = np.array([[0, 0, 0], [0.5, 0.6, 1], [1, 1, 1], [0, 0, 0], [0.9, 0.3, 1], [1, 1, 1]])
    moved = recalibrate(np.array([[0.5, 0.1, 0.4]]), np.concatenate([identity(3), cuts]))
    # P(r <= 1) goes to 0.9, P(r <= 2) to 0.3, which is less: nothing is left between them but what is mixed in.
    assert moved[0] == pytest.approx(0.99 * np.array([0.9, 0, 0.1]) + 0.01 * np.array([0.5, 0.1, 0.4]))


def test_slopes_are_those_of_the_loss(small):
    ratings, truth = small
    loss = _Loss(truth.probs[:300], ratings.score[:300].astype(int))
    rng = np.random.default_rng(0)
    at = loss.start + 0.3 * rng.normal(size=15)
    gradient, curvature = loss.slopes(at)
    for direction in np.eye(15):
        step = 1e-5 * direction
        assert (loss.value(at + step) - loss.value(at - step)) / 2e-5 == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-4)  # fmt: skip
        change = (loss.slopes(at + step)[0] - loss.slopes(at - step)[0]) / 2e-5
        assert change == pytest.approx(curvature @ direction, rel=1e-4, abs=1e-3)


def test_at_the_minimum_what_is_said_happens_for_every_score_and_around_every_knot(small):
    ratings, truth = small
    probs, score = temper(truth, 0.4).probs, ratings.score.astype(int)
    calibration = fit_logits(probs, score)
    moved = recalibrate(probs, calibration)
    # The ridge holds back as much as its slope at the minimum.
    assert moved.sum(axis=0) - np.bincount(score, minlength=5) == pytest.approx(-RIDGE * calibration[SHIFT], abs=0.05)
    mode, each = probs.argmax(axis=1), np.arange(len(probs))
    excess = moved[each, mode] - (score == mode)
    for knot in range(5):
        around = np.interp(probs.max(axis=1), calibration[2], np.eye(5)[knot])
        assert (around * excess).sum() == pytest.approx(-RIDGE * calibration[LIFT, knot], abs=0.05)


def test_one_scale_is_the_temperature(small):
    ratings, truth = small
    answer = temper(truth, 0.5)
    calibration = fit_logits(answer.probs, ratings.score.astype(int), one_scale=True)
    assert np.ptp(calibration[SCALE]) < 1e-12
    assert np.abs(calibration[[SHIFT, LIFT]]).max() == 0
    assert 1 / calibration[SCALE, 0] == pytest.approx(fit_temperature(ratings.values, answer), rel=3e-3)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=12))
def test_pooling_gives_the_nearest_ascending_values(pairs):
    values, weight = np.array(pairs).T
    assert _ascending(values, weight) == pytest.approx(isotonic_regression(values, weights=weight).x, abs=1e-9)


# The doors.


@pytest.mark.parametrize("method", MAPPED)
def test_every_door_gives_the_calibrated_answer(small, bold, calibrated, method, tmp_path):
    ratings, _ = small
    model = calibrated[method]
    raw, answer = ask(bold, ratings), ask(model, ratings)
    assert np.abs(raw.probs - answer.probs).max() > 0.05
    # The map comes before rows of single precision are made to sum to one exactly.
    assert np.abs(answer.probs - recalibrate(raw.probs, model.calibration_)).max() < 1e-5
    frame = model.predict(ratings.users[ratings.user], ratings.items[ratings.item])
    assert np.array_equal(frame["reliability"], answer.reliability())
    listed = model.recommend(n=5)
    assert model.predict(listed["user"], listed["item"])["reliability"].equals(listed["reliability"])
    model.save(tmp_path / "m")
    for other in (sc.load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(ask(other, ratings).probs, answer.probs)
        assert other.calibration_gain_ == model.calibration_gain_


@pytest.mark.parametrize("method", MAPPED)
def test_one_pair_at_a_time_equals_all_at_once(small, calibrated, method):
    ratings, _ = small
    answer = ask(calibrated[method], ratings)
    for row in range(0, 18000, 1801):
        user, item = int(ratings.users[ratings.user[row]]), int(ratings.items[ratings.item[row]])
        assert np.array_equal(calibrated[method].predict_proba(user, item).probs[0], answer.probs[row])


def test_unknown_pairs_keep_the_prior(calibrated):
    model = calibrated["vector"]
    assert np.array_equal(model.predict_proba(12345, 1).probs[0], model.prior_)


def test_none_leaves_the_answers_as_they_are(small, bold, calibrated):
    assert not hasattr(calibrated["none"], "calibration_")
    assert calibrated["none"].calibration_gain_ == 0
    assert np.array_equal(ask(calibrated["none"], small[0]).probs, ask(bold, small[0]).probs)


def test_the_model_that_was_given_is_left_alone(small, bold, calibrated):
    assert not hasattr(bold, "calibration_")
    assert ask(calibrated["vector"], small[0]).probs is not ask(bold, small[0]).probs
    unfitted = sc.ItemFrequency()
    assert sc.calibrate(unfitted, small[0], n_splits=2).is_fitted
    assert not unfitted.is_fitted


def test_a_fit_is_reused_and_a_second_calibration_starts_afresh(small, calibrated, monkeypatch):
    ratings, _ = small
    fits = []
    fit = sc.ItemFrequency._fit
    monkeypatch.setattr(sc.ItemFrequency, "_fit", lambda self, table: (fits.append(len(table)), fit(self, table))[1])
    model = sc.ItemFrequency().fit(ratings)
    once = sc.calibrate(model, ratings, "vector", n_splits=3)
    assert fits == [18000, 12000, 12000, 12000]
    assert np.array_equal(sc.calibrate(once, ratings, "vector", n_splits=3).calibration_, once.calibration_)
    assert len(fits) == 7
    sc.calibrate(sc.ItemFrequency(), ratings.take(np.arange(9000)), n_splits=3)
    assert fits[7:] == [6000, 6000, 6000, 9000]


def test_users_folded_in_are_not_taken_for_the_ratings_of_a_fit(small):
    """The clones would know these users' ratings only, and the model everybody's."""
    ratings, _ = small
    half = ratings.take(np.arange(len(ratings) // 2))
    folded = sc.BiasedMF(random_state=0).fit(ratings).fold_in(half)
    with pytest.raises(DataError, match="calibrate needs ratings that the model has not seen"):
        sc.calibrate(folded, half, "temperature", n_splits=2)


def test_fit_forgets_the_calibration_and_new_ratings_keep_it(small, calibrated):
    ratings, _ = small
    model = copy.deepcopy(calibrated["vector"])
    folded = model.fold_in(ratings.take(ratings.user < 3))
    assert np.array_equal(folded.calibration_, model.calibration_)
    grown = copy.deepcopy(model).partial_fit(
        sc.Ratings.from_arrays([10**6] * 3, [1, 2, 3], [5, 4, 1], scores=ratings.scores)
    )
    assert np.array_equal(grown.calibration_, model.calibration_)
    assert grown.predict(10**6, 4)["known"].to_list() == [True]
    model.fit(ratings)
    assert not hasattr(model, "calibration_")
    assert not hasattr(model, "calibration_gain_")


def test_the_same_seed_gives_the_same_bits(small, bold):
    one, other = (sc.calibrate(bold, small[0], n_splits=3, random_state=7) for _ in range(2))
    assert np.array_equal(one.calibration_, other.calibration_)


# Mistakes.


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c[:3],
        lambda c: c[:-1],
        lambda c: np.where(np.arange(5) == 4, 1e9, c),
        lambda c: np.concatenate([c[:2], c[2:3, ::-1], c[3:]]),
        lambda c: np.concatenate([c[:4], c[4:][::-1]]),
        lambda c: np.concatenate([c[:4], c[4:] * 2]),
        lambda c: np.concatenate([c[:4], -c[4:]]),
    ],
)
def test_a_file_with_a_broken_calibration_is_refused(calibrated, change, tmp_path):
    model = copy.deepcopy(calibrated["isotonic"])
    model.calibration_ = np.ascontiguousarray(change(model.calibration_))
    model.save(tmp_path / "m")
    with pytest.raises(FileFormatError, match=r"is damaged: calibration_ is no calibration\."):
        sc.load(tmp_path / "m")


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        st.tuples(st.integers(0, 9), st.just(3)),
        elements=st.sampled_from([-6e4, -1.0, 0.0, 0.25, 0.5, 1.0, 6e4]),
    )
)
def test_whatever_is_sound_gives_distributions(calibration):
    probs = np.array([[1, 0, 0], [0, 0.5, 0.5], [0.2, 0.3, 0.5]])
    if recalibration.is_sound(calibration):
        moved = recalibrate(probs, calibration)
        assert np.isfinite(moved).all()
        assert moved.sum(axis=1) == pytest.approx(1)


def test_a_calibration_for_another_scale_is_refused(calibrated, tmp_path):
    model = copy.deepcopy(calibrated["vector"])
    model.calibration_ = model.calibration_[:, :4]
    model.save(tmp_path / "m")
    with pytest.raises(FileFormatError, match="calibration_ has 4 scores instead of 5"):
        sc.load(tmp_path / "m")


def test_mistakes_are_named(small):
    ratings, _ = small
    with pytest.raises(
        UnknownNameError, match=r"unknown method 'isotone'\. Did you mean 'isotonic'\? Known: auto, iso"
    ):
        sc.calibrate(sc.ItemFrequency(), ratings, "isotone")
    with pytest.raises(ParameterError, match="n_splits must be a whole number from 2 to the 18,000 ratings, got 1"):
        sc.calibrate(sc.ItemFrequency(), ratings, n_splits=1)
    for wrong in ("bayes", sc.NaiveBayes):
        with pytest.raises(ParameterError, match=r"calibrate needs a model, such as NaiveBayes\(\), got "):
            sc.calibrate(wrong, ratings)
    with pytest.raises(DataError, match="calibrate needs Ratings, got str"):
        sc.calibrate(sc.ItemFrequency(), "ratings")
    lonely = sc.Ratings.from_arrays([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 3])
    with pytest.raises(DataError, match="calibrate needs held-out ratings whose user and item have others, got 0 of 4"):
        sc.calibrate(sc.ItemFrequency(), lonely, n_splits=2)
