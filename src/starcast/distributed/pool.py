"""Ray's workers in the place of processes: the same submit, a task in pieces that are done side by side."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from starcast.distributed.cluster import connect
from starcast.distributed.tasks import RETRIES, first_line, sharing
from starcast.errors import StarcastError

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
    to the one of the task. What is `shared` goes to each machine once. A piece whose worker dies is done again, three
    times if need be; its record is then ``{"status": "failed", "error": …}``, as it is for an error of ours.
    """
    ray = connect(workers, "searching on many machines")
    send = sharing(ray, work, shared)

    def submit(_: Any, task: Any) -> Future[Record]:
        references = [send(*piece) for piece in pieces(task)]
        whole = _Whole(ray, len(references), join)
        for place, reference in enumerate(references):
            reference.future().add_done_callback(whole.taker(place))
        return whole.future

    yield submit  # what is left of an interrupted search is not cancelled, see run_tasks: it ends by itself, unheard


class _Whole:
    """Collects the records of pieces, which come from several threads, and joins them with the last."""

    def __init__(self, ray: Any, n: int, join: Callable[[Sequence[Record]], Record]) -> None:
        self.future: Future[Record] = Future()
        self._ray, self._join, self._left, self._lock = ray, join, n, threading.Lock()
        self._records: list[Record] = [{} for _ in range(n)]

    def taker(self, place: int) -> Callable[[Any], None]:
        """Return the function that takes what became of a piece."""

        def take(done: Any) -> None:
            with self._lock:
                try:
                    self._records[place] = self._record(done)
                    self._left -= 1
                    if self._left == 0 and not self.future.done():
                        self.future.set_result(self._join(self._records))
                except BaseException as error:  # not one of ours: it ends the search
                    if not self.future.done():
                        self.future.set_exception(error)

        return take

    def _record(self, done: Any) -> Record:
        try:
            return dict(done.result())
        except self._ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, StarcastError):
                raise
            return {"status": "failed", "error": str(error.cause)}
        except self._ray.exceptions.RayError as error:
            return {"status": "failed", "error": f"a worker died {RETRIES + 1} times at it: {first_line(error)}"}
