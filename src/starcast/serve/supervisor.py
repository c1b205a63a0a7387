"""The supervisor: keeps the workers alive, prepares editions, and ends everything in good order."""

import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from starcast.errors import ParameterError, StarcastError
from starcast.serve.edition import Source, prepare
from starcast.serve.guard import tell
from starcast.serve.tally import Tally, make_tally
from starcast.serve.worker import Rules, start_log, work

BACKLOG = 2048
TICK = 0.5  # seconds between two looks at the model file
ROUND = 2.0  # seconds between two looks at the workers
SOON = 5.0  # a worker that lived for less is replaced with a delay
PATIENCE = 900.0  # seconds for making a new edition while an old one is served
GRACE = 5.0  # seconds beyond the longest answer before workers are killed
CLOSING = 1.0  # seconds for all workers to close the listening socket, before it is closed for them
ATTEMPTS = 5  # workers that may die before any was ready

log = logging.getLogger("starcast.serve")


@dataclass
class Post:
    """A worker's place: the process that holds it now, and the line to that."""

    slot: int
    tally: Tally
    process: BaseProcess | None = None
    line: Connection | None = None
    edition: Path | None = None
    failed: Path | None = None  # the edition that could not be loaded here
    since: float = 0.0
    delay: float = 0.0
    due: float = field(default=float("inf"))  # when the next process is to be started


class Supervisor:
    """Runs workers on one listening socket.

    Workers are started anew when they die; SIGHUP, or a change of the model file if it is watched, makes a new edition,
    which replaces the old one once it has proved sound; SIGTERM and SIGINT let the workers finish what they have begun.
    """

    def __init__(
        self,
        source: Source,
        rules: Rules,
        listener: socket.socket,
        workers: int = 1,
        *,
        watches: bool = False,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.source, self.rules, self.listener = source, rules, listener
        self.watches, self.on_ready = watches and source.file is not None, on_ready
        self.workers, self.posts = workers, list[Post]()
        self.edition: Path | None = None
        self._before: Path | None = None  # the edition to go back to, until all workers have the new one
        self._context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks, not the threads
        self._made = 0
        self._maker: tuple[BaseProcess, Connection, Path] | None = None
        self._until = float("inf")  # when the maker must be done
        self._wanted = True  # an edition
        self._seen: tuple[int, ...] | None = None
        self._stops = 0
        self._is_ready = False  # all workers have been
        self._was_loaded = False  # a worker has been ready
        self._deaths = 0  # of workers, before any was ready

    def run(self) -> None:
        """Serve until stopped; raise an error if there is nothing to serve."""
        start_log()
        with tempfile.TemporaryDirectory(prefix="starcast-serve-") as folder, self._signals() as waker:
            self._folder = Path(folder)
            self._tally = make_tally(self._folder / "tally", self.workers)
            self.posts = [Post(slot, Tally(self._tally, slot)) for slot in range(self.workers)]
            try:
                for post in self.posts:
                    self._start(post)
                while not self._stops:
                    self._turn(waker)
            finally:
                self._finish(waker)

    def _turn(self, waker: socket.socket) -> None:
        """Wait until something happens and see to it."""
        self._look_at_file()
        if self._wanted and self._maker is None:
            self._wanted = False
            self._make()
        lines = {post.line: post for post in self.posts if post.line is not None}
        sentinels = {post.process.sentinel: post for post in self.posts if post.process is not None}
        makers = [self._maker[1]] if self._maker else []
        for happened in wait([waker, *lines, *sentinels, *makers], self._patience()):
            if happened is waker:
                _drain(waker)
            elif self._maker and happened is self._maker[1]:
                self._take(*self._maker)
            elif happened in lines and lines[happened].line is happened:  # not of a worker that was buried just now
                self._hear(lines[happened])
            elif happened in sentinels:
                self._bury(sentinels[happened])
        if self._maker and time.monotonic() > self._until:
            self._maker[0].kill()  # its line breaks, which is heard in the next turn
        for post in self.posts:
            if post.process is None and time.monotonic() >= post.due:
                self._start(post)
            elif post.process is not None and post.tally.silence() > self.rules.limits.seconds + GRACE:
                log.error("worker %d does not move any more", post.slot)
                post.process.kill()

    def _patience(self) -> float | None:
        due = min(post.due for post in self.posts) - time.monotonic()
        return max(0.0, min(due, TICK if self.watches else ROUND))

    # Editions.

    def _look_at_file(self) -> None:
        """Want an edition when the file has changed and then stayed as it is for a moment."""
        if not self.watches or self.source.file is None:
            return
        try:
            about = self.source.file.stat()
        except OSError:
            return  # it is being replaced
        seen = (about.st_ino, about.st_size, about.st_mtime_ns)
        age = time.time_ns() - about.st_mtime_ns
        if self._seen is None:
            self._seen = seen
        elif seen != self._seen and not 0 <= age < TICK * 1e9:
            self._seen, self._wanted = seen, True

    def _make(self) -> None:
        """Prepare an edition in a process of its own, which takes its memory with it when it ends."""
        self._made += 1
        folder = self._folder / f"edition-{self._made}"
        here, there = self._context.Pipe()
        process = self._context.Process(target=_make_edition, args=(self.source, folder, there), daemon=True)
        process.start()
        there.close()
        self._maker = process, here, folder
        self._until = float("inf") if self.edition is None else time.monotonic() + PATIENCE

    def _take(self, process: BaseProcess, line: Connection, folder: Path) -> None:
        """Hand a new edition to the workers, or tell why there is none; at the start that is the end."""
        self._maker = None
        try:
            error = line.recv()
        except EOFError:
            reason = "the process that prepares the model died. There may be too little memory for it."
            if time.monotonic() > self._until:
                reason = f"preparing the model took longer than {PATIENCE:.0f} seconds. Give fewer test ratings."
            error = StarcastError(reason)
        process.join()
        line.close()
        if error is None:
            self.edition, self._before = folder, self._before or self.edition
            for post in self.posts:
                self._say(post, "load", folder)
            return
        shutil.rmtree(folder, ignore_errors=True)
        if self.edition is None:
            raise error
        self._refuse(str(error))

    def _refuse(self, reason: str) -> None:
        self.posts[0].tally.refuse()
        log.error("the new model is not served, the old one stays: %s", reason)

    # Workers.

    def _start(self, post: Post) -> None:
        here, there = self._context.Pipe()
        given = (self.rules, post.slot, self.listener, there, self._tally, self.edition)
        post.process = self._context.Process(target=work, args=given, name=f"worker {post.slot}")
        post.process.start()
        there.close()
        post.line, post.since, post.due = here, time.monotonic(), float("inf")
        post.edition = post.failed = None

    def _hear(self, post: Post) -> None:
        """Listen to a worker; a line that is dead says nothing, its process will."""
        assert post.line is not None
        try:
            word, folder, *words = post.line.recv()
        except (EOFError, OSError):
            post.line.close()
            post.line = None
            return
        if word == "failed":
            log.error("worker %d could not load the new model: %s", post.slot, *words)
            post.failed = folder
        else:
            post.edition = folder
            self._was_loaded = True
        self._settle()

    def _settle(self) -> None:
        """See that all workers serve one edition: the new one, or the old one if no worker can load it."""
        if all(post.edition == self.edition for post in self.posts):
            return self._clear()
        failed = [post for post in self.posts if post.failed == self.edition]
        if any(post.edition == self.edition for post in self.posts):
            for post in failed:
                self._say(post, "stop")  # another takes its place, and tries again
        elif not self._was_loaded and len(failed) == len(self.posts) and all(post.process for post in self.posts):
            raise StarcastError("no worker could load the model. The log says why.")
        elif self._before is not None and len(failed) == len(self.posts):
            self.edition, self._before = self._before, None
            self._refuse("no worker could load it.")
            for post in self.posts:
                if post.edition != self.edition:
                    self._say(post, "load", self.edition)
            self._settle()
        return None

    def _clear(self) -> None:
        """All workers serve the edition: earlier ones can go."""
        self._before = None
        for old in self._folder.glob("edition-*"):
            if old != self.edition and not (self._maker and old == self._maker[2]):
                shutil.rmtree(old, ignore_errors=True)  # a map of a removed file stays valid
        if not self._is_ready:
            self._is_ready = True
            self.on_ready()
        else:
            log.info("all workers serve edition %s", str(self.edition).rpartition("-")[2])

    def _bury(self, post: Post) -> None:
        """Note a worker's end and when to start the next: at once, or with growing delays if it did not live long."""
        assert post.process is not None
        post.process.join()
        lived = time.monotonic() - post.since
        post.delay = 0.0 if lived >= SOON else min(max(2 * post.delay, 0.1), 10.0)
        code = post.process.exitcode
        log.warning("worker %d ended (exit code %s); another takes its place", post.slot, code)
        post.tally.stop()
        if post.line is not None:
            post.line.close()
        post.process, post.line, post.due = None, None, time.monotonic() + post.delay
        self._deaths += not self._was_loaded
        if self._deaths >= ATTEMPTS:
            raise StarcastError(
                f"{ATTEMPTS} workers ended before any was ready, the last with exit code {code}. The log says why."
            )
        was, post.edition = post.edition, None
        if was is None and self.edition is not None:
            post.failed = self.edition  # it ended before it could answer
            self._settle()

    def _say(self, post: Post, *words: Any) -> None:
        if post.line is not None:
            with contextlib.suppress(OSError):  # its end is noticed elsewhere
                post.line.send(words)

    # The end.

    def _finish(self, waker: socket.socket) -> None:
        """Let the workers finish; a second signal, or too much time, cuts that short.

        They take what waits in the queue and close their copies of the listening socket; then it is shut down, so that
        no client waits in the queue of a worker that is busy, or has only started.
        """
        if self._maker is not None:
            self._maker[0].kill()
        for post in self.posts:
            self._say(post, "stop")
        before, now = self._stops, time.monotonic()
        closing, until = now + CLOSING, now + self.rules.limits.seconds + GRACE
        alive = [post.process for post in self.posts if post.process is not None]
        while any(post.tally.is_accepting() for post in self.posts) and time.monotonic() < closing:
            time.sleep(0.01)
        self._close_listener()
        while alive and self._stops == before and time.monotonic() < until:
            wait([waker, *(process.sentinel for process in alive)], max(0.0, until - time.monotonic()))
            _drain(waker)
            alive = [process for process in alive if process.is_alive()]
        for process in alive:
            process.kill()
        for process in alive:
            process.join()

    def _close_listener(self) -> None:
        with contextlib.suppress(OSError):  # closed already, or on macOS, where this cannot be done to a listener
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """Turn signals into wishes; the socket wakes whoever waits."""

        def stop(*_: object) -> None:
            self._stops += 1

        def renew(*_: object) -> None:
            self._wanted = True

        waker, wakee = socket.socketpair()
        for end in (waker, wakee):
            end.setblocking(False)
        wishes: dict[int, Any] = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: renew}
        before = {number: signal.signal(number, wish) for number, wish in wishes.items()}
        fd = signal.set_wakeup_fd(wakee.fileno(), warn_on_full_buffer=False)
        try:
            yield waker
        finally:
            signal.set_wakeup_fd(fd)
            for number, was in before.items():
                signal.signal(number, was)
            waker.close()
            wakee.close()


def _drain(waker: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        waker.recv(4096)


def _make_edition(source: Source, folder: Path, line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        prepare(source, folder)
    except StarcastError as error:
        line.send(error)
    except Exception as error:
        line.send(StarcastError(f"the model cannot be prepared: {tell(error)}. Please report this."))
    else:
        line.send(None)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there."""
    try:
        if not 0 <= port < 1 << 16:
            raise OverflowError("a port is a number from 0 to 65535")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = found[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParameterError(
            f"cannot listen on port {port} of {host}: {reason}. Choose others with --host and --port; "
            "port 0 takes one that is free."
        ) from None
    listener.listen(BACKLOG)
    os.set_inheritable(listener.fileno(), True)
    return listener
