"""The command line with hostile names, streams, disks and numbers."""

import io
import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import starcast as sc
from starcast import cli

ESCAPE, FULL = "\x1b[2J", Path("/dev/full")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process; return its exit code, output and messages."""

    def command(*words, stdout=None, stdin=None, width=80):
        monkeypatch.setattr(sys, "argv", ["starcast", *map(str, words)])
        monkeypatch.setattr(cli.out, "_width", width)  # a console takes COLUMNS from where it was made, a test process
        with monkeypatch.context() as patch:
            if stdout is not None:
                patch.setattr(sys, "stdout", stdout)
            if stdin is not None:
                patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            with pytest.raises(SystemExit) as end:
                cli.main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return command


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A ratings file, one with titles, and a small model of each."""
    folder = tmp_path_factory.mktemp("files")
    ratings, _ = sc.make_ratings(n_users=30, n_items=20, density=0.5, random_state=0)
    ratings.to_frame().write_csv(folder / "ratings.csv")
    sc.NaiveBayes().fit(ratings).save(folder / "m.starcast")
    titles = {item: f"Film{ESCAPE} {item}" for item in ratings.items.tolist()}
    frame = ratings.to_frame()
    titled = sc.Ratings.from_arrays(frame["user"], frame["item"], frame["rating"], titles=titles)
    sc.ResBeMF(n_iters=3, random_state=0).fit(titled).save(folder / "titled.starcast")
    return folder


def mistake(result, *words):
    """Check that a command ended with one line of error that holds the words, and no traceback."""
    code, _, message = result
    assert code == 2
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    for word in words:
        assert word in message


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize("words", [["--help"], ["doctor"], ["evaluate", "--help"], ["predict", "m.starcast", "1", "2"]])
def test_output_can_have_any_encoding(run, files, words, encoding):
    page = io.BytesIO()
    stream = io.TextIOWrapper(page, encoding=encoding)
    words = [files / word if word == "m.starcast" else word for word in words]
    assert run(*words, stdout=stream)[0] == 0
    text = page.getvalue().decode(encoding)
    assert text
    assert "predict" not in words or "1-5" in text or "1–5" in text


def test_json_is_ascii_where_the_stream_is_not_utf_8(run, files):
    page = io.BytesIO()
    code = run("recommend", files / "titled.starcast", 1, "-n", 2, "--json", stdout=io.TextIOWrapper(page, "ascii"))[0]
    assert code == 0
    assert json.loads(page.getvalue())[0]["title"].startswith(f"Film{ESCAPE}")


@pytest.mark.skipif(not FULL.exists(), reason="Linux has it")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_behind_standard_output_is_an_error(run, files, options):
    with FULL.open("w") as full:
        mistake(run("predict", files / "m.starcast", 1, 1, *options, stdout=full), "No space left on device")


@pytest.mark.skipif(not FULL.exists(), reason="Linux has it")
def test_output_that_python_still_holds_is_checked_too(files):
    with FULL.open("w") as full:
        words = [sys.executable, "-m", "starcast", "predict", files / "m.starcast", "1", "1", "--json"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: standard output could not be written: No space left on device.\n"


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_a_full_disk_behind_a_table_is_an_error_and_leaves_no_file(run, files, tmp_path, ending):
    target = tmp_path / f"lists.{ending}"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        result = run("recommend", files / "m.starcast", "--include-seen", "-n", 20, "-o", target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    mistake(result, "could not be written", "File too large")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parameter", "told"),
    [
        ("n_factors=1000000000", "memory"),
        ("n_factors=99999999999999999999999", "n_factors must be at most"),
        ("n_iters=99999999999999999999999", "n_iters must be at most"),
    ],
)
def test_absurd_parameters_are_one_line(run, files, tmp_path, parameter, told):
    mistake(run("fit", files / "ratings.csv", "-m", "resbemf", "-p", parameter, "-o", tmp_path / "m"), told)
    assert list(tmp_path.iterdir()) == []


def test_a_device_without_an_end_is_no_ratings_file(run, tmp_path):
    mistake(run("fit", "/dev/zero", "-o", tmp_path / "m"), "/dev/zero is a device")


@pytest.mark.parametrize("error", [MemoryError(), OverflowError("too large"), OSError(28, "No space left on device")])
def test_what_the_machine_cannot_do_is_one_line(run, files, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(cli, "load", fail)
    mistake(run("predict", files / "m.starcast", 1, 1))


BAD_LINE, TWICE = "user,item,rating\n1,1,5\n1,2,x\n2,1,4\n", "user,item,rating\n1,1,5\n1,1,4\n2,1,3\n"
FOREIGN = "who,what,how\nann,x,5\nbob,y,4\n"


@pytest.mark.parametrize(
    ("text", "option"),
    [(BAD_LINE, ["--on-bad", "skip"]), (TWICE, ["--duplicates", "last"]), (FOREIGN, ["--columns", "who,what,how"])],
    ids=["bad line", "twice", "foreign columns"],
)
@pytest.mark.parametrize(
    "command", ["fit", "evaluate", "threshold", "sets", "search", "recommend", "explain", "update"]
)
def test_every_command_that_reads_ratings_has_the_options_that_its_errors_name(run, files, tmp_path, command, text, option):  # fmt: skip
    file, model = tmp_path / "r.csv", files / "titled.starcast"
    file.write_text(text)
    words = {
        "fit": [file, "-m", "item", "-o", tmp_path / "m"],
        "search": [file, "-m", "item", "--space", "s.json"],
        "recommend": [model, "--ratings", file],
        "explain": [model, 1, 1, "--ratings", file],
        "sets": [model, file, 1, 1],
        "update": [model, file, "-o", tmp_path / "m"],
    }.get(command, [model, file])
    (tmp_path / "s.json").write_text('{"shrinkage": [1, 2]}')
    if command == "search":
        words[-1] = tmp_path / "s.json"
    mistake(run(command, *words), option[0])
    told = run(command, *words, *option)[2]
    assert option[0] not in told
    assert "No such option" not in told


def test_an_option_is_quoted_for_the_shell(run, tmp_path):
    file = tmp_path / "r.csv"
    file.write_text("1;1;5\n2;2;4\n")
    mistake(run("fit", file, "--sep", ","), "pass --sep ';'.")


def test_the_scale_can_be_given_where_an_error_asks_for_it(run, tmp_path):
    file, model = tmp_path / "one.csv", tmp_path / "m"
    file.write_text("1,1,5\n2,1,5\n")
    mistake(run("fit", file, "-m", "item", "-o", model), "--scores LOW..HIGH")
    assert run("fit", file, "-m", "item", "-o", model, "--scores", "0.5..5:0.5")[0] == 0
    assert sc.load(model).scores_.tolist() == [k / 2 for k in range(1, 11)]
    assert run("fit", file, "-m", "item", "-o", model, "--scores", "-5..5")[0] == 0
    assert len(sc.load(model).scores_) == 11
    for scale in ("5..1", "1..5:0", "a..b", "1..nan", "1..5:0.3", "0..1:1e-9", "x,y"):
        mistake(run("fit", file, "-m", "item", "-o", model, "--scores", scale), "a scale must be a range", repr(scale))


@pytest.mark.parametrize("command", [["predict", 1, 1, 2], ["recommend", 1, "-n", 3], ["explain", 1, 2]])
def test_escape_sequences_in_titles_do_not_reach_the_terminal(run, files, command):
    code, text, message = run(command[0], files / "titled.starcast", *command[1:])
    assert code == 0
    assert "\x1b" not in text + message
    assert r"Film\x1b[2J" in text


def test_escape_sequences_in_names_do_not_reach_the_terminal(run, files, tmp_path):
    file, model = tmp_path / f"r{ESCAPE}.csv", tmp_path / "m"
    file.write_text(f"u{ESCAPE},a,1\nv,b\x9b31m,2\nw\u202e,a,3\n")
    assert "\x1b" not in "".join(run("fit", file, "-m", "item", "-o", tmp_path / f"m{ESCAPE}")[1:])
    assert run("fit", file, "-m", "item", "-o", model)[0] == 0
    for words in (["recommend", model, "--include-seen"], ["recommend", model, "nobody"], ["predict", model, "v", "b\x9b31m"]):  # fmt: skip
        told = "".join(run(*words)[1:])
        assert not set(told) & {"\x1b", "\x9b", "\u202e"}
    rows = json.loads(run("recommend", model, "v", "--include-seen", "--json")[1])
    assert "b\x9b31m" in {row["item"] for row in rows}  # data stay as they are


@pytest.mark.parametrize("width", [50, 80, 120])
@pytest.mark.parametrize("n_scores", [5, 10, 64, 101])
def test_a_forecast_on_any_scale_shows_item_prediction_and_reliability(run, tmp_path, n_scores, width):
    users = np.repeat(np.arange(4), n_scores)
    items = np.tile([f"A title of film {k}" for k in range(n_scores)], 4)
    ratings = sc.Ratings.from_arrays(users, items, np.tile(np.arange(n_scores), 4))
    sc.GlobalFrequency().fit(ratings).save(tmp_path / "m")
    code, text, _ = run("predict", tmp_path / "m", 1, "A title of film 1", width=width)
    head, line = text.splitlines()
    assert code == 0
    assert len(line) <= width
    assert line.startswith("A title of f")
    assert line.endswith("%")
    assert head.split()[-2:] == ["forecast", "reliable"]
    assert "0.0" in line.split()


def test_tables_show_the_title_and_the_item(run, files):
    for words in (["predict", 1, 7], ["recommend", 1, "-n", 20], ["explain", 1, 2, "-n", 20]):
        text = run(words[0], files / "titled.starcast", *words[1:])[1]
        shown = [line.split() for line in text.splitlines() if "Film" in line][-1]
        assert shown[shown.index(r"Film\x1b[2J") - 1] == shown[shown.index(r"Film\x1b[2J") + 1]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_of_predictions_keeps_the_probabilities(run, files, tmp_path, ending):
    target = tmp_path / f"answers.{ending}"
    assert run("predict", files / "m.starcast", 1, 1, 2, "-o", target)[0] == 0
    frame = getattr(pl, f"read_{ending}")(target)
    assert frame.columns[:5] == ["user", "item", "prediction", "reliability", "known"]
    probs = sc.load(files / "m.starcast").predict_proba(1, [1, 2]).probs
    assert frame.select(f"p_{score}" for score in range(1, 6)).to_numpy() == pytest.approx(probs)


def test_a_dash_is_standard_input(run, files, tmp_path):
    text = (files / "ratings.csv").read_bytes()
    assert run("fit", "-", "-m", "item", "-o", tmp_path / "m", stdin=text)[0] == 0
    assert sc.load(tmp_path / "m").digest_ == sc.read_ratings(files / "ratings.csv").digest()
    mistake(run("fit", "-", "-m", "item", stdin=b"1,1,5\n2,2,x\n"), "line 2 of standard input")
    mistake(run("fit", "-", "-m", "item", stdin=b""), "error: standard input is empty")
    rows = json.loads(run("predict", files / "m.starcast", "--pairs", "-", "--json", stdin=b"1,2\n3,4\n")[1])
    assert [(row["user"], row["item"]) for row in rows] == [(1, 2), (3, 4)]


def test_negative_names_need_no_dashes(run, tmp_path):
    file, model = tmp_path / "r.csv", tmp_path / "m"
    file.write_text("".join(f"{-user},{item},{user}\n" for user in range(1, 6) for item in (-2, 3)))
    assert run("fit", file, "-m", "item", "-o", model)[0] == 0
    for words in (["-5", "-2", "3", "--json"], ["--json", "-5", "-t", "0.1", "-2", "3"], ["--json", "--", "-5", "-2", "3"]):  # fmt: skip
        rows = json.loads(run("predict", model, *words)[1])
        assert [(row["user"], row["item"]) for row in rows] == [(-5, -2), (-5, 3)]
    mistake(run("predict", model, "-5", "3", "-t", "-0.5"), "threshold must be a number from 0 to 1, got -0.5")
    code, _, message = run("predict", model, "-5", "--tresh", "3")
    assert code == 2
    assert "No such option: --tresh" in message


def test_a_verbose_fit_without_a_terminal_prints_lines(capsys, files):
    sc.ResBeMF(n_iters=3, random_state=0, verbose=True).fit(sc.read_ratings(files / "ratings.csv"))
    assert capsys.readouterr().err.splitlines()[-1].startswith("fitting ResBeMF: 3 of 3")


def test_lines_of_progress_come_with_every_tenth_of_the_work(capsys, monkeypatch):
    from starcast import progress

    clock = iter(range(0, 10**6, 5))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    with progress.progress_bar("fitting") as tell:
        for done in range(1, 101):
            tell(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 25
    assert "left" in lines[1]
    assert lines[-1] == "fitting: 100 of 100"


def test_update_learns_new_ratings_in_place_or_elsewhere(run, files, tmp_path):
    new, model = tmp_path / "new.csv", tmp_path / "m.starcast"
    new.write_text("user,item,rating\n1,2,5\n999,2,3\n999,888,4\n")
    model.write_bytes((files / "m.starcast").read_bytes())
    own = sc.load(files / "m.starcast").partial_fit(sc.read_ratings(new, scores=[1, 2, 3, 4, 5]))
    code, text, _ = run("update", model, new, "-o", tmp_path / "newer", "--json")
    facts = json.loads(text)
    assert code == 0
    assert (facts["ratings"], facts["new_users"], facts["new_items"]) == (3, 1, 1)
    assert sc.load(tmp_path / "newer").digest_ == own.digest_
    assert sc.load(model).digest_ != own.digest_
    assert run("update", model, new)[0] == 0
    assert sc.load(model).digest_ == own.digest_
    assert {file.name for file in tmp_path.iterdir()} == {"new.csv", "m.starcast", "newer"}
    mistake(run("update", model, new, "-o", new), "is what is read")


def test_items_can_be_excluded_and_chosen_from(run, files, tmp_path):
    words = ("recommend", files / "m.starcast", 1, "-n", 20, "--include-seen", "--json")
    items = [row["item"] for row in json.loads(run(*words)[1])]
    (tmp_path / "never.txt").write_text(f"{items[0]}\n\n{items[2]}\n4711\n")
    listed = [row["item"] for row in json.loads(run(*words, "--exclude", tmp_path / "never.txt")[1])]
    assert listed == [items[1], *items[3:]]
    listed = [row["item"] for row in json.loads(run(*words, "--exclude", f"{items[0]}, {items[1]}")[1])]
    assert listed == items[2:]
    some = f"{items[3]},{items[1]},{items[0]}"
    listed = [row["item"] for row in json.loads(run(*words, "--candidates", some, "--exclude", items[0])[1])]
    assert listed == [items[1], items[3]]
    assert "does not know" in run(*words, "--candidates", f"{some},4711")[2]


def test_lines_that_are_left_out_are_counted(run, tmp_path):
    file, model = tmp_path / "r.csv", tmp_path / "m"
    file.write_text("user,item,rating\n1,1,5\n1,2,x\n2,1\n2,1,4\n")
    for command in (["fit", file, "-m", "item", "-o", model], ["shards", file, "-o", tmp_path / "cut"]):
        code, text, message = run(*command, "--on-bad", "skip", "--json")
        assert code == 0
        assert json.loads(text)["skipped"] == 2
        assert "note: left out 2 lines that could not be read" in message
    assert "left out 2 lines" in run("evaluate", model, file, "--on-bad", "skip")[2]


def test_titles_and_text_ids_come_from_files(run, tmp_path):
    file, titles, model = tmp_path / "r.csv", tmp_path / "t.csv", tmp_path / "m"
    file.write_text("user,item,rating\n1,007,5\n1,008,3\n2,007,4\n")
    titles.write_text("item,title\n007,Heat\n008,Alien\n")
    assert run("fit", file, "-m", "item", "-o", model, "--ids", "text", "--titles", titles, "--scores", "1..5")[0] == 0
    fitted = sc.load(model)
    assert fitted.items_.tolist() == ["007", "008"]
    assert fitted.titles_.tolist() == ["Heat", "Alien"]
    rows = json.loads(run("predict", model, "1", "007", "7", "--json")[1])
    assert [row["known"] for row in rows] == [True, False]
    new = tmp_path / "new.csv"
    new.write_text("2,008,5\n3,007,1\n")  # all numbers, but names of the model are text
    facts = json.loads(run("update", model, new, "--json")[1])
    assert (facts["new_users"], facts["new_items"], facts["new_ratings"]) == (1, 0, 2)
    mistake(run("fit", "sample", "-m", "item", "-o", model, "--scores", "1..5"), "sample is a data set", "--scores")


def test_a_fit_says_beforehand_what_it_will_take(run, files, tmp_path):
    code, text, message = run("fit", files / "ratings.csv", "-m", "resbemf", "-o", tmp_path / "m", "--json")
    assert code == 0
    first = message.splitlines()[0]
    assert first.startswith("ResBeMF will take a file of about")
    assert "memory" in first
    assert json.loads(text)["bytes"] == (tmp_path / "m").stat().st_size


def test_a_list_for_an_unknown_user_says_so(run, files):
    text = run("recommend", files / "m.starcast", 1, 4711, "-n", 2)[1]
    assert [line.split()[0] for line in text.splitlines() if line[0] != " "] == ["user", "1", "4711"]
    assert "4711 (unknown)" in text


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Ratings and a model of each kind of names: integers, text, text users of integer items."""
    folder = tmp_path_factory.mktemp("small")
    for name, users, items in (("int", (1, 2, 7), (1, 2, 3)), ("text", ("ann", "bob", "7.0"), ("a", "b", "7")), ("mixed", ("ann", "bob", "7.0"), (1, 2, 3))):  # fmt: skip
        lines = [f"{user},{item},{(3 * at + 2 * to) % 5 + 1}\n" for at, user in enumerate(users) for to, item in enumerate(items) if at + to < 4]  # fmt: skip
        (folder / f"{name}.csv").write_text("user,item,rating\n" + "".join(lines))
        sc.ItemFrequency().fit(sc.read_ratings(folder / f"{name}.csv", scores=[1, 2, 3, 4, 5])).save(
            folder / f"{name}.sc"
        )
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "evaluate int.sc R -o R",
        "sets int.sc R 1 1 -o R",
        "sets int.sc int.csv --pairs R -o R",
        "predict int.sc --pairs R -o R",
        "predict R 1 1 -o R",
        "recommend int.sc --candidates R -o R",
        "recommend int.sc --exclude R -o R",
        "recommend int.sc --ratings R -o R",
        "fit int.csv -m item --titles R -o R",
        "fit R -m item -o ./R",
        "update int.sc int.csv --titles R -o R",
        "search R -m item --space s.json -o R",
        "search int.csv -m item --space R -o R",
    ],
)
def test_no_command_overwrites_what_it_reads(run, small, tmp_path, monkeypatch, words):
    for file in small.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    source = "r.json" if "--space" in words else "r.csv"
    Path(source).write_text("item,title\n1,x\n")
    Path("s.json").write_text('{"shrinkage": [1, 2]}')
    before = Path(source).read_bytes()
    mistake(run(*words.replace("R", source).split()), f"{source} is what is read")
    assert Path(source).read_bytes() == before


def test_the_name_of_a_model_is_no_file_that_is_read(run, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert run("fit", small / "int.csv", "-m", "item", "-o", "item")[0] == 0
    assert run("update", "item", small / "int.csv", "-o", "item")[0] == 0


@pytest.mark.parametrize("last", [["-o"], ["--out"], ["-o", "--"]])
def test_an_option_without_its_value_is_an_error(run, small, tmp_path, monkeypatch, last):
    monkeypatch.chdir(tmp_path)
    code, _, message = run("fit", small / "int.csv", "-m", "item", *last)
    assert code == 2
    assert f"Option '{last[0]}' requires an argument" in message
    assert list(tmp_path.iterdir()) == []


def test_a_dash_is_no_file_to_write_and_is_read_once(run, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mistake(run("fit", small / "int.csv", "-m", "item", "-o", "-"), "--out must be the name of a file", "got -")
    mistake(run("recommend", small / "int.sc", "-o", "-"), "got -")
    mistake(run("shards", small / "int.csv", "-o", "-"), "got -")
    mistake(run("sets", small / "int.sc", "-", "--pairs", "-", stdin=b"1,1,5\n"), "can be read only once")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--exclude", "--candidates"])
def test_items_to_choose_that_are_unknown_are_told(run, small, option):
    words = ("recommend", small / "int.sc", 1, "--include-seen", "--json", option)
    mistake(run(*words, "nevr.txt"), "there is no file nevr.txt and no item of that name")
    code, _, message = run(*words, "1,4711")
    assert code == 0
    assert "left out 1 of 2 " in message
    assert "that the model does not know, such as 4711" in message
    assert "left out 2 of 2 " in run(*words, "98,99")[2]


@pytest.mark.parametrize("option", ["--exclude", "--candidates"])
def test_a_list_of_items_can_be_longer_than_the_name_of_a_file(run, small, option):
    code, text, _ = run("recommend", small / "int.sc", 1, "--include-seen", "--json", option, "2," * 3000 + "2")
    assert code == 0
    assert ({row["item"] for row in json.loads(text)} == {2}) == (option == "--candidates")


def test_names_that_are_typed_follow_the_rule_of_files(run, small, tmp_path):
    names = ["7", "7.0", "007", "+7", "7_0", "9" * 23, "0.5", "1.00"]
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,item\n" + "".join(f"{name},1.0\n" for name in names))
    rows = json.loads(run("predict", small / "int.sc", "--pairs", pairs, "--json")[1])
    assert [row["known"] for row in rows] == [True, True, False, False, False, False, False, True]
    rows = json.loads(run("predict", small / "int.sc", "1", "1.0", "01", "--json")[1])
    assert [row["known"] for row in rows] == [True, False]
    mistake(run("recommend", small / "int.sc", "9" * 23), f"unknown user '{'9' * 23}'")
    assert json.loads(run("predict", small / "int.sc", "9" * 23, 1, "--json")[1])[0]["known"] is False
    for name in ("007", "bob"):
        mistake(run("recommend", small / "int.sc", name), "Ask with integers")


def test_integers_of_64_bits_can_be_typed():
    lookup = sc.names.Lookup(np.array([2**63 - 1, -(2**63), 5]))
    assert lookup.parse([str(2**63 - 1), str(-(2**63)), str(2**63)]) == [2**63 - 1, -(2**63), str(2**63)]


@pytest.mark.parametrize("kind", ["text", "mixed"])
def test_a_file_of_numbers_is_read_as_text_where_the_model_has_text(run, small, tmp_path, kind):
    new = tmp_path / "new.csv"
    new.write_text("user,item,rating\n7.0,7,5\n7.0,2,4\n" if kind == "text" else "user,item,rating\n7.0,2.0,5\n")
    code, text, _ = run("update", small / f"{kind}.sc", new, "-o", tmp_path / "m", "--json")
    assert code == 0
    assert json.loads(text)["new_users"] == 0
    model = sc.load(tmp_path / "m")
    assert model.users_.tolist() == ["ann", "bob", "7.0"]
    assert model.items_.tolist() == (["a", "b", "7", "2"] if kind == "text" else [1, 2, 3])


def test_integers_that_are_written_in_two_ways_are_one_item(run, small, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("user,item,rating\n7.0,2.0,5\n7.0,2,4\nzoe,9,4\n")
    words = ("update", small / "mixed.sc", new, "-o", tmp_path / "m", "--json")
    mistake(run(*words), "--duplicates")
    (tmp_path / "t.csv").write_text("item,title\n2,Heat\n9,Alien\n")
    facts = json.loads(run(*words, "--duplicates", "last", "--titles", tmp_path / "t.csv")[1])
    assert (facts["ratings"], facts["new_users"], facts["new_items"]) == (2, 1, 1)
    assert sc.load(tmp_path / "m").items_.tolist() == [1, 2, 3, 9]


def test_an_empty_list_blames_a_threshold_only_if_there_is_one(run, small):
    words = ("recommend", small / "int.sc", 1)
    text = run(*words)[1]
    assert "No item is left to list." in text
    assert "threshold" not in text
    assert "Nothing is reliable enough" in run(*words, "-t", "1", "--include-seen")[1]


def test_a_user_without_usable_ratings_is_not_named_as_known(run, small, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("user,item,rating\nann,a,5\nbob,zzz,4\n")
    assert run("fit", small / "text.csv", "-m", "biasedmf", "-p", "n_iters=2", "-o", tmp_path / "m")[0] == 0
    result = run("recommend", tmp_path / "m", "bob", "--ratings", new)
    assert result[0] == 2
    told = result[2].splitlines()[-1]
    assert "unknown user 'bob', which has no rating that the model can use" in told
    assert told.endswith("The model knows 1 user, such as 'ann'.")


def test_a_closed_stream_gets_nothing_and_stdout_is_missed(run, small, tmp_path):
    start = [sys.executable, "-m", "starcast"]
    fit = [*start, "fit", small / "int.csv", "-m", "bemf", "-p", "n_iters=2", "-o", tmp_path / "m", "--json"]
    done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *fit], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["model"] == "BeMF"
    predict = [*start, "predict", small / "int.sc", "1", "1"]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *predict], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: standard output is closed, so the answer cannot be printed.\n"


def test_the_estimate_of_long_work_keeps_few_calls(monkeypatch):
    from starcast import progress

    now = iter(range(10**6))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    clock = progress._Clock()
    told = [clock.left(done, 20_000) for done in range(1, 10_001)]
    assert len(clock.calls) <= 1000
    assert told[-1] == f"about {progress.duration(10_000)} left"
    began = clock.calls[(len(clock.calls) - 1) // 2][1]
    assert 4000 <= began <= 6000  # still the later half


def test_the_memory_of_a_network_is_left_to_the_fit(run, small, tmp_path, monkeypatch):
    from starcast.models import memory

    monkeypatch.setattr(memory, "available_memory", lambda: 0)
    monkeypatch.setattr(sc.OrdinalMF, "_check_memory", lambda self, ratings: None)  # as models on a device do
    assert run("fit", small / "int.csv", "-p", "n_iters=2", "-o", tmp_path / "m")[0] == 0


def test_too_few_ratings_to_calibrate_are_told_before_the_fit(run, small, tmp_path):
    words = ("fit", small / "int.csv", "-m", "item", "--calibrate", "-o", tmp_path / "m")
    code, _, message = run(*words)
    assert code == 2
    assert "--calibrate cuts the ratings into 10 folds" in message
    assert "n_splits" not in message


def test_a_warning_is_one_line(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\n1,1,1\n1,2,2\n2,1,3\n")
    (tmp_path / "t.csv").write_text("item,title\n77,Heat\n")
    command = ["fit", tmp_path / "r.csv", "-m", "item", "--titles", tmp_path / "t.csv", "-o", tmp_path / "m"]
    process = subprocess.run([sys.executable, "-m", "starcast", *map(str, command)], capture_output=True, text=True)
    assert process.returncode == 0
    assert next(line for line in process.stderr.splitlines() if "title" in line).startswith("note: ")
    assert "Warning" not in process.stderr
