"""The paper's experiments, number by number."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.datasets import load_dataset
from starcast.distribution import Distribution
from starcast.errors import FileError, choose
from starcast.metrics import PAPER_THRESHOLDS, paper_measures
from starcast.models import make_model
from starcast.models.factorization import Factorization
from starcast.models.point import PointFactorization
from starcast.names import Array, Lookup
from starcast.ratings import Ratings
from starcast.split import Split, benchmark_split

SEED = 4815162342  # of every model in the published runs
LEAST_COVERAGE = 0.02  # a row with less in any fold is not on the published front
FACTORIZATIONS = ("resbemf", "bemf", "dirmf", "pmf", "biasedmf")
MEASURE_FILES = {"1-MAE": "mae", "coverage": "coverage", "accuracy": "accuracy", "mAP": "map"}


@dataclass(frozen=True)
class Experiment:
    """A data set of the paper: what the published files call it, and the least rating of a relevant item."""

    folder: str
    relevant: float


EXPERIMENTS = {
    "ml-100k": Experiment("ml100k", 4.0),
    "ml-1m": Experiment("ml1m", 4.0),
    "filmtrust": Experiment("ft", 3.0),
    "ml-10m": Experiment("ml10m", 4.0),
    "myanimelist": Experiment("anime", 7.0),
}


@dataclass(frozen=True)
class Curve:
    """The four measures of one published row over the thresholds, here and there."""

    model: str
    row: int
    diverged: bool
    here: dict[str, npt.NDArray[np.float64]]
    there: dict[str, npt.NDArray[np.float64]]

    def difference(self, measure: str) -> float:
        """Return the largest difference; NaN if the measure was not published."""
        gaps = np.abs(self.here[measure] - self.there[measure])
        return float("nan") if np.isnan(gaps).all() else float(np.nanmax(gaps))


def compare_curves(dataset: str, published: Path, models: tuple[str, ...] = FACTORIZATIONS) -> Iterator[Curve]:
    """Yield the test curves of every row on the published fronts, with the published ones beside them.

    For PMF and BiasedMF it is the first row of the front, as in the paper.
    """
    experiment = EXPERIMENTS[choose("data set of the paper", dataset, EXPERIMENTS)]
    split = number_as_published(benchmark_split(load_dataset(dataset)))
    there = _published_curves(published / "test-split" / experiment.folder)
    for name in models:
        rows = front_rows(published / "gridsearch" / experiment.folder / f"{choose('model', name, FACTORIZATIONS)}.csv")
        for k, row in enumerate(rows[:1] if name in ("pmf", "biasedmf") else rows):
            model = published_model(name, row).fit(split.train)
            here = measures_as_published(model, split.test, experiment.relevant)
            title = type(model).__name__
            column = title if name in ("pmf", "biasedmf") else f"{title}_{k}"
            diverged = not (np.isfinite(model.user_factors_).all() and np.isfinite(model.item_factors_).all())
            yield Curve(name, k, diverged, here, {m: there[m][column] for m in MEASURE_FILES})


def number_as_published(split: Split) -> Split:
    """Return the split with users and items numbered as the published program does: as they appear, test part first.

    Both parts have all names of both, since an item that was never trained on still takes its share of random numbers.
    """
    users, items = _joined(split.test.users, split.train.users), _joined(split.test.items, split.train.items)
    return Split(*(_renumbered(part, users, items) for part in split))


def published_model(name: str, row: Mapping[str, str]) -> Any:
    """Return the model that a row of a published search file describes, as the published program computes it."""
    rate, decay = ("gamma", "lambda") if name in ("pmf", "biasedmf") else ("learningRate", "regularization")
    params: dict[str, Any] = {
        "n_factors": int(row["numFactors"]),
        "n_iters": int(row["numIters"]),
        "learning_rate": float(row[rate]),
        "regularization": float(row[decay]),
        "generator": "java",
        "random_state": SEED,
        "on_divergence": "keep",
    }
    params |= {"update": "paper"} if name == "resbemf" else {"precision": "double"}
    params |= {"distribution": "certain"} if name in ("pmf", "biasedmf") else {}
    return make_model(name, params)


def measures_as_published(model: Factorization, test: Ratings, relevant: float) -> dict[str, npt.NDArray[np.float64]]:
    """Return the four measures over the paper's thresholds by the rules of the published program.

    PMF and BiasedMF are taken at their unrounded predictions. A threshold at which no user is left counts as no error.
    """
    with np.errstate(all="ignore"):  # what diverged stays in, as published
        answer = Distribution.trusted(model._proba(test.user, test.item), test.scores)
        point = model.values(test.user, test.item) if isinstance(model, PointFactorization) else None
        return paper_measures(test, answer, PAPER_THRESHOLDS, relevant=relevant, empty="zero", point=point)


def front_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a published search file that no other row beats, in the order of the file."""
    rows = _read(file)
    quality = np.array([[float(row[f"cummulative{m}_avg"]) for m in ("mae", "coverage")] for row in rows])
    covers = [all(float(row[f"cummulativecoverage_fold_{f}"]) >= LEAST_COVERAGE for f in range(5)) for row in rows]
    fit = np.array(covers) & ~np.isnan(quality).any(axis=1)
    rivals = quality[fit]
    beaten = [((rivals >= q).all(axis=1) & (rivals > q).any(axis=1)).any() for q in quality]
    return [row for row, good, lost in zip(rows, fit, beaten, strict=True) if good and not lost]


def _published_curves(folder: Path) -> dict[str, dict[str, npt.NDArray[np.float64]]]:
    """Return measure → column → values over the thresholds; NaN where nothing was published."""
    curves: dict[str, dict[str, npt.NDArray[np.float64]]] = {}
    tables = {measure: _read(folder / f"{name}.csv") for measure, name in MEASURE_FILES.items()}
    columns = [column for column in tables["1-MAE"][0] if column != "reliability"]
    for measure, rows in tables.items():
        if [float(row["reliability"]) for row in rows] != list(PAPER_THRESHOLDS):
            raise FileError(f"{folder} must hold curves at the paper's {len(PAPER_THRESHOLDS)} thresholds.")
        curves[measure] = {column: np.array([float(row.get(column, "nan")) for row in rows]) for column in columns}
    return curves


def _read(file: Path) -> list[dict[str, str]]:
    try:
        with file.open(newline="") as text:
            return list(csv.DictReader(text))
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}. Give the folder of the published results.") from None


def _joined(first: Array, then: Array) -> Array:
    return np.concatenate([first, then[Lookup(first).codes(then, "names") < 0]])


def _renumbered(part: Ratings, users: Array, items: Array) -> Ratings:
    user, item = Lookup(users).codes(part.users, "users"), Lookup(items).codes(part.items, "items")
    return Ratings(users, items, part.scores, user[part.user], item[part.item], part.score)
