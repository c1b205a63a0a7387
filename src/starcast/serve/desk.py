"""Where questions wait and answers come from: the model that is served now, and the threads that ask it."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starcast.serve.limits import Limits, RefusalError, busy
from starcast.serve.served import Served

GROUP = 16  # questions that are answered together
THREADS = 4  # so that a long explanation does not hold up what is short

Answers = Callable[[Served, Sequence[Any]], list[Any]]  # for each question an answer, or an error


class Desk:
    """Puts questions to the model that is served when they arrive; a model that comes later changes none of them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.served: Served | None = None
        self.held = 0  # bytes of questions that are still arriving
        self._at_work = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="answer")
        self._groups: dict[Hashable, list[tuple[Any, asyncio.Future[Any]]]] = {}
        self._is_grouping = False

    def now(self) -> Served:
        """Return what is served, or refuse while there is nothing."""
        if self.served is None:
            raise not_ready()
        return self.served

    async def ask(self, answer: Callable[[Served, Any], Any], question: Any) -> Any:
        """Return the answer of a thread, or refuse: too much to do, or it takes too long."""
        served = self._admit()
        future = asyncio.get_running_loop().run_in_executor(self._threads, answer, served, question)
        return await self._wait_for(future)

    async def ask_together(self, answer: Answers, key: Hashable, question: Any) -> Any:
        """Return the answer of a thread that takes all questions of one kind that have come meanwhile.

        Nobody waits for others to come: whoever finds the thread free is asked alone. When there is much to do, the
        model reads its items once for all users of a group, and answers three times as many.
        """
        served = self._admit()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._groups.setdefault((served, answer, key), []).append((question, future))
        self._next_group()
        return await self._wait_for(future)

    def _next_group(self) -> None:
        if self._is_grouping or not self._groups:
            return
        served, answer, _ = first = next(iter(self._groups))
        group, rest = self._groups[first][:GROUP], self._groups.pop(first)[GROUP:]
        if rest:
            self._groups[first] = rest  # behind the others
        questions = [question for question, _ in group]
        self._is_grouping = True
        work = asyncio.get_running_loop().run_in_executor(self._threads, answer, served, questions)
        work.add_done_callback(lambda done: self._end_group(first, group, done))

    def _end_group(self, key: Any, group: "list[tuple[Any, asyncio.Future[Any]]]", done: "asyncio.Future[Any]") -> None:
        self._is_grouping = False
        failed = done.exception()
        if failed and len(group) > 1:  # each again, alone: one question must not cost the others their answers
            for member in group:
                self._groups[(*key[:2], ("alone", member[1]))] = [member]
        else:
            answers = [failed] if failed else done.result()
            for (_, future), answer in zip(group, answers, strict=True):
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._next_group()

    def _admit(self) -> Served:
        served = self.now()
        if self._at_work >= self.limits.concurrent:
            raise busy(f"at most {self.limits.concurrent:,} questions are answered at a time. Ask again in a second.")
        self._at_work += 1
        return served

    async def _wait_for(self, future: "asyncio.Future[Any]") -> Any:
        future.add_done_callback(self._finish)
        try:
            return await asyncio.wait_for(asyncio.shield(future), self.limits.seconds)
        except TimeoutError:
            seconds = f"{self.limits.seconds:g} seconds"
            raise busy(f"an answer may take {seconds}, and this one takes longer. Ask for less.", "too_slow") from None

    def _finish(self, future: "asyncio.Future[Any]") -> None:
        """Count the place as free, whether or not anybody still waits for what was found."""
        self._at_work -= 1
        if not future.cancelled():
            future.exception()


def not_ready() -> RefusalError:
    """Return what is said while there is no model."""
    return busy("the model is not loaded yet. Ask again in a second.", "not_ready")
