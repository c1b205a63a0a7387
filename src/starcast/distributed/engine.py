"""Fit a model on a cluster: ratings cut by user, each worker with its own users, sums over items added up."""

import os
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from starcast.distributed.checkpoint import Checkpoint, State
from starcast.distributed.cluster import connect
from starcast.distributed.crew import Crew, WorkersLostError, cpus_of, share_threads
from starcast.distributed.plan import Plan
from starcast.distributed.plans import check_plan, choose_seed, make_plan
from starcast.distributed.shards import Shards
from starcast.errors import ClusterError, ClusterWarning, DataError, ParameterError, plural
from starcast.models.base import Model
from starcast.models.factorization import check_positive, check_whole
from starcast.progress import progress_bar
from starcast.ratings import Ratings

MOST_LOSSES = 20  # of workers since a state was kept, after which the cluster is not worth going on with


@dataclass
class Report:
    """What happened in a fit, round by round, of a worker on average.

    `sent` are the bytes of its sums for others' items, `received` those of others' questions and new rows; what it gets
    and gives as the owner of items is as much, counted by them. `seconds` leave out the keeping of states.
    """

    sent: list[float] = field(default_factory=list)
    received: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    resumed_from: int = 0


class RayEngine:
    """Workers of a Ray cluster that fit a model together: ``model.fit(ratings, engine=RayEngine(workers=4))``.

    Ratings are cut by user. Every worker moves its own users alone; the items are moved by sums over all workers, so
    that a round sends one table of sums and one table of rows per worker, however many ratings there are. The result is
    that of one machine up to the order of float sums; with one worker, and of OrdinalMF with any number, to the bit.

    A worker that is lost is replaced, and the fit goes on from the last state that was kept: the result is the same.

    Parameters
    ----------
    workers : int, default=2
    threads_per_worker : int or None, default=None
        None shares the CPUs of the cluster out evenly.
    checkpoint : path or None, default=None
        A folder for the state of the fit. If the driver is lost, the same fit goes on from there; it is emptied when
        the fit is complete. Only the driver has to see it.
    every : int, default=5
        Rounds after which the state is kept, in the driver's memory and, if there is one, in the checkpoint.
    patience : float, default=60.0
        Seconds to wait for a place for each worker.

    Attributes
    ----------
    report_ : Report
        What happened in the last fit: bytes and seconds of every round, workers lost, the round that it went on from.
    """

    report_: Report

    def __init__(
        self,
        workers: int = 2,
        threads_per_worker: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 5,
        patience: float = 60.0,
    ) -> None:
        check_whole("workers", workers, 1)
        check_whole("every", every, 1)
        check_positive("patience", patience)
        if threads_per_worker is not None:
            check_whole("threads_per_worker", threads_per_worker, 1)
        if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
            raise ParameterError(f"checkpoint must be the path of a folder, got {checkpoint!r}.")
        self.workers, self.threads_per_worker = workers, threads_per_worker
        self.checkpoint, self.every, self.patience = checkpoint, every, patience

    def __repr__(self) -> str:
        return f"RayEngine(workers={self.workers})"

    def fit(self, model: Model, ratings: Ratings | Shards) -> None:
        """Fit the model, whose `fit` calls this."""
        shards = self._cut(ratings)
        check_plan(model)
        model._check_params()
        ray = connect(self.workers, purpose="fitting on a cluster")
        model._forget()
        try:
            remember(model, shards)
            self._fit(ray, model, shards)
        except BaseException:  # Ctrl-C too: half a fit is none
            model._forget()
            raise

    def _cut(self, ratings: Ratings | Shards) -> Shards:
        if not isinstance(ratings, (Ratings, Shards)):
            raise DataError(f"fit needs Ratings or Shards, got {type(ratings).__name__}.")
        n_users = len(ratings.users)
        if self.workers > n_users:
            raise ParameterError(
                f"workers must be at most the {plural(n_users, 'user')} of the ratings, got {self.workers!r}."
            )
        return (
            ratings.recut(self.workers) if isinstance(ratings, Shards) else Shards.from_ratings(ratings, self.workers)
        )

    def _fit(self, ray: Any, model: Model, shards: Shards) -> None:
        self.report_ = Report()
        if self.checkpoint is None:
            return self._fit_from(ray, model, shards, None)
        checkpoint = Checkpoint(self.checkpoint, model, shards)
        with checkpoint.held():
            return self._fit_from(ray, model, shards, checkpoint)

    def _fit_from(self, ray: Any, model: Model, shards: Shards, checkpoint: Checkpoint | None) -> None:
        state = checkpoint.find() if checkpoint else None
        seed = state.seed if state else choose_seed(model)
        plan = make_plan(model, shards, seed)
        if checkpoint and state:
            checkpoint.bring_draws(plan, state)
        n_threads = self._threads(ray)
        crew = Crew(ray, plan, shards, n_threads, self.patience)
        run = Run(plan, crew, n_threads, self.every, checkpoint, state or State(seed), self.report_)
        try:
            with progress_bar(f"fitting {type(model).__name__}", bool(getattr(model, "verbose", False))) as advance:
                run.to_the_end(model, advance)
        finally:
            crew.dismiss()
        if checkpoint:
            checkpoint.clear()

    def _threads(self, ray: Any) -> int:
        cpus = cpus_of(ray)
        most, wanted = share_threads(cpus, self.workers), self.threads_per_worker or 1
        if most < wanted:
            raise ClusterError(
                f"{plural(self.workers, 'worker')} with {plural(wanted, 'thread')} each must find a place, but the "
                f"machines of the cluster have {' + '.join(f'{n:g}' for n in cpus)} CPUs. Ask for fewer workers or "
                "threads_per_worker, or add machines."
            )
        return self.threads_per_worker or most


class Run:
    """A fit on its way, from the last state that was kept to the end."""

    def __init__(
        self, plan: Plan, crew: Crew, n_threads: int, every: int, checkpoint: Checkpoint | None, state: State,
        report: Report,
    ) -> None:  # fmt: skip
        self._plan, self._crew, self._n_threads = plan, crew, n_threads
        self._every, self._checkpoint, self._kept, self._report = every, checkpoint, state, report
        report.resumed_from, self._start = state.done, plan.shared()
        self._n_losses = 0  # since a state was kept

    def to_the_end(self, model: Model, advance: Any) -> None:
        """Fit, and begin again from the last state whenever workers are lost."""
        lost: WorkersLostError | None = None
        while True:
            try:
                if lost is None:
                    self._crew.hire()
                else:
                    self._make_good(lost)
                self._stand()
                history = self._rounds(advance)
                self._plan.finish(model, self._crew, history)
                return
            except WorkersLostError as again:
                lost = again

    def _stand(self) -> None:
        """Bring driver and workers to the state that was kept, or to the beginning."""
        kept = self._kept
        shared = self._start if kept.shared is None else kept.shared
        self._plan.resume(shared)
        self._crew.each("stand", self._n_threads, shared)
        self._plan.prepare(self._crew)
        if kept.shared is None:
            self._plan.begun(self._crew.each("begin")[0])
        else:
            self._plan.resume(shared)
            if isinstance(kept.items, np.ndarray):  # from a checkpoint: all workers take the same copy
                kept.items = self._crew.put(kept.items)
            self._crew.each_with("restore", [(kept.items, users) for users in kept.users])

    def _rounds(self, advance: Any) -> list[float]:
        history = list(self._kept.history)
        self._crew.traffic()  # what was sent before does not belong to a round
        while not self._plan.is_over(history):
            begun = time.perf_counter()
            history.append(self._plan.round(self._crew, len(history)))
            self._measure(len(history), time.perf_counter() - begun)
            self._plan.check(history)
            advance(len(history), self._plan.n_rounds)
            if len(history) % self._every == 0 and not self._plan.is_over(history):
                self._keep(history)
        if self._checkpoint and self._kept.done < len(history):
            self._keep(history)  # rows are still to be gathered, and a driver may die of that
        return history

    def _keep(self, history: list[float]) -> None:
        """Keep the state after a round where the loss of any worker does not reach it: with the driver."""
        users = [self._crew.put(rows) for rows in self._crew.rows_of_users()]
        items = self._crew.put(self._crew.rows_of_items())
        self._n_losses = 0
        self._kept = State(self._kept.seed, list(history), self._plan.shared(), items, users)
        if self._checkpoint:
            self._checkpoint.save(self._kept, self._plan, self._crew.get)

    def _measure(self, done: int, seconds: float) -> None:
        sent, received = np.mean(self._crew.traffic(), axis=0)
        report = self._report
        at = done - 1 - report.resumed_from
        for kept, value in ((report.sent, sent), (report.received, received), (report.seconds, seconds)):
            kept[at:] = [float(value)]  # of a round that is repeated, the last counts

    def _make_good(self, lost: WorkersLostError) -> None:
        who = ", ".join(str(k + 1) for k in lost.which) or "none"
        told = (
            f"lost worker {who} of {len(self._crew)} ({lost.reason}); new ones take their place, and the fit goes on "
            f"from round {self._kept.done}."
        )
        self._report.losses.append(told)
        self._n_losses += 1
        if self._n_losses > MOST_LOSSES:
            raise ClusterError(
                f"workers were lost {self._n_losses} times since round {self._kept.done}, the last time: {lost.reason}"
            )
        warnings.warn(told, ClusterWarning, stacklevel=2)
        self._crew.replace(lost.which)


def remember(model: Model, shards: Shards) -> None:
    """Let the model know what every model knows of the ratings that it learns from.

    Those of a folder stay there: the model maps its files, whose codes the workers check, as a model that was loaded
    maps its own. Whether it is saved or pickled, a copy of them goes with it.
    """
    model.users_, model.items_ = shards.users, shards.items
    model.scores_, model.titles_ = shards.scores, shards.titles
    model.prior_ = (shards.counts + 1) / (shards.n_ratings + len(shards.scores))
    model.seen_start_ = np.concatenate([[0], np.cumsum(shards.user_counts)])
    model.seen_items_, model.seen_scores_ = shards.columns()
    model.item_counts_ = shards.item_counts
    model.digest_ = shards.digest
    model._index()
