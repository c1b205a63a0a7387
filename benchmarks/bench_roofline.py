"""How near the kernels come to what the machine can do: its multiply-adds and its bytes a second, measured in turns.

    python benchmarks/bench_roofline.py

`roofline.cpp` is compiled for this machine and says, with one thread and with all, how many operations a second
multiply-adds reach, how many exponentials, and how many bytes a second come from the second-level cache, from the last
one and from memory. In the same turns rounds are timed on MovieLens 1M. `rounds.py` counts what a round costs at least.

The roof of a pass is the longest of three times: its operations at the rate of multiply-adds; the others' rows at the
rate of the level that their table fits in (read in order, which rows are not: the harsher measure); and every table and
index once, from memory. A pass that kept rows in a nearer cache than their table fits in would come above it. The
fraction reached is the roof of both passes over the time of a round.

What the rest is: rounds with other numbers of factors give a line, time = a + b K. What grows with the factors (b K)
is compared with the roof of the products alone; what does not (a) is the link (its exponentials at the measured rate
are told apart), turning rows into columns and back, indices, and the ends of rows that fill no vector.

Answers are measured at the public doors, names and frames included: `predict_proba` for the training pairs, `recommend`
for every user, with 20 factors. A pair costs its products, a softmax and, in a list, mode and mean; what must be read
for lists is every row once.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import numpy as np
from rounds import DIVISION, EXP, RUN, TITLES, Rounds, cost

import starcast as sc
from starcast.kernels import instruction_set

FACTORS = measure.pick((8, 16, 32, 64), (8, 32))
TURNS = measure.pick(7, 2)
N_ROUNDS = 3  # in a call, so that what is made once a fit does not count as if it were once a round
CPU = Path("/sys/devices/system/cpu/cpu0/cache")
Machine = dict[str, float]


def main() -> None:
    train, _ = sc.benchmark_split(sc.load_movielens("1m"))
    tables = {k: Rounds(train, k) for k in FACTORS}
    program, caches = compiled(), cache_sizes()
    jobs: dict[Any, Callable[[], float | None]] = {}
    machines: list[dict[int, Machine]] = []

    def look_at_machine() -> None:
        machines.append({n: ask(program, n, caches) for n in sorted({1, measure.N_THREADS})})

    jobs["machine"] = look_at_machine
    for model in RUN:
        for k, table in tables.items():
            table.run(model, 1)  # makes the rows
            jobs[model, k] = lambda model=model, table=table: table.run(model, measure.N_THREADS, N_ROUNDS) and None
            if k == 32:
                jobs[model, k, 1] = lambda model=model, table=table: table.run(model, 1, N_ROUNDS) and None
    model = sc.ResBeMF(n_factors=20, n_iters=2, tolerance=0, random_state=0, n_jobs=measure.N_THREADS).fit(train)
    pairs = train.users[train.user], train.items[train.item]
    jobs["predict_proba"] = lambda: model.predict_proba(*pairs) and None
    jobs["recommend"] = lambda: model.recommend(n=10) is None or None
    seconds = measure.take_turns(jobs, TURNS)
    seconds = {job: [s / (N_ROUNDS if isinstance(job, tuple) else 1) for s in found] for job, found in seconds.items()}
    machine = {n: best_of([turn[n] for turn in machines]) for n in machines[0]}
    rows = [
        row(model, k, tables[k], seconds[model, k], machine[measure.N_THREADS], caches)
        for model in RUN
        for k in FACTORS
    ]
    rest = {model: what_is_left(model, tables, seconds, machine[measure.N_THREADS], rows) for model in RUN}
    doors = answers(train, seconds, machine[measure.N_THREADS], caches)
    figures = {"instruction_set": instruction_set(), "n_ratings": len(train), "turns": TURNS, "caches": caches}
    measure.write("roofline", figures | {"machine": machine, "rounds": rows, "rest": rest, "answers": doors})


def compiled() -> Path:
    """Return the program that measures the machine, compiled for it."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        sys.exit("measuring the machine needs a C++ compiler")
    program = measure.HERE.parent / "build" / "roofline"
    program.parent.mkdir(exist_ok=True)
    source = str(measure.HERE / "roofline.cpp")
    subprocess.run(
        [compiler, "-std=c++20", "-O3", "-march=native", "-pthread", "-Wno-psabi", source, "-o", str(program)],
        check=True,
    )
    return program


def cache_sizes() -> dict[str, int]:
    """Return the bytes of a core's second-level cache and of the last-level one, or usual ones where nobody says."""
    found = {"L2": 1 << 20, "L3": 32 << 20}
    for index in CPU.glob("index*"):
        level, size = f"L{(index / 'level').read_text().strip()}", (index / "size").read_text().strip()
        if level in found and size.endswith("K"):
            found[level] = int(size[:-1]) << 10
    return found


def ask(program: Path, n_threads: int, caches: dict[str, int]) -> Machine:
    told = subprocess.run(
        [program, *map(str, (n_threads, *caches.values()))], capture_output=True, text=True, check=True
    )
    return dict(json.loads(told.stdout))


def best_of(machines: list[Machine]) -> Machine:
    """Return the best of each rate: a roof is what can be reached, not what was left over in a noisy moment."""
    return {name: max(machine[name] for machine in machines) for name in machines[0]}


def level_of(n_bytes: float, caches: dict[str, int]) -> str:
    """Return where a table lies that all threads read."""
    return next((level for level, size in caches.items() if n_bytes <= size), "memory")


def roof(model: str, table: Rounds, machine: Machine, caches: dict[str, int], *, link: bool = True) -> dict[str, Any]:
    """Return the least seconds of a round, and operations, bytes and the level of the rows of its two passes."""
    price = cost(model, table.n_factors, table.n_scores)
    if not link:
        price = price._replace(operations=price.operations - cost(model, 0, table.n_scores).operations)
    total = {"seconds": 0.0, "operations": 0.0, "bytes": 0.0, "bound": [], "level": []}  # type: dict[str, Any]
    for own, others in ((0, 1), (1, 0)):
        operations = table.n_ratings * price.operations + table.sizes[own] * price.per_row
        rows = table.n_ratings * (4 * price.row_floats + 5)
        once = 4 * price.row_floats * (2 * table.sizes[own] + table.sizes[others]) + 5 * table.n_ratings
        level = level_of(4 * price.row_floats * table.sizes[others], caches)
        times = {
            "multiply-add": operations / machine["operations"],
            level: rows / machine[level],
            "memory, once": once / machine["memory"],
        }
        bound = max(times, key=times.__getitem__)
        total["seconds"] += times[bound]
        total["operations"] += operations
        total["bytes"] += rows
        total["bound"].append(bound)
        total["level"].append(level)
    return total


def row(
    model: str, k: int, table: Rounds, seconds: list[float], machine: Machine, caches: dict[str, int]
) -> dict[str, Any]:
    """Return how near a round comes to its roof."""
    least = roof(model, table, machine, caches)
    return {
        "model": model,
        "title": TITLES[model],
        "n_factors": k,
        "ms": measure.spread(1e3 * s for s in seconds),
        "roof_ms": measure.digits(1e3 * least["seconds"]),
        "fraction": measure.spread(least["seconds"] / s for s in seconds),
        "operations": measure.digits(least["operations"]),
        "bytes": measure.digits(least["bytes"]),
        "bound": least["bound"],
        "rows_in": least["level"],
        "operations_per_second": measure.digits(least["operations"] / min(seconds)),
    }


def what_is_left(
    model: str, tables: dict[int, Rounds], seconds: dict[Any, list[float]], machine: Machine, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return how the time of a round with 32 factors is made up, in milliseconds."""
    k, table = 32, tables[32]
    least = {n: min(seconds[model, n]) for n in FACTORS}
    slope, start = np.polyfit(FACTORS, [least[n] for n in FACTORS], 1)
    visits = 2 * table.n_ratings
    n_exponentials = 0 if model in ("pmf", "biasedmf") else table.n_scores * visits * (2 if model == "exact" else 1)
    alone = min(seconds[model, k, 1])
    found = {
        "round": least[k],
        "roof": next(row["roof_ms"] for row in rows if (row["model"], row["n_factors"]) == (model, k)) / 1e3,
        "grows_with_factors": slope * k,
        "roof_of_products": roof(model, table, machine, cache_sizes(), link=False)["seconds"],
        "does_not_grow": start,
        "exponentials": n_exponentials / machine["exponentials"],
        "lost_between_threads": least[k] - alone / measure.N_THREADS,
    }
    return {name: measure.digits(1e3 * float(value)) for name, value in found.items()}


def answers(
    train: sc.Ratings, seconds: dict[Any, list[float]], machine: Machine, caches: dict[str, int]
) -> list[dict[str, Any]]:
    """Return how near answers come to their roof; the time is that of the public door."""
    n_scores, sizes = len(train.scores), (len(train.users), len(train.items))
    floats = n_scores * 21  # factors and a bias per score
    pair = 2 * floats + (EXP + 4) * n_scores + DIVISION
    level = level_of(4 * floats * max(sizes), caches)
    rows = 4 * floats * sum(sizes)
    costs = {
        "predict_proba": (len(train), len(train) * pair, len(train) * (8 * floats + 4 * n_scores) / machine[level]),
        "recommend": (sizes[0] * sizes[1], sizes[0] * sizes[1] * (pair + 3 * n_scores), rows / machine["memory"]),
    }
    found = []
    for door, (n, operations, reading) in costs.items():
        least = max(operations / machine["operations"], reading)
        found.append({
            "door": door, "pairs": n, "ms": measure.spread(1e3 * s for s in seconds[door]),
            "roof_ms": measure.digits(1e3 * least), "fraction": measure.spread(least / s for s in seconds[door]),
        })  # fmt: skip
    return found


if __name__ == "__main__":
    measure.data_folder()
    main()
