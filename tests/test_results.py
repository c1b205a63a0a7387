"""Rows of figures."""

import csv
import io
import math

import pandas as pd
import pyarrow as pa
import pytest

from starcast.results import Results

ROWS = [{"model": "item", "nll": 1.5}, {"model": "bayes", "mae": 0.5}]


def test_columns_are_those_of_all_rows_in_order():
    table = Results(ROWS)
    assert table.columns == ["model", "nll", "mae"]
    assert table["nll"] == [1.5, None]
    assert list(table) == ROWS
    assert len(table) == 2
    assert repr(table) == "Results(2 rows: model, nll, mae)"


def test_tables_add_up_and_leave_their_parts_alone():
    one, two = Results(ROWS[:1]), Results(ROWS[1:])
    assert (one + two).columns == ["model", "nll", "mae"]
    assert (len(one), len(two)) == (1, 1)


def test_rows_are_copies():
    row = {"model": "item"}
    table = Results([row])
    row["model"] = "other"
    assert table["model"] == ["item"]


def test_where_finds_rows():
    table = Results(ROWS)
    assert list(table.where(model="bayes")) == ROWS[1:]
    assert list(table.where(model="bayes", mae=0.5)) == ROWS[1:]
    assert len(table.where(model="none")) == 0


def test_the_csv_holds_the_table():
    rows = [{"model": 'a,"b"', "nll": 0.1 + 0.2}, {"nll": math.inf}]
    read = list(csv.DictReader(io.StringIO(Results(rows).to_csv())))
    assert read[0]["model"] == 'a,"b"'
    assert float(read[0]["nll"]) == 0.1 + 0.2
    assert read[1] == {"model": "", "nll": "inf"}
    assert Results().to_csv().strip() == ""


@pytest.mark.parametrize("like", [None, pd.DataFrame(), pa.table({"a": [1]})], ids=["polars", "pandas", "pyarrow"])
def test_the_frame_holds_the_table(like):
    frame = Results(ROWS).to_frame(like)
    assert len(frame) == 2
    values = frame["nll"].to_list() if like is None else frame["nll"].to_pandas().tolist() if isinstance(like, pa.Table) else frame["nll"].tolist()  # fmt: skip
    assert values[0] == 1.5
    assert values[1] is None or math.isnan(values[1])


def test_integers_and_floats_share_a_column():
    assert Results([{"threshold": 0}, {"threshold": 0.5}]).to_frame()["threshold"].to_list() == [0, 0.5]


def test_a_parameter_that_is_a_word_in_one_row_and_a_number_in_another_has_a_column():
    frame = Results([{"shrinkage": "auto"}, {"shrinkage": 10.0}, {"shrinkage": None}]).to_frame()
    assert frame["shrinkage"].to_list() == ["auto", "10.0", None]
