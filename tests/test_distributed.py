"""Fits on a Ray cluster: the same model as on one machine, whoever is lost on the way."""

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import starcast as sc
from starcast import cli, modelfile
from starcast.distributed import checkpoint, crew
from starcast.distributed.checkpoint import DRAW, LATEST, LOCK, ROUND, Checkpoint, State
from starcast.distributed.cost import round_cost, row_of
from starcast.distributed.crew import Crew, WorkersLostError
from starcast.distributed.engine import Run
from starcast.distributed.plan import draw_between
from starcast.distributed.plans import make_plan
from starcast.distributed.shards import Shards

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    """Four machines with a CPU each: processes of their own here, with object stores of their own."""
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = Cluster(initialize_head=True, head_node_args=size)
        for _ in range(3):
            nodes.add_node(num_cpus=1, object_store_memory=100_000_000)
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def table():
    return sc.make_ratings(n_users=120, n_items=60, density=0.4, random_state=0)[0]


MODELS = {
    "resbemf": sc.ResBeMF(n_factors=3, n_iters=7, tolerance=0, random_state=0),
    "ordinalmf": sc.OrdinalMF(n_factors=3, n_company=2, burn_in=2, n_draws=3, thin=1, random_state=0),
    "many columns": sc.OrdinalMF(n_factors=17, burn_in=0, n_draws=20, thin=1, random_state=1),
    "climb": sc.OrdinalMF(n_factors=3, n_spread_factors=2, n_company=0, n_draws=0, random_state=0),
    "bemf": sc.BeMF(n_factors=3, n_iters=7, random_state=0),
    "pmf": sc.PMF(n_factors=3, n_iters=7, update="exact", random_state=0),
    "biasedmf": sc.BiasedMF(n_factors=3, n_iters=7, update="exact", generator="java", random_state=0),
}


def probs(model, table):
    return model.predict_proba(table.users[table.user], table.items[table.item]).probs


def learnt(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_") and isinstance(value, np.ndarray)}


def assert_same_bits(one, other):
    for name, value in learnt(one).items():
        np.testing.assert_array_equal(value, learnt(other)[name], err_msg=name, strict=True)


@pytest.mark.parametrize("name", MODELS)
def test_one_worker_gives_the_same_bits_as_none(cluster, table, name):
    model = MODELS[name]
    assert_same_bits(model.clone().fit(table), model.clone().fit(table, engine=sc.RayEngine(workers=1)))


@pytest.mark.parametrize(
    ("name", "workers"),
    [*((name, 3) for name in MODELS), ("resbemf", 2), ("ordinalmf", 2), ("ordinalmf", 4), ("many columns", 2)],
)
def test_many_workers_agree_with_one_machine(cluster, table, name, workers):
    engine = sc.RayEngine(workers=workers)
    alone, together = MODELS[name].clone().fit(table), MODELS[name].clone().fit(table, engine=engine)
    assert len(together.history_) == len(alone.history_) == len(engine.report_.seconds)
    if isinstance(alone, sc.OrdinalMF):  # a last bit would do to accept a draw here and refuse it there
        assert_same_bits(alone, together)
    else:
        np.testing.assert_allclose(probs(together, table), probs(alone, table), atol=1e-4)
        np.testing.assert_allclose(together.history_, alone.history_, rtol=1e-5)
    assert engine.report_.losses == []
    cost = round_cost(together, users=120, items=60, ratings=len(table), workers=workers)
    assert engine.report_.sent[-1] == pytest.approx(cost.sent, rel=0.1)
    assert engine.report_.received[-1] == pytest.approx(cost.received, rel=0.1)


@pytest.mark.parametrize("name", ["resbemf", "bemf"])
def test_sums_for_some_owners_at_a_time_give_the_same_bits(cluster, table, monkeypatch, name):
    engine = sc.RayEngine(workers=3)
    at_once, sent = MODELS[name].clone().fit(table, engine=engine), engine.report_.sent
    monkeypatch.setattr(crew, "SUMS_AT_ONCE", 45 * row_of(at_once, 5).up)  # of 60 items, two owners have 40
    groups = []
    together = crew.together
    monkeypatch.setattr(crew, "together", lambda *given: groups.append(together(*given)) or groups[-1])
    assert_same_bits(at_once, MODELS[name].clone().fit(table, engine=engine))
    assert [[0, 1], [2]] in groups
    assert engine.report_.sent == sent


def test_a_fit_from_files_is_that_from_memory_and_outlives_them(cluster, table, tmp_path):
    Shards.from_ratings(table).save(tmp_path / "cut")
    engine, model = sc.RayEngine(workers=2), MODELS["resbemf"]
    of_table = model.clone().fit(table, engine=engine)
    of_files = model.clone().fit(Shards.open(tmp_path / "cut"), engine=engine)
    assert isinstance(of_files.seen_items_.base, np.memmap)  # the ratings stay in the folder
    shutil.rmtree(tmp_path / "cut")
    assert_same_bits(of_table, of_files)
    assert of_files.recommend(n=3).equals(of_table.recommend(n=3))
    of_files.save(tmp_path / "m")
    for copy in (sc.load(tmp_path / "m"), pickle.loads(pickle.dumps(of_files))):
        assert_same_bits(of_table, copy)
        assert copy.recommend(n=3).equals(of_table.recommend(n=3))


def test_a_damaged_folder_is_found_by_the_workers(cluster, table, tmp_path):
    Shards.from_ratings(table).save(tmp_path / "cut")
    codes = np.load(tmp_path / "cut" / "item.npy")
    codes[-1] = 60
    np.save(tmp_path / "cut" / "item.npy", codes)
    model = MODELS["resbemf"].clone()
    with pytest.raises(sc.FileFormatError, match="the codes of items must be from 0 to 59"):
        model.fit(Shards.open(tmp_path / "cut"), engine=sc.RayEngine(workers=2))
    assert not model.is_fitted


def kill_in_round(monkeypatch, round_, deed):
    """Let `deed(crew)` happen once, in the middle of a round: users have moved, owners wait for their sums."""
    ask, seen = Crew._ask_everyone, []

    def ask_everyone(self, asks):
        is_first = not seen or seen[-1] == 0
        seen.append(len(asks))
        if asks and is_first and seen.count(0) == round_ - 1:
            answers = ask(self, asks)
            deed(self)
            return answers
        return ask(self, asks)

    monkeypatch.setattr(Crew, "_ask_everyone", ask_everyone)


@pytest.mark.parametrize(
    ("name", "round_", "kept"),
    [("resbemf", 2, 0), ("resbemf", 6, 4), ("ordinalmf", 3, 0), ("ordinalmf", 7 + 10, 8)],  # company is 7 more
)
def test_a_killed_worker_is_replaced_and_nothing_changes(cluster, table, monkeypatch, name, round_, kept):
    model, engine = MODELS[name], sc.RayEngine(workers=3, every=2)
    undisturbed = model.clone().fit(table, engine=engine)
    kill_in_round(monkeypatch, round_, lambda crew: os.kill(crew.hello()[1]["pid"], signal.SIGKILL))
    with pytest.warns(sc.ClusterWarning, match=rf"lost worker 2 of 3 .*from round {kept}\."):
        disturbed = model.clone().fit(table, engine=engine)
    assert len(engine.report_.losses) == 1
    assert len(engine.report_.seconds) == len(undisturbed.history_)
    assert_same_bits(undisturbed, disturbed)


def test_one_that_dies_while_others_start_leaves_nobody_without_ratings(cluster, table, monkeypatch):
    model, engine = MODELS["resbemf"], sc.RayEngine(workers=3)
    undisturbed = model.clone().fit(table, engine=engine)
    start, deaths = Crew._start, []

    def lose_one(self, which, n_cpus):
        late = start(self, which, n_cpus)
        if not deaths:
            deaths.append(1)
            raise WorkersLostError([0], "it died at once")
        return late

    monkeypatch.setattr(Crew, "_start", lose_one)
    with pytest.warns(sc.ClusterWarning, match=r"lost worker 1 of 3 \(it died at once\)"):
        disturbed = model.clone().fit(table, engine=engine)
    assert_same_bits(undisturbed, disturbed)


def test_no_worker_stays_behind(cluster, table, monkeypatch):
    hire, pids = Crew.hire, []

    def and_note(self):
        hire(self)
        pids.extend(said["pid"] for said in self.hello())

    monkeypatch.setattr(Crew, "hire", and_note)
    sc.ResBeMF(n_factors=2, n_iters=1).fit(table, engine=sc.RayEngine(workers=2))
    with pytest.raises(sc.DivergenceError):
        sc.BeMF(n_factors=2, n_iters=3, learning_rate=1e30, random_state=0).fit(table, engine=sc.RayEngine(workers=2))
    assert len(set(pids)) == 4
    psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=300)
    assert not any(map(psutil.pid_exists, pids))


def test_a_lost_machine_is_done_without(cluster, table, monkeypatch):
    model, engine = MODELS["resbemf"], sc.RayEngine(workers=4, every=2)
    undisturbed = model.clone().fit(table, engine=engine)
    node = sorted(cluster.worker_nodes, key=str)[0]

    def lose(crew):
        cluster.remove_node(node, allow_graceful=False)
        with pytest.raises(WorkersLostError):  # its workers notice after a while
            while True:
                crew.hello()

    kill_in_round(monkeypatch, 4, lose)
    with pytest.warns(sc.ClusterWarning) as told:
        disturbed = model.clone().fit(table, engine=engine)
    cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    assert any("no machine has 1 CPU to spare" in str(w.message) for w in told)
    assert_same_bits(undisturbed, disturbed)


def test_a_new_driver_goes_on_from_the_checkpoint(cluster, table, tmp_path):
    model = MODELS["resbemf"]
    undisturbed = model.clone().fit(table, engine=sc.RayEngine(workers=2, every=2))
    script = f"""
        import os, signal
        import starcast as sc
        from starcast.distributed.engine import Run
        keep = Run._keep
        def and_die(self, history):
            keep(self, history)
            if len(history) == 4:
                os.kill(os.getpid(), signal.SIGKILL)
        Run._keep = and_die
        table = sc.make_ratings(n_users=120, n_items=60, density=0.4, random_state=0)[0]
        model = sc.{model!r}
        model.fit(table, engine=sc.RayEngine(workers=2, every=2, checkpoint={str(tmp_path / "state")!r}))
    """
    env = os.environ | {"RAY_ADDRESS": cluster.address}
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=env, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (tmp_path / "state" / LATEST).exists()
    engine = sc.RayEngine(workers=2, every=2, checkpoint=tmp_path / "state")
    continued = model.clone().fit(table, engine=engine)
    assert engine.report_.resumed_from == 4
    assert len(engine.report_.seconds) == 3
    assert_same_bits(undisturbed, continued)
    assert list((tmp_path / "state").iterdir()) == []


def test_the_command_fits_on_the_cluster(cluster, table, tmp_path, monkeypatch, capsys):
    model = MODELS["resbemf"].clone().fit(table, engine=sc.RayEngine(workers=2))
    Shards.from_ratings(table).save(tmp_path / "cut")
    words = ["fit", tmp_path / "cut", "--model", "resbemf", "--out", tmp_path / "m", "--engine", "ray", "--workers", 2]
    params = ["-p", "n_factors=3", "-p", "n_iters=7", "-p", "tolerance=0"]
    monkeypatch.setattr(sys, "argv", ["starcast", *map(str, words), *params])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code, capsys.readouterr().err
    assert_same_bits(model, sc.load(tmp_path / "m"))


@pytest.mark.parametrize(
    ("model", "engine", "what"),
    [
        (sc.DirMF(), {}, r"DirMF cannot be fitted on a cluster\. These can: OrdinalMF \(update=\"exact\"\), ResBeMF"),
        (sc.ResBeMF(update="gradient"), {}, r'ResBeMF on a cluster needs update="exact", got .gradient.'),
        (sc.OrdinalMF(update="gradient"), {}, r'OrdinalMF on a cluster needs update="exact", got .gradient.'),
        (sc.PMF(), {}, r'PMF on a cluster needs update="exact", got .stochastic.'),
        (sc.BeMF(precision="double"), {}, r"BeMF on a cluster needs single precision"),
        (sc.ResBeMF(early_stopping=True), {}, r"early_stopping must be False on a cluster"),
        (sc.ResBeMF(n_factors=-1), {}, r"n_factors must be"),
        (sc.ResBeMF(), {"workers": 121}, r"workers must be at most the 120 users of the ratings, got 121"),
        (sc.ResBeMF(), {"workers": 5}, r"5 workers need as many CPUs|5 workers with 1 thread each must find a place"),
        (sc.ResBeMF(), {"threads_per_worker": 2}, r"2 workers with 2 threads each must find a place"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_cannot_be_says_what_can(cluster, table, model, engine, what):
    with pytest.raises(sc.StarcastError, match=what):
        model.fit(table, engine=sc.RayEngine(**engine))
    assert not model.is_fitted


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 1.5}, {"every": 0}, {"threads_per_worker": 0}, {"patience": 0}])  # fmt: skip
def test_an_engine_that_cannot_be_is_refused(wrong):
    with pytest.raises(sc.ParameterError, match=next(iter(wrong))):
        sc.RayEngine(**wrong)


def test_shards_need_an_engine(table):
    with pytest.raises(sc.DataError, match=r"fit needs an engine for Shards"):
        sc.ResBeMF().fit(Shards.from_ratings(table))


def test_a_checkpoint_of_another_fit_is_refused(table, tmp_path, monkeypatch):
    model, shards = sc.ResBeMF(random_state=0), Shards.from_ratings(table, 2)
    plan = make_plan(model.clone().fit(table), shards, 0)
    rows = [np.zeros((3, 2), np.float32), np.ones((4, 2), np.float32)]
    state = State(0, [1.0, 2.0], {"base": np.arange(5.0), "n": 7}, rows[0], rows)
    Checkpoint(tmp_path / "s", model, shards).save(state, plan, lambda rows: rows)
    again = Checkpoint(tmp_path / "s", model.clone().set_params(verbose=True), shards).find()
    assert (again.done, again.history, again.shared["n"]) == (2, [1.0, 2.0], 7)
    np.testing.assert_array_equal(again.users[1], rows[1])
    for what, other in (
        ("params", (sc.ResBeMF(random_state=1), shards)),
        ("model and params", (sc.OrdinalMF(random_state=0), shards)),
        ("workers", (model, shards.recut(3))),
        ("ratings", (model, Shards.from_ratings(table.take(np.arange(100)), 2))),
    ):
        with pytest.raises(sc.ParameterError, match=f"checkpoint must be of the same fit, but in .* {what} differ"):
            Checkpoint(tmp_path / "s", *other).find()
    monkeypatch.setattr(checkpoint._native, "version", "0.0.1")
    with pytest.raises(sc.ParameterError, match=r"but in .* starcast differ"):
        Checkpoint(tmp_path / "s", model, shards).find()


def save_some(folder, table):
    """Leave a state behind; return a checkpoint that finds it."""
    model, shards = sc.ResBeMF(random_state=0), Shards.from_ratings(table, 2)
    rows = [np.zeros((3, 2), np.float32), np.ones((4, 2), np.float32)]
    state = State(0, [1.0, 2.0], {"n_kept": 1}, rows[0], rows)
    found = Checkpoint(folder, model, shards)
    found.save(state, SimpleNamespace(n_kept=1, draw=lambda at: {"rows": rows[0]}), lambda rows: rows)
    return found


def test_a_checkpoint_that_is_torn_or_of_another_version_is_told(table, tmp_path):
    found = save_some(tmp_path, table)
    latest = tmp_path / LATEST
    told = latest.read_text()
    for text in ("[]", "", told[:-20], told.replace("starcast checkpoint", "other"), '{"round": "x", "of": {}}', "\0"):
        latest.write_text(text)
        with pytest.raises(
            sc.FileFormatError, match=r"is not the checkpoint of a fit, or a damaged one\. Give another"
        ):
            found.find()
    latest.write_text(told.replace('"version": 1', '"version": 2'))
    with pytest.raises(
        sc.FileFormatError, match=r"of the format version 2; this Starcast reads 1\. Finish the fit with"
    ):
        found.find()
    latest.write_text(told)
    for file in (f"{ROUND}2/shared", f"{ROUND}2/users-1", f"{DRAW}0"):
        whole = (tmp_path / file).read_bytes()
        for torn in (whole[:-1], whole[:7], b""):
            (tmp_path / file).write_bytes(torn)
            with pytest.raises(sc.FileError, match=r"is not whole: .* Delete the folder to begin anew"):
                found.bring_draws(SimpleNamespace(put_draw=None), found.find())
        (tmp_path / file).write_bytes(whole)
    assert found.find().done == 2
    modelfile.write(tmp_path / f"{ROUND}2" / "users-1", {}, {})
    with pytest.raises(sc.FileError, match=r"is not whole: it lacks 'rows'"):
        found.find()


HOLD = """
import sys, time
import starcast as sc
from starcast.distributed.checkpoint import Checkpoint
from starcast.distributed.shards import Shards
table = sc.make_ratings(n_users=120, n_items=60, density=0.4, random_state=0)[0]
with Checkpoint(sys.argv[1], sc.ResBeMF(random_state=0), Shards.from_ratings(table, 2)).held():
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_fits_do_not_share_a_checkpoint(table, tmp_path):
    mine = save_some(tmp_path, table)
    other = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    told = rf"another fit works with the checkpoint in .*: process {other.pid} on "
    with pytest.raises(sc.FileError, match=told), mine.held():
        pass
    other.kill()  # which lets go
    other.communicate(timeout=30)
    told = rf"another fit works with .*: process {os.getpid()} on .*a folder of its own"
    with mine.held():
        with pytest.raises(sc.FileError, match=told), mine.held():
            pass
        assert mine.find().done == 2
    assert not (tmp_path / LOCK).exists()


def test_a_lock_that_was_removed_meanwhile_keeps_nobody_out(table, tmp_path, monkeypatch):
    mine, n_tries = save_some(tmp_path, table), []

    @contextlib.contextmanager
    def removed_by_the_one_before(file, is_patient):
        n_tries.append(1)
        if len(n_tries) == 1:
            (tmp_path / LOCK).unlink()
        yield

    monkeypatch.setattr(checkpoint, "alone", removed_by_the_one_before)
    with mine.held():
        assert len(n_tries) == 2
        assert (tmp_path / LOCK).exists()


def test_a_disk_without_locks_will_do(table, tmp_path, monkeypatch):
    def refuse(file, is_patient):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(checkpoint, "alone", refuse)
    with save_some(tmp_path, table).held():
        pass


def test_a_fit_refuses_a_checkpoint_that_another_holds(cluster, table, tmp_path):
    engine = sc.RayEngine(workers=2, checkpoint=tmp_path)
    model = sc.ResBeMF(random_state=0)
    held = Checkpoint(tmp_path, model, Shards.from_ratings(table, 2)).held()
    with held, pytest.raises(sc.FileError, match="another fit works with the checkpoint"):
        model.fit(table, engine=engine)


def test_a_draw_that_was_kept_survives_a_killed_driver(cluster, table, tmp_path, monkeypatch):
    """The driver's part of it: draws are read back, and the chain goes on with the same random numbers."""
    model = MODELS["ordinalmf"]
    undisturbed = model.clone().fit(table, engine=sc.RayEngine(workers=2, every=3))

    def stop(self, history):
        keep(self, history)
        if len(history) == 9:
            raise KeyboardInterrupt

    keep = Run._keep
    monkeypatch.setattr(Run, "_keep", stop)
    engine = sc.RayEngine(workers=2, every=3, checkpoint=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        model.clone().fit(table, engine=engine)
    assert (tmp_path / f"{DRAW}0").exists()
    monkeypatch.setattr(Run, "_keep", keep)
    assert_same_bits(undisturbed, model.clone().fit(table, engine=engine))
    assert engine.report_.resumed_from == 9


def fit_and_stop(table, folder, monkeypatch, **params):
    """Leave a checkpoint behind, as a driver that is killed after its fourth round does."""
    keep = Run._keep

    def and_stop(self, history):
        keep(self, history)
        if len(history) == 4:
            raise KeyboardInterrupt

    model = sc.ResBeMF(n_factors=3, n_iters=7, tolerance=0, **{"random_state": 0} | params)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Run, "_keep", and_stop)
        model.fit(table, engine=sc.RayEngine(workers=2, every=2, checkpoint=folder))
    return model


def test_a_checkpoint_that_lacks_a_part_is_told_and_other_files_stay(cluster, table, tmp_path, monkeypatch):
    (tmp_path / "round-1").mkdir()
    (tmp_path / "round-1" / "mine.txt").write_text("not yours")
    model = fit_and_stop(table, tmp_path, monkeypatch, random_state=np.int64(3))
    next(tmp_path.glob("*/users-1")).unlink()
    with pytest.raises(sc.FileError, match=r"is not whole: .* Delete the folder to begin anew"):
        model.fit(table, engine=sc.RayEngine(workers=2, checkpoint=tmp_path))
    (tmp_path / LATEST).unlink()
    model.fit(table, engine=sc.RayEngine(workers=2, checkpoint=tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["round-1", "mine.txt"]


@pytest.mark.parametrize("engine", [2, sc.RayEngine])
def test_an_engine_is_an_engine(table, engine):
    with pytest.raises(
        sc.ParameterError, match=r'engine must be "ray" or a RayEngine, such as RayEngine\(workers=2\), got'
    ):
        sc.ResBeMF().fit(table, engine=engine)


def test_a_checkpoint_is_a_path():
    with pytest.raises(sc.ParameterError, match="checkpoint must be the path of a folder, got 5"):
        sc.RayEngine(checkpoint=5)


@pytest.mark.parametrize("begin", range(8))
@pytest.mark.parametrize("chunk", [1, 3, 4, 100])
def test_rows_are_drawn_and_only_some_are_kept(begin, chunk):
    for end in range(begin, 8):
        rows = iter(range(7))
        drawn = draw_between(partial(draw_next, rows), 7, begin, end, chunk)
        assert drawn.ravel().tolist() == list(range(begin, min(end, 7)))
        assert next(rows, None) is None


def draw_next(rows, n):
    return np.array([[next(rows)] for _ in range(n)])


def test_many_factors_cost_a_question_a_block(cluster, table):
    model, engine = sc.ResBeMF(n_factors=18, n_iters=2, random_state=0), sc.RayEngine(workers=2)
    model.fit(table, engine=engine)
    cost = round_cost(model, users=120, items=60, ratings=len(table), workers=2)
    assert engine.report_.sent[0] == pytest.approx(cost.sent, rel=0.1)
    assert engine.report_.received[0] == pytest.approx(cost.received, rel=0.1)


def test_without_ray_the_error_names_the_extra(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(sc.MissingExtraError, match=r"on a cluster needs Ray\. Install it with: pip install 'starcast\[ray\]'"):  # fmt: skip
        sc.ResBeMF().fit(table, engine=sc.RayEngine(workers=2))
