"""Every mistake that people make, and the sentence that they read."""

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import starcast as sc
from starcast.errors import choose, plural

GOOD = "user,item,rating\nann,x,5\nbob,x,3\nbob,y,4\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(GOOD)
    return path


@pytest.fixture
def model(file):
    return sc.ItemFrequency().fit(sc.read_ratings(file))


def said(error, call):
    """The one line that the caller reads."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, sc.StarcastError)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None, "a second traceback would be shown"
    message = str(caught.value)
    assert "\n" not in message
    return message


def read(path, text, **options):
    path.write_text(text)
    return lambda: sc.read_ratings(path, **options)


def test_missing_file(tmp_path):
    message = said(sc.FileError, lambda: sc.read_ratings(tmp_path / "nothing.csv"))
    assert message == f"there is no file {tmp_path}/nothing.csv. Check the name; relative paths start at {Path.cwd()}."


def test_empty_file(file):
    assert said(sc.DataError, read(file, "")) == f"{file} is empty. A ratings file has a line per rating: user, item, rating."  # fmt: skip
    assert "is empty" in said(sc.DataError, read(file, " \n\n"))
    assert said(sc.DataError, read(file, "user,item,rating\n")) == "ratings.csv holds no rating that can be read."


def test_directory(tmp_path):
    assert said(sc.FileError, lambda: sc.read_ratings(tmp_path)) == f"{tmp_path} is a folder. Give the file with the ratings in it."  # fmt: skip


def test_wrong_separator(file):
    assert said(sc.DataError, lambda: sc.read_ratings(file, sep=";")) == (
        "a line needs at least 3 columns (user, item, rating), got 1 when ratings.csv is cut at ';': 'user,item,rating'. "
        "The line looks separated by ',': pass sep=','."
    )


def test_wrong_column_name_says_which_there_are(file):
    assert said(sc.DataError, lambda: sc.read_ratings(file, columns=("user", "film", "rating"))) == (
        "ratings.csv has no column 'film'; there are: user, item, rating."
    )
    assert said(sc.DataError, read(file, "a,b,c\nx,y,5\n")).startswith(
        "no column of ratings.csv is recognised as the user or the item or the rating; there are: a, b, c. Name them: columns=("
    )


def test_non_numeric_rating(file):
    lines = ["user,item,rating"] + [f"u,{k},5" for k in range(39)] + ["u,a,abc", "u,b,n/a", "u,c,-"]
    assert said(sc.DataError, read(file, "\n".join(lines))) == (
        "rating must be a number, got 'abc' (line 41 of ratings.csv; 3 such lines). "
        'Fix them, or pass on_bad="skip" to leave them out.'
    )
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays([1, 2], [1, 1], [5, "abc"])) == 'values must be numbers, got \'abc\' (1 such). Drop such rows, or pass on_bad="skip" to leave out 1 row.'  # fmt: skip


def test_nan(file):
    assert said(sc.DataError, read(file, GOOD + "cat,x,nan\n")).startswith("rating must be finite, got 'nan' (line 5 of ratings.csv; 1 such line).")  # fmt: skip
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays([1, 2], [1, 1], [5, np.nan])) .startswith("values must be finite, got nan at position 1 (1 such of 2). Drop such rows, or pass on_bad=")  # fmt: skip


def test_infinite(file):
    assert said(sc.DataError, read(file, GOOD + "cat,x,-inf\n")).startswith("rating must be finite, got '-inf' (line 5 of ratings.csv; 1 such line).")  # fmt: skip
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays([1, 2], [1, 1], [np.inf, 5])) .startswith("values must be finite, got inf at position 0 (1 such of 2). ")  # fmt: skip


def test_a_rating_off_the_given_scale(file):
    assert said(sc.DataError, lambda: sc.read_ratings(file, scores=[1, 2, 3, 4])) == (
        "ratings must be on the scale 1, 2, 3, 4; got 5 in line 2 of ratings.csv (1 such rating). Mend them or the scale."
    )
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays([1, 2], [1, 1], [9, 9], scores=[1, 2])) == (
        "ratings must be on the scale 1, 2; got 9 (2 such ratings). Mend them or the scale."
    )


def test_more_than_127_scores(file):
    message = 'a scale has at most 127 scores, got 128 from 0 to 127. Pass a coarser scale and round to it: scores=[0, 12.7, 25.4, 38.1, 50.8, 63.5, 76.2, 88.9, 101.6, 114.3, 127] with off_scale="nearest".'
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays(range(128), [1] * 128, range(128))) == message
    assert said(sc.DataError, read(file, "".join(f"{k},1,{k}\n" for k in range(128)))) == message


def test_one_single_score(file):
    message = "a scale needs at least two different scores, got only 5. Pass the whole scale as scores=."
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays([1, 2], [1, 1], [5, 5])) == message
    assert said(sc.DataError, read(file, "1,1,5\n2,1,5\n")) == message
    assert len(sc.read_ratings(file, scores=[1, 5])) == 2


def test_duplicate_pairs(file):
    message = 'each user may rate an item once, got 1 rating too many (user \'ann\' rated item \'x\' 5 and 4). Pass duplicates="first", "last" or "mean".'  # fmt: skip
    assert said(sc.DataError, read(file, GOOD + "ann,x,4\n")) == message
    assert len(sc.read_ratings(file, duplicates="last")) == 3


def test_ids_of_mixed_types():
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays([1, "ann"], [1, 1], [5, 3])) == (
        "users must be all strings or all integers, got int (1), str ('ann'). Convert them to one type."
    )
    assert said(sc.DataError, lambda: sc.Ratings.from_arrays([1, 2], ["x", None], [5, 3])) .startswith("items must not be missing, but 1 of 2 are. Drop such rows")  # fmt: skip


def test_unknown_user_or_item(model):
    assert not model.recommend("zoe")["known"].any()  # a list for a newcomer
    assert said(sc.DataError, lambda: model.predict(7, "x")) == "users are strings here (such as 'ann'), got integers (such as 7). Ask with strings."  # fmt: skip
    assert model.predict("zoe", "x")["known"].to_list() == [False]  # to predict for strangers is no mistake


@pytest.mark.parametrize("threshold", [-0.01, 1.01, 60, float("nan"), float("inf"), "0.5"])
def test_threshold_outside_0_to_1_or_nan(model, threshold):
    for ask in (
        lambda: model.predict("ann", "x", threshold=threshold),
        lambda: model.recommend("ann", threshold=threshold),
    ):
        assert said(sc.ParameterError, ask) == f"threshold must be a number from 0 to 1, got {threshold!r}."


def test_unfitted_model(tmp_path):
    for ask in (lambda m: m.predict("ann", "x"), lambda m: m.recommend("ann"), lambda m: m.save(tmp_path / "m")):
        assert said(sc.NotFittedError, lambda ask=ask: ask(sc.ItemFrequency())) == "ItemFrequency is not fitted. Call fit(ratings) first."  # fmt: skip


def test_truncated_model_file(model, tmp_path):
    path = tmp_path / "m"
    model.save(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert re.fullmatch(rf"{path} is not a Starcast model, or a damaged one \(.+\)\. Fit the model again, or fetch the file again\.", said(sc.FileFormatError, lambda: sc.load(path)))  # fmt: skip


def test_foreign_model_file(file, tmp_path):
    assert "is not a Starcast model, or a damaged one" in said(sc.FileFormatError, lambda: sc.load(file))
    safetensors.numpy.save_file({"weight": np.zeros(3)}, tmp_path / "m")
    assert said(sc.FileFormatError, lambda: sc.load(tmp_path / "m")) == f"{tmp_path}/m is a safetensors file, but not of a Starcast model."  # fmt: skip


def test_a_pickle_given_as_a_model_file(tmp_path):
    (tmp_path / "m").write_bytes(pickle.dumps({"weights": [1, 2, 3]}))
    assert said(sc.FileFormatError, lambda: sc.load(tmp_path / "m")) == (
        f"{tmp_path}/m looks like a pickle or a zip, not like a Starcast model. Starcast never unpickles, because a pickle can "
        "run any code: fit the model again and save it with model.save."
    )


def test_a_model_file_from_a_newer_version(tmp_path):
    metadata = {"format": "starcast", "format_version": "2", "starcast": "{}"}
    safetensors.numpy.save_file({"a_": np.zeros(3)}, tmp_path / "m", metadata)
    assert said(sc.FileFormatError, lambda: sc.load(tmp_path / "m")) == (
        f"{tmp_path}/m has the format version 2; this Starcast reads up to 1. Upgrade with: pip install -U starcast"
    )


SAVE = """
    import sys, numpy as np, starcast as sc
    n = 50_000
    model = sc.ItemFrequency(shrinkage=1).fit(sc.Ratings.from_arrays(np.arange(n), np.arange(n), np.arange(n) % 5))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_while_saving_and_the_old_file_survives(model, tmp_path):
    path = tmp_path / "m"
    model.save(path)
    before = path.read_bytes()
    code = textwrap.dedent(SAVE) + textwrap.dedent("""
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            model.save(sys.argv[1])
        except sc.FileError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    message = done.stdout.strip()
    assert message.startswith(f"{path} could not be written: ")
    assert message.endswith("What was there before is untouched.")
    assert "\n" not in message
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m", "ratings.csv"] or sorted(p.name for p in tmp_path.iterdir()) == ["m", "ratings.csv"]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_while_saving_and_nothing_is_half_written(model, tmp_path):
    path = tmp_path / "m"
    model.save(path)
    before = path.read_bytes()
    code = textwrap.dedent(SAVE) + textwrap.dedent("""
        import time
        from starcast import modelfile
        def slow(target, header, tensors):
            target.write_bytes(b"half a mod")
            print("writing", flush=True)
            time.sleep(600)
        modelfile._write_parts = slow
        model.save(sys.argv[1])
    """)
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"writing\n"
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
        process.communicate()
    assert b"KeyboardInterrupt" in errors
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "ratings.csv"]


# The error family.


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (sc.DataError, ValueError), (sc.ParameterError, ValueError), (sc.UnknownNameError, LookupError),
        (sc.NotFittedError, ValueError), (sc.DivergenceError, ArithmeticError), (sc.FileError, OSError),
        (sc.FileFormatError, sc.FileError), (sc.DownloadError, sc.FileError), (sc.MissingExtraError, ImportError),
    ],
)  # fmt: skip
def test_one_except_catches_them_all(error, family):
    assert issubclass(error, sc.StarcastError)
    assert issubclass(error, family)


def test_a_missing_extra_names_the_command():
    assert str(sc.MissingExtraError("drawing", "matplotlib", "plot")) == "drawing needs matplotlib. Install it with: pip install 'starcast[plot]'"  # fmt: skip


def test_an_unknown_name_is_guessed_and_the_known_are_listed():
    assert said(sc.UnknownNameError, lambda: choose("model", "bmef", ["pmf", "bemf"])) == "unknown model 'bmef'. Did you mean 'bemf'? Known: bemf, pmf"  # fmt: skip
    assert said(sc.UnknownNameError, lambda: choose("model", None, ["pmf"])) == "unknown model None. Known: pmf"
    assert said(sc.UnknownNameError, lambda: choose("model", ["pmf"], ["pmf"])).startswith("unknown model ['pmf'].")


def test_counts_agree_with_their_noun():
    assert [plural(n, "line") for n in (0, 1, 2, 1200)] == ["0 lines", "1 line", "2 lines", "1,200 lines"]
