"""The five factorizations beyond the contract: parameters, history, early stopping, divergence, recklessness."""

import sys

import numpy as np
import pytest

import starcast as sc
from starcast.errors import DivergenceError, NotFittedError, ParameterError, UnknownNameError
from starcast.kernels import make_sides, resolve_threads
from starcast.models import MODELS, make_model

FACTORIZATIONS = ("resbemf", "bemf", "dirmf", "pmf", "biasedmf")
STRICT = {"resbemf": {"update": "paper", "regularization": 0.05}} | {
    name: {"precision": "double"} for name in ("bemf", "dirmf", "pmf", "biasedmf")
}


@pytest.fixture(scope="module")
def planted():
    return sc.make_ratings(n_users=120, n_items=80, density=0.3, random_state=0)[0]


def nll(model, test):
    return sc.metrics.nll(test.values, model.predict_proba(test.users[test.user], test.items[test.item]))


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_factors": -1}, r"n_factors must be a whole number of at least \d, got -1"),
        ({"n_factors": 2.5}, r"n_factors must be a whole number of at least \d, got 2\.5"),
        ({"n_iters": 0}, "n_iters must be a whole number of at least 1, got 0"),
        ({"n_iters": True}, "n_iters must be a whole number of at least 1, got True"),
        ({"regularization": -1}, "regularization must be zero or more, got -1"),
        ({"regularization": float("nan")}, "regularization must be zero or more, got nan"),
        ({"learning_rate": 0}, "learning_rate must be above zero, got 0"),
        ({"learning_rate": "fast"}, "learning_rate must be above zero, got 'fast'"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, got -1"),
        ({"n_jobs": 0}, "n_jobs must be a whole number of at least 1, or -1 or None for all cores, got 0"),
        ({"generator": "java"}, r'random_state must be a whole number with generator="java", got None'),
        (
            {"early_stopping": True, "strict": True},
            "early_stopping needs single precision: the published updates have no held-out",
        ),
    ],
)
def test_wrong_parameters_are_named(planted, name, params, message):
    params = dict(params)
    if params.pop("strict", False):
        params |= STRICT[name]
    with pytest.raises(ParameterError, match=message):
        make_model(name, params).fit(planted)


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_wrong_words_are_guessed(planted, name):
    for word in {"update", "precision", "generator", "on_divergence", "distribution"} & {*MODELS[name]().get_params()}:
        with pytest.raises(UnknownNameError, match=f"unknown {word} 'x'"):
            make_model(name, {word: "x"}).fit(planted)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("resbemf", {"recklessness": -1.5}, r"recklessness must be a number of at least -1, got -1\.5"),
        ("bemf", {"recklessness": float("nan")}, "recklessness must be a number of at least -1, got nan"),
        ("resbemf", {"recklessness": 1, "update": "paper"}, 'recklessness needs update="exact" or "gradient", got 1'),
        ("bemf", {"recklessness": 1, "precision": "double"}, "recklessness needs single precision, got 1"),
        ("pmf", {"update": "exact", "precision": "double"}, 'update="exact" needs precision="single"'),
        ("resbemf", {"bias_regularization": -1}, "bias_regularization must be zero or more, got -1"),
        ("resbemf", {"tolerance": -1}, "tolerance must be zero or more, got -1"),
        ("resbemf", {"n_factors": 0, "biases": False}, "n_factors must be a whole number of at least 1, got 0"),
    ],
)
def test_parameters_of_one_model_are_named(planted, name, params, message):
    with pytest.raises(ParameterError, match=message):
        make_model(name, params).fit(planted)


def test_more_scores_than_lanes_are_refused():
    ratings = sc.Ratings.from_arrays(range(100), range(100), range(100))
    with pytest.raises(ParameterError, match="ResBeMF takes up to 64 scores in single precision, got 100"):
        sc.ResBeMF().fit(ratings)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("n_factors", [1, 8, 20])
def test_the_exact_objective_never_falls(planted, biases, n_factors):
    model = sc.ResBeMF(n_factors, n_iters=80, tolerance=0, biases=biases, regularization=3, random_state=0).fit(planted)
    assert len(model.history_) == model.n_iter_
    assert (np.diff(model.history_) >= -1e-7 * len(planted)).all()
    assert np.isfinite(model.history_).all()


def test_the_exact_fit_stops_by_itself(planted):
    loose, tight = (sc.ResBeMF(n_iters=200, tolerance=t, random_state=0).fit(planted) for t in (1e-3, 1e-6))
    assert loose.n_iter_ < tight.n_iter_ < 200
    gains = np.diff(tight.history_) / np.abs(tight.history_[1:])
    assert (gains[:-1] > 1e-6).all()
    assert gains[-1] <= 1e-6


def test_biases_alone_make_a_model(planted):
    model = sc.ResBeMF(n_factors=0, random_state=0).fit(planted)
    assert model.user_factors_.shape == (120, 1, 5)
    assert nll(model, planted) < nll(sc.GlobalFrequency().fit(planted), planted)


def test_without_biases_the_planes_are_the_factors(planted):
    assert sc.ResBeMF(n_factors=3, biases=False, random_state=0).fit(planted).item_factors_.shape == (80, 3, 5)


def test_the_exact_solution_has_no_gradient(planted):
    from starcast.kernels import reference

    model = sc.ResBeMF(n_factors=2, n_iters=2000, tolerance=0, regularization=4, random_state=0).fit(planted)
    user_side, _ = make_sides(planted)
    P, Q, base = (a.astype(float) for a in (model.user_factors_, model.item_factors_, model.base_))
    for u in range(0, 120, 17):
        rows = slice(user_side.start[u], user_side.start[u + 1])
        gradient = reference.row_gradient(
            P[u], Q[user_side.other[rows]], user_side.score[rows], base, np.linspace(-1, 1, 5), True, 4.0, 2.0
        )
        assert np.abs(gradient).max() < 0.05


@pytest.mark.parametrize("name", ["resbemf", "bemf"])
def test_confidence_grows_with_recklessness(planted, name):
    means = [
        make_model(name, {"recklessness": r, "random_state": 0})
        .fit(planted)
        .predict_proba(planted.users[planted.user], planted.items[planted.item])
        .reliability()
        .mean()
        for r in (-1, -0.5, 0, 0.5, 1, 2, 4)
    ]
    assert (np.diff(means) > 0).all()


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_early_stopping_finds_the_rounds_and_then_uses_all_ratings(planted, name):
    params = {"early_stopping": True, "n_iters": 60, "random_state": 0}
    if name == "resbemf":
        params |= {"regularization": 0.01, "bias_regularization": 0.01, "tolerance": 0}  # made to overfit
    model = make_model(name, params).fit(planted)
    assert 1 <= model.n_iter_ <= 60
    same = make_model(name, params | {"early_stopping": False, "n_iters": model.n_iter_}).fit(planted)
    assert np.array_equal(same.user_factors_, model.user_factors_)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("resbemf", {"regularization": 0.01, "bias_regularization": 0.01, "tolerance": 0}),
        ("pmf", {"regularization": 0.01, "update": "exact"}),
        ("biasedmf", {"regularization": 0.01, "update": "exact"}),
    ],
)
def test_early_stopping_stops_an_overfit(planted, name, params):
    train, test = sc.holdout(planted, test_size=0.2, random_state=1)
    params = params | {"n_iters": 60, "random_state": 0}
    stopped = make_model(name, params | {"early_stopping": True}).fit(train)
    assert stopped.n_iter_ < 60
    assert nll(stopped, test) < nll(make_model(name, params).fit(train), test)


@pytest.mark.parametrize("name", ["pmf", "biasedmf"])
def test_divergence_names_the_iteration_and_the_way_out(planted, name):
    with pytest.raises(DivergenceError, match=r"diverged in iteration \d+: .*Lower learning_rate \(now 500.0\)"):
        make_model(name, {"learning_rate": 500.0, "random_state": 0}).fit(planted)


@pytest.mark.parametrize("name", ["resbemf", "pmf", "biasedmf"])
def test_divergence_in_double_precision_is_raised_or_kept(planted, name):
    params = STRICT[name] | {"learning_rate": 5.0, "n_iters": 80, "random_state": 0}
    model = make_model(name, params)
    with pytest.raises(DivergenceError, match=r"diverged in iteration \d+"):
        model.fit(planted)
    assert not model.is_fitted
    assert not np.isfinite(make_model(name, params | {"on_divergence": "keep"}).fit(planted).user_factors_).all()


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_double_precision_is_saved_as_it_is(planted, name, tmp_path):
    model = make_model(name, STRICT[name] | {"n_iters": 3, "random_state": 0}).fit(planted)
    assert model.user_factors_.dtype == np.float64
    assert model.history_.shape == (0,)
    model.save(tmp_path / "m")
    pairs = planted.users[planted.user], planted.items[planted.item]
    assert np.array_equal(sc.load(tmp_path / "m").predict_proba(*pairs).probs, model.predict_proba(*pairs).probs)


@pytest.mark.parametrize("name", ["bemf", "dirmf", "pmf", "biasedmf"])
def test_single_precision_follows_double(planted, name):
    single, double = (
        make_model(name, {"n_iters": 5, "random_state": 3, "precision": p}).fit(planted) for p in ("single", "double")
    )
    pairs = planted.users[planted.user], planted.items[planted.item]
    if name in ("pmf", "biasedmf"):
        assert single.user_factors_ == pytest.approx(double.user_factors_, abs=1e-4)
    else:  # starting points are drawn in another order
        assert abs(nll(single, planted) - nll(double, planted)) < 0.1
    assert single.predict_proba(*pairs).probs.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_java_draws_what_the_published_program_draws(planted):
    from starcast.javarandom import JavaRandom

    model = sc.PMF(n_factors=2, generator="java", random_state=7)
    P, Q = model._start(3, 4)
    draws = 2 * JavaRandom(7).next_doubles(14) - 1
    assert P.ravel().tolist() == draws[:6].tolist()
    assert Q.ravel().tolist() == draws[6:].tolist()


@pytest.mark.parametrize("model", [sc.PMF(random_state=0), sc.BiasedMF(random_state=0)], ids=["pmf", "biasedmf"])
def test_a_bell_has_the_residuals_spread_around_the_prediction(planted, model):
    model.fit(planted)
    residuals = planted.values - model.values(planted.user, planted.item)
    assert model.spread_ == pytest.approx(np.sqrt(np.mean(residuals**2)))
    value = model.values(planted.user[:1], planted.item[:1])[0]
    draws = np.random.default_rng(0).normal(value, model.spread_, 200_000)
    nearest = np.abs(draws[:, None] - planted.scores).argmin(axis=1)
    wanted = 0.999 * np.bincount(nearest, minlength=5) / len(draws) + 0.001 * model.prior_
    assert model._proba(planted.user[:1], planted.item[:1])[0] == pytest.approx(wanted, abs=0.005)


def test_the_papers_convention_is_certain_of_the_nearest_score(planted):
    model = sc.BiasedMF(distribution="certain", random_state=0).fit(planted)
    answer = model.predict_proba(planted.users[planted.user], planted.items[planted.item])
    values = model.values(planted.user, planted.item)
    assert (answer.reliability() == 1).all()
    assert np.array_equal(answer.mode(), planted.scores[np.abs(values[:, None] - planted.scores).argmin(axis=1)])


def test_rows_are_sorted_by_the_other_side(planted):
    users, items = make_sides(planted)
    for side, own, other in ((users, planted.user, planted.item), (items, planted.item, planted.user)):
        order = np.lexsort((other, own))
        assert np.array_equal(side.other, other[order])
        assert np.array_equal(side.score, planted.score[order])
        assert np.array_equal(np.diff(side.start), np.bincount(own))


def test_threads_are_one_a_core_unless_told():
    assert resolve_threads(None) == resolve_threads(-1) >= 1
    assert resolve_threads(np.int64(2)) == 2


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("regularization", [0.5, 0.0])
def test_gradient_steps_climb_where_newton_steps_do(planted, biases, regularization):
    params = {"biases": biases, "regularization": regularization, "bias_regularization": 0.5, "random_state": 0}
    exact = sc.ResBeMF(n_iters=20, tolerance=0, **params).fit(planted)
    climbed = sc.ResBeMF(update="gradient", n_iters=200, tolerance=0, **params).fit(planted)
    if regularization:
        assert climbed.history_[-1] > exact.history_[-1]
    assert np.isfinite(climbed.user_factors_).all()
    assert climbed.history_[-1] == climbed.history_.max()


@pytest.mark.parametrize("params", [{}, {"update": "paper", "regularization": 0.05}], ids=["exact", "paper"])
def test_verbose_shows_a_bar(planted, params, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    sc.ResBeMF(verbose=True, n_iters=3, random_state=0, **params).fit(planted)
    assert "fitting ResBeMF" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("name", ["bemf", "pmf"])
@pytest.mark.parametrize("strict", [False, True])
def test_ctrl_c_ends_a_fit(planted, name, strict, ctrl_c):
    params = {"n_iters": 10**8, "learning_rate": 1e-6, "random_state": 0} | (STRICT[name] if strict else {})
    model = make_model(name, params)
    ctrl_c(model.fit, planted)
    assert not model.is_fitted


@pytest.mark.parametrize("name", ["bemf", "dirmf"])
def test_a_link_does_not_hide_factors_that_ran_away(planted, name):
    with pytest.raises(DivergenceError, match=r"diverged in iteration \d+: .*Lower learning_rate"):
        make_model(name, {"learning_rate": 1e4, "random_state": 0}).fit(planted)


def test_what_ran_away_and_was_kept_cannot_be_saved(planted, tmp_path):
    model = sc.PMF(learning_rate=100.0, precision="double", on_divergence="keep", random_state=0).fit(planted)
    with pytest.raises(DivergenceError, match="a model that diverged cannot be saved: user_factors_, item_factors_"):
        model.save(tmp_path / "m.starcast")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("params", [{"biases": "False"}, {"early_stopping": "no"}, {"verbose": 1}])
def test_text_is_no_yes_or_no(planted, params):
    with pytest.raises(ParameterError, match=f"{next(iter(params))} must be True or False"):
        sc.ResBeMF(**params).fit(planted)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("resbemf", {"biases": False}),
        ("resbemf", {"update": "paper"}),
        ("bemf", {"n_factors": 3}),
        ("pmf", {"n_factors": 3}),
    ],
)
def test_parameters_that_no_longer_fit_what_was_learnt_are_told(planted, tmp_path, name, changed):
    model = make_model(name, {"random_state": 0, "n_iters": 2}).fit(planted).set_params(**changed)
    user, item = model.users_[0].item(), model.items_[0].item()
    for ask in (
        lambda: model.predict(user, item),
        lambda: model.predict_proba(user, item),
        lambda: model.recommend(user),
        lambda: model.save(tmp_path / "m.starcast"),
    ):
        with pytest.raises(NotFittedError, match="were changed since it was fitted"):
            ask()


def test_no_more_threads_than_a_machine_can_start():
    assert resolve_threads(10**9) == 256
