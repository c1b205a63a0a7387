"""Ray's workers in the place of processes: the same submit, a task in pieces that are done side by side."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from starcast.distributed.cluster import check_raylet, connect
from starcast.distributed.tasks import PATIENCE, RETRIES, first_line, sharing
from starcast.errors import ClusterError, StarcastError
from starcast.journal import TROUBLE

Record = dict[str, Any]


@contextlib.contextmanager
def ray_pool(
    workers: int,
    work: Callable[..., Record],
    shared: tuple[Any, ...],
    pieces: Callable[[Any], Iterable[tuple[Any, ...]]],
    join: Callable[[Sequence[Record]], Record],
) -> Iterator[Callable[[Any, Any], Future[Record]]]:
    """Give a function that submits a task, as that of :func:`starcast.journal.workers` does.

    The task is cut into `pieces`, Ray's workers do ``work(*shared, *piece)``, and the records of the pieces are joined
    to the one of the task. What is `shared` goes to each machine once.

    As many pieces as there are `workers` are at work at a time, those of the task that came first before all others.
    Behind a piece whose status is not "ok" none of its task is begun, and `join` gets the records up to it. A piece
    whose worker dies is done again, three times if need be; its record is then ``{"status": "failed", "error": …}``, as
    it is for an error of ours. All other trouble of the cluster is raised by the future, as ClusterError.
    """
    ray = connect(workers, "searching on many machines")
    queue = _Queue(ray, workers, sharing(ray, work, shared))
    threading.Thread(target=queue.run, daemon=True).start()
    try:
        yield lambda _, task: queue.submit(list(pieces(task)), join)
    finally:  # what is at work is not cancelled, see run_tasks: it ends by itself, unheard
        queue.close()


class _Queue:
    """Pieces in the order in which they shall begin. All that changes it happens in the one thread of `run`."""

    def __init__(self, ray: Any, workers: int, send: Callable[..., Any]) -> None:
        self._ray, self._free, self._send = ray, workers, send
        self._waiting: deque[tuple[_Whole, int, tuple[Any, ...]]] = deque()
        self._running: list[_Whole] = []  # once for each piece that is at work
        self._events: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, pieces: list[tuple[Any, ...]], join: Callable[[Sequence[Record]], Record]) -> Future[Record]:
        """Put the pieces of a task at the end and return what becomes of it."""
        whole = _Whole(len(pieces), join)
        self._events.put(lambda: self._waiting.extend((whole, place, piece) for place, piece in enumerate(pieces)))
        return whole.future

    def close(self) -> None:
        """Begin no more."""
        self._events.put(None)

    def run(self) -> None:
        """Take note of what comes and what is done, and begin what there are workers for, until it is closed."""
        while True:
            try:
                happen = self._events.get(timeout=PATIENCE)
            except Empty:
                self._check()
                continue
            if happen is None:
                return
            happen()
            while self._free and self._waiting:
                self._begin(*self._waiting.popleft())

    def _check(self) -> None:
        """Fail all that is under way if Ray has ended on this machine: it would never come to an end."""
        try:
            check_raylet()
        except ClusterError as error:
            for whole in (*self._running, *(whole for whole, _, _ in self._waiting)):
                whole.fail(error)
            self._running.clear()
            self._waiting.clear()

    def _begin(self, whole: "_Whole", place: int, piece: tuple[Any, ...]) -> None:
        if not whole.wants(place):
            return
        try:
            check_raylet()
            done = self._send(*piece).future()
        except Exception as error:  # Ray takes nothing any more
            whole.fail(self._meant(error))
            return
        self._free -= 1
        self._running.append(whole)
        done.add_done_callback(lambda done: self._events.put(lambda: self._end(whole, place, done)))  # by Ray's thread

    def _end(self, whole: "_Whole", place: int, done: Any) -> None:
        self._free += 1
        if whole in self._running:
            self._running.remove(whole)
        try:
            check_raylet()  # else what was lost with it would be recorded as a failure of the trial
            whole.take(place, self._record(done))
        except Exception as error:
            whole.fail(self._meant(error))

    def _record(self, done: Any) -> Record:
        """Return the record of a piece, if need be that it failed, which is for what the piece itself did."""
        try:
            return dict(done.result())
        except self._ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, StarcastError) or isinstance(error.cause, TROUBLE):
                raise
            return {"status": "failed", "error": str(error.cause)}
        except self._ray.exceptions.WorkerCrashedError as error:
            return {"status": "failed", "error": f"a worker died {RETRIES + 1} times at it: {first_line(error)}"}

    def _meant(self, error: Exception) -> Exception:
        """Return what ends the work: an error of ours as it is, Ray's trouble in words."""
        if isinstance(error, self._ray.exceptions.RayTaskError):
            return error.cause if isinstance(error.cause, StarcastError) else error
        if isinstance(error, self._ray.exceptions.RayError):
            return ClusterError(
                f"the cluster gave up on a trial: {first_line(error)} Nothing was recorded of it; what was recorded "
                "before is safe: start again, with fewer workers if memory was short."
            )
        return error


class _Whole:
    """Collects the records of pieces and joins them with the last, or with the first that is not "ok"."""

    def __init__(self, n: int, join: Callable[[Sequence[Record]], Record]) -> None:
        self.future: Future[Record] = Future()
        self._join = join
        self._records: list[Record | None] = [None] * n

    def wants(self, place: int) -> bool:
        """Tell whether a piece must be done, as far as is known."""
        known = [record for record in self._records[:place] if record is not None]
        return not self.future.done() and all(record["status"] == "ok" for record in known)

    def take(self, place: int, record: Record) -> None:
        """Take the record of a piece."""
        self._records[place] = record
        known: list[Record] = []
        for found in self._records:
            if found is None:  # still to come
                return
            known.append(found)
            if found["status"] != "ok":
                break
        if not self.future.done():
            self.future.set_result(self._join(known))

    def fail(self, error: Exception) -> None:
        """End with an error that is none of the task's."""
        if not self.future.done():
            self.future.set_exception(error)
