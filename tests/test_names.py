"""Names in, codes out, and the names come back as they were given."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starcast.errors import DataError
from starcast.names import Lookup, as_names, code_names, strings

EXACT = settings(derandomize=True, max_examples=60, deadline=None)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def naive_codes(values):
    names = list(dict.fromkeys(values))
    return names, [names.index(value) for value in values]


@EXACT
@given(st.lists(st.one_of(st.integers(-5, 5), INT64), max_size=30))
def test_integers_are_coded_in_the_order_of_first_appearance(values):
    names, codes = code_names(values, "users")
    assert (names.tolist(), codes.tolist()) == naive_codes(values)
    assert names.dtype == np.int64
    assert codes.dtype == np.int32


@EXACT
@given(st.lists(TEXT, min_size=1, max_size=30))
def test_strings_are_coded_in_the_order_of_first_appearance(values):
    names, codes = code_names(values, "users")
    assert (names.tolist(), codes.tolist()) == naive_codes(values)
    assert {type(name) for name in names} == {str}


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", "a"],
        ("a", "b", "a"),
        np.array(["a", "b", "a"]),
        np.array(["a", "b", "a"], object),
        np.array(["a", "b", "a"], np.dtypes.StringDType()),
        pd.Series(["a", "b", "a"]),
        pd.Series(["a", "b", "a"], dtype="string"),
        pd.Series(["a", "b", "a"], dtype="category"),
        pl.Series(["a", "b", "a"]),
        pl.Series(["a", "b", "a"], dtype=pl.Categorical),
        pa.array(["a", "b", "a"]),
        pa.chunked_array([["a", "b"], ["a"]]),
        iter(["a", "b", "a"]),
    ],
    ids=lambda values: f"{type(values).__module__}.{type(values).__name__}-{getattr(values, 'dtype', '')}",
)
def test_strings_of_every_container_are_taken(values):
    names, codes = code_names(values, "users")
    assert names.tolist() == ["a", "b"]
    assert codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "values",
    [
        [7, -2, 7],
        range(7, -3, -9),
        np.array([7, -2, 7], np.int8),
        np.array([7, -2, 7], object),
        [np.int64(7), np.int16(-2), 7],
        pd.Series([7, -2, 7]),
        pd.Series([7, -2, 7], dtype="Int64"),
        pl.Series([7, -2, 7]),
        pa.array([7, -2, 7]),
        pa.chunked_array([[7, -2], [7]]),
    ],
    ids=lambda values: f"{type(values).__module__}.{type(values).__name__}-{getattr(values, 'dtype', '')}",
)
def test_integers_of_every_container_are_taken(values):
    names, _ = code_names(values, "users")
    assert names.tolist() == [7, -2]


def test_a_strided_column_is_coded_like_its_copy():
    column = np.arange(20)[::-3]
    assert code_names(column, "users")[0].tolist() == column.tolist()


def test_a_lone_name_is_one_name():
    assert as_names("ann", "users").tolist() == ["ann"]
    assert as_names(7, "users").tolist() == [7]
    assert as_names(np.int32(7), "users").tolist() == [7]


def test_no_names_are_no_names():
    for nothing in ([], np.array([]), np.array([], object), np.array([], str)):
        names, codes = code_names(nothing, "users")
        assert len(names) == len(codes) == 0


def test_a_number_and_its_text_are_different_names():
    assert code_names(["1", "01", "1"], "users")[0].tolist() == ["1", "01"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 1], r"users must be all strings or all integers, got str \('a'\), int \(1\)\. Convert them to one type\."),
        ([1.5, 2.0], r"users must be all strings or all integers, got float \(1\.5\), int \(2\.0\)\."),
        ([True, False], r"users must be all strings or all integers, got bool \(True\)\."),
        ([b"a"], r"users must be all strings or all integers, got bytes \(b'a'\)\."),
        (["a", None, None], r"users must not be missing, but 2 of 3 are\."),
        ([float("nan"), 1], r"users must not be missing, but 1 of 2 are\."),
        ([np.datetime64("NaT")], r"users must not be missing, but 1 of 1 are\."),
        (pd.Series(["a", None], dtype="string"), r"users must not be missing, but 1 of 2 are\."),
        (pd.Series([1, None], dtype="Int64"), r"users must not be missing, but 1 of 2 are\."),
        (pl.Series(["a", None]), r"users must not be missing, but 1 of 2 are\."),
        (np.array(["a", None], np.dtypes.StringDType(na_object=None)), r"users must not be missing, but 1 of 2 are\."),
        (pa.array(["a", None]), r"users must not be missing, but 1 of 2 are\."),
        (np.array([1.5, 2]), r"users must be strings or integers, got float64 \(1\.5 first\)\."),
        (np.array([True]), r"users must be strings or integers, got bool"),
        (np.array([b"a"]), r"users must be strings or integers, got \|S1"),
        (np.array([[1, 2]]), r"users must be one-dimensional, got the shape \(1, 2\)\."),
        (np.array(3), r"users must be one-dimensional, got the shape \(\)\."),
        ([[1, 2], [3, 4]], r"users must be all strings or all integers, got list \(\[1, 2\]\)"),
        ([np.array([1, 2]), np.array([3, 4])], r"users must be all strings or all integers, got ndarray"),
        (b"ann", r"users must be a sequence of strings or integers, got b'ann'\."),
        (True, r"users must be a sequence of strings or integers, got True\."),
        (1.5, r"users must be a sequence of strings or integers, got 1\.5\."),
        (None, r"users must be a sequence of strings or integers, got None\."),
        ([2**63], r"users must fit in 64 signed bits\. Give larger ones as strings\."),
        (np.array([2**63], np.uint64), r"users must fit in 64 signed bits, got 9223372036854775808\. Give them as strings\."),
        (["a", "\ud800"], r"users must be text that UTF-8 can hold, got '\\ud800'"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_name_is_said(values, message):
    with pytest.raises(DataError, match=message):
        code_names(values, "users")


def test_strings_are_plain_python_strings():
    array = strings([np.str_("a"), "b"])
    assert array.dtype == object
    assert [type(name) for name in array] == [str, str]


@EXACT
@given(st.lists(INT64, unique=True, min_size=1, max_size=20), st.lists(INT64, max_size=20))
def test_lookup_finds_integers_and_marks_unknown_ones(names, others):
    queries = names[::-1] + others
    found = Lookup(np.array(names, np.int64)).codes(queries, "users")
    assert found.tolist() == [names.index(query) if query in names else -1 for query in queries]


@EXACT
@given(st.lists(TEXT, unique=True, min_size=1, max_size=20), st.lists(TEXT, max_size=20))
def test_lookup_finds_strings_and_marks_unknown_ones(names, others):
    queries = names[::-1] + others
    found = Lookup(strings(names)).codes(queries, "users")
    assert found.tolist() == [names.index(query) if query in names else -1 for query in queries]


def test_lookup_answers_another_thread_while_its_table_is_made():
    found = []

    class Names(np.ndarray):
        def __sub__(self, low):  # in the midst of it
            if not found:
                found.append(None)
                found[0] = lookup.codes([30, 20], "users").tolist()
            return np.asarray(self) - low

    lookup = Lookup(np.array([30, 10, 20]).view(Names))
    assert lookup.codes([10], "users").tolist() == [1]
    assert found == [[0, 2]]


def test_lookup_in_no_names_finds_nothing():
    assert Lookup(np.empty(0, np.int64)).codes([1, 2], "users").tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("names", "query", "message"),
    [
        (np.array([1, 2]), ["01", "x"], r"items are integers here \(such as 1\), got strings \(such as '01'\)\. Ask with integers\."),
        (strings(["a", "01"]), [1], r"items are strings here \(such as 'a'\), got integers \(such as 1\)\. Ask with strings\."),
    ],
)  # fmt: skip
def test_a_question_of_the_wrong_type_says_which_type_there_is(names, query, message):
    with pytest.raises(DataError, match=message):
        Lookup(names).codes(query, "items")


def test_parse_gives_typed_text_the_type_of_the_names():
    assert Lookup(np.array([1])).parse(["1", "-12", "7.0", "007"]) == [1, -12, 7, "007"]
    assert Lookup(strings(["1"])).parse(["1", "-12"]) == ["1", "-12"]


@pytest.mark.parametrize("text", ["x", "", "-", "--5", "1.5", "007"])
def test_parse_leaves_text_that_is_no_integer_for_the_error_to_show(text):
    lookup = Lookup(np.array([1]))
    assert lookup.parse([text]) == [text]
    with pytest.raises(DataError, match=r"users are integers here"):
        lookup.codes(lookup.parse([text]), "users")


def test_a_typing_error_is_no_number():
    assert Lookup(np.array([7, 10])).parse(["7", "1_0", "x"]) == [7, "1_0", "x"]


@pytest.mark.parametrize("n_digits", [19, 23, 5000])
def test_an_integer_of_more_than_64_bits_is_an_unknown_name(n_digits):
    lookup, text = Lookup(np.array([1])), "9" * n_digits
    assert lookup.parse([text]) == [text]
    assert lookup.codes([text], "users").tolist() == [-1]
