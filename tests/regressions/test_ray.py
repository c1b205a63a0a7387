"""Work on a Ray cluster: how it is asked for, how it is shared out, and how it ends if Ray does."""

import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import starcast as sc
from starcast.distributed import cluster, lists
from starcast.distributed.shards import Shards

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table():
    return sc.make_ratings(n_users=30, n_items=20, density=0.5, random_state=0)[0]


def test_a_fit_takes_the_engine_by_its_name(table, monkeypatch):
    fits = []
    monkeypatch.setattr(sc.RayEngine, "fit", lambda engine, model, ratings: fits.append((engine.workers, ratings)))
    sc.ResBeMF().fit(table, engine="ray")
    sc.ResBeMF().fit(table, engine=sc.RayEngine(workers=3))
    assert fits == [(2, table), (3, table)]
    with pytest.raises(sc.UnknownNameError, match=r"unknown engine 'rey'\. Did you mean 'ray'\?"):
        sc.ResBeMF().fit(table, engine="rey")


def test_shards_are_told_as_the_workers_have_them(table, tmp_path):
    from starcast.scale_commands import open_shards

    Shards.from_ratings(table).save(tmp_path / "cut")
    assert "; 2 shards)" in repr(open_shards(str(tmp_path / "cut"), sc.RayEngine(workers=2), False, {}))
    assert len(open_shards(str(tmp_path / "cut"), sc.RayEngine(workers=99), False, {})) == 30  # a user each


def test_lists_have_parts_for_every_worker(table, tmp_path, monkeypatch):
    assert [lists.usual_users_per_part(n) for n in (100, 6_040, 160_000, 10**8)] == [500, 500, 10_000, 50_000]
    monkeypatch.setattr(lists, "usual_users_per_part", lambda n_users: n_users // 5)
    files = sc.recommend_all(sc.ItemFrequency().fit(table), tmp_path / "lists", n=2)
    assert len(files) == 5


def test_the_command_takes_the_users_of_a_part(table, tmp_path, monkeypatch, capsys):
    from starcast import cli

    sc.ItemFrequency().fit(table).save(tmp_path / "m.starcast")
    words = ["recommend", tmp_path / "m.starcast", "--out", tmp_path / "lists", "--users-per-part", 7]
    assert run(cli, words, monkeypatch) == 0
    assert len(list((tmp_path / "lists").glob("*.parquet"))) == 5  # of 30 users
    assert run(cli, [*words[:2], "3", "--users-per-part", 7], monkeypatch) == 2
    assert "--users-per-part is for the lists of all users in a folder" in " ".join(capsys.readouterr().err.split())


def run(cli, words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["starcast", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0


def test_the_ratio_in_the_table_of_overheads_is_that_of_its_medians(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import ray_figures

    seconds = {"one process": {"median": 0.4, "min": 0.3, "max": 0.5}, "two workers": {"median": 0.5, "min": 0.4, "max": 0.6}}  # fmt: skip
    found = {
        "command": "x", "cores": 2,
        "overhead": {"commit": "c", "size": {"ratings": 10}, "seconds of a round": seconds,
                     "ratio": {"median": 1.1, "min": 1.0, "max": 1.7}},
        "memory": {"cut": {"users": 9, "items": 9, "ratings": 9, "driver MB": 1},
                   "fit": {"driver MB": 1, "largest other MB": 1, "commit": "c"}},
    }  # fmt: skip
    text = ray_figures.overhead(found)
    assert "| the second median divided by the first | 1.25 |" in text
    assert (
        "| ratio within each turn of the two, one after the other: median (least to most) | 1.10 (1.00 to 1.70) |"
        in text
    )


def test_the_end_of_a_raylet_is_an_error_that_says_what_to_do(monkeypatch):
    here, there = socket.socketpair()
    here.setblocking(False)
    monkeypatch.setattr(cluster, "RAYLET_SOCKETS", {"raylet": here})
    cluster.check_raylet()  # it is there
    there.close()
    with pytest.raises(sc.ClusterError, match=r"the raylet of this machine \(raylet\) has ended.*Start Ray again"):
        cluster.check_raylet()
    here.close()


DRIVER = """
import sys, threading, time
import psutil
import starcast as sc
from starcast.distributed.cluster import connect

connect(2)
raylets = [child for child in psutil.Process().children(recursive=True) if child.name() == "raylet"]
table = sc.make_ratings(n_users=60, n_items=30, density=0.4, random_state=0)[0]

def end():
    time.sleep(1.0)
    for raylet in raylets:
        raylet.kill()

model = sc.BeMF(n_iters=10**7, random_state=0)
engine = sc.RayEngine(workers=2)
original = engine._threads
engine._threads = lambda ray: (threading.Thread(target=end, daemon=True).start(), original(ray))[1]
try:
    model.fit(table, engine=engine)
except sc.ClusterError as error:
    assert not model.is_fitted
    print(error)
    sys.exit(3)
"""


@pytest.mark.ray
def test_a_driver_that_loses_its_raylet_ends_with_an_error_of_ours(tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "driver.py").write_text(textwrap.dedent(DRIVER))
    done = subprocess.run(
        [sys.executable, tmp_path / "driver.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 3, done.stderr[-2000:]
    assert "has ended: it was killed, or ran out of memory. Start Ray again" in done.stdout
