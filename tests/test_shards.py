"""Shards: the same table in pieces, in memory or in a folder, and folders that are not what they say."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast.distributed import shardfiles
from starcast.distributed.shards import Shards, cut_evenly


@pytest.fixture(scope="module")
def ratings():
    return sc.make_ratings(n_users=40, n_items=30, density=0.4, random_state=3)[0]


@pytest.fixture
def folder(ratings, tmp_path):
    Shards.from_ratings(ratings, 3).save(tmp_path / "table")
    return tmp_path / "table"


def rows_of(shards):
    """Every rating as (user, item, score) codes, from the shards one after the other."""
    pieces = [shards.load(k) for k in range(len(shards))]
    return [
        (int(u) + piece.begin, int(i), int(s))
        for piece in pieces
        for u, i, s in zip(piece.user, piece.item, piece.score, strict=True)
    ]


def by_user(ratings):
    rows = sorted(range(len(ratings)), key=lambda row: ratings.user[row])  # stable: the table's order in each user
    return [(int(ratings.user[r]), int(ratings.item[r]), int(ratings.score[r])) for r in rows]


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_shards_hold_every_rating_once_by_user(ratings, n):
    shards = Shards.from_ratings(ratings, n)
    assert len(shards) == n
    assert rows_of(shards) == by_user(ratings)
    assert [shards.range(k) for k in range(n)] == list(zip(shards.bounds[:-1], shards.bounds[1:], strict=True))


def test_what_is_known_without_reading_agrees_with_the_table(ratings, folder):
    for shards in (Shards.from_ratings(ratings, 2), Shards.open(folder, 2)):
        assert shards.n_ratings == len(ratings)
        assert shards.digest == ratings.digest()
        np.testing.assert_array_equal(shards.users, ratings.users)
        np.testing.assert_array_equal(shards.items, ratings.items)
        np.testing.assert_array_equal(shards.scores, ratings.scores)
        np.testing.assert_array_equal(shards.counts, ratings.counts())
        np.testing.assert_array_equal(shards.user_counts, np.bincount(ratings.user))
        np.testing.assert_array_equal(shards.item_counts, np.bincount(ratings.item))
        assert repr(shards).endswith("; 2 shards)")


def test_a_folder_gives_back_the_same_shards_in_any_number(ratings, folder):
    for n in (1, 3, 5):
        opened = Shards.open(folder, n)
        assert rows_of(opened) == by_user(ratings)
        assert opened.bounds.tolist() == Shards.from_ratings(ratings).recut(n).bounds.tolist()
        assert opened.load(0).item.base is not None  # a view of the mapped file
        assert not opened.load(0).item.flags.writeable


def test_text_names_and_titles_survive(tmp_path):
    table = sc.Ratings.from_arrays(["ann", "bøb", "ann"], ["x", "x", ""], [5, 3, 4], titles={"x": "The Ξ"})
    Shards.from_ratings(table).save(tmp_path / "table")
    opened = Shards.open(tmp_path / "table")
    assert opened.users.tolist() == ["ann", "bøb"]
    assert opened.items.tolist() == ["x", ""]
    assert opened.titles.tolist() == ["The Ξ", ""]
    assert opened.digest == table.digest()


def test_a_model_sees_what_it_would_see_of_the_table(ratings, folder):
    model = sc.ItemFrequency().fit(ratings)
    shards = Shards.open(folder, 4)
    pieces = [shards.place(k).load() for k in range(4)]
    np.testing.assert_array_equal(np.concatenate([p.item for p in pieces]), model.seen_items_)
    np.testing.assert_array_equal(np.concatenate([p.score for p in pieces]), model.seen_scores_)
    np.testing.assert_array_equal(np.diff(model.seen_start_), shards.user_counts)
    for item, score in (shards.columns(), Shards.from_ratings(ratings, 4).columns()):
        np.testing.assert_array_equal(item, model.seen_items_, strict=True)
        np.testing.assert_array_equal(score, model.seen_scores_, strict=True)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_cuts_are_even_and_leave_no_shard_without_users(data):
    counts = np.array(data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=30)))
    counts[0] += 1
    n = data.draw(st.integers(1, len(counts)))
    bounds = cut_evenly(counts, n)
    assert bounds[0] == 0
    assert bounds[-1] == len(counts)
    assert (np.diff(bounds) >= 1).all()
    if counts.max() * n <= counts.sum() and counts.min() > 0:
        loads = np.add.reduceat(counts, bounds[:-1])
        assert loads.max() <= counts.sum() / n + counts.max()


@pytest.mark.parametrize("n", [0, 41, 1.5, True, "2"])
def test_the_number_of_shards_is_checked(ratings, n):
    with pytest.raises(sc.ParameterError, match=r"n must be a whole number from 1 to the 40 users, got"):
        Shards.from_ratings(ratings, n)


def test_no_ratings_make_no_shards(ratings):
    with pytest.raises(sc.DataError, match=r"shards need at least one rating, got none\."):
        Shards.from_ratings(ratings.take([]))


def test_a_folder_that_is_there_is_left_alone(ratings, folder):
    before = (folder / "shards.json").read_bytes()
    with pytest.raises(sc.FileError, match=r"is there already\. Remove it, or give the name of a new folder"):
        Shards.from_ratings(ratings).save(folder)
    assert (folder / "shards.json").read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o077, 0o700), (0o002, 0o775)])
def test_a_folder_is_as_public_as_others(ratings, tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        Shards.from_ratings(ratings).save(tmp_path / "table")
    finally:
        os.umask(before)
    assert (tmp_path / "table").stat().st_mode & 0o777 == mode


def test_a_folder_that_fails_midway_leaves_nothing(ratings, tmp_path, monkeypatch):
    def full(self, table):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shardfiles.Folder, "finish", full)
    with pytest.raises(sc.FileError, match=r"could not be written: No space left on device\. Nothing was left of it"):
        Shards.from_ratings(ratings).save(tmp_path / "table")
    assert list(tmp_path.iterdir()) == []


def test_no_folder_can_be_made_below_a_file(ratings, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sc.FileError, match=r"cannot be made: .*Choose a folder that can be written to"):
        Shards.from_ratings(ratings).save(tmp_path / "file" / "table")
    with pytest.raises(sc.FileError, match=r"cannot be made: embedded null byte"):
        Shards.from_ratings(ratings).save(tmp_path / "a\0b")


def test_a_folder_without_shards_is_told_so(tmp_path):
    with pytest.raises(sc.FileError, match=r"is no folder of shards: it has no shards\.json\. Make one with"):
        Shards.open(tmp_path)
    (tmp_path / "shards.json").mkdir()
    with pytest.raises(sc.FileError, match=r"shards\.json cannot be read"):
        Shards.open(tmp_path)


def spoil(folder, **changes):
    manifest = json.loads((folder / "shards.json").read_text()) | changes
    (folder / "shards.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "must have the format 'starcast shards'"),
        ({"version": 2}, r"has the format version 2; this Starcast reads up to 1\. Upgrade"),
        ({"version": "1"}, "must have a version"),
        ({"ratings": -5}, "ratings must be a positive number"),
        ({"ratings": True}, "ratings must be a positive number"),
        ({"ratings": 479}, "counts must add up to the ratings"),
        ({"users": 41}, r"users\.npy must hold 41 of int64, has the shape \(40,\) of int64"),
        ({"scores": [5, 4, 3, 2, 1]}, "scores must ascend"),
        ({"scores": ["a"]}, "is damaged"),
        ({"scores": [1, float("nan")]}, "is damaged"),
        ({"counts": [480, 0, 0, 0]}, "counts must add up to the ratings, one a score"),
        ({"digest": "abc"}, "digest must be a SHA-256"),
        ({"digest": 3}, "digest must be a SHA-256"),
        ({"files": {"../../etc/passwd": 1}}, "is no file of a table"),
        ({"files": {"item.npy": 1}}, r"item\.npy must have 1 bytes, has 2048"),
        ({"files": {"other.npy": 1}}, r"other\.npy must have 1 bytes, has none"),
        ({"files": None}, "is damaged"),
    ],
)
def test_a_manifest_is_not_believed(folder, changes, message):
    spoil(folder, **changes)
    with pytest.raises(sc.FileFormatError, match=message):
        Shards.open(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"format": "starcast shards"}', "[" * 100_000])
def test_what_is_no_manifest_is_refused(folder, text):
    (folder / "shards.json").write_text(text)
    with pytest.raises(sc.FileFormatError, match="damaged"):
        Shards.open(folder)


def replace_array(folder, name, array):
    np.save(folder / name, array, allow_pickle=True)
    manifest = json.loads((folder / "shards.json").read_text())
    spoil(folder, files=manifest["files"] | {name: (folder / name).stat().st_size})


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("users.npy", np.zeros(40, np.int64), "the users must have different names"),
        ("users.npy", np.array([{}] * 40, object), "cannot be read as an array"),
        ("items.npy", np.arange(30.0), "must hold 30 of int64"),
        ("user_counts.npy", np.ones(40, np.int64), "user_counts must add up to the 480 ratings"),
        ("item_counts.npy", np.array([-1, 481] + [0] * 28), "item_counts must add up to the 480 ratings"),
        ("item.npy", np.full(480, 30, np.int32), "the codes of items must be from 0 to 29"),
        ("item.npy", np.full(480, -1, np.int32), "the codes of items must be from 0 to 29"),
        ("score.npy", np.full(480, 5, np.int8), "the codes of scores must be from 0 to 4"),
    ],
)
def test_arrays_are_not_believed(folder, name, array, message):
    replace_array(folder, name, array)
    with pytest.raises(sc.FileFormatError, match=message):
        Shards.open(folder).load(0)


def test_a_torn_file_is_found(folder):
    content = (folder / "item.npy").read_bytes()
    (folder / "item.npy").write_bytes(content[:-4])
    with pytest.raises(sc.FileFormatError, match=r"item\.npy must have 2048 bytes, has 2044"):
        Shards.open(folder)
    (folder / "item.npy").write_bytes(b"\x80" * len(content))
    with pytest.raises(sc.FileFormatError, match="cannot be read as an array"):
        Shards.open(folder).load(0)


def test_counts_that_moved_between_opening_and_loading_are_found(folder):
    shards = Shards.open(folder, 2)
    counts = np.load(folder / "user_counts.npy")
    replace_array(folder, "user_counts.npy", np.roll(counts, 1) if counts[0] != counts[-1] else counts + 1)
    with pytest.raises(sc.FileFormatError, match="the counts of the users must fit their ratings"):
        [shards.load(k) for k in range(2)]


def test_text_ends_are_not_believed(tmp_path):
    table = sc.Ratings.from_arrays(["ann", "bob"], ["x", "y"], [5, 3])
    Shards.from_ratings(table).save(tmp_path / "table")
    replace_array(tmp_path / "table", "users.ends.npy", np.array([7, 6]))
    with pytest.raises(sc.FileFormatError, match="text ends of 'users' do not fit"):
        Shards.open(tmp_path / "table")
