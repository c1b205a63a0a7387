"""Lists for all users as Parquet parts: those of model.recommend, taken up where they stopped."""

import polars as pl
import pytest

import starcast as sc
from starcast.distributed import lists


@pytest.fixture(scope="module")
def model():
    return sc.ItemFrequency().fit(sc.make_ratings(n_users=70, n_items=40, random_state=1)[0])


def joined(files):
    return pl.concat([pl.read_parquet(file) for file in files])


@pytest.mark.parametrize(
    "ask", [{}, {"n": 3, "threshold": 0.4}, {"exclude_seen": False}, {"threshold": sc.Threshold(0.7, "error")}]
)
def test_the_parts_hold_what_recommend_gives(model, tmp_path, ask):
    files = sc.recommend_all(model, tmp_path / "lists", users_per_part=30, **ask)
    assert len(files) == 3
    assert joined(files).equals(model.recommend(**ask))


def test_a_model_file_gives_the_same_lists_in_the_same_folder(model, tmp_path):
    model.save(tmp_path / "m.starcast")
    files = sc.recommend_all(tmp_path / "m.starcast", tmp_path / "lists", users_per_part=30)
    assert joined(files).equals(model.recommend())
    assert sc.recommend_all(model, tmp_path / "lists", users_per_part=30) == files


def test_only_what_is_missing_or_torn_is_done_again(model, tmp_path, monkeypatch):
    files = sc.recommend_all(model, tmp_path / "lists", users_per_part=20)
    whole = files[3].read_bytes()
    files[1].unlink()
    files[3].write_bytes(whole[: len(whole) // 2])
    written, told = [], []
    write = lists._write_part
    monkeypatch.setattr(lists, "_write_part", lambda *task: (written.append(task[2].name), write(*task)))
    sc.recommend_all(model, tmp_path / "lists", users_per_part=20, on_progress=lambda *done: told.append(done))
    assert written == ["part-000001.parquet", "part-000003.parquet"]
    assert told == [(2, 4), (3, 4), (4, 4)]
    assert files[3].read_bytes() == whole
    assert joined(files).equals(model.recommend())


def test_a_folder_of_other_lists_or_things_is_refused(model, tmp_path):
    sc.recommend_all(model, tmp_path / "lists")
    with pytest.raises(
        sc.ParameterError, match=r"holds other lists: n, threshold differ\. Give these a folder of their own"
    ):
        sc.recommend_all(model, tmp_path / "lists", n=5, threshold=0.5)
    other = sc.ItemFrequency(shrinkage=1).fit(sc.make_ratings(random_state=2)[0])
    with pytest.raises(sc.ParameterError, match=r"holds other lists: model differs\."):
        sc.recommend_all(other, tmp_path / "lists")
    with pytest.raises(sc.FileError, match=r"holds other things than lists\. Give the name of a new folder"):
        sc.recommend_all(model, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(sc.FileError, match=r"cannot be written to: .* Choose another folder"):
        sc.recommend_all(model, tmp_path / "file")


def test_a_model_file_that_was_replaced_gives_new_lists(model, tmp_path):
    model.save(tmp_path / "m.starcast")
    sc.recommend_all(tmp_path / "m.starcast", tmp_path / "old")
    other = sc.ItemFrequency(shrinkage=1).fit(sc.make_ratings(random_state=2)[0])
    other.save(tmp_path / "m.starcast")
    files = sc.recommend_all(tmp_path / "m.starcast", tmp_path / "new")
    assert joined(files).equals(other.recommend())
    file = lists.ModelFile(tmp_path / "m.starcast", lists._fingerprint(other))
    assert file.model.shrinkage == 1
    assert file.model is file.model
    model.save(tmp_path / "m.starcast")
    with pytest.raises(sc.FileError, match="has become another model meanwhile"):
        lists.ModelFile(tmp_path / "m.starcast", file.digest).model  # noqa: B018


def test_a_folder_of_lists_is_read_as_one_table(model, tmp_path):
    sc.recommend_all(model, tmp_path / "lists", users_per_part=30)
    assert pl.read_parquet(tmp_path / "lists").equals(model.recommend())


def test_parts_on_another_machines_disk_are_missed(model, tmp_path, monkeypatch):
    monkeypatch.setattr(lists, "_write_part", lambda *task: None)
    with pytest.raises(sc.ClusterError, match="must lie on a disk that all machines see: 3 of 3 parts of"):
        sc.recommend_all(model, tmp_path / "lists", users_per_part=30)


@pytest.mark.parametrize(
    ("engine", "workers", "what"),
    [
        (5, None, 'engine must be "ray" or a RayEngine, got 5'),
        ("spark", None, "spark"),
        (sc.RayEngine(3), 2, "workers must be those of the engine, 3, or not given, got 2"),
        (None, 2, "workers are those of engine"),
    ],
)
def test_an_engine_is_ray_or_none(model, tmp_path, engine, workers, what):
    with pytest.raises(sc.StarcastError, match=what):
        sc.recommend_all(model, tmp_path / "lists", engine=engine, workers=workers)


def test_questions_are_checked_before_anything_is_written(model, tmp_path):
    with pytest.raises(sc.ParameterError, match="n must be a whole number of at least 1"):
        sc.recommend_all(model, tmp_path / "x", n=0)
    with pytest.raises(sc.ParameterError, match="users_per_part must be"):
        sc.recommend_all(model, tmp_path / "x", users_per_part=0)
    with pytest.raises(sc.ParameterError, match="threshold must be"):
        sc.recommend_all(model, tmp_path / "x", threshold=2)
    with pytest.raises(sc.NotFittedError, match="not fitted"):
        sc.recommend_all(sc.ItemFrequency(), tmp_path / "x")
    assert not (tmp_path / "x").exists()
