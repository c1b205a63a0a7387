"""How far long work has come, and how long it will still take."""

import contextlib
import time
from collections.abc import Iterator

from starcast.journal import OnProgress


@contextlib.contextmanager
def progress_bar(title: str, show: bool = True) -> Iterator[OnProgress]:
    """Give a function of (tasks done, tasks in all) that draws a bar on stderr with an estimate of the time left.

    The estimate counts from the first call, so that what was done before it does not make the work look fast.
    """
    if not show:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, left="")
        start: list[tuple[float, int]] = []

        def on_progress(done: int, total: int) -> None:
            if not start:
                start.append((time.perf_counter(), done))
            began, before = start[0]
            left = time_left(done - before, total - done, time.perf_counter() - began)
            bar.update(task, completed=done, total=total, left=left)

        yield on_progress


def time_left(done: int, missing: int, seconds: float) -> str:
    """Return how long the missing tasks will take if each takes as long as those done in `seconds`.

    >>> time_left(4, 8, 60.0), time_left(1, 500, 30.0), time_left(0, 500, 3.0)
    ('about 2 min left', 'about 4.2 h left', '')
    """
    if done <= 0 or missing <= 0:
        return ""
    left = seconds / done * missing
    if left < 90:
        return f"about {left:.0f} s left"
    return f"about {left / 60:.0f} min left" if left < 5400 else f"about {left / 3600:.1f} h left"
