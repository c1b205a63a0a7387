"""Files, frames and arrays as people have them: read rightly, or refused with the right hint."""

import bz2
import datetime
import gzip
import io
import lzma
import sys
import types
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import starcast as sc
from starcast.names import Lookup, strings

SIX = "2005-09-06"
NOON = 1126009800  # 2005-09-06 12:30:00 UTC
DAY = 1125964800  # 2005-09-06 UTC
PLAIN = b"user,item,rating\nann,x,5\nbob,x,3\n"


@pytest.fixture
def write(tmp_path):
    def write(content, name="ratings.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def triples(ratings):
    return list(zip(ratings.users[ratings.user], ratings.items[ratings.item], ratings.values.tolist(), strict=True))


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


# Files in odd formats.

TWO = [("ann", "x", 5.0), ("bob", "x", 3.0)]
READ_RIGHTLY = {
    "jsonl": ("r.jsonl", b'{"user": "ann", "item": "x", "rating": 5}\n{"item": "x", "rating": 3.0, "user": "bob"}\n'),
    "json lines by content": ("r.txt", b'\xef\xbb\xbf{"stars": 5, "userId": "ann", "movie": "x"}\n\n{"stars": 3, "userId": "bob", "movie": "x"}'),
    "gzip": ("r.csv.gz", gzip.compress(PLAIN)),
    "bzip2": ("r.csv.bz2", bz2.compress(PLAIN)),
    "xz": ("r.csv.xz", lzma.compress(PLAIN)),
    "zip": ("r.zip", zipped(ratings__csv=PLAIN)),
    "json lines in a zip": ("r.zip", zipped(r__jsonl=b'{"user": "ann", "item": "x", "rating": 5}\n{"user": "bob", "item": "x", "rating": 3}')),
    "a separator at the end of every line": ("r.csv", b"ann,x,5,\nbob,x,3,\n"),
    "a separator at the end of all but the header": ("r.csv", b"user,item,rating\nann,x,5,\nbob,x,3,\n"),
    "further columns": ("r.csv", b"user,item,rating,title,genre\nann,x,5,Heat,Crime\nbob,x,3,Heat,\n"),
    "a last column that the first line leaves empty": ("r.csv", b"ann,x,5,\nbob,x,3,good\n"),
    "quoted separators": ("r.csv", b'user,item,rating\n"ann","x",5\n"bob","x","3"\n'),
    "windows": ("r.csv", b"\xef\xbb\xbfUser ID;Item ID;Rating\r\nann;x;5\r\nbob;x;3\r\n"),
}  # fmt: skip
REFUSED = {
    "too many fields": ("a.csv", b"user,item,rating\nann,Heat,4\nbob,Apollo, 13,5\ncid,Heat,3\n", r"a line must have 3 fields, as the first one has, got 4 in 'bob,Apollo, 13,5' \(line 3 of a\.csv; 1 such line\)\. Quote a field"),
    "row names": ("a.csv", b"user,item,rating\n1,ann,x,4\n2,bob,x,5\n", r"got 4 in '1,ann,x,4' \(line 2 of a\.csv; 2 such lines\)\. No line has as many fields as the first\. Give the first line a name for each column\.$"),
    "ratings in words": ("a.csv", b"user,item,rating\n1,2,good\n2,2,bad\n", r"rating must be a number, got 'good'.*No line can be read\. Name the right columns: columns="),
    "too few fields": ("a.csv", b"user,item,rating,title\nann,x,4,Heat\nbob,x,5\n", r"must have 4 fields, as the first one has, got 3 in 'bob,x,5' \(line 3"),
    "excel": ("r.xlsx", zipped(xl=b"", **{"[Content_Types]__xml": b""}), r"Excel workbook.*as CSV"),
    "old excel": ("r.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), r"Excel workbook.*as CSV"),
    "zip of many": ("r.zip", zipped(a__csv=PLAIN, b__csv=PLAIN), r"must hold one file.*got 2 \(a\.csv, b\.csv\)"),
    "zstd": ("r.zst", b"\x28\xb5\x2f\xfd" + bytes(99), r"compressed with zstd.*zstd -d"),
    "damaged bzip2": ("r.bz2", bz2.compress(PLAIN)[:-9], r"damaged bzip2 file"),
    "damaged xz": ("r.xz", lzma.compress(PLAIN)[:-9], r"damaged xz file"),
    "damaged zip": ("r.zip", zipped(a__csv=PLAIN)[:-30], r"damaged zip file"),
    "netflix": ("combined.txt", b"1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n", r"Netflix Prize.*awk.*combined\.txt > ratings\.csv"),
    "decimal commas": ("r.csv", b"user;item;rating\nann;x;4,5\nbob;x;3,0\n", r"rating must be a number, got '4,5'.*decimal point, not a comma: 4\.5"),
    "json array": ("r.json", b'[\n {"user": "ann", "item": "x", "rating": 5}]', r"JSON array.*one object a line"),
    "a bad line of json": ("r.jsonl", b'{"user": "ann", "item": "x", "rating": 5}\n{"user": \n', r"must be a JSON object, got '\{\"user\": ' \(line 2 of r\.jsonl\)"),
    "json without ratings": ("r.jsonl", b'{"user": "ann", "item": "x"}\n', r"no column of r\.jsonl is recognised as the rating"),
    "utf-16": ("r.csv", PLAIN.decode().encode("utf-16"), r"If it is UTF-16, pass encoding='utf-16'"),
    "sqlite": ("r.db", b"SQLite format 3\0" + bytes(99), r"SQLite database.*Ratings\.from_frame"),
    "pickle": ("r.pkl", b"\x80\x04\x95" + bytes(99), r"pickle.*never unpickles"),
    "tar": ("r.tar.gz", gzip.compress(b"a.csv".ljust(257, b"\0") + b"ustar" + bytes(250)), r"tar archive\b.*Extract"),
    "dates in words": ("r.csv", b"user,item,rating,date\nann,x,5,Sept 6\nbob,x,3,May 5\n", r"timestamp must be a number of seconds or a date such as 2005-09-06, got 'Sept 6' \(line 2.*Write dates as 2005-09-06, or read no timestamps: columns="),
    "a bomb": ("r.gz", gzip.compress(bytes(40_000_000)), r"unpacks to more than 250 times its size"),
}  # fmt: skip


@pytest.mark.parametrize("case", READ_RIGHTLY)
def test_odd_formats_are_read(write, case):
    name, content = READ_RIGHTLY[case]
    ratings = sc.read_ratings(write(content, name))
    assert triples(ratings) == TWO
    assert ratings.n_skipped == 0


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_hint(write, case):
    name, content, message = REFUSED[case]
    with pytest.raises(sc.StarcastError, match=message) as caught:
        sc.read_ratings(write(content, name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", [*READ_RIGHTLY, *REFUSED])
def test_shards_say_what_read_ratings_says(write, tmp_path, case):
    name, content, *_ = (READ_RIGHTLY | REFUSED)[case]
    path = write(content, name)
    if case == "a bomb":  # it is read a block at a time, and refused as what it holds
        with pytest.raises(sc.FileFormatError, match="NUL bytes"):
            sc.cut_ratings(path, tmp_path / "cut")
        return

    def outcome(read):
        try:
            return read()
        except sc.StarcastError as error:
            return type(error).__name__, str(error)

    whole = outcome(lambda: sc.read_ratings(path).digest())
    assert outcome(lambda: sc.cut_ratings(path, tmp_path / "cut").digest) == whole


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full"])
@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX")
def test_a_device_is_refused(name):
    with pytest.raises(sc.FileError, match=r"is a device\. Give a file"):
        sc.read_ratings(name)


def test_a_lack_of_memory_is_said(write, monkeypatch):
    path = write(gzip.compress(PLAIN))
    monkeypatch.setattr("starcast.io.unpacked", lambda file, handle: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(sc.FileError, match=r"does not fit in memory\. Read it in parts.*cut_ratings"):
        sc.read_ratings(path)


def test_a_dash_is_the_standard_input(monkeypatch):
    for content in (PLAIN, gzip.compress(PLAIN)):
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
        assert triples(sc.read_ratings("-")) == TWO
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(sc.DataError, match=r"^standard input is empty"):
        sc.read_ratings("-")


# Lines that are left out.

BAD_LINES = b"user,item,rating\nann,Heat,4\nbob,Apollo, 13,5\ncid,Heat,3\ndan,Heat\neve,Heat,x\n\n"


def test_lines_that_are_left_out_are_counted(write, tmp_path):
    path = write(BAD_LINES)
    ratings = sc.read_ratings(path, on_bad="skip")
    assert triples(ratings) == [("ann", "Heat", 4.0), ("cid", "Heat", 3.0)]
    assert ratings.n_skipped == 3
    assert sc.cut_ratings(path, tmp_path / "cut", on_bad="skip").n_skipped == 3
    assert sc.read_ratings(write(PLAIN), on_bad="skip").n_skipped == 0


def test_the_count_outlives_duplicates_and_json(write):
    path = write(BAD_LINES + b"ann,Heat,3\n")
    assert sc.read_ratings(path, on_bad="skip", duplicates="first").n_skipped == 3
    lines = b'nonsense\n{"user": 1, "item": 2, "rating": 3}\n{"user": 2, "item": 2, "rating": "?"}\n{"user": 3, "item": 2, "rating": 4}'
    ratings = sc.read_ratings(write(b'{"user": 9, "item": 9, "rating": 3}\n' + lines), on_bad="skip")
    assert (ratings.users.tolist(), ratings.n_skipped) == ([9, 1, 3], 2)


def test_a_pair_with_too_many_fields_is_an_error(write):
    from starcast.io import read_pairs

    with pytest.raises(
        sc.DataError, match=r"must have 2 fields, as the first one has, got 3 in 'bob,Apollo, 13' \(line 3"
    ):
        read_pairs(write("user,item\nann,Heat\nbob,Apollo, 13\n"))


FRAME = {
    "user": [1.0, None, 3.0, 4.0, 5.0],
    "item": ["a", "b", None, "a", "b"],
    "rating": [5.0, 4.0, 3.0, float("nan"), 2.0],
}
FRAMES = {
    "pandas": lambda: pd.DataFrame(FRAME),
    "pandas, nullable": lambda: pd.DataFrame(FRAME).astype({"user": "Int64", "item": "string", "rating": "Float64"}),
    "polars": lambda: pl.DataFrame(FRAME),
    "pyarrow": lambda: pa.table(FRAME),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_with_missing_values_can_be_left_out(kind):
    ratings = sc.Ratings.from_frame(FRAMES[kind](), on_bad="skip")
    assert triples(ratings) == [(1, "a", 5.0), (5, "b", 2.0)]
    assert ratings.n_skipped == 3
    with pytest.raises(sc.DataError, match=r'pass on_bad="skip" to leave out 3 rows'):
        sc.Ratings.from_frame(FRAMES[kind]())


def test_a_parquet_file_with_missing_values_can_be_read(tmp_path):
    pl.DataFrame(FRAME).write_parquet(tmp_path / "r.parquet")
    assert sc.read_ratings(tmp_path / "r.parquet", on_bad="skip").n_skipped == 3
    shards = sc.cut_ratings(tmp_path / "r.parquet", tmp_path / "cut", on_bad="skip")
    assert (shards.n_ratings, shards.n_skipped) == (2, 3)


def test_a_table_of_bad_rows_only_is_an_error():
    with pytest.raises(sc.DataError, match=r"leaves no rating: all of 2 rows are bad"):
        sc.Ratings.from_arrays([None, 1], [1, 2], [3, "x"], on_bad="skip")


# Times.

TIMES = {
    "2005-09-06": DAY, "2005-09-06 12:30": NOON, "2005-09-06 12:30:00": NOON, "2005-09-06T12:30:00Z": NOON,
    "2005-09-06T14:30:00+02:00": NOON, "2005-09-06T14:30:00+0200": NOON, "2005-09-06 07:30:00.999-05": NOON,
    "2005-09-06 12:30:00 UTC": NOON, "1126009800": NOON, "1126009800.9": NOON, "1126009800123": NOON,
    "1126009800123456": NOON, "1126009800123456789": NOON, "1960-02-29": -310521600, "-5": -5, "-1.5": -2,
}  # fmt: skip


@pytest.mark.parametrize("text", TIMES)
def test_times_are_read_as_seconds(write, text):
    assert sc.read_ratings(write(f"user,item,rating,when\n1,7,5,{text}\n2,7,3,0\n")).timestamps[0] == TIMES[text]
    assert sc.Ratings.from_arrays([1, 2], [7, 7], [5, 3], timestamps=[text, "0"]).timestamps[0] == TIMES[text]


@pytest.mark.parametrize("text", ["2005-13-06", "2005-02-30", "2005-09-06T25:00", "2005-09-06 12", "2005-9-6", "2005-09-06 12:30 CET", "2005-09-06x", "20a5-09-06", "2005-09-06T12:30:00+2", "2005-09-06 12:30:00."])  # fmt: skip
def test_what_is_no_time_is_said(write, text):
    with pytest.raises(sc.DataError, match="timestamp must be a number of seconds or a date"):
        sc.read_ratings(write(f"user,item,rating,when\n1,7,5,{text}\n2,7,3,0\n"))
    with pytest.raises(sc.DataError, match=r"timestamps must be numbers of seconds or dates, got .* at position 0"):
        sc.Ratings.from_arrays([1, 2], [7, 7], [5, 3], timestamps=[text, "0"])


@pytest.mark.parametrize("name", ["date", "when", "time", "created_at", "timestamp", "DateTime", "unixReviewTime"])
def test_columns_of_times_are_recognised(write, name):
    assert sc.read_ratings(write(f"user,item,rating,{name}\n1,7,5,{SIX}\n2,7,3,0\n")).timestamps.tolist() == [DAY, 0]


def test_a_date_goes_before_a_time_of_day(write):
    path = write(f"user,item,rating,time,date\n1,7,5,12:30,{SIX}\n2,7,3,12:31,{SIX}\n")
    assert sc.read_ratings(path).timestamps.tolist() == [DAY, DAY]


def test_a_fourth_column_of_dates_is_taken_for_times(write):
    assert sc.read_ratings(write(f"1,7,5,{SIX}\n2,7,3,2005-09-06 12:30:00\n")).timestamps.tolist() == [DAY, NOON]


MOMENTS = [datetime.datetime(2005, 9, 6, 12, 30, 0, 999), datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)]
DATES = {
    "datetimes": MOMENTS,
    "aware datetimes": [m.replace(tzinfo=datetime.UTC).astimezone(datetime.timezone(datetime.timedelta(hours=5))) for m in MOMENTS],
    "timestamps of pandas": [pd.Timestamp(m) for m in MOMENTS],
    "pandas": pd.Series(MOMENTS),
    "pandas with a zone": pd.Series(MOMENTS).dt.tz_localize("UTC").dt.tz_convert("Europe/Madrid"),
    "an index of pandas": pd.DatetimeIndex(MOMENTS, tz="UTC"),
    "polars": pl.Series(MOMENTS),
    "polars with a zone": pl.Series(MOMENTS).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
    "arrow": pa.array(MOMENTS),
    "datetime64": np.array(MOMENTS, "M8[ns]"),
    "text": ["2005-09-06T12:30:00.000999", "1969-12-31 23:59:59.5"],
    "text of pandas": pd.Series(["2005-09-06T12:30:00.000999", "1969-12-31 23:59:59.5"], dtype="string"),
    "milliseconds": [1126009800000, -1],
}  # fmt: skip


@pytest.mark.parametrize("kind", DATES)
def test_dates_of_every_kind_are_seconds(kind):
    assert sc.Ratings.from_arrays([1, 2], [7, 7], [5, 3], timestamps=DATES[kind]).timestamps.tolist() == [NOON, -1]


@pytest.mark.parametrize("kind", ["pandas", "pandas with a zone", "polars", "polars with a zone", "arrow"])
def test_dates_in_a_column_of_a_frame_are_seconds(kind):
    columns = {"user": [1, 2], "item": [7, 7], "rating": [5, 3], "created_at": DATES[kind]}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind.split()[0]]
    assert sc.Ratings.from_frame(make(columns)).timestamps.tolist() == [NOON, -1]


def test_the_latest_of_duplicates_is_the_last(write, tmp_path):
    columns = (["a", "b", "a", "a", "a"], [1, 1, 1, 1, 2], [5, 4, 3, 2, 1])
    times = [30, 20, 40, 40, 0]
    last = sc.Ratings.from_arrays(*columns, timestamps=times, duplicates="last")
    assert triples(last) == [("a", 1, 2.0), ("b", 1, 4.0), ("a", 2, 1.0)]
    assert last.timestamps.tolist() == [40, 20, 0]
    early = sc.Ratings.from_arrays(*columns, timestamps=[30, 20, 10, 20, 0], duplicates="last")
    assert (early.values.tolist(), early.timestamps.tolist()) == ([5, 4, 1], [30, 20, 0])
    assert sc.Ratings.from_arrays(*columns, duplicates="last").values.tolist() == [2, 4, 1]
    path = write("u,i,3,2005-09-07\nu,j,1,2005-09-07\nu,i,5,2005-09-06\n")
    whole = sc.read_ratings(path, duplicates="last")
    assert triples(whole) == [("u", "i", 3.0), ("u", "j", 1.0)]
    shards = sc.cut_ratings(path, tmp_path / "cut", duplicates="last", scores=[1, 3, 5])
    assert shards.digest == sc.read_ratings(path, duplicates="last", scores=[1, 3, 5]).digest()


# Names.


def test_whole_numbers_written_as_floats_are_integers(write, tmp_path):
    path = write("1.0,7,5\n2.0,x,3\n1,8,3\n")
    ratings = sc.read_ratings(path)
    assert ratings.users.tolist() == [1, 2]
    assert ratings.user.tolist() == [0, 1, 0]
    shards = sc.cut_ratings(path, tmp_path / "cut")
    assert (shards.users.tolist(), shards.digest) == ([1, 2], ratings.digest())
    assert sc.Ratings.from_frame(
        pd.DataFrame({"user": [1.0, 2.0], "item": [7, 8], "rating": [1, 2]})
    ).users.tolist() == [1, 2]
    assert sc.read_ratings(write("1.0,7,5\n1.1,7,3\n")).users.tolist() == ["1.0", "1.1"]
    with pytest.raises(sc.DataError, match=r"users must be strings or integers, got float64 \(1\.5 first\)"):
        sc.Ratings.from_arrays(np.array([1.0, 1.5]), [1, 1], [1, 2])


def test_ids_can_be_kept_as_text(write, tmp_path):
    path = write("1,7,5\n2,8,3\n")
    assert sc.read_ratings(path).users.tolist() == [1, 2]
    text = sc.read_ratings(path, ids="text")
    assert (text.users.tolist(), text.items.tolist()) == (["1", "2"], ["7", "8"])
    assert sc.cut_ratings(path, tmp_path / "cut", ids="text").digest == text.digest()
    frame = pl.DataFrame({"user": [1, 2], "item": ["a", "b"], "rating": [1, 2]})
    assert sc.Ratings.from_frame(frame, ids="text").users.tolist() == ["1", "2"]
    assert sc.Ratings.from_arrays([1, "ann", 2.0], [1, 1, 1], [1, 2, 1], ids="text").users.tolist() == ["1", "ann", "2"]
    with pytest.raises(sc.UnknownNameError, match=r"unknown ids 'texts'\. Did you mean 'text'"):
        sc.read_ratings(path, ids="texts")


def test_an_integer_finds_its_text_and_the_text_its_integer():
    text, numbers = Lookup(strings(["7", "007", "ann"])), Lookup(np.array([7, 8]))
    assert text.codes([7, 9], "users").tolist() == [0, -1]
    assert numbers.codes(["8", "08", "ann", "7"], "users").tolist() == [1, -1, -1, 0]


def test_a_test_file_of_digits_fits_a_model_whose_names_are_text(write):
    model = sc.ItemFrequency().fit(sc.read_ratings(write("1,7,5\n2,7,3\nann,x7,3\n"), scores=[3, 5]))
    test = sc.read_ratings(write("1,7,5\n2,7,3\n", "test.csv"))
    assert test.users.dtype != object
    assert model.predict(test.users, test.items[[0, 0]])["known"].to_list() == [True, True]


def test_new_names_get_the_type_of_the_models_names():
    from starcast.models.growth import _extended

    names, codes = _extended(Lookup(strings(["7", "ann"])), np.array([7, 9]), "users")
    assert (names.tolist(), codes.tolist()) == (["7", "ann", "9"], [0, 2])
    names, codes = _extended(Lookup(np.array([7, 8])), strings(["8", "9"]), "users")
    assert (names.tolist(), codes.tolist()) == ([7, 8, 9], [1, 2])
    with pytest.raises(sc.DataError, match=r"users are integers here \(such as 7\), got strings \(such as 'ann'\)"):
        _extended(Lookup(np.array([7, 8])), strings(["8", "ann"]), "users")


# Titles.


@pytest.mark.parametrize(
    "titles", [{"7": "Heat"}, {7: "Heat"}, {7.0: "Heat", 8: None}, pd.Series({7: "Heat", 8: np.nan})]
)
@pytest.mark.parametrize("items", [[7, 8], ["7", "x"]])
def test_titles_are_found_by_number_and_by_text(titles, items):
    assert sc.Ratings.from_arrays([1, 2], items, [5, 3], titles=titles).titles.tolist() == ["Heat", ""]


def test_titles_that_are_no_mapping_are_said():
    with pytest.raises(
        sc.DataError, match=r"titles must be a mapping from item to title, such as \{7: 'Heat'\}, got list"
    ):
        sc.Ratings.from_arrays([1, 2], [7, 8], [5, 3], titles=["Heat", "Ran"])


def test_titles_are_read_from_a_file(write, tmp_path):
    path = write('movieId,title,genres\n7,"Apollo 13, the film",Drama\n8,Heat,Crime\n', "movies.csv")
    assert sc.read_titles(path) == {7: "Apollo 13, the film", 8: "Heat"}
    ratings = write("1,7,5\n2,8,3\n")
    assert sc.read_ratings(ratings, titles=path).titles.tolist() == ["Apollo 13, the film", "Heat"]
    assert sc.read_ratings(ratings, ids="text", titles=str(path)).titles.tolist() == ["Apollo 13, the film", "Heat"]
    assert sc.cut_ratings(ratings, tmp_path / "cut", titles=path).titles.tolist() == ["Apollo 13, the film", "Heat"]
    assert sc.read_titles(write("a1::Toy Story (1995)::Animation\na2::Été\n".encode("latin-1"), "m.dat"), encoding="latin-1") == {"a1": "Toy Story (1995)", "a2": "Été"}  # fmt: skip
    with pytest.raises(
        sc.DataError, match=r"must have 2 fields, as the first one has, got 3 in '7,Apollo, 13' \(line 2"
    ):
        sc.read_titles(write("item,title\n7,Apollo, 13\n", "t.csv"))


# Scales.


def test_scores_that_only_rounding_tells_apart_are_one(write, tmp_path):
    assert sc.Ratings.from_arrays([1, 2, 3], [1, 1, 1], [0.1 + 0.2, 0.3, 0.5]).scores.tolist() == [0.3, 0.5]
    assert sc.Ratings.from_arrays([1, 2], [1, 1], np.float32([0.1, 0.3]), scores=[0.1, 0.2, 0.3]).values.tolist() == [
        0.1,
        0.3,
    ]
    path = write("".join(f"{k},1,{0.1 * k!r}\n" for k in range(1, 6)) + "9,1,0.3\n")
    ratings = sc.read_ratings(path)
    assert ratings.scores.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert sc.cut_ratings(path, tmp_path / "cut").digest == ratings.digest()


def test_a_continuous_scale_is_rounded_as_the_error_says(write, tmp_path):
    path = write("".join(f"{k},1,{k / 100}\n" for k in range(-1000, 1001)))
    cure = r'got 2,001 from -10 to 10\. Pass a coarser scale and round to it: scores=\[-10, -9, .*, 9, 10\] with off_scale="nearest"'
    with pytest.raises(sc.DataError, match=cure):
        sc.read_ratings(path)
    ratings = sc.read_ratings(path, scores=range(-10, 11), off_scale="nearest")
    assert (ratings.scores[0], ratings.scores[-1], len(ratings.scores)) == (-10, 10, 21)
    assert ratings.values[:51].tolist() == [-10.0] * 51
    assert ratings.values[51] == -9
    shards = sc.cut_ratings(path, tmp_path / "cut", scores=range(-10, 11), off_scale="nearest")
    assert shards.digest == ratings.digest()
    assert sc.Ratings.from_arrays([1, 2], [1, 1], [1.4, 1.5], scores=[1, 2], off_scale="nearest").values.tolist() == [
        1,
        1,
    ]
    with pytest.raises(sc.DataError, match=r"ratings must be on the scale 1, 2; got 2\.6"):
        sc.Ratings.from_arrays([1, 2], [1, 1], [2.6, 1.5], scores=[1, 2], off_scale="nearest")


def test_a_file_of_many_values_is_not_taken_for_a_noisy_scale():
    values = np.linspace(0, 1, 5000)
    with pytest.raises(sc.DataError, match=r"at most 127 scores, got 5,000"):
        sc.Ratings.from_arrays(np.arange(5000), np.zeros(5000, int), values)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_any_number_of_distinct_ratings_is_rounded_rightly(tmp_path, kind):
    user = np.arange(40_000)
    frame = pl.DataFrame({"user": user, "item": user % 7, "rating": 1 + user / 10_000})
    path = tmp_path / f"ratings.{kind}"
    getattr(frame, f"write_{kind}")(path)
    rounding = {"scores": range(1, 6), "off_scale": "nearest"}
    expected = sc.Ratings.from_arrays(frame["user"], frame["item"], frame["rating"], **rounding)
    assert expected.values[-1] == 5
    ratings = sc.read_ratings(path, **rounding)
    assert np.array_equal(ratings.values, expected.values)
    assert ratings.digest() == expected.digest()
    assert sc.cut_ratings(path, tmp_path / "cut", **rounding).digest == expected.digest()


# JSON lines.


def test_a_bad_line_of_json_is_told_with_its_number_in_a_long_file(write, tmp_path):
    padding = " " * 10_000  # the file is read in more than one stretch
    lines = [f'{{"user": {k}, "item": 1, "rating": {1 + k % 5}}}{padding}' for k in range(500)]
    path = write("\n".join([*lines, "{broken"]), "r.jsonl")
    for read in (sc.read_ratings, lambda path: sc.cut_ratings(path, tmp_path / "cut")):
        with pytest.raises(sc.DataError, match=r"got '\{broken' \(line 501 of r\.jsonl\)"):
            read(path)


def test_timestamps_of_json_count_where_the_first_object_has_none(write, tmp_path):
    first, second, late, early = (
        '{"user": 1, "item": 7, "rating": 2}\n',
        '{"when": 5, "user": 1, "item": 8, "rating": 3}\n',
        '{"user": 2, "item": 7, "rating": 4, "when": 20}\n',
        '{"user": 2, "item": 7, "rating": 5, "when": 10}\n',
    )
    path = write(first + second + late + early, "r.jsonl")
    with pytest.raises(sc.DataError, match=r"timestamp must be .* got '' \(line 1 of r\.jsonl; 1 such line\)"):
        sc.read_ratings(path, duplicates="last")
    options = {"duplicates": "last", "on_bad": "skip"}
    ratings = sc.read_ratings(path, **options, scores=range(1, 6))
    assert triples(ratings) == [(1, 8, 3.0), (2, 7, 4.0)]
    assert ratings.timestamps.tolist() == [5, 20]
    assert sc.cut_ratings(path, tmp_path / "cut", **options, scores=range(1, 6)).digest == ratings.digest()


def test_columns_of_json_may_be_missing_in_the_first_object(write):
    path = write('{"user": 1, "item": 7}\n{"user": 2, "item": 7, "rating": 3}\n{"user": 3, "item": 7, "rating": 4}\n', "r.jsonl")  # fmt: skip
    with pytest.raises(sc.DataError, match=r"rating must be a number, got '' \(line 1 of r\.jsonl"):
        sc.read_ratings(path)
    for columns in (None, ("user", "item", "rating")):
        assert triples(sc.read_ratings(path, columns=columns, on_bad="skip")) == [(2, 7, 3.0), (3, 7, 4.0)]


# Scales with an outlier, and large ids.


def test_an_outlier_leaves_the_other_ratings_alone():
    ratings = sc.Ratings.from_arrays([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 1e8])
    assert ratings.values.tolist() == [1, 2, 3, 1e8]
    assert sc.Ratings.from_arrays([1, 2, 3], [1, 2, 3], [1, 2, 1e300]).scores.tolist() == [1, 2, 1e300]
    with pytest.raises(sc.DataError, match=r"got 1\.05"):
        sc.Ratings.from_arrays([1, 2], [1, 2], [1.05, 5], scores=[1, 2, 5, 1e6])


def test_rounding_is_forgiven_at_every_score_and_at_0():
    noisy = [0.1 + 0.2, 0.3, 0.1 + 0.2 - 0.3, 0, -1e-17, float(np.float32(4.1)), 4.1, 1e6]
    ratings = sc.Ratings.from_arrays(np.arange(8), np.zeros(8, int), noisy)
    assert ratings.scores.tolist() == [0, 0.3, 4.1, 1e6]
    on = sc.Ratings.from_arrays(np.arange(8), np.zeros(8, int), noisy, scores=[0, 0.3, 4.1, 1e6])
    assert on.values.tolist() == ratings.values.tolist()
    assert sc.Ratings.from_arrays([1, 2], [1, 2], [1e-12, 2e-12]).scores.tolist() == [1e-12, 2e-12]


LARGE = [2**60 + 1, 2**60 + 2, 2**53 - 1, 2**53 + 1, None]
WITH_GAPS = {"polars": pl.DataFrame, "arrow": pa.table, "pandas": pd.DataFrame}


@pytest.mark.parametrize("kind", WITH_GAPS)
def test_a_missing_id_leaves_large_ids_alone(kind):
    columns = {"user": LARGE, "item": [1, 2, 3, 4, 4], "rating": [1, 2, 3, 4, 5], "time": [7, 7, 7, 7, None]}
    if kind == "pandas":
        columns |= {name: pd.array(columns[name], "Int64") for name in ("user", "time")}
    frame = WITH_GAPS[kind](columns)
    ratings = sc.Ratings.from_frame(frame, on_bad="skip")
    assert ratings.users.tolist() == LARGE[:4]
    assert ratings.timestamps.tolist() == [7] * 4
    assert ratings.n_skipped == 1
    with pytest.raises(sc.DataError, match=r"users must not be missing, but 1 of 5 are"):
        sc.Ratings.from_frame(frame)
    lone = sc.Ratings.from_arrays(frame["user"], frame["item"], frame["rating"], on_bad="skip")
    assert lone.users.tolist() == LARGE[:4]


def test_a_missing_id_in_parquet_leaves_large_ids_alone(tmp_path):
    path = tmp_path / "r.parquet"
    pl.DataFrame({"user": LARGE, "item": [1, 2, 3, 4, 4], "rating": [1, 2, 3, 4, 5]}).write_parquet(path)
    ratings = sc.read_ratings(path, on_bad="skip")
    assert ratings.users.tolist() == LARGE[:4]
    assert sc.cut_ratings(path, tmp_path / "cut", on_bad="skip").digest == ratings.digest()
    assert sc.Ratings.from_arrays(pa.array(LARGE), [1] * 5, [1, 2, 3, 4, 5], on_bad="skip").users.tolist() == LARGE[:4]


def test_ids_of_128_bits_are_refused():
    frame = pl.DataFrame({"user": pl.Series([1, 2], dtype=pl.Int128), "item": [1, 2], "rating": [1, 2]})
    with pytest.raises(sc.DataError, match=r"users must fit in 64 signed bits, got a column of Int128"):
        sc.Ratings.from_frame(frame)


SNOWFLAKES = [1_700_000_000_000_000_001, 1_700_000_000_000_000_002, 2**63 - 1, -(2**63)]


def test_ids_of_19_digits_are_integers_by_every_route(write):
    path = write("".join(f"{user},{item},{item}\n" for user in SNOWFLAKES for item in (1, 2)))
    read = sc.read_ratings(path)
    assert (read.users.dtype, read.users.tolist()) == (np.int64, SNOWFLAKES)
    framed = sc.Ratings.from_frame(pl.DataFrame({"user": SNOWFLAKES, "item": [1, 2, 1, 2], "rating": [1, 2, 1, 2]}))
    assert sc.ItemFrequency().fit(framed).predict(read.users, 1)["known"].all()
    assert sc.read_ratings(write(f"{2**63},1,1\n7,2,2\n")).users.tolist() == [str(2**63), "7"]


def test_ids_of_19_digits_are_found_as_text_and_as_integers():
    as_integers, as_text = np.array(SNOWFLAKES), strings(SNOWFLAKES)
    assert Lookup(as_integers).codes(as_text, "users").tolist() == [0, 1, 2, 3]
    assert Lookup(as_text).codes(as_integers, "users").tolist() == [0, 1, 2, 3]
    assert Lookup(as_integers).codes([str(2**63), "7"], "users").tolist() == [-1, -1]


# JSON lines, pairs and titles.

HALVES = '{"user": "\\ud800", "item": 1, "rating": 1}\n{"user": "\\ud801", "item": 1, "rating": 2}\n'


def test_half_a_character_in_json_is_a_bad_line(write, tmp_path):
    good = '{"user": "a", "item": 1, "rating": 1}\n{"user": "b", "item": 1, "rating": 2}\n'
    path = write(good + HALVES, "r.jsonl")
    with pytest.raises(sc.DataError, match=r"must hold text that UTF-8 can hold, got .* \(line 3 of r\.jsonl\)"):
        sc.read_ratings(path)
    ratings = sc.read_ratings(path, on_bad="skip")
    assert (ratings.users.tolist(), ratings.n_skipped) == (["a", "b"], 2)
    assert sc.cut_ratings(path, tmp_path / "cut", on_bad="skip").digest == ratings.digest()


def test_times_count_though_the_first_object_has_none(write):
    lines = '{"user": 1, "item": 1, "rating": 1}\n{"user": 2, "item": 1, "rating": 2, "timestamp": 7}\n'
    with pytest.raises(sc.DataError, match=r"timestamp must be .*line 1 "):
        sc.read_ratings(write(lines, "r.jsonl"))


def test_pairs_and_titles_are_read_from_json_lines(write):
    from starcast.io import read_pairs

    path = write('{"item": 7, "user": "ann, b"}\n\n{"user": "bob", "item": 8}\n', "p.jsonl")
    assert read_pairs(path) == (["ann, b", "bob"], ["7", "8"])
    assert sc.read_titles(write('{"id": 7, "title": "Heat"}\n', "t.txt")) == {7: "Heat"}
    with pytest.raises(sc.DataError, match=r"must be a JSON object, got 'x' \(line 2 of p\.jsonl\)"):
        read_pairs(write('{"user": 1, "item": 2}\nx\n', "p.jsonl"))
    with pytest.raises(sc.DataError, match="must name the item and the title, got a, b"):
        sc.read_titles(write('{"a": 7, "b": "Heat"}\n', "t.jsonl"))


def test_a_header_of_pairs_that_names_one_half_is_an_error(write):
    from starcast.io import read_pairs

    with pytest.raises(sc.DataError, match=r"must name the user and the item, got userId, thing in p\.csv"):
        read_pairs(write("userId,thing\nann,7\n", "p.csv"))
    assert read_pairs(write("ann,7\nbob,8\n")) == (["ann", "bob"], ["7", "8"])


def test_titles_that_match_no_item_are_told():
    with pytest.warns(UserWarning, match="none of 1 title is of an item that was rated: .* 'tt7', items are called 7"):
        ratings = sc.Ratings.from_arrays([1, 2], [7, 7], [1, 2], titles={"tt7": "Heat"})
    assert ratings.titles.tolist() == [""]


def test_a_closed_standard_input_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(sc.FileError, match="standard input is closed"):
        sc.read_ratings("-")


def test_a_frame_without_rows_is_said():
    empty = pl.DataFrame({"user": [], "item": [], "rating": []})
    with pytest.raises(sc.DataError, match="must have at least one row, got none"):
        sc.Ratings.from_frame(empty, on_bad="skip")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"user,item,rating\rann,x,5\rbob,x,3\r", "must end with a line feed, got carriage returns alone"),
        (zipped(), "must hold one file to be read as a zip archive, got 0"),
        (zipped(r__csv__gz=gzip.compress(PLAIN)), r"holds r\.csv\.gz, which is packed itself \(gzip\)"),
    ],
    ids=["carriage returns", "an empty zip", "gzip in a zip"],
)
def test_odd_files_get_words_of_their_own(write, tmp_path, content, told):
    path = write(content)
    with pytest.raises(sc.FileFormatError, match=told):
        sc.read_ratings(path)
    with pytest.raises(sc.FileFormatError, match=told):
        sc.cut_ratings(path, tmp_path / "cut")


def test_a_scale_that_is_too_long_for_a_model_comes_with_advice():
    long = sc.Ratings.from_arrays(np.arange(73), np.zeros(73, int), np.arange(73.0))
    with pytest.raises(sc.ParameterError, match=r"takes up to 64 scores, got 73\. Pass a coarser scale .*nearest"):
        sc.OrdinalMF(random_state=0).fit(long)


def test_times_that_begin_late_are_not_dropped(tmp_path):
    from starcast.io import JsonLines

    objects = JsonLines(tmp_path / "r.jsonl", None, "error")
    assert objects.convert(b'{"user": 1, "item": 1, "rating": 1}\n') == b"1,1,1\n"
    with pytest.raises(sc.DataError, match=r"all objects must have a timestamp, or none; got 'date' first in line 2 "):
        objects.convert(b'{"user": 1, "item": 2, "rating": 1, "date": 7}\n')
