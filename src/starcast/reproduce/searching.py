"""The paper's random search, fold by fold, in processes that can be killed at any moment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from starcast.javarandom import JavaRandom
from starcast.journal import OnProgress
from starcast.kernels import wants_gpu
from starcast.metrics.averages import paper_averages
from starcast.ratings import Ratings
from starcast.reproduce.crowd import climb_together
from starcast.reproduce.experiment import (
    N_FOLDS,
    SEED,
    Setting,
    answer_as_published,
    experiment_of,
    grid_of,
    has_diverged,
    number_as_published,
    published_model,
    published_split,
    settings_of,
)
from starcast.reproduce.published import SEARCH_MEASURES, write_search
from starcast.reproduce.run import Run
from starcast.split import Split, k_fold


def run_search(run: Run, on_progress: OnProgress | None = None) -> None:
    """Search the grids of all models of the run and write their files; what was done before is not done again."""
    train = published_split(run.dataset).train
    ladders = {model: _ladders(run, model) for model in run.models}
    tasks = _tasks(ladders, train.digest()[:8])
    if wants_gpu(run.device):
        _climb_on_gpu(run, tasks, on_progress)
    done = run.do(
        "search", tasks, climb, n_jobs=run.threads, prepare=prepare, prepare_args=(run.dataset,),
        on_progress=on_progress,
    )  # fmt: skip
    folds = {(task.model, task.ladder.key, task.fold): done[key] for key, task in tasks.items()}
    for model in run.models:
        found = [
            (setting, _values([folds[model, ladder.key, fold][setting["numIters"]] for fold in range(N_FOLDS)]))
            for ladder in ladders[model]
            for setting in ladder.settings()
        ]
        grid = grid_of(run.dataset, model)
        found.sort(key=lambda entry: [grid[name].index(value) for name, value in entry[0].items()])
        write_search(run.search_file(model), model, grid, train.scores, found)


@dataclass(frozen=True)
class Ladder:
    """Settings that differ in the number of iterations alone: one fit climbs through all of them."""

    rest: tuple[tuple[str, str], ...]
    stops: tuple[str, ...]

    @property
    def key(self) -> str:
        """A name of its own, such as 'numFactors=2 learningRate=0.001 regularization=0.05'."""
        return " ".join(f"{name}={value}" for name, value in self.rest)

    def settings(self) -> Iterator[Setting]:
        """Yield the setting of every stop."""
        for stop in self.stops:
            yield {"numIters": stop, **dict(self.rest)}


@dataclass(frozen=True)
class Task:
    """A ladder on one fold."""

    model: str
    ladder: Ladder
    fold: int


def _ladders(run: Run, model: str) -> list[Ladder]:
    """Return the settings of the search by ladder, in the order of drawing, whole ladders up to the limit."""
    stops: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for setting in settings_of(run.dataset, model):
        rest = tuple((name, value) for name, value in setting.items() if name != "numIters")
        stops.setdefault(rest, []).append(setting["numIters"])
    ladders, n_rows = [], 0
    for rest, reached in stops.items():
        if run.limit is not None and n_rows >= run.limit:
            break
        ladders.append(Ladder(rest, tuple(sorted(reached, key=int))))
        n_rows += len(reached)
    return ladders


def _tasks(ladders: Mapping[str, list[Ladder]], digest: str) -> dict[str, Task]:
    """Return the tasks by key, fold by fold, so that a process holds one fold at a time.

    Within a fold they are shuffled: every stretch of the work is a sample of all, which makes the time left honest.
    """
    each = [(model, ladder) for model in ladders for ladder in ladders[model]]
    mixed = [each[at] for at in JavaRandom(SEED).shuffle(len(each))]
    return {
        f"{digest} {model} {ladder.key} fold={fold}": Task(model, ladder, fold)
        for fold in range(N_FOLDS)
        for model, ladder in mixed
    }


def _values(records: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return every measure as an array over the folds."""
    return {measure: np.array([record[measure] for record in records]) for measure in SEARCH_MEASURES}


@dataclass
class _Shared:
    """What all tasks of a process share: the training part, and the fold that was used last."""

    train: Ratings
    empty: str
    last: dict[int, Split] = field(default_factory=dict)

    def fold(self, number: int) -> Split:
        if number not in self.last:
            folds = k_fold(self.train, N_FOLDS, method="paper", random_state=SEED)
            self.last = {number: number_as_published(next(islice(folds, number, None)))}
        return self.last[number]


_shared: list[_Shared] = []


def _climb_on_gpu(run: Run, tasks: Mapping[str, Task], on_progress: OnProgress | None) -> None:
    """Note the records of ResBeMF's ladders in the journal, all ladders of one fold and size at a time."""
    prepare(run.dataset)
    shared, journal = _shared[0], run.journal("search")
    done = {key for key, _ in journal.records()}
    groups: dict[tuple[int, str], list[str]] = {}
    for key, task in tasks.items():
        if task.model == "resbemf" and key not in done:
            groups.setdefault((task.fold, dict(task.ladder.rest)["numFactors"]), []).append(key)
    for (fold, _), keys in groups.items():
        settings = [list(tasks[key].ladder.settings()) for key in keys]
        for key, record in zip(keys, climb_together(settings, shared.fold(fold), shared.empty), strict=True):
            journal.add(key, record)
            done.add(key)
        if on_progress is not None:
            on_progress(len(done & tasks.keys()), len(tasks))


def prepare(dataset: str) -> None:
    """Load the data of a process, once."""
    _shared[:] = [_Shared(published_split(dataset).train, experiment_of(dataset).empty)]


def climb(task: Task) -> dict[str, Any]:
    """Return the measures of every stop of a ladder on a fold, and whether the fit diverged on the way."""
    shared = _shared[0]
    train, test = shared.fold(task.fold)
    record: dict[str, Any] = {}
    model: Any = None
    for setting in task.ladder.settings():
        if model is None:
            model = published_model(task.model, setting).set_params(n_jobs=1).fit(train)
        else:
            model.continue_fit(train, int(setting["numIters"]))
        with np.errstate(all="ignore"):  # what diverged stays in, as published
            answer, point = answer_as_published(model, test)
            averages = paper_averages(test, answer, empty=shared.empty, point=point)
        record[setting["numIters"]] = averages | {"diverged": has_diverged(model)}
    return record
