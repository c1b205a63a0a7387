"""Work that survives being killed: one line of JSON per finished task, and only the missing ones are run."""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

from starcast.errors import ClusterError, FileError, FileFormatError, MissingExtraError, StarcastError
from starcast.files import alone

TROUBLE = (ClusterError, FileError, MissingExtraError)  # of a machine, not of a task: tried again, it may be over
OnProgress = Callable[[int, int], None]  # tasks done, tasks in all


class Journal:
    """Records by key in a file to which lines are only ever added.

    A line is there whole or, if the process dies in the middle, torn at the end of the file, where it is passed over
    when reading and cut off before the next line is written. Processes that share a journal write one at a time.

    >>> import tempfile
    >>> journal = Journal(Path(tempfile.mkdtemp()) / "trials.jsonl")
    >>> journal.add("a", {"nll": 1.25})
    >>> dict(Journal(journal.path).records())
    {'a': {'nll': 1.25}}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield every key with its record, in the order of writing; the first record of a key counts."""
        seen: set[str] = set()
        for number, line in enumerate(self._lines(), 1):
            try:
                entry = json.loads(line)
                key, record = entry["key"], entry["record"]
            except (ValueError, TypeError, KeyError):
                raise FileFormatError(
                    f"line {number} of {self.path} is not a record of a journal. Mend the line, or start a new journal."
                ) from None
            if key not in seen:
                seen.add(key)
                yield key, record

    def add(self, key: str, record: Mapping[str, Any]) -> None:
        """Add a record at the end of the file, on the disk before this returns."""
        line = json.dumps({"key": key, "record": dict(record)}) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file, alone(file):  # a line that is being written looks torn to others
                self._cut_torn_line(file)
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(
                f"{self.path} cannot be written: {error.strerror}. What was recorded before is safe."
            ) from None

    def _lines(self) -> list[bytes]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileError(f"{self.path} cannot be read: {error.strerror}.") from None
        return content.split(b"\n")[:-1]  # what follows the last line break is nothing, or torn

    @staticmethod
    def _cut_torn_line(file: Any) -> None:
        end = file.seek(0, os.SEEK_END)
        if end == 0:
            return
        file.seek(end - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def run_missing(
    journal: Journal,
    tasks: Mapping[str, Any],
    work: Callable[[Any], Mapping[str, Any]],
    *,
    n_jobs: int = 1,
    prepare: Callable[..., None] | None = None,
    prepare_args: tuple[Any, ...] = (),
    pool: contextlib.AbstractContextManager[Any] | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, dict[str, Any]]:
    """Run ``work(task)`` for every key that the journal lacks, record what it returns, and return all records by key.

    `work` is a function of a module, since it may run in another process; `prepare` runs once in each of them, to load
    what all tasks share. `pool`, if given, is what to submit to instead: one of `n_jobs` workers. An error of ours ends
    that task alone: its record is ``{"status": "failed", "error": …}``. Trouble of the machine (a file, a library, a
    cluster) is none of the task's: it ends the work and is not recorded, so that the next run tries again.
    """
    done = {key: record for key, record in journal.records() if key in tasks}
    missing = {key: task for key, task in tasks.items() if key not in done}
    if on_progress is not None:
        on_progress(len(done), len(tasks))
    n_jobs = n_jobs if len(missing) > 1 or pool is not None else 1
    most = (
        2 * n_jobs if n_jobs > 1 or pool is not None else 1
    )  # what this process runs itself is recorded before the next begins
    with pool or workers(n_jobs, prepare, prepare_args) as submit:
        running: dict[Future[dict[str, Any]], str] = {}
        queue = iter(missing.items())
        while True:
            while len(running) < most and (item := next(queue, None)) is not None:
                running[submit(work, item[1])] = item[0]
            if not running:
                break
            ended = wait(running, return_when=FIRST_COMPLETED).done
            for future in sorted(ended, key=lambda future: future.exception() is not None):  # what is done is kept
                key = running.pop(future)
                done[key] = future.result()
                journal.add(key, done[key])
                if on_progress is not None:
                    on_progress(len(done), len(tasks))
    return {key: done[key] for key in tasks}


@contextlib.contextmanager
def workers(n_jobs: int, prepare: Callable[..., None] | None, args: tuple[Any, ...]) -> Iterator[Any]:
    """Give a function that submits work: to processes of their own, or to this one if a single worker is enough."""
    if n_jobs > 1:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        # Spawned, not forked: a fork would copy threads' locks in whatever state they are.
        with ProcessPoolExecutor(n_jobs, get_context("spawn"), initializer=_begin, initargs=(prepare, args)) as pool:
            try:
                yield lambda work, task: pool.submit(_guarded, work, task)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return
    if prepare is not None:
        prepare(*args)

    def submit(work: Callable[[Any], Mapping[str, Any]], task: Any) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = Future()
        future.set_result(_guarded(work, task))
        return future

    yield submit


def _begin(prepare: Callable[..., None] | None, args: tuple[Any, ...]) -> None:
    """Prepare a worker, and see to it that it ends when the process that it works for is killed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare(*args)


def _end_with_parent() -> None:
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _guarded(work: Callable[[Any], Mapping[str, Any]], task: Any) -> dict[str, Any]:
    try:
        return dict(work(task))
    except TROUBLE:
        raise
    except StarcastError as error:
        return {"status": "failed", "error": str(error)}
