"""The five factorizations against the published test curves, row by row: the largest difference of each measure.

    python benchmarks/check_published.py PUBLISHED [--datasets ml-100k filmtrust ml-1m] [--models resbemf …]

PUBLISHED is the folder with gridsearch/ and test-split/. Everything on MovieLens 100K and FilmTrust takes minutes on
two cores, MovieLens 1M about a quarter of an hour, most of it DirMF.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import measure

from starcast.reproduce import FACTORIZATIONS, MEASURE_FILES, compare_curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("published", type=Path)
    parser.add_argument("--datasets", nargs="+", default=["ml-100k", "filmtrust", "ml-1m"])
    parser.add_argument("--models", nargs="+", default=list(FACTORIZATIONS))
    options = parser.parse_args()
    table = {}
    for dataset in options.datasets:
        worst: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        rows, dead = defaultdict(int), defaultdict(list)
        for curve in compare_curves(dataset, options.published, tuple(options.models)):
            rows[curve.model] += 1
            if curve.diverged:
                dead[curve.model].append(curve.row)
            for name in MEASURE_FILES:
                gap = curve.difference(name)
                if gap == gap:
                    worst[curve.model][name] = max(worst[curve.model][name], gap)
        for model, gaps in worst.items():
            shown = ", ".join(f"{name} {gap:.1e}" for name, gap in gaps.items())
            table[f"{dataset} {model}"] = f"{rows[model]} rows, {shown}; diverged {dead[model]}"
            print(f"{dataset} {model}: {table[f'{dataset} {model}']}", flush=True)
    measure.write("published", table)


if __name__ == "__main__":
    main()
