"""How far long work has come, and how long it will still take."""

import contextlib
import sys
import time
from collections.abc import Iterator

from starcast.journal import OnProgress

SHORT, LONG = 2.0, 60.0  # seconds between two lines: at least, and at most while tasks are done
ENOUGH, SOON = 12, 10.0  # calls, or seconds, after which the time left is first told
MOST_CALLS = 1000  # whose times are kept
STEP = 0.1  # share of the tasks between two lines


@contextlib.contextmanager
def progress_bar(title: str, show: bool = True) -> Iterator[OnProgress]:
    """Give a function of (tasks done, tasks in all) that tells on stderr how far the work has come.

    A terminal and a notebook get a bar, anything else a plain line every tenth of the work. The estimate of the time
    left counts calls only, so that what was done before the first does not make the work look fast.
    """
    if not show or sys.stderr is None:  # closed; print would take stdout instead
        yield lambda done, total: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        with _bar(title, console) as on_progress:
            yield on_progress
    else:
        yield _lines(title)


@contextlib.contextmanager
def _bar(title: str, console: object) -> Iterator[OnProgress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=console, transient=True) as bar:  # type: ignore[arg-type]
        task = bar.add_task(title, total=None, left="")
        clock = _Clock()
        yield lambda done, total: bar.update(task, completed=done, total=total, left=clock.left(done, total))


def _lines(title: str) -> OnProgress:
    """Return a function that writes a line for each tenth of the work, and for each minute of a long one."""
    clock = _Clock()
    told = [time.perf_counter(), 0.0]  # when the last line was written, and at which share

    def on_progress(done: int, total: int) -> None:
        left, now = clock.left(done, total), time.perf_counter()
        since, share = now - told[0], done / max(total, 1)
        is_first = told[1] == 0 and bool(left) and (len(clock.calls) >= ENOUGH or since >= SOON)
        is_step = is_first or share - told[1] >= STEP
        if done >= total or (is_step and since >= SHORT) or since >= LONG:
            told[:] = [now, share]
            print(f"{title}: {done:,} of {total:,}{', ' if left else ''}{left}", file=sys.stderr, flush=True)

    return on_progress


class _Clock:
    """Estimates the time left from the later half of the calls: the first tasks of a fit are often the slowest."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, int]] = []  # every so many of them, so that they stay few
        self.count, self.every = 0, 1

    def left(self, done: int, total: int) -> str:
        now = time.perf_counter()
        if self.count % self.every == 0:
            self.calls.append((now, done))
        self.count += 1
        if len(self.calls) > MOST_CALLS:
            self.calls, self.every = self.calls[::2], 2 * self.every
        began, before = self.calls[(len(self.calls) - 1) // 2]
        return time_left(done - before, total - done, now - began)


def time_left(done: int, missing: int, seconds: float) -> str:
    """Return how long the missing tasks will take if each takes as long as those done in `seconds`.

    >>> time_left(4, 8, 60.0), time_left(1, 500, 30.0), time_left(0, 500, 3.0)
    ('about 2 min left', 'about 4.2 h left', '')
    """
    if done <= 0 or missing <= 0:
        return ""
    return f"about {duration(seconds / done * missing)} left"


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(0.2), duration(42.4), duration(150), duration(8000)
    ('1 s', '42 s', '2 min', '2.2 h')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
