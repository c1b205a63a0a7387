"""The one table: what it keeps, what it refuses, and that nobody can change it."""

import dataclasses
import datetime
import gc
import subprocess
import sys
import tracemalloc

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast.errors import DataError, UnknownNameError
from starcast.scale import make_scale

EXACT = settings(derandomize=True, max_examples=60, deadline=None)
TRIPLES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0, 4.0])), min_size=1, max_size=40)  # fmt: skip
SCALE = [0.5, 1.0, 2.0, 4.0]


def triples(ratings):
    return list(zip(ratings.users[ratings.user], ratings.items[ratings.item], ratings.values, strict=True))


def same(a, b):
    pairs = [(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)]
    return all(getattr(x, "dtype", None) == getattr(y, "dtype", None) and np.array_equal(x, y) for x, y in pairs)


def test_names_come_back_as_they_were_given():
    ratings = sc.Ratings.from_arrays(["ann", "bob", "ann"], [70, -7, 8], [5, 3, 4])
    assert ratings.users.tolist() == ["ann", "bob"]
    assert ratings.items.tolist() == [70, -7, 8]
    assert triples(ratings) == [("ann", 70, 5.0), ("bob", -7, 3.0), ("ann", 8, 4.0)]


def test_rows_keep_their_order():
    rng = np.random.default_rng(0)
    cells = rng.permutation(2000)[:700]
    ratings = sc.Ratings.from_arrays(cells // 40, cells % 40, cells % 5)
    assert triples(ratings) == [(c // 40, c % 40, c % 5) for c in cells]


def test_codes_are_small():
    ratings = sc.Ratings.from_arrays([1, 2], [1, 2], [1, 2])
    assert (ratings.user.dtype, ratings.item.dtype, ratings.score.dtype) == (np.int32, np.int32, np.int8)
    assert ratings.nbytes == 2 * 9 + 2 * 8


def test_nbytes_counts_timestamps():
    ratings = sc.Ratings.from_arrays([1, 2], [1, 2], [1, 2], timestamps=[0, 0])
    assert ratings.nbytes == 2 * 17 + 2 * 8


def test_the_scale_ascends_whatever_the_order_of_the_ratings():
    assert sc.Ratings.from_arrays([1, 2, 3], [1, 1, 1], [5, -1, 2.5]).scores.tolist() == [-1, 2.5, 5]


def test_a_given_scale_may_have_scores_that_nobody_gave():
    ratings = sc.Ratings.from_arrays([1, 2], [1, 1], [4, 2], scores=[5, 4, 3, 2, 1, 1])
    assert ratings.scores.tolist() == [1, 2, 3, 4, 5]
    assert ratings.score.tolist() == [3, 1]


def test_a_scale_of_127_scores_is_taken():
    ratings = sc.Ratings.from_arrays(np.arange(127), np.zeros(127, int), np.arange(127.0))
    assert ratings.values.tolist() == list(range(127))


def test_minus_zero_is_zero():
    assert sc.Ratings.from_arrays([1, 2, 3], [1, 1, 1], [0.0, -0.0, 1]).scores.tolist() == [0, 1]


def test_nothing_in_the_table_can_be_written(ratings):
    for f in dataclasses.fields(ratings):
        value = getattr(ratings, f.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[0] = value[-1]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ratings.user = ratings.item


def test_the_arrays_of_the_caller_stay_theirs():
    columns = [np.array([3, 1]), np.array([1, 2]), np.array([4.0, 5.0]), np.array([1.0, 4, 5]), np.array([9, 8])]
    before = [column.copy() for column in columns]
    users, items, values, scores, times = columns
    ratings = sc.Ratings.from_arrays(users, items, values, scores=scores, timestamps=times)
    for column, copy in zip(columns, before, strict=True):
        assert np.array_equal(column, copy)
        column[0] = 5  # still writable, and no longer seen by the table
    assert triples(ratings) == [(3, 1, 4.0), (1, 2, 5.0)]
    assert ratings.timestamps.tolist() == [9, 8]


def test_repr_counts():
    assert repr(sc.Ratings.from_arrays([1], [1], [2], scores=[0.5, 2])) == (
        "Ratings(1 rating, 1 user, 1 item, 2 scores from 0.5 to 2)"
    )


# Data frames, sparse matrices.

FRAME = pl.DataFrame(
    {"movieId": [7, 8, 7], "userId": ["a", "a", "b"], "rating": [5.0, 3.5, 1.0], "timestamp": [1, 2, 3]}
)


FRAMES = {
    "polars": lambda: FRAME,
    "lazy": lambda: FRAME.lazy(),
    "pyarrow": lambda: FRAME.to_arrow(),
    "pandas": lambda: pd.DataFrame(FRAME.to_dict(as_series=False)),
    "duckdb": lambda: duckdb.from_arrow(FRAME.to_arrow()),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same_table(kind):
    ratings = sc.Ratings.from_frame(FRAMES[kind]())
    assert triples(ratings) == [("a", 7, 5.0), ("a", 8, 3.5), ("b", 7, 1.0)]
    assert ratings.timestamps.tolist() == [1, 2, 3]


def test_columns_can_be_named_or_counted():
    frame = pl.DataFrame({"stars": [5, 3], "who": ["a", "b"], "thing": [1, 1], "other": [2, 1]})
    assert triples(sc.Ratings.from_frame(frame, columns=("who", "thing", "stars"))) == [("a", 1, 5.0), ("b", 1, 3.0)]
    assert triples(sc.Ratings.from_frame(frame, columns=(1, 3, 0))) == [("a", 2, 5.0), ("b", 1, 3.0)]


def test_a_pandas_frame_with_numbers_for_column_names_is_asked_for_the_columns():
    frame = pd.DataFrame([[1, 2, 5], [2, 2, 3]])
    with pytest.raises(DataError, match=r"no column of the frame is recognised as the user or the item or the rating; there are: 0, 1, 2"):  # fmt: skip
        sc.Ratings.from_frame(frame)
    assert triples(sc.Ratings.from_frame(frame, columns=(0, 1, 2))) == [(1, 2, 5.0), (2, 2, 3.0)]


@pytest.mark.parametrize(
    "values", [["a", "b"], np.zeros((2, 3)), {"user": [1]}, "ratings.csv", pl.Series([1, 2]), None]
)
def test_what_is_no_frame_is_said(values):
    with pytest.raises(DataError, match=r"ratings must be a data frame \(pandas, .*\), got \w+\. For arrays use Ratings\.from_arrays"):  # fmt: skip
        sc.Ratings.from_frame(values)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("user", "item", "stars"), r"the frame has no column 'stars'; there are: user, item, rating\."),
        ((0, 1, 3), r"the frame has the columns 0 to 2, got 3\."),
        ((0, 1, -1), r"the frame has the columns 0 to 2, got -1\."),
        (("user", "item"), r"columns must name the user, item and rating column \(and the timestamp\), got \('user', 'item'\)\."),
        ("abc", r"columns must name the user, item and rating column \(and the timestamp\), got 'abc'\."),
        (3, r"columns must name the user, item and rating column \(and the timestamp\), got 3\."),
        ((None, 1, 2), r"the frame has no column '?None"),
    ],
)  # fmt: skip
def test_columns_that_are_not_there_are_named(columns, message):
    with pytest.raises(DataError, match=message):
        sc.Ratings.from_frame(pl.DataFrame({"user": [1], "item": [1], "rating": [1]}), columns=columns)


def test_pandas_columns_of_the_same_name_are_an_error_of_ours():
    frame = pd.DataFrame([[1, 2, 5, 4]], columns=["user", "item", "rating", "rating"])
    with pytest.raises(DataError, match="rating"):
        sc.Ratings.from_frame(frame)


def test_missing_ids_in_a_column_of_integers_are_called_missing():
    with pytest.raises(DataError, match=r"users must not be missing, but 1 of 2 are\."):
        sc.Ratings.from_frame(pl.DataFrame({"user": [1, None], "item": [1, 2], "rating": [1, 2]}))


def test_dates_become_seconds():
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 1], "rating": [1, 2], "time": [datetime.date(1970, 1, 2), datetime.date(1969, 12, 31)]})  # fmt: skip
    assert sc.Ratings.from_frame(frame).timestamps.tolist() == [86400, -86400]
    half = np.array(["1970-01-01T00:00:01.5", "1969-12-31T23:59:59.5"], "M8[ms]")
    assert sc.Ratings.from_arrays([1, 2], [1, 1], [1, 2], timestamps=half).timestamps.tolist() == [1, -1]


@pytest.mark.parametrize(
    "times",
    [[1], [1, float("nan")], [1, float("inf")], ["a", "b"], [[1, 2]], 5, [1e300, 0], np.array(["NaT", "2020"], "M8[s]"),
     np.array([2**63, 1], np.uint64), [None, 1]],
    ids=str,
)  # fmt: skip
def test_times_that_are_no_times_are_said(times):
    with pytest.raises(DataError, match=r"timestamps must be (2 numbers|numbers of seconds) or dates, got "):
        sc.Ratings.from_arrays([1, 2], [1, 1], [1, 2], timestamps=times)


def test_sparse_entries_are_ratings_and_explicit_zeros_too():
    matrix = scipy.sparse.csr_array(([5, 0, 3], ([0, 2, 2], [1, 0, 1])), shape=(3, 2))
    assert sorted(triples(sc.Ratings.from_sparse(matrix))) == [(0, 1, 5.0), (2, 0, 0.0), (2, 1, 3.0)]
    named = sc.Ratings.from_sparse(matrix, users=["a", "b", "c"], items=["x", "y"])
    assert sorted(triples(named)) == [("a", "y", 5.0), ("c", "x", 0.0), ("c", "y", 3.0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": ["a", "b"]}, r"users must be 3 different names, one along the matrix, got 2"),
        ({"items": ["x", "x"]}, r"items must be 2 different names, one along the matrix, got 2, of which 1 different"),
    ],
)
def test_names_along_a_matrix_must_be_as_many_and_different(options, message):
    matrix = scipy.sparse.csr_array(([5, 1, 3], ([0, 2, 2], [1, 0, 1])), shape=(3, 2))
    with pytest.raises(DataError, match=message):
        sc.Ratings.from_sparse(matrix, **options)


@pytest.mark.parametrize("matrix", [np.eye(2), [[1]], scipy.sparse.coo_array(np.array([1, 2]))])
def test_what_is_no_sparse_matrix_is_said(matrix):
    with pytest.raises(DataError, match=r"matrix must be a scipy\.sparse matrix"):
        sc.Ratings.from_sparse(matrix)


def test_a_sparse_matrix_with_two_entries_in_one_cell_is_a_duplicate():
    matrix = scipy.sparse.coo_array(([5, 1], ([0, 0], [1, 1])), shape=(1, 2))
    with pytest.raises(DataError, match=r"got 1 rating too many \(user 0 rated item 1 5 and 1\)"):
        sc.Ratings.from_sparse(matrix)


def test_the_frame_holds_the_table(ratings):
    frame = ratings.to_frame()
    assert frame.columns == ["user", "item", "rating"]
    assert same(sc.Ratings.from_frame(frame, scores=[1, 2, 3, 4, 5]), ratings)
    assert isinstance(ratings.to_frame(like=pd.DataFrame()), pd.DataFrame)
    assert isinstance(ratings.to_frame(like=pa.table({"a": [1]})), pa.Table)
    timed = sc.Ratings.from_arrays([1, 2], [1, 1], [1, 2], timestamps=[5, 6])
    assert timed.to_frame(like=pd.Series([1]))["timestamp"].tolist() == [5, 6]


def test_titles_follow_their_items():
    ratings = sc.Ratings.from_arrays([1, 1, 2], [7, 8, 9], [1, 2, 3], titles={8: "Eight", 7: "Seven"})
    assert ratings.titles.tolist() == ["Seven", "Eight", ""]
    assert ratings.take([2, 1]).titles.tolist() == ["", "Eight"]


# Duplicates.


def naive_duplicates(rows, rule):
    """One rating a pair at the place of its first row."""
    given = {}
    for user, item, value in rows:
        given.setdefault((user, item), []).append(value)

    def one(values):
        if rule == "mean":
            mean = sum(values) / len(values)
            return min(SCALE, key=lambda score: (abs(score - mean), score))
        return values[0] if rule == "first" else values[-1]

    return [(*pair, one(values)) for pair, values in given.items()]


@EXACT
@given(TRIPLES, st.sampled_from(["first", "last", "mean"]))
def test_duplicates_are_resolved_as_in_a_loop(rows, rule):
    users, items, values = zip(*rows, strict=True)
    ratings = sc.Ratings.from_arrays(users, items, values, scores=SCALE, duplicates=rule)
    assert triples(ratings) == naive_duplicates(rows, rule)


def test_duplicates_are_counted_and_shown():
    with pytest.raises(DataError, match=r"each user may rate an item once, got 2 ratings too many \(user 'a' rated item 1 5 and 3; user 'a' rated item 1 5 and 5\)\. Pass duplicates=\"first\", \"last\" or \"mean\"\."):  # fmt: skip
        sc.Ratings.from_arrays(["a"] * 4, [1, 1, 2, 1], [5, 3, 4, 5])
    with pytest.raises(DataError, match=r"got 9 ratings too many .*; and 6 more\)"):
        sc.Ratings.from_arrays(["a"] * 10, [1] * 10, range(10))


def test_the_last_of_duplicates_brings_its_time():
    columns = ([1, 2, 1, 1], [1, 1, 1, 1], [5, 4, 3, 2])
    times = {rule: sc.Ratings.from_arrays(*columns, timestamps=[10, 20, 30, 40], duplicates=rule).timestamps.tolist() for rule in ("first", "last")}  # fmt: skip
    assert times == {"first": [10, 20], "last": [40, 20]}


def test_an_unknown_rule_for_duplicates_is_guessed():
    with pytest.raises(UnknownNameError, match=r"unknown duplicates 'frist'\. Did you mean 'first'\? Known: error, first, last, mean"):  # fmt: skip
        sc.Ratings.from_arrays([1], [1], [1], scores=[1, 2], duplicates="frist")


# Values and scales.


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([5, "abc"], r"values must be numbers, got 'abc' \(1 such\)\."),
        ([5, {}], r"values must be numbers, got \{\} \(1 such\)\."),
        ([1, float("nan")], r"values must be finite, got nan at position 1 \(1 such of 2\)\."),
        ([float("inf"), -float("inf")], r"values must be finite, got inf at position 0 \(2 such of 2\)\."),
        ([None, 1], r"values must be finite, got nan at position 0"),
        ([[1, 2], [3, 4]], r"values must be one-dimensional, got the shape \(2, 2\)\."),
        ([[1, 2], [3]], r"values must be"),
        (5, r"values must be one-dimensional, got the shape \(\)\."),
        ([], r"values must hold at least one number, got none\."),
        ([10**400, 1], r"values must be numbers"),
        ([1j, 2], r"values must be"),
        (np.array([1j, 2]), r"values must be"),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), r"values must be"),
        ([1, 2, 3], r"users, items and values must have one length, got 2, 2 and 3\."),
        (pd.Series([1, None], dtype="Int64"), r"values must be"),
        ([1, 2.5], r"ratings must be on the scale 1, 2, 3; got 2\.5 \(1 such rating\)\. Mend them or the scale\."),
        ([9, -9], r"ratings must be on the scale 1, 2, 3; got 9 \(2 such ratings\)\."),
    ],
    ids=str,
)
def test_values_that_are_no_ratings_are_said(values, message):
    with pytest.raises(DataError, match=message):
        sc.Ratings.from_arrays([1, 2], [1, 1], values, scores=[1, 2, 3])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (range(128), r"a scale has at most 127 scores, got 128 from 0 to 127\. Pass a coarser scale and round to it: scores=\[0, 12\.7, 25\.4, .*, 127\] with off_scale=\"nearest\"\."),
        ([-1e308, 1e308], r"a scale must have a finite width, got one from -1e\+308 to 1e\+308\. Divide it\."),
        ([3, 3], r"a scale needs at least two different scores, got only 3\. Pass the whole scale as scores=\."),
        ([], r"scores must hold at least one number, got none\."),
        ([1, float("nan")], r"scores must be finite, got nan at position 1 \(1 such of 2\)\."),
        (["low", "high"], r"scores must be numbers, got 'low' \(2 such\)\."),
        (5, r"scores must be one-dimensional"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_scale_is_said(scores, message):
    with pytest.raises(DataError, match=message):
        make_scale(scores)


def test_a_long_scale_is_shortened_in_the_message():
    with pytest.raises(DataError, match=r"on the scale 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …; got 99"):
        sc.Ratings.from_arrays([1], [1], [99], scores=range(50))


# Rows, groups, counts, digest.


@EXACT
@given(TRIPLES, st.data())
def test_take_keeps_the_rows_and_drops_unused_names(rows, data):
    users, items, values = zip(*naive_duplicates(rows, "first"), strict=True)
    ratings = sc.Ratings.from_arrays(users, items, values, scores=SCALE, timestamps=np.arange(len(users)))
    chosen = data.draw(st.lists(st.integers(0, len(users) - 1), unique=True))
    part = ratings.take(np.array(chosen, int))
    assert triples(part) == [triples(ratings)[row] for row in chosen]
    assert part.timestamps.tolist() == chosen
    assert part.scores.tolist() == SCALE
    assert sorted(part.users) == sorted({users[row] for row in chosen})
    assert sorted(part.items) == sorted({items[row] for row in chosen})
    mask = np.isin(np.arange(len(users)), chosen)
    assert same(ratings.take(mask), ratings.take(np.flatnonzero(mask)))


def test_groups_hold_each_users_rows_in_order(ratings):
    for groups, code, count in ((ratings.by_user(), ratings.user, 3), (ratings.by_item(), ratings.item, 4)):
        rows = [groups.rows[groups.start[g] : groups.start[g + 1]].tolist() for g in range(count)]
        assert rows == [[row for row in range(6) if code[row] == g] for g in range(count)]


def test_counts_count(ratings):
    assert ratings.counts().tolist() == [1, 1, 1, 1, 2]
    assert ratings.counts_by_user().tolist() == [[0, 0, 1, 0, 1], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]
    assert ratings.counts_by_item().tolist() == [[0, 0, 0, 1, 1], [0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]


def test_the_digest_depends_on_every_part_of_the_table():
    base = {"users": ["ab", "c"], "items": ["x", "y"], "values": [1, 2], "scores": [1, 2, 3]}
    tables = [
        base,
        base | {"users": ["c", "ab"]},
        base | {"users": ["a", "bc"]},
        base | {"users": ["ab", "cx"], "items": ["", "y"]},
        base | {"users": ["ab\0c", "d"]},
        base | {"values": [1, 3]},
        base | {"scores": [1, 2]},
        base | {"users": [1, 2]},
        base | {"users": ["1", "2"]},
        {key: list(value)[::-1] if key != "scores" else value for key, value in base.items()},
    ]
    digests = [sc.Ratings.from_arrays(t["users"], t["items"], t["values"], scores=t["scores"]).digest() for t in tables]
    assert len(set(digests)) == len(digests)
    assert digests[0] == sc.Ratings.from_arrays(**base).digest()


def test_a_name_cannot_move_between_users_and_items_unseen():
    one = sc.Ratings.from_arrays(["ab"], ["c"], [1], scores=[1, 2])
    two = sc.Ratings.from_arrays(["a"], ["bc"], [1], scores=[1, 2])
    assert one.digest() != two.digest()


# Memory.

TEN_MILLION = """
import sys, numpy as np, psutil, starcast as sc
from pathlib import Path
folder = Path(sys.argv[1])
base = sc.read_ratings(folder / "ml-1m" / "ratings.dat", columns=(0, 1, 2))
# Ten copies of MovieLens 1M, each of other users: 10 million ratings.
users = np.concatenate([base.users[base.user] + 10_000 * k for k in range(10)])
items, values = np.tile(base.items[base.item], 10), np.tile(base.values, 10)
del base
sc.Ratings.from_arrays(users[:1000], items[:1000], values[:1000])  # whatever is loaded late is loaded now
before = psutil.Process().memory_info().rss
ratings = sc.Ratings.from_arrays(users, items, values)
print(len(ratings), ratings.nbytes, psutil.Process().memory_info().rss - before)
"""


@pytest.mark.slow
@pytest.mark.data
def test_ten_million_ratings_take_at_most_100_megabytes(data_folder):
    done = subprocess.run([sys.executable, "-c", TEN_MILLION, data_folder], capture_output=True, text=True, check=True)
    n, counted, resident = map(int, done.stdout.split())
    assert n == 10_002_090
    assert counted <= 10 * n <= 101e6
    assert counted == 9 * n + 5 * 8
    assert resident <= 125e6  # 80 MB, for what was freed before is used again; codes of eight bytes would take 170


@pytest.mark.slow
def test_a_table_allocates_what_it_counts():
    rng = np.random.default_rng(0)
    cell = rng.permutation(4_000_000)[:1_000_000]
    users, items, values = cell // 2000, cell % 2000, cell % 5
    tracemalloc.start()
    try:
        ratings = sc.Ratings.from_arrays(users, items, values)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held <= ratings.nbytes + 100_000
    assert ratings.nbytes <= 10 * len(ratings)


def test_what_a_mask_hides_is_missing():
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    with pytest.raises(DataError, match="values must not be missing, but 1 of 3 are"):
        sc.Ratings.from_arrays([1, 2, 3], [1, 2, 3], masked)
    with pytest.raises(DataError, match="users must not be missing, but 1 of 3 are"):
        sc.Ratings.from_arrays(masked, [1, 2, 3], [1, 2, 3])
    assert len(sc.Ratings.from_arrays(np.ma.masked_array([1, 2]), [1, 2], np.ma.masked_array([1, 2]))) == 2


def test_a_rating_beside_the_scale_is_shown_with_all_digits():
    with pytest.raises(DataError, match=r"on the scale 0\.1, 0\.2, 0\.3; got 0\.3000001"):
        sc.Ratings.from_arrays([1, 2], [1, 2], [0.3000001, 0.1], scores=[0.1, 0.2, 0.3])
