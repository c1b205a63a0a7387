"""The workers as the driver sees them: hired, asked all at once, replaced when they are lost."""

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from starcast import _native
from starcast.distributed.cluster import check_raylet
from starcast.distributed.cost import SUMS_AT_ONCE, row_of
from starcast.distributed.shards import Shards
from starcast.distributed.worker import Bounds, Worker
from starcast.errors import ClusterError, ClusterWarning, plural

if TYPE_CHECKING:
    from starcast.distributed.plan import Plan


class WorkersLostError(Exception):
    """Some workers do not answer any more: their numbers, and what Ray says."""

    def __init__(self, which: list[int], reason: str) -> None:
        super().__init__(which, reason)
        self.which, self.reason = which, reason


class Crew:
    """As many workers as there are shards; worker k holds shard k and owns the k-th range of the items.

    Their number never changes, so that sums are always added up in the same order: a worker that is lost is replaced
    by one that reads the same shard, if need be on a machine that has work enough.
    """

    def __init__(self, ray: Any, plan: "Plan", shards: Shards, n_threads: int, patience: float) -> None:
        self._ray, self._plan, self._n_threads, self._patience = ray, plan, n_threads, patience
        n, n_items = len(shards), len(shards.items)
        self.ranges: list[Bounds] = [(n_items * k // n, n_items * (k + 1) // n) for k in range(n)]
        self.owners = [k for k, (first, last) in enumerate(self.ranges) if last > first]
        self._most_items = SUMS_AT_ONCE // row_of(plan.model, len(shards.scores)).up
        self._item_counts = self.put(shards.item_counts)
        self._places = [self.put(shards.place(k)) for k in range(n)]
        self._plan_ref = self.put(plan)
        self._workers: list[Any] = [None] * n
        self._bare: set[int] = set()  # workers that have not read their shard yet

    def __len__(self) -> int:
        return len(self._workers)

    def hire(self) -> None:
        """Start all workers, or say what the cluster lacks."""
        everyone = list(range(len(self)))
        late = self._start(everyone, self._n_threads)
        if late:
            self.dismiss()
            raise ClusterError(
                f"{plural(len(self), 'worker')} with {plural(self._n_threads, 'thread')} each must find a place, but "
                f"{len(late)} had none after {self._patience:g} s; {_told(self._ray)}. Ask for fewer workers or "
                "threads_per_worker, add machines, or give RayEngine more patience."
            )
        self._load()

    def replace(self, which: Sequence[int]) -> None:
        """Put new workers in the place of some, beside others if there is no machine to spare."""
        for k in which:
            self._kill(k)
        late = self._start(which, self._n_threads)
        if late:
            for k in late:
                self._kill(k)
            warnings.warn(
                f"no machine has {plural(self._n_threads, 'CPU')} to spare for {plural(len(late), 'new worker')}, "
                "which will share with others.", ClusterWarning, stacklevel=2,
            )  # fmt: skip
            if self._start(late, 0):
                raise ClusterError(f"no machine takes {plural(len(late), 'new worker')}; {_told(self._ray)}.")
        self._load()

    def dismiss(self) -> None:
        """End all workers."""
        for k in range(len(self)):
            self._kill(k)

    def each(self, step: str, *given: Any) -> list[Any]:
        """Let every worker take a step of the plan on its own; return what each says."""
        return list(self.get([worker.do.remote(step, *given) for worker in self._workers]))

    def each_with(self, step: str, given: Sequence[Sequence[Any]]) -> list[Any]:
        """The same with something else for everyone."""
        return list(self.get([w.do.remote(step, *own) for w, own in zip(self._workers, given, strict=True)]))

    def exchange(self, step: str, *given: Any) -> list[Any]:
        """Move the items: owners ask, everybody looks, owners add up, until all rows are where they should be.

        Parts and rows go from worker to worker; the driver sees only who is done. Returned are the owners' summaries.
        """
        answers = {k: self._workers[k].open.options(num_returns=2).remote(step, *given) for k in self.owners}
        summaries: dict[int, Any] = {}
        rows: dict[int, Any] = {}
        is_asked = False
        while answers:
            told = dict(zip(answers, self.get([said for said, _ in answers.values()]), strict=True))
            for k, summary in told.items():
                if summary is not None:
                    summaries[k], rows[k] = summary, answers.pop(k)[1]
            is_asked |= bool(answers)
            answers = self._ask_everyone({k: ask for k, (_, ask) in answers.items()})
        if is_asked:  # else a worker has moved all rows where they are
            moved = [rows[k] for k in self.owners]
            self.get([worker.take.remote(self.owners, *moved) for worker in self._workers])
        return [summaries[k] for k in self.owners]

    def rows_of_users(self) -> Iterator[Any]:
        """Give the rows of the users, worker after worker, as numbers."""
        for worker in self._workers:
            yield self.get(worker.do.remote("give_users"))

    def rows_of_items(self) -> Any:
        """Return the rows of all items, as numbers."""
        return self.get(self._workers[0].do.remote("give_items"))

    def traffic(self) -> list[tuple[int, int]]:
        """Return the bytes that each worker sent to others and received from them since the last time."""
        return list(self.get([worker.traffic.remote() for worker in self._workers]))

    def hello(self) -> list[dict[str, Any]]:
        """Let everyone say who it is."""
        return list(self.get([worker.hello.remote() for worker in self._workers]))

    def get(self, refs: Any) -> Any:
        """Return what workers said, or raise what went wrong: an error of theirs, or that some are gone."""
        from ray.exceptions import RayError, RayTaskError

        check_raylet()
        try:
            return self._ray.get(refs)
        except RayError as error:
            check_raylet()
            cause = error.cause if isinstance(error, RayTaskError) else error
            if not isinstance(cause, RayError):
                raise cause from None
            _check_room(cause)
            raise WorkersLostError(self._missing(), _first_line(cause)) from None

    def put(self, value: Any) -> Any:
        """Put something into the object store."""
        from ray.exceptions import RayError

        check_raylet()
        try:
            return self._ray.put(value)
        except RayError as error:
            _check_room(error)
            raise ClusterError(f"the cluster takes nothing any more: {_first_line(error)}") from None

    def _ask_everyone(self, asks: dict[int, Any]) -> dict[int, Any]:
        """Let everyone look at what some owners ask, and these go on with the parts.

        Of some owners after the others: sums of all items at once would be more than a worker has room for.
        """
        answers: dict[int, Any] = {}
        for owners in together(list(asks), self.ranges, self._most_items):
            looked = [
                worker.look.options(num_returns=len(owners)).remote(owners, *(asks[owner] for owner in owners))
                for worker in self._workers
            ]
            by_worker = [parts if len(owners) > 1 else [parts] for parts in looked]
            for at, owner in enumerate(owners):
                parts = [found[at] for found in by_worker]
                answers[owner] = self._workers[owner].tell.options(num_returns=2).remote(*parts)
        return answers

    def _start(self, which: Sequence[int], n_cpus: int) -> list[int]:
        """Start workers; return those that the cluster had no place for. If some die at once, that is told first."""
        from ray.exceptions import RayActorError, RayError

        actor = self._ray.remote(Worker).options(num_cpus=n_cpus, max_restarts=0, scheduling_strategy="SPREAD")
        for k in which:
            self._workers[k] = actor.remote()
        calls = {k: self._workers[k].hello.remote() for k in which}
        ready: list[Any] = []
        deadline = time.monotonic() + self._patience
        while len(ready) < len(calls) and time.monotonic() < deadline and self._has_room(n_cpus):
            check_raylet()
            ready, _ = self._ray.wait(list(calls.values()), num_returns=len(calls), timeout=1.0)
        self._bare.update(which)
        late = [k for k, call in calls.items() if call not in ready]
        lost: list[int] = []
        reason = ""
        for k in calls.keys() - late:
            try:
                check_version(self._ray.get(calls[k])["version"])
            except RayActorError as error:
                lost.append(k)
                reason = _first_line(error)
            except RayError as error:
                raise ClusterError(
                    f"a machine of the cluster cannot run Starcast: {_last_line(error)}. Install it everywhere."
                ) from None
        if lost:  # whoever waits for a place begins anew with them
            raise WorkersLostError(sorted([*lost, *late]), reason)
        return late

    def _has_room(self, n_cpus: int) -> bool:
        """Tell whether the machines that are there have CPUs for all workers, be they free or not."""
        return n_cpus == 0 or share_threads(cpus_of(self._ray), len(self)) >= n_cpus

    def _load(self) -> None:
        self.get([
            self._workers[k].load.remote(self._plan_ref, k, self.ranges, self._item_counts, self._places[k])
            for k in sorted(self._bare)
        ])  # fmt: skip
        self._bare.clear()

    def _kill(self, k: int) -> None:
        if self._workers[k] is not None:
            self._ray.kill(self._workers[k], no_restart=True)
        self._workers[k] = None

    def _missing(self) -> list[int]:
        """Return the workers that do not answer; the others finish what they are at before they do."""
        from ray.exceptions import RayError

        lost = []
        for k, call in enumerate([worker.hello.remote() for worker in self._workers]):
            try:
                self._ray.get(call)
            except RayError:
                lost.append(k)
        return lost


def together(owners: Sequence[int], ranges: Sequence[Bounds], most: int) -> list[list[int]]:
    """Return the owners in groups, in their order, that have at most so many items together, or one owner each.

    >>> together([0, 1, 3, 4], [(0, 10), (10, 20), (20, 30), (30, 40), (40, 50)], most=25)
    [[0, 1], [3, 4]]
    """
    groups: list[list[int]] = []
    n_items = 0
    for owner in owners:
        first, last = ranges[owner]
        if not groups or n_items + last - first > most:
            groups.append([])
            n_items = 0
        groups[-1].append(owner)
        n_items += last - first
    return groups


def share_threads(cpus: Sequence[float], workers: int) -> int:
    """Return the most threads that each of so many workers can have on machines with so many CPUs; 0 if there are too
    few for one each.

    >>> share_threads([4, 4, 2], 3), share_threads([1, 1, 1], 2), share_threads([1, 1], 3)
    (2, 1, 0)
    """
    for threads in range(int(max(cpus, default=0)), 0, -1):
        if sum(int(n) // threads for n in cpus) >= workers:
            return threads
    return 0


def cpus_of(ray: Any) -> list[float]:
    """Return the CPUs of each machine that is there."""
    return [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]


def _told(ray: Any) -> str:
    free = ray.available_resources().get("CPU", 0)
    return f"the cluster has {sum(cpus_of(ray)):g} CPUs, {free:g} of them free"


def check_version(found: str) -> None:
    """Raise an error unless a worker has the Starcast that is here."""
    if found != _native.version:
        raise ClusterError(
            f"all machines must have the same Starcast, here is {_native.version}, a worker has {found}. Install the "
            "same one everywhere."
        )


def _check_room(error: Exception) -> None:
    """Raise an error that says what to do if there is no room for what workers send each other."""
    from ray.exceptions import ObjectStoreFullError, OutOfDiskError

    if isinstance(error, (ObjectStoreFullError, OutOfDiskError)):
        raise ClusterError(
            f"the object store of a machine is full: {_first_line(error)}. Give it more room with "
            "ray start --object-store-memory=…, or take more machines."
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
