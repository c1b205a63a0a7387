"""Model files: what goes in comes out, whole or not at all."""

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast import modelfile
from starcast.errors import FileError, FileFormatError
from starcast.names import strings

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@pytest.fixture
def model(ratings):
    return sc.ItemFrequency().fit(ratings)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.lists(TEXT, max_size=8), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8), st.dictionaries(TEXT, TEXT | st.integers() | st.none(), max_size=4))  # fmt: skip
def test_texts_numbers_and_plain_values_come_back(tmp_path_factory, texts, numbers, values):
    path = tmp_path_factory.mktemp("m") / "file"
    arrays = {
        "texts_": strings(texts),
        "numbers_": np.array(numbers, np.int64),
        "table_": np.ones((2, 0, 3), np.float32),
    }
    modelfile.write(path, {"values": values}, arrays)
    meta, read = modelfile.read(path)
    assert meta["values"] == values
    assert read["texts_"].tolist() == texts
    assert read["numbers_"].tolist() == numbers
    assert read["table_"].shape == (2, 0, 3)
    assert set(read) == set(arrays)


def test_every_length_of_the_header_can_be_read(tmp_path):
    """Some lengths look like the first bytes of a pickle."""
    first_bytes = set()
    for padding in range(0, 264, 4):
        modelfile.write(tmp_path / "m", {"padding": "x" * padding}, {"a_": np.arange(3)})
        first_bytes.add((tmp_path / "m").read_bytes()[0])
        assert modelfile.read(tmp_path / "m")[0]["padding"] == "x" * padding
    assert 0x80 in first_bytes


def test_a_header_whose_length_spells_pk_can_be_read(tmp_path):
    modelfile.write(tmp_path / "m", {"padding": ""}, {"a_": np.arange(3)})
    short = int.from_bytes((tmp_path / "m").read_bytes()[:8], "little")
    modelfile.write(tmp_path / "m", {"padding": "x" * (0x4B50 - short)}, {"a_": np.arange(3)})
    assert (tmp_path / "m").read_bytes()[:2] == b"PK"
    assert modelfile.read(tmp_path / "m")[1]["a_"].tolist() == [0, 1, 2]


def test_arrays_are_mapped_not_copied(model, tmp_path):
    model.save(tmp_path / "m")
    _, arrays = modelfile.read(tmp_path / "m")
    assert not arrays["probs_"].flags.writeable
    assert not arrays["probs_"].flags.owndata
    assert arrays["probs_"].dtype == np.float64


def test_the_file_is_plain_safetensors_with_its_version(model, tmp_path):
    model.save(tmp_path / "m")
    with safetensors.safe_open(tmp_path / "m", "np") as file:
        metadata = file.metadata()
        assert np.array_equal(file.get_tensor("probs_"), model.probs_)
    assert metadata["format"] == "starcast"
    assert metadata["format_version"] == "1"
    description = json.loads(metadata["starcast"])
    assert description["model"] == "ItemFrequency"
    assert description["params"] == {"shrinkage": "auto"}
    assert description["learnt"]["digest_"] == model.digest_


@pytest.mark.parametrize("titles", [None, {}, {"x": "Ünïcödé\n\0", "y": ""}], ids=str)
def test_titles_and_names_survive(ratings, titles, tmp_path):
    table = sc.Ratings.from_arrays(["", "b\0", "日本"], ["x", "y", "\n"], [1, 2, 3], titles=titles)
    sc.GlobalFrequency().fit(table).save(tmp_path / "m")
    loaded = sc.load(tmp_path / "m")
    assert loaded.users_.tolist() == ["", "b\0", "日本"]
    assert (loaded.titles_ is None) if titles is None else (loaded.titles_.tolist() == [titles.get(i, "") for i in ("x", "y", "\n")])  # fmt: skip


# Reading what is no model.


def test_a_missing_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=rf"there is no model file nothing\. Check the name; relative paths start at {tmp_path}\."):  # fmt: skip
        sc.load("nothing")


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(FileError, match=r"is a folder\. Give the model file in it\."):
        sc.load(tmp_path)


@pytest.mark.parametrize("name", ["x/y", "n" * 300, "a\0b"])
def test_a_path_that_cannot_be_read_is_a_file_error(tmp_path, name):
    (tmp_path / "x").write_text("")
    with pytest.raises(FileError, match=r"cannot be read|there is no model file|is no name of a file"):
        sc.load(tmp_path / name)


class Bomb:
    def __reduce__(self):
        return (Path("exploded").write_text, ("boom",))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_never_opened(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").write_bytes(pickle.dumps(Bomb(), protocol))
    with pytest.raises(FileFormatError) as caught:
        sc.load("m")
    assert not (tmp_path / "exploded").exists()
    if protocol >= 2:
        assert "m looks like a pickle or a zip, not like a Starcast model. Starcast never unpickles, because a pickle can run any code" in str(caught.value)  # fmt: skip


def test_a_zip_is_no_model(tmp_path):
    with zipfile.ZipFile(tmp_path / "m", "w") as file:
        file.writestr("data.pkl", b"x")
    with pytest.raises(FileFormatError, match=r"looks like a pickle or a zip"):
        sc.load(tmp_path / "m")


@pytest.mark.parametrize("content", [b"", b"x", b"user,item,rating\n1,2,3\n", b"\0" * 100, b"{}", bytes(range(256))])
def test_a_foreign_file_is_no_model(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"m is not a Starcast model, or a damaged one \(.*\)\. Fit the model again, or fetch the file again\."):  # fmt: skip
        sc.load(tmp_path / "m")


def test_every_truncation_is_noticed(model, tmp_path):
    model.save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    for length in (*range(0, len(whole), 13), len(whole) - 1):
        (tmp_path / "m").write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=r"is not a Starcast model, or a damaged one|looks like a pickle"):
            sc.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, r"is a safetensors file, but not of a Starcast model\."),
        ({}, r"is a safetensors file, but not of a Starcast model\."),
        ({"format": "pt"}, r"is a safetensors file, but not of a Starcast model\."),
        ({"format": "starcast"}, r"has the format version none; this Starcast reads up to 1\. Upgrade with: pip install -U starcast"),
        ({"format": "starcast", "format_version": "2"}, r"has the format version 2; this Starcast reads up to 1\. Upgrade with: pip install -U starcast"),
        ({"format": "starcast", "format_version": "one"}, r"has the format version one"),
        ({"format": "starcast", "format_version": "9" * 5000}, r"has the format version 9+…?; this Starcast"),
        ({"format": "starcast", "format_version": "1"}, r"has no readable description of its model\. Fetch the file again\."),
        ({"format": "starcast", "format_version": "1", "starcast": "{"}, r"has no readable description"),
        ({"format": "starcast", "format_version": "1", "starcast": "[]"}, r"has no readable description"),
        ({"format": "starcast", "format_version": "1", "starcast": "[" * 100_000}, r"has no readable description"),
        ({"format": "starcast", "format_version": "1", "starcast": "{}"}, r"is damaged: its parameters are no table\."),
    ],
)  # fmt: skip
def test_metadata_that_do_not_fit_are_said(tmp_path, metadata, message):
    safetensors.numpy.save_file({"a_": np.arange(3)}, tmp_path / "m", metadata)
    with pytest.raises(FileFormatError, match=message):
        sc.load(tmp_path / "m")


# Writing.


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_model_is_as_public_as_any_other_file(model, tmp_path):
    (tmp_path / "other").touch()
    model.save(tmp_path / "m")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


@pytest.mark.parametrize("target", ["nowhere/m", "file/m", "a\0b"])
def test_a_place_that_cannot_be_written_is_said(model, tmp_path, target):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"cannot be written|could not be written|no name of a file"):
        model.save(tmp_path / target)
    assert names_in(tmp_path) == ["file"]


def test_a_folder_is_not_overwritten(model, tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(FileError, match=r"m is a folder\. Give the name of a file to write\."):
        model.save(tmp_path / "m")
    assert names_in(tmp_path) == ["m"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_ctrl_c_while_saving_leaves_the_old_file_and_nothing_else(model, tmp_path, monkeypatch, error):
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def interrupted(path, header, tensors):
        Path(path).write_bytes(b"half a mod")
        raise error

    monkeypatch.setattr(modelfile, "_write_parts", interrupted)
    for target in ("m", "new"):
        with pytest.raises(error):
            model.save(tmp_path / target)
    assert (tmp_path / "m").read_bytes() == before
    assert names_in(tmp_path) == ["m"]


def test_a_write_that_fails_is_a_file_error(model, tmp_path, monkeypatch):
    (tmp_path / "m").write_bytes(b"old")

    def full(path, header, tensors):
        Path(path).write_bytes(b"half a mod")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(modelfile, "_write_parts", full)
    with pytest.raises(FileError, match=r"m could not be written: .*No space left on device.*What was there before is untouched\."):  # fmt: skip
        model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == b"old"
    assert names_in(tmp_path) == ["m"]


SAVE = """
    import sys, numpy as np, starcast as sc
    n = 200_000
    table = sc.Ratings.from_arrays(np.arange(n), np.arange(n) % 1000, np.arange(n) % 5)
    model = sc.NaiveBayes(user_shrinkage=1, item_shrinkage=1).fit(table)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "m").write_bytes(b"old")
    code = textwrap.dedent(SAVE) + textwrap.dedent("""
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that the write itself fails
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            model.save(sys.argv[1])
        except sc.FileError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m"], capture_output=True, text=True, check=True)
    assert "could not be written" in done.stdout
    assert "What was there before is untouched." in done.stdout
    assert (tmp_path / "m").read_bytes() == b"old"
    assert names_in(tmp_path) == ["m"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_real_ctrl_c_between_saves_leaves_a_whole_file_and_nothing_else(tmp_path):
    code = textwrap.dedent(SAVE) + textwrap.dedent("""
        model.save(sys.argv[1])
        print("saving", flush=True)
        while True:
            model.save(sys.argv[1])
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "m"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"saving\n"
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
        process.communicate()
    assert b"KeyboardInterrupt" in errors
    assert names_in(tmp_path) == ["m"]
    assert len(sc.load(tmp_path / "m").users_) == 200_000
