"""Promises on the command line, as a person and as a program use them."""

import json

import numpy as np
import polars as pl
import pytest
from test_cli import mistake, run  # noqa: F401

import starcast as sc


@pytest.fixture
def files(tmp_path, run):  # noqa: F811
    """A model file, ratings that it has not seen, and both as objects."""
    ratings, _ = sc.make_ratings(n_users=120, n_items=60, density=0.5, random_state=0)
    train, new = sc.holdout(ratings, test_size=0.4, random_state=0)
    train.to_frame().write_csv(tmp_path / "train.csv")
    new.to_frame().write_csv(tmp_path / "new.csv")
    assert run("fit", tmp_path / "train.csv", "-m", "bayes", "-o", tmp_path / "m")[0] == 0
    return tmp_path


def test_fit_calibrates_when_told(files, run):  # noqa: F811
    code, text, _ = run("fit", files / "train.csv", "-m", "bemf", "-o", files / "c", "--calibrate", "--json")
    assert code == 0
    own = sc.calibrate(sc.BeMF(random_state=0), sc.read_ratings(files / "train.csv"))
    assert json.loads(text)["calibration_gain"] == pytest.approx(own.calibration_gain_)
    assert np.array_equal(sc.load(files / "c").calibration_, own.calibration_)
    told = run("fit", files / "train.csv", "-m", "bemf", "-o", files / "c", "--calibrate")[1]
    assert f"calibrated: {own.calibration_gain_:.4f} nats a held-out rating gained" in told
    run("fit", files / "train.csv", "-m", "bemf", "-o", files / "c")
    assert not hasattr(sc.load(files / "c"), "calibration_")


@pytest.mark.parametrize("options", [{"accuracy": 0.4}, {"mae": 0.9}, {"coverage": 0.5}, {"mae": 1.0, "kind": "error", "point": "median", "unit": "user", "confidence": 0.8}], ids=str)  # fmt: skip
def test_threshold_gives_what_the_library_gives(files, run, options):  # noqa: F811
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    code, text, _ = run("threshold", files / "m", files / "new.csv", *words, "--json")
    assert code == 0
    model = sc.load(files / "m")
    found = sc.choose_threshold(model, sc.read_ratings(files / "new.csv", scores=model.scores_), **options)
    told = json.loads(text)
    assert told["threshold"] == found
    assert {name: told[name] for name in ("kind", "promise", "bound", "coverage")} == {name: getattr(found, name) for name in ("kind", "promise", "bound", "coverage")}  # fmt: skip


def test_threshold_tells_people_how_to_use_it(files, run):  # noqa: F811
    text = run("threshold", files / "m", files / "new.csv", "--mae", 0.9, "--kind", "error")[1]
    assert "for the 1-MAE that is expected; use it as -t error:0." in text
    assert "mae at most 0.9 with a confidence of 0.9, every rating alike" in text
    theta = text.split("-t ")[1].split()[0]
    rows = json.loads(run("predict", files / "m", 1, 1, 2, 3, "-t", theta, "--json")[1])
    own = sc.load(files / "m").predict(1, [1, 2, 3], sc.Threshold(float(theta[6:]), "error"))
    assert [row["reliability"] for row in rows] == own["reliability"].to_list()
    assert [row["prediction"] for row in rows] == own["prediction"].to_list()
    assert run("recommend", files / "m", 1, "-t", theta)[0] == 0
    assert "use it as -t 0." in run("threshold", files / "m", files / "new.csv", "--accuracy", 0.4)[1]


def test_the_threshold_to_use_is_the_one_that_was_tested(files, run):  # noqa: F811
    """Those of the kind share have many digits; rounded up, one would predict less than was promised."""
    text = run("threshold", files / "m", files / "new.csv", "--coverage", 0.5, "--kind", "share")[1]
    model = sc.load(files / "m")
    new = sc.read_ratings(files / "new.csv", scores=model.scores_)
    assert float(text.split("-t ")[1].split()[0]) == sc.choose_threshold(model, new, coverage=0.5, kind="share")


def test_a_promise_that_cannot_be_kept_is_one_line(files, run):  # noqa: F811
    mistake(run("threshold", files / "m", files / "new.csv", "--accuracy", 0.99), "accuracy of at least 0.99 cannot be promised", "The best that can is 0.")  # fmt: skip
    mistake(
        run("threshold", files / "m", files / "new.csv"),
        "exactly one promise of accuracy, mae or coverage, got none. Give --accuracy, --mae or --coverage.",
    )
    mistake(run("threshold", files / "m", files / "train.csv", "--mae", 1), "needs ratings that the model has not seen")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("errors:0.5", "unknown kind 'errors'. Did you mean 'error'?"),
        ("error:1.5", "threshold must be a number from 0 to 1, got 1.5."),
        ("error:", "a threshold must be a number, or a kind and a number: error:0.85, got 'error:'."),
        ("high", "a threshold must be a number, or a kind and a number: error:0.85, got 'high'."),
    ],
)
def test_a_threshold_that_is_none_is_one_line(files, run, text, message):  # noqa: F811
    mistake(run("predict", files / "m", 1, 1, "-t", text), message)
    mistake(run("recommend", files / "m", 1, "-t", text), message)


def test_sets_give_what_the_library_gives(files, run):  # noqa: F811
    code, text, _ = run("sets", files / "m", files / "new.csv", 1, 1, 2, 99, "--alpha", 0.2, "--by", "activity", "--groups", 2, "--json")  # fmt: skip
    assert code == 0
    model = sc.load(files / "m")
    new = sc.read_ratings(files / "new.csv", scores=model.scores_)
    assert json.loads(text) == sc.conformal(model, new, 0.2, by="activity", n_groups=2).predict(1, [1, 2, 99]).to_dicts()  # fmt: skip


def test_sets_are_shown_and_written(files, run):  # noqa: F811
    text = run("sets", files / "m", files / "new.csv", 1, 1, 99)[1]
    assert "90% set" in text
    assert " to " in text
    assert "99 (unknown pair)" in text
    (files / "pairs.csv").write_text("user,item\n1,2\n3,4\n")
    assert run("sets", files / "m", files / "new.csv", "--pairs", files / "pairs.csv", "-o", files / "sets.csv")[0] == 0
    assert pl.read_csv(files / "sets.csv").columns == ["user", "item", "low", "high", "size", "known"]
    mistake(run("sets", files / "m", files / "new.csv"), "give a user and at least one item, or a file with --pairs")
    mistake(run("sets", files / "m", files / "new.csv", 1, 1, "--alpha", 0.0001), "need at least 9,999 ratings")


@pytest.mark.parametrize(
    "command", [("threshold", "--coverage", 0.5), ("sets", 1, 2), ("evaluate",)], ids=lambda c: c[0]
)
def test_a_file_of_numbers_is_read_as_text_where_the_model_knows_text(files, run, command):  # noqa: F811
    """One item with a name of letters makes all names of the training file text, those of the other file are numbers."""
    with (files / "train.csv").open("a") as file:
        file.write("somebody,something,3\n")
    run("fit", files / "train.csv", "-m", "bayes", "-o", files / "text")
    name, *rest = command
    code, text, told = run(name, files / "text", files / "new.csv", *rest, "--json")
    assert code == 0, told
    assert json.loads(text)


@pytest.mark.parametrize("name", ["threshold", "sets"])
def test_help_has_an_example(run, name):  # noqa: F811
    assert name in run("--help")[1]
    assert f"starcast {name}" in run(name, "--help")[1]
