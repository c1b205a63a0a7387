"""Comparisons, calibration on new ratings, and cold rows of a chain."""

import copy

import numpy as np
import polars as pl
import pytest

import starcast as sc
from starcast.bootstrap import Resampled, paired_difference, resample, resample_statistics
from starcast.evaluate import answer_for, compare
from starcast.models.ordinal import NOBODY
from starcast.objectives import measure

MEASURES = ["nll", "brier", "rps", "rmse", "ece", "aurc", "aurc_mae", "1-MAE@0.3", "coverage@0.3", "accuracy@0", "mAP@0", "cumulative 1-MAE"]  # fmt: skip


@pytest.fixture(scope="module")
def parts():
    ratings, _ = sc.make_ratings(n_users=40, n_items=30, density=0.4, random_state=0)
    return sc.holdout(ratings, test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def answer(parts):
    return answer_for(sc.ItemFrequency().fit(parts.train), parts.test)


def resampled_by_hand(test, answer, users, items, name):
    """The measure on a table in which users and items that were drawn twice are two users and two items."""
    row, user, item = [], [], []
    for k, code in enumerate(users):
        for rating in np.flatnonzero(test.user == code):
            for double in np.flatnonzero(items == test.item[rating]):
                row.append(rating)
                user.append(k)
                item.append(test.item[rating] * 1000 + double)
    order = np.argsort(item, kind="stable")  # codes in the order of the old ones, which breaks ties in lists
    row, user, item = (np.array(column)[order] for column in (row, user, item))
    table = sc.Ratings.from_arrays(user, item, test.values[row], scores=test.scores)
    return measure(table, sc.Distribution(answer.probs[row], answer.scores), [name])[name]


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("unit", ["both", "item"])
def test_a_resample_of_items_holds_the_ratings_of_the_drawn_items(parts, answer, name, unit):
    test = parts.test
    found = resample(test, {"item": answer}, [name], unit=unit, n_resamples=2, random_state=7)[name]["item"]
    rng = np.random.default_rng(7)
    present = np.unique(test.user), np.unique(test.item)
    for value in found.values:
        users, items = (
            some if unit == "item" and of == "user" else some[rng.integers(0, len(some), len(some))]
            for of, some in zip(("user", "item"), present, strict=True)
        )
        assert value == pytest.approx(resampled_by_hand(test, answer, users, items, name), rel=1e-6)
    assert found.value == pytest.approx(measure(test, answer, [name])[name], rel=1e-6)


def test_differences_that_hang_on_items_need_items_to_be_resampled():
    # Two answers whose log-losses differ by an effect of the item alone, of mean zero: no difference should be clear.
    n_users, n_items, clear = 100, 12, {"both": 0, "user": 0}
    user, item = np.divmod(np.arange(n_users * n_items), n_items)
    test = sc.Ratings.from_arrays(user, item, np.ones(len(user)), scores=[1, 2])
    for world in range(40):
        rng = np.random.default_rng(world)
        effect = rng.normal(0, 0.1, n_items)[item] + rng.normal(0, 0.1, len(item))
        answers = {}
        for name, sign in (("one", 1), ("other", -1)):
            right = 0.5 * np.exp(sign * effect / 2)
            answers[name] = sc.Distribution(np.stack([right, 1 - right], axis=1), [1, 2])
        for unit in clear:
            found = resample(test, answers, ["nll"], unit=unit, n_resamples=200)["nll"]
            clear[unit] += paired_difference(found["one"], found["other"])["clear"]
    assert clear["both"] <= 6  # 2 of 40 are expected, 12 items are few
    assert clear["user"] >= 20


def test_a_comparison_says_whether_a_difference_is_clear(parts):
    models = {"item": sc.ItemFrequency(), "global": sc.GlobalFrequency()}
    fitted = {name: model.fit(parts.train) for name, model in models.items()}
    table = compare({**fitted, "again": fitted["item"]}, parts.test, ["nll"], n_resamples=100)
    assert [row["clear"] for row in table] == [row["low"] > 0 or row["high"] < 0 for row in table]
    assert table.where(model="item", other="again").rows[0]["clear"] is False
    assert table.where(model="item", other="global").rows[0]["clear"] is True
    with pytest.raises(sc.StarcastError, match="unknown unit 'film'"):
        compare(fitted, parts.test, unit="film")


def test_paired_differences_are_clear_where_intervals_overlap():
    shared = np.random.default_rng(0).normal(0, 1, 500)
    one, other = Resampled(0.0, shared), Resampled(0.1, shared + 0.1)
    found = paired_difference(one, other, best="max")
    assert np.quantile(one.values, 0.975) > np.quantile(other.values, 0.025)
    assert (found["clear"], found["better"]) == (True, 0.0)
    assert (found["low"], found["high"]) == pytest.approx((-0.1, -0.1))


def test_an_infinite_difference_is_clear():
    found = paired_difference(Resampled(1.0, np.ones(40)), Resampled(np.inf, np.full(40, np.inf)))
    assert (found["low"], found["high"], found["clear"]) == (-np.inf, -np.inf, True)
    found = paired_difference(Resampled(np.inf, np.full(9, np.inf)), Resampled(np.inf, np.full(9, np.inf)))
    assert np.isnan([found["difference"], found["low"], found["high"]]).all()
    assert found["clear"] is False


def test_resamples_without_a_rating_do_not_count():
    test = sc.Ratings.from_arrays(["a", "b"], ["x", "y"], [1, 2])
    answers = {
        "one": sc.Distribution([[0.9, 0.1], [0.2, 0.8]], [1, 2]),
        "two": sc.Distribution([[0.5, 0.5]] * 2, [1, 2]),
    }
    for name in MEASURES:
        found = resample(test, answers, [name], n_resamples=20)[name]
        assert np.isnan(found["one"].values).any() or name.startswith("cumulative")
    row = compare([sc.GlobalFrequency().fit(test), sc.GlobalFrequency().fit(test)], test, ["nll"], n_resamples=20).rows[
        0
    ]
    assert row["better"] == 0.5


def test_any_statistic_of_weights_can_be_resampled(parts):
    n_ratings = np.bincount(parts.test.user, minlength=len(parts.test.users))
    found = resample_statistics(parts.test, {"size": lambda users: users @ n_ratings}, unit="user", n_resamples=5)
    assert found["size"].value == len(parts.test)
    assert len(found["size"].values) == 5


# Cold rows of a chain.


def correlation_of_noise(users, items):
    """The correlation over draws of what users' and items' factors deviate from their means, all columns pooled."""
    users, items = (rows - rows.mean(axis=-1, keepdims=True) for rows in (users, items))
    return float((users * items).sum() / np.sqrt((users**2).sum() * (items**2).sum()))


@pytest.fixture(scope="module")
def chain():
    ratings, _ = sc.make_ratings(n_users=60, n_items=40, density=0.5, random_state=2)
    model = sc.OrdinalMF(n_factors=4, n_spread_factors=2, n_company=2, burn_in=5, n_draws=256, thin=1, random_state=0)
    return model.fit(ratings)


def test_users_and_items_without_ratings_have_independent_noise(chain):
    users, items = (chain._solve_rows(of, NOBODY)[f"{of[:-1]}_draws_"][0] for of in ("users", "items"))
    assert abs(correlation_of_noise(users, items)) < 4 / np.sqrt(users.size)


def test_new_users_and_new_items_of_a_partial_fit_have_independent_noise(chain):
    # Each new user and item has one rating, and none of a pair of new ones: what they share can only be noise.
    new = [(1000 + k, int(chain.items_[k]), 3) for k in range(4)] + [
        (int(chain.users_[k]), 2000 + k, 3) for k in range(4)
    ]
    grown = copy.deepcopy(chain).partial_fit(sc.Ratings.from_arrays(*zip(*new, strict=True), scores=chain.scores_))
    factors = slice(
        chain.n_factors + chain.n_spread_factors
    )  # biases of both sides make up for each other in the chain
    users, items = grown.user_draws_[-4:, factors], grown.item_draws_[-4:, factors]
    assert abs(np.mean([[correlation_of_noise(user, item) for item in items] for user in users])) < 0.08


def test_a_stranger_with_one_rating_is_as_sure_of_an_unknown_item_as_the_draws_allow(chain):
    # The mean logit of a pair of cold rows is the product of their means, if their noise is independent.
    given = sc.Ratings.from_arrays(["new"], [int(chain.items_[0])], [5], scores=chain.scores_)
    folded = chain.fold_in(given)
    user = folded.user_draws_[0]
    item = chain._solve_rows("items", NOBODY)["item_draws_"][0]
    n_factors = chain.n_factors + chain.n_spread_factors
    products = (user[:n_factors] * item[:n_factors]).sum(axis=0)
    expected = (user[:n_factors].mean(axis=1) * item[:n_factors].mean(axis=1)).sum()
    assert products.mean() == pytest.approx(expected, abs=4 * products.std() / np.sqrt(len(products)))


# Calibration on new ratings.


@pytest.fixture(scope="module")
def bold():
    """A model that is too sure, ratings that it has not seen, and others to judge by."""
    ratings, _ = sc.make_ratings(n_users=200, n_items=120, density=0.5, random_state=0)
    train, rest = sc.holdout(ratings, test_size=0.5, random_state=0)
    new, test = sc.holdout(rest, test_size=0.5, random_state=1)
    return sc.BeMF(random_state=0).fit(train), train, new, test


def test_a_fitted_model_is_calibrated_on_new_ratings_without_another_fit(bold, monkeypatch):
    model, _, new, test = bold
    monkeypatch.setattr(sc.BeMF, "_fit", None)  # which must not be called
    calibrated = sc.calibrate(model, new)
    assert calibrated.digest_ == model.digest_
    assert np.array_equal(calibrated.item_factors_, model.item_factors_)
    before, after = (answer_for(m, test) for m in (model, calibrated))
    assert sc.metrics.nll(test.values, after) < sc.metrics.nll(test.values, before) - 0.02
    assert sc.metrics.ece(test.values, after) < sc.metrics.ece(test.values, before) / 2
    assert not hasattr(model, "calibration_")
    again = sc.calibrate(calibrated, new)  # from the answers of the model itself, not from calibrated ones
    assert np.array_equal(again.calibration_, calibrated.calibration_)


def test_ratings_that_a_fitted_model_has_seen_are_refused(bold):
    model, train, new, _ = bold
    both = sc.Ratings.from_frame(pl.concat([train.take(np.arange(9)).to_frame(), new.to_frame()]), scores=train.scores)
    with pytest.raises(sc.DataError, match=r"calibrate needs ratings that the model has not seen, but it was fitted on 9 pairs"):  # fmt: skip
        sc.calibrate(model, both)
    strange = sc.Ratings.from_arrays([10**6] * 4, [1, 2, 3, 4], [1, 2, 3, 4], scores=train.scores)
    with pytest.raises(sc.DataError, match=r"at least 5 new ratings whose user and item the model knows, got 0 of 4\."):
        sc.calibrate(model, strange)


def test_the_ratings_of_the_fit_itself_are_calibrated_by_cross_fitting(bold, monkeypatch):
    model, train, _, _ = bold
    fits = []
    fit = sc.BeMF._fit
    monkeypatch.setattr(sc.BeMF, "_fit", lambda self, table: (fits.append(len(table)), fit(self, table))[1])
    sc.calibrate(model, train, "temperature", n_splits=2)
    assert fits == [len(train) // 2] * 2


def test_a_single_user_item_or_a_few_resamples_make_nothing_clear(parts):
    fitted = [sc.ItemFrequency().fit(parts.train), sc.GlobalFrequency().fit(parts.train)]

    def clear(test, **how):
        return compare(fitted, test, ["nll"], **({"n_resamples": 100} | how)).rows[0]["clear"]

    alone = parts.test.take([0])
    assert not any(clear(alone, unit=unit) for unit in ("both", "user", "item"))
    of_one = parts.test.take(np.flatnonzero(parts.test.user == 0))
    assert not any(clear(of_one, unit=unit) for unit in ("both", "user"))
    assert clear(parts.test)
    assert not clear(parts.test, n_resamples=30)
    assert not clear(parts.test, level=0.99)


def test_comparisons_of_anything_but_ratings_and_models_say_what_they_need(parts):
    model, frame = sc.ItemFrequency().fit(parts.train), parts.test.to_frame()
    with pytest.raises(
        sc.DataError, match=r"evaluate needs Ratings, got DataFrame\. Make them with Ratings\.from_frame"
    ):
        sc.evaluate(model, frame)
    with pytest.raises(sc.DataError, match="compare needs Ratings, got DataFrame"):
        compare([model, model], frame)
    with pytest.raises(sc.DataError, match="cross-validation needs Ratings, got DataFrame"):
        sc.cross_validate(model, frame)
    with pytest.raises(sc.DataError, match="compare needs a list of models, or a mapping from name to model, got Item"):
        compare(model, parts.test)
    with pytest.raises(sc.ParameterError, match=r"random_state must be a whole number of at least 0.*, got 'x'"):
        compare([model, model], parts.test, ["nll"], random_state="x")
