"""The bars that speed is held against, and where the measured figures stand: python benchmarks/bars.py [FOLDER].

Nothing is measured here; what other programs wrote to the folder of results is read. A figure that is not there yet is
told as missing, and so is one of a quick run as what it is.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import measure

Results = dict[str, dict[str, Any]]


class Bar(NamedTuple):
    """One bar: what is measured, the bar in words, the figure in words, and whether it is reached (None: missing)."""

    what: str
    bar: str
    figure: str
    met: bool | None


def read_results(folder: Path) -> Results:
    """Return what is in a folder of results, by the name of the file."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


def all_bars(results: Results) -> list[Bar]:
    """Return every bar with its figure."""
    return [*_rounds(results), *_gpu(results), *_answers(results), *_start(results)]


def _bar(
    what: str, bar: float, find: Callable[[], dict[str, float] | float], unit: str, most: bool, scale: float = 1
) -> Bar:
    """Compare a figure, or the median of a spread, with the bar; `most`: whether it may be at most that much."""
    told = f"at {'most' if most else 'least'} {bar * scale:g}{unit}"
    try:
        found = find()
    except (KeyError, StopIteration, TypeError):
        return Bar(what, told, "not measured", None)
    if not isinstance(found, dict):
        found = {"median": found, "min": found, "max": found}
    middle, low, high = (f"{found[name] * scale:.3g}" for name in ("median", "min", "max"))
    figure = f"{middle}{unit}" if low == high else f"{middle}{unit} ({low} to {high})"
    return Bar(what, told, figure, found["median"] <= bar if most else found["median"] >= bar)


def _rounds(results: Results) -> list[Bar]:
    rounds, roofline = results.get("rounds", {}), results.get("roofline", {})

    def epochs(model: str) -> Callable[[], dict[str, float]]:
        return lambda: rounds["rounds"][model]["times_an_epoch"]

    def fraction() -> Any:
        rows = roofline["rounds"]
        return next(row["fraction"] for row in rows if (row["model"], row["n_factors"]) == ("resbemf", 32))

    return [
        _bar(
            "ResBeMF gradient round against an epoch of Surprise's SVD, 8 factors, MovieLens 1M",
            15, epochs("resbemf"), "×", False,
        ),
        _bar("OrdinalMF gradient round against the same", 25, epochs("ordinalmf"), "×", False),
        _bar("ResBeMF gradient round, 32 factors: share of the roofline", 0.4, fraction, "%", False, 100),
        _bar(
            "User pass and item pass, 10 scores, 20 factors, shape of MovieLens 10M: one over the other",
            1.5, lambda: rounds["passes"]["models"]["resbemf"]["apart"], "×", True,
        ),
    ]  # fmt: skip


def _gpu(results: Results) -> list[Bar]:
    gpu = results.get("gpu", {})

    def ms(model: str, n_factors: int) -> Callable[[], Any]:
        return lambda: next(
            row["ms"] for row in gpu["rounds"] if (row["model"], row["n_factors"]) == (model, n_factors)
        )

    return [
        *(
            _bar(
                f"H200: a round of ResBeMF, 8.4 million ratings, 10 scores, {k} factors",
                bar,
                ms("resbemf", k),
                " ms",
                True,
            )
            for k, bar in ((10, 2.0), (20, 3.2), (40, 6.0))
        ),
        _bar("H200: a round of OrdinalMF, 40 factors", 2.0, ms("ordinalmf", 40), " ms", True),
        _bar("H200: fit of 100 rounds, 20 factors, from host memory", 1.2, lambda: gpu["fit_seconds"], " s", True),
        _bar(
            "H200: the paper's search on MovieLens 1M, 500 settings, 5 folds",
            120,
            lambda: gpu["search_seconds"],
            " s",
            True,
        ),
    ]


def _answers(results: Results) -> list[Bar]:
    rows = results.get("jobs", {}).get("parts", {}).get("recommend", [])

    def row(job: str, library: str, who: str = "") -> Any:
        return next(
            row for row in rows if row["job"] == job and row["library"] == library and row["who"].startswith(who)
        )

    def one_user() -> Any:
        return row("recommend to one", "starcast", "ResBeMF")["seconds"]

    def against_best() -> dict[str, float]:
        ours = row("recommend", "starcast", "ResBeMF")["times_first"]
        theirs = min(
            (row("recommend", name)["times_first"] for name in ("surprise", "lenskit")), key=lambda x: x["median"]
        )
        ends = {"median": ("median", "median"), "min": ("min", "max"), "max": ("max", "min")}
        return {name: theirs[a] / ours[b] for name, (a, b) in ends.items()}

    return [
        _bar(
            "Ten items for every user of MovieLens 1M, ResBeMF, 20 factors: users a second against the faster of "
            "Surprise and LensKit",
            20, against_best, "×", False,
        ),
        _bar("The same for one user", 1e-3, one_user, " ms", True, 1e3),
    ]  # fmt: skip


def _start(results: Results) -> list[Bar]:
    start = results.get("start", {})

    def first() -> float:
        return max(call["first_ms"] - call["later_ms"] for call in start["calls"].values())

    return [
        _bar("Import of starcast beyond NumPy's", 150, lambda: start["more_than_numpy_ms"], " ms", True),
        _bar("What a first call on the CPU costs more than later ones (nothing is compiled)", 50, first, " ms", True),
    ]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else measure.RESULTS
    results = read_results(folder)
    quick = sorted(name for name, figures in results.items() if figures.get("quick"))
    for bar in all_bars(results):
        mark = {True: "yes", False: "NO", None: "—"}[bar.met]
        print(f"{mark:4}{bar.figure:28}{bar.bar:20}{bar.what}")
    if quick:
        print(f"of quick runs, to try the programs out, not to be quoted: {', '.join(quick)}")


if __name__ == "__main__":
    main()
