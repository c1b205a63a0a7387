"""New ratings, users and items on top of a fit: what is learnt, what stays, what it is worth."""

import numpy as np
import pytest
import small

import starcast as sc
from starcast.errors import DataError, DivergenceError
from starcast.models import MODELS, growth

SOLVING = [name for name, cls in MODELS.items() if cls._solves_rows is not sc.Model._solves_rows]
REFITTING = [(name, {}) for name in ("global", "item", "bayes")]
REFITTING += [("resbemf", {"update": "paper", "regularization": 0.05}), ("pmf", {"precision": "double"})]
by_model = pytest.mark.parametrize("name", SOLVING)


def make(name, **params):
    few = {"n_draws": 8, "burn_in": 10} if name == "ordinalmf" else {}  # it learns long, and here often
    return small.make(name, **few | params)


@pytest.fixture(autouse=True)
def rows_are_solved_for(monkeypatch):
    """However many ratings are touched, since that is what is tested here."""
    monkeypatch.setattr(sc.OrdinalMF, "MOST_TOUCHED", 1.0)


@pytest.fixture(scope="module")
def parts():
    """Ratings to begin with, a tenth as many to absorb (with ten new users and three new items), and some to test."""
    ratings, _ = sc.make_ratings(200, 70, density=0.45, n_factors=1, confidence=4.0, random_state=1)
    rng = np.random.default_rng(0)
    test = rng.random(len(ratings)) < 0.2
    new = (ratings.user < 10) | (ratings.item < 3) | (rng.random(len(ratings)) < 0.03)
    return ratings.take(~test & ~new), ratings.take(~test & new), ratings.take(~test), ratings.take(test)


def joined(old, new, **options):
    columns = zip(*((t.users[t.user], t.items[t.item], t.values) for t in (old, new)), strict=True)
    users, items, values = (np.concatenate(column) for column in columns)
    return sc.Ratings.from_arrays(users, items, values, scores=old.scores, duplicates="last", **options)


def nll(model, ratings):
    answer = model.predict_proba(ratings.users[ratings.user], ratings.items[ratings.item])
    return sc.metrics.nll(ratings.values, answer)


def state(model):
    held = {key: value for key, value in vars(model).items() if isinstance(value, np.ndarray)}
    texts = {key: value.tolist() if value.dtype == object else value.tobytes() for key, value in held.items()}
    return texts | {"digest_": model.digest_, "params": model.get_params()}


@pytest.fixture
def tiny():
    """A model of six ratings with titles, by user, and two that are new."""
    old = sc.Ratings.from_arrays(
        ["ann", "ann", "bob", "bob", "cat", "cat"], ["x", "y", "x", "z", "y", "w"], [5, 3, 4, 1, 2, 5],
        scores=[1, 2, 3, 4, 5], titles={"x": "Ex", "y": "Why"},
    )  # fmt: skip
    new = sc.Ratings.from_arrays(["ann", "dan", "bob"], ["y", "v", "y"], [1, 2, 2], titles={"v": "Vee", "y": "No"})
    return old, new


# What is learnt.


@by_model
def test_a_tenth_more_ratings_are_worth_what_they_are_in_a_refit(parts, name):
    old, new, both, test = parts
    assert 0.08 < len(new) / len(both) < 0.15
    model = make(name).fit(old)
    unknown = test.take(~np.isin(test.users[test.user], old.users))
    before, unknown_before = nll(model, test), nll(model, unknown)
    assert model.partial_fit(new) is model
    refit = make(name).fit(both)
    assert nll(model, test) < (1.001 if name == "resbemf" else 1.03) * nll(refit, test)
    assert nll(model, unknown) < 1.03 * nll(refit, unknown)
    if name != "dirmf":  # which says less of known users here than the prior of unknown ones
        assert nll(model, test) < before - 0.02
        assert nll(model, unknown) < unknown_before - 0.2


@by_model
def test_rows_without_new_ratings_stay_to_the_bit(parts, name):
    old, new, *_ = parts
    model, before = make(name).fit(old), make(name).fit(old)
    new = new.take(np.arange(12))
    model.partial_fit(new)
    for of, names, touched in (("users", model.users_, new.users), ("items", model.items_, new.items)):
        moved = False
        for name, axis in growth._axes(model, of):
            rows, then = (np.moveaxis(getattr(m, name), axis, 0) for m in (model, before))
            still = ~np.isin(names[: len(then)], touched)
            assert 0 < still.sum() < len(then)
            assert np.array_equal(rows[: len(then)][still], then[still])
            assert rows.dtype == then.dtype
            moved |= bool((rows[: len(then)][~still] != then[~still]).any())
        assert moved


def test_forecasts_of_rows_without_new_ratings_stay_when_the_scores_of_all_move(parts):
    """Many new users give one item nothing but fives: that is no news of the other items."""
    old = parts[0]
    model = make("ordinalmf", centering=0).fit(old)
    pairs = old.users[old.user][old.item > 0], old.items[old.item][old.item > 0]
    before, n = model.predict_proba(*pairs).probs, len(old) // 5
    fives = sc.Ratings.from_arrays(np.arange(n) + 10**6, [old.items[0]] * n, [5] * n, scores=old.scores)
    assert model.partial_fit(fives).prior_[-1] > old.counts()[-1] / len(old) + 0.1
    assert np.abs(model.predict_proba(*pairs).probs - before).max() < 1e-6


@pytest.mark.parametrize("name", ["resbemf", "bemf", "dirmf"])
def test_what_was_learnt_fits_better_with_each_pass(parts, name, monkeypatch):
    old, new, both, _ = parts
    losses = []
    for passes in (1, 2, 3):
        monkeypatch.setattr(growth, "PASSES", passes)
        losses.append(nll(make(name).fit(old).partial_fit(new), both))
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("name", ["pmf", "biasedmf"])
def test_the_spread_is_that_of_all_residuals(parts, name):
    old, new, both, _ = parts
    model = make(name).fit(old).partial_fit(new)
    user = model._user_lookup.codes(both.users, "users")[both.user]
    item = model._item_lookup.codes(both.items, "items")[both.item]
    assert model.spread_ == pytest.approx(np.sqrt(np.mean((both.values - model.values(user, item)) ** 2)))


def test_known_rows_go_on_from_where_they_are_and_new_ones_from_the_start(tiny, monkeypatch):
    starts, solve = [], sc.ResBeMF._solve_rows

    def watched(self, of, side, start=None):
        starts.append((of, np.diff(side.start).tolist(), start.tolist()))
        return solve(self, of, side, start)

    model = make("resbemf").fit(tiny[0])
    monkeypatch.setattr(sc.ResBeMF, "_solve_rows", watched)
    model.partial_fit(tiny[1])  # ann, bob and the new dan; y and the new v
    assert starts[:2] == [("users", [2, 3, 1], [0, 1, -1]), ("items", [3, 1], [1, -1])]
    assert starts[2:] == [("users", [2, 3, 1], [0, 1, 3]), ("items", [3, 1], [1, 4])]


@by_model
def test_threads_change_nothing(parts, name):
    old, new, *_ = parts
    one, more = (state(make(name, n_jobs=n).fit(old).partial_fit(new)) for n in (1, 4))
    assert one | {"params": 0} == more | {"params": 0}


@pytest.mark.parametrize(("name", "params"), REFITTING)
def test_models_that_cannot_solve_for_rows_learn_afresh(parts, name, params):
    old, new, _, test = parts
    params = params | ({"n_iters": 3} if "n_iters" in MODELS[name]().get_params() else {})
    model = make(name, **params).fit(old).partial_fit(new)
    table = growth.seen_ratings(make(name, **params).fit(old), "x")
    users, items = growth._extended(sc.names.Lookup(table.users), new.users, "users"), growth._extended(sc.names.Lookup(table.items), new.items, "items")  # fmt: skip
    coded = sc.Ratings(users[0], items[0], old.scores, users[1][new.user], items[1][new.item], new.score)
    fresh = make(name, **params).fit(growth._merge(table, coded, None))
    assert state(model) == state(fresh)
    assert nll(model, test) == nll(fresh, test)


@pytest.mark.parametrize("name", small.NAMES)
def test_without_a_fit_it_is_one(tiny, name):
    model = make(name)
    assert model.partial_fit(tiny[0]) is model
    assert state(model) == state(make(name).fit(tiny[0]))


# What is remembered.


@pytest.mark.parametrize("name", ["resbemf", "bayes"])
def test_names_are_appended_and_a_pair_rated_again_has_its_new_score(tiny, name):
    old, new = tiny
    model = make(name).fit(old).partial_fit(new)
    assert model.users_.tolist() == ["ann", "bob", "cat", "dan"]
    assert model.items_.tolist() == ["x", "y", "z", "w", "v"]
    assert model.titles_.tolist() == ["Ex", "Why", "", "", "Vee"]
    assert model.seen_start_.tolist() == [0, 2, 5, 7, 8]
    assert model.seen_items_.tolist() == [0, 1, 0, 2, 1, 1, 3, 4]
    assert model.scores_[model.seen_scores_].tolist() == [5, 1, 4, 1, 2, 2, 5, 2]
    assert model.item_counts_.tolist() == [2, 3, 1, 1, 1]
    merged = joined(old, new)
    assert model.digest_ == merged.digest()
    assert model.prior_.tolist() == ((merged.counts() + 1) / (len(merged) + 5)).tolist()
    assert model.predict(["dan", "ann"], ["v", "x"])["known"].to_list() == [True, True]


@pytest.mark.parametrize(
    ("before", "after", "titles"),
    [(None, None, None), ({"x": "Ex"}, None, ["Ex", "", "", "", ""]), (None, {"y": "Why", "v": "Vee"}, ["", "Why", "", "", "Vee"])],
)  # fmt: skip
def test_titles_come_from_either_table(tiny, before, after, titles):
    old, new = tiny
    strip = [(t.users[t.user], t.items[t.item], t.values) for t in (old, new)]
    tables = [sc.Ratings.from_arrays(*t, scores=old.scores, titles=k) for t, k in zip(strip, (before, after), strict=True)]  # fmt: skip
    found = make("pmf").fit(tables[0]).partial_fit(tables[1]).titles_
    assert (None if found is None else found.tolist()) == titles


def test_titles_of_known_items_fill_gaps(tiny):
    old, _ = tiny
    new = sc.Ratings.from_arrays(["bob", "bob"], ["w", "y"], [1, 2], titles={"w": "We", "y": "Other"})
    assert make("pmf").fit(old).partial_fit(new).titles_.tolist() == ["Ex", "Why", "", "We"]


@by_model
def test_it_goes_on_afterwards(parts, name, tmp_path):
    old, new, _, test = parts
    model = make(name).fit(old).partial_fit(new.take(np.arange(len(new) // 2)))
    model.partial_fit(new.take(np.arange(len(new) // 2, len(new))))
    whole = make(name).fit(old).partial_fit(new)
    assert nll(model, test) == pytest.approx(nll(whole, test), rel=0.02)
    model.save(tmp_path / "m")
    loaded = sc.load(tmp_path / "m")
    assert loaded.recommend(n=5).equals(model.recommend(n=5))
    assert state(loaded.partial_fit(old)) == state(model.partial_fit(old))  # from the file's read-only arrays, too
    user = new.users[0]
    assert len(model.explain(int(user), int(model.items_[0]))) == 5


def test_the_same_ratings_again_change_next_to_nothing(parts):
    old = parts[0]
    model = make("resbemf", tolerance=0, n_iters=300).fit(old)
    before = model.predict_proba(old.users[old.user], old.items[old.item]).probs
    digest = model.partial_fit(old).digest_
    assert digest == growth.seen_ratings(model, "x").digest()
    assert np.abs(model.predict_proba(old.users[old.user], old.items[old.item]).probs - before).max() < 0.01


# What must be refused, and leave the model as it was.


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        (lambda: None, r"partial_fit needs Ratings, got NoneType\. Make them with"),
        (lambda: sc.Ratings.from_arrays([1], [1], [5], scores=[4, 5]).take([]), r"partial_fit needs at least one rating, got none\."),
        (lambda: sc.Ratings.from_arrays([1, 1], [1, 2], [0, 5]), r"ratings must be on the scale 1, 2, 3, 4, 5; got 0 \(1 such rating\)"),
        (lambda: sc.Ratings.from_arrays([1, 1], [1, 2], [4, 5], scores=range(7)), r"the scale of new ratings must be a part of the model's, from 1 to 5, got one with 0 \(2 such scores\)"),
        (lambda: sc.Ratings.from_arrays(["a", "a"], [1, 2], [4, 5]), r"users are integers here"),
        (lambda: sc.Ratings.from_arrays([1, 1], ["a", "b"], [4, 5]), r"items are integers here"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["resbemf", "bayes"])
def test_ratings_that_cannot_be_absorbed_are_refused(parts, name, ratings, message):
    model = make(name).fit(parts[0])
    before = state(model)
    with pytest.raises(DataError, match=message):
        model.partial_fit(ratings())
    assert state(model) == before


def test_ordinalmf_learns_afresh_where_many_ratings_are_touched(parts, monkeypatch):
    monkeypatch.undo()
    grown, grow = [], growth._grow
    monkeypatch.setattr(growth, "_grow", lambda *args: grown.append(args) or grow(*args))
    model = make("ordinalmf").fit(parts[0])
    model.partial_fit(parts[1].take(np.arange(len(parts[1])) < 1))
    assert len(grown) == 1
    model.partial_fit(parts[1])
    assert len(grown) == 1
    again = make("ordinalmf").fit(growth.seen_ratings(model, "this test"))
    assert np.allclose(model.item_draws_, again.item_draws_, atol=1e-6)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@by_model
def test_an_interrupted_absorption_leaves_the_model_as_it_was(parts, name, error, monkeypatch):
    model = make(name).fit(parts[0])
    before, solve, calls = state(model), type(model)._solve_rows, []

    def fail_later(self, of, side, start=None):
        calls.append(of)
        if len(calls) == 4:
            raise error
        return solve(self, of, side, start)

    monkeypatch.setattr(type(model), "_solve_rows", fail_later)
    with pytest.raises(error):
        model.partial_fit(parts[1])
    assert calls == ["users", "items"] * 2
    assert state(model) == before


def test_steps_that_run_away_leave_the_model_as_it_was(parts):
    model = make("dirmf", n_iters=5).fit(parts[0]).set_params(learning_rate=1e20)
    before = state(model)
    with pytest.raises(DivergenceError, match=r"the rows of new users diverged"):
        model.partial_fit(parts[1])
    assert state(model) == before


def test_a_folded_model_has_too_few_ratings(parts):
    folded = make("resbemf").fit(parts[0]).fold_in(parts[1])
    before = state(folded)
    with pytest.raises(DataError, match=r"partial_fit needs all ratings that the model learnt from, but a model that fold_in made has only those of its users\. Call partial_fit of the model that they were folded into\."):  # fmt: skip
        folded.partial_fit(parts[1])
    assert state(folded) == before


def test_a_folded_model_with_as_many_ratings_is_found_out(tiny):
    old, new = tiny
    others = sc.Ratings.from_arrays(list("abcdef"), ["x"] * len(old), [1, 2, 3, 4, 5, 5])
    with pytest.raises(DataError, match="partial_fit needs all ratings that the model learnt from"):
        make("resbemf").fit(old).fold_in(others).partial_fit(new)


def without(model, *names, path):
    """The model as loaded from a file that lacks some arrays, as those of the first versions did."""
    held = {name: vars(model).pop(name) for name in names}
    model.save(path)
    vars(model).update(held)
    return sc.load(path)


def test_a_file_from_before_has_too_little(parts, tmp_path):
    model = make("resbemf").fit(parts[0])
    old = without(model, "seen_scores_", "item_counts_", path=tmp_path / "m")
    assert np.array_equal(old.item_counts_, model.item_counts_)
    assert old.recommend(n=3).equals(model.recommend(n=3))
    user, item = int(model.users_[0]), int(model.items_[0])
    assert old.fold_in(parts[1]).recommend(n=3).equals(model.fold_in(parts[1]).recommend(n=3))
    for call, what in ((lambda: old.partial_fit(parts[1]), "partial_fit"), (lambda: old.explain(user, item), "explain")):  # fmt: skip
        with pytest.raises(DataError, match=rf"{what} needs the ratings that the model learnt from, but its file was written by an earlier Starcast, which did not keep their scores\. Call fit\(ratings\) again\."):  # fmt: skip
            call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seen_scores_": lambda s: s + np.int8(5)}, "a score code lies outside the scale"),
        ({"seen_scores_": lambda s: -s - np.int8(1)}, "a score code lies outside the scale"),
        ({"seen_scores_": lambda s: s.astype(np.int16)}, "seen_scores_ is not in whole numbers"),
        ({"seen_scores_": lambda s: s[1:]}, r"seen_scores_ has \d+ ratings instead of \d+"),
        ({"item_counts_": lambda n: n.astype(float)}, "item_counts_ is not in whole numbers"),
        ({"item_counts_": lambda n: n[1:]}, r"item_counts_ has \d+ items instead of \d+"),
    ],
)
def test_a_file_whose_ratings_do_not_fit_is_refused(parts, tmp_path, change, message):
    model = make("item").fit(parts[0])
    for name, mutate in change.items():
        setattr(model, name, mutate(getattr(model, name)))
    model.save(tmp_path / "m")
    with pytest.raises(sc.errors.FileFormatError, match=message):
        sc.load(tmp_path / "m")


def test_continue_fit_knows_that_the_ratings_are_others(parts):
    model = make("pmf", precision="double", n_iters=2).fit(parts[0])
    vars(model)["item_counts_"] = model.item_counts_ + 1  # as in a model of some of the users
    with pytest.raises(sc.errors.ParameterError, match=r"continue_fit goes on with the ratings of fit"):
        model.continue_fit(parts[0], 3)
