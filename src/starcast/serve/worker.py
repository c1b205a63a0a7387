"""A worker: one process that takes connections from the common queue and answers them."""

import asyncio
import contextlib
import functools
import logging
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import uvicorn

from starcast.serve.app import make_app
from starcast.serve.desk import Desk
from starcast.serve.edition import open_edition
from starcast.serve.guard import Guard, tell
from starcast.serve.limits import Limits
from starcast.serve.protocol import HurriedProtocol
from starcast.serve.tally import Tally

KEEP_ALIVE = 15  # seconds between two requests of a connection
FULL = 0.1  # seconds without accepting, when there are too many connections
POLITE = 0.005  # seconds that others with fewer connections have to take one first

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
    with asyncio.Runner(loop_factory=worker.server.config.get_loop_factory()) as runner:
        runner.run(worker.run(edition))


def start_log() -> None:
    """Log to stderr, a line each."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # it would write down addresses and what failed in full


class Worker:
    """A desk, the server before it, and the line to the supervisor."""

    def __init__(self, rules: Rules, listener: socket.socket, line: Connection, tally: Tally, folder: Path) -> None:
        self.rules, self.line, self.tally, self.folder = rules, line, tally, folder
        self.desk = Desk(rules.limits)
        app = Guard(make_app(self.desk, tally), tally, token=rules.token, hosts=rules.hosts, says=rules.says)
        protocol = type("Protocol", (HurriedProtocol,), {"seconds": rules.limits.seconds})
        config = uvicorn.Config(
            app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=int(rules.limits.seconds) + 1,
        )  # fmt: skip
        self.server = Server(config, listener, tally, rules.limits.connections)
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def run(self, edition: Path | None) -> None:
        """Serve until stopped."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.line.fileno(), self._listen)
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        if edition is not None:
            self._say("loaded", edition)
        await self.server.serve()

    def stop(self) -> None:
        """Accept no more, finish what was begun, end."""
        self.server.should_exit = True

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


class Server(uvicorn.Server):
    """uvicorn on one listening socket that all workers share.

    A shared queue loses nothing when a worker dies: connections that wait in it are taken by the others. (With a queue
    for each worker, SO_REUSEPORT, they would be reset.)
    """

    def __init__(self, config: uvicorn.Config, listener: socket.socket, tally: Tally, most: int) -> None:
        super().__init__(config)
        self._listener, self._tally, self._most = listener, tally, most

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the worker."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await self.lifespan.startup()
        protocol: Any = functools.partial(
            cast(Any, self.config.http_protocol_class), config=self.config, server_state=self.server_state, app_state={}
        )
        acceptor: Any = Acceptor(self._listener, protocol, self.server_state.connections, self._tally, self._most)
        self.servers = [acceptor]
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """Tell the other workers, ten times a second, how many connections there are."""
        self._tally.connect(len(self.server_state.connections))
        return await super().on_tick(counter)


class Acceptor:
    """Takes connections one at a time, late if others have fewer; when there are too many, idle ones make room.

    Otherwise one worker would take all that come at once, and clients that keep their connections would stay with it.
    """

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        connections: set[Any],
        tally: Tally,
        most: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener, self._protocol, self._tally, self._most = listener, protocol, tally, most
        self._connections, self._tasks = connections, set[asyncio.Task[Any]]()
        self._is_open = True
        listener.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more; what waits in the queue is for the other workers."""
        self._is_open = False
        self._loop.remove_reader(self._listener.fileno())
        self._tally.stop()

    async def wait_closed(self) -> None:
        """Wait for connections that were being taken."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listener.fileno(), self._look)

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(seconds, then)

    def _look(self) -> None:
        """See whether to take the connection that waits."""
        here = len(self._connections) + len(self._tasks)
        if here >= self._most:
            idle = next((connection for connection in self._connections if connection.is_idle()), None)
            if idle is None:
                return self._pause(FULL, self._resume)
            idle.leave_room()
            self._take()
        elif self._tally.connect(here) > 1:
            self._pause(POLITE, self._take_late)
        else:
            self._take()
        return None

    def _take_late(self) -> None:
        if self._is_open:
            self._resume()
            self._take()

    def _take(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was faster, or the client is gone
        except OSError as error:  # no file descriptor left
            log.warning("cannot accept: %s", error.strerror)
            self._pause(FULL, self._resume)
            return
        connection.setblocking(False)
        task = self._loop.create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # gone already
            connection.close()
