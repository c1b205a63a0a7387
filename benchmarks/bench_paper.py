"""The paper's fitting times beside ours, for as many rounds and factors as it used: context, since machines differ.

    STARCAST_PUBLISHED=… python benchmarks/bench_paper.py

The paper's are read from its published files (test-split/*/fittingTime.csv, a row per setting of the front: Java, all
cores of a machine that it does not name). Ours: a round is timed for every number of factors of those settings, in
single precision, and counted as often as the setting has rounds; on MovieLens 1M itself, and on random ratings in the
shape of MovieLens 10M.
"""

import os
import statistics
import sys
from pathlib import Path
from typing import Any

import measure
from rounds import Rounds, like_movielens

import starcast as sc
from starcast.reproduce import front_rows
from starcast.reproduce.published import read_times

MODELS = {"ResBeMF": "plain", "BeMF": "bemf", "DirMF": "dirmf"}
N_ROUNDS = 2


def main() -> None:
    published = Path(os.environ.get("STARCAST_PUBLISHED", ""))
    if not (published / "test-split").is_dir():
        sys.exit("set STARCAST_PUBLISHED to the folder of the published results (gridsearch, test-split)")
    tables = {"ml1m": ("MovieLens 1M", sc.benchmark_split(sc.load_movielens("1m")).train)}
    if not measure.QUICK:
        tables["ml10m"] = ("MovieLens 10M (its shape)", like_movielens(8_400_000, 69_878, 10_677, 10))
    rows = []
    for folder, (title, ratings) in tables.items():
        java = read_times(published / "test-split" / folder / "fittingTime.csv")
        for name, model in MODELS.items():
            settings = front_rows(published / "gridsearch" / folder / f"{name.lower()}.csv")
            ours = fitting_times(ratings, model, [(int(row["numFactors"]), int(row["numIters"])) for row in settings])
            rows.append({
                "data": title, "model": name, "settings": len(settings),
                "java_seconds": mean_and_deviation(java[name]), "seconds": mean_and_deviation(ours),
                "ratio": measure.digits(statistics.mean(java[name]) / statistics.mean(ours)),
            })  # fmt: skip
    measure.write("paper", {"rows": rows})


def fitting_times(ratings: sc.Ratings, model: str, settings: list[tuple[int, int]]) -> list[float]:
    """Return the seconds of every setting (factors, rounds)."""
    a_round = {}
    for k in sorted({k for k, _ in settings}):
        table = Rounds(ratings, k)
        table.run(model, measure.N_THREADS)  # makes the rows
        took = [
            measure.clock(lambda t=table: t.run(model, measure.N_THREADS, N_ROUNDS)) for _ in range(measure.pick(3, 1))
        ]
        a_round[k] = min(took) / N_ROUNDS
    return [n_rounds * a_round[k] for k, n_rounds in settings]


def mean_and_deviation(values: list[float]) -> list[Any]:
    return [measure.digits(statistics.mean(values)), measure.digits(statistics.pstdev(values))]


if __name__ == "__main__":
    measure.data_folder()
    main()
