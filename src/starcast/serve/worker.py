"""A worker: one process that takes connections from the common queue and answers them."""

import asyncio
import contextlib
import logging
import resource
import shutil
import signal
import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from starcast.serve.app import make_app
from starcast.serve.desk import Desk
from starcast.serve.edition import open_edition
from starcast.serve.guard import Guard, tell
from starcast.serve.limits import Limits
from starcast.serve.server import Server
from starcast.serve.tally import Tally

try:
    import uvloop
except ImportError:  # asyncio's own event loop serves as well, but slower
    uvloop = None  # type: ignore[assignment]

log = logging.getLogger("starcast.serve")


@dataclass(frozen=True)
class Rules:
    """What all workers are told: limits, token, names to answer to, threads a question, whether to log requests."""

    limits: Limits
    token: str | None = None
    hosts: frozenset[str] | None = None
    says: bool = False
    n_jobs: int = 1


def work(rules: Rules, slot: int, listener: socket.socket, line: Connection, tally: Path, edition: Path | None) -> None:
    """Serve until told to stop; with an edition, accept nothing before it is loaded.

    The supervisor says ("load", folder) and ("stop",) and hears ("loaded", folder) or ("failed", folder, words). When
    the line is dead, so is the supervisor, and the worker stops by itself.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the supervisor decides
    start_log()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError):  # macOS says that there is no limit, and has one
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a file is what a connection costs
    counts = Tally(tally, slot)
    counts.start()
    worker = Worker(rules, listener, line, counts, tally.parent)
    if edition is not None:
        worker.take(open_edition(edition, rules.limits, rules.n_jobs))
    with asyncio.Runner(loop_factory=None if uvloop is None else uvloop.new_event_loop) as runner:
        runner.run(worker.run(edition))


def start_log() -> None:
    """Log to stderr, a line each."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s")


class Worker:
    """A desk, the server before it, and the line to the supervisor."""

    def __init__(self, rules: Rules, listener: socket.socket, line: Connection, tally: Tally, folder: Path) -> None:
        self.rules, self.line, self.tally, self.folder = rules, line, tally, folder
        self.desk = Desk(rules.limits)
        app = Guard(make_app(self.desk, tally), tally, token=rules.token, hosts=rules.hosts, says=rules.says)
        self.server = Server(app, listener, tally, rules.limits, app.count_refusal)
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def run(self, edition: Path | None) -> None:
        """Serve until stopped."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.line.fileno(), self._listen)
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        if edition is not None:
            self._say("loaded", edition)
        await self.server.run()
        self.desk.close()

    def stop(self) -> None:
        """Accept no more, finish what was begun, end."""
        self.server.drain()

    def take(self, served: Any) -> None:
        """Answer from this model from now on; questions that are being answered keep theirs."""
        self.desk.served = served
        self.tally.load()
        self.tally.info = {"model": type(served.model).__name__, "digest": served.model.digest_}

    def _listen(self) -> None:
        try:
            while self.line.poll():
                word, *rest = self.line.recv()
                if word == "stop":
                    self.stop()
                else:
                    task = asyncio.get_running_loop().create_task(self._load(*rest))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self.line.fileno())
            shutil.rmtree(self.folder, ignore_errors=True)  # which the supervisor would have removed
            self.stop()

    async def _load(self, folder: Path) -> None:
        async with self._turn:
            try:
                self.take(await asyncio.to_thread(open_edition, folder, self.rules.limits, self.rules.n_jobs))
            except Exception as error:  # whatever it is, the model that is served stays
                self._say("failed", folder, tell(error))
            else:
                self._say("loaded", folder)

    def _say(self, *words: Any) -> None:
        with contextlib.suppress(OSError):  # a supervisor that is gone
            self.line.send(words)
