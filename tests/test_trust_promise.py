"""Thresholds that keep a promise: as often as they say, and where the obvious choice does not."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from world import ask, draw, make_world

import starcast as sc
from starcast.errors import DataError, NotFittedError, ParameterError, PromiseError, UnknownNameError
from starcast.trust.evidence import betting_p_value, binomial_p_value, reject_in_turn
from starcast.trust.trial import Trial, lowest

GRID = np.arange(201) / 200


@pytest.fixture(scope="module")
def model():
    return sc.ResBeMF(n_factors=2, random_state=0, n_jobs=1).fit(make_world().train)


class Population:
    """All pairs of the world with what the model says and what is true of them."""

    def __init__(self, model):
        world = make_world()
        answer = ask(model, world.new)
        self.probs, self.scores = world.truth, answer.scores
        self.reliability, self.mode = answer.reliability(), answer.probs.argmax(axis=1)
        self.right = self.probs[np.arange(len(self.probs)), self.mode]
        self.error = (self.probs * np.abs(self.scores - answer.mode()[:, None])).sum(axis=1) / 4
        self.user = world.new.user

    def draw(self, rows, rng):
        """Reliabilities, whether wrong, and how far off, of ratings drawn anew."""
        score = draw(self.probs[rows], rng)
        off = np.abs(self.scores[score] - self.scores[self.mode[rows]]) / 4
        return self.reliability[rows], (off > 0).astype(float), off

    def risk(self, promise, theta):
        """What is truly risked with a threshold, over all pairs alike."""
        kept = self.reliability >= theta
        if promise == "coverage":
            return 1 - kept.mean()
        return 1 - self.right[kept].mean() if promise == "accuracy" else self.error[kept].mean()


@pytest.fixture(scope="module")
def population(model):
    return Population(model)


def naive(promise, reliability, loss, risk):
    """The threshold at which the promise is kept on the given ratings themselves."""
    kept = reliability >= GRID[:, None]
    if promise == "coverage":
        return GRID[(~kept).mean(axis=1) <= risk].max()
    good = [theta for theta, k in zip(GRID, kept, strict=True) if k.any() and loss[k].mean() <= risk]
    return min(good, default=None)


# The promise, two hundred times.


@pytest.mark.parametrize(
    ("promise", "risk", "n"),
    [("accuracy", 0.4, 1000), ("mae", 0.12, 1500), ("coverage", 0.3, 500)],
)
def test_the_promise_is_kept_as_often_as_stated_and_the_obvious_threshold_breaks_it(population, promise, risk, n):
    rng = np.random.default_rng(0)
    broken, found, obvious = 0, 0, 0
    for _ in range(200):
        reliability, wrong, off = population.draw(rng.integers(len(population.user), size=n), rng)
        loss = off if promise == "mae" else wrong
        chosen = Trial(promise, reliability, loss, level=0.1).search(GRID, risk)
        if chosen is not None:
            found += 1
            broken += population.risk(promise, chosen[0]) > risk
        theta = naive(promise, reliability, loss, risk)
        obvious += theta is not None and population.risk(promise, theta) > risk
    assert broken <= 0.1 * 200
    assert found >= 0.5 * 200  # never answering would be easy
    assert obvious > 0.25 * 200


def test_with_users_as_the_unit_the_promise_survives_ratings_that_are_not_independent(population):
    """Forty users with a hundred ratings each: what holds for independent ratings breaks, what counts users holds."""
    rng = np.random.default_rng(0)
    rows_of = [np.flatnonzero(population.user == u)[:100] for u in range(600)]
    rows_of = [rows for rows in rows_of if len(rows) == 100]
    right, reliability = (np.array([column[rows] for rows in rows_of]) for column in (population.right, population.reliability))  # fmt: skip

    def risk_by_user(theta):
        kept = reliability >= theta
        some = kept.any(axis=1)
        return 1 - ((right * kept).sum(axis=1)[some] / kept.sum(axis=1)[some]).mean()

    def risk_by_rating(theta):
        kept = reliability >= theta
        return 1 - right[kept].mean()

    broken = {"user": 0, "rating": 0}
    for _ in range(200):
        users = rng.integers(len(rows_of), size=40)
        says, wrong, _ = population.draw(np.concatenate([rows_of[u] for u in users]), rng)
        by_user = Trial("accuracy", says, wrong, np.repeat(np.arange(40), 100), 0.1).search(GRID, 0.45)
        by_rating = Trial("accuracy", says, wrong, None, 0.1).search(GRID, 0.45)
        broken["user"] += by_user is not None and risk_by_user(by_user[0]) > 0.45
        broken["rating"] += by_rating is not None and risk_by_rating(by_rating[0]) > 0.45
    assert broken["user"] <= 20
    assert broken["rating"] > 20


@pytest.mark.parametrize("options", [{"accuracy": 0.6}, {"mae": 0.5}, {"coverage": 0.7}, {"accuracy": 0.6, "kind": "share"}, {"mae": 0.45, "kind": "error", "point": "median"}], ids=str)  # fmt: skip
def test_the_promise_is_kept_through_the_public_door(model, options):
    world, rng = make_world(), np.random.default_rng(1)
    kind = "error" if options.get("kind") == "error" else "mode"
    answer = ask(model, world.new)
    point = answer.point(options.get("point", "mode"))
    error = (world.truth * np.abs(world.train.scores - point[:, None])).sum(axis=1)
    right = (world.truth * (world.train.scores == point[:, None])).sum(axis=1)
    kept_promises = 0
    for _ in range(5):
        found = sc.choose_threshold(model, world.new.take(rng.permutation(200_000)[:4000]), **options)
        kept = answer.keep(found)
        assert found.kind == kind
        assert kept.mean() == pytest.approx(found.coverage, abs=0.05)
        true = {"accuracy": right[kept].mean(), "mae": -error[kept].mean(), "coverage": kept.mean()}[found.promise]
        kept_promises += true >= (-found.target if found.promise == "mae" else found.target)
    assert kept_promises == 5


# What is returned.


def test_the_threshold_tells_what_it_promises(model):
    world = make_world()
    new = world.new.take(np.arange(5000))
    found = sc.choose_threshold(model, new, accuracy=0.6, confidence=0.95)
    answer = ask(model, new)
    kept = answer.keep(found)
    assert (found.promise, found.target, found.confidence, found.unit, found.n_ratings) == ("accuracy", 0.6, 0.95, "rating", 5000)  # fmt: skip
    assert found.observed == pytest.approx((answer.mode() == new.values)[kept].mean())
    assert found.coverage == pytest.approx(kept.mean())
    assert 0.6 <= found.bound < found.observed
    # The exact lower limit at the whole level is only a little higher than at the level of the test.
    n, k = kept.sum(), (answer.mode() == new.values)[kept].sum()
    assert stats.beta.ppf(0.001, k, n - k + 1) < found.bound <= stats.beta.ppf(0.05, k, n - k + 1)


@pytest.mark.parametrize(("options", "better"), [({"accuracy": 0.6}, 1), ({"mae": 0.5}, -1), ({"coverage": 0.5}, 1)], ids=str)  # fmt: skip
def test_the_bound_keeps_the_target_for_every_promise(model, options, better):
    found = sc.choose_threshold(model, make_world().new.take(np.arange(5000)), **options)
    assert better * found.bound >= better * found.target
    assert better * found.observed > better * found.bound


def test_more_confidence_predicts_less(model):
    new = make_world().new.take(np.arange(5000))
    thetas = [sc.choose_threshold(model, new, accuracy=0.6, confidence=c) for c in (0.5, 0.9, 0.999)]
    assert thetas[0] <= thetas[1] < thetas[2]
    assert sc.choose_threshold(model, new, accuracy=0.55) < sc.choose_threshold(model, new, accuracy=0.65)
    assert sc.choose_threshold(model, new, coverage=0.7) < sc.choose_threshold(model, new, coverage=0.5)


def test_users_count_alike_or_ratings_do(model):
    new = make_world().new.take(np.arange(20000))
    found = sc.choose_threshold(model, new, accuracy=0.55, unit="user")
    answer = ask(model, new)
    kept = answer.keep(found)
    right = (answer.mode() == new.values)[kept]
    means = [right[new.user[kept] == u].mean() for u in np.unique(new.user[kept])]
    assert found.observed == pytest.approx(np.mean(means))
    assert found.observed != pytest.approx(right.mean(), abs=1e-6)


def test_a_threshold_is_a_number_and_predict_goes_by_its_kind(model, tmp_path):
    world = make_world()
    new = world.new.take(np.arange(300))
    theta = sc.Threshold(0.85, "error")
    assert isinstance(theta, float)
    assert theta == 0.85
    assert hash(theta) == hash(0.85)
    assert f"{theta:.1f}" == "0.8"
    assert json.dumps([theta]) == "[0.85]"
    assert repr(theta).startswith("Threshold(threshold=0.85, kind='error', promise=''")
    for again in (pickle.loads(pickle.dumps(theta)), copy.deepcopy(theta)):
        assert (again, again.kind) == (0.85, "error")
    with pytest.raises(AttributeError):
        theta.kind = "mode"
    answer = ask(model, new)
    frame = model.predict(new.users[new.user], new.items[new.item], theta)
    assert np.array_equal(frame["reliability"], answer.reliability("error"))
    assert frame["prediction"].is_null().to_list() == (answer.reliability("error") < 0.85).tolist()
    assert 0 < frame["prediction"].null_count() < 300
    listed = model.recommend([1, 2, 3], 5, theta)
    assert (listed["reliability"] >= 0.85).all()
    again = model.predict(listed["user"], listed["item"], theta)
    assert np.array_equal(again["reliability"], listed["reliability"])
    assert np.array_equal(answer.keep(theta), answer.keep(0.85, "error"))
    kept = answer.keep(theta)
    by_user = np.mean([kept[new.user == u].mean() for u in range(len(new.users))])
    assert sc.evaluate(model, new, [theta])["coverage"] == pytest.approx([by_user])


def test_shares_are_thresholds_between_the_reliabilities_of_training_pairs(model):
    world = make_world()
    found = sc.choose_threshold(model, world.new.take(np.arange(4000)), accuracy=0.6, kind="share")
    reliability = ask(model, world.train).reliability()
    share = (reliability >= found).mean() * 100
    assert share == pytest.approx(round(share), abs=0.2)


def test_the_order_of_the_ratings_changes_little_and_their_names_nothing(model):
    new = make_world().new.take(np.arange(4000))
    found = sc.choose_threshold(model, new, mae=0.5)
    moved = sc.choose_threshold(model, new.take(np.arange(4000)[::-1]), mae=0.5)
    assert found == pytest.approx(moved, abs=0.05)


# When it cannot be kept.


def test_a_promise_that_cannot_be_kept_is_refused_with_the_best_that_can(model):
    new = make_world().new.take(np.arange(2000))
    message = r"accuracy of at least 0\.97 cannot be promised with a confidence of 0\.9 on 2,000 ratings\. The best that can is 0\.\d+, with θ = 0\.\d+ and a coverage of \d+\.\d%\. Ask for less, or give more ratings\."  # fmt: skip
    with pytest.raises(PromiseError, match=message) as refused:
        sc.choose_threshold(model, new, accuracy=0.97)
    error = refused.value
    found = sc.choose_threshold(model, new, accuracy=error.best)
    assert found == error.threshold
    assert found.coverage == error.coverage
    with pytest.raises(PromiseError):
        sc.choose_threshold(model, new, accuracy=error.best + 0.002)


def test_an_error_that_cannot_be_promised_is_told_in_stars(model):
    with pytest.raises(
        PromiseError, match=r"mae of at most 0\.01 cannot be promised .* The best that can is [01]\.\d+, with"
    ):
        sc.choose_threshold(model, make_world().new.take(np.arange(2000)), mae=0.01)


def test_nothing_can_be_promised_on_a_rating(model):
    with pytest.raises(PromiseError, match=r"on 1 rating\. The best that can is nothing\. Ask"):
        sc.choose_threshold(model, make_world().new.take([0]), accuracy=0.5)


def test_any_coverage_can_be_promised(model):
    assert sc.choose_threshold(model, make_world().new.take([0]), coverage=0.99) == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ParameterError, "choose_threshold keeps exactly one promise of accuracy, mae or coverage, got none"),
        ({"accuracy": 0.5, "mae": 1}, ParameterError, "exactly one promise of accuracy, mae or coverage, got accuracy, mae"),
        ({"accuracy": 1.0}, ParameterError, r"accuracy must lie between 0 and 1, got 1\.0"),
        ({"accuracy": "high"}, ParameterError, "accuracy must lie between 0 and 1, got 'high'"),
        ({"mae": 4}, ParameterError, "mae must lie between 0 and 4, got 4"),
        ({"coverage": float("nan")}, ParameterError, "coverage must lie between 0 and 1, got nan"),
        ({"coverage": 0.5, "confidence": 1}, ParameterError, "confidence must lie between 0 and 1, got 1"),
        ({"coverage": 0.5, "kind": "modes"}, UnknownNameError, r"unknown kind 'modes'\. Did you mean 'mode'\?"),
        ({"coverage": 0.5, "unit": "item"}, UnknownNameError, "unknown unit 'item'.* Known: rating, user"),
        ({"coverage": 0.5, "point": "max"}, UnknownNameError, "unknown point 'max'"),
    ],
    ids=str,
)  # fmt: skip
def test_mistakes_are_named(model, options, error, message):
    with pytest.raises(error, match=message):
        sc.choose_threshold(model, make_world().new.take(np.arange(10)), **options)


def test_ratings_that_the_model_has_seen_are_refused(model):
    world = make_world()
    mixed = sc.Ratings.from_arrays(
        *(np.concatenate([side.users[side.user][:5], world.new.users[world.new.user][:7]]) for side in [world.train]),
        np.concatenate([world.train.items[world.train.item][:5], world.new.items[world.new.item][:7]]),
        np.ones(12), scores=world.train.scores,
    )  # fmt: skip
    with pytest.raises(DataError, match=r"choose_threshold needs ratings that the model has not seen, but it was fitted on 5 pairs of these 12\. Set some aside"):  # fmt: skip
        sc.choose_threshold(model, mixed, accuracy=0.5)
    with pytest.raises(DataError, match="choose_threshold needs at least one rating, got none"):
        sc.choose_threshold(model, world.new.take([]), accuracy=0.5)
    with pytest.raises(DataError, match="choose_threshold needs Ratings, got list"):
        sc.choose_threshold(model, [], accuracy=0.5)
    with pytest.raises(NotFittedError):
        sc.choose_threshold(sc.ResBeMF(), world.new, accuracy=0.5)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "0.5", True])
def test_a_threshold_lies_between_zero_and_one(value):
    with pytest.raises(ParameterError, match=r"threshold must be a number from 0 to 1, got"):
        sc.Threshold(value)
    with pytest.raises(UnknownNameError, match="unknown kind 'share'"):
        sc.Threshold(0.5, "share")


# The evidence.


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(0, 3000), st.floats(0, 1), st.floats(0, 1))
def test_the_binomial_tail_is_exact(n, share, risk):
    k = round(share * n)
    losses = np.repeat([1.0, 0.0], [k, n - k])
    assert binomial_p_value(losses, risk) == pytest.approx(stats.binom.cdf(k, n, risk) if n else 1, rel=1e-8, abs=1e-12)


def slow_betting(losses, risk, level):
    capital = best = 1.0
    for i, loss in enumerate(losses):
        seen = losses[:i]
        means = [(0.5 + seen[: j + 1].sum()) / (2 + j) for j in range(i)]
        variance = (0.25 + sum((x - m) ** 2 for x, m in zip(seen, means, strict=True))) / (1 + i)
        capital *= 1 - min(1, np.sqrt(2 * np.log(1 / level) / (len(losses) * variance))) * (loss - risk)
        best = max(best, capital)
    return 1 / best


def test_bets_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    for n, risk in ((1, 0.5), (7, 0.3), (60, 0.2)):
        losses = rng.beta(1, 5, n)
        assert betting_p_value(losses, risk, 0.05) == pytest.approx(slow_betting(losses, risk, 0.05))


@pytest.mark.parametrize("kind", ["two points", "beta", "rare"])
def test_a_gambler_does_not_get_rich_where_the_risk_is_as_high_as_feared(kind):
    rng = np.random.default_rng(0)
    draws = {"two points": lambda: (rng.random(150) < 0.3).astype(float), "beta": lambda: rng.beta(3, 7, 150), "rare": lambda: np.where(rng.random(150) < 0.01, 1.0, 0.29 / 0.99)}  # fmt: skip
    p_values = np.array([betting_p_value(draws[kind](), 0.3) for _ in range(3000)])
    for level in (0.01, 0.05, 0.1):
        assert (p_values <= level).mean() <= level + 3 * np.sqrt(level / 3000)
    assert betting_p_value(draws[kind]() * 0.5, 0.3) < 0.01


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.01, 0.5))
def test_all_on_the_first_is_fixed_sequence_testing(p_values, level):
    shares = np.zeros(len(p_values))
    shares[0] = level
    passed = np.cumprod(np.array(p_values) <= level).astype(bool)
    assert np.array_equal(reject_in_turn(p_values, shares) > 0, passed)


def test_true_hypotheses_are_rejected_as_seldom_as_promised():
    """Fallback testing with uniform p-values, whether they move together or not, and false hypotheses between."""
    rng = np.random.default_rng(0)
    shares = np.full(10, 0.01)
    for together in (False, True):
        wrong = 0
        for _ in range(4000):
            p_values = np.full(10, rng.random()) if together else rng.random(10)
            p_values[[0, 1, 2, 5, 6]] = 0
            wrong += (reject_in_turn(p_values, shares)[[3, 4, 7, 8, 9]] > 0).any()
        assert wrong / 4000 <= 0.1 + 3 * np.sqrt(0.09 / 4000)


def test_the_lowest_number_that_passes_is_found():
    assert lowest(lambda x: x >= 0.3) == pytest.approx(0.3, abs=1e-6)
    assert lowest(lambda x: False) == 1
