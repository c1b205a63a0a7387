"""Speed of the factorizations on MovieLens 1M, in one run with scikit-surprise's SVD; growth and memory.

    python benchmarks/bench_factorizations.py [rounds] [converge] [threads] [growth] [memory]

Needs scikit-surprise (make bench installs it). A round is one pass over the users and one over the items, compared
with one epoch of Surprise's SVD with the same 8 factors. Bars: ResBeMF and BeMF 12 times faster, PMF and BiasedMF 15
times; the exact fit to within 0.002 of its converged log-loss in a third of the time of SVD with 100 factors and 20
epochs; 1.7 times from one thread to two; at most 700 MB more for 10 million ratings, 10 scores and 10 factors.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import measure
import numpy as np
import psutil

import starcast as sc
from starcast.kernels import fast, instruction_set, make_sides
from starcast.models.per_score import pack

N_FACTORS = 8
MODELS = ("resbemf", "bemf", "pmf", "biasedmf", "dirmf", "exact")


class Rounds:
    """Rounds of every model on one table; each goes on from where its last one ended."""

    def __init__(self, ratings: sc.Ratings, n_factors: int = N_FACTORS) -> None:
        rng = np.random.default_rng(0)
        sizes, n_scores = (len(ratings.users), len(ratings.items)), len(ratings.scores)
        self.sides, self.n_factors = make_sides(ratings), n_factors
        self.spread = np.linspace(-1, 1, n_scores).astype(np.float32)
        self.scores = ratings.scores.astype(np.float32)
        self.base = np.zeros(n_scores, np.float32)

        def planes(extra: int) -> list[Any]:
            return [pack(rng.normal(0, 0.1, (n, n_factors + extra, n_scores)).astype(np.float32)) for n in sizes]

        self.planes = {"resbemf": planes(0), "bemf": planes(0), "dirmf": planes(0), "exact": planes(1)}
        stride = -(-n_factors // 8) * 8
        self.vectors = [rng.normal(0, 0.1, (n, stride)).astype(np.float32) for n in sizes]
        self.biases = [np.zeros(n, np.float32) for n in sizes]

    def run(self, name: str, n_threads: int = 2, n_rounds: int = 1) -> None:
        """Run some rounds of one model."""
        if name in ("pmf", "biasedmf"):
            biases = self.biases if name == "biasedmf" else [None, None]
            fast.fit_point(*self.sides, *self.vectors, *biases, self.scores, 3.5, 0.005, 0.02, n_rounds, n_threads)
        elif name == "exact":
            fast.fit_resbemf_exact(
                *self.sides, *self.planes[name], self.base.copy(), self.spread, self.n_factors, True, 10.0, 2.0, 0.0,
                n_rounds, -1.0, n_threads,
            )  # fmt: skip
        else:
            values = self.scores if name == "dirmf" else self.spread
            fast.fit_gradient(
                name, *self.sides, *self.planes[name], self.base, values, self.n_factors, learning_rate=1e-4,
                regularization=0.05, n_rounds=n_rounds, n_threads=n_threads,
            )  # fmt: skip


def surprise_trainset(ratings: sc.Ratings) -> Any:
    """Return the ratings as Surprise wants them."""
    from surprise import Dataset, Reader

    dataset = Dataset.__new__(Dataset)  # as its loaders do, without a file
    dataset.reader = Reader(rating_scale=(ratings.scores[0], ratings.scores[-1]))
    return dataset.construct_trainset(
        [(u, i, v, None) for u, i, v in zip(ratings.user.tolist(), ratings.item.tolist(), ratings.values, strict=True)]
    )


def rounds(train: sc.Ratings) -> dict[str, float]:
    """How many times faster than an epoch of Surprise a round is."""
    from surprise import SVD

    table, trainset = Rounds(train), surprise_trainset(train)
    jobs: dict[str, Callable[[], Any]] = {
        f"{n} epochs": lambda n=n: SVD(n_factors=N_FACTORS, n_epochs=n, random_state=0).fit(trainset) for n in (1, 6)
    }
    jobs |= {name: lambda name=name: table.run(name, n_rounds=5) for name in MODELS}
    seconds = measure.race(jobs, repeats=9)
    epoch = (seconds["6 epochs"] - seconds["1 epochs"]) / 5  # without Surprise's set-up
    return {f"round of {name}, times faster than an epoch": epoch / (seconds[name] / 5) for name in MODELS}


def converge(train: sc.Ratings, test: sc.Ratings) -> dict[str, float]:
    """The time of the exact fit to within 0.002 of its converged test NLL, as a share of Surprise's SVD(100, 20)."""
    from surprise import SVD

    def loss(n_iters: int, tolerance: float = 0.0) -> float:
        model = sc.ResBeMF(n_iters=n_iters, tolerance=tolerance, random_state=0).fit(train)
        return float(sc.evaluate(model, test, [0.0]).rows[0]["nll"])

    end = loss(300, 1e-7)
    enough = next(n for n in range(1, 300) if loss(n) <= end + 0.002)
    trainset = surprise_trainset(train)
    seconds = measure.race(
        {
            "exact": lambda: sc.ResBeMF(n_iters=enough, tolerance=0, random_state=0).fit(train),
            "surprise": lambda: SVD(n_factors=100, n_epochs=20, random_state=0).fit(trainset),
        },
        repeats=3,
    )
    return {
        "converged NLL": end,
        "rounds to within 0.002 of it": enough,
        "time of these, share of SVD(100 factors, 20 epochs)": seconds["exact"] / seconds["surprise"],
    }


def threads(train: sc.Ratings) -> dict[str, float]:
    """How many times faster two threads are than one."""
    table = Rounds(train)
    jobs = {(name, n): lambda name=name, n=n: table.run(name, n, 3) for name in MODELS for n in (1, 2)}
    seconds = measure.race(jobs, repeats=9)
    return {f"{name}, two threads against one": seconds[name, 1] / seconds[name, 2] for name in MODELS}


def growth() -> dict[str, list[float]]:
    """Nanoseconds a rating, relative to the first: flat is linear."""
    figures = {}
    by_ratings = {n: Rounds(synthetic(n * 1_000_000, 20_000, 5_000, 5)) for n in (1, 2, 4, 8)}
    by_factors = {k: Rounds(synthetic(1_000_000, 6_000, 4_000, 5), k) for k in (4, 8, 16, 32, 64)}
    for name in MODELS:
        for what, tables in (("ratings (millions)", by_ratings), ("factors", by_factors)):
            jobs = {size: lambda table=table, name=name: table.run(name) for size, table in tables.items()}
            seconds = measure.race(jobs, repeats=5)
            first = seconds[min(tables)] / min(tables)
            key = f"{name}, time per unit at {', '.join(map(str, tables))} {what}"
            figures[key] = [round(seconds[size] / size / first, 2) for size in tables]
    return figures


def memory() -> dict[str, float]:
    """Megabytes that fitting 10 million ratings with 10 scores and 10 factors adds at the peak."""
    ratings = synthetic(10_000_000, 70_000, 10_000, 10)
    me = psutil.Process()
    before = peak = me.memory_info().rss
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, me.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    sc.ResBeMF(n_factors=10, n_iters=3, tolerance=0, random_state=0).fit(ratings)
    done.set()
    watcher.join()
    return {"fitting 10 million ratings, MB more at the peak": (peak - before) / 1e6}


def synthetic(n: int, n_users: int, n_items: int, n_scores: int) -> sc.Ratings:
    """Return random ratings, some items rated much more than others; pairs may repeat, which no kernel minds."""
    rng = np.random.default_rng(0)
    item = np.minimum((n_items * rng.random(n, dtype=np.float32) ** 2).astype(np.int32), n_items - 1)
    names = np.arange(n_users), np.arange(n_items), np.arange(1.0, n_scores + 1)
    return sc.Ratings(*names, rng.integers(0, n_users, n, np.int32), item, rng.integers(0, n_scores, n, np.int8))


def main() -> None:
    wanted = sys.argv[1:] or ["memory", "rounds", "converge", "threads", "growth"]
    figures: dict[str, Any] = {"instruction set": instruction_set()}
    if "memory" in wanted:  # first, in a small process
        figures |= memory()
    train, test = sc.benchmark_split(sc.read_ratings(measure.data_folder() / "ml-1m" / "ratings.dat"))
    begin = time.perf_counter()
    if "rounds" in wanted:
        figures |= rounds(train)
    if "converge" in wanted:
        figures |= converge(train, test)
    if "threads" in wanted:
        figures |= threads(train)
    if "growth" in wanted:
        figures |= growth()
    measure.write("factorizations", figures)
    print(f"{time.perf_counter() - begin:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()
