"""HTTP with little patience: clients that are too slow, or that send heads without end, are sent away."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from starcast.serve.guard import FRESH
from starcast.serve.limits import RefusalError

MOST_HEAD = 1 << 16  # bytes of a request before its body
MOST_AHEAD = 100  # requests that are sent before the answer to the first
LINGER = 0.3  # seconds for a request that is on its way to a worker that stops
FLUSH = 5.0  # seconds for a client to take what was sent before the connection is cut


class HurriedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a time limit for a request to arrive and for an answer to be taken.

    One timer runs from the first byte of a request (or from the connection) to the last; uvicorn's own runs between
    requests.
    """

    seconds = 30.0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._due: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None  # `cycle` is the last that came
        self._in_head, self._head, self._heads, self._is_leaving = True, 0, 0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        self._forget()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, unless a head has become too long."""
        if self.transport.is_closing():
            return
        if self._due is None and (self.cycle is None or self.cycle.response_complete):
            self._wait()
        heads, was_in_head = self._heads, self._in_head
        super().data_received(data)
        if was_in_head and heads == self._heads:  # nothing but head in all of this
            self._head += len(data)
            if self._head > MOST_HEAD:
                self._send_away(431, "too_long", f"address and headers must be at most {MOST_HEAD:,} bytes together.")

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer a client that has said all it wants to say; tell one that stopped halfway."""
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            for cycle, _ in self.pipeline:
                cycle.keep_alive = not cycle.more_body
            self.cycle.keep_alive = False
            return True
        if self._due is not None and (self._head or self.cycle is not None):
            self._send_away(400, "bad_request", "the request ended before it was whole.")
        return None

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        if self._due is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Begin its body; requests far ahead of their answers are an error of the client's, which ends the parsing."""
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("too many requests ahead of their answers")
        self._in_head, self._head, self._heads = False, 0, self._heads + 1
        super().on_headers_complete()
        if self._is_leaving and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """End it."""
        super().on_message_complete()
        self._in_head = True
        self._wait_no_more()

    def on_response_complete(self) -> None:
        """Begin the next request, and read no more while there are others."""
        super().on_response_complete()
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        """Say in JSON that this is no HTTP."""
        self._send_away(400, "bad_request", "this is not a request of HTTP/1.1.")

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(self.seconds, self._cut)

    def resume_writing(self) -> None:
        """Go on."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection without questions."""
        self._close()

    def shutdown(self) -> None:
        """Answer what has begun, or is about to, and end."""
        self._is_leaving = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(LINGER, self._leave)

    def leave_room(self) -> None:
        """End a connection that is idle, because another waits for its place."""
        self._close()

    def is_idle(self) -> bool:
        """Tell whether nothing is being answered here."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _leave(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._close()

    def _wait(self) -> None:
        self._due = self.loop.call_later(self.seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _give_up(self) -> None:
        self._due = None
        if self.cycle is None and not self._head:
            return self._close()  # browsers open connections in advance, and may never ask
        return self._send_away(408, "too_slow", f"a request must arrive within {self.seconds:g} seconds.")

    def _send_away(self, status: int, code: str, message: str) -> None:
        if self.transport.is_closing():
            return None
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            return self._close()  # in the midst of another answer
        body = json.dumps(RefusalError(status, code, message).body()).encode()
        lines = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *FRESH]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in lines)
        self.transport.write(STATUS_LINE[status] + head + b"connection: close\r\n\r\n" + body)
        return self._close()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self._forget()
            self.transport.close()
            self.loop.call_later(FLUSH, self.transport.abort)

    def _cut(self) -> None:
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        """Let an answer that is still being found go nowhere, rather than into a transport that is gone."""
        for cycle in (self._running, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
