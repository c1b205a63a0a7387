"""Ratings files from strangers: an error of ours, or ratings that hold together. Nothing else may come out."""

import bz2
import gzip
import io
import lzma
import warnings
import zipfile

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast.errors import StarcastError
from starcast.io import _fields, _record_length, read_pairs

EXACT = settings(derandomize=True, max_examples=300, deadline=None)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tmp_path_factory.mktemp("target") / "ratings"


def must_be_harmless(path, **options):
    """Read it; what comes out is whole, or an error of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            ratings = sc.read_ratings(path, **options)
        except StarcastError:
            return None
        assert len(ratings) >= 1
        assert len(ratings.user) == len(ratings.item) == len(ratings.score)
        assert ratings.user.min() >= 0
        assert ratings.user.max() == len(ratings.users) - 1
        assert ratings.item.max() == len(ratings.items) - 1
        assert 2 <= len(ratings.scores) <= 127
        assert np.isfinite(ratings.values).all()
        assert len(set(ratings.users.tolist())) == len(ratings.users)
        assert len(ratings.to_frame()) == len(ratings)
        ratings.digest()
        return ratings


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "sep": st.sampled_from([",", "::", " ", "\t", ";", "x", ", ", "", "\n", "é", "\0", "\r"]),
        "header": st.booleans(),
        "columns": st.sampled_from([(0, 1, 2), (2, 1, 0), (0, 1, 2, 3), ("user", "item", "rating"), (0, 0, 0), (5, 6, 7), ("a", 1, 2), (True, False, 1), (), "abc", 7]),
        "scores": st.sampled_from([[1, 2, 3, 4, 5], [1, 1], [], range(200), None]),
        "duplicates": st.sampled_from(["first", "last", "mean", "error", "none"]),
        "on_bad": st.sampled_from(["skip", "error"]),
        "ids": st.sampled_from(["auto", "text"]),
        "off_scale": st.sampled_from(["error", "nearest"]),
        "encoding": st.sampled_from(["utf-8", "latin-1", "utf-16", "utf-7", "cp037", "idna", "punycode", "hex", "nothing", "unicode_escape"]),
    },
)  # fmt: skip


@EXACT
@given(st.binary(max_size=300), OPTIONS)
def test_arbitrary_bytes_do_no_harm(target, content, options):
    target.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # unicode_escape grumbles about odd backslashes
        must_be_harmless(target, **options)


FIELD = st.sampled_from(["1", "2", "3", "007", "-1", "ann", "é", "日本", '"', '""', '"a"', '"a,b"', '"a\nb"', " ", "", "nan", "1e999", "4.5", "\0", "\r", "user", "item", "rating", "\ufeff", "9" * 30, "1.5e3", "+5", "'", "\x85", "\u2028", "1.0", "2005-09-06", "{", "[{"])  # fmt: skip


@EXACT
@given(
    st.lists(st.lists(FIELD, max_size=6), max_size=8),
    st.sampled_from([",", "::", " ", "\t", ";", "|"]),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\n", b"\xff"]),
    OPTIONS,
)
def test_near_valid_texts_do_no_harm(target, lines, sep, newline, start, options):
    target.write_bytes(start + newline.join(sep.join(line) for line in lines).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        must_be_harmless(target, **options)
        must_be_harmless(
            target, **options | {"on_bad": "skip", "duplicates": "first", "header": False, "encoding": "utf-8"}
        )


def packed(kind):
    frame = pl.DataFrame({"user": ["a", "b", "c"] * 20, "item": list(range(60)), "rating": [1.0, 2.0, 3.0] * 20})
    buffer = io.BytesIO()
    text = frame.write_csv().encode()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("ratings.csv"), text)
        return buffer.getvalue()
    if kind in ("gzip", "bzip2", "xz"):
        return {"gzip": gzip, "bzip2": bz2, "xz": lzma}[kind].compress(text)
    if kind == "jsonl":
        return frame.write_ndjson().encode()
    (frame.write_parquet if kind == "parquet" else frame.write_ipc)(buffer)
    return buffer.getvalue()


PACKED = {kind: packed(kind) for kind in ("gzip", "bzip2", "xz", "zip", "jsonl", "parquet", "arrow")}


@pytest.mark.parametrize("kind", PACKED)
@settings(derandomize=True, max_examples=120, deadline=None)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=3),
    end=st.floats(0.2, 1) | st.just(1.0),
)
def test_damaged_packages_do_no_harm(target, kind, flips, end):
    content = bytearray(PACKED[kind])
    for place, byte in flips:
        content[int(place * len(content))] = byte
    target.write_bytes(content[: int(end * len(content))])
    must_be_harmless(target)


COLUMNS = st.sampled_from(
    [
        pl.Series([1, 2, 3]), pl.Series(["a", "b", "c"]), pl.Series([1.5, 2.5, 3.5]), pl.Series([1, None, 3]),
        pl.Series(["1", None, "3"]), pl.Series([None, None, None]), pl.Series([[1], [2], [3]]), pl.Series([True, False, True]),
        pl.Series([b"a", b"b", b"c"]), pl.Series([{"a": 1}, {"a": 2}, {"a": 3}]), pl.Series([2**63, 1, 2], dtype=pl.UInt64),
        pl.Series(["a", "b", "a"], dtype=pl.Categorical), pl.Series([1, 2, 3]).cast(pl.Date), pl.Series([1, 2, 3]).cast(pl.Datetime("us", "UTC")),
        pl.Series([1, 2, 3]).cast(pl.Duration), pl.Series([1, 2, 3]).cast(pl.Decimal(10, 2)), pl.Series([1.0, float("nan"), float("inf")]),
        pl.Series([1, 2, 3]).cast(pl.Time), pl.Series(["a", "b", "a"], dtype=pl.Enum(["a", "b"])), pl.Series([1, None, 3]).cast(pl.Datetime),
    ]
)  # fmt: skip


@settings(derandomize=True, max_examples=200, deadline=None)
@given(COLUMNS, COLUMNS, COLUMNS, COLUMNS | st.none())
def test_columns_of_any_type_do_no_harm(target, user, item, rating, time):
    columns = {"user": user, "item": item, "rating": rating} | ({} if time is None else {"timestamp": time})
    try:
        pl.DataFrame(columns).write_parquet(target)
    except Exception:  # not every type can be written
        return
    must_be_harmless(target)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.lists(FIELD.filter(lambda f: "\n" not in f and "\r" not in f), min_size=3, max_size=5), min_size=1, max_size=4), st.sampled_from([",", "::", " ", ";"]))  # fmt: skip
def test_the_first_line_is_cut_as_the_native_reader_cuts_it(target, lines, sep):
    """Whatever the first line, it is cut by Python to find the columns and by the native reader to read them."""
    from starcast import _native

    record = sep.join(lines[0])
    fields, is_open = _fields(record, sep), _record_length(record.encode(), sep) == 0
    table = _native.read_text(record.encode(), 0, sep, 0, 1, 2, -1, 3, len(fields), False, 1)
    if len(table["user"]) and not is_open:
        assert [str(table["users"][0]), str(table["items"][0])] == fields[:2]
    assert (len(fields) < 3) <= ("field_count" in table["mistakes"] or is_open or not record.strip(" \t\r"))


@EXACT
@given(st.one_of(st.binary(max_size=200), st.lists(st.lists(FIELD, max_size=4), max_size=5).map(lambda ls: "\n".join(",".join(x) for x in ls).encode())))  # fmt: skip
def test_files_of_pairs_do_no_harm(target, content):
    target.write_bytes(content)
    try:
        users, items = read_pairs(target)
    except StarcastError:
        return
    assert len(users) == len(items)
    assert all(isinstance(name, str) and name for name in users + items)


ENDLESS = {
    "open quote": '"' + "a,1,5\n" * 300_000,
    "doubled quotes": '"' + 'a""\n' * 300_000,
    "quoted fields": '"a",' * 100_000,
    "separators": "," * 200_000,
    "opening quotes": '"x\n' * 300_000,
    "lines without separator": '"a",1,5\n' + "x\n" * 600_000,
    "line without end": '"a",1,5\n' + "x," * 300_000,
}


@pytest.mark.parametrize("content", ENDLESS.values(), ids=ENDLESS)
def test_no_file_makes_the_reader_look_at_it_again_and_again(target, content):
    target.write_text(content)
    must_be_harmless(target)
    must_be_harmless(target, sep=";")
