"""Memory: a table of ten million ratings, and recommendations for all users of MovieLens 1M."""

import resource
import subprocess
import sys

import measure
import numpy as np

import starcast as sc

MEGABYTE = 1e6


def table() -> float:
    """Return the megabytes of ten million ratings beside the names. Bar: 100."""
    rng = np.random.default_rng(0)
    pairs = rng.choice(70_000 * 10_000, 10_000_000, replace=False)
    ratings = sc.Ratings.from_arrays(pairs // 10_000, pairs % 10_000, rng.integers(1, 11, len(pairs)))
    return ratings.nbytes / MEGABYTE


def recommend_all() -> float:
    """Return by how many megabytes the process grows at most. Bar: 500."""
    ratings = sc.read_ratings(measure.data_folder() / "ml-1m" / "ratings.dat")
    model = sc.NaiveBayes().fit(ratings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.recommend(n=10)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / MEGABYTE


def main() -> None:
    if len(sys.argv) > 1:  # each in a process of its own, since the peak never falls
        print({"table": table, "recommend": recommend_all}[sys.argv[1]]())
        return
    measured = {
        job: float(subprocess.run([sys.executable, __file__, job], capture_output=True, text=True, check=True).stdout)
        for job in ("table", "recommend")
    }
    measure.write(
        "memory",
        {
            "ten million ratings, MB": measured["table"],
            "recommend to all of MovieLens 1M, MB over the start": measured["recommend"],
        },
    )


if __name__ == "__main__":
    main()
