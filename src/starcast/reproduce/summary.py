"""What the paper draws and tabulates, from the files of a run: searches, fronts, mean curves, fitting times."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from starcast.errors import FileError
from starcast.reproduce.experiment import WITHOUT_RELIABILITY, Setting, grid_of, title_of
from starcast.reproduce.published import (
    LEAST_COVERAGE,
    MEASURE_FILES,
    fold_values,
    on_front,
    read_curves,
    read_rows,
    read_times,
)
from starcast.reproduce.run import Run

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Searched:
    """A search as it is drawn: a point per setting, whether it covers 2% in every fold, whether it is on the front."""

    coverage: Floats
    quality: Floats
    alive: npt.NDArray[np.bool_]
    front: npt.NDArray[np.bool_]
    values: Mapping[str, Floats]


@dataclass(frozen=True)
class Band:
    """A curve over thresholds: mean over the rows of a front, the ends of its interval, and how many rows are left."""

    mean: Floats
    low: Floats
    high: Floats
    rows: npt.NDArray[np.int64]


def searches(run: Run) -> dict[str, Searched]:
    """Return the searches of the run's models by title: its own, or the published ones where it has none."""
    files = {model: _first(run.search_file(model), run.published_search(model)) for model in run.models}
    found = {title_of(model): _searched(run.dataset, model, file) for model, file in files.items() if file is not None}
    if not found:
        raise FileError(f"there is no search to draw in {run.folder / run.dataset}. Run the stage search first.")
    return found


def drawn_from(run: Run) -> str:
    """Return whose searches are drawn: recomputed ones, and published ones where there are no others."""
    own = [title_of(model) for model in run.models if run.search_file(model).is_file()]
    other = [
        title_of(model) for model in run.models if title_of(model) not in own and _first(run.published_search(model))
    ]
    parts = (("recomputed", own), ("as published", other))
    return "; ".join(f"{', '.join(names)}: {word}" for word, names in parts if names)


def best_settings(run: Run) -> dict[str, Setting]:
    """Return the setting that is tested for each model without reliabilities, as a table of the paper does."""
    best = {title_of(model): run.tested(model) for model in run.models if model in WITHOUT_RELIABILITY}
    return {title: next(iter(rows.values())) for title, rows in best.items() if rows}


def curve_bands(run: Run) -> dict[str, dict[str, Band]]:
    """Return measure → title → curve: of the run's own test, or of the published one if it has none; else nothing."""
    file = _first(run.path("test-split", "mae.csv"), _under(run.published_test(), "mae.csv"))
    if file is None:
        return {}
    curves = read_curves(file.parent)
    bands: dict[str, dict[str, Band]] = {measure: {} for measure in MEASURE_FILES}
    for model in run.models:
        title = title_of(model)
        columns = [column for column in curves["1-MAE"] if column.partition("_")[0] == title]
        coverage = np.array([curves["coverage"][column] for column in columns])
        for measure in MEASURE_FILES if columns else ():
            values = np.array([curves[measure][column] for column in columns])
            if measure != "coverage":  # where next to nothing is covered, a handful of ratings would decide
                values = np.where(coverage <= LEAST_COVERAGE, np.nan, values)
            if not np.isnan(values).all():
                bands[measure][title] = mean_band(values)
    return bands


def mean_band(values: Floats) -> Band:
    """Return mean and 95% t-interval of each column over the rows that are not NaN there.

    >>> band = mean_band(np.array([[1.0, 2.0], [3.0, np.nan]]))
    >>> band.mean.tolist(), band.rows.tolist()
    ([2.0, 2.0], [2, 1])
    """
    known = ~np.isnan(values)
    rows = known.sum(axis=0)
    total = np.where(known, values, 0).sum(axis=0)
    mean = np.divide(total, rows, out=np.full(len(rows), np.nan), where=rows > 0)
    squares = (np.where(known, values - mean, 0) ** 2).sum(axis=0)
    spread = np.sqrt(squares / np.maximum(rows - 1, 1) / np.maximum(rows, 1))
    reach = spread * np.array([t_quantile(n - 1) if n > 1 else 0.0 for n in rows])
    return Band(mean, mean - reach, mean + reach, rows)


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    r"""Return t such that Student's distribution has the share `confidence` between -t and t.

    With :math:`t = \sqrt{\nu} \tan\varphi` the density becomes :math:`\cos^{\nu-1}\varphi`, which is summed.

    >>> round(t_quantile(41), 4)
    2.0195
    """
    angle = np.linspace(0, np.pi / 2, 100_001)
    density = np.cos(angle) ** (freedom - 1)
    share = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    return float(np.sqrt(freedom) * np.tan(np.interp(confidence, share / share[-1], angle)))


def fitting_times(run: Run) -> dict[str, list[float]]:
    """Return the seconds of every tested row by title, measured in this run; nothing if it has not been."""
    file = run.path("test-split", "fittingTime.csv")
    times = read_times(file) if file.is_file() else {}
    return {title_of(model): times[title_of(model)] for model in run.models if title_of(model) in times}


def published_times(run: Run) -> dict[str, list[float]]:
    """Return the published seconds by title; nothing if there is nothing to compare with."""
    file = _first(_under(run.published_test(), "fittingTime.csv"))
    return read_times(file) if file is not None else {}


def _searched(dataset: str, model: str, file: Path) -> Searched:
    rows = read_rows(file)
    columns = {name: np.array([float(row[name]) for row in rows]) for name in grid_of(dataset, model)}
    coverage, quality = (
        np.array([float(row[f"{measure}_avg"]) for row in rows])
        for measure in ("cummulativecoverage", "cummulativemae")
    )
    alive = np.asarray((fold_values(rows, "coverage") >= LEAST_COVERAGE).all(axis=1))
    return Searched(coverage, quality, alive, on_front(rows), columns)


def _first(*files: Path | None) -> Path | None:
    return next((file for file in files if file is not None and file.is_file()), None)


def _under(folder: Path | None, name: str) -> Path | None:
    return folder and folder / name
