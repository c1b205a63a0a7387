"""The HTTP server of one worker: accepts connections from the queue of all workers, watches and drains them."""

import asyncio
import email.utils
import logging
import socket
from collections.abc import Callable
from typing import Any

from starcast.serve.guard import App
from starcast.serve.limits import Limits
from starcast.serve.protocol import Connection
from starcast.serve.tally import Tally

TICK = 0.1  # seconds between two looks at the deadlines of connections
RETRY_DELAY = 0.1  # seconds without accepting, when there are too many connections
ACCEPT_DELAY = 0.005  # seconds that other workers with fewer connections have to accept one first

log = logging.getLogger("starcast.serve")


class Server:
    """Accepts connections one at a time, late if other workers have fewer; if there are too many, idle ones make room.

    Otherwise one worker would take all that come at once, and clients that keep their connections would stay with it.
    One listening socket for all workers loses nothing when a worker dies: connections that wait in its queue are taken
    by the others. (With a queue for each worker, SO_REUSEPORT, they would be reset.)

    Parameters
    ----------
    app : ASGI application
    listener : socket
        Closed when the server drains.
    tally : Tally
    limits : Limits
    on_refusal : callable
        Called with the status and the seconds of each request that is refused before the application sees it.
    """

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        tally: Tally,
        limits: Limits,
        on_refusal: Callable[[int, float], None] = lambda status, seconds: None,
    ) -> None:
        self.app, self.limits, self.on_refusal = app, limits, on_refusal
        self.connections: dict[Connection, None] = {}  # in the order in which they were accepted
        self.tasks = set[asyncio.Task[Any]]()
        self.date = b""  # of now, as a response has it
        self._listener, self._tally = listener, tally
        self._is_draining = False

    async def run(self) -> None:
        """Accept connections until told to drain; return when all of them are closed, or have taken too long."""
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time
        self._tick()
        self._listener.setblocking(False)
        self._resume()
        while not self._is_draining:
            await asyncio.sleep(TICK)
            self._tick()
        until = self.now() + self.limits.seconds + 1
        while self.connections and self.now() < until:
            await asyncio.sleep(TICK / 5)
            self._tick()
        for connection in list(self.connections):
            connection.abort()

    def drain(self) -> None:
        """Accept no more, answer what has begun, close.

        What waits in the queue is taken; then this worker's copy of the listening socket is closed. When the last copy
        is, new connections are refused, and those that came in between are reset.
        """
        if self._is_draining:
            return
        self._is_draining = True
        self.loop.remove_reader(self._listener.fileno())
        while len(self.connections) < self.limits.connections and self._accept():
            pass
        self._listener.close()
        self._tally.stop()
        for connection in list(self.connections):
            connection.drain()

    def _tick(self) -> None:
        now = self.now()
        self.date = email.utils.formatdate(usegmt=True).encode()
        for connection in list(self.connections):
            connection.check(now)
        if not self._is_draining:
            self._tally.connect(len(self.connections))  # other workers see who has fewer

    def _resume(self) -> None:
        if not self._is_draining:
            self.loop.add_reader(self._listener.fileno(), self._look)

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self.loop.remove_reader(self._listener.fileno())
        self.loop.call_later(seconds, then)

    def _look(self) -> None:
        """See whether to take the connection that waits."""
        here = len(self.connections)
        if here >= self.limits.connections:
            if self._make_room():
                self._accept()
            else:
                self._pause(RETRY_DELAY, self._resume)
        elif self._tally.connect(here) > 1:
            self._pause(ACCEPT_DELAY, self._accept_late)
        else:
            self._accept()

    def _accept_late(self) -> None:
        if not self._is_draining:
            self._resume()
            self._accept()

    def _make_room(self) -> bool:
        """Close the connection that has waited for its client the longest; return whether there was one."""
        idle = {connection: since for connection in self.connections if (since := connection.idle_since()) is not None}
        if idle:
            min(idle, key=idle.__getitem__).make_room()
        return bool(idle)

    def _accept(self) -> bool:
        """Accept a connection if one waits; return whether one did."""
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another worker was faster, or the client is gone
        except OSError as error:  # no file descriptor left
            if not self._is_draining:
                log.warning("cannot accept: %s", error.strerror)
                self._pause(RETRY_DELAY, self._resume)
            return False
        accepted.setblocking(False)
        connection = Connection(self)
        self.connections[connection] = None
        task = self.loop.create_task(self._connect(connection, accepted))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return True

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:  # gone already
            self.connections.pop(connection, None)
            accepted.close()
