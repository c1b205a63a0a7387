"""Many calls of one function: in this process, or by the workers of a Ray cluster."""

import contextlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from starcast.distributed.cluster import check_raylet, connect
from starcast.errors import ClusterError, ClusterWarning, ParameterError, StarcastError, choose

RETRIES = 3  # of a call whose worker died
IDLE = 30.0  # seconds without a task, after which a worker lets go of what tasks share
PATIENCE = 1.0  # seconds between looks whether Ray is still there
MOST_WAITING = 4  # results a worker, of which the first is not there yet


def workers_of(engine: Any, workers: int | None) -> int | None:
    """Return how many workers of Ray an `engine` stands for, None where the work is done in this process.

    It is None, "ray", or an object that tells its `workers`.
    """
    if engine is None:
        if workers is not None:
            raise ParameterError(f'workers are those of engine="ray", got workers={workers!r} without an engine.')
        return None
    if isinstance(engine, str):
        choose("engine", engine, ["ray"])
        return 2 if workers is None else workers
    if not isinstance(getattr(engine, "workers", None), int):
        raise ParameterError(f'engine must be "ray" or a RayEngine, got {engine!r}.')
    if workers not in (None, engine.workers):
        raise ParameterError(f"workers must be those of the engine, {engine.workers}, or not given, got {workers!r}.")
    return int(engine.workers)


def run_tasks(
    work: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    workers: int | None,
    purpose: str,
    shared: tuple[Any, ...] = (),
) -> Iterator[Any]:
    """Yield what ``work(*shared, *task)`` returns, in the order of the tasks, a few of which are under way at a time.

    With Ray, what is `shared` goes to each machine once, and a reference to an object in its store is an argument like
    the object itself. A worker that dies is replaced and its task done again; what goes wrong within a task is raised
    here as it was there.
    """
    if workers is None:
        yield from (work(*shared, *task) for task in tasks)
        return
    ray = connect(workers, purpose)
    submit = sharing(ray, work, shared)
    under_way: deque[Any] = deque()  # in the order of the tasks
    running: list[Any] = []
    queue = iter(tasks)
    try:
        while True:
            while len(running) < workers and len(under_way) < MOST_WAITING * workers and (task := next(queue, None)):
                running.append(submit(*task))
                under_way.append(running[-1])
            if not under_way:
                return
            if under_way[0] in running:
                _, running = wait_for(ray, running, 1)
                continue
            with telling(ray):
                check_raylet()
                result = ray.get(under_way.popleft())
            yield result
    finally:
        # Not cancelled: Ray (2.60) ends the whole process if a task is done just when it is cancelled. Waited for, so
        # that nobody writes to a folder that is being removed; where Ray has ended, nobody is left to be waited for.
        if under_way:
            with contextlib.suppress(ClusterError):
                wait_for(ray, list(under_way), len(under_way))


def wait_for(ray: Any, references: list[Any], n: int) -> tuple[list[Any], list[Any]]:
    """Return `n` references that are done and the others, or raise an error if Ray has ended on this machine."""
    while True:
        check_raylet()
        done, others = ray.wait(references, num_returns=n, timeout=PATIENCE)
        if len(done) == n:
            return done, others


ARRIVED: dict[str, tuple[Any, ...]] = {}  # what the tasks of this worker share, by the name of its reference
CLOCKS: list[threading.Timer] = []  # the one that runs since the last of them ended


def sharing(ray: Any, work: Callable[..., Any], shared: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a function that submits ``work(*shared, *task)`` to Ray and returns a reference to what becomes of it."""
    tell_if_busy(ray)
    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_work_on)
    check_raylet()
    box = [ray.put(shared)]  # in a list: a bare reference would be fetched, and its looks-up built, for every task
    return lambda *task: remote.remote(work, box, *task)


def tell_if_busy(ray: Any, patience: float = 5.0) -> None:
    """Warn if no CPU is free, unless one soon is: tasks would wait without a word."""
    deadline = time.monotonic() + patience
    while ray.available_resources().get("CPU", 0) < 1:
        if time.monotonic() > deadline:
            warnings.warn(
                "no CPU of the Ray cluster is free; the work begins when others have ended theirs.",
                ClusterWarning, stacklevel=2,
            )  # fmt: skip
            return
        time.sleep(0.1)


def _work_on(work: Callable[..., Any], box: list[Any], *task: Any) -> Any:
    import ray

    name = box[0].hex()
    shared = ARRIVED.get(name)
    if shared is None:
        ARRIVED.clear()
        shared = ARRIVED[name] = ray.get(box[0])
    try:
        return work(*shared, *task)
    finally:
        _forget_later()


def _forget_later() -> None:
    """Let go of what tasks share, which takes room in the store of the machine, when no more of them come."""
    for clock in CLOCKS:
        clock.cancel()
    CLOCKS[:] = [threading.Timer(IDLE, ARRIVED.clear)]
    CLOCKS[0].daemon = True
    CLOCKS[0].start()


class telling:  # noqa: N801, it reads as a verb: with telling(ray): …
    """Turns what Ray raises into the error that was meant: that of the task, or one that says what became of it."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Raise the error that was meant."""
        if isinstance(error, self.ray.exceptions.RayTaskError):
            if isinstance(error.cause, StarcastError | OSError):  # a full disk there is a full disk here
                raise error.cause from None
        elif isinstance(error, self.ray.exceptions.RayError):
            raise ClusterError(
                f"a worker died {RETRIES + 1} times at the same task: {first_line(error)} Give it more memory, or "
                "ask for fewer workers."
            ) from None


def first_line(error: BaseException) -> str:
    """Return what an error says first."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
