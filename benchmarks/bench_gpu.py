"""Rounds, fits, the paper's search and lists on a GPU.

    python benchmarks/bench_gpu.py [rounds] [fit] [search] [recommend]

Parts that are not asked for keep the figures, and the commits, that the file of results has.

Rounds and fits are of ratings in the shape of MovieLens 10M: 8.4 million by 69,878 users of 10,677 items on ten scores,
with as skewed a crowd. Times are medians after a warm-up that compiles the kernels; the first fit of a process, which
compiles or loads them, is told apart. `search` is the paper's of ResBeMF on MovieLens 1M, 500 settings and 5 folds, as
``starcast reproduce ml-1m --stage search --models resbemf --device cuda`` runs it; with STARCAST_PUBLISHED set, the
values of its folds are compared with the published ones.
"""

import csv
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch
import triton

import starcast as sc
from starcast.kernels.gpu.climb import Climb
from starcast.kernels.gpu.device import cut_ratings, find_device
from starcast.models.resbemf import curvature_weights, spread_scores

N_RATINGS, N_USERS, N_ITEMS, N_SCORES = 8_400_000, 69_878, 10_677, 10
LONGEST = 37  # times the mean: the most that an item of MovieLens 10M was rated


def movielens_10m_shape() -> sc.Ratings:
    """Return ratings with as many users, items and scores as MovieLens 10M has, drawn from tastes of two numbers."""
    rng = np.random.default_rng(0)
    users, items = rng.lognormal(0, 1.0, N_USERS), rng.lognormal(0, 1.6, N_ITEMS)
    items = np.minimum(items, LONGEST * items.mean())
    drawn = [rng.choice(len(w), N_RATINGS, p=w / w.sum()).astype(np.int32) for w in (users, items)]
    names = np.arange(N_USERS), np.arange(N_ITEMS), np.arange(1, N_SCORES + 1) / 2
    taste = [rng.normal(0, 1, (n, 3)).astype(np.float32) for n in (N_USERS, N_ITEMS)]
    user, item = (tastes[codes] for tastes, codes in zip(taste, drawn, strict=True))
    liking = 6 + user[:, 0] + item[:, 0] + (user[:, 1:] * item[:, 1:]).sum(1) + rng.normal(0, 1, N_RATINGS)
    return sc.Ratings(*names, *drawn, np.clip(np.rint(liking), 0, N_SCORES - 1).astype(np.int8))


def rounds(ratings: sc.Ratings) -> dict[str, Any]:
    """Milliseconds of a round, and the traffic that it amounts to if every rating reads the other's row once a side."""
    found = []
    sides = cut_ratings(ratings, find_device())
    rng = np.random.default_rng(0)
    prior = np.full(N_SCORES, 1 / N_SCORES)
    for biased in (False, True):
        for n_factors in (10, 20, 40):
            shape = (n_factors + biased, N_SCORES)
            planes = tuple(rng.normal(0, 0.1, (n, *shape)).astype(np.float32) for n in (N_USERS, N_ITEMS))
            climb = Climb(
                sides, planes, np.log(prior), spread_scores(ratings.scores), curvature_weights(prior), biased=biased,
                regularization=10.0, bias_regularization=2.0,
            )  # fmt: skip
            ms = median_ms(climb.round)
            traffic = 2 * N_RATINGS * int(np.prod(shape)) * 4
            found.append({
                "model": "resbemf", "n_factors": n_factors, "biases": biased, "ms": ms, "bytes": traffic,
                "tb_per_s": traffic / ms / 1e9,
            })  # fmt: skip
            print(found[-1], flush=True)
    return {"rounds": [*found, *ordinal_rounds(ratings)]}


def ordinal_rounds(ratings: sc.Ratings) -> list[dict[str, Any]]:
    """The same of OrdinalMF; its prior is learnt every other round, so that two rounds are timed together."""
    from starcast.models.ascent import Ascent
    from starcast.models.chain import Chain, tie_scores

    found = []
    for n_factors in (16, 40):
        ties = tie_scores(ratings.counts() / len(ratings), n_factors, 4)
        ascent = Ascent(Chain(ratings, ties, 16, 0, measure.N_THREADS), "cuda")
        ms = median_ms(lambda ascent=ascent: (ascent.climb(), ascent.climb())) / 2
        traffic = 2 * N_RATINGS * (n_factors + 4 + N_SCORES) * 4
        found.append({
            "model": "ordinalmf", "n_factors": n_factors, "n_spread_factors": 4, "ms": ms,
            "busy_ms": busy_ms(ascent.climb), "bytes": traffic, "tb_per_s": traffic / ms / 1e9,
        })  # fmt: skip
        print(found[-1], flush=True)
    return found


def fit(ratings: sc.Ratings) -> dict[str, float]:
    """Seconds of the whole call of fit, 100 rounds with 20 factors, ratings in host memory."""
    seconds = []
    for _ in range(4):
        model = sc.ResBeMF(n_factors=20, n_iters=100, update="gradient", tolerance=0, device="cuda", random_state=0)
        began = time.perf_counter()
        model.fit(ratings)
        seconds.append(time.perf_counter() - began)
    return {
        "fit_seconds": float(np.median(seconds[1:])), "first_fit_seconds": seconds[0], "fit_rounds": model.n_iter_,
    }  # fmt: skip


def search(_: object = None) -> dict[str, float]:
    """Seconds of the paper's search of ResBeMF on MovieLens 1M, and how far it is from the published one."""
    from starcast.reproduce.run import Run
    from starcast.reproduce.searching import run_search

    with tempfile.TemporaryDirectory() as folder:
        run = Run("ml-1m", Path(folder), ("resbemf",), device="cuda")
        began = time.perf_counter()
        run_search(run)
        seconds = time.perf_counter() - began
        return {"search_seconds": seconds} | distance(run.search_file("resbemf"))


def distance(file: Path) -> dict[str, float]:
    """How far the values of the folds are from the published ones."""
    published = os.environ.get("STARCAST_PUBLISHED")
    if not published:
        return {}
    names = ("numIters", "numFactors", "learningRate", "regularization")
    tables = []
    for source in (file, Path(published) / "gridsearch" / "ml1m" / "resbemf.csv"):
        with source.open(newline="") as text:
            tables.append({tuple(row[name] for name in names): row for row in csv.DictReader(text)})
    mine, theirs = tables
    columns = [name for name in next(iter(mine.values())) if "_fold_" in name]
    away = np.array([abs(float(mine[key][name]) - float(theirs[key][name])) for key in theirs for name in columns])
    return {
        "search_values": len(away), "search_values_within_1e-12": int((away < 1e-12).sum()),
        "search_farthest": float(away.max()),
    }  # fmt: skip


def recommend(_: object = None) -> dict[str, float]:
    """Users a second for lists of ten, all users of MovieLens 1M, 20 factors; and the share of lists as on the CPU."""
    ratings = sc.read_ratings(measure.data_folder() / "ml-1m" / "ratings.dat")
    model = sc.ResBeMF(n_factors=20, n_iters=20, update="gradient", device="cuda", random_state=0).fit(ratings)
    model.recommend(n=10)
    seconds = min(measure.clock(lambda: model.recommend(n=10)) for _ in range(5))
    lists = [model.set_params(device=device).recommend(n=10)["item"].to_numpy() for device in ("cuda", "cpu")]
    return {
        "recommend_users_per_second": len(model.users_) / seconds,
        "recommend_share_as_on_the_cpu": float((lists[0] == lists[1]).mean()),
    }


def busy_ms(run: Any, n: int = 20) -> float:
    """Return the milliseconds of a call in which the GPU is at work, not waiting for the next order."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        for _ in range(n):
            run()
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in watched.key_averages()) / n / 1e3


def median_ms(run: Any) -> float:
    """Return the median milliseconds of a call, waited for."""
    for _ in range(3):
        run()
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return float(np.median(times)) * 1e3


PARTS = {"rounds": rounds, "fit": fit, "search": search, "recommend": recommend}


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    file = measure.RESULTS / "gpu.json"
    before = json.loads(file.read_text()) if file.exists() and set(wanted) != set(PARTS) else {}
    commits = before.get("commits", dict.fromkeys(PARTS, before.get("commit")))
    facts = measure.facts()
    kept = {name: value for name, value in before.items() if name not in facts}
    figures: dict[str, Any] = kept | {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
        "commits": commits | dict.fromkeys(wanted, facts["commit"]),
    }  # fmt: skip
    ratings = movielens_10m_shape() if {"rounds", "fit"} & set(wanted) else None
    for part in wanted:
        figures |= PARTS[part](ratings)
    measure.write("gpu", figures)


if __name__ == "__main__":
    main()
