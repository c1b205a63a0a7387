"""Answers of models: sums, index and kind of frames, unknown names, long scales, scikit-learn's conventions."""

import copy
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from service import Service

import starcast as sc
from starcast.errors import DataError, ParameterError, UnknownNameError

SMALL = {
    sc.OrdinalMF: {"n_factors": 2, "n_company": 0, "burn_in": 2, "n_draws": 4, "thin": 1},
    sc.ResBeMF: {"n_factors": 2, "n_iters": 3},
    sc.BeMF: {"n_factors": 2, "n_iters": 3},
    sc.DirMF: {"n_factors": 2, "n_iters": 3},
    sc.PMF: {"n_factors": 2, "n_iters": 3},
    sc.BiasedMF: {"n_factors": 2, "n_iters": 3},
    sc.NaiveBayes: {},
}


def small(kind):
    seed = {} if kind is sc.NaiveBayes else {"random_state": 0}
    return kind(**SMALL[kind], **seed)


@pytest.fixture(scope="module")
def ratings():
    made, _ = sc.make_ratings(30, 50, density=0.3, random_state=0)
    return made


@pytest.fixture(scope="module")
def named(ratings):
    """The same ratings with text as names."""
    users, items = (
        [f"{letter}{name}" for name in names[codes]]
        for letter, names, codes in (("u", ratings.users, ratings.user), ("i", ratings.items, ratings.item))
    )
    return sc.Ratings.from_arrays(users, items, ratings.values, scores=ratings.scores)


@pytest.fixture(scope="module")
def fitted(ratings):
    return {kind: small(kind).fit(ratings) for kind in SMALL}


@pytest.fixture(scope="module")
def by_text(named):
    return sc.NaiveBayes().fit(named)


# Sums.


@pytest.mark.parametrize("kind", SMALL)
def test_probabilities_can_be_drawn_from(fitted, kind):
    model = fitted[kind]
    rng = np.random.default_rng(0)
    for probs in model.predict_proba(model.users_[0], model.items_).probs:
        assert abs(math.fsum(probs) - 1) <= 1e-15
        assert rng.choice(model.scores_, p=probs) in model.scores_


def test_a_distribution_is_normalized_when_it_is_made():
    given = np.array([[0.2, 0.3, 0.50001], [0.25, 0.25, 0.5]])
    made = sc.Distribution(given, [1, 2, 3])
    assert np.abs(made.probs.sum(axis=1) - 1).max() <= 1e-15
    assert given[0, 2] == 0.50001
    assert made.probs[1].tolist() == [0.25, 0.25, 0.5]
    again = sc.Distribution(made.probs, made.scores)
    assert np.array_equal(again.probs, made.probs)
    single = sc.Distribution(np.float32([[0.1, 0.2, 0.7]]), [1, 2, 3])
    assert abs(math.fsum(single.probs[0]) - 1) <= 1e-15
    with pytest.raises(DataError, match="add up to one"):
        sc.Distribution([[0.2, 0.3, 0.51]], [1, 2, 3])


@pytest.mark.parametrize("n_scores", [2, 5, 10, 101, 127])
def test_normalized_rows_stay_as_they_are(n_scores):
    probs = np.random.default_rng(0).dirichlet(np.ones(n_scores), 500).astype(np.float32)
    once = sc.Distribution(probs, np.arange(n_scores)).probs
    assert max(abs(math.fsum(row) - 1) for row in once) <= 4.5e-16
    assert np.array_equal(sc.Distribution(once, np.arange(n_scores)).probs, once)


def test_the_probability_of_a_score_or_more():
    answer = sc.Distribution([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 0.0]], [0.1, 0.2, 0.3, 0.4])
    assert answer.at_least(0.3).round(12).tolist() == [0.7, 1.0]
    assert answer.at_least(0.1 + 0.2).round(12).tolist() == [0.7, 1.0]  # a rounding error above .3
    assert answer.at_least(0.35).round(12).tolist() == [0.4, 0.0]
    assert answer.at_least(-math.inf).tolist() == [1.0, 1.0]
    assert answer.at_least(9).tolist() == [0.0, 0.0]
    for wrong in ("3", None, math.nan, True, [1, 2]):
        with pytest.raises(ParameterError, match="score must be a number"):
            answer.at_least(wrong)


# Long scales.


@pytest.fixture(scope="module")
def hundred():
    """Ratings from 0 to 100."""
    rng = np.random.default_rng(0)
    cell = rng.permutation(20 * 30)[:300]
    values = np.clip(np.round(50 + 20 * rng.standard_normal(300)), 0, 100)
    return sc.Ratings.from_arrays(cell // 30, cell % 30, values, scores=range(101))


@pytest.mark.parametrize("kind", [sc.PMF, sc.BiasedMF, sc.NaiveBayes])
def test_lists_of_a_hundred_scores_hold_what_is_predicted(hundred, kind):
    params = {} if kind is sc.NaiveBayes else {"learning_rate": 0.0001, "update": "exact"}
    model = small(kind).set_params(**params).fit(hundred)
    listed = model.recommend(n=5)
    assert len(listed) == 20 * 5
    asked = model.predict_proba(listed["user"], listed["item"])
    assert listed["prediction"].to_list() == asked.mode().tolist()
    assert listed["mean"].to_list() == asked.mean().tolist()
    assert listed["reliability"].to_list() == asked.reliability().tolist()
    assert max(abs(math.fsum(row) - 1) for row in asked.probs) <= 1e-15
    answer = Service(model).get("/api/recommend", user=int(model.users_[0]), n=3)
    assert answer.status_code == 200
    assert [row["item"] for row in answer.json()["recommendations"]] == listed["item"].to_list()[:3]


# Frames.


def test_a_pandas_answer_is_assigned_to_the_rows_that_it_is_about(ratings, fitted):
    table = ratings.to_frame(pd.Series([0])).sample(frac=0.5, random_state=1)
    model = fitted[sc.NaiveBayes]
    table["prediction"] = model.predict(table["user"], table["item"])["prediction"]
    assert table["prediction"].tolist() == model.predict(table["user"].tolist(), table["item"].tolist())["prediction"].to_list()  # fmt: skip
    answer = model.predict_proba(table["user"], table["item"])
    assert answer.to_frame(table).index.equals(table.index)
    train, new = sc.holdout(ratings, test_size=0.3, random_state=0)
    sets = sc.conformal(sc.NaiveBayes().fit(train), new, alpha=0.2).predict(table["user"], table["item"])
    assert sets.index.equals(table.index)


def test_a_pandas_index_is_a_question_in_pandas(fitted):
    model = fitted[sc.NaiveBayes]
    users = pd.Index(model.users_[:3])
    assert isinstance(model.predict(users, model.items_[:3]), pd.DataFrame)
    assert isinstance(model.recommend(users), pd.DataFrame)
    assert isinstance(model.recommend(candidates=pd.Series(model.items_[:3])), pd.DataFrame)


def test_an_explanation_is_of_the_kind_of_the_question(fitted):
    model = fitted[sc.BiasedMF]
    user, item = model.users_[:1], model.items_[:1]
    assert isinstance(model.explain(pd.Series(user), item), pd.DataFrame)
    assert isinstance(model.explain(int(user[0]), pd.Index(item)), pd.DataFrame)
    assert isinstance(model.explain(pl.Series(user), item), pl.DataFrame)


@pytest.mark.parametrize("column", [list, pl.Series, pd.Series, pa.array], ids=["list", "polars", "pandas", "arrow"])
def test_an_empty_answer_joins_a_full_one(by_text, column):
    model = by_text
    user, item = column(model.users_[:2].tolist()), column(model.items_[:2].tolist())
    none = pa.array([], pa.string()) if column is pa.array else column([])
    join = {pd.Series: lambda *f: pd.concat(f).dtypes.to_dict(), pa.array: lambda *f: pa.concat_tables(f).schema}.get(
        column, lambda *f: pl.concat(f).schema
    )
    for full, empty in [
        (model.predict(user, item), model.predict(none, none)),
        (model.predict(user, item), model.predict(user, item, threshold=1.0)),
        (model.recommend(user), model.recommend(none)),
        (model.recommend(user), model.recommend(user, candidates=none)),
    ]:
        assert join(full, empty) == join(full)


def test_an_empty_answer_has_the_types_of_the_models_names(by_text):
    frame = by_text.predict([], [])
    assert frame.schema["user"] == frame.schema["item"] == pl.String
    assert by_text.recommend([]).schema["item"] == pl.String


# Unknown names.


@pytest.mark.parametrize("kind", SMALL)
def test_one_unknown_user_does_not_fail_a_batch(fitted, kind):
    model = fitted[kind]
    one, other = model.users_[:2].tolist()
    frame = model.recommend([one, 999_999, other], n=3)
    assert frame["known"].to_list() == [True] * 3 + [False] * 3 + [True] * 3
    assert frame["user"].to_list() == [one] * 3 + [999_999] * 3 + [other] * 3
    assert frame.filter(pl.col("known")).equals(model.recommend([one, other], n=3))


def test_a_newcomers_list_goes_by_how_items_were_rated():
    table = sc.Ratings.from_arrays(
        [f"u{k}" for k in range(60)] * 2, ["good"] * 60 + ["bad"] * 60, [5] * 55 + [1] * 5 + [5] * 5 + [1] * 55
    )
    for kind in (sc.BiasedMF, sc.PMF, sc.ResBeMF, sc.NaiveBayes, sc.OrdinalMF):
        listed = small(kind).fit(table).recommend(["nobody"])
        assert listed["item"].to_list() == ["good", "bad"]
        assert listed["known"].to_list() == [False, False]


def test_the_threshold_holds_for_newcomers(fitted):
    listed = fitted[sc.NaiveBayes].recommend([999_999], n=50)
    level = listed["reliability"].median()
    short = fitted[sc.NaiveBayes].recommend([999_999], n=50, threshold=level)
    assert short["item"].to_list() == listed.filter(pl.col("reliability") >= level)["item"].to_list()
    assert 0 < len(short) < len(listed)


def test_unknown_candidates_are_left_out(fitted):
    model = fitted[sc.NaiveBayes]
    user, items = int(model.users_[0]), model.items_[:2].tolist()
    with pytest.warns(UserWarning, match="2 of 4 candidates are unknown"):
        listed = model.recommend(user, candidates=[*items, -1, -2], exclude_seen=False)
    assert sorted(listed["item"]) == sorted(items)


def test_names_of_two_types_are_asked_for_at_once(by_text, fitted):
    user, item = by_text.users_[0], by_text.items_[0]
    assert by_text.predict([user, 7], item)["known"].to_list() == [True, False]
    assert by_text.recommend([user, 7], n=1)["user"].to_list() == [user, "7"]
    numbered = fitted[sc.NaiveBayes]
    first = int(numbered.users_[0])
    assert numbered.recommend([first, "guest"], n=1)["user"].to_list() == [str(first), "guest"]
    assert numbered.recommend(iter([first, str(first)]), n=1)["user"].to_list() == [first, first]
    with pytest.raises(DataError, match="users are integers here"):
        numbered.recommend(["guest"])
    with pytest.raises(DataError, match="must not be missing"):
        numbered.recommend([first, "guest", None])
    with pytest.raises(UnknownNameError, match="unknown user"):
        fitted[sc.BiasedMF].explain(999_999, int(numbered.items_[0]))


def test_a_model_that_fold_in_made_knows_what_its_items_were_rated(fitted):
    model = fitted[sc.BiasedMF]
    mine = sc.Ratings.from_arrays(["me"], model.items_[:1], [5.0], scores=model.scores_)
    assert model.fold_in(mine).recommend(["nobody"])["item"].equals(model.recommend([-5])["item"])


# Arguments.


def test_a_lone_number_is_one_threshold(ratings, fitted):
    rows = sc.evaluate(fitted[sc.NaiveBayes], ratings, 0.5).rows
    assert rows == sc.evaluate(fitted[sc.NaiveBayes], ratings, [0.5]).rows
    assert len(sc.cross_validate(sc.NaiveBayes(), ratings, 2, 0.5, random_state=0)) == 2
    for wrong in (1.5, "half", None, [0.5, 2]):
        with pytest.raises(ParameterError, match=r"thresholds? must be a number from 0 to 1"):
            sc.evaluate(fitted[sc.NaiveBayes], ratings, wrong)


def test_get_params_takes_deep():
    for deep in (True, False):
        assert sc.PMF(n_factors=3).get_params(deep=deep) == sc.PMF(n_factors=3).get_params()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_as_random_state_draws_a_seed(ratings, make, tmp_path):
    first, second = (small(sc.PMF).set_params(random_state=make(5)).fit(ratings) for _ in range(2))
    assert np.array_equal(first.user_factors_, second.user_factors_)
    assert isinstance(first.random_state, int)
    assert np.array_equal(first.clone().fit(ratings).user_factors_, first.user_factors_)
    first.save(tmp_path / "model")
    found = sc.search(
        first.clone().set_params(random_state=make(5)), ratings, {"n_factors": [1, 2]}, method="grid", cv=2
    )
    assert len(found) == 2
    shared = make(5)
    several = [small(sc.PMF).set_params(random_state=shared).fit(ratings) for _ in range(2)]
    assert several[0].random_state != several[1].random_state


@pytest.mark.parametrize("make", [np.column_stack, lambda c: list(map(list, zip(*c, strict=True)))])
def test_pairs_and_ratings_are_fitted_as_in_scikit_learn(ratings, fitted, make):
    users, items = ratings.users[ratings.user], ratings.items[ratings.item]
    model = sc.NaiveBayes().fit(make([users.tolist(), items.tolist()]), ratings.values)
    assert np.array_equal(model.predict_proba(users, items).probs, fitted[sc.NaiveBayes].predict_proba(users, items).probs)  # fmt: skip


def test_pairs_in_a_frame_are_fitted_by_the_names_of_its_columns(ratings, fitted):
    table = pl.DataFrame({"movieId": ratings.items[ratings.item], "userId": ratings.users[ratings.user]})
    plain = pd.DataFrame({"a": ratings.users[ratings.user], "b": ratings.items[ratings.item]})
    for pairs in (table, table.to_pandas(), table.to_arrow(), plain):
        assert sc.NaiveBayes().fit(pairs, ratings.values).digest_ == fitted[sc.NaiveBayes].digest_
    for wrong, y in ((plain[["a"]], [1.0]), (np.zeros((2, 3), int), [1, 2]), ([1, 2], [1, 2]), (ratings, [1])):
        with pytest.raises(DataError, match=r"X must have two columns|fit takes Ratings alone"):
            sc.NaiveBayes().fit(wrong, y)


def test_a_folded_in_model_gives_newcomers_the_same_lists_after_a_copy(fitted, tmp_path):
    model = fitted[sc.BiasedMF]
    wanted = model.recommend([999_999], n=5)
    one = model.fold_in(sc.Ratings.from_arrays([7], [int(model.items_[0])], [model.scores_[0]], scores=model.scores_))
    one.save(tmp_path / "one")
    loaded = sc.load(tmp_path / "one")
    loaded.save(tmp_path / "again")
    for same in (one, loaded, copy.deepcopy(one), sc.load(tmp_path / "again"), copy.deepcopy(loaded)):
        assert same.recommend([999_999], n=5).equals(wanted)
    assert not hasattr(copy.deepcopy(model), "item_scores_")


def test_folded_in_ratings_of_all_items_do_not_pass_for_those_of_the_fit(ratings, fitted):
    model = fitted[sc.BiasedMF]
    turned = sc.Ratings.from_arrays(
        ratings.users[ratings.user],
        ratings.items[ratings.item],
        ratings.scores[::-1][ratings.score],
        scores=ratings.scores,
    )
    folded = copy.deepcopy(model.fold_in(turned))
    assert folded.recommend([999_999], n=5).equals(model.recommend([999_999], n=5))
    with pytest.raises(DataError, match="a model that fold_in made"):
        folded.partial_fit(turned)
