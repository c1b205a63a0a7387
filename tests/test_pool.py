"""A search by Ray's workers, which here are threads: how many work, in which order, and what is recorded of trouble."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import starcast as sc
from starcast.distributed import pool
from starcast.journal import Journal

exceptions = pytest.importorskip("ray.exceptions")

N_FOLDS = 5


class Cluster:
    """Runs what is submitted at once, however much, and takes note; `troubles` are raised by the pieces that they name."""

    def __init__(self):
        self.begun, self.busy, self.most_busy = [], 0, 0
        self.troubles, self.gates, self.name = {}, {}, lambda *piece: piece
        self._threads, self._lock = ThreadPoolExecutor(64), threading.Lock()

    def sharing(self, ray, work, shared):
        def send(*piece):
            self.begun.append(piece)
            done = self._threads.submit(self._do, work, shared, piece)
            return SimpleNamespace(future=lambda: done)

        return send

    def _do(self, work, shared, piece):
        with self._lock:
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
        name = self.name(*piece)
        try:
            if name in self.gates:
                assert self.gates[name].wait(600)
            time.sleep(0.002)
            if name in self.troubles:
                raise self.troubles[name]
            return work(*shared, *piece)
        finally:
            with self._lock:
                self.busy -= 1


@pytest.fixture
def cluster(monkeypatch):
    cluster = Cluster()
    monkeypatch.setattr(pool, "connect", lambda workers, purpose: SimpleNamespace(exceptions=exceptions))
    monkeypatch.setattr(pool, "sharing", cluster.sharing)
    return cluster


def work(task, fold):
    return {"status": "diverged" if task == "bad" and fold == 2 else "ok", "fold": fold}


def ask(tasks, workers, do=work, n_folds=N_FOLDS):
    with pool.ray_pool(workers, do, (), lambda task: [(task, fold) for fold in range(n_folds)], list) as submit:
        return [future.result(timeout=600) for future in [submit(None, task) for task in tasks]]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_no_more_pieces_are_at_work_than_workers_were_asked_for(cluster, workers):
    found = ask(["a", "b", "c", "d"], workers)
    assert found == [[{"status": "ok", "fold": fold} for fold in range(N_FOLDS)]] * 4
    assert cluster.most_busy <= workers
    assert cluster.begun == [(task, fold) for task in "abcd" for fold in range(N_FOLDS)]  # the first task first


def test_behind_a_piece_that_went_wrong_nothing_is_begun(cluster):
    assert ask(["bad", "b"], 1) == [[work("bad", fold) for fold in range(3)], [work("b", f) for f in range(N_FOLDS)]]
    assert [fold for task, fold in cluster.begun if task == "bad"] == [0, 1, 2]
    cluster.begun.clear()
    assert ask(["bad"], 4) == [[work("bad", fold) for fold in range(3)]]
    assert len(cluster.begun) <= N_FOLDS


def test_a_piece_that_went_wrong_early_waits_for_those_before_it(cluster):
    gate = cluster.gates["bad", 0] = cluster.gates["bad", 1] = threading.Event()
    with pool.ray_pool(3, work, (), lambda task: [(task, fold) for fold in range(N_FOLDS)], list) as submit:
        bad, good = submit(None, "bad"), submit(None, "good")
        assert len(good.result(timeout=600)) == N_FOLDS  # the third worker goes on with it
        assert not bad.done()
        gate.set()
        assert [record["status"] for record in bad.result(timeout=600)] == ["ok", "ok", "diverged"]
    assert ("bad", 3) not in cluster.begun


@pytest.mark.parametrize(
    ("trouble", "what"),
    [
        (
            exceptions.OutOfMemoryError("the node is low on memory."),
            r"gave up on a trial: .* low on memory\..*start again",
        ),
        (exceptions.NodeDiedError("the node is gone."), r"gave up on a trial: .*the node is gone"),
        (exceptions.RaySystemError("no more."), r"gave up on a trial: .*no more"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_trouble_of_the_cluster_ends_a_search_and_is_not_recorded(cluster, tmp_path, trouble, what):
    ratings = sc.make_ratings(n_users=20, n_items=15, random_state=0)[0]
    ask = {"method": "grid", "cv": 2, "random_state": 0, "storage": tmp_path / "s.jsonl", "engine": "ray", "workers": 1}
    space = {"shrinkage": [1, 2, 3]}
    alone = sc.search("item", ratings, space, method="grid", cv=2, random_state=0)

    cluster.name = lambda params, fold: (params["shrinkage"], fold)
    cluster.troubles[2, 1] = trouble
    with pytest.raises(sc.ClusterError, match=what):
        sc.search("item", ratings, space, **ask)
    recorded = [record for key, record in Journal(tmp_path / "s.jsonl").records() if key != "search"]
    assert [record["status"] for record in recorded] == ["ok"]
    cluster.troubles.clear()
    again = sc.search("item", ratings, space, **ask)
    assert again["nll"] == alone["nll"]
    assert again["status"] == ["ok"] * 3


def test_a_piece_that_kills_its_workers_has_failed(cluster):
    cluster.troubles["a", 1] = exceptions.WorkerCrashedError()
    (found,) = ask(["a"], 1)
    assert [record["status"] for record in found] == ["ok", "failed"]
    assert "a worker died 4 times at it" in found[1]["error"]


def task_error(cause):
    return exceptions.RayTaskError("work", "traceback", cause)


def test_errors_of_ours_are_recorded_unless_they_are_a_machines(cluster):
    cluster.troubles["a", 1] = task_error(sc.DataError("it cannot be."))
    assert ask(["a"], 1)[0][1] == {"status": "failed", "error": "it cannot be."}
    cluster.troubles["a", 1] = task_error(sc.MissingExtraError("learning", "PyTorch", "torch"))
    with pytest.raises(sc.MissingExtraError, match="learning needs PyTorch"):
        ask(["a"], 1)
    cluster.troubles["a", 1] = task_error(ZeroDivisionError("a bug"))
    with pytest.raises(exceptions.RayTaskError):
        ask(["a"], 1)


def test_a_cluster_that_takes_nothing_ends_the_work(cluster, monkeypatch):
    def full(*_):
        raise exceptions.ObjectStoreFullError("full.")

    monkeypatch.setattr(pool, "sharing", lambda *_: full)
    with pytest.raises(sc.ClusterError, match=r"gave up on a trial: .*full"):
        ask(["a"], 2)


def test_records_that_cannot_be_joined_are_told(cluster):
    def fail(records):
        raise ZeroDivisionError

    with pool.ray_pool(2, work, (), lambda task: [(task, 0)], fail) as submit, pytest.raises(ZeroDivisionError):
        submit(None, "a").result(timeout=600)
