"""New users without refitting: where their rows must lie, and what a model owes that was folded in."""

import copy

import numpy as np
import pytest
from small import NAMES, make

import starcast as sc
from starcast.errors import DataError, DivergenceError, NotFittedError, ParameterError
from starcast.kernels import Side, fast, make_sides, reference
from starcast.models import MODELS, make_model
from starcast.models.per_score import pack, unpack
from starcast.models.resbemf import spread_scores
from starcast.recalibration import recalibrate
from starcast.trust import calibrate

SOLVING = [name for name, cls in MODELS.items() if cls._solves_rows is not sc.Model._solves_rows]
STRICT = {"resbemf": {"update": "paper", "regularization": 0.05}} | {
    name: {"precision": "double"} for name in ("bemf", "dirmf", "pmf", "biasedmf")
}
by_model = pytest.mark.parametrize("name", SOLVING)


@pytest.fixture(scope="module")
def parts():
    """Ratings of 150 users to learn from, and all ratings of 30 others."""
    ratings, _ = sc.make_ratings(180, 60, density=0.5, n_factors=1, confidence=4.0, random_state=0)
    new = np.isin(ratings.user, np.arange(30))
    return ratings.take(~new), ratings.take(new)


@pytest.fixture(scope="module")
def fitted(parts):
    made = {}

    def fitted(name):
        if name not in made:
            made[name] = make(name).fit(parts[0])
        return made[name]

    return fitted


def first_of_each(ratings, n):
    """The first `n` ratings of each user, and all the others."""
    place = np.empty(len(ratings), int)
    start, rows = ratings.by_user()
    place[rows] = np.arange(len(rows)) - np.repeat(start[:-1], np.diff(start))
    return ratings.take(place < n), ratings.take(place >= n)


def ask(model, ratings):
    return model.predict_proba(ratings.users[ratings.user], ratings.items[ratings.item])


def nll(model, ratings):
    return sc.metrics.nll(ratings.values, ask(model, ratings))


def side_of(model, ratings):
    """The ratings by user, in the model's codes."""
    item = model._item_lookup.codes(ratings.items, "items")[ratings.item]
    return make_sides(sc.Ratings(ratings.users, model.items_, model.scores_, ratings.user, item, ratings.score))[0]


def user_rows(model):
    """What the model learnt of its users, a row each."""
    axes = {name: axes.split() for name, axes in model.LEARNT.items() if "users" in axes.split()}
    arrays = [np.moveaxis(getattr(model, name), axes[name].index("users"), 0) for name in axes]
    return np.hstack([array.reshape(len(array), -1) for array in arrays])


def state(model):
    """Every array that the model holds, as bytes."""
    held = {key: value for key, value in vars(model).items() if isinstance(value, np.ndarray)}
    return {key: value.tolist() if value.dtype == object else value.tobytes() for key, value in held.items()}


# Where the rows lie.


def dense_newton(fs, scores, base, regularization, bias_regularization):
    """The row that maximises the penalised log-likelihood, by Newton's method with the whole Hessian."""
    planes, d = fs.shape[1:]
    features = np.array([reference.features(f, True) for f in fs])  # (ratings, planes, scores)
    offset = base + fs[:, -1]
    decay = np.repeat(np.r_[np.full(planes - 1, regularization), bias_regularization], d)
    x = np.zeros(planes * d)
    for _ in range(30):
        z = offset + np.einsum("ks,nks->ns", x.reshape(planes, d), features)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        slope = np.einsum("ns,nks->ks", np.eye(d)[scores] - p, features).ravel() - decay * x
        bend = p[:, :, None] * np.eye(d) - p[:, :, None] * p[:, None, :]
        hessian = np.einsum("nks,nst,nlt->kslt", features, bend, features).reshape(planes * d, -1)
        x = x + np.linalg.solve(hessian + np.diag(decay), slope)
    return x.reshape(planes, d)


def test_rows_of_resbemf_are_those_of_a_dense_newton(fitted, parts):
    model, given = fitted("resbemf"), first_of_each(parts[1], 12)[0]
    rows = model.fold_in(given).user_factors_
    start, other, score = side_of(model, given)
    base, factors = model.base_.astype(float), model.item_factors_.astype(float)
    for user in range(0, 30, 7):
        mine = slice(start[user], start[user + 1])
        truth = dense_newton(factors[other[mine]], score[mine], base, model.regularization, model.bias_regularization)
        assert rows[user] == pytest.approx(truth, abs=2e-5)


@pytest.mark.parametrize("params", [{"recklessness": 0.5}, {"recklessness": -0.5}, {"biases": False}, {"n_factors": 0}, {"n_factors": 19}, {"regularization": 0.5}], ids=str)  # fmt: skip
def test_rows_of_resbemf_have_no_slope_left(parts, params):
    model = sc.ResBeMF(random_state=0, n_iters=5).set_params(**params).fit(parts[0])
    given = first_of_each(parts[1], 15)[0]
    rows = model.fold_in(given).user_factors_.astype(float)
    start, other, score = side_of(model, given)
    rest = (model.base_.astype(float), spread_scores(model.scores_).astype(float), model._has_biases())
    rest += (model.regularization, model.bias_regularization, model.recklessness)
    factors = model.item_factors_.astype(float)
    for user in range(0, 30, 11):
        mine = slice(start[user], start[user + 1])
        here = reference.row_gradient(rows[user], factors[other[mine]], score[mine], *rest)
        there = reference.row_gradient(np.zeros_like(rows[user]), factors[other[mine]], score[mine], *rest)
        assert np.abs(here).max() < 2e-4 * np.abs(there).max()


@pytest.mark.parametrize("name", ["bemf", "dirmf"])
def test_rows_of_gradient_models_take_the_steps_of_the_fit(fitted, parts, name):
    model, given = fitted(name), first_of_each(parts[1].take(parts[1].user < 6), 10)[0]
    side, factors = side_of(model, given), model.item_factors_.astype(float)
    rows = np.full((6, *factors.shape[1:]), 0.5)
    for _ in range(model.n_iter_):
        if name == "bemf":
            v = spread_scores(model.scores_).astype(float)
            rows = reference.bemf_pass(side, rows, factors, v, model.learning_rate, model.regularization)
        else:
            rows = reference.dirmf_pass(side, rows, factors, model.scores_, model.learning_rate, model.regularization)
    assert model.fold_in(given).user_factors_ == pytest.approx(rows, abs=1e-4)


def test_each_step_of_a_long_row_of_bemf_gains(fitted, parts):
    """With the steps of the fit, a row of that many ratings swings to and fro."""
    model, train = fitted("bemf"), parts[0]
    many = sc.Ratings.from_arrays(  # forty-five hundred ratings by one user, as if every item had many twins
        np.zeros(len(train), int), np.arange(len(train)), train.values
    )
    big = model.clone().fit(many)  # only to be asked: its items are put in place
    big.item_factors_ = model.item_factors_[train.item]
    big._index_items()
    side, v = side_of(big, many), spread_scores(big.scores_).astype(float)
    losses = []
    for steps in range(1, 6):
        big.n_iter_ = steps
        row = big._solve_rows("users", side)["user_factors_"].astype(float)
        penalty = 0.5 * big.regularization * (row**2).sum()
        losses.append(penalty - reference.bemf_loglik(side, row, big.item_factors_.astype(float), v))
    assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize("name", ["pmf", "biasedmf"])
def test_rows_of_point_models_are_those_of_a_ridge(fitted, parts, name):
    """By least squares on the ratings and as many rows of the square root of lambda times n."""
    model, given = fitted(name), first_of_each(parts[1], 12)[0]
    rows = model.fold_in(given).user_factors_
    start, other, score = side_of(model, given)
    for user in range(30):
        mine = slice(start[user], start[user + 1])
        q, e = model.item_factors_[other[mine]].astype(float), model.scores_[score[mine]]
        if name == "biasedmf":
            e = e - model.mean_ - q[:, 0]
            q[:, 0] = 1
        heavy = np.sqrt(model.regularization * len(e)) * np.eye(q.shape[1])
        truth = np.linalg.lstsq(np.vstack([q, heavy]), np.r_[e, np.zeros(len(heavy))], rcond=None)[0]
        assert rows[user] == pytest.approx(truth, abs=1e-5)


@pytest.mark.parametrize("name", ["pmf", "biasedmf"])
def test_a_row_without_regularization_fits_its_ratings_with_the_least_factors(parts, name):
    model = make_model(name, {"random_state": 0, "regularization": 0}).fit(parts[0])
    given = first_of_each(parts[1], 3)[0]
    folded = model.fold_in(given)
    user = folded._user_lookup.codes(given.users[given.user], "users")
    item = folded._item_lookup.codes(given.items[given.item], "items")
    assert folded.values(user, item) == pytest.approx(given.values, abs=1e-3)
    assert np.abs(folded.user_factors_).max() < 30


@pytest.mark.parametrize(
    ("name", "params", "margin"),
    [
        ("resbemf", {"tolerance": 0, "n_iters": 400}, 2e-3),
        ("pmf", {"learning_rate": 0.001, "n_iters": 8000}, 0.01),
        ("biasedmf", {"learning_rate": 0.001, "n_iters": 8000}, 0.01),
    ],
)
def test_a_training_user_is_folded_in_where_a_fit_to_the_end_left_him(parts, name, params, margin):
    train = parts[0].take(parts[0].user < 50)
    model = make_model(name, {"random_state": 0, "n_factors": 3} | params).fit(train)
    folded = model.fold_in(train)
    assert folded.users_.tolist() == model.users_.tolist()
    assert np.abs(ask(folded, train).probs - ask(model, train).probs).max() < margin


def test_each_row_takes_its_own_number_of_steps(fitted, parts):
    model, given = fitted("bemf"), first_of_each(parts[1], 12)[0]
    side, steps = side_of(model, given), np.arange(30, dtype=np.int32)
    planes = np.full((30, *model.item_factors_.shape[1:]), 0.5, np.float32)
    rows = pack(planes)
    rates = np.linspace(0.001, 0.02, 30, dtype=np.float32)
    model._settle(side, rows, model._Q, steps, rates)
    got, expected = unpack(rows, planes.shape), planes.astype(float)
    v = spread_scores(model.scores_).astype(float)
    for step in range(30):
        moved = reference.bemf_pass(side, expected, model.item_factors_.astype(float), v, 1.0, 0.1) - expected
        moved = expected + rates[:, None, None] * moved
        expected = np.where((steps > step)[:, None, None], moved, expected)
    assert got == pytest.approx(expected, abs=1e-5)
    for wrong in ((steps[1:], rates), (steps, rates[1:])):
        with pytest.raises(ValueError, match="n_steps and rates must be one per row"):
            model._settle(side, rows, model._Q, *wrong)
    with pytest.raises(ValueError, match="model must be 'resbemf', 'bemf' or 'dirmf'"):
        fast.solve_rows("pmf", side, rows, model._Q, model._base, v.astype(np.float32), steps, rates, 6)


# What it is worth.


@by_model
def test_users_held_out_are_forecast_as_well_as_by_a_refit(fitted, parts, name):
    train, new = parts
    given, held = first_of_each(new, 20)
    both = sc.Ratings.from_arrays(
        np.r_[train.users[train.user], given.users[given.user]],
        np.r_[train.items[train.item], given.items[given.item]],
        np.r_[train.values, given.values],
    )
    refit = make(name).fit(both)
    folded = fitted(name).fold_in(given)
    assert nll(folded, held) < (1.05 if name == "dirmf" else 1.03) * nll(refit, held)
    before = nll(fitted(name), held)  # which knows nothing of them
    assert nll(folded, held) < before - 0.1 or name == "dirmf"


@by_model
def test_forecasts_grow_better_and_more_reliable_with_the_ratings(fitted, parts, name):
    held = first_of_each(parts[1], 20)[1]
    answers = [ask(fitted(name).fold_in(first_of_each(parts[1], n)[0]), held) for n in (1, 4, 20)]
    losses = [sc.metrics.nll(held.values, answer) for answer in answers]
    assert losses[0] > losses[1] > losses[2] or name == "dirmf"
    if name in ("pmf", "biasedmf"):  # their bell has one width for all
        return
    reliability, entropy = zip(*((a.reliability().mean(), a.entropy().mean()) for a in answers), strict=True)
    assert reliability[0] < reliability[1] < reliability[2]
    assert entropy[0] > entropy[1] > entropy[2]


# What every model owes.


@by_model
def test_the_model_stays_as_it_is_and_its_items_are_shared(parts, name):
    model = make(name).fit(parts[0])
    before = state(model)
    folded = model.fold_in(parts[1])
    folded.recommend(n=3)
    assert state(model) == before
    assert type(folded) is type(model)
    assert folded.get_params() == model.get_params()
    assert folded.users_.tolist() == parts[1].users.tolist()
    learnt = [key for key, axes in model.LEARNT.items() if axes and "users" not in axes.split()]
    shared = ["items_", "item_counts_", "prior_", *learnt, *({"_Q"} & vars(model).keys())]
    assert all(getattr(folded, key) is getattr(model, key) for key in shared)
    assert folded._item_lookup is model._item_lookup


@by_model
def test_it_answers_for_its_users_and_for_nobody_else(fitted, parts, name):
    folded, known = fitted(name).fold_in(parts[1]), parts[0].users[0]
    user, item = parts[1].users[3], parts[0].items[5]
    frame = folded.predict([user, known, user], [item, item, 99999])
    assert frame["known"].to_list() == [True, False, False]
    assert np.array_equal(folded.predict_proba(known, item).probs, fitted(name).predict_proba(10**9, item).probs)
    assert folded.recommend(user)["user"].unique().to_list() == [user]


@by_model
def test_what_a_new_user_rated_is_not_recommended(fitted, parts, name):
    given = first_of_each(parts[1], 12)[0]
    listed = fitted(name).fold_in(given).recommend(n=100)
    pairs = set(zip(given.users[given.user].tolist(), given.items[given.item].tolist(), strict=True))
    assert pairs.isdisjoint(zip(listed["user"], listed["item"], strict=True))
    assert len(listed) == 30 * 60 - len(given)


@by_model
def test_saved_and_loaded_it_gives_the_same_bits(fitted, parts, name, tmp_path):
    folded = fitted(name).fold_in(first_of_each(parts[1], 5)[0])
    folded.save(tmp_path / "m")
    loaded = sc.load(tmp_path / "m")
    assert loaded.recommend(n=60).equals(folded.recommend(n=60))  # items that the new users did not rate, too
    assert np.array_equal(user_rows(loaded.fold_in(parts[1])), user_rows(folded.fold_in(parts[1])))


def test_a_calibration_goes_with_the_model(parts):
    train, new = parts
    bold = make("bemf").fit(train)
    honest = calibrate(bold, train, "temperature", n_splits=2)
    for tried in (lambda m: m.fold_in(new), lambda m: copy.copy(m).partial_fit(new)):
        raw, mended = ask(tried(bold), new).probs, ask(tried(honest), new).probs
        assert np.abs(raw - mended).max() > 0.01
        assert mended == pytest.approx(recalibrate(raw, honest.calibration_), abs=1e-6)
    assert honest.fold_in(new).explain(int(new.users[0]), int(new.items[0]))["moved"][0] > 0


@by_model
def test_threads_company_and_order_change_nothing(fitted, parts, name):
    model, new = fitted(name), parts[1]
    rows = user_rows(model.fold_in(new))
    assert np.array_equal(rows, user_rows(model.fold_in(new)))
    try:
        for n_jobs in (1, 2, 7):
            assert np.array_equal(rows, user_rows(model.set_params(n_jobs=n_jobs).fold_in(new)))
    finally:
        model.set_params(n_jobs=None)
    turned = new.take(np.arange(len(new))[::-1])
    place = sc.names.Lookup(turned.users).codes(new.users, "users")
    assert np.array_equal(rows, user_rows(model.fold_in(turned))[place])
    for user in (0, 13):
        alone = model.fold_in(new.take(new.user == user))
        assert np.array_equal(user_rows(alone)[0], rows[user])


def test_many_rows_are_the_same_for_any_number_of_threads(parts):
    """Enough ratings for several chunks of work."""
    model = sc.ResBeMF(random_state=0, n_iters=3).fit(parts[0])
    side = side_of(model, parts[0])
    rows = [model.set_params(n_jobs=n)._solve_rows("users", side)["user_factors_"] for n in (1, 2, 5)]
    assert len(parts[0]) > 4096
    assert all(np.array_equal(more, rows[0]) for more in rows[1:])


@by_model
def test_items_that_are_unknown_are_left_out_and_counted(fitted, name):
    model = fitted(name)
    items = model.items_[:4].tolist()
    more = sc.Ratings.from_arrays(["a"] * 6 + ["b"] * 2, [*items, 777, 778, 777, 779], [5, 4, 4, 5, 1, 1, 1, 1])
    clean = sc.Ratings.from_arrays(["a"] * 4, items, [5, 4, 4, 5])
    folded = model.fold_in(more)
    assert folded.n_left_out == copy.deepcopy(folded).n_left_out == 4
    assert model.fold_in(clean).n_left_out == 0
    assert np.array_equal(user_rows(folded)[0], user_rows(model.fold_in(clean))[0])
    assert folded.predict(["a", "b"], items[0])["known"].to_list() == [True, False]
    assert np.array_equal(*folded.predict_proba(["b", "nobody"], items[0]).probs)
    with pytest.raises(DataError, match=r"at least one rating of an item that the model knows, but all 2 ratings are of others, such as 777, 779\."):  # fmt: skip
        model.fold_in(more.take(more.user == 1))


def test_an_item_without_a_rating_in_training_says_nothing(parts):
    train = parts[0]
    names = train.users, np.append(train.items, 777), train.scores
    model = sc.PMF(random_state=0).fit(sc.Ratings(*names, train.user, train.item, train.score))
    folded = model.fold_in(sc.Ratings.from_arrays([1, 1], [777, train.items[0]], [1, 5]))
    assert folded.n_left_out == 1
    assert not folded.predict(1, 777)["known"][0]


@by_model
def test_a_part_of_the_scale_is_enough(fitted, name):
    model = fitted(name)
    items = model.items_[:2].tolist()
    part, whole = (sc.Ratings.from_arrays(["a"] * 2, items, [4, 5], scores=s) for s in (None, model.scores_))
    assert np.array_equal(user_rows(model.fold_in(part)), user_rows(model.fold_in(whole)))


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        (lambda m: [[1, 1, 5]], r"fold_in needs Ratings, got list\. Make them with"),
        (lambda m: sc.Ratings.from_arrays([1], m.items_[:1], [5], scores=[4, 5]).take([]), r"fold_in needs at least one rating, got none\."),
        (lambda m: sc.Ratings.from_arrays([1, 1], m.items_[:2], [5, 4.5]), r"ratings must be on the scale 1, 2, 3, 4, 5; got 4\.5 \(1 such rating\)\."),
        (lambda m: sc.Ratings.from_arrays([1, 1], m.items_[:2], [5, 4], scores=range(1, 11)), r"the scale of new ratings must be a part of the model's, from 1 to 5, got one with 6 \(5 such scores\)\. Make the ratings with scores=model\.scores_"),
        (lambda m: sc.Ratings.from_arrays([1, 1], ["x", "y"], [5, 4]), r"items are integers here \(such as \d+\), got strings \(such as 'x'\)"),
    ],
)  # fmt: skip
def test_ratings_that_cannot_be_folded_in_are_refused(fitted, ratings, message):
    model = fitted("resbemf")
    with pytest.raises(DataError, match=message):
        model.fold_in(ratings(model))


@pytest.mark.parametrize("name", NAMES)
def test_an_unfitted_model_folds_in_nobody(parts, name):
    with pytest.raises(NotFittedError, match=rf"{MODELS[name].__name__} is not fitted"):
        MODELS[name]().fold_in(parts[1])


@pytest.mark.parametrize(("name", "params"), [*STRICT.items(), ("global", {}), ("item", {}), ("bayes", {})])
def test_models_that_cannot_say_so(parts, name, params):
    model = make_model(name, params | ({"random_state": 0, "n_iters": 2} if name in STRICT else {})).fit(parts[0])
    with pytest.raises(ParameterError, match=r"fold_in needs a model that can solve for one user while the items stand still, and \w+\(.*\) cannot: of the models"):  # fmt: skip
        model.fold_in(parts[1])


def test_a_new_user_whose_steps_run_away_is_an_error(parts):
    model = sc.DirMF(random_state=0, n_iters=5).fit(parts[0])
    model.set_params(learning_rate=1e20)
    with pytest.raises(DivergenceError, match=r"the rows of new users diverged: user_factors_ must be finite\."):
        model.fold_in(parts[1])


def test_a_model_that_learns_rows_must_solve_for_them():
    class Bare(sc.Model):
        def _solves_rows(self):
            return True

    with pytest.raises(NotImplementedError):
        Bare()._solve_rows("users", Side(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int8)))
