"""The commands for many ratings and many users."""

import json

import polars as pl
import pytest
from test_cli import mistake, model, run, table  # noqa: F401, fixtures

import starcast as sc


def test_shards_of_many_files_are_those_of_one(run, table, tmp_path):  # noqa: F811
    frame = pl.read_csv(table)
    frame[:100].write_csv(tmp_path / "part-0.tsv", separator="\t")
    frame[100:].write_csv(tmp_path / "part-1.tsv", separator="\t")
    code, text, _ = run(
        "shards", tmp_path / "part-*.tsv", "--out", tmp_path / "cut", "--memory", "64MB", "--sep", "\\t", "--json"
    )
    assert code == 0
    facts = json.loads(text)
    assert facts["digest"] == sc.read_ratings(table).digest() == sc.Shards.open(tmp_path / "cut").digest
    assert facts["ratings"] == len(frame)
    mistake(run("shards", tmp_path / "part-0.tsv", "--out", tmp_path / "cut"), "is there already")
    mistake(run("shards", tmp_path / "none-*", "--out", tmp_path / "x"), "no file is meant by")
    mistake(run("shards", table, "--out", tmp_path / "x", "--memory", "much"), "memory must be a number of bytes")


def test_shards_tell_people_what_they_hold(run, table, tmp_path):  # noqa: F811
    code, text, _ = run("shards", table, "--out", tmp_path / "cut")
    assert code == 0
    assert "300 ratings of 30 users and 20 items written to" in " ".join(text.split())


def test_lists_go_to_a_folder(run, model, tmp_path):  # noqa: F811
    code, _, message = run("recommend", model, "--out", tmp_path / "lists", "-n", 3, "--threshold", "0.3")
    assert code == 0
    assert "1 part in" in message
    parts = pl.read_parquet(tmp_path / "lists" / "part-*.parquet")
    assert parts.equals(sc.load(model).recommend(n=3, threshold=0.3))
    code, text, _ = run("recommend", model, "--out", tmp_path / "lists", "-n", 3, "--threshold", "0.3", "--json")
    assert code == 0
    folder = tmp_path / "lists"
    assert json.loads(text) == {"folder": str(folder), "parts": [str(folder / "part-000000.parquet")]}


@pytest.mark.parametrize(
    "words", [["--engine", "ray"], ["--workers", "2", "--out", "x.csv"], ["1", "--engine", "ray", "--out", "x"]]
)
def test_an_engine_writes_for_all_users_to_a_folder(run, model, words):  # noqa: F811
    mistake(
        run("recommend", model, *words),
        "an engine recommends to all users of the model, to a folder: --out lists/ --engine ray",
    )


def test_a_table_needs_an_ending_that_can_be_written(run, model, tmp_path):  # noqa: F811
    mistake(
        run("recommend", model, "1", "--out", tmp_path / "lists"), "a folder takes the lists of all users of the model"
    )
    mistake(run("recommend", model, "--out", tmp_path / "lists.txt"), "unknown ending '.txt'")


def test_how_a_file_is_read_is_told_to_the_one_who_reads_it(run, table, tmp_path):  # noqa: F811
    sc.Shards.from_ratings(sc.read_ratings(table)).save(tmp_path / "cut")
    words = ["fit", tmp_path / "cut", "--out", tmp_path / "m", "--engine", "ray"]
    for option, value in (("--sep", ";"), ("--columns", "a,b,c"), ("--on-bad", "skip"), ("--encoding", "latin-1")):
        mistake(run(*words, option, value), f"{option} must be given to `starcast shards`, which has read the ratings")
    mistake(run(*words, "--calibrate"), "--calibrate and --split need a table in memory")
    assert not (tmp_path / "m").exists()
