"""Why a forecast is what it is: each rating left out in turn."""

import json
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from small import NAMES, make

import starcast as sc
from starcast import cli
from starcast.errors import DataError, NotFittedError, ParameterError, UnknownNameError
from starcast.models import MODELS, explanation

SOLVING = [name for name, cls in MODELS.items() if cls._solves_rows is not sc.Model._solves_rows]
by_model = pytest.mark.parametrize("name", SOLVING)


@pytest.fixture(scope="module")
def ratings():
    table = sc.make_ratings(100, 40, density=0.4, n_factors=1, confidence=4.0, random_state=2)[0]
    titles = {item: f"Film {item}" for item in table.items.tolist()}
    return sc.Ratings.from_arrays(table.users[table.user], table.items[table.item], table.values, titles=titles)


@pytest.fixture(scope="module")
def fitted(ratings):
    made = {}

    def fitted(name):
        if name not in made:
            made[name] = make(name).fit(ratings)
        return made[name]

    return fitted


def slow_explain(model, ratings, user, item):
    """Fold in the user with all ratings and without each, and compare what is answered."""
    mine = ratings.take(ratings.users[ratings.user] == user)
    whole = model.fold_in(mine).predict_proba(user, item)
    rows = []
    for row in range(len(mine)):
        part = model.fold_in(mine.take(np.arange(len(mine)) != row)).predict_proba(user, item)
        moved = np.abs(whole.probs - part.probs).sum() / 2
        rows.append((mine.items[mine.item[row]], mine.values[row], (whole.mean() - part.mean())[0], moved))
    return {item: (rating, shift, moved) for item, rating, shift, moved in rows}


@by_model
def test_it_is_what_leaving_each_rating_out_gives(fitted, ratings, name):
    model = fitted(name)
    for user, item in ((3, 5), (40, 17)):
        truth = slow_explain(model, ratings, user, item)
        frame = model.explain(user, item, n=100)
        assert frame.columns == ["item", "rating", "shift", "moved", "direction", "title"]
        assert set(frame["item"]) == set(truth)
        for rated, rating, shift, moved, direction, title in frame.rows():
            assert (rating, title) == (truth[rated][0], f"Film {rated}")
            assert (shift, moved) == pytest.approx(truth[rated][1:], abs=2e-4)
            assert direction == ("up" if shift > 0 else "down" if shift < 0 else "level")
        assert frame["moved"].to_list() == sorted(frame["moved"], reverse=True)
        assert model.explain(user, item).equals(frame[:5])
        assert frame["moved"][0] > 0.005


@by_model
def test_the_model_and_the_answer_stay_the_same(ratings, name):
    model = make(name).fit(ratings)
    before = {k: v.tobytes() for k, v in vars(model).items() if isinstance(v, np.ndarray) and v.dtype != object}
    frames = [model.set_params(n_jobs=n).explain(3, 5) for n in (1, 3)]
    assert frames[0].equals(frames[1])
    assert before == {k: v.tobytes() for k, v in vars(model).items() if isinstance(v, np.ndarray) and v.dtype != object}


def test_praise_of_a_film_like_it_moves_the_forecast_up():
    """Half of the users love even films and hate odd ones, the other half the other way round."""
    rng = np.random.default_rng(0)
    cell = rng.permutation(60 * 20)[:700]
    user, item = cell // 20, cell % 20
    table = sc.Ratings.from_arrays(user, item, np.where((user + item) % 2, 1, 5), scores=[1, 2, 3, 4, 5])
    model = sc.ResBeMF(random_state=0, regularization=1.0).fit(table)
    folded = model.fold_in(sc.Ratings.from_arrays(["me"] * 4, [0, 2, 1, 3], [5, 5, 1, 5]))
    frame = folded.explain("me", 4)
    found = dict(zip(frame["item"], frame["direction"], strict=True))
    assert found == {0: "up", 2: "up", 1: "up", 3: "down"}  # 3 is odd: whoever loves it hates 4
    against = dict(zip(*(folded.explain("me", 5)[column] for column in ("item", "direction")), strict=True))
    assert against == {0: "down", 2: "down", 1: "down", 3: "up"}


@by_model
def test_without_his_only_rating_a_user_is_unknown(fitted, name):
    model = fitted(name)
    lone = model.fold_in(sc.Ratings.from_arrays(["me"], [7], [5], scores=model.scores_))
    frame = lone.explain("me", 9)
    assert frame["item"].to_list() == [7]
    answer = lone.predict_proba(["me", "nobody"], 9)
    assert frame["moved"][0] == pytest.approx(np.abs(answer.probs[0] - answer.probs[1]).sum() / 2, abs=1e-5)
    assert frame["shift"][0] == pytest.approx(answer.mean()[0] - answer.mean()[1], abs=1e-5)


def test_a_user_of_very_many_ratings_is_asked_about_the_least_expected(fitted, monkeypatch):
    model = fitted("resbemf")
    whole = model.explain(3, 5, n=100)
    monkeypatch.setattr(explanation, "MOST_VISITS", 6 * len(whole))
    some = model.explain(3, 5, n=100)
    answer = model.predict_proba(3, whole["item"].to_numpy())
    likely = answer.probs[np.arange(len(whole)), np.searchsorted(model.scores_, whole["rating"].to_numpy())]
    assert set(some["item"]) == set(whole["item"].to_numpy()[np.argsort(likely)[:6]].tolist())
    assert some.equals(whole.filter(pl.col("item").is_in(some["item"].to_list())))
    monkeypatch.setattr(explanation, "MOST_VISITS", 1)
    assert len(model.explain(3, 5)) == 1


def test_the_frame_is_of_the_callers_kind(fitted, ratings):
    assert isinstance(fitted("pmf").explain(pd.Series([3]), 5), pd.DataFrame)
    assert isinstance(fitted("pmf").explain(3, pd.Series([5])), pd.DataFrame)
    bare = sc.PMF(random_state=0).fit(sc.make_ratings(20, 20, density=0.5, random_state=0)[0])
    assert "title" not in bare.explain(3, 5).columns


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.explain(777, 5), UnknownNameError, r"unknown user 777\. The model knows 100 users"),
        (lambda m: m.explain(3, 777), UnknownNameError, r"unknown item 777\."),
        (lambda m: m.explain("ann", 5), DataError, r"users are integers here"),
        (lambda m: m.explain([3, 4], 5), DataError, r"explain takes one user and one item, got 2 users\."),
        (lambda m: m.explain(3, []), DataError, r"explain takes one user and one item, got 0 items\."),
        (lambda m: m.explain(3, 5, n=0), ParameterError, r"n must be a whole number of at least 1, got 0\."),
    ],
)
def test_questions_that_cannot_be_answered_are_said(fitted, call, error, message):
    with pytest.raises(error, match=message):
        call(fitted("resbemf"))


@pytest.mark.parametrize("name", NAMES)
def test_models_that_cannot_say_so(ratings, name):
    with pytest.raises(NotFittedError, match=r"is not fitted"):
        MODELS[name]().explain(3, 5)
    if name in ("global", "item", "bayes"):
        with pytest.raises(ParameterError, match=r"explain needs a model that can solve for one user while the items stand still"):  # fmt: skip
            MODELS[name]().fit(ratings).explain(3, 5)


# On the command line.


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*words):
        monkeypatch.setattr(sys, "argv", ["starcast", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return command


@pytest.fixture
def file(fitted, tmp_path):
    fitted("resbemf").save(tmp_path / "model.starcast")
    return tmp_path / "model.starcast"


def test_the_command_tells_what_moved_a_forecast(run, file, fitted):
    code, text, _ = run("explain", file, 3, 5, "-n", 3)
    frame = fitted("resbemf").explain(3, 5, 3)
    assert code == 0
    lines = text.splitlines()
    assert lines[0].strip() == "what moved the forecast for Film 5"
    for line, row in zip(lines[2:], frame.to_dicts(), strict=True):
        assert line.split()[0] == str(row["item"])
        assert row["title"] in line
        assert f"{row['shift']:+.3f}" in line
    assert json.loads(run("explain", file, 3, 5, "-n", 3, "--json")[1]) == frame.to_dicts()
    assert run("explain", file, 3, 777)[::2] == (2, "error: unknown item 777. The model knows 40 items, such as " + ", ".join(map(str, fitted("resbemf").items_[:3])) + ".\n")  # fmt: skip


def test_the_command_writes_a_table(run, file, fitted, tmp_path):
    assert run("explain", file, 3, 5, "--out", tmp_path / "why.csv")[0] == 0
    assert pl.read_csv(tmp_path / "why.csv")["item"].to_list() == fitted("resbemf").explain(3, 5)["item"].to_list()


def test_the_commands_take_in_users_from_a_file(run, file, fitted, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text("user,item,rating\nme,3,5\nme,4,1\nme,777,3\n")
    folded = fitted("resbemf").fold_in(sc.Ratings.from_arrays(["me"] * 2, [3, 4], [5, 1]))
    code, text, note = run("recommend", file, "--ratings", mine, "-n", 4, "--json")
    assert code == 0
    assert json.loads(text) == folded.recommend(n=4).to_dicts()
    assert note == "note: left out 1 of 3 ratings: the model does not know their items.\n"
    code, text, _ = run("explain", file, "me", 9, "--ratings", mine, "--json")
    assert json.loads(text) == folded.explain("me", 9).to_dicts()
    mine.write_text("user,item,rating\nme,3,6\n")
    code, _, note = run("recommend", file, "--ratings", mine)
    assert code == 2
    assert note.startswith("error: ratings must be on the scale 1, 2, 3, 4, 5; got 6 in line 2")


def test_numbers_in_a_file_are_names_where_names_are_text(run, tmp_path):
    table = sc.Ratings.from_arrays(["a", "a", "b"], ["1", "2", "x"], [1, 2, 3])
    sc.ResBeMF(random_state=0).fit(table).save(tmp_path / "m")
    (tmp_path / "mine.csv").write_text("user,item,rating\nme,1,3\n")
    code, text, note = run("recommend", tmp_path / "m", "--ratings", tmp_path / "mine.csv", "--json")
    assert (code, note) == (0, "")
    assert {row["item"] for row in json.loads(text)} == {"2", "x"}
