"""What every model owes: one contract, held by each entry of MODELS."""

import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from small import NAMES, VARIANTS, kind, make

import starcast as sc
from starcast import metrics
from starcast.errors import DataError, NotFittedError, ParameterError, UnknownNameError
from starcast.models import MODELS, make_model, ranking
from starcast.recalibration import identity

# One word for an idea: a name is added here on purpose, when none of these says it.
PARAMETERS = {
    "n_factors", "n_iters", "learning_rate", "regularization", "random_state", "n_jobs", "verbose", "device",
    "shrinkage", "user_shrinkage", "item_shrinkage", "bias_regularization", "biases", "recklessness", "tolerance",
    "early_stopping", "update", "precision", "distribution", "generator", "on_divergence",
    "n_hidden", "n_bases", "n_layers", "n_inducing", "accumulation", "normalization", "dropout", "node_dropout",
    "batch_size", "full_batch", "averaging", "n_spread_factors", "n_company", "burn_in", "n_draws", "thin", "centering",
}  # fmt: skip

pytestmark = pytest.mark.parametrize("name", [*NAMES, *VARIANTS])


def planted(seed=0, n_users=60, n_items=40, n=1200, titles=None):
    """Users and items with a bias each, so that those who know them can do better than those who count scores."""
    rng = np.random.default_rng(seed)
    cell = rng.permutation(n_users * n_items)[:n]
    user, item = cell // n_items, cell % n_items
    level = 3 + rng.normal(size=n_users)[user] + rng.normal(size=n_items)[item] + 0.4 * rng.normal(size=n)
    return sc.Ratings.from_arrays(user + 1000, item + 1, np.clip(np.round(level), 1, 5), titles=titles)


@pytest.fixture(scope="module")
def fitted():
    """Each model fitted once."""
    made = {}

    def fitted(name):
        if name not in made:
            made[name] = make(name).fit(planted(titles={item: f"Film {item}" for item in range(1, 41)}))
        return made[name]

    return fitted


ALL = (np.repeat(np.arange(1000, 1060), 40), np.tile(np.arange(1, 41), 60))


def all_probs(model):
    return model.predict_proba(*ALL).probs


def test_rows_are_distributions(fitted, name):
    answer = fitted(name).predict_proba(*ALL)
    assert answer.probs.shape == (2400, 5)
    assert (answer.probs >= 0).all()
    assert answer.scores.tolist() == [1, 2, 3, 4, 5]


def test_probabilities_add_up_to_one_in_double_precision(fitted, name):
    model = fitted(name)
    calibrated = copy.copy(model)
    rng = np.random.default_rng(0)
    calibrated.calibration_ = identity(5) + np.vstack([rng.normal(0, 0.3, (2, 5)), np.zeros(5), rng.normal(0, 1, 5)])
    for each in (model, calibrated):
        for users, items in (ALL, (7, np.arange(1, 41)), (np.arange(1000, 1060), 99), (7, 99)):
            probs = each.predict_proba(users, items).probs
            assert probs.dtype == np.float64
            assert np.abs(probs.sum(axis=1) - 1).max() <= 1e-15
    assert rng.choice(model.scores_, p=model.predict_proba(1000, 1).probs[0]) in model.scores_


def test_a_part_of_a_distribution_has_the_same_bits(fitted, name):
    answer = fitted(name).predict_proba(*ALL)
    assert np.array_equal(answer[100:900].probs, answer.probs[100:900])


def test_fit_returns_the_model_and_leaves_the_ratings_alone(name):
    ratings = planted()
    before, copies = ratings.digest(), [array.copy() for array in (ratings.users, ratings.items, ratings.score)]
    model = make(name)
    assert model.fit(ratings) is model
    assert ratings.digest() == before
    for array, old in zip((ratings.users, ratings.items, ratings.score), copies, strict=True):
        assert np.array_equal(array, old)
        assert not array.flags.writeable


def test_a_second_fit_is_a_fresh_fit(name):
    model = make(name).fit(planted(1, 10, 10, 50))
    model.fit(planted())
    fresh = make(name).fit(planted())
    assert np.array_equal(all_probs(model), all_probs(fresh))
    assert {k for k in vars(model) if k.endswith("_")} == {k for k in vars(fresh) if k.endswith("_")}


def test_a_fit_that_fails_leaves_no_half_fitted_model(name, monkeypatch):
    model = make(name).fit(planted())
    monkeypatch.setattr(type(model), "_fit", lambda self, ratings: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(planted())
    assert not model.is_fitted
    with pytest.raises(NotFittedError):
        model.predict_proba(1000, 1)


def test_the_same_seed_gives_the_same_bits(name):
    assert np.array_equal(all_probs(make(name).fit(planted())), all_probs(make(name).fit(planted())))


def test_any_number_of_threads_gives_the_same_bits(name):
    options = [{"n_jobs": n} if "n_jobs" in kind(name)().get_params() else {} for n in (1, 2, 3, 7)]
    one, *more = (all_probs(make(name).set_params(**option).fit(planted())) for option in options)
    assert all(np.array_equal(probs, one) for probs in more)


def test_another_process_gives_the_same_bits(fitted, name, tmp_path):
    fitted(name).save(tmp_path / "one")
    code = (
        "import sys, numpy as np, starcast as sc\n"
        "m = sc.load(sys.argv[1]); u, i = np.load(sys.argv[2])\n"
        "np.save(sys.argv[3], m.predict_proba(u, i).probs)\n"
    )
    np.save(tmp_path / "pairs.npy", np.array(ALL))
    subprocess.run([sys.executable, "-c", code, *(tmp_path / n for n in ("one", "pairs.npy", "out.npy"))], check=True)
    assert np.array_equal(np.load(tmp_path / "out.npy"), all_probs(fitted(name)))


def test_new_names_change_nothing(fitted, name):
    ratings = planted()
    named = sc.Ratings.from_arrays(
        [f"u{u}" for u in ratings.users[ratings.user]], [f"i{i}" for i in ratings.items[ratings.item]], ratings.values
    )
    model = make(name).fit(named)
    probs = model.predict_proba([f"u{u}" for u in ALL[0]], [f"i{i}" for i in ALL[1]]).probs
    assert np.array_equal(probs, all_probs(fitted(name)))


def test_another_order_of_the_rows_changes_nothing_but_order(fitted, name):
    ratings = planted()
    rows = np.random.default_rng(1).permutation(len(ratings))
    # With the codes as they were, since starting points are drawn in the order of the codes.
    names = (ratings.users, ratings.items, ratings.scores)
    moved = sc.Ratings(*names, ratings.user[rows], ratings.item[rows], ratings.score[rows])
    assert all_probs(make(name).fit(moved)) == pytest.approx(all_probs(fitted(name)), abs=1e-9)


def test_unknown_pairs_get_the_prior_and_are_not_known(fitted, name):
    model = fitted(name)
    answer = model.predict([1000, 7, 1000, 7], [1, 1, 99, 99])
    assert answer["known"].to_list() == [True, False, False, False]
    probs = model.predict_proba([7, 1000, 7], [1, 99, 99]).probs
    unknown = probs[2:] if name.startswith("ordinalmf") else probs  # which says what the half that it knows says
    assert np.array_equal(unknown, np.tile(model.prior_, (len(unknown), 1)))
    counts = planted().counts() + 1
    assert model.prior_.tolist() == pytest.approx((counts / counts.sum()).tolist())


def test_a_name_without_a_rating_is_unknown(name):
    ratings = planted()
    names = np.append(ratings.users, 7), np.append(ratings.items, 99)
    model = make(name).fit(sc.Ratings(*names, ratings.scores, ratings.user, ratings.item, ratings.score))
    assert model.predict([1000, 7, 1000], [1, 1, 99])["known"].to_list() == [True, False, False]
    users, items = ([7], [99]) if name.startswith("ordinalmf") else ([7, 1000], [1, 99])
    assert np.array_equal(model.predict_proba(users, items).probs, np.tile(model.prior_, (len(users), 1)))
    assert 7 not in model.recommend(n=1)["user"]
    assert not model.recommend(7)["known"].any()


def test_one_pair_at_a_time_equals_all_at_once(fitted, name):
    model, everything = fitted(name), fitted(name).predict_proba(*ALL)
    rows = np.arange(0, 2400, 37)
    for row in rows:
        one = model.predict_proba(int(ALL[0][row]), int(ALL[1][row]))
        assert np.array_equal(one.probs[0], everything.probs[row])
        assert one.mean()[0] == everything.mean()[row]


def test_a_lone_name_stands_for_as_many_as_there_are(fitted, name):
    model = fitted(name)
    many = model.predict_proba([1000] * 40, np.arange(1, 41)).probs
    assert np.array_equal(model.predict_proba(1000, np.arange(1, 41)).probs, many)
    assert np.array_equal(model.predict_proba(iter([1000] * 40), iter(range(1, 41))).probs, many)
    assert model.predict(1000, [1, 2])["user"].to_list() == [1000, 1000]
    assert model.predict(iter([1000, 1001]), iter([1, 2]))["item"].to_list() == [1, 2]


def test_no_pairs_are_no_rows(fitted, name):
    model = fitted(name)
    assert len(model.predict_proba([], [])) == 0
    assert len(model.predict([], [])) == 0
    assert len(model.predict(1000, [])) == 0


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_answers_without_rows_have_the_types_of_those_with_rows(name, text):
    ratings = planted(n_users=12, n_items=9, n=80)
    users, items = ratings.users[ratings.user], ratings.items[ratings.item]
    if text:
        users, items = ([f"{letter}{code}" for code in codes] for letter, codes in (("u", users), ("i", items)))
    model = make(name).fit(sc.Ratings.from_arrays(users, items, ratings.values, titles={items[0]: "Film"}))
    user, item = model.users_[:2].tolist(), model.items_[:2].tolist()
    empty_kinds = (list, pl.Series, pd.Series, lambda values: pa.array(values, pa.string()))
    for column, empty_column in zip((list, pl.Series, pd.Series, pa.array), empty_kinds, strict=True):
        nothing = empty_column([])
        for full, empty in [
            (model.predict(column(user), column(item)), model.predict(nothing, nothing)),
            (model.predict(column(user), column(item)), model.predict(column(user), column(item), 1.0)[:0]),
            (model.recommend(column(user), exclude_seen=False), model.recommend(nothing)),
            (model.recommend(column(user), exclude_seen=False), model.recommend(column(user), candidates=nothing)),
            (model.recommend(column(user), exclude_seen=False), model.recommend(column(user), threshold=1.0)),
        ]:
            assert type(full) is type(empty)
            if isinstance(full, pd.DataFrame):
                assert pd.concat([full, empty]).dtypes.equals(full.dtypes)
            elif isinstance(full, pl.DataFrame):
                assert pl.concat([full, empty]).schema == full.schema
            else:
                assert pa.concat_tables([full, empty]).schema == full.schema


def test_a_pandas_answer_has_the_index_of_the_question(fitted, name):
    table = pd.DataFrame({"user": ALL[0], "item": ALL[1]}).sample(50, random_state=0)
    frame = fitted(name).predict(table["user"], table["item"])
    assert frame.index.equals(table.index)
    assert frame["item"].equals(table["item"])
    assert fitted(name).predict(1000, table["item"]).index.equals(table.index)
    assert fitted(name).predict(table["user"].to_numpy(), table["item"]).index.equals(table.index)
    asked = table.set_index("user")
    assert fitted(name).predict(asked.index, asked["item"]).index.equals(asked.index)
    assert isinstance(fitted(name).predict(asked.index, 1), pd.DataFrame)
    assert isinstance(fitted(name).recommend(asked.index[:2]), pd.DataFrame)
    assert isinstance(fitted(name).recommend(1000, candidates=table["item"]), pd.DataFrame)


def test_an_unknown_user_in_a_batch_gets_the_list_of_a_newcomer(fitted, name):
    model = fitted(name)
    frame = model.recommend([1001, 7, 1000, 8, 7], n=4)
    assert frame["user"].unique(maintain_order=True).to_list() == [1001, 7, 1000, 8]
    assert frame["user"].to_list() == [user for user in (1001, 7, 1000, 8, 7) for _ in range(4)]
    assert frame["rank"].to_list() == [1, 2, 3, 4] * 5
    known = frame.filter(pl.col("known"))
    assert known.rows() == model.recommend([1001, 1000], n=4).rows()
    new = frame.filter(~pl.col("known"))
    assert set(new["user"]) == {7, 8}
    assert new.drop("user")[:4].equals(new.drop("user")[4:8])
    assert new["mean"][:4].is_sorted(descending=True) or new["prediction"][0] > new["prediction"][3]
    if name.startswith("ordinalmf"):
        assert new["mean"].to_list() == model.predict(new["user"], new["item"], point="mean")["prediction"].to_list()
    assert model.recommend(7, n=4).rows() == new[:4].rows()
    assert len(model.recommend([7], n=50)) == 40
    assert len(model.recommend([7, 1000], candidates=[])) == 0
    chosen = model.recommend([7, 1000], candidates=[3, 5], exclude_seen=False)
    assert [sorted(chosen.filter(pl.col("user") == user)["item"]) for user in (7, 1000)] == [[3, 5], [3, 5]]


def test_a_name_of_another_type_in_a_batch_is_unknown(fitted, name):
    model = fitted(name)
    frame = model.predict([1000, "guest", "1001"], [1, 2, 3])
    assert frame["known"].to_list() == [True, False, True]
    assert frame["user"].to_list() == ["1000", "guest", "1001"]
    assert frame["reliability"][2] == model.predict(1001, 3)["reliability"][0]
    lists = model.recommend([1000, "guest"], n=2)
    assert lists["user"].to_list() == ["1000", "1000", "guest", "guest"]
    assert lists["known"].to_list() == [True, True, False, False]


def test_unknown_candidates_are_left_out_with_a_warning(fitted, name):
    with pytest.warns(UserWarning, match=r"1 of 3 candidates are unknown to the model and left out, such as 99\."):
        frame = fitted(name).recommend(1000, candidates=[1, 99, 2], exclude_seen=False)
    assert sorted(frame["item"]) == [1, 2]


def test_predictions_are_points_of_the_distribution(fitted, name):
    model = fitted(name)
    answer = model.predict_proba(*ALL)
    for point in ("mode", "median", "mean"):
        frame = model.predict(*ALL, point=point)
        assert frame.columns == ["user", "item", "prediction", "reliability", "known"]
        assert np.array_equal(frame["prediction"].to_numpy(), answer.point(point))
        assert np.array_equal(frame["reliability"].to_numpy(), answer.reliability())
    assert frame["user"].to_list() == ALL[0].tolist()


@pytest.mark.parametrize("kind", ["list", "numpy", "polars", "pandas", "pyarrow", "pyarrow array"])
def test_the_frame_is_of_the_callers_kind_and_withheld_is_missing(fitted, name, kind):
    make_column = {"list": list, "numpy": np.array, "polars": pl.Series, "pandas": pd.Series, "pyarrow": lambda v: pa.chunked_array([v]), "pyarrow array": pa.array}  # fmt: skip
    column, wanted = (
        make_column[kind],
        {"pandas": pd.DataFrame, "pyarrow": pa.Table, "pyarrow array": pa.Table}.get(kind, pl.DataFrame),
    )
    model = fitted(name)
    users, items = ALL[0][:50].tolist(), ALL[1][:50].tolist()
    threshold = float(np.median(model.predict_proba(users, items).reliability()))
    frame = model.predict(column(users), column(items), threshold=threshold)
    assert isinstance(frame, wanted)
    withheld = (model.predict_proba(users, items).reliability() < threshold).tolist()
    if kind == "pandas":
        assert frame["prediction"].isna().tolist() == withheld
    else:
        assert (frame["prediction"].is_null().to_pylist() if kind.startswith("pyarrow") else frame["prediction"].is_null().to_list()) == withheld  # fmt: skip
    assert isinstance(model.recommend(column(users[:1])), wanted)


def test_threshold_zero_withholds_nothing_and_one_almost_all(fitted, name):
    assert fitted(name).predict(*ALL, threshold=0)["prediction"].null_count() == 0
    assert fitted(name).predict(*ALL, threshold=1.0)["prediction"].null_count() == 2400


# Recommendations.


def slow_recommend(model, ratings, user, n=10, threshold=0.0, exclude_seen=True, candidates=range(1, 41)):
    """Every item ranked by mode, mean and the order of the items in the table."""
    seen = set(ratings.items[ratings.item[ratings.users[ratings.user] == user]].tolist())
    place = {item: at for at, item in enumerate(model.items_.tolist())}
    answer = model.predict_proba([user] * len(candidates), list(candidates))
    rows = [
        (-mode, -mean, place[item], item, reliability)
        for item, mode, mean, reliability in zip(
            candidates, answer.mode(), answer.mean(), answer.reliability(), strict=True
        )
        if reliability >= threshold and not (exclude_seen and item in seen)
    ]
    return [(item, -mode, -mean, reliability) for mode, mean, _, item, reliability in sorted(rows)[:n]]


def listed(frame):
    return list(zip(frame["item"], frame["prediction"], frame["mean"], frame["reliability"], strict=True))


@pytest.mark.parametrize("options", [{}, {"n": 3}, {"n": 1000}, {"threshold": 0.4}, {"exclude_seen": False}, {"candidates": [7, 3, 40, 12]}], ids=str)  # fmt: skip
def test_recommendations_are_ranked_by_mode_then_mean_then_item(fitted, name, options):
    model, ratings = fitted(name), planted()
    for user in (1000, 1033):
        frame = model.recommend(user, **options)
        assert listed(frame) == slow_recommend(model, ratings, user, **options)
        assert frame["rank"].to_list() == list(range(1, len(frame) + 1))
        assert frame["user"].unique().to_list() in ([user], [])
    assert frame.columns == ["user", "rank", "item", "prediction", "mean", "reliability", "known", "title"]


def test_what_is_exactly_as_reliable_as_the_threshold_is_listed(fitted, name):
    model = fitted(name)
    reliability = np.sort(model.predict_proba(1000, np.arange(1, 41)).reliability())
    for threshold in (reliability[0], reliability[20], reliability[-1]):
        frame = model.recommend(1000, n=40, threshold=threshold, exclude_seen=False)
        assert len(frame) == (reliability >= threshold).sum()


@pytest.mark.parametrize("block", [1, 100, 1 << 18])
def test_one_user_gets_the_same_rows_as_among_all(fitted, name, block, monkeypatch):
    monkeypatch.setattr(ranking, "BLOCK", block)
    model = fitted(name)
    everyone = model.recommend(n=5)
    assert everyone["user"].unique(maintain_order=True).to_list() == model.users_.tolist()
    for user in (1000, 1017, 1059):
        assert everyone.filter(pl.col("user") == user).rows() == model.recommend(user, n=5).rows()
    assert model.recommend([1017, 1000], n=5).rows() == model.recommend(1017, n=5).rows() + model.recommend(1000, n=5).rows()  # fmt: skip


def test_progress_is_told_to_the_end(fitted, name, monkeypatch):
    monkeypatch.setattr(ranking, "BLOCK", 10 * 40 * 5)  # users, items, scores
    calls = []
    fitted(name).recommend(n=1, on_progress=lambda done, total: calls.append((done, total)))
    assert calls == [(10 * k, 60) for k in range(1, 7)]


def test_titles_stand_beside_the_items(fitted, name):
    frame = fitted(name).recommend(1000)
    assert frame["title"].to_list() == [f"Film {item}" for item in frame["item"]]
    assert "title" not in make(name).fit(planted()).recommend(1000).columns


def test_titles_are_found_by_item_and_names_stand_in_for_them(fitted, name):
    assert fitted(name).titles_for([3, 1, 99]) == ["Film 3", "Film 1", "99"]
    assert fitted(name).titles_for([]) == []
    assert make(name).fit(planted()).titles_for([3, 1]) == ["3", "1"]


def test_typed_names_get_the_type_of_the_names(fitted, name):
    assert fitted(name).parse_users(["1000", "x"]) == [1000, "x"]
    assert fitted(name).parse_items(["7"]) == [7]
    for ask in ("parse_users", "parse_items", "titles_for"):
        with pytest.raises(NotFittedError):
            getattr(kind(name)(), ask)(["1"])


def test_a_model_must_learn_and_answer(fitted, name):
    class Bare(sc.Model):
        pass

    with pytest.raises(NotImplementedError):
        Bare().fit(planted())
    with pytest.raises(NotImplementedError):
        Bare()._proba(np.array([0]), np.array([0]))


def test_empty_questions_get_empty_answers(fitted, name):
    model = fitted(name)
    columns = model.recommend(1000).columns
    for frame in (model.recommend([]), model.recommend(1000, candidates=[]), model.recommend(1000, threshold=1.0)):
        assert len(frame) == 0
        assert frame.columns == columns


def test_a_list_longer_than_any_memory_is_only_as_long_as_the_items(fitted, name):
    assert len(fitted(name).recommend(1000, n=10**15, exclude_seen=False)) == 40
    assert len(fitted(name).recommend(1000, n=2**70, exclude_seen=False)) == 40


# Files, parameters.


def test_saved_and_loaded_gives_the_same_bits(fitted, name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model.starcast")
    loaded = sc.load(tmp_path / "model.starcast")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(all_probs(loaded), all_probs(model))
    assert loaded.recommend().equals(model.recommend())
    assert loaded.digest_ == planted().digest()
    for key, value in vars(model).items():
        if key.endswith("_"):
            assert np.array_equal(getattr(loaded, key), value)
    loaded.save(tmp_path / "model.starcast")  # over the file that it is mapped from
    assert np.array_equal(all_probs(loaded), all_probs(sc.load(tmp_path / "model.starcast")))


def test_everything_learnt_is_declared(fitted, name):
    model = fitted(name)
    learnt = {key for key in vars(model) if key.endswith("_")}
    assert learnt == {*model.BASE, *model.LEARNT, "titles_", "digest_"}


def test_parameters_have_the_names_that_all_models_share(name):
    new = sorted(set(kind(name)().get_params()) - PARAMETERS)
    assert new == [], "new words: add them to PARAMETERS if no old one will do"
    assert list(kind(name)().get_params()) == list(inspect.signature(kind(name)).parameters)


def test_the_constructor_only_stores(name):
    marks = {parameter: object() for parameter in kind(name)().get_params()}
    assert kind(name)(**marks).get_params() == marks


def test_clone_has_the_parameters_and_nothing_learnt(fitted, name):
    model = fitted(name)
    clone = model.clone()
    assert clone is not model
    assert clone.get_params() == model.get_params()
    assert not clone.is_fitted


def test_set_params_sets_and_refuses_what_is_not_there(name):
    model = kind(name)()
    for parameter in model.get_params():
        assert model.set_params(**{parameter: 3}) is model
        assert model.get_params()[parameter] == 3
        assert repr(model.clone()) == repr(model)
    with pytest.raises(UnknownNameError, match=rf"unknown parameter of {kind(name).__name__} 'n_factorz'"):
        model.set_params(n_factorz=3)


def test_a_fitted_model_whose_parameters_became_nonsense_says_so(fitted, name):
    for parameter in fitted(name).get_params():
        changed = copy.copy(fitted(name)).set_params(**{parameter: "nonsense"})
        with pytest.raises((ParameterError, UnknownNameError), match=rf"{parameter}.*'nonsense'"):
            changed.predict(1000, 1)


def test_repr_shows_what_was_changed(name):
    assert repr(kind(name)()) == f"{kind(name).__name__}()"
    for parameter in kind(name)().get_params():
        assert repr(kind(name)(**{parameter: 13})) == f"{kind(name).__name__}({parameter}=13)"


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_a_copy_of_a_fitted_model_answers_alike(fitted, name, duplicate):
    assert np.array_equal(all_probs(duplicate(fitted(name))), all_probs(fitted(name)))


def test_planted_ratings_are_forecast_better_than_by_global_frequencies(name):
    train, test = sc.holdout(planted(3, n=1600), test_size=0.2, random_state=0)
    losses = [
        metrics.nll(test.values, m.fit(train).predict_proba(test.users[test.user], test.items[test.item]))
        for m in (make(name), MODELS["global"]())
    ]
    assert losses[0] < losses[1] - 0.05 or name == "global"


# What must be refused.


def test_an_unfitted_model_says_so(name, tmp_path):
    model = kind(name)()
    message = rf"{kind(name).__name__} is not fitted\. Call fit\(ratings\) first\."
    for call in (lambda: model.predict_proba(1, 1), lambda: model.predict(1, 1), lambda: model.recommend(1), lambda: model.save(tmp_path / "m")):  # fmt: skip
        with pytest.raises(NotFittedError, match=message):
            call()
    assert list(tmp_path.iterdir()) == []


def test_only_ratings_can_be_fitted(name):
    for wrong in (pl.DataFrame({"user": [1]}), None, [[1, 1, 5]]):
        with pytest.raises(DataError, match=rf"fit needs Ratings, got {type(wrong).__name__}\. Make them with"):
            kind(name)().fit(wrong)
    with pytest.raises(DataError, match=r"fit needs at least one rating, got none\."):
        kind(name)().fit(planted().take(np.zeros(1200, bool)))


def test_one_rating_is_enough(name):
    model = make(name).fit(sc.Ratings.from_arrays(["a"], ["x"], [1], scores=[1, 2]))
    assert model.predict_proba("a", "x").probs.sum() == pytest.approx(1)
    assert len(model.recommend("a")) == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.predict([1000, 1001], [1, 2, 3]), DataError, r"users and items must pair up, got 2 users and 3 items\."),
        (lambda m: m.predict(["ann"], [1]), DataError, r"users are integers here \(such as \d+\), got strings \(such as 'ann'\)\. Ask with integers\."),
        (lambda m: m.predict([1000], ["x"]), DataError, r"items are integers here"),
        (lambda m: m.predict(1000, 1, threshold=1.5), ParameterError, r"threshold must be a number from 0 to 1, got 1\.5\."),
        (lambda m: m.predict(1000, 1, threshold=float("nan")), ParameterError, r"threshold must be a number from 0 to 1, got nan\."),
        (lambda m: m.predict(1000, 1, point="modus"), UnknownNameError, r"unknown point 'modus'\. Did you mean 'mode'\?"),
        (lambda m: m.recommend(1000, threshold=-0.1), ParameterError, r"threshold must be a number from 0 to 1, got -0\.1\."),
        (lambda m: m.recommend(1000, n=0), ParameterError, r"n must be a whole number of at least 1, got 0\."),
        (lambda m: m.recommend(1000, n=True), ParameterError, r"n must be a whole number of at least 1, got True\."),
        (lambda m: m.recommend(1000, n=2.5), ParameterError, r"n must be a whole number of at least 1, got 2\.5\."),
        (lambda m: m.recommend("ann"), DataError, r"users are integers here"),
    ],
)  # fmt: skip
def test_questions_that_cannot_be_answered_are_said(fitted, name, call, error, message):
    with pytest.raises(error, match=message):
        call(fitted(name))


def test_a_misspelt_model_is_guessed(name):
    name = name.partition(",")[0]
    with pytest.raises(UnknownNameError, match=rf"unknown model '{name}x'\. Did you mean '{name}'\? Known: .*{name}"):
        make_model(f"{name}x")


def test_the_reliability_of_a_recommendation_is_that_of_a_prediction(name):
    model = make(name).fit(planted())
    listed = model.recommend(n=5)
    assert listed["reliability"].dtype == pl.Float64
    assert model.predict(listed["user"], listed["item"])["reliability"].equals(listed["reliability"])
    level = np.nextafter(listed["reliability"][0], 1)  # just above, in double precision
    kept = model.recommend(n=5, threshold=level)
    assert kept.filter(pl.col("reliability") < level).is_empty()


def test_pandas_gets_numbers_when_everything_is_withheld(name):
    model = make(name).fit(planted())
    frame = model.predict(pd.Series(model.users_[:3]), model.items_[:3], 1.0)
    assert frame["prediction"].isna().all()
    assert frame["prediction"].dtype == np.float64
