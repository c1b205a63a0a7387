"""The test curves and the fitting times: every row of the fronts, fitted on the whole training part."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.errors import choose
from starcast.javarandom import JavaRandom
from starcast.journal import OnProgress
from starcast.reproduce.experiment import (
    FACTORIZATIONS,
    SEED,
    WITHOUT_RELIABILITY,
    Setting,
    experiment_of,
    has_diverged,
    measures_as_published,
    published_model,
    published_split,
)
from starcast.reproduce.published import MEASURE_FILES, read_curves, write_curves, write_times
from starcast.reproduce.run import Run, front_settings
from starcast.split import Split

Task = tuple[str, Setting]  # model and setting


def run_test(run: Run, on_progress: OnProgress | None = None) -> None:
    """Fit the tested rows of all models of the run, one a core, and write the files of their curves."""
    columns, tasks = _tasks(run)
    done = run.do(
        "test", tasks, curves_of, n_jobs=run.threads, prepare=prepare, prepare_args=(run.dataset, 1),
        on_progress=on_progress,
    )  # fmt: skip
    curves = {
        measure: {column: _curve(measure, tasks[key][0], done[key]) for column, key in columns.items()}
        for measure in MEASURE_FILES
    }
    write_curves(run.path("test-split", "mae.csv").parent, curves)


def run_time(run: Run, on_progress: OnProgress | None = None) -> None:
    """Measure how long the tested rows of all models of the run take to fit, one after the other on all cores."""
    columns, tasks = _tasks(run, f"threads={run.threads}")
    done = run.do(
        "time", tasks, seconds_of, prepare=prepare, prepare_args=(run.dataset, run.threads),
        on_progress=on_progress,
    )  # fmt: skip
    write_times(
        run.path("test-split", "fittingTime.csv"), {column: done[key]["seconds"] for column, key in columns.items()}
    )


def _tasks(run: Run, *notes: str) -> tuple[dict[str, str], dict[str, Task]]:
    """Return the key of every column, and the tasks by key, shuffled to make the time left honest."""
    digest = published_split(run.dataset).train.digest()[:8]
    columns, tasks = {}, {}
    for model in run.models:
        for column, setting in run.tested(model).items():
            columns[column] = " ".join([digest, model, *(f"{name}={value}" for name, value in setting.items()), *notes])
            tasks[columns[column]] = (model, setting)
    keys = list(tasks)
    return columns, {keys[at]: tasks[keys[at]] for at in JavaRandom(SEED).shuffle(len(keys))}


def _curve(measure: str, model: str, record: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return a curve; undefined for the accuracy of a model without reliabilities, which was not published."""
    curve = np.array(record[measure])
    return curve * np.nan if measure == "accuracy" and model in WITHOUT_RELIABILITY else curve


_shared: list[tuple[Split, float, int]] = []


def prepare(dataset: str, threads: int) -> None:
    """Load the data of a process, once."""
    _shared[:] = [(published_split(dataset), experiment_of(dataset).relevant, threads)]


def curves_of(task: Task) -> dict[str, Any]:
    """Return the four measures of a setting over the thresholds, and whether its fit diverged."""
    (train, test), relevant, threads = _shared[0]
    model = published_model(*task).set_params(n_jobs=threads).fit(train)
    measures = measures_as_published(model, test, relevant)
    return {measure: values.tolist() for measure, values in measures.items()} | {"diverged": has_diverged(model)}


def seconds_of(task: Task) -> dict[str, Any]:
    """Return the seconds that a setting takes to fit."""
    (train, _), _, threads = _shared[0]
    model = published_model(*task).set_params(n_jobs=threads)
    start = time.perf_counter()
    model.fit(train)
    return {"seconds": time.perf_counter() - start}


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
        for row, (column, setting) in enumerate(front_settings(dataset, name, file).items()):
            model = published_model(name, setting).fit(split.train)
            here = measures_as_published(model, split.test, experiment.relevant)
            yield Curve(name, row, has_diverged(model), here, {m: there[m][column] for m in MEASURE_FILES})
