"""The test curves: every row of the fronts, fitted on the whole training part, at the paper's thresholds."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from starcast.errors import choose
from starcast.reproduce.experiment import (
    FACTORIZATIONS,
    WITHOUT_RELIABILITY,
    experiment_of,
    has_diverged,
    measures_as_published,
    published_model,
    published_split,
    title_of,
)
from starcast.reproduce.published import MEASURE_FILES, front_rows, read_curves


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
    experiment = experiment_of(dataset)
    split = published_split(dataset)
    there = read_curves(published / "test-split" / experiment.folder)
    for name in models:
        file = published / "gridsearch" / experiment.folder / f"{choose('model', name, FACTORIZATIONS)}.csv"
        for column, row in tested_rows(name, file).items():
            model = published_model(name, row).fit(split.train)
            here = measures_as_published(model, split.test, experiment.relevant)
            number = 0 if name in WITHOUT_RELIABILITY else int(column.rpartition("_")[2])
            yield Curve(name, number, has_diverged(model), here, {m: there[m][column] for m in MEASURE_FILES})


def tested_rows(model: str, file: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a search file that are tested, by the name of their column in the files of the test curves.

    They are the front in the order of the file, numbered from 0; for PMF and BiasedMF its first row, without a number.
    """
    rows, title = front_rows(file), title_of(model)
    if model in WITHOUT_RELIABILITY:
        return dict(zip([title], rows, strict=False))
    return {f"{title}_{k}": row for k, row in enumerate(rows)}
