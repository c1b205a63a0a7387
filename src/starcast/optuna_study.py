"""Trials that Optuna suggests, kept in its storages so that many processes can work on one study."""

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from starcast.errors import FileError, FileFormatError, MissingExtraError, ParameterError, StarcastError
from starcast.journal import OnProgress, workers
from starcast.search import STUDIES, Record, Study, begin, describe_other, run_trial
from starcast.spaces import Axes, Choice

try:
    import optuna
    from optuna.storages.journal import JournalFileBackend
    from optuna.study import StudyDirection as Direction
except ImportError:
    raise MissingExtraError("search by tpe or nsga2", "optuna", "search") from None

NAME = "starcast"  # of the one study that a storage holds


def run_study(
    study: Study,
    axes: Axes,
    method: str,
    n_trials: int | None,
    n_jobs: int,
    storage: str | os.PathLike[str] | None,
    random_state: int | None,
    tell: OnProgress,
    pool: AbstractContextManager[Any] | None = None,
) -> list[tuple[dict[str, Any], Record]]:
    """Run trials until the study has `n_trials`, and return all of them, in the order in which they were asked for."""
    if n_trials is None:
        raise ParameterError(f'n_trials must be a whole number of at least 1 with method="{method}", got None.')
    opened = _open(study, storage, Seeded(method, n_trials, random_state))
    begin(study.key(), study)
    try:
        with pool or workers(n_jobs, begin, (study.key(), study)) as submit:
            _work(study, opened, axes, n_trials, n_jobs, submit, tell)
    finally:
        STUDIES.pop(study.key(), None)
    return [(trial.params, trial.user_attrs["record"]) for trial in _finished(opened)]


def _work(
    study: Study, opened: optuna.Study, axes: Axes, n_trials: int, n_jobs: int, submit: Any, tell: OnProgress
) -> None:
    done = len(_finished(opened))
    tell(min(done, n_trials), n_trials)
    running: dict[Future[Record], optuna.Trial] = {}
    try:
        while True:
            while len(running) < n_jobs and done + len(running) < n_trials:
                trial = opened.ask({name: _distribution(axis) for name, axis in axes.items()})
                running[submit(run_trial, (study.key(), trial.params))] = trial
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                _tell_optuna(study, opened, running[future], future.result())
                del running[future]
            done = len(_finished(opened))
            tell(min(done, n_trials), n_trials)
    finally:
        for trial in running.values():  # interrupted: nothing was found out
            opened.tell(trial, state=optuna.trial.TrialState.FAIL)


def _tell_optuna(study: Study, opened: optuna.Study, trial: optuna.Trial, record: Record) -> None:
    """Keep the record; a trial without a value for every objective counts as given up, so that samplers avoid it."""
    means = list(study.means(record).values())
    trial.set_user_attr("record", record)
    if np.isnan(means).any():
        opened.tell(trial, state=optuna.trial.TrialState.PRUNED)
    else:
        opened.tell(trial, means)


def _finished(opened: optuna.Study) -> list[Any]:
    return [trial for trial in opened.get_trials(deepcopy=False) if "record" in trial.user_attrs]


def _distribution(axis: Any) -> optuna.distributions.BaseDistribution:
    if isinstance(axis, Choice):
        return optuna.distributions.CategoricalDistribution(axis.values)
    if axis.whole:
        return optuna.distributions.IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log)


def _open(study: Study, storage: str | os.PathLike[str] | None, sampler: "Seeded") -> optuna.Study:
    """Return the study of the storage, a new one if it has none."""
    about = study.about | {"directions": list(study.goals.values())}  # what a sampler has learnt hangs on them, too
    opened = _create(study, storage, sampler)
    if "search" not in opened.user_attrs:
        opened.set_user_attr("search", about)
    found = opened.user_attrs["search"]
    if found != about:
        raise ParameterError(describe_other(about, found, storage))
    return opened


def _create(study: Study, storage: str | os.PathLike[str] | None, sampler: "Seeded") -> optuna.Study:
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(
            study_name=NAME,
            storage=_backend(storage),
            sampler=sampler,
            directions=[Direction.MINIMIZE if way == "min" else Direction.MAXIMIZE for way in study.goals.values()],
            load_if_exists=True,
        )
    except StarcastError:
        raise
    except Exception as error:  # whatever a database, its driver or the file system comes up with
        raise FileError(
            f"storage {os.fspath(storage or '')!r} cannot be opened: {error}. Give a file, or the URL of a database "
            "such as sqlite:///search.db."
        ) from None
    finally:
        optuna.logging.set_verbosity(level)


def _backend(storage: str | os.PathLike[str] | None) -> Any:
    if storage is None or "://" in os.fspath(storage):
        return storage
    path = Path(storage)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and path.stat().st_size and not _is_optunas(path):
        raise FileFormatError(
            f'{path} is not a journal of Optuna, which tpe and nsga2 need. Choose another file, or method="random".'
        )
    return optuna.storages.JournalStorage(JournalFileBackend(str(path)))


def _is_optunas(path: Path) -> bool:
    with path.open("rb") as file:
        return b'"op_code"' in file.readline()


class Seeded(optuna.samplers.BaseSampler):
    """A sampler seeded anew for every trial by its number, so that processes at one study do not draw alike."""

    def __init__(self, method: str, n_trials: int, random_state: int | None) -> None:
        self._method, self._random_state = method, random_state
        self._population = min(50, max(2, n_trials // 5))
        self._sampler = self._make(None)

    def _make(self, seed: int | None) -> optuna.samplers.BaseSampler:
        if self._method == "tpe":
            return optuna.samplers.TPESampler(seed=seed)
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=self._population)

    def before_trial(self, study: optuna.Study, trial: Any) -> None:
        """Make the sampler of this trial."""
        if self._random_state is not None:
            state = np.random.SeedSequence([self._random_state, trial.number]).generate_state(1)
            self._sampler = self._make(int(state[0]))
        self._sampler.before_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: Any) -> dict[str, Any]:
        """Return what the sampler draws together."""
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(self, study: optuna.Study, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        """Return a draw of parameters together."""
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(self, study: optuna.Study, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Return a draw of one parameter."""
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: optuna.Study, trial: Any, state: Any, values: Sequence[float] | None) -> None:
        """Let the sampler take note of what was found."""
        self._sampler.after_trial(study, trial, state, values)
