"""The command line as a person and as a program use it."""

import json
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest

import starcast as sc
from starcast import cli, console, scale_commands


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process; return its exit code, output and messages."""

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["starcast", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return command


@pytest.fixture
def table(tmp_path):
    """A ratings file drawn from a planted truth."""
    ratings, _ = sc.make_ratings(n_users=30, n_items=20, density=0.5, random_state=0)
    file = tmp_path / "ratings.csv"
    ratings.to_frame().write_csv(file)
    return file


@pytest.fixture
def model(table, tmp_path, run):
    file = tmp_path / "model.starcast"
    assert run("fit", table, "--model", "bayes", "--out", file)[0] == 0
    return file


def mistake(result, *words):
    """Check that a command ended with one line of error that holds the words, and no traceback."""
    code, _, message = result
    assert code == 2
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    for word in words:
        assert word in message


def test_help_has_an_example_for_every_command(run):
    code, text, _ = run("--help")
    assert code == 0
    for name in ("datasets", "fit", "predict", "recommend", "evaluate", "search", "demo", "doctor"):
        assert name in text
        assert f"starcast {name}" in run(name, "--help")[1]


def test_help_lists_commands_in_the_order_in_which_they_are_used(run):
    text = run("--help")[1]
    places = [text.index(f"│ {name} ") for name in cli.ORDER]
    assert places == sorted(places)


def test_fit_does_not_overwrite_its_ratings(table, run):
    before = table.read_bytes()
    mistake(run("fit", table, "--model", "item", "--out", table), "ratings.csv is what is read", "another name")
    assert table.read_bytes() == before


def test_columns_that_are_not_recognised_are_named_by_an_option(tmp_path, run):
    file = tmp_path / "ratings.csv"
    file.write_text("name,film,stars\na,b,3\nb,c,4\n")
    mistake(run("fit", file), "there are: name, film, stars. Name them: --columns USER,ITEM,RATING.")
    assert run("fit", file, "-m", "item", "--columns", "name,film,stars", "-o", tmp_path / "m")[0] == 0


def test_a_file_that_is_not_what_its_ending_says_is_named(tmp_path, run):
    file = tmp_path / "ratings.parquet"
    file.write_bytes(b"1,2,3\n")
    mistake(run("fit", file), "ratings.parquet does not begin like a Parquet or Arrow file.")


def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(table, model, tmp_path, run, monkeypatch):
    monkeypatch.setattr(cli, "evaluate", lambda *_, **__: pytest.fail("it was evaluated"))
    monkeypatch.setattr("starcast.demo.run_demo", lambda *_: pytest.fail("the demo ran"))
    nowhere = tmp_path / "none" / "x.csv"
    mistake(run("evaluate", model, table, "--out", nowhere), "cannot be written: No such file or directory")
    mistake(run("demo", "--out", nowhere), "cannot be written: No such file or directory")


def test_forecasts_for_pairs_of_a_file_name_their_users(table, model, run):
    code, text, _ = run("predict", model, "--pairs", table)
    assert code == 0
    head, first = text.splitlines()[:2]
    assert head.split()[:2] == ["user", "item"]
    assert first.split()[:2] == table.read_text().splitlines()[1].split(",")[:2]


def test_help_may_be_asked_for_in_short(run):
    assert run("-h")[1] == run("--help")[1]
    assert "A ratings file" in run("fit", "-h")[1]


def test_version_is_the_packages(run):
    assert run("--version")[1].strip() == f"starcast {sc.__version__}"


def test_fit_writes_a_model_that_load_reads(table, tmp_path, run):
    file = tmp_path / "item.starcast"
    code, text, _ = run("fit", table, "-m", "item", "-p", "shrinkage=3", "-o", file, "--json")
    assert code == 0
    assert json.loads(text)["params"] == {"shrinkage": 3}
    assert sc.load(file).shrinkage_ == 3


def test_predict_gives_every_score_a_probability(model, run):
    rows = json.loads(run("predict", model, 1, 1, 2, "--json")[1])
    assert [row["item"] for row in rows] == [1, 2]
    for row in rows:
        assert sum(row["probs"].values()) == pytest.approx(1)
        assert row["reliability"] == pytest.approx(max(row["probs"].values()))


def test_predict_withholds_below_the_threshold(model, run):
    rows = json.loads(run("predict", model, 1, 1, 2, "-t", "1", "--json")[1])
    assert [row["prediction"] for row in rows] == [None, None]
    assert "withheld" in run("predict", model, 1, 1, "-t", "1")[1]


def test_predict_says_when_a_pair_is_unknown(model, run):
    assert "unknown pair" in run("predict", model, 1, 12345)[1]


def test_predict_reads_pairs_and_writes_a_table(model, tmp_path, run):
    pairs, target = tmp_path / "pairs.csv", tmp_path / "answers.parquet"
    pairs.write_text("item,user\n3,1\n4,2\n")
    assert run("predict", model, "--pairs", pairs, "--out", target)[0] == 0
    assert pl.read_parquet(target).select("user", "item").rows() == [(1, 3), (2, 4)]


def test_recommend_lists_the_best_first(model, run):
    rows = json.loads(run("recommend", model, 1, "-n", "4", "--json")[1])
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    order = [(row["prediction"], row["mean"]) for row in rows]
    assert order == sorted(order, reverse=True)


def test_recommend_for_all_users_goes_to_a_file(model, tmp_path, run):
    target = tmp_path / "all.csv"
    assert run("recommend", model, "-n", "2", "--include-seen", "--out", target)[0] == 0
    assert len(pl.read_csv(target)) == 60


def test_recommend_says_when_nothing_is_reliable_enough(model, run):
    assert "Nothing is reliable enough" in run("recommend", model, 1, "-t", "1")[1]


def test_evaluate_gives_a_row_per_threshold(model, table, run):
    code, text, message = run("evaluate", model, table, "-t", "0", "-t", "0.5", "--json")
    rows = json.loads(text)
    assert code == 0
    assert [row["threshold"] for row in rows] == [0, 0.5]
    assert rows[0]["coverage"] == 1
    assert "fitted on" in message  # it was: the table is the training table


def test_evaluate_prints_a_dash_where_nothing_is_left(model, table, run):
    assert "—" in run("evaluate", model, table, "-t", "1")[1]


def test_evaluate_takes_the_other_part_of_the_split(table, tmp_path, run):
    file = tmp_path / "part.starcast"
    run("fit", table, "-m", "item", "--split", "benchmark", "-o", file)
    code, text, message = run("evaluate", file, table, "--split", "benchmark", "--json")
    assert (code, message) == (0, "")
    train, test = sc.benchmark_split(sc.read_ratings(table))
    own = sc.evaluate(sc.ItemFrequency().fit(train), test)
    assert [row["nll"] for row in json.loads(text)] == pytest.approx(own["nll"])


def test_a_dataset_tells_its_facts(run):
    ratings = sc.load_sample()
    facts = json.loads(run("datasets", "sample", "--json")[1])
    assert facts["digest"] == ratings.digest()
    assert (facts["ratings"], facts["users"], facts["titles"]) == (len(ratings), len(ratings.users), True)
    assert "100,004" in run("datasets", "sample")[1]


def test_datasets_are_listed(run):
    rows = json.loads(run("datasets", "--json")[1])
    assert {"ml-100k", "ml-1m", "filmtrust", "sample"} <= {row["name"] for row in rows}
    assert "100,000" in run("datasets")[1]


@pytest.mark.data
def test_a_data_set_can_be_named_instead_of_a_file(data_folder, tmp_path, run):
    file = tmp_path / "ft.starcast"
    assert run("fit", "filmtrust", "-m", "global", "-o", file)[0] == 0
    assert len(sc.load(file).users_) == 1508


def test_doctor_names_what_is_missing(run):
    checks = {check["what"]: check for check in json.loads(run("doctor", "--json")[1])}
    assert checks["native core"]["ok"]
    assert checks["starcast"]["found"] == sc.__version__
    assert "native core" in run("doctor")[1]


def test_json_has_null_where_a_number_is_not_finite():
    assert console.plain({"a": [float("nan"), np.float64("inf"), 1.5]}) == {"a": [None, None, 1.5]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "nowhere.csv"], ["no file nowhere.csv"]),
        (["predict", "nowhere.starcast", "1", "2"], ["no model file"]),
        (["datasets", "ml-100"], ["unknown data set 'ml-100'", "Did you mean 'ml-100k'?"]),
        (["fit", "x.csv", "-m", "bmef"], ["unknown model 'bmef'", "Known:"]),
        (["fit", "x.csv", "-m", "item", "-p", "shrinkage"], ["name=value", "'shrinkage'"]),
        (["fit", "x.csv", "-m", "item", "-p", "shrink=1"], ["unknown parameter of ItemFrequency 'shrink'"]),
        (["fit", "x.csv", "--split", "half"], ["unknown split 'half'"]),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, words, message):
    mistake(run(*words), *message)


def test_a_bad_threshold_is_told(model, run):
    mistake(run("predict", model, 1, 1, "-t", "1.5"), "threshold must be a number from 0 to 1, got 1.5")
    mistake(run("recommend", model, 1, "-t", "nan"), "threshold must be a number from 0 to 1, got nan")


def test_an_unknown_user_is_told(model, run):
    mistake(run("recommend", model, "4711"), "unknown user 4711", "such as")
    mistake(run("recommend", model, "ann"), "users are integers here", "'ann'")


def test_predict_without_a_pair_is_told(model, run):
    mistake(run("predict", model), "give a user and at least one item")


def test_a_place_that_cannot_be_written_is_told_before_the_fit(tmp_path, run, monkeypatch):
    monkeypatch.setattr(sc.Model, "fit", lambda *_, **__: pytest.fail("it began to fit"))
    told = run("fit", tmp_path / "missing.csv", "--out", tmp_path / "nowhere" / "m.starcast")
    mistake(told, "cannot be written: No such file or directory", "Choose a folder that can be written to")
    assert list(tmp_path.iterdir()) == []


def test_losses_on_a_cluster_are_told_when_they_happen(capsys):
    with scale_commands.losses_told():
        warnings.warn("lost worker 2 of 3", sc.ClusterWarning, stacklevel=1)
        assert "note: lost worker 2 of 3" in capsys.readouterr().err
        with pytest.warns(UserWarning, match="another"):
            warnings.warn("another", UserWarning, stacklevel=1)


def test_an_ending_that_cannot_be_written_is_told(model, tmp_path, run):
    mistake(run("recommend", model, 1, "--out", tmp_path / "x.xlsx"), "unknown ending '.xlsx'", ".parquet")
    assert not list(tmp_path.glob("*.xlsx"))


def test_a_bad_line_is_told_with_its_number(tmp_path, run):
    file = tmp_path / "bad.csv"
    file.write_text("user,item,rating\na,x,5\nb,y,abc\n")
    mistake(run("fit", file), "rating must be a number, got 'abc'", "line 3 of bad.csv", "1 such line")


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "starcast", "fit", "nowhere.csv"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_search_tells_the_settings_that_no_other_beats(table, tmp_path, run):
    space = tmp_path / "space.json"
    space.write_text('{"user_shrinkage": [1, 10, 100], "item_shrinkage": {"low": 1.0, "high": 50.0, "log": true}}')
    words = ("search", table, "--model", "bayes", "--space", space, "--trials", 4, "--folds", 2)
    code, text, _ = run(*words)
    assert code == 0
    assert "1 of 4 trials that no other beats" in text
    assert "item_shrinkage" in text
    code, text, _ = run(*words, "--objective", "nll", "--objective", "coverage@0.5", "--json")
    rows = json.loads(text)
    assert len(rows) == 4
    assert {"nll", "coverage@0.5", "nll fold 1", "status"} <= set(rows[0])
    assert run(*words, "--out", tmp_path / "trials.csv", "--storage", tmp_path / "trials.jsonl")[0] == 0
    assert pl.read_csv(tmp_path / "trials.csv")["status"].to_list() == ["ok"] * 4
    assert (tmp_path / "trials.jsonl").read_text().count("\n") == 5


def test_search_knows_the_papers_spaces(table, run):
    words = ("search", table, "--model", "pmf", "--trials", 2, "--folds", "paper", "--seed", 43)
    assert run(*words, "--space", "paper:ml-100k")[0] == 0
    mistake(run(*words, "--space", "paper"), "unknown data set of the paper", "ml-100k")
    mistake(run(*words, "--space", "nothing.json"), "nothing.json cannot be read")
    mistake(run(*words, "--space", "paper:ml-100k", "--method", "grid"), "a grid tries all of its 400 settings")


def test_bad_lines_can_be_skipped_and_encodings_named(tmp_path, run):
    file, model = tmp_path / "bad.csv", tmp_path / "m"
    file.write_bytes("user;item;rating\nÄnne;x;5\nbob;y;abc\nbob;x;3\n".encode("latin-1"))
    code, text, message = run(
        "fit", file, "--on-bad", "skip", "--encoding", "latin-1", "-m", "item", "-o", model, "--json"
    )
    assert (code, message) == (0, "note: left out 1 line that could not be read; 2 ratings remain.\n")
    assert json.loads(text)["ratings"] == 2
    assert sc.load(model).users_.tolist() == ["Änne", "bob"]


def test_two_fits_are_the_same_fit(table, tmp_path, run):
    for name in ("a", "b"):
        assert run("fit", table, "-m", "resbemf", "-o", tmp_path / name)[0] == 0
    first, second = (sc.load(tmp_path / name) for name in ("a", "b"))
    assert np.array_equal(first.user_factors_, second.user_factors_)


def test_pythons_words_are_values_too(table, tmp_path, run):
    words = ("fit", table, "-m", "resbemf", "-o", tmp_path / "m", "--json")
    assert json.loads(run(*words, "-p", "biases=False")[1])["params"]["biases"] is False
    assert json.loads(run(*words, "-p", "random_state=None")[1])["params"]["random_state"] is None


def test_a_test_file_of_one_score_is_measured_on_the_models_scale(model, tmp_path, run):
    file = tmp_path / "fives.tsv"
    file.write_text("1\t2\t5\n2\t3\t5\n")
    code, text, _ = run("evaluate", model, file, "--sep", "\\t", "-t", "0", "--json")
    assert code == 0
    assert 0 <= json.loads(text)[0]["1-MAE"] <= 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,1,5\n1,2,x\n", "Fix them, or pass --on-bad skip to leave them out."),
        ("1,1,5\n1,1,4\n", "Pass --duplicates first, last or mean."),
        ("1,1,5\né,1,4\n", "Pass its encoding, such as --encoding latin-1."),
    ],
)
def test_an_error_names_options_as_they_are_typed(text, told, tmp_path, run):
    file = tmp_path / "ratings.csv"
    file.write_bytes(text.encode("latin-1"))
    mistake(run("fit", file), f"{told}\n")
