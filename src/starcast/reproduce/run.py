"""One reproduction: which data set and models, where its files lie, what it is compared with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starcast.errors import DataError, FileError, ParameterError, choose
from starcast.journal import Journal, run_missing
from starcast.kernels import resolve_threads
from starcast.reproduce.experiment import (
    FACTORIZATIONS,
    WITHOUT_RELIABILITY,
    Experiment,
    Setting,
    experiment_of,
    grid_of,
    title_of,
)
from starcast.reproduce.published import front_rows


@dataclass(frozen=True)
class Run:
    """A reproduction of the paper's experiments on one data set.

    `folder` is where all data sets' results go, `published` the folder of the published ones, `limit` the most rows a
    model for a trial, `device` where the search of ResBeMF runs. What was done is noted in journals, so that a run goes
    on where the one before was stopped.
    """

    dataset: str
    folder: Path
    models: tuple[str, ...] = FACTORIZATIONS
    published: Path | None = None
    n_jobs: int | None = None
    limit: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        experiment_of(self.dataset)
        for model in self.models:
            choose("model of the paper", model, FACTORIZATIONS)
        resolve_threads(self.n_jobs)
        choose("device", self.device, ["cpu", "cuda", "auto"])
        if self.limit is not None and self.limit < 1:
            raise ParameterError(f"limit must be at least 1 row, got {self.limit!r}.")
        if self.published is not None and not (self.published / "gridsearch").is_dir():
            raise FileError(f"{self.published} has no folder gridsearch. Name the folder of the published results.")

    @property
    def experiment(self) -> Experiment:
        """What the paper says about the data set."""
        return experiment_of(self.dataset)

    @property
    def threads(self) -> int:
        """How many cores are used."""
        return resolve_threads(self.n_jobs)

    def path(self, *names: str) -> Path:
        """Return a file of this run; its folder is there afterwards."""
        file = self.folder.joinpath(self.dataset, *names)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{file.parent} cannot be made: {error.strerror}. Choose another folder.") from None
        return file

    def journal(self, stage: str) -> Journal:
        """Return what a stage has done so far."""
        return Journal(self.path("journal", f"{stage}.jsonl"))

    def do(self, stage: str, tasks: Mapping[str, Any], work: Callable[[Any], Mapping[str, Any]], **options: Any) -> Any:
        """Return the records of all tasks of a stage by key; those that the journal has are not worked on again."""
        journal = self.journal(stage)
        done = run_missing(journal, tasks, work, **options)
        for key, record in done.items():
            if record.get("status") == "failed":
                raise DataError(
                    f"{key} failed: {record['error']} To try it again, remove its line from {journal.path}."
                )
        return done

    def search_file(self, model: str) -> Path:
        """Return where this run's search of a model is written."""
        return self.path("gridsearch", f"{model}.csv")

    def published_search(self, model: str) -> Path | None:
        """Return the published search of a model, if there is one to compare with."""
        return self.published and self.published / "gridsearch" / self.experiment.folder / f"{model}.csv"

    def published_test(self) -> Path | None:
        """Return the folder of the published test curves, if there is one to compare with."""
        return self.published and self.published / "test-split" / self.experiment.folder

    def tested_file(self, model: str) -> Path:
        """Return the search whose front is tested: the published one if there is one to compare with, else our own."""
        return self.published_search(model) or self.search_file(model)

    def tested(self, model: str) -> dict[str, Setting]:
        """Return the settings of a model that are tested, by their column in the files of the test curves.

        They are the front of the published search if there is one to compare with, else of this run's own, in the
        order of the file, numbered from 0; for PMF and BiasedMF the first row of the front, without a number.
        """
        file = self.tested_file(model)
        if not file.is_file():
            raise FileError(
                f"there is no {file}, whose front is to be tested. Run the stage search first, or compare with the "
                "published results."
            )
        return front_settings(self.dataset, model, file, self.limit)


def front_settings(dataset: str, model: str, file: Path, limit: int | None = None) -> dict[str, Setting]:
    """Return the settings on the front of a search file by their column in the files of the test curves."""
    names, title = grid_of(dataset, model), title_of(model)
    settings = [{name: row[name] for name in names} for row in front_rows(file)][:limit]
    if model in WITHOUT_RELIABILITY:
        return dict(zip([title], settings, strict=False))
    return {f"{title}_{k}": setting for k, setting in enumerate(settings)}
