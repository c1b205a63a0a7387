"""Ratings from files of every dialect."""

import errno
import gzip
import os
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast import _native
from starcast.errors import DataError, FileError, FileFormatError, UnknownNameError
from starcast.io import SEPARATORS, read_pairs

ROWS = [("ann", "x", 5.0), ("bob", "x", 3.5), ("ann", "y z", 1.0)]


def triples(ratings):
    return list(zip(ratings.users[ratings.user], ratings.items[ratings.item], ratings.values.tolist(), strict=True))


@pytest.fixture
def write(tmp_path):
    def write(content, name="ratings.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("sep", [s for s in SEPARATORS if s != " "])
def test_every_dialect_is_found_out(write, sep, header, newline, end):
    lines = [sep.join(["user", "item", "rating"])] * header + [f"{u}{sep}{i}{sep}{r:g}" for u, i, r in ROWS]
    ratings = sc.read_ratings(write(newline.join(lines) + newline * end))
    assert triples(ratings) == ROWS
    assert ratings.timestamps is None


def test_any_run_of_blanks_separates(write):
    ratings = sc.read_ratings(write("  1   7 5 \n\n2\t7  3\t\n"), sep=" ")
    assert triples(ratings) == [(1, 7, 5.0), (2, 7, 3.0)]
    assert triples(sc.read_ratings(write("1 7 5\n2 7 3"))) == [(1, 7, 5.0), (2, 7, 3.0)]


def test_a_separator_of_several_characters_is_taken(write):
    assert triples(sc.read_ratings(write("1 :: 7 :: 5\n2 :: 7 :: 3"), sep=" :: ")) == [(1, 7, 5.0), (2, 7, 3.0)]
    assert triples(sc.read_ratings(write("1--:7--:-5\n2--:7--:3"), sep="--:")) == [(1, 7, -5.0), (2, 7, 3.0)]


def test_a_fourth_number_is_a_timestamp(write):
    assert sc.read_ratings(write("1,7,5,100\n2,7,3,-7.5")).timestamps.tolist() == [100, -8]
    assert sc.read_ratings(write("1,7,5,good\n2,7,3,bad")).timestamps is None


def test_columns_are_recognised_in_any_order(write):
    path = write("Timestamp,Rating,genre,movie_id,userId\n100,5,a,7,ann\n200,3,b,8,ann")
    ratings = sc.read_ratings(path)
    assert triples(ratings) == [("ann", 7, 5.0), ("ann", 8, 3.0)]
    assert ratings.timestamps.tolist() == [100, 200]


def test_columns_can_be_named_or_counted(write):
    path = write("a,b,c,d\n1,9,5,7\n2,9,3,8", "named.csv")
    assert triples(sc.read_ratings(path, columns=("a", "d", "c"))) == [(1, 7, 5.0), (2, 8, 3.0)]
    assert triples(sc.read_ratings(path, columns=(0, 3, 2), header=True)) == [(1, 7, 5.0), (2, 8, 3.0)]
    assert triples(sc.read_ratings(write("1,9,5,7\n2,9,3,8"), columns=(0, 3, 2))) == [(1, 7, 5.0), (2, 8, 3.0)]
    assert sc.read_ratings(path, columns=("a", "d", "c", "b")).timestamps.tolist() == [9, 9]


def test_ids_come_back_as_they_stand_in_the_file(write):
    assert sc.read_ratings(write("7,a,5\n007,a,3\n-1,b,4")).users.tolist() == ["7", "007", "-1"]
    assert sc.read_ratings(write("7,a,5\n-1,b,4")).users.tolist() == [7, -1]
    assert sc.read_ratings(write("-0,a,5\n0,b,4")).users.tolist() == ["-0", "0"]
    big = [str(10**18 - 1), str(10**18), str(2**63)]
    assert [str(u) for u in sc.read_ratings(write("\n".join(f"{u},a,{k}" for k, u in enumerate(big)))).users] == big


def test_quoted_names_may_hold_separators_quotes_and_line_breaks(write):
    text = 'user,item,rating\n"Smith, ""J""","Gone\nwith",5\r\nbob," x ",3\n'
    assert triples(sc.read_ratings(write(text))) == [('Smith, "J"', "Gone\nwith", 5.0), ("bob", " x ", 3.0)]


def test_a_quoted_first_line_is_cut_as_the_others_are(write):
    assert triples(sc.read_ratings(write('"Smith, J",7,5\nbob,7,3'))) == [("Smith, J", 7, 5.0), ("bob", 7, 3.0)]
    assert triples(sc.read_ratings(write('"Gone\nwith; the, wind",7,5\nbob,7,3'))) == [("Gone\nwith; the, wind", 7, 5.0), ("bob", 7, 3.0)]  # fmt: skip
    assert triples(sc.read_ratings(write('1,"Heat (1995), ""part"" 2",5\n2,x,3'))) == [(1, 'Heat (1995), "part" 2', 5.0), (2, "x", 3.0)]  # fmt: skip


def test_a_header_may_quote_the_separator_and_span_lines(write):
    text = '"name, full","user","item","rating",weight\n"A, B",1,7,5,2\n"C, D",2,7,3,1\n'
    assert triples(sc.read_ratings(write(text))) == [(1, 7, 5.0), (2, 7, 3.0)]
    text = 'user,item,"what\nfor",rating\n1,7,9,5\n2,7,9,3\n'
    assert triples(sc.read_ratings(write(text))) == [(1, 7, 5.0), (2, 7, 3.0)]


def test_a_quote_within_a_field_is_a_letter(write):
    assert triples(sc.read_ratings(write('5" pipe,7,5\n6" pipe,7,3'))) == [('5" pipe', 7, 5.0), ('6" pipe', 7, 3.0)]
    assert triples(sc.read_ratings(write('5" pipe,7,5\nrod,7,3\nbar,7,3'))) == [('5" pipe', 7, 5.0), ("rod", 7, 3.0), ("bar", 7, 3.0)]  # fmt: skip


MOMENTS = st.datetimes(
    timezones=st.none() | st.timedeltas(-timedelta(hours=23), timedelta(hours=23)).map(lambda d: timezone(timedelta(minutes=d // timedelta(minutes=1))))
)  # fmt: skip


@settings(derandomize=True, max_examples=300, deadline=None)
@given(MOMENTS, st.sampled_from(["T", " "]), st.sampled_from(["minutes", "seconds", "milliseconds", "microseconds"]))
def test_dates_are_read_as_python_reads_them(moment, separator, precision):
    text = moment.isoformat(separator, precision)
    known = datetime.fromisoformat(text)
    expected = (known if known.tzinfo else known.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    (seconds,), (good,) = _native.parse_times([text])
    assert good
    assert seconds == expected // timedelta(seconds=1)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.text("0123456789-: TZ+.", max_size=28))
def test_text_that_is_no_date_does_no_harm(text):
    seconds, good = _native.parse_times([text, None, 5, "\ud800"])
    assert good.tolist()[1:] == [0, 0, 0]
    assert len(seconds) == 4


def test_a_byte_order_mark_is_no_part_of_a_name(write):
    assert triples(sc.read_ratings(write(b"\xef\xbb\xbfann,7,5\nann,8,3"))) == [("ann", 7, 5.0), ("ann", 8, 3.0)]
    ratings = sc.read_ratings(write(b"\xef\xbb\xbfuser,item,rating\nann,7,5\nann,8,3"))
    assert triples(ratings) == [("ann", 7, 5.0), ("ann", 8, 3.0)]


def test_blank_lines_are_passed_over(write):
    text = "\n\r\n  \nuser,item,rating\n\n1,7,5\n \r\n2,7,3\n\n"
    assert triples(sc.read_ratings(write(text))) == [(1, 7, 5.0), (2, 7, 3.0)]
    assert triples(sc.read_ratings(write("\n" * 70_000 + "1,7,5\n2,7,3"))) == [(1, 7, 5.0), (2, 7, 3.0)]


def test_other_encodings_are_read_when_named(write):
    text = "user,item,rating\nJosé,x,5\nÅsa,x,3\n"
    for encoding in ("latin-1", "utf-16", "utf_8", "UTF-8"):
        assert sc.read_ratings(write(text.encode(encoding)), encoding=encoding).users.tolist() == ["José", "Åsa"]


def test_gzip_is_read_whatever_the_name(write):
    assert triples(sc.read_ratings(write(gzip.compress(b"ann,x,5\nbob,x,3"), "r.txt"))) == [("ann", "x", 5.0), ("bob", "x", 3.0)]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "ipc"])
@pytest.mark.parametrize("zipped", [False, True])
def test_parquet_and_arrow_are_read_whatever_the_name(tmp_path, kind, zipped):
    frame = pl.DataFrame({"rating": [5.0, 3.5], "user": ["a", "b"], "movie": [1, 1], "timestamp": [9, 8]})
    path = tmp_path / "ratings"
    getattr(frame, f"write_{kind}")(path)
    if zipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    ratings = sc.read_ratings(path, scores=[3.5, 4, 5])
    assert triples(ratings) == [("a", 1, 5.0), ("b", 1, 3.5)]
    assert ratings.timestamps.tolist() == [9, 8]


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("+5", 5), ("-5", -5), ("5.", 5), (".5", 0.5), ("05.50", 5.5), ("1e1", 10), ("1E-1", 0.1), ("0.1", 0.1),
     ("3.14159265358979312", 3.141592653589793), ("123456789012345678", 123456789012345678.0), ("-0", 0), ("1e-400", 0),
     ("0.000000000000000000001", 1e-21), ('"4"', 4), (" 4 ", 4)],
)  # fmt: skip
def test_numbers_are_read_as_python_reads_them(write, text, value):
    assert sc.read_ratings(write(f"1,7,{text}\n2,7,77"), header=False).values.tolist() == [value, 77]


@pytest.mark.parametrize("text", ["abc", "+-5", "--5", "+", "-", ".", "1e", "0x10", "1_000", "5 5", "''", "５"])
def test_what_is_no_number_is_said(write, text):
    with pytest.raises(DataError, match=r"rating must be a number, got .* \(line 1 of ratings\.csv; 1 such line\)\. Fix them, or pass on_bad=\"skip\" to leave them out\."):  # fmt: skip
        sc.read_ratings(write(f"1,7,{text}\n2,7,77"), header=False)


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "Infinity", "1e999", "-1e999"])
def test_what_is_not_finite_is_said(write, text):
    with pytest.raises(
        DataError, match=rf"rating must be finite, got '{text}' \(line 1 of ratings\.csv; 1 such line\)"
    ):
        sc.read_ratings(write(f"1,7,{text}\n2,7,77"), header=False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("9,8", "a line must have 4 fields, as the first one has, got 2 in '9,8'"),
        ("9,8,7,5,1", "a line must have 4 fields, as the first one has, got 5 in '9,8,7,5,1'"),
        (",8,5,1", "a user must have a name, got an empty one in ',8,5,1'"),
        ("9,,5,1", "an item must have a name, got an empty one in '9,,5,1'"),
        ("9,8,x,1", "rating must be a number, got 'x'"),
        ("9,8,nan,1", "rating must be finite, got 'nan'"),
        ("9,8,5,noon", "timestamp must be a number of seconds or a date such as 2005-09-06, got 'noon'"),
        ("9,8,5,", "timestamp must be a number of seconds or a date such as 2005-09-06, got ''"),
        ("9,8,5,1e30", "timestamp must be a number of seconds or a date such as 2005-09-06, got '1e30'"),
        ('9,"8,5,1', "a quote must be closed, got "),
    ],
)
@pytest.mark.parametrize("lead", ["", "\n\n"])
def test_the_first_bad_line_is_shown_with_its_number(write, line, message, lead):
    path = write(f"{lead}user,item,rating,time\n1,7,5,1\n\n2,7,3,1\n{line}\n")
    with pytest.raises(DataError) as caught:
        sc.read_ratings(path)
    assert str(caught.value).startswith(message)
    assert f"(line {5 + len(lead)} of ratings.csv; 1 such line)" in str(caught.value)
    assert triples(sc.read_ratings(path, on_bad="skip")) == [(1, 7, 5.0), (2, 7, 3.0)]


def test_lines_are_counted_through_quoted_line_breaks(write):
    with pytest.raises(DataError, match=r"got 'x' \(line 5 of ratings\.csv; 2 such lines\)"):
        sc.read_ratings(write('user,"i\ntem",item,rating\n1,"a\nb",7,5\n2,c,7,x\n3,c,7,y\n'))


def test_the_line_of_a_rating_off_the_scale_is_shown(write):
    path = write("user,item,rating\n1,7,5\n2,7,9\n3,7,8\n4,7,9")
    with pytest.raises(DataError, match=r"ratings must be on the scale 1, 5; got 9 in line 3 of ratings\.csv \(3 such ratings\)"):  # fmt: skip
        sc.read_ratings(path, scores=[1, 5])


def test_mistakes_are_found_by_any_number_of_threads(write):
    lines = [f"{k},{k % 7},{k % 5}" for k in range(300_000)]
    lines[200_000] = "x,1,abc"
    lines[250_000] = "x,1,abd"
    with pytest.raises(DataError, match=r"got 'abc' \(line 200,001 of ratings\.csv; 2 such lines\)"):
        sc.read_ratings(write("\n".join(lines)), header=False)


def test_titles_come_along(write):
    ratings = sc.read_ratings(write("1,7,5\n2,8,3"), titles={7: "Seven"})
    assert ratings.titles.tolist() == ["Seven", ""]


def test_duplicates_in_a_file_follow_the_rule(write):
    path = write("1,7,5\n2,7,3\n1,7,4")
    assert triples(sc.read_ratings(path, duplicates="last")) == [(1, 7, 4.0), (2, 7, 3.0)]
    with pytest.raises(DataError, match=r"got 1 rating too many \(user 1 rated item 7 5 and 4\)"):
        sc.read_ratings(path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sep": ""}, DataError, r"sep must be a text of at least one character, not a quote or a line break, got ''\."),
        ({"sep": "\n"}, DataError, r"sep must be a text"),
        ({"sep": '"'}, DataError, r"sep must be a text"),
        ({"sep": 5}, DataError, r"sep must be a text of at least one character.* got 5\."),
        ({"sep": ";"}, DataError, r"a line needs at least 3 columns \(user, item, rating\), got 1 when ratings\.csv is cut at ';': 'user,item,rating'\. The line looks separated by ',': pass sep=','\."),
        ({"columns": ("user", "item", "stars")}, DataError, r"ratings\.csv has no column 'stars'; there are: user, item, rating\."),
        ({"columns": (0, 1, 7)}, DataError, r"ratings\.csv has the columns 0 to 2, got 7\."),
        ({"columns": ("user",)}, DataError, r"columns must name the user, item and rating column \(and the timestamp\), got \('user',\)\."),
        ({"columns": 1}, DataError, r"columns must name the user, item and rating column"),
        ({"on_bad": "ignore"}, UnknownNameError, r"unknown on_bad 'ignore'\. Known: error, skip"),
        ({"duplicates": "lsat"}, UnknownNameError, r"unknown duplicates 'lsat'\. Did you mean 'last'\?"),
        ({"encoding": "klingon"}, DataError, r"encoding must be one that Python knows, got 'klingon'\."),
        ({"encoding": "a\0b"}, DataError, r"encoding must be one that Python knows"),
        ({"encoding": None}, DataError, r"encoding must be one that Python knows, got None\."),
        ({"encoding": "utf-32"}, DataError, r"ratings\.csv is not utf-32 text \(.*\)\. Pass the right encoding=\."),
        ({"scores": [1, 1]}, DataError, r"a scale needs at least two different scores, got only 1\."),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_said(write, options, error, message):
    with pytest.raises(error, match=message):
        sc.read_ratings(write("user,item,rating\n1,7,5\n2,7,3"), **options)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", DataError, r"ratings\.csv is empty\. A ratings file has a line per rating: user, item, rating\."),
        (b" \n\r\n\t", DataError, r"is empty"),
        (b"\xef\xbb\xbf", DataError, r"is empty"),
        (b"\xef\xbb\xbf\n \n", DataError, r"is empty"),
        (gzip.compress(b"", mtime=0), DataError, r"is empty"),
        (b"user,item,rating\n", DataError, r"ratings\.csv holds no rating that can be read\."),
        (b"1,2\n", DataError, r"a line needs at least 3 columns \(user, item, rating\), got 2 when ratings\.csv is cut at ','"),
        (b"a,b,c\nx,y,1\n", DataError, r"no column of ratings\.csv is recognised as the user or the item or the rating; there are: a, b, c\. Name them: columns="),
        (b"a,item,rating\nx,y,1\n", DataError, r"no column of ratings\.csv is recognised as the user; there are: a, item, rating"),
        (b"caf\xe9,1,5\n", DataError, r"ratings\.csv is not UTF-8 text\. Pass its encoding, such as encoding='latin-1'\."),
        (b"cafe,1,5\ncaf\xe9,1,4\n", DataError, r"ratings\.csv is not UTF-8 text\. Pass its encoding"),
        ("user,item,rating\n1,2,3".encode("utf-16"), FileFormatError, r"ratings\.csv is no text: it holds NUL bytes\. If it is UTF-16, pass encoding='utf-16'\."),
        (b"\x1f\x8b\x08garbage", FileFormatError, r"ratings\.csv is a damaged gzip file \(.*\)\. Fetch it again\."),
        (gzip.compress(b"1,2,3\n" * 99, mtime=0)[:-9], FileFormatError, r"is a damaged gzip file"),
        (b"PAR1garbage", FileFormatError, r"ratings\.csv cannot be read as Parquet: "),
        (b"ARROW1garbage", FileFormatError, r"ratings\.csv cannot be read as Arrow: "),
        (b"1,7,5\n2,7,5\n", DataError, r"a scale needs at least two different scores, got only 5\. Pass the whole scale as scores=\."),
        ("".join(f"1,{k},{k}\n" for k in range(300)).encode(), DataError, r"a scale has at most 127 scores, got 300 from 0 to 299\."),
    ],
)  # fmt: skip
def test_files_that_hold_no_ratings_are_said(write, content, error, message):
    with pytest.raises(error, match=message):
        sc.read_ratings(write(content))


def test_a_missing_file_is_named_and_where_it_was_sought(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=rf"there is no file nothing\.csv\. Check the name; relative paths start at {tmp_path}\."):  # fmt: skip
        sc.read_ratings("nothing.csv")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(FileError, match=r"is a folder\. Give the file with the ratings in it\."):
        sc.read_ratings(tmp_path)


@pytest.mark.parametrize("name", ["x/y", "a\0b", "n" * 300])
def test_a_path_that_cannot_be_read_is_a_file_error(write, tmp_path, name):
    write("1,2,3", "x")
    with pytest.raises(FileError, match=r"cannot be read|no name of a file|there is no file"):
        sc.read_ratings(tmp_path / name)


def test_a_file_that_may_not_be_read_says_so(write, monkeypatch):
    path = write("1,2,3")
    # Taking the right to read away would not stop root, who runs many a CI.
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda self: (_ for _ in ()).throw(denied))
    with pytest.raises(FileError, match=r"cannot be read: Permission denied"):
        sc.read_ratings(path)


def test_the_columns_of_a_file_are_the_right_types(write):
    ratings = sc.read_ratings(write("1,7,5,9\n2,7,3,8"))
    assert [a.dtype for a in (ratings.user, ratings.item, ratings.score, ratings.timestamps)] == [np.int32, np.int32, np.int8, np.int64]  # fmt: skip
    with pytest.raises(ValueError, match="read-only"):
        ratings.user[0] = 1


# Files of pairs.


@pytest.mark.parametrize(
    "text",
    ["user,item\nann,x\nbob,y", "ann,x\nbob,y\n", "\n item\tuser\tmore\nx\tann\t1\ny\tbob\t2\n", "\ufeffuser;item\r\nann;x\r\nbob;y", '"ann","x"\n"bob","y"'],
)  # fmt: skip
def test_pairs_are_read_with_and_without_header(write, text):
    assert read_pairs(write(text)) == (["ann", "bob"], ["x", "y"])


def test_pairs_are_read_from_parquet(tmp_path):
    pl.DataFrame({"item": [7, 8], "extra": [[1], [2]], "user": ["a", "b"]}).write_parquet(tmp_path / "pairs")
    assert read_pairs(tmp_path / "pairs") == (["a", "b"], ["7", "8"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "user,item\nann\n,x\n",
            r"a line must have a user and an item, got \('ann',\) \(2 such lines\) in ratings\.csv\.",
        ),
        ("", r"is empty"),
        ("\x85", r"is empty\. A file of pairs has a line per pair: user, item\."),
    ],
)
def test_lines_that_are_no_pairs_are_said(write, content, message):
    with pytest.raises(DataError, match=message):
        read_pairs(write(content))


def test_a_missing_cell_of_a_frame_is_no_pair(tmp_path):
    pl.DataFrame({"user": ["a", None], "item": [7, 8]}).write_parquet(tmp_path / "pairs")
    with pytest.raises(DataError, match=r"a line must have a user and an item"):
        read_pairs(tmp_path / "pairs")


def test_a_quote_without_an_end_cannot_be_skipped(write):
    path = write('a,x,2\nb,x,x\n"c,x,3\nd,x,4\ne,x,5\n')
    with pytest.raises(DataError, match=r"a quote must be closed, .*\(line 3 of .*all that follows would be lost"):
        sc.read_ratings(path, on_bad="skip")


def test_a_column_has_one_role(write):
    with pytest.raises(DataError, match=r"columns must name different columns, got \[0, 0, 2\]"):
        sc.read_ratings(write("1,2,3\n2,3,4\n"), columns=(0, 0, 2))
