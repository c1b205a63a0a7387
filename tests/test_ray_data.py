"""What Ray's workers do alike: cutting, lists and searches on a small cluster of this machine."""

import json
import os
import signal
import time

import numpy as np
import polars as pl
import pytest
from test_cli import run  # noqa: F401, a fixture

import starcast as sc
from starcast.distributed import spill, tasks
from starcast.distributed.shards import Shards
from starcast.distributed.tasks import run_tasks

if "STARCAST_CI" in os.environ:  # where a test that is skipped would hide a failure
    import ray
else:
    ray = pytest.importorskip("ray")

pytestmark = [pytest.mark.ray, pytest.mark.slow]
LATE = ["ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"]  # of Ray itself
pytestmark += [pytest.mark.filterwarnings(text) for text in LATE]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One local cluster for all tests of this file."""
    from starcast.distributed.cluster import connect

    assert not ray.is_initialized()
    connect(2)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def ratings():
    return sc.make_ratings(n_users=60, n_items=40, random_state=4)[0]


def assert_same(shards, ratings):
    assert shards.digest == ratings.digest()
    expected = Shards.from_ratings(ratings)
    assert shards.load(0).item.tolist() == expected.load(0).item.tolist()
    assert shards.item_counts.tolist() == expected.item_counts.tolist()


def test_parts_read_by_workers_give_the_same_shards(ratings, tmp_path):
    frame = ratings.to_frame()
    for k in range(4):
        frame[k * 120 : (k + 1) * 120 if k < 3 else None].write_parquet(tmp_path / f"part-{k}.parquet")
    assert_same(sc.cut_ratings(tmp_path / "*.parquet", tmp_path / "cut", engine="ray", workers=2), ratings)


def test_the_blocks_of_a_dataset_are_parts(ratings, tmp_path):
    frame = ratings.to_frame()
    for k, rows in enumerate((slice(0, 200), slice(200, 230), slice(230, None))):
        frame[rows].write_parquet(tmp_path / f"{k}.parquet")
    dataset = ray.data.read_parquet(str(tmp_path))
    assert_same(sc.cut_ratings(dataset, tmp_path / "cut", engine="ray", workers=2), ratings)


def test_a_dataset_needs_rays_workers(tmp_path):
    with pytest.raises(sc.ParameterError, match=r'a Ray Dataset is cut by Ray.s workers: pass engine="ray"'):
        sc.cut_ratings(ray.data.from_items([{"user": 1, "item": 2, "rating": 3.0}]), tmp_path / "cut")


def test_no_more_tasks_are_at_work_than_workers_were_asked_for(tmp_path):
    def count_busy(folder, number):
        (folder / f"busy-{number}").touch()
        time.sleep(0.3)
        n = len(list(folder.glob("busy-*")))
        (folder / f"busy-{number}").unlink()
        return n

    assert list(run_tasks(count_busy, ((tmp_path, k) for k in range(6)), 1, "testing")) == [1] * 6


def test_a_mistake_in_a_part_is_told_as_without_ray(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3\n1,3,x\n")
    with pytest.raises(sc.DataError, match=r"^rating must be a number, got 'x' \(line 2 of a\.csv; 1 such line\)"):
        sc.cut_ratings(tmp_path / "a.csv", tmp_path / "cut", engine="ray", workers=2)
    assert not (tmp_path / "cut").exists()


def test_a_full_disk_of_a_worker_is_told(ratings, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    ratings.to_frame().write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(spill, "spill_part", full)
    with pytest.raises(
        sc.FileError, match=r"cut could not be written: No space left on device\. Nothing was left of it\.$"
    ):
        sc.cut_ratings(tmp_path / "a.parquet", tmp_path / "cut", engine="ray", workers=2)


def test_a_worker_lets_go_of_what_tasks_shared_when_no_more_come(monkeypatch):
    box = [ray.put((np.ones(100_000),))]
    for number in (1, 2, 3):  # as a worker does it, here
        assert tasks._work_on(lambda kept, number: kept.sum() * number, box, number) == 100_000 * number
        assert list(tasks.ARRIVED) == [box[0].hex()]
    monkeypatch.setattr(tasks, "IDLE", 0.05)
    assert tasks._work_on(lambda kept: kept.sum(), box) == 100_000
    (clock,) = tasks.CLOCKS
    clock.join(600)
    assert tasks.ARRIVED == {}
    assert tasks._work_on(lambda kept: kept.sum(), box) == 100_000


def test_the_task_of_a_worker_that_dies_is_done_again(tmp_path):
    def die_once(mark):  # within the test: the workers cannot import this file
        if not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    assert list(run_tasks(die_once, [(tmp_path / "mark",)], 2, "dying")) == ["done"]


def test_a_task_that_kills_every_worker_is_told():
    def die(_):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(sc.ClusterError, match=r"a worker died 4 times at the same task: .*ask for fewer workers"):
        list(run_tasks(die, [(1,)], 2, "dying"))


def test_more_workers_than_places_are_refused(monkeypatch):
    monkeypatch.setattr("starcast.distributed.cluster.STARTED_HERE", [])  # one that others started is not made larger
    with pytest.raises(sc.ClusterError, match=r"99 workers need as many CPUs, the Ray cluster has"):
        list(run_tasks(print, [(1,)], 99, "dying"))


def untimed(results):
    return [{name: repr(value) for name, value in row.items() if name != "seconds"} for row in results]


SPACE = {"n_factors": [2, 3], "learning_rate": [0.01, 0.02, 1e30], "regularization": [0.01, -1.0]}


@pytest.mark.parametrize("method", ["grid", "random", "tpe"])
def test_a_search_by_workers_gives_the_same_table(ratings, method, tmp_path):
    ask = {"method": method, "cv": 3, "random_state": 0, "objectives": ["nll", "1-MAE@0.5"]}
    ask["n_trials"] = {"grid": None, "random": 7, "tpe": 2}[method]
    base = sc.PMF(n_iters=4)
    alone = sc.search(base, ratings, SPACE, **ask)
    told = []
    many = sc.search(base, ratings, SPACE, engine="ray", workers=2, on_progress=lambda *at: told.append(at), **ask)
    if method == "grid":
        assert set(alone["status"]) == {"ok", "diverged", "failed"}
    if method != "tpe":  # which asks for two trials before it has heard of the first
        assert untimed(alone) == untimed(many)
    assert [done for done, _ in told] == list(range(len(alone) + 1))


@pytest.mark.data
def test_the_papers_search_by_workers_gives_the_same_table(data_folder):
    ratings = sc.benchmark_split(sc.load_movielens("100k")).train
    space = sc.SPACES["resbemf"]["ml-100k"] | {"n_iters": [25], "n_factors": [2, 4]}
    ask = {"objectives": ["nll", "1-MAE@0.5"], "n_trials": 3, "cv": 5, "random_state": 0}
    alone = sc.search("resbemf", ratings, space, **ask)
    assert untimed(sc.search("resbemf", ratings, space, engine="ray", workers=2, **ask)) == untimed(alone)


def test_a_search_by_workers_goes_on_where_another_stopped(ratings, tmp_path):
    ask = {"cv": 3, "random_state": 0, "storage": tmp_path / "trials.jsonl"}
    base = sc.ItemFrequency()
    sc.search(base, ratings, {"shrinkage": [1, 2, 3, 4]}, n_trials=2, **ask)
    before = (tmp_path / "trials.jsonl").read_text()
    many = sc.search(base, ratings, {"shrinkage": [1, 2, 3, 4]}, n_trials=4, engine="ray", workers=2, **ask)
    after = (tmp_path / "trials.jsonl").read_text()
    assert after.startswith(before)
    assert after.count("\n") == 5
    alone = sc.search(base, ratings, {"shrinkage": [1, 2, 3, 4]}, n_trials=4, cv=3, random_state=0)
    assert untimed(many) == untimed(alone)


def test_a_trial_that_kills_its_workers_is_recorded_and_the_others_are_not_touched(ratings):
    class Deadly(sc.ItemFrequency):  # within the test: sent by value
        def _fit(self, ratings):
            if self.shrinkage == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            super()._fit(ratings)

    found = sc.search(
        Deadly(), ratings, {"shrinkage": [1, 2, 3]}, method="grid", cv=2, random_state=0, engine="ray", workers=2
    )
    assert found["status"] == ["ok", "failed", "ok"]
    assert "a worker died 4 times at it" in found["error"][1]
    alone = sc.search("item", ratings, {"shrinkage": [1, 3]}, method="grid", cv=2, random_state=0)
    assert [found["nll"][0], found["nll"][2]] == alone["nll"]


@pytest.mark.parametrize("as_file", [True, False])
def test_lists_by_workers_equal_those_of_the_model(ratings, tmp_path, as_file):
    model = sc.ResBeMF(n_iters=5, random_state=0).fit(ratings)
    model.save(tmp_path / "m.starcast")
    source = tmp_path / "m.starcast" if as_file else model
    files = sc.recommend_all(source, tmp_path / "lists", users_per_part=13, engine="ray", workers=2)
    assert pl.concat([pl.read_parquet(file) for file in files]).equals(model.recommend())


def test_commands_take_an_engine(ratings, tmp_path, run):  # noqa: F811
    ratings.to_frame().write_csv(tmp_path / "ratings.csv")
    ray_of_two = ["--engine", "ray", "--workers", "2", "--json"]
    code, text, _ = run("shards", tmp_path / "ratings.csv", "--out", tmp_path / "cut", *ray_of_two)
    assert (code, json.loads(text)["digest"]) == (0, ratings.digest())
    sc.ItemFrequency().fit(ratings).save(tmp_path / "m.starcast")
    assert run("recommend", tmp_path / "m.starcast", "--out", tmp_path / "lists/", *ray_of_two)[0] == 0
    assert pl.read_parquet(tmp_path / "lists" / "*.parquet").equals(sc.load(tmp_path / "m.starcast").recommend())
    (tmp_path / "space.json").write_text('{"shrinkage": [1, 5]}')
    words = ["search", tmp_path / "ratings.csv", "--model", "item", "--space", tmp_path / "space.json", "--folds", "2"]
    code, text, _ = run(*words, *ray_of_two)
    assert code == 0
    told = [{name: row[name] for name in ("shrinkage", "nll", "status")} for row in json.loads(text)]
    assert told == [
        {name: row[name] for name in ("shrinkage", "nll", "status")} for row in json.loads(run(*words, "--json")[1])
    ]
