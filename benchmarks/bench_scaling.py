"""How a round grows: with ratings, with factors, with scores, and how it shrinks with threads.

    python benchmarks/bench_scaling.py [ratings] [factors] [scores] [threads]

Random ratings in the shape of MovieLens; nanoseconds for one visit of one rating (a round makes two). Where the job is
the same, an epoch of scikit-surprise's SVD (one visit a rating, one thread) stands beside it, in the same turns.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import measure
from peers import Peer, hand_over
from rounds import RUN, TITLES, Rounds, like_movielens

RATINGS = measure.pick((250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000), (100_000, 400_000))
FACTORS = measure.pick((4, 8, 16, 32, 64, 128), (4, 16, 64))
SCORES = measure.pick((2, 3, 5, 7, 10, 15, 20), (2, 5, 10))
THREADS = sorted({1, *(n for n in (2, 4, 8, 16, 32, 64) if n < measure.N_THREADS), measure.N_THREADS})
TURNS = measure.pick(5, 2)
N_ROUNDS = 2  # in a call
MIDDLE = measure.pick(1_000_000, 200_000)
SLOW = {"dirmf", "exact"}  # whose largest settings would take minutes and tell nothing new
ABOUT = {
    "ratings": "8 factors, 5 scores; users and items grow with the ratings",
    "factors": f"{MIDDLE:,} ratings, 5 scores",
    "scores": f"{MIDDLE:,} ratings, 8 factors",
    "threads": f"{MIDDLE:,} ratings, 5 scores, 16 factors",
}
Curve = dict[str, Any]


def ratings() -> Curve:
    """Return the cost of a visit by the number of ratings."""
    tables = {n: Rounds(like_movielens(n, n // 120, 4_000 + n // 1000, 5), 8) for n in RATINGS}
    return curve("ratings", tables, surprise={n: 8 for n in RATINGS if n <= 2_000_000})


def factors() -> Curve:
    """Return the cost of a visit by the number of factors."""
    table = like_movielens(MIDDLE, 6_000, 4_000, 5)
    return curve("factors", {k: Rounds(table, k) for k in FACTORS}, surprise={k: k for k in FACTORS})


def scores() -> Curve:
    """Return the cost of a visit by the number of scores."""
    return curve("scores", {s: Rounds(like_movielens(MIDDLE, 6_000, 4_000, s), 8) for s in SCORES}, surprise={})


def threads() -> Curve:
    """Return the cost of a visit by the number of threads."""
    table = Rounds(like_movielens(MIDDLE, 6_000, 4_000, 5), 16)
    return curve("threads", dict.fromkeys(THREADS, table), surprise={})


def curve(axis: str, tables: dict[int, Rounds], surprise: dict[int, int]) -> Curve:
    """Return nanoseconds a visit of every model at every point of an axis, all taking turns."""
    jobs: dict[Any, Callable[[], float | None]] = {}
    with svds({at: (tables[at], n_factors) for at, n_factors in surprise.items()}) as peers:
        for at, table in tables.items():
            n_threads = at if axis == "threads" else measure.N_THREADS
            for model in RUN:
                if model in SLOW and (table.n_ratings > 2_000_000 or table.n_factors > 64):
                    continue
                table.run(model, n_threads)  # makes what rounds move
                jobs[model, at] = lambda table=table, model=model, n=n_threads: table.run(model, n, N_ROUNDS) and None
            if at in peers:
                jobs["svd", at] = peers[at]
        seconds = measure.take_turns(jobs, TURNS)
    lines: dict[str, Any] = {}
    for (model, at), found in seconds.items():
        visits = tables[at].n_ratings * (1 if model == "svd" else 2 * N_ROUNDS)
        line = lines.setdefault(model, {"title": TITLES.get(model, "Surprise's SVD"), "at": [], "ns": []})
        line["at"].append(at)
        line["ns"].append(measure.spread(1e9 * s / visits for s in found))
    return {"about": ABOUT[axis], "lines": lines}


@contextmanager
def svds(wanted: dict[int, tuple[Rounds, int]]) -> Iterator[dict[int, Callable[[], float]]]:
    """Give, for each point, a job that says the seconds of an epoch of Surprise's SVD on that table."""
    opened: dict[int, Peer] = {}
    with tempfile.TemporaryDirectory() as folder:
        for table, _ in wanted.values():
            if table.n_ratings not in opened:
                opened[table.n_ratings] = Peer("surprise", hand_over(table.ratings, table.ratings, Path(folder)))

        def epoch(at: int) -> float:
            table, n_factors = wanted[at]
            one, five = (opened[table.n_ratings].ask("fit", n_factors=n_factors, n_epochs=n)["seconds"] for n in (1, 5))
            return float(five - one) / 4

        try:
            yield {at: lambda at=at: epoch(at) for at in wanted}
        finally:
            for peer in opened.values():
                peer.close()


PARTS: dict[str, Callable[[], Curve]] = {"ratings": ratings, "factors": factors, "scores": scores, "threads": threads}


def main(parts: list[str]) -> None:
    file = measure.RESULTS / "scaling.json"
    curves = json.loads(file.read_text())["curves"] if parts and file.exists() else {}
    for part in parts or PARTS:
        curves[part] = PARTS[part]()
    measure.write("scaling", {"turns": TURNS, "curves": curves})


if __name__ == "__main__":
    main(sys.argv[1:])
