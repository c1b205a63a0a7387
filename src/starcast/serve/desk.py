"""Where questions wait and answers come from: the model that is served now, and the threads that ask it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starcast.serve.limits import Limits, RefusalError, busy
from starcast.serve.served import Served

THREADS = 4  # so that a long explanation does not hold up what is short


class Desk:
    """Puts questions to the model that is served when they arrive; a model that comes later changes none of them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.served: Served | None = None
        self.held = 0  # bytes of questions that are still arriving
        self._at_work = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="answer")

    def now(self) -> Served:
        """Return what is served, or refuse while there is nothing."""
        if self.served is None:
            raise not_ready()
        return self.served

    async def ask(self, answer: Callable[[Served, Any], Any], question: Any) -> Any:
        """Return the answer of a thread, or refuse: too much to do, or it takes too long."""
        served = self.now()
        if self._at_work >= self.limits.concurrent:
            raise busy(f"at most {self.limits.concurrent:,} questions are answered at a time. Ask again in a second.")
        self._at_work += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, answer, served, question)
        future.add_done_callback(self._finish)
        try:
            return await asyncio.wait_for(asyncio.shield(future), self.limits.seconds)
        except TimeoutError:
            seconds = f"{self.limits.seconds:g} seconds"
            raise busy(f"an answer may take {seconds}, and this one takes longer. Ask for less.", "too_slow") from None

    def _finish(self, future: "asyncio.Future[Any]") -> None:
        """Count the thread as free, whether or not anybody still waits for what it found."""
        self._at_work -= 1
        if not future.cancelled():
            future.exception()


def not_ready() -> RefusalError:
    """Return what is said while there is no model."""
    return busy("the model is not loaded yet. Ask again in a second.", "not_ready")
