"""Where questions wait and answers come from: the model that is served now, and the threads that ask it."""

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from starcast.serve.limits import Limits, RefusalError, busy
from starcast.serve.served import Served

GROUP = 16  # questions that are answered together
THREADS = 4
EXPLANATIONS = 4  # that a worker computes or has waiting; one thread computes them, one after the other
CACHED = 256  # explanations that are kept, of the model that is served

Answers = Callable[[Served, Sequence[Any]], list[Any]]  # for each question an answer, or an error


class Desk:
    """Puts questions to the model that is served when they arrive; a model that comes later changes none of them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.served: Served | None = None
        self.held = 0  # bytes of questions that are still arriving
        self._at_work = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="answer")
        self._explainer = ThreadPoolExecutor(1, thread_name_prefix="explain")
        self._explanations = list[tuple[Future[Any], threading.Event]]()
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

    async def run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return what a function returns in a thread: for what would hold up the event loop."""
        self._admit()
        return await self._wait_for(asyncio.get_running_loop().run_in_executor(self._threads, function, *given))

    async def explain(
        self, answer: Callable[..., Any], key: Hashable | None, question: Any, wait_until_gone: Callable[[], Any]
    ) -> Any:
        """Return an explanation, or refuse: too many are wanted, or it takes too long.

        Explanations take seconds, so they have a thread of their own and cannot hold up anything else. The answer is
        called with a function that tells when to stop: when `wait_until_gone` is done, nobody waits for it any more.
        """
        served = self.now()
        if key is not None and key in served.explanations:
            return served.remember(key, served.explanations.pop(key), CACHED)
        self._explanations = [row for row in self._explanations if not row[0].done()]
        if len(self._explanations) >= EXPLANATIONS:
            raise busy(f"at most {EXPLANATIONS} explanations are computed at a time. Ask again in a second.")
        stop = threading.Event()
        work = self._explainer.submit(answer, served, question, stop.is_set)
        self._explanations.append((work, stop))
        found, left = asyncio.wrap_future(work), asyncio.ensure_future(wait_until_gone())
        try:
            await asyncio.wait({found, left}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if found.done():
                explanation = found.result()
                return explanation if key is None else served.remember(key, explanation, CACHED)
            if left.done():
                raise GoneError
            raise self._too_slow()
        finally:
            stop.set()
            found.cancel()
            left.cancel()

    def close(self) -> None:
        """End the threads: what they have not begun, they will not."""
        for _, stop in self._explanations:
            stop.set()
        for pool in (self._explainer, self._threads):
            pool.shutdown(wait=False, cancel_futures=True)

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
            raise self._too_slow() from None

    def _too_slow(self) -> RefusalError:
        seconds = f"{self.limits.seconds:g} seconds"
        return busy(f"an answer may take {seconds}, and this one takes longer. Ask for less.", "too_slow")

    def _finish(self, future: "asyncio.Future[Any]") -> None:
        """Count the place as free, whether or not anybody still waits for what was found."""
        self._at_work -= 1
        if not future.cancelled():
            future.exception()


class GoneError(Exception):
    """The client went away before it had its answer."""


def not_ready() -> RefusalError:
    """Return what is said while there is no model."""
    return busy("the model is not loaded yet. Ask again in a second.", "not_ready")
