"""What the paper draws and tabulates, from the files of a run: searches, fronts, mean curves, fitting times."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from starcast.reproduce.experiment import WITHOUT_RELIABILITY, grid_of, title_of
from starcast.reproduce.published import (
    LEAST_COVERAGE,
    MEASURE_FILES,
    fold_values,
    front_rows,
    on_front,
    read_curves,
    read_rows,
    read_times,
)
from starcast.reproduce.run import Run

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95
MLP_COLUMNS = ("numEpochs", "numFactors", "learningRate")  # of its published search


@dataclass(frozen=True)
class Searched:
    """A search as it is drawn: a point per setting, whether it covers 2% in every fold, whether it is on the front."""

    coverage: Floats
    quality: Floats
    alive: npt.NDArray[np.bool_]
    front: npt.NDArray[np.bool_]
    values: Mapping[str, Floats]
    is_published: bool = False


@dataclass(frozen=True)
class Band:
    """A curve over thresholds: mean over the rows of a front, the ends of its interval, and how many rows are left."""

    mean: Floats
    low: Floats
    high: Floats
    rows: npt.NDArray[np.int64]
    is_published: bool = False


@dataclass(frozen=True)
class Chosen:
    """The setting that is tested for a model without reliabilities, and whether it is of a published search."""

    setting: Mapping[str, str]
    is_published: bool


def label_of(title: str, is_published: bool) -> str:
    """Return the name of what is shown, with a mark if it was not computed here.

    >>> label_of("BeMF", True), label_of("BeMF", False)
    ('BeMF, published', 'BeMF')
    """
    return f"{title}, published" if is_published else title


def source_of(is_published: bool) -> str:
    """Return the word for where numbers are from."""
    return "published" if is_published else "recomputed"


def searches(run: Run) -> dict[str, Searched]:
    """Return the searches of the run's models by title: its own, else the published ones, which say so."""
    found = {}
    for model in run.models:
        own, other = run.search_file(model), run.published_search(model)
        if own.is_file():
            found[title_of(model)] = _searched(grid_of(run.dataset, model), own, False)
        elif other is not None and other.is_file():
            found[title_of(model)] = _searched(grid_of(run.dataset, model), other, True)
    return found


def mlp_search(run: Run) -> Searched | None:
    """Return the published search of MLP, which is not run again here; None if there is none."""
    file = run.published_search("mlp")
    return _searched(MLP_COLUMNS, file, True) if file is not None and file.is_file() else None


def best_settings(run: Run) -> dict[str, Chosen]:
    """Return the setting that is tested for each model without reliabilities, as a table of the paper does."""
    best: dict[str, Chosen] = {}
    for model in (model for model in run.models if model in WITHOUT_RELIABILITY):
        if run.tested_file(model).is_file():
            rows = run.tested(model)
            if rows:
                best[title_of(model)] = Chosen(next(iter(rows.values())), run.published_search(model) is not None)
    file = run.published_search("mlp")
    if file is not None and file.is_file():
        row = front_rows(file)[0]
        best["MLP"] = Chosen({name: row[name] for name in MLP_COLUMNS}, True)
    return best


def curve_bands(run: Run) -> dict[str, dict[str, Band]]:
    """Return measure → title → curve: of the run's own test, else of the published one, which says so."""
    folders = ((run.path("test-split", "mae.csv").parent, False), (run.published_test(), True))
    sources = [
        (read_curves(folder), is_published)
        for folder, is_published in folders
        if folder is not None and (folder / "mae.csv").is_file()
    ]
    bands: dict[str, dict[str, Band]] = {measure: {} for measure in MEASURE_FILES}
    for title in map(title_of, run.models):
        for curves, is_published in sources:
            columns = [column for column in curves["1-MAE"] if column.partition("_")[0] == title]
            if columns:
                for measure, band in _bands(curves, columns, is_published).items():
                    bands[measure][title] = band
                break
    return bands if any(bands.values()) else {}


def _bands(curves: Mapping[str, Mapping[str, Floats]], columns: list[str], is_published: bool) -> dict[str, Band]:
    """Return the mean curve of some columns for every measure that is defined."""
    coverage = np.array([curves["coverage"][column] for column in columns])
    bands = {}
    for measure in MEASURE_FILES:
        values = np.array([curves[measure][column] for column in columns])
        if measure != "coverage":  # where next to nothing is covered, a handful of ratings would decide
            values = np.where(coverage <= LEAST_COVERAGE, np.nan, values)
        if not np.isnan(values).all():
            bands[measure] = replace(mean_band(values), is_published=is_published)
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
    """Return the published seconds of the run's models by title; nothing if there is nothing to compare with."""
    folder = run.published_test()
    file = folder and folder / "fittingTime.csv"
    times = read_times(file) if file is not None and file.is_file() else {}
    return {title_of(model): times[title_of(model)] for model in run.models if title_of(model) in times}


def _searched(names: Iterable[str], file: Path, is_published: bool) -> Searched:
    rows = read_rows(file)
    columns = {name: np.array([float(row[name]) for row in rows]) for name in names}
    coverage, quality = (
        np.array([float(row[f"{measure}_avg"]) for row in rows])
        for measure in ("cummulativecoverage", "cummulativemae")
    )
    alive = np.asarray((fold_values(rows, "coverage") >= LEAST_COVERAGE).all(axis=1))
    return Searched(coverage, quality, alive, on_front(rows), columns, is_published)
