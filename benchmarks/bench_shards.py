"""Ratings larger than memory, lists for all users, and the paper's search: time and the memory of every process.

python benchmarks/bench_shards.py [cut] [lists] [search]

Each job runs in a process of its own, without Ray and with 2 of its workers. The ratings of the first two are those of
many_ratings.py, in the folder that STARCAST_MANY names (made if it is not there; 50 million take 250 MB).
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import polars as pl
import psutil
from many_ratings import write_parts

import starcast as sc

MEMORY = "1GB"
N_RATINGS = measure.pick(50_000_000, 1_000_000)
N_TRIALS = measure.pick(50, 4)
ENGINES: dict[str, dict[str, Any]] = {"alone": {}, "two workers": {"engine": "ray", "workers": 2}}


class Watch:
    """Keeps the largest resident memory of this process and of each that it started, in megabytes."""

    def __enter__(self) -> "Watch":
        self.here, self.others, self._stop = 0.0, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.1):
            self.here = max(self.here, me.memory_info().rss / 1e6)
            for child in me.children(recursive=True):
                try:
                    self.others = max(self.others, child.memory_info().rss / 1e6)
                except psutil.NoSuchProcess:
                    continue


def cut(folder: Path, engine: dict[str, Any]) -> dict[str, Any]:
    """Parts to a folder of shards."""
    shards = sc.cut_ratings(many(), folder / "cut", memory=MEMORY, **engine)
    return {"ratings": shards.n_ratings, "users": len(shards.users), "digest": shards.digest}


def lists(folder: Path, engine: dict[str, Any]) -> dict[str, Any]:
    """Ten items for every user of a model of 20 factors."""
    file = folder / "m.starcast"
    part = sc.read_ratings(sorted(many().glob("*.parquet"))[0])
    sc.ResBeMF(n_factors=20, n_iters=2, random_state=0).fit(part).save(file)
    began = time.perf_counter()
    files = sc.recommend_all(file, folder / "lists", **engine)
    seconds = time.perf_counter() - began
    found = pl.concat([pl.read_parquet(file) for file in files])
    return {"users": len(part.users), "items": len(part.items), "rows": len(found), "listing seconds": seconds,
            "digest": str(found.hash_rows().sum())}  # fmt: skip


def search(folder: Path, engine: dict[str, Any]) -> dict[str, Any]:
    """A sample of the paper's search: ResBeMF on MovieLens 100K, five folds."""
    table = sc.search(
        "resbemf", sc.benchmark_split(sc.load_movielens("100k")).train, sc.SPACES["resbemf"]["ml-100k"], cv=5,
        objectives=["nll", "1-MAE@0.5", "coverage@0.5"], n_trials=N_TRIALS, random_state=0, **engine,
    )  # fmt: skip
    rows = [{name: repr(value) for name, value in row.items() if name != "seconds"} for row in table]
    return {"trials": len(rows), "table": rows, "seconds in fits": sum(table["seconds"])}


JOBS: dict[str, Callable[[Path, dict[str, Any]], dict[str, Any]]] = {"cut": cut, "lists": lists, "search": search}


def many() -> Path:
    """Return the folder of the parts."""
    return Path(os.environ["STARCAST_MANY"])


def run_one(job: str, who: str) -> None:
    """Run a job in this process and print what it found and took."""
    with tempfile.TemporaryDirectory() as folder:
        if ENGINES[who]:
            from starcast.distributed.cluster import connect

            connect(2)
        with Watch() as watch:
            began = time.perf_counter()
            found = JOBS[job](Path(folder), ENGINES[who])
            seconds = time.perf_counter() - began
    figures = {
        "seconds": measure.digits(seconds),
        "driver MB": round(watch.here),
        "largest other MB": round(watch.others),
    }
    print(json.dumps(figures | found))


def ask(job: str, who: str) -> dict[str, Any]:
    """Run a job in a process of its own."""
    run = subprocess.run([sys.executable, __file__, "--one", job, who], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main(jobs: list[str]) -> None:
    """Run the jobs and keep the figures of those that were not run."""
    file = measure.RESULTS / "shards.json"
    figures = json.loads(file.read_text()) if file.exists() else {}
    figures = {name: figures[name] for name in JOBS if name in figures}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("STARCAST_MANY", folder)
        if not list(many().glob("*.parquet")):
            write_parts(many(), N_RATINGS)
        for job in jobs or JOBS:
            found = {who: ask(job, who) for who in ENGINES}
            same = [{key: row.pop(key) for key in ("digest", "table") if key in row} for row in found.values()]
            figures[job] = found | {"same": same[0] == same[1]}
            measure.write("shards", figures | {"memory": MEMORY})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(*sys.argv[2:4])
    else:
        main(sys.argv[1:])
