"""Files larger than memory: the shards are those of read_ratings of the parts one after the other, whatever the cuts."""

import gzip
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast.distributed import cutting, parts, texts
from starcast.distributed.cutting import cut_ratings
from starcast.distributed.parts import find_parts, parse_memory
from starcast.distributed.shards import Shards


@pytest.fixture
def tiny(monkeypatch):
    """Blocks of a few lines, buckets of a few users."""
    monkeypatch.setattr(texts, "SHORTEST", 40)
    monkeypatch.setattr(parts, "TEXT_SHARE", 1 << 40)
    monkeypatch.setattr(parts, "ROW_SHARE", parse_memory("1GB") // 3)
    monkeypatch.setattr(cutting, "BUCKET_SHARE", parse_memory("1GB") // 9)


def assert_same(shards, ratings):
    expected = Shards.from_ratings(ratings)
    for name in ("users", "items", "scores", "counts", "user_counts", "item_counts"):
        found, wanted = getattr(shards, name), getattr(expected, name)
        assert found.dtype == wanted.dtype, name
        assert found.tolist() == wanted.tolist(), name
    assert shards.load(0).item.tolist() == expected.load(0).item.tolist()
    assert shards.load(0).score.tolist() == expected.load(0).score.tolist()
    assert shards.digest == ratings.digest()


def fresh(tmp_path_factory):
    return tmp_path_factory.mktemp("cut")


NAMES = st.sampled_from(["1", "2", "30", "007", "-4", "ann", "bøb", 'q"q', "x,y", "two\nlines", "9" * 18])
NUMBERS = st.sampled_from([0, 1, 2, 30, -4, 10**15, 1 << 21])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_text_parts_equal_the_whole_text(tiny, tmp_path_factory, data):
    names = NAMES if data.draw(st.booleans()) else NUMBERS.map(str)
    lines = data.draw(
        st.lists(st.tuples(names, names, st.sampled_from(["1", "2.5", "4", "5.0"])), min_size=1, max_size=40)
    )
    lines += [("30", "30", "1"), ("30", "2", "4")]
    rule = data.draw(st.sampled_from(["first", "last", "mean"]))
    quoted = ['"{}","{}",{}'.format(u.replace('"', '""'), i.replace('"', '""'), r) for u, i, r in lines]
    plain = all(c not in name for u, i, _ in lines for name in (u, i) for c in '",\n')
    rows = [",".join(line) for line in lines] if plain else quoted
    place = fresh(tmp_path_factory)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    ends = data.draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    for number, piece in enumerate(pieces):
        content = ("user,item,rating" + ends + "".join(row + ends for row in piece)).encode()
        packed = data.draw(st.booleans())
        (place / f"part{number}.csv").write_bytes(gzip.compress(content) if packed else content)
    (place / "whole.csv").write_bytes(("user,item,rating\n" + "".join(row + "\n" for row in rows)).encode())
    whole = sc.read_ratings(place / "whole.csv", duplicates=rule)
    assert_same(cut_ratings(place / "part*.csv", place / "cut", duplicates=rule), whole)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_parquet_parts_equal_the_whole_frame(tiny, tmp_path_factory, data):
    names = st.sampled_from(["a", "b", "7", "ü"]) if data.draw(st.booleans()) else NUMBERS
    rows = data.draw(st.lists(st.tuples(names, NUMBERS, st.sampled_from([1.0, 2.5, 4.0])), min_size=1, max_size=30))
    rows += [(rows[0][0], 77, 1.0), (rows[0][0], 78, 4.0)]
    rule = data.draw(st.sampled_from(["first", "last", "mean"]))
    frame = pl.DataFrame(rows, schema=["user_id", "movieId", "stars"], orient="row")
    place = fresh(tmp_path_factory)
    cut = data.draw(st.integers(0, len(rows)))
    frame[:cut].write_parquet(place / "a.parquet")
    frame[cut:].write_ipc(place / "b.arrow")
    assert_same(
        cut_ratings([place / "a.parquet", place / "b.arrow"], place / "cut", duplicates=rule),
        sc.Ratings.from_frame(frame, duplicates=rule),
    )


def test_other_encodings_and_separators_are_read_in_blocks(tiny, tmp_path):
    rows = [f"bøb{u}::{i}::{1 + (u * i) % 5}::97830{i}" for u in range(5) for i in range(6)]
    for name, encoding in (("a", "utf-16"), ("b", "latin-1"), ("c", "utf-8-sig")):
        (tmp_path / name).write_text("\n".join(rows), encoding=encoding)
        whole = sc.read_ratings(tmp_path / name, encoding=encoding)
        assert_same(cut_ratings(tmp_path / name, tmp_path / f"cut{name}", encoding=encoding), whole)


def test_numbers_stay_numbers_until_a_text_comes(tiny, tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3\n2,2,4\n")
    (tmp_path / "b.csv").write_text("1,3,3\n007,2,4\n")
    assert cut_ratings(tmp_path / "a.csv", tmp_path / "x").users.tolist() == [1, 2]
    both = cut_ratings(tmp_path, tmp_path / "y/z")
    assert both.users.tolist() == ["1", "2", "007"]
    assert both.items.tolist() == [2, 3]


def test_columns_of_two_kinds_are_refused(tmp_path):
    pl.DataFrame({"user": [1], "item": [1], "rating": [3]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"user": ["1"], "item": [2], "rating": [4]}).write_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text("x,2,4\n")
    message = r"users must be all strings or all integers, got int \(1\), str \('1'\)\. Convert them to one type\."
    with pytest.raises(sc.DataError, match=message):
        cut_ratings(tmp_path / "*.parquet", tmp_path / "x")
    with pytest.raises(sc.DataError, match="users must be all strings or all integers"):
        cut_ratings([tmp_path / "a.parquet", tmp_path / "c.csv"], tmp_path / "x")
    assert cut_ratings([tmp_path / "b.parquet", tmp_path / "c.csv"], tmp_path / "x", scores=[3, 4]).users.tolist() == [
        "1",
        "x",
    ]


BAD = [
    "1,1,3\n2,1,abc\n3,1,4\n4,1,x\n",
    "1,1,3\n2,1\n3,1,4\n",
    "1,1,3\n,1,3\n",
    "1,1,3\n1,,3\n",
    "1,1,3\n1,2,inf\n1,3,nan\n",
    '1,1,3\n1,"2,5\n1,7,3\n',
    "1,1,3,5\n1,2,4,later\n",
    "1,1\n",
    "1,1,3\n1,1,4\n2,2,4\n2,2,3\n2,2,4\n3,3,3\n3,3,3\n",
    "a,b,c\n1,2,3\n",
]


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("on_bad", ["error", "skip"])
def test_mistakes_are_told_as_read_ratings_tells_them(tiny, tmp_path, text, on_bad):
    filler = "".join(
        f"{u},{i},{1 + (u + i) % 5}{',9' if ',later' in text else ''}\n" for u in range(100, 106) for i in range(5)
    )
    (tmp_path / "bad.csv").write_text(
        text if text.startswith("a,b") or text == "1,1\n" else filler + text + filler.replace("10", "20")
    )

    def outcome(read):
        try:
            return read().digest
        except sc.StarcastError as error:
            return type(error), str(error)

    expected = outcome(lambda: Shards.from_ratings(sc.read_ratings(tmp_path / "bad.csv", on_bad=on_bad)))
    assert outcome(lambda: cut_ratings(tmp_path / "bad.csv", tmp_path / "cut", on_bad=on_bad)) == expected
    assert (tmp_path / "cut").exists() == isinstance(expected, str)


@pytest.mark.parametrize("scores", [[1, 2, 3], [3, 4, 5]])
def test_ratings_off_the_scale_are_told_with_their_line(tiny, tmp_path, scores):
    (tmp_path / "a.csv").write_text("".join(f"{u},{i},{1 + (u * i) % 5}\n" for u in range(9) for i in range(9)))
    with pytest.raises(sc.DataError) as expected:
        sc.read_ratings(tmp_path / "a.csv", scores=scores)
    with pytest.raises(sc.DataError) as found:
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut", scores=scores)
    assert str(found.value) == str(expected.value)
    pl.DataFrame({"user": [1, 1], "item": [1, 2], "rating": [3, 7]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(sc.DataError, match=r"got 7 \(1 such rating\).*\(a\.parquet, rows 0 to 2\)\.$"):
        cut_ratings(tmp_path / "a.parquet", tmp_path / "cut", scores=[3, 4])


def test_a_quote_that_takes_in_the_rest_is_told_before_it_fills_the_memory(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "LONGEST_RECORD", 100)
    (tmp_path / "a.csv").write_text("1,1,3\n" * 1 + '1,"2,4\n' + "".join(f"1,{i},3\n" for i in range(3, 200)))
    with pytest.raises(sc.DataError, match=r"a quote must be closed, got .*line 2 of a\.csv; 1 such line"):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut")


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        ("", r"the lines of a\.csv must end with a line feed"),
        ("user,item,rating\n1,2,3\n", r"a\.csv must have a rating a line, got a line of .*a line feed\."),
    ],
)
def test_a_line_without_an_end_is_told_before_it_fills_the_memory(tiny, tmp_path, monkeypatch, begin, told):
    monkeypatch.setattr(texts, "LONGEST_RECORD", 100)
    (tmp_path / "a.csv").write_text(begin + "1,2,3\r" * 30)
    with pytest.raises(sc.FileFormatError, match=told):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut")
    (tmp_path / "b.csv").write_text("user,item,rating\n1,2,3\n" + "x" * 90 + ",2,4\n")
    assert cut_ratings(tmp_path / "b.csv", tmp_path / "b").n_ratings == 2


def test_bad_values_in_frames_are_told_with_their_rows(tiny, tmp_path):
    pl.DataFrame({"user": [1] * 9, "item": range(9), "rating": [3.0] * 7 + [float("nan"), 1]}).write_parquet(
        tmp_path / "a.parquet"
    )
    with pytest.raises(sc.DataError, match=r"values must be finite, got nan .* \(a\.parquet, rows 6 to 9\)\."):
        cut_ratings(tmp_path / "a.parquet", tmp_path / "cut")
    (tmp_path / "b.parquet").write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(sc.FileFormatError, match=r"b\.parquet cannot be read as Parquet"):
        cut_ratings(tmp_path / "b.parquet", tmp_path / "cut")
    assert not (tmp_path / "cut").exists()


def test_more_scores_than_a_scale_has_are_refused(tiny, tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"1,{i},{i / 7}\n" for i in range(130)))
    with pytest.raises(sc.DataError, match=r"a scale has at most 127 scores, got"):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut")


def test_files_bytes_and_rules_are_checked_first(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3\n1,3,4\n")
    with pytest.raises(sc.FileError, match=r"no file is meant by '.*none\*'\. Relative paths start at"):
        cut_ratings(str(tmp_path / "none*"), tmp_path / "cut")
    with pytest.raises(sc.FileError, match=r"there is no file .*b\.csv"):
        cut_ratings(tmp_path / "b.csv", tmp_path / "cut")
    with pytest.raises(sc.DataError, match=r"cut_ratings needs at least one file, got none"):
        cut_ratings([], tmp_path / "cut")
    for memory in ("lots", "1 XB", "", None, "nanGB"):
        with pytest.raises(sc.ParameterError, match=r"memory must be a number of bytes, such as '500MB' or '2GB', got"):
            cut_ratings(tmp_path / "a.csv", tmp_path / "cut", memory=memory)
    with pytest.raises(sc.ParameterError, match=r"memory must be at least 16 MB, got '1MB'"):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut", memory="1MB")
    with pytest.raises(sc.UnknownNameError, match="unknown duplicates"):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut", duplicates="none")
    with pytest.raises(sc.UnknownNameError, match=r"unknown engine 'rya'\. Did you mean 'ray'"):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut", engine="rya")
    with pytest.raises(sc.ParameterError, match='workers are those of engine="ray", got workers=2 without an engine'):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut", workers=2)
    with pytest.raises(sc.DataError, match=r"encoding must be one that Python knows, got 'x'"):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut", encoding="x")
    with pytest.raises(sc.DataError, match=r"a\.csv is not utf-32 text"):
        cut_ratings(tmp_path / "a.csv", tmp_path / "cut", encoding="utf-32")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv"]


def test_empty_parts_are_passed_over_unless_all_are(tmp_path):
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("user,item,rating\n")
    pl.DataFrame({"user": [], "item": [], "rating": []}).write_parquet(tmp_path / "c.parquet")
    with pytest.raises(sc.DataError, match=r"the parts hold no rating that can be read"):
        cut_ratings(tmp_path, tmp_path.parent / "cut_of_nothing")
    (tmp_path / "d.csv").write_text("1,2,3\n1,3,4\n")
    assert cut_ratings(tmp_path, tmp_path.parent / "cut_of_one").n_ratings == 2


def test_a_damaged_gzip_is_told(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,2,3\n" * 1000)[:-9])
    with pytest.raises(sc.FileFormatError, match=r"is a damaged gzip file"):
        cut_ratings(tmp_path / "a.csv.gz", tmp_path / "cut")


def test_a_folder_is_its_files_without_those_of_the_writer(tmp_path):
    for name in ("part-1.csv", "part-0.csv", "_SUCCESS", ".part-0.csv.crc"):
        (tmp_path / name).write_text("1,2,3\n")
    assert [file.name for file in find_parts(tmp_path)] == ["part-0.csv", "part-1.csv"]
    assert [file.name for file in find_parts([tmp_path / "part-1.csv", tmp_path / "part-0.*"])] == [
        "part-1.csv",
        "part-0.csv",
    ]


MEASURE = """
import re, sys, tracemalloc
from starcast.distributed.cutting import cut_ratings
import polars

def most():  # kilobytes; of this program alone, where ru_maxrss begins with those of the one that started it
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])

base = most()
tracemalloc.start()
shards = cut_ratings(sys.argv[1], sys.argv[2], memory=sys.argv[3], duplicates="first")
print(shards.n_ratings, most() - base, tracemalloc.get_traced_memory()[1] // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_stays_within_the_flag(tmp_path, kind):
    rng = np.random.default_rng(0)
    n = 3_000_000
    for part in range(2):
        frame = pl.DataFrame(
            {"user": rng.integers(0, 50_000, n), "item": rng.integers(0, 5_000, n), "rating": rng.integers(1, 6, n)}
        )
        getattr(frame, f"write_{kind}")(tmp_path / f"{part}.{kind}")
    del frame
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / f"*.{kind}"), str(tmp_path / "cut"), "64MB"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"POLARS_MAX_THREADS": "2"},  # each keeps 3 MB, as many as there are cores
    )
    n_ratings, process, arrays = map(int, run.stdout.split())
    assert n_ratings > 5_500_000
    # The process takes 42 MB (CSV) and 57 to 70 (Parquet), on another machine 82; with whole files as blocks it takes 140
    # and 330, with all users in one bucket 240 and 260. NumPy's arrays take 21 MB on every machine; with blocks and
    # buckets of twice the size 34 (Parquet) and 41.
    assert process < 110 * 1024
    assert arrays < 28 * 1024
