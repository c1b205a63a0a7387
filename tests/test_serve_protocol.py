"""HTTP as the service speaks it, with small applications instead of a model, on both event loops."""

import asyncio
import contextlib
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest
import uvloop

from starcast.serve import protocol
from starcast.serve.limits import Limits, RefusalError
from starcast.serve.server import Server
from starcast.serve.tally import Tally, make_tally

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
LAST = HEAD + b"Connection: close\r\n\r\n"


class Listening:
    """A server in a thread, on a free port."""

    def __init__(self, app, limits, new_loop):
        with tempfile.TemporaryDirectory() as folder:
            tally = Tally(make_tally(Path(folder, "tally"), 1), 0)
        self.refused, listener = [], socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = Server(app, listener, tally, limits, lambda status, seconds: self.refused.append(status))
        self._loop, is_up = new_loop(), threading.Event()

        async def run():
            self._loop.call_soon(is_up.set)
            await self.server.run()

        self.thread = threading.Thread(target=self._loop.run_until_complete, args=(run(),))
        self.thread.start()
        is_up.wait(60)

    def drain(self):
        self._loop.call_soon_threadsafe(self.server.drain)

    def stop(self):
        with contextlib.suppress(RuntimeError):
            self.drain()
        self.thread.join(60)
        assert not self.thread.is_alive()
        self._loop.close()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def exchange(self, *parts):
        """Send parts, each after a moment, and return all that comes until the connection is closed."""
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
                time.sleep(0.02)
            return read_all(client)


def read_all(client):
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            heard += part
    return heard


def body_of(heard):
    return heard.partition(b"\r\n\r\n")[2]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def listen(request):
    started = []

    def start(app, **limits):
        started.append(Listening(app, Limits(**limits), request.param))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def responding(*parts, status=200, headers=()):
    """An application that responds with these parts of a body."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for place, part in enumerate(parts):
            await send({"type": "http.response.body", "body": part, "more_body": place < len(parts) - 1})

    return app


async def echo(scope, receive, send):
    """Respond with method, path and the whole body."""
    body, more = b"", True
    while more:
        try:
            message = await receive()
        except RefusalError as refusal:
            body, more = f"refused {refusal.status}".encode(), False
            break
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    await responding(f"{scope['method']} {scope['path']} ".encode() + body)(scope, receive, send)


def test_a_response_of_known_length_has_it_and_another_is_chunked(listen):
    heard = listen(responding(b"hello")).exchange(LAST)
    assert heard.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
    assert b"content-length: 5\r\n" in heard
    assert heard.endswith(b"\r\n\r\nhello")
    heard = listen(responding(b"he", b"", b"llo")).exchange(LAST)
    assert b"transfer-encoding: chunked\r\n" in heard
    assert body_of(heard) == b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


def test_an_old_client_reads_until_the_connection_is_closed(listen):
    heard = listen(responding(b"he", b"llo")).exchange(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"chunked" not in heard
    assert b"connection: close\r\n" in heard
    assert body_of(heard) == b"hello"


@pytest.mark.parametrize("status", [204, 304])
def test_some_responses_have_no_body(listen, status):
    server = listen(responding(b"", status=status))
    heard = server.exchange(HEAD + b"\r\n" + LAST)
    assert heard.count(b"HTTP/1.1 %d " % status) == 2
    assert b"transfer-encoding" not in heard
    heard = listen(responding(b"he", b"llo")).exchange(LAST.replace(b"GET", b"HEAD"))
    assert body_of(heard) == b""


def test_a_response_of_another_length_than_it_says_ends_the_connection(listen):
    for parts in ([b"hello!"], [b"hell"]):
        heard = listen(responding(*parts, headers=[(b"content-length", b"5")])).exchange(HEAD + b"\r\n")
        assert body_of(heard) == b""


def test_an_application_that_says_nothing_ends_the_connection(listen):
    async def silent(scope, receive, send):
        pass

    async def failing(scope, receive, send):
        raise ZeroDivisionError

    for app in (silent, failing):
        assert listen(app).exchange(HEAD + b"\r\n") == b""


@pytest.mark.parametrize("size", [0, 1, 5000, 300_000])
def test_a_body_arrives_whole_however_it_is_cut(listen, size):
    server, body = listen(echo), bytes(65 + k % 26 for k in range(size))
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(body[k : k + 999]), body[k : k + 999]) for k in range(0, size, 999))
    chunked = b"POST /y HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    whole = head + body + chunked + LAST
    cut = len(head) + size // 2
    for parts in ([whole], [whole[:cut], whole[cut:]], [head[:9], head[9:] + body, chunked + LAST]):
        heard = server.exchange(*parts)
        assert heard.count(b"HTTP/1.1 200 OK\r\n") == 3
        assert b"\r\n\r\nPOST /x " + body + b"HTTP/1.1" in heard
        assert b"\r\n\r\nPOST /y " + body + b"HTTP/1.1" in heard
        assert heard.endswith(b"GET / ")


def test_a_body_that_nobody_takes_is_skipped(listen):
    server = listen(responding(b"no, thanks"))
    post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"
    heard = server.exchange(post, b"x" * 200_000 + LAST)
    assert heard.count(b"no, thanks") == 2


def test_a_body_that_breaks_off_is_refused_by_the_application(listen):
    server = listen(echo, seconds=1)
    post = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    assert server.exchange(post + b"nonsense\r\n").endswith(b"refused 400")
    assert server.exchange(post).endswith(b"refused 408")
    with server.connect() as client:
        client.sendall(post)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).endswith(b"refused 400")
    assert server.refused == []  # these were counted by the application


@pytest.mark.parametrize("begun", [b"GE", HEAD, HEAD + b"X: "])
def test_half_a_head_is_refused(listen, begun):
    server = listen(echo, seconds=1)
    assert server.exchange(begun).startswith(b"HTTP/1.1 408 ")
    with server.connect() as client:
        client.sendall(begun)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).startswith(b"HTTP/1.1 400 ")
    assert server.refused == [408, 400]


def test_a_client_that_has_said_all_gets_every_response(listen):
    server = listen(echo)
    with server.connect() as client:
        client.sendall((HEAD + b"\r\n") * 500)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).count(b"HTTP/1.1 200 OK\r\n") == 500


@pytest.mark.parametrize("rest", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", b"GET bad HTTP/1.1\r\nHost: a\r\n\r\n", HEAD + b"X: " + b"x" * 70_000], ids=["nonsense", "no host", "version", "address", "length"])  # fmt: skip
def test_a_refusal_comes_after_the_responses_before_it(listen, rest):
    server = listen(echo)
    heard = server.exchange((HEAD + b"\r\n") * 20 + rest)
    assert heard.count(b"HTTP/1.1 200 OK\r\n") == 20
    assert heard.count(b"HTTP/1.1 4") == 1
    assert heard.rindex(b"HTTP/1.1 200 OK\r\n") < heard.index(b"HTTP/1.1 4")
    assert heard.count(b"connection: close") == 1
    assert len(server.refused) == 1


def test_endless_trailers_are_refused(listen):
    post = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    assert listen(echo).exchange(post + b"X: y\r\n" * 20_000).endswith(b"refused 431")


def test_a_client_is_told_to_continue_once_its_body_is_wanted(listen):
    post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    with listen(echo).connect() as client:
        client.sendall(post)
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"hello")
        assert read_all(client).endswith(b"POST / hello")
    heard = listen(responding(b"no")).exchange(post.replace(b"Connection: close\r\n", b""))
    assert b"100 Continue" not in heard
    assert b"connection: close\r\n" in heard


def test_the_application_hears_that_a_client_is_gone(listen):
    heard = threading.Event()

    async def waiting(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        heard.set()

    server = listen(waiting)
    with server.connect() as client:
        client.sendall(HEAD + b"\r\n")
        time.sleep(0.1)
        assert not heard.is_set()
    assert heard.wait(60)


def test_a_client_that_does_not_read_is_cut_off(listen):
    server = listen(responding(*[b"x" * 100_000] * 400), seconds=0.5)
    with server.connect() as client:
        client.sendall(HEAD + b"\r\n")
        time.sleep(2)
        assert len(read_all(client)) < 400 * 100_000
    assert not server.server.connections


def test_idle_connections_make_room_the_oldest_first_and_busy_ones_stay(listen):
    go, begun = threading.Event(), threading.Event()

    async def slow(scope, receive, send):
        begun.set()
        while not go.is_set():
            await asyncio.sleep(0.01)
        await responding(b"done")(scope, receive, send)

    server = listen(slow, connections=3)
    with contextlib.ExitStack() as stack:
        busy, idle, half = (stack.enter_context(server.connect()) for _ in range(3))
        busy.sendall(LAST)
        half.sendall(b"GET /")
        assert begun.wait(60)
        others = [stack.enter_context(server.connect()) for _ in range(2)]
        for other in others:
            other.sendall(LAST)
        try:
            assert read_all(idle) == b""
            assert read_all(half) == b""
        finally:
            go.set()
        for client in (busy, *others):
            assert read_all(client).endswith(b"done")


def test_a_server_that_drains_answers_what_has_begun_and_closes(listen, monkeypatch):
    monkeypatch.setattr(protocol, "DRAIN", 3)  # on a busy machine, too, the last request arrives in time
    go = threading.Event()

    async def slow(scope, receive, send):
        while not go.is_set():
            await asyncio.sleep(0.01)
        await responding(b"done")(scope, receive, send)

    server = listen(slow)
    with contextlib.ExitStack() as stack:
        busy, ahead, idle, late = (stack.enter_context(server.connect()) for _ in range(4))
        busy.sendall(HEAD + b"\r\n")
        ahead.sendall((HEAD + b"\r\n") * 3)
        time.sleep(0.2)
        server.drain()
        late.sendall(HEAD + b"\r\n")
        assert read_all(idle) == b""
        go.set()
        for client, n in ((busy, 1), (ahead, 3), (late, 1)):
            heard = read_all(client)
            assert heard.count(b"done") == n
            assert heard.count(b"connection: close") == 1
        with pytest.raises(ConnectionRefusedError):
            server.connect()
    server.thread.join(60)
    assert not server.thread.is_alive()


@pytest.mark.parametrize("head", [HEAD + b"\r\n", LAST], ids=["kept alive", "last"])
def test_a_slow_client_gets_the_whole_of_a_long_response(listen, monkeypatch, head):
    monkeypatch.setattr(protocol, "LINGER", 0.1)
    monkeypatch.setattr(protocol, "KEEP_ALIVE", 0.1)
    body = bytes(16 << 20)  # more than the buffers of a connection hold
    with listen(responding(body)).connect() as client:
        client.sendall(head)
        time.sleep(1)
        assert len(read_all(client)) > len(body)


def test_connections_without_requests_are_closed(listen, monkeypatch):
    monkeypatch.setattr(protocol, "KEEP_ALIVE", 0.2)
    server = listen(echo, seconds=0.5)
    assert server.exchange() == b""
    assert server.exchange(b"\r\n") == b""
    assert server.exchange(HEAD + b"\r\n").count(b"HTTP/1.1 200 OK\r\n") == 1
    assert server.refused == []
