"""The native functions against NumPy and plain loops."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starcast import _native

EXACT = settings(derandomize=True, max_examples=60, deadline=None)
SMALL = st.lists(st.integers(0, 6), max_size=40)


@EXACT
@given(st.lists(st.one_of(st.integers(-3, 3), st.integers(2**20 - 3, 2**20 + 3), st.integers(-(2**63), 2**63 - 1)), max_size=60))  # fmt: skip
def test_code_integers_is_unique_in_the_order_of_first_appearance(values):
    array = np.array(values, np.int64)
    codes, first = _native.code_integers(array)
    _, rows = np.unique(array, return_index=True)
    assert first.tolist() == sorted(rows.tolist())
    assert array[first][codes].tolist() == values


def test_code_integers_survives_a_table_that_grows():
    array = np.random.default_rng(0).integers(-(2**62), 2**62, 5000)
    array = np.concatenate([array, array[::-1]])
    codes, first = _native.code_integers(array)
    assert first.tolist() == list(range(5000))
    assert np.array_equal(array[first][codes], array)


@EXACT
@given(SMALL)
def test_group_rows_is_a_stable_argsort(codes):
    array = np.array(codes, np.int32)
    start, rows = _native.group_rows(array, 8)
    assert rows.tolist() == np.argsort(array, kind="stable").tolist()
    assert start.tolist() == np.searchsorted(np.sort(array), np.arange(9)).tolist()


@pytest.mark.parametrize("codes", [[0, 3], [-1], [2**31 - 1]])
def test_codes_outside_their_table_are_refused(codes):
    array = np.array(codes, np.int32)
    with pytest.raises(IndexError, match="a code lies outside its table"):
        _native.group_rows(array, 3)
    with pytest.raises(IndexError, match="a code lies outside its table"):
        _native.find_duplicates(array, np.zeros_like(array), 3, 3)
    with pytest.raises(IndexError, match="a code lies outside its table"):
        _native.find_duplicates(np.zeros_like(array), array, 3, 3)


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="users and items differ in length"):
        _native.find_duplicates(np.zeros(2, np.int32), np.zeros(3, np.int32), 1, 1)


@EXACT
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_find_duplicates_gives_each_later_row_and_its_first(pairs):
    users, items = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
    again, first = _native.find_duplicates(users, items, 5, 5)
    expected = {row: pairs.index(pair) for row, pair in enumerate(pairs) if pairs.index(pair) < row}
    assert dict(zip(again.tolist(), first.tolist(), strict=True)) == expected
    for pair in set(first.tolist()):  # of one pair, the later rows come in order
        rows = again[first == pair].tolist()
        assert rows == sorted(rows)


@EXACT
@given(st.integers(0, 4), st.integers(0, 9), st.integers(1, 12), st.randoms(use_true_random=False))
def test_top_n_is_a_sort_by_first_then_second_then_column(rows, columns, n, random):
    first, second = (
        [[random.choice([0.0, 1.0, 2.0, float("nan")]) for _ in range(columns)] for _ in range(rows)] for _ in "ab"
    )
    allowed = [[random.random() < 0.7 for _ in range(columns)] for _ in range(rows)]
    best = _native.top_n(*(np.array(m, d).reshape(rows, columns) for m, d in ((first, float), (second, float), (allowed, bool))), n)  # fmt: skip
    for row in range(rows):
        ranked = sorted(
            (-first[row][c], -second[row][c], c)
            for c in range(columns)
            if allowed[row][c] and first[row][c] == first[row][c] and second[row][c] == second[row][c]
        )
        expected = [c for *_, c in ranked][:n]
        assert best[row].tolist() == expected + [-1] * (n - len(expected))


def test_top_n_refuses_shapes_that_differ():
    with pytest.raises(ValueError, match="first, second and allowed differ in shape"):
        _native.top_n(np.zeros((2, 3)), np.zeros((2, 2)), np.ones((2, 3), bool), 1)


# The reader against the csv module.

NAME = st.text(st.sampled_from("ab1, ;|:\t\"\r\n'\u00e9\u4e16-0"), max_size=6)
RATING = st.sampled_from(["1", "2", "3.5", "-4", "1e1", "0.25"])
TABLE = st.lists(st.tuples(NAME, NAME, RATING, st.integers(1 - 10**11, 10**11 - 1)), max_size=12)
THREADS = (1, 2, 3, 7)


def read(text, sep, columns, n_threads):
    least, most = max(columns) + 1, 1000  # fields of a line
    table = _native.read_text(text, 0, sep, *columns, least, most, False, n_threads)
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in table.items()}


def rows_of(table):
    users, items = ([str(name) for name in table[side]] for side in ("users", "items"))
    return [
        (users[u], items[i], table["scores"][s], t)
        for u, i, s, t in zip(table["user"], table["item"], table["score"], table["time"], strict=True)
    ]


@settings(derandomize=True, max_examples=250, deadline=None)
@given(
    TABLE,
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.permutations(range(4)),
    st.booleans(),
)
def test_the_reader_reads_what_the_csv_module_writes(rows, sep, newline, quoting, order, blank_lines):
    if quoting == csv.QUOTE_MINIMAL:  # the module leaves a lone carriage return unquoted and then stumbles over it
        rows = [(user.replace("\r", ""), item.replace("\r", ""), *rest) for user, item, *rest in rows]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=sep, lineterminator=newline, quoting=quoting)
    for row in rows:
        writer.writerow([row[column] for column in order])
        text.write(newline * blank_lines)
    columns = [order.index(column) for column in range(4)]
    quoted = '"' in text.getvalue()
    records = [r for r in csv.reader(io.StringIO(text.getvalue(), newline=""), delimiter=sep) if r]
    # Names that are not quoted lose the blanks around them, quoted ones lose nothing.
    good = []
    for record in records:
        user, item, rating, time = (record[at] for at in columns)
        good.append((user, item, float(rating), int(time)))
    tables = [read(text.getvalue().encode(), sep, columns, n) for n in THREADS]
    assert all(table == tables[0] for table in tables)
    found = rows_of(tables[0])

    def plain(row):
        return tuple(cell.strip(" \t\r") if isinstance(cell, str) else cell for cell in row)

    expected = [row for row in map(plain, good) if row[0] and row[1]]
    assert [plain(row) for row in found if all(plain(row)[:2])] == expected
    if quoting == csv.QUOTE_ALL:  # then no blank is lost
        assert found == [row for row in good if row[0] and row[1]]
    missing = sum(count for kind, (count, *_) in tables[0]["mistakes"].items() if kind in ("no_user", "no_item"))
    assert len(found) + missing == len(rows)
    assert quoted or set(tables[0]["mistakes"]) <= {"no_user", "no_item"}


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab17-é:", min_size=1, max_size=4), st.integers(-5, 10**19), RATING), max_size=40),
    st.sampled_from([",", "::", " ", "\t", ", "]),
    st.sampled_from(["\n", "\r\n", "\n\n", " \n"]),
    st.booleans(),
)
def test_any_number_of_threads_reads_the_same_rows(rows, sep, newline, end):
    rows = [(u.replace(":", "_") if sep == "::" else u, i, r) for u, i, r in rows]
    text = newline.join(sep.join(map(str, row)) for row in rows) + newline * end
    tables = [read(text.encode(), sep, (0, 1, 2, -1), n) for n in THREADS]
    assert all(table == tables[0] for table in tables)
    table = tables[0]
    assert table["mistakes"] == {}
    names = [[str(name) for name in table[side]] for side in ("users", "items")]
    found = [(names[0][u], names[1][i], table["scores"][s]) for u, i, s in zip(table["user"], table["item"], table["score"], strict=True)]  # fmt: skip
    assert found == [(u, str(i), float(r)) for u, i, r in rows]
    assert names[0] == list(dict.fromkeys(u for u, _, _ in rows))


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.binary(max_size=200).map(lambda b: b.replace(b'"', b"'")), st.sampled_from([",", "::", " ", "ab"]))
def test_threads_agree_on_arbitrary_bytes(text, sep):
    def outcome(n):
        try:
            return read(text, sep, (0, 1, 2, -1), n)
        except UnicodeDecodeError as error:
            return error.object

    assert all(outcome(n) == outcome(1) for n in THREADS)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.one_of(st.text("0123456789.+-eE", max_size=20), st.floats().map(repr), st.decimals().map(str)))
def test_numbers_are_those_of_python(text):
    table = read(f"u,i,{text}".encode(), ",", (0, 1, 2, -1), 1)
    try:
        value = float(text)
    except ValueError:
        assert "rating_not_number" in table["mistakes"]
        return
    if not np.isfinite(value):
        assert set(table["mistakes"]) <= {"rating_not_finite", "rating_not_number"}  # sNaN is no number here
        assert table["mistakes"]
    else:
        assert table["scores"] == [value]


def test_many_scores_are_told_apart():
    text = "\n".join(f"u,{k},{k}" for k in range(40_000)).encode()
    for n in THREADS:
        table = read(text, ",", (0, 1, 2, -1), n)
        assert [table["scores"][code] for code in table["score"]] == list(range(40_000))
