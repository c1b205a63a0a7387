"""HTTP/1.1 on asyncio: connections, their requests, and the ASGI application that answers them."""

import asyncio
import contextlib
import http
import logging
from collections import deque
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import unquote

import httptools

from starcast.serve.guard import FRESH, Message, Scope, encode_refusal, tell
from starcast.serve.limits import RefusalError

if TYPE_CHECKING:
    from starcast.serve.server import Server

MAX_HEAD = 1 << 16  # bytes of a request before its body, and between two parts of its body
SLICE = 1 << 12  # bytes that are parsed at a time
HIGH_WATER = 1 << 16  # bytes that wait to be parsed, or of a body that the application has not taken yet
KEEP_ALIVE = 15.0  # seconds between two requests of a connection
LINGER = 2.0  # seconds for a client to read the last response before the connection is closed
DRAIN = 0.3  # seconds for a request that is on its way to a worker that stops
NEVER = float("inf")

STATUS_LINES = {int(status): f"HTTP/1.1 {status:d} {status.phrase}\r\n".encode() for status in http.HTTPStatus}

log = logging.getLogger("starcast.serve")


class Connection(asyncio.Protocol):
    """One connection: parses requests, has them answered in their order, and keeps the time limits.

    The parser cannot be paused. Data are therefore parsed in small slices, and only while no whole request waits for
    its response; the rest stays unparsed, and when there is much of it, nothing more is read. There is one deadline
    at a time, which the server checks a few times a second: for the next request to begin, for a request to arrive, or
    for a connection to be closed.
    """

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.transport: asyncio.Transport | None = None
        self.is_draining = False
        self.drained: asyncio.Future[None] | None = None  # set while the client does not read; done when it does again
        self._parser = httptools.HttpRequestParser(self)
        self._requests = deque[Request]()  # in the order of their arrival; the first is being answered
        self._unparsed = bytearray()
        self._is_in_message = self._is_last = self._is_closing = self._has_eof = self._is_paused = False
        self._without_progress = 0  # bytes parsed since the last head, part of a body, or end of a request
        self._refusal: RefusalError | None = None  # of a request that could not be parsed, sent after all responses
        self._url, self._headers = b"", list[tuple[bytes, bytes]]()
        self._began = server.now()  # the connection, then each request
        self._deadline, self._write_deadline, self._close_by = self._began + server.limits.seconds, NEVER, NEVER

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast(asyncio.Transport, transport)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
            "client": tuple(peer[:2]) if peer else None,
            "server": tuple(own[:2]) if own else None,
        }
        if self._is_closing:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the application know that nobody waits any more."""
        self.server.connections.pop(self, None)
        self.resume_writing()
        self._end()

    def data_received(self, data: bytes) -> None:
        """Parse what has come, or keep it for later."""
        if self._is_closing:  # a client that is still sending has a little longer to read the response
            self._deadline = min(self.server.now() + LINGER, self._close_by)
        if self._is_last:
            return
        if not self._unparsed and len(data) <= SLICE and not self._is_blocked():
            self._feed(data)
        else:
            self._unparsed += data
            self._parse()

    def eof_received(self) -> bool:
        """Answer what has come whole; return whether to keep the connection open for that."""
        self._has_eof = True
        if self._is_closing:
            return False
        if self._requests:
            self._requests[0].wake()
        self._check_end()
        return not self._is_closing

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        if self.drained is None:
            self.drained = self.server.loop.create_future()
            self._write_deadline = self.server.now() + self.server.limits.seconds

    def resume_writing(self) -> None:
        """Go on."""
        self._write_deadline = NEVER
        if self.drained is not None:
            self.drained.set_result(None)
            self.drained = None

    # What the server calls.

    def check(self, now: float) -> None:
        """Do what is due when a deadline has passed."""
        if now >= self._write_deadline:
            self.abort()
        elif now >= self._deadline and not self._is_blocked():
            if self._is_closing and self._is_sending() and now < self._close_by:
                return  # a slow client still reads the last response
            self._deadline = NEVER
            if self._is_closing:
                self.abort()
            elif self._is_in_message:
                seconds = self.server.limits.seconds
                self._refuse(RefusalError(408, "too_slow", f"a request must arrive within {seconds:g} seconds."))
            elif not self._requests:
                self.close()

    def _is_sending(self) -> bool:
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    def drain(self) -> None:
        """Answer what has begun, or is about to, and close."""
        self.is_draining = True
        if not self._requests and not self._is_in_message and not self._is_closing:
            self._deadline = min(self._deadline, self.server.now() + DRAIN)

    def idle_since(self) -> float | None:
        """Return when this connection, or its last request, began, if only its client holds it up; None otherwise."""
        return None if any(request.is_whole for request in self._requests) else self._began

    def make_room(self) -> None:
        """Close the connection for another that waits."""
        if self._is_closing:
            self.abort()
        else:
            self.close()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self._end()
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close the connection now."""
        self._end()
        if self.transport is not None:
            self.transport.abort()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_in_message = True
        self._url, self._headers = b"", []
        self._began = self.server.now()
        self._deadline = self._began + self.server.limits.seconds

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after a body (trailers) are ignored."""
        if self._is_in_head():
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begin to answer, unless others are before it."""
        self._without_progress = 0
        try:
            request = self._make_request()
        except RefusalError as refusal:
            self._refusal = refusal
            raise
        self._requests.append(request)
        if len(self._requests) == 1:
            request.start()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._without_progress = 0
        self._requests[-1].add_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        request = self._requests[-1]
        request.is_whole, self._is_in_message, self._without_progress = True, False, 0
        self._is_last = self._is_last or not request.keep_alive
        self._deadline = NEVER
        request.wake()
        if request.is_finished:
            self._next()

    # Requests.

    def _is_in_head(self) -> bool:
        return not self._requests or self._requests[-1].is_whole

    def _is_blocked(self) -> bool:
        """Tell whether a request must be answered, or its body be taken, before more is parsed."""
        return bool(self._requests) and (self._requests[0].is_whole or self._requests[-1].buffered >= HIGH_WATER)

    def _parse(self) -> None:
        while self._unparsed and not self._is_last and not self._is_blocked():
            part = self._unparsed[:SLICE]
            del self._unparsed[:SLICE]
            self._feed(part)
        if self._is_last:
            self._unparsed.clear()
        is_much = len(self._unparsed) > HIGH_WATER
        if is_much != self._is_paused and self.transport is not None and not self.transport.is_closing():
            self._is_paused = is_much
            (self.transport.pause_reading if is_much else self.transport.resume_reading)()

    def _feed(self, data: bytes | bytearray) -> None:
        self._without_progress += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request was the last: no other protocol is spoken here
        except httptools.HttpParserError:
            if not self._is_last:  # otherwise these are data after the last request
                self._refuse(self._refusal or RefusalError(400, "bad_request", "this is not a request of HTTP/1.1."))
        else:
            if self._without_progress > MAX_HEAD:
                told = f"address and headers must be at most {MAX_HEAD:,} bytes together."
                self._refuse(RefusalError(431, "too_long", told))

    def _make_request(self) -> "Request":
        version = self._parser.get_http_version()
        try:
            target = httptools.parse_url(self._url)
            path = target.path.decode("ascii")
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError, AttributeError):
            raise _bad("the address of the request cannot be read.") from None
        if version not in ("1.0", "1.1"):
            raise _bad(f"the version of HTTP must be 1.1 or 1.0, got {version}.")
        names = [name for name, _ in self._headers]
        hosts = names.count(b"host")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise _bad(f"a request must have one Host header, got {hosts or 'none'}.")
        if target.host:  # an absolute address: its host is the one that counts
            port = b":%d" % target.port if target.port else b""
            self._headers = [header for header in self._headers if header[0] != b"host"]
            self._headers.append((b"host", target.host + port))
        if self._parser.should_upgrade() and (b"content-length" in names or b"transfer-encoding" in names):
            raise _bad("a request that asks for another protocol must have no body.")
        scope: Scope = self._scope | {
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": target.path,
            "query_string": target.query or b"",
            "headers": self._headers,
        }
        keep_alive = self._parser.should_keep_alive() and b"upgrade" not in names
        expects = version == "1.1" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self._headers
        )
        return Request(self, scope, keep_alive, expects)

    def is_alone(self) -> bool:
        """Tell whether nothing is known to follow the request that is being answered."""
        begun = self._is_in_message and self._is_in_head()
        return len(self._requests) == 1 and not self._unparsed and not begun and self._refusal is None

    def finish(self, request: "Request") -> None:
        """Go on after a response."""
        if self._is_closing:
            return
        if not request.keep_alive:
            self._linger()
        elif request.is_whole:
            self._next()
            self._parse()
            self._check_end()

    def body_taken(self) -> None:
        """Go on parsing: the application has taken what there was of a body."""
        if self._unparsed:
            self._parse()
            self._check_end()

    def _next(self) -> None:
        """Have the next request answered, or wait for one."""
        self._requests.popleft()
        if self._requests:
            self._requests[0].start()
        elif self._refusal is not None:
            self._send_refusal(self._refusal)
        else:
            self._deadline = self.server.now() + (DRAIN if self.is_draining else KEEP_ALIVE)
        if self._is_in_message and not self._is_closing:  # its time begins again: it was this side that did not go on
            self._deadline = self.server.now() + self.server.limits.seconds

    def _check_end(self) -> None:
        """After the last byte of the client: refuse half a request, close when everything is answered."""
        if not self._has_eof or self._unparsed or self._is_closing:
            return
        if self._is_in_message and not self._is_last:
            self._refuse(RefusalError(400, "bad_request", "the request ended before it was whole."))
        elif not self._requests:
            self.close()

    def _refuse(self, refusal: RefusalError) -> None:
        """Refuse the request that is arriving, after the responses to those before it, and close."""
        self._is_last, self._deadline = True, NEVER
        self._unparsed.clear()
        if not self._is_in_head():
            request = self._requests[-1]
            request.fail(refusal)
            if request.is_finished:
                self._linger()
        elif self._requests:
            self._refusal = refusal
        else:
            self._send_refusal(refusal)

    def _send_refusal(self, refusal: RefusalError) -> None:
        head = [STATUS_LINES[refusal.status], b"date: %b\r\n" % self.server.date]
        headers, body = encode_refusal(refusal)
        head += [b"%b: %b\r\n" % header for header in [*headers, *FRESH]]
        self.write(b"".join([*head, b"connection: close\r\n\r\n", body]))
        self.server.on_refusal(refusal.status, self.server.now() - self._began)
        self._linger()

    def write(self, data: bytes) -> None:
        """Send data."""
        if self.transport is not None and not self._is_closing and not self.transport.is_closing():
            self.transport.write(data)

    def has_gone(self) -> bool:
        """Tell whether the client has closed its side: most do that when they do not want a response any more."""
        return self._has_eof or self._is_closing

    def _linger(self) -> None:
        """Say that nothing follows, and close when the client does.

        Closing at once would reset the connection if the client is still sending, and the response could be lost.
        """
        self._end()
        if self.transport is None or self.transport.is_closing():
            return
        if self._has_eof:
            self.transport.close()
            return
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        with contextlib.suppress(OSError):  # it is gone already
            self.transport.write_eof()

    def _end(self) -> None:
        """Take no more requests, and have no more responses sent."""
        self._is_last = self._is_closing = True
        now = self.server.now()
        self._deadline, self._close_by = now + LINGER, min(self._close_by, now + self.server.limits.seconds)
        self._unparsed.clear()
        for request in self._requests:
            request.disconnect()
        self._requests.clear()


def _bad(message: str) -> RefusalError:
    return RefusalError(400, "bad_request", message)


class Request:
    """One request and its response: `receive` and `send` of ASGI."""

    __slots__ = (
        "_body", "_connection", "_expects_continue", "_failure", "_framing", "_is_taken", "_left", "_start", "_waiter",
        "buffered", "is_finished", "is_gone", "is_whole", "keep_alive", "scope",
    )  # fmt: skip

    def __init__(self, connection: Connection, scope: Scope, keep_alive: bool, expects_continue: bool) -> None:
        self.scope, self.keep_alive = scope, keep_alive
        self.is_whole = self.is_finished = self.is_gone = False
        self.buffered = 0  # bytes of the body that the application has not taken
        self._connection, self._expects_continue = connection, expects_continue
        self._body = list[bytes]()
        self._is_taken = False  # the whole body is
        self._failure: RefusalError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._start: Message | None = None
        self._framing: Literal["length", "chunked", "close", "none"] = "none"
        self._left = 0  # bytes of a response of a given length

    # What the connection calls.

    def start(self) -> None:
        """Have the application answer."""
        server = self._connection.server
        task = server.loop.create_task(self._run())
        server.tasks.add(task)  # the event loop itself keeps only a weak reference
        task.add_done_callback(server.tasks.discard)

    def add_body(self, body: bytes) -> None:
        """Add a part of the body; of a request that is answered already, it is dropped."""
        if not self.is_finished:
            self._body.append(body)
            self.buffered += len(body)
            self.wake()

    def fail(self, refusal: RefusalError) -> None:
        """Have the application refuse a request whose body does not arrive."""
        self._failure, self.keep_alive = refusal, False
        self.wake()

    def disconnect(self) -> None:
        """Let the application know that the client is gone."""
        self.is_gone = True
        self.wake()

    def wake(self) -> None:
        """Have the application look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the application calls.

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client is gone."""
        connection = self._connection
        if self._expects_continue:
            self._expects_continue = False
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            if self.is_gone or self.is_finished:
                return {"type": "http.disconnect"}
            if self._body or (self.is_whole and not self._is_taken):
                break
            if self._failure is not None:
                raise self._failure
            if self._is_taken and connection.has_gone():
                return {"type": "http.disconnect"}
            self._waiter = connection.server.loop.create_future()
            await self._waiter
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self.buffered, self._is_taken = 0, self.is_whole
        connection.body_taken()
        return {"type": "http.request", "body": body, "more_body": not self._is_taken}

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        connection = self._connection
        while connection.drained is not None and not self.is_gone:
            await asyncio.shield(connection.drained)
        if self.is_gone:
            return
        if message["type"] == "http.response.start":
            self._start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        head = b""
        if self._start is not None:
            head, self._start = self._make_head(self._start, None if more else len(body)), None
        connection.write(head + self._frame(body, more))
        if not more:
            self.is_finished = True
            self.wake()
            connection.finish(self)

    async def _run(self) -> None:
        try:
            await self._connection.server.app(self.scope, self.receive, self.send)
        except Exception as error:  # the middleware lets none through
            log.error("a request failed: %s", tell(error))
        if not self.is_finished and not self.is_gone:
            self._connection.close()

    def _make_head(self, start: Message, length: int | None) -> bytes:
        """Return status line and headers of a response; its length, if it is known, follows."""
        status, connection = start["status"], self._connection
        lines = [STATUS_LINES[status], b"date: ", connection.server.date, b"\r\n"]
        declared = None
        for name, value in start["headers"]:
            if name == b"connection":
                self.keep_alive = self.keep_alive and value != b"close"
                continue
            if name == b"content-length":
                declared = int(value)
            lines += (name, b": ", value, b"\r\n")
        is_old = self.scope["http_version"] == "1.0"
        if self.scope["method"] != "HEAD" and status not in (204, 304):
            if declared is None and length is not None:
                declared = length
                lines.append(b"content-length: %d\r\n" % length)
            if declared is not None:
                self._framing, self._left = "length", declared
            elif is_old:
                self._framing, self.keep_alive = "close", False
            else:
                self._framing = "chunked"
                lines.append(b"transfer-encoding: chunked\r\n")
        # A client that was not told to continue may send its body or not: what follows cannot be told apart.
        if self._expects_continue or (connection.is_draining and connection.is_alone()):
            self.keep_alive = False
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        elif is_old:
            lines.append(b"connection: keep-alive\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _frame(self, body: bytes, more: bool) -> bytes:
        """Return a part of the body as it is sent."""
        if self._framing == "length":
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the response is not as long as its Content-Length says")
            return body
        if self._framing == "chunked":
            part = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return part if more else part + b"0\r\n\r\n"
        return body if self._framing == "close" else b""
