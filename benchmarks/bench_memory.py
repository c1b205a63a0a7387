"""By how much a process grows at most, job by job, each in a process of its own; other libraries beside it.

python benchmarks/bench_memory.py
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import numpy as np
from contest import EPOCHS, JOBS, N_FACTORS
from peers import Peer, hand_over, known_part
from rounds import like_movielens

import starcast as sc

MILLIONS = measure.pick(10, 1)
Job = Callable[[], Any]


def movielens() -> sc.Ratings:
    return sc.benchmark_split(sc.load_movielens("1m")).train


def read() -> Job:
    """Reading MovieLens 1M"""
    file = measure.data_folder() / "ml-1m" / "ratings.dat"
    return lambda: sc.read_ratings(file)


def fit_resbemf() -> Job:
    """Fitting ResBeMF, 20 factors, to MovieLens 1M"""
    train = movielens()
    return lambda: sc.ResBeMF(n_factors=N_FACTORS, update="gradient", **JOBS).fit(train)


def fit_ordinalmf() -> Job:
    """Fitting OrdinalMF, defaults, to MovieLens 1M"""
    train = movielens()
    short = {"burn_in": 1, "thin": 1, "n_iters": 1}  # rounds take time, not memory
    return lambda: sc.OrdinalMF(**short, **JOBS).fit(train)


def fit_millions() -> Job:
    """Fitting ResBeMF, 10 factors, 10 scores, to millions of ratings in the shape of MovieLens 10M"""
    ratings = like_movielens(MILLIONS * 1_000_000, 70_000, 10_000, 10)
    return lambda: sc.ResBeMF(n_factors=10, n_iters=3, tolerance=0, **JOBS).fit(ratings)


def predict() -> Job:
    """Predicting the training pairs of MovieLens 1M, ResBeMF, 20 factors"""
    train = movielens()
    model = sc.ResBeMF(n_factors=N_FACTORS, n_iters=1, **JOBS).fit(train)
    pairs = train.users[train.user], train.items[train.item]
    return lambda: model.predict_proba(*pairs)


def recommend() -> Job:
    """Ten items for every user of MovieLens 1M, ResBeMF, 20 factors"""
    model = sc.ResBeMF(n_factors=N_FACTORS, n_iters=1, **JOBS).fit(movielens())
    return lambda: model.recommend(n=10)


def load() -> Job:
    """Loading OrdinalMF, 64 draws, fitted to MovieLens 1M"""
    short = {"burn_in": 1, "thin": 1, "n_iters": 1, "n_draws": measure.pick(64, 16)}
    with tempfile.NamedTemporaryFile(suffix=".starcast", delete=False) as file:
        sc.OrdinalMF(**short, **JOBS).fit(movielens()).save(file.name)
    return lambda: sc.load(file.name)


OURS = {job.__name__: job for job in (read, fit_resbemf, fit_ordinalmf, fit_millions, predict, recommend, load)}


def main() -> None:
    if len(sys.argv) > 1:
        job = OURS[sys.argv[1]]()
        with measure.Peak() as peak:
            kept = job()
        print(json.dumps({"megabytes": peak.megabytes}), bool(kept is None))
        return
    rows = [alone(name, job) for name, job in OURS.items()]
    measure.write("memory", {"table_bytes_per_rating": table(), "jobs": rows + others()})


def table() -> float:
    """Return the bytes that a rating takes in a table, names aside."""
    rng, n = np.random.default_rng(0), MILLIONS * 1_000_000
    pairs = rng.choice(70_000 * 10_000, n, replace=False)
    return sc.Ratings.from_arrays(pairs // 10_000, pairs % 10_000, rng.integers(1, 11, n)).nbytes / n


def alone(name: str, job: Callable[[], Job]) -> dict[str, Any]:
    """Return what a job of ours takes in a process that does nothing else."""
    told = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
    if told.returncode:
        sys.exit(told.stderr)
    megabytes = json.loads(told.stdout.split("}")[0] + "}")["megabytes"]
    about = {"job": name, "library": "starcast", "title": job.__doc__, "megabytes": megabytes}
    return about | ({"millions": MILLIONS} if name == "fit_millions" else {})


def others() -> list[dict[str, Any]]:
    """Return what fits and lists of other libraries take, a process for each library."""
    train, test = sc.benchmark_split(sc.load_movielens("1m"))
    test = known_part(train, test)
    users = list(range(measure.pick(len(train.users), 100)))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = hand_over(train, test, Path(folder))
        for name, n_epochs in EPOCHS.items():
            peer = Peer(name, file)
            fitted = peer.ask("fit", n_factors=N_FACTORS, n_epochs=2 if measure.QUICK else n_epochs)
            some = users[:400] if name == "surprise" else users
            how = {"n_jobs": 1} if name == "lenskit" else {}
            listed = peer.ask("recommend", users=some, n=10, **how)
            peer.close()
            rows += [{"job": job, "library": name, "version": peer.version, "megabytes": told["megabytes"]}
                     for job, told in (("open", peer.opened), ("fit", fitted), ("recommend", listed))]  # fmt: skip
    return rows


if __name__ == "__main__":
    measure.data_folder()
    main()
