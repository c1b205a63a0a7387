"""Hyper-parameters tried out on folds: every setting of a grid, settings at random, or those that Optuna suggests."""

import contextlib
import hashlib
import inspect
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from starcast.distributed.pool import ray_pool
from starcast.distributed.tasks import workers_of
from starcast.errors import DivergenceError, FileFormatError, ParameterError, StarcastError, choose
from starcast.evaluate import Folds, answer_for, make_folds
from starcast.journal import TROUBLE, Journal, OnProgress, run_missing
from starcast.models import Model, make_model
from starcast.models.factorization import check_whole
from starcast.objectives import Objectives, directions, measure
from starcast.progress import progress_bar
from starcast.ratings import Ratings
from starcast.results import Results
from starcast.spaces import Axes, Space, grid, make_axes, random_settings
from starcast.split import Split

METHODS = ("grid", "random", "tpe", "nsga2")
UNTOLD = ("n_jobs", "verbose")  # parameters that change no result
Record = dict[str, Any]


def search(
    model: str | Model,
    ratings: Ratings,
    space: Space,
    *,
    objectives: Objectives = ("nll",),
    n_trials: int | None = None,
    method: str = "random",
    cv: Folds = 5,
    n_jobs: int = 1,
    engine: Any = None,
    workers: int | None = None,
    storage: str | os.PathLike[str] | None = None,
    random_state: int | None = None,
    relevant: float | None = None,
    empty: str = "undefined",
    on_progress: OnProgress | None = None,
    verbose: bool = False,
) -> Results:
    """Return one row per trial: model, parameters, the mean and each fold's value of every objective, status, seconds.

    The status is "ok", "diverged" (a fold's numbers ran away, which ends the trial) or "failed" (the model refused the
    parameters); the column `error` then says why, and the means are NaN.

    Parameters
    ----------
    model : str or Model
        A name of :data:`starcast.MODELS`, or a model whose parameters hold unless the space names them.
    space : mapping from parameter to values
        A list of values, or a range ``(low, high)`` or ``(low, high, "log")`` of numbers, whole if both ends are.
        :data:`starcast.SPACES` holds the paper's, such as ``SPACES["resbemf"]["ml-100k"]``.
    objectives : names, or mapping from name to "min" or "max"
        Those of :func:`starcast.objectives.measure`: "nll", ``"1-MAE@0.5"``, "cumulative coverage", …
    n_trials : int, optional
        Trials in all, those of earlier runs in the same storage included. At random, of lists alone: by default all
        settings in random order. A grid has all its settings and no `n_trials`.
    method : {"random", "grid", "tpe", "nsga2"}
        The last two are Optuna's (``pip install 'starcast[search]'``) and learn from the trials before.
    cv : int, "paper" or list of Split
        See :func:`starcast.cross_validate`.
    n_jobs : int
        Processes at work.
    engine : "ray" or RayEngine, optional
        Who works: the workers of a Ray cluster, each on a fold of a trial, instead of processes of this machine. The
        folds go to each machine once. A fold whose worker dies is done again; four times, and its trial has failed.
        Other trouble of the cluster ends the search, records nothing of the trial, and the next call tries it again.
    workers : int, optional
        How many of Ray's workers; 2 if not given.
    storage : path or URL, optional
        A file in which every finished trial is kept, so that a search that was stopped, however rudely, is finished by
        calling it again. With "tpe" and "nsga2" it is Optuna's journal file, or the URL of a database, and many
        processes can work on it at a time; each may then end one trial too many.
    random_state : int, optional
        Seeds the folds, the draws, and the model if it takes a seed and has none. A storage needs one.
    relevant, empty
        Those of :func:`starcast.metrics.paper_measures`.
    on_progress : callable, optional
        Called with the trials done and those in all.
    verbose : bool
        Whether to show a bar with the time left.

    Examples
    --------
    >>> from starcast import make_ratings
    >>> ratings, _ = make_ratings(random_state=0)
    >>> table = search("item", ratings, {"shrinkage": [1, 10, 1000]}, method="grid", cv=3, random_state=0)
    >>> table["shrinkage"], table["status"]
    ([1, 10, 1000], ['ok', 'ok', 'ok'])
    >>> min(table, key=lambda row: row["nll"])["shrinkage"]
    10
    """
    choose("method", method, METHODS)
    check_whole("n_jobs", n_jobs, 1)
    if n_trials is not None:
        check_whole("n_trials", n_trials, 1)
    _check_seed(random_state, storage)
    n_workers = workers_of(engine, workers)
    if n_workers is not None and n_jobs > 1:
        raise ParameterError(
            f"n_jobs are processes, workers those of an engine: give one of them, got n_jobs={n_jobs}."
        )
    base = _seeded(make_model(model) if isinstance(model, str) else model.clone(), random_state)
    axes, goals = make_axes(space, base), directions(objectives)
    folds = make_folds(ratings, cv, random_state)
    about = {
        "model": type(base).__name__,
        "params": _told(base),
        "ratings": ratings.digest(),
        "cv": _describe_folds(cv, folds),
        "objectives": list(goals),
        "random_state": None if random_state is None else int(random_state),
        "relevant": None if relevant is None else float(relevant),
        "empty": empty,
    }
    one_thread = (n_jobs > 1 or n_workers is not None) and base.get_params().get("n_jobs", 1) is None
    study = Study(base.set_params(n_jobs=1) if one_thread else base, folds, goals, relevant, empty, about)
    pool = None if n_workers is None else ray_pool(n_workers, run_fold, (study,), study.pieces, study.join)
    at_work = n_jobs if n_workers is None else n_workers
    with progress_bar(f"searching {about['model']}", verbose) as show:

        def tell(done: int, total: int) -> None:
            show(done, total)
            if on_progress is not None:
                on_progress(done, total)

        if method in ("tpe", "nsga2"):
            from starcast.optuna_study import run_study  # an extra

            trials = run_study(study, axes, method, n_trials, at_work, storage, random_state, tell, pool)
        else:
            settings = _settings(axes, method, n_trials, random_state)
            trials = _run_listed(study, settings, at_work, storage, tell, pool)
        return study.results(trials)


@dataclass(frozen=True)
class Study:
    """What all trials of a search share; `about` is what makes the trials of two searches comparable."""

    model: Model
    folds: list[Split]
    goals: dict[str, str]
    relevant: float | None
    empty: str
    about: dict[str, Any]

    def key(self, params: Mapping[str, Any] | None = None) -> str:
        """Return the identity of a trial, or of the search itself."""
        text = json.dumps([self.about, params], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def run(self, params: Mapping[str, Any]) -> Record:
        """Return the record of a trial: its status, and the objectives of every fold up to the one that ended it."""
        folds: list[Record] = []
        for fold in range(len(self.folds)):
            folds.append(self.run_fold(params, fold))
            if folds[-1]["status"] != "ok":
                break
        return self.join(folds)

    def run_fold(self, params: Mapping[str, Any], fold: int) -> Record:
        """Return the record of one fold of a trial: its status, the value of every objective, seconds."""
        began = time.perf_counter()
        record: Record = {"status": "ok"}
        try:
            record["values"] = self._measure(params, self.folds[fold])
        except DivergenceError as error:
            record = {"status": "diverged", "error": str(error)}
        except TROUBLE:
            raise
        except StarcastError as error:
            record = {"status": "failed", "error": str(error)}
        return record | {"seconds": time.perf_counter() - began}

    def pieces(self, task: tuple[str, Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
        """Return the folds of a trial as tasks of their own."""
        return [(task[1], fold) for fold in range(len(self.folds))]

    def join(self, folds: Sequence[Record]) -> Record:
        """Return the record of a trial from those of its folds, in their order."""
        values: dict[str, list[float]] = {name: [] for name in self.goals}
        record: Record = {"status": "ok", "folds": values, "seconds": 0.0}
        for fold in folds:
            record["seconds"] += fold.get("seconds", 0.0)
            if fold["status"] != "ok":
                return record | {"status": fold["status"], "error": fold["error"]}
            for name, value in fold["values"].items():
                values[name].append(value)
        return record

    def _measure(self, params: Mapping[str, Any], split: Split) -> dict[str, float]:
        model = self.model.clone().set_params(**params)
        answer = answer_for(model.fit(split.train), split.test)
        if not np.isfinite(answer.probs).all():
            raise DivergenceError(f"{type(model).__name__} diverged: its probabilities are no longer finite.")
        return measure(split.test, answer, self.goals, relevant=self.relevant, empty=self.empty)

    def means(self, record: Record) -> dict[str, float]:
        """Return the mean of each objective over the folds, NaN if a fold is missing."""
        whole = record["status"] == "ok"
        return {name: float(np.mean(record["folds"][name])) if whole else float("nan") for name in self.goals}

    def results(self, trials: Iterable[tuple[Mapping[str, Any], Record]]) -> Results:
        """Return the table of the trials."""
        rows = []
        for number, (params, record) in enumerate(trials):
            row = {"trial": number, "model": self.about["model"]} | self.about["params"] | dict(params)
            row |= self.means(record)
            for name in self.goals:
                values = record["folds"][name] + [float("nan")] * len(self.folds)
                row |= {f"{name} fold {fold}": values[fold] for fold in range(len(self.folds))}
            row |= {name: record[name] for name in ("status", "seconds", "error") if name in record}
            rows.append(row)
        return Results(rows)


def run_fold(study: Study, params: Mapping[str, Any], fold: int) -> Record:
    """Run one fold of a trial, wherever the study is."""
    return study.run_fold(params, fold)


STUDIES: dict[str, Study] = {}  # those at work in this process, by key


def begin(key: str, study: Study) -> None:
    """Make a study known to this process."""
    STUDIES[key] = study


def run_trial(task: tuple[str, Mapping[str, Any]]) -> Record:
    """Run one trial of a study that :func:`begin` made known."""
    key, params = task
    return STUDIES[key].run(params)


def describe_other(about: Mapping[str, Any], found: Mapping[str, Any], storage: object) -> str:
    """Return the message for a storage that holds another search: what differs, and what to do."""
    differing = [name for name in dict.fromkeys([*about, *found]) if about.get(name) != found.get(name)]
    shown = "; ".join(f"{name} was {_short(found.get(name))}, is {_short(about.get(name))}" for name in differing)
    return f"{storage} holds another search: {shown}. Give this one a storage of its own."


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:20]}…"


def _settings(axes: Axes, method: str, n_trials: int | None, seed: int | None) -> list[dict[str, Any]]:
    if method == "random":
        return random_settings(axes, n_trials, seed)
    settings = list(grid(axes))
    if n_trials is not None:
        raise ParameterError(
            f"a grid tries all of its {len(settings):,} settings, so n_trials must be None, got {n_trials!r}. "
            'method="random" tries some of them.'
        )
    return settings


def _run_listed(
    study: Study,
    settings: list[dict[str, Any]],
    n_jobs: int,
    storage: str | os.PathLike[str] | None,
    tell: OnProgress,
    pool: Any,
) -> list[tuple[dict[str, Any], Record]]:
    """Run the settings that the storage lacks and return all of them with their records."""
    with contextlib.ExitStack() as stack:
        if storage is None:
            storage = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "search.jsonl"
        journal = Journal(storage)
        _check_same(journal, study)
        tasks = {study.key(params): (study.key(), params) for params in settings}
        stack.callback(STUDIES.pop, study.key(), None)
        records = run_missing(
            journal,
            tasks,
            run_trial,
            n_jobs=n_jobs,
            prepare=begin,
            prepare_args=(study.key(), study),
            pool=pool,
            on_progress=tell,
        )
    return [(params, records[key]) for key, (_, params) in tasks.items()]


def _check_same(journal: Journal, study: Study) -> None:
    """Check that a journal is of this search; if it is empty, say so in its first line."""
    for key, found in journal.records():
        if key != "search":
            raise FileFormatError(f"{journal.path} is a journal, but not of a search. Choose another file.")
        if found != study.about:
            raise ParameterError(describe_other(study.about, found, journal.path))
        return
    journal.add("search", study.about)


def _check_seed(random_state: object, storage: object) -> None:
    if random_state is not None:
        check_whole("random_state", random_state, 0, None)
    elif storage is not None:
        raise ParameterError(
            "random_state must be a whole number where there is a storage, so that a search that is started again has "
            "the same folds, got None."
        )


def _seeded(model: Model, random_state: int | None) -> Model:
    model._draw_seed()  # one seed for all settings, which a journal can hold
    wants = "random_state" in model.get_params() and model.get_params()["random_state"] is None
    return model.set_params(random_state=random_state) if wants else model


def _told(model: Model) -> dict[str, Any]:
    """Return the parameters that differ from their defaults and can change a result."""
    given = inspect.signature(type(model)).parameters
    params = {name: value for name, value in model.get_params().items() if name not in UNTOLD}
    changed = {name: value for name, value in params.items() if value != given[name].default}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in changed.items()}


def _describe_folds(cv: Folds, folds: list[Split]) -> Any:
    if isinstance(cv, (int, str)):
        return cv
    digest = hashlib.sha256("".join(part.digest() for split in folds for part in split).encode())
    return f"{len(folds)} splits {digest.hexdigest()[:16]}"
