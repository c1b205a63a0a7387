"""The files of the published results, read and written in their own format."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import numpy.typing as npt

from starcast.errors import FileError, FileFormatError
from starcast.files import replacing
from starcast.metrics import PAPER_THRESHOLDS
from starcast.pareto import pareto_mask
from starcast.reproduce.experiment import N_FOLDS, SEED, Grid, Setting

Floats = npt.NDArray[np.float64]
LEAST_COVERAGE = 0.02  # a row with less in any fold is not on the published front
MEASURE_FILES = {"1-MAE": "mae", "coverage": "coverage", "accuracy": "accuracy", "mAP": "map"}
SEARCH_MEASURES = {"1-MAE": "cummulativemae", "coverage": "cummulativecoverage"}
SCORES_COLUMN = {"resbemf": "scores", "bemf": "ratings", "dirmf": "ratings"}
DECIMALS = 11  # of the test curves


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a published file, each by column, as text."""
    try:
        with file.open(newline="") as text:
            return list(csv.DictReader(text))
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}. Give the folder of the published results.") from None


def fold_values(rows: Sequence[Mapping[str, str]], measure: str) -> Floats:
    """Return a measure of the search, a row per setting and a column per fold."""
    column = SEARCH_MEASURES[measure]
    try:
        values = [[float(row[f"{column}_fold_{fold}"]) for fold in range(N_FOLDS)] for row in rows]
    except (KeyError, TypeError, ValueError):
        raise FileFormatError(f"a search file must have a number in {column}_fold_0 to _{N_FOLDS - 1}.") from None
    return np.array(values).reshape(-1, N_FOLDS)


def front_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a published search file that no other row beats, in the order of the file."""
    rows = read_rows(file)
    return [row for row, best in zip(rows, on_front(rows), strict=True) if best]


def on_front(rows: Sequence[Mapping[str, str]]) -> npt.NDArray[np.bool_]:
    """Tell of every row of a search whether no other beats it, among those that cover enough in every fold."""
    quality = np.array([[float(row[f"{column}_avg"]) for column in SEARCH_MEASURES.values()] for row in rows])
    quality = quality.reshape(-1, 2)
    fit = (fold_values(rows, "coverage") >= LEAST_COVERAGE).all(axis=1) & ~np.isnan(quality).any(axis=1)
    return pareto_mask(np.where(fit[:, None], quality, np.nan))


def write_search(
    file: Path, model: str, grid: Grid, scores: Iterable[float], found: Sequence[tuple[Setting, Mapping[str, Floats]]]
) -> None:
    """Write a search file: every setting with its folds' values, their mean and standard deviation."""
    columns = [f"{c}_{of}" for c in SEARCH_MEASURES.values() for of in (*_fold_names(), "avg", "std")]
    extra = {SCORES_COLUMN[model]: " ".join(f"{score:g}" for score in scores)} if model in SCORES_COLUMN else {}
    with replacing(file) as temporary, temporary.open("w", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*columns, *grid, *extra, "seed"])
        for setting, folds in found:
            values = [v for m in SEARCH_MEASURES for v in (*folds[m], folds[m].sum() / N_FOLDS, folds[m].std())]
            texts = (java_text(value) for value in values)
            writer.writerow([*texts, *(setting[name] for name in grid), *extra.values(), SEED])


def write_curves(folder: Path, curves: Mapping[str, Mapping[str, Floats]]) -> None:
    """Write one file a measure: a row per threshold and a column per tested row."""
    for measure, name in MEASURE_FILES.items():
        columns = {column: values for column, values in curves[measure].items() if not np.isnan(values).all()}
        with replacing(folder / f"{name}.csv") as temporary, temporary.open("w", newline="") as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(["reliability", *columns])
            for at, threshold in enumerate(PAPER_THRESHOLDS):
                writer.writerow([_short(threshold), *(_short(values[at]) for values in columns.values())])


def read_curves(folder: Path) -> dict[str, dict[str, Floats]]:
    """Return measure → column → values over the thresholds; NaN where nothing was published."""
    curves: dict[str, dict[str, Floats]] = {}
    tables = {measure: read_rows(folder / f"{name}.csv") for measure, name in MEASURE_FILES.items()}
    columns = [column for column in next(iter(tables["1-MAE"]), {}) if column != "reliability"]
    for measure, rows in tables.items():
        if [float(row["reliability"]) for row in rows] != list(PAPER_THRESHOLDS):
            raise FileError(f"{folder} must hold curves at the paper's {len(PAPER_THRESHOLDS)} thresholds.")
        curves[measure] = {column: np.array([float(row.get(column, "nan")) for row in rows]) for column in columns}
    return curves


def write_times(file: Path, seconds: Mapping[str, float]) -> None:
    """Write the fitting time of every tested row, in milliseconds."""
    with replacing(file) as temporary, temporary.open("w", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["method", "time"])
        writer.writerows([method, round(1000 * time)] for method, time in seconds.items())


def read_times(file: Path) -> dict[str, list[float]]:
    """Return the fitting times of each method, in seconds, by its title."""
    times: dict[str, list[float]] = {}
    for row in read_rows(file):
        times.setdefault(row["method"].partition("_")[0], []).append(float(row["time"]) / 1000)
    return times


def java_text(value: float) -> str:
    """Return a number as Java prints it: the shortest digits, with an exponent below a thousandth.

    >>> java_text(0.25), java_text(0.0001), java_text(0.000566), java_text(0.0)
    ('0.25', '1.0E-4', '5.66E-4', '0.0')
    """
    if np.isnan(value) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return "NaN" if np.isnan(value) else repr(float(value))
    digits, exponent = f"{Decimal(repr(float(value))).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _short(value: float) -> str:
    return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")


def _fold_names() -> list[str]:
    return [f"fold_{fold}" for fold in range(N_FOLDS)]
