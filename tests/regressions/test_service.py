"""Faults of earlier versions of the service that must not come back."""

import asyncio
import json
import socket
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import httpx
import pytest
from service import Process, Service, serve, tiny

from starcast.errors import StarcastError
from starcast.models import explanation
from starcast.serve import answers, app, doors
from starcast.serve.edition import Source
from starcast.serve.limits import Limits
from starcast.serve.supervisor import Post, Supervisor
from starcast.serve.tally import Tally, make_tally

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("service") / "model.starcast"
    tiny().save(file)
    return file


@pytest.fixture(scope="module")
def process(file):
    process = Process(file, "--workers", 1, log=file.parent / "log")
    yield process
    process.stop()


def exchange(process, data, seconds=60):
    """Send bytes and return all that comes until the service closes the connection."""
    with socket.create_connection(("127.0.0.1", process.port), timeout=seconds) as client:
        client.sendall(data)
        heard = b""
        while part := client.recv(1 << 16):
            heard += part
    return heard


def statuses(heard):
    return [int(part[:3]) for part in heard.split(b"HTTP/1.1 ")[1:]]


# HTTP.


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_nothing_after_a_request_to_upgrade_is_taken_for_a_request(process, protocol):
    hidden = b"GET /api/model HTTP/1.1\r\nHost: localhost\r\n\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: %b\r\n" % protocol.encode()
    assert statuses(exchange(process, HEAD + upgrade + b"\r\n" + hidden)) == [200]
    with_body = HEAD + upgrade + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden
    assert statuses(exchange(process, with_body)) == [400]
    only_named = HEAD + b"Upgrade: %b\r\n\r\n" % protocol.encode() + hidden
    assert statuses(exchange(process, only_named)) == [200]


def test_a_request_has_exactly_one_host(process):
    twice = exchange(process, HEAD + b"Host: localhost\r\n\r\n")
    assert statuses(twice) == [400]
    assert b"one Host header, got 2" in twice
    none = exchange(process, b"GET /healthz HTTP/1.1\r\n\r\n")
    assert statuses(none) == [400]
    assert b"one Host header, got none" in none
    assert statuses(exchange(process, b"GET /healthz HTTP/1.0\r\n\r\n")) == [200]


def test_hundreds_of_pipelined_requests_are_answered(process):
    n = 700
    heard = exchange(process, (HEAD + b"\r\n") * (n - 1) + HEAD + b"Connection: close\r\n\r\n")
    assert statuses(heard) == [200] * n


def test_what_the_protocol_refuses_is_counted(process):
    def count(status):
        text = httpx.get(f"{process.url}/metrics").text
        wanted = f'starcast_requests_total{{path="other",status="{status}"}} '
        return sum(int(line.removeprefix(wanted)) for line in text.splitlines() if line.startswith(wanted))

    before = count(400), count(431)
    assert statuses(exchange(process, b"nonsense\r\n\r\n")) == [400]
    assert statuses(exchange(process, HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n")) == [431]
    assert (count(400), count(431)) == (before[0] + 1, before[1] + 1)


def test_requests_of_other_kinds_are_answered(process):
    """Chunked bodies, HEAD, HTTP/1.0 that keeps its connection, absolute addresses, an answer after half a request."""
    body = json.dumps({"pairs": [{"user": 1, "item": 1}]}).encode()
    chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])
    post = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    heard = exchange(process, post + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
    assert json.loads(heard.partition(b"\r\n\r\n")[2])["forecasts"][0]["known"]
    head = exchange(process, HEAD.replace(b"GET", b"HEAD") + b"Connection: close\r\n\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert b"content-length: 18\r\n" in head
    old = b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n"
    heard = exchange(process, old)
    assert statuses(heard) == [200, 200]
    assert heard.count(b"connection: keep-alive\r\n") == 1
    absolute = b"GET http://%b/api/users HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert statuses(exchange(process, absolute % b"localhost:1")) == [200]
    assert statuses(exchange(process, absolute % b"evil.example")) == [421]  # its host, not the header, counts
    wrong = post + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"
    heard = exchange(process, (HEAD + b"\r\n") * 2 + wrong)
    assert statuses(heard) == [200, 200, 400]
    assert heard.count(b"connection: close") == 1


def test_a_body_is_asked_for_only_if_it_will_be_taken(process):
    post = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
    long = post + b"Content-Type: application/json\r\nContent-Length: 9999999\r\n\r\n"
    assert statuses(exchange(process, long)) == [413]  # at once: the body is never sent
    assert statuses(exchange(process, post + b"Content-Length: 2\r\n\r\n")) == [415]


# The end.


def test_a_service_under_load_ends_without_an_error_or_a_hanging_client(file):
    from drain_service import drain_under_load

    for _ in range(2):
        seconds, wrong = drain_under_load(file, workers=2, clients=8)
        assert wrong == []
        assert seconds < Limits().seconds


class Worker:
    """The process of a worker, which ends at once or says something."""

    exitcode = 1

    def __init__(self, *words):
        self.words = words

    def join(self):
        pass

    def recv(self):
        return self.words


@pytest.fixture
def supervisor(tmp_path):
    supervisor = Supervisor(Source(), None, None, 1)
    supervisor.posts = [Post(0, Tally(make_tally(tmp_path / "tally", 1), 0))]
    supervisor._folder, supervisor.edition = tmp_path, tmp_path / "edition-1"
    return supervisor


def test_workers_that_never_become_ready_end_the_service(supervisor):
    (post,) = supervisor.posts
    for _ in range(4):
        post.process = Worker()
        supervisor._bury(post)
    post.process = Worker()
    with pytest.raises(StarcastError, match="5 workers ended before any was ready, the last with exit code 1"):
        supervisor._bury(post)


def test_a_first_model_that_no_worker_can_load_ends_the_service(supervisor):
    (post,) = supervisor.posts
    post.process, post.line = Worker(), Worker("failed", supervisor.edition, "MemoryError")
    with pytest.raises(StarcastError, match="no worker could load the model"):
        supervisor._hear(post)


# Explanations.


def slow_explanations(monkeypatch):
    """Have explanations take until they are told to stop; return the requests that have begun."""
    begun = []

    def slow(served, question, should_stop=lambda: False):
        begun.append(question)
        end = time.monotonic() + 300
        while not should_stop() and time.monotonic() < end:
            time.sleep(0.005)
        raise CancelledError

    replaced = tuple(door._replace(answer=slow) if door.answer is answers.explain else door for door in doors.DOORS)
    monkeypatch.setattr(app, "DOORS", replaced)
    return begun


def test_abandoned_explanations_hold_up_nothing_else(monkeypatch):
    begun = slow_explanations(monkeypatch)
    service = Service(tiny(), Limits(seconds=120))
    sent, left = [], asyncio.Event()

    async def abandoned():
        body = [{"type": "http.request", "body": b'{"user": 1, "item": 2}', "more_body": False}]

        async def receive():
            if not body:
                await left.wait()
                return {"type": "http.disconnect"}
            return body.pop()

        async def send(message):
            sent.append(message.get("status"))

        scope = {"type": "http", "method": "POST", "path": "/api/explain", "query_string": b"",
                 "headers": [(b"content-type", b"application/json")]}  # fmt: skip
        await service.app(scope, receive, send)

    async def main():
        tasks = [asyncio.create_task(abandoned()) for _ in range(16)]
        while not begun:
            await asyncio.sleep(0.01)
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/api/items?query=film")).status_code == 200
        left.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert [status for status in sent if status] == [503] * 12  # four are computed or wait, and were given up
    assert len(begun) == 1  # the thread for explanations had time for one of them


def test_an_explanation_is_computed_once(monkeypatch):
    calls = []
    explain = answers.explain

    def counted(served, question, *rest):
        calls.append(question)
        return explain(served, question, *rest)

    replaced = tuple(door._replace(answer=counted) if door.answer is answers.explain else door for door in doors.DOORS)
    monkeypatch.setattr(app, "DOORS", replaced)
    service = Service(tiny())
    first = service.post("/api/explain", {"user": 1, "item": 2}).json()
    assert service.post("/api/explain", {"user": "1", "item": 2}).json() == first
    assert len(calls) == 1
    service.desk.served = serve(tiny(9))  # a new model has explanations of its own
    assert service.post("/api/explain", {"user": 1, "item": 2}).json() != first
    assert len(calls) == 2


def test_an_explanation_stops_between_two_solves(monkeypatch):
    whole = explanation.explain(tiny(), 2, 4, 5)
    monkeypatch.setattr(explanation, "MOST_VISITS", 1 << 10)
    few = explanation.explain(tiny(), 2, 4, 5)
    monkeypatch.setattr(explanation, "BLOCKS", 1)
    assert few.equals(explanation.explain(tiny(), 2, 4, 5))
    assert set(few.columns) == set(whole.columns)
    asked = iter([False, True])
    monkeypatch.setattr(explanation, "BLOCKS", 16)
    with pytest.raises(CancelledError):
        explanation.explain(tiny(), 2, 4, 5, lambda: next(asked))


# Limits, names and tokens.


def test_a_list_that_is_too_long_is_refused_before_its_members_are_looked_at():
    service = Service(tiny())
    for path, name in [("/api/predict", "pairs"), ("/api/fold-in", "ratings"), ("/api/fold-in", "items")]:
        error = service.post(path, {name: [0] * 1001}).json()["error"]
        assert error["code"] == "too_many"
        assert "at most 1,000, got 1,001" in error["message"]


def test_a_long_body_is_parsed_outside_the_event_loop(monkeypatch):
    threads = []
    read_body = doors.read_body

    def watched(*given):
        threads.append(threading.current_thread() is threading.main_thread())
        return read_body(*given)

    monkeypatch.setattr(doors, "read_body", watched)
    service = Service(tiny())
    for n in (1, 1000):
        assert service.post("/api/predict", {"pairs": [{"user": 1, "item": 1}] * n}).status_code == 200
    assert threads == [True, False]


def test_probes_are_answered_whatever_the_host():
    service = Service(tiny(), hosts=frozenset({"localhost"}), token="0123456789abcdef")
    for path in ("/healthz", "/readyz"):
        assert service.ask("GET", path, headers={"host": "10.0.0.7:8080"}).status_code == 200
    assert service.ask("GET", "/api/model", headers={"host": "10.0.0.7:8080"}).status_code == 421
    assert service.ask("GET", "/metrics", headers={"host": "10.0.0.7:8080"}).status_code == 421


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_case_of_bearer_does_not_matter(scheme):
    service = Service(tiny(), token="0123456789abcdef")
    given = {"authorization": f"{scheme} 0123456789abcdef"}
    assert service.ask("GET", "/api/users", headers=given).status_code == 200
    for wrong in ("Basic 0123456789abcdef", "Bearer0123456789abcdef", "0123456789abcdef", "Bearer", "Bearer x"):
        assert service.ask("GET", "/api/users", headers={"authorization": wrong}).status_code == 401


def test_the_description_has_the_token_and_every_refusal():
    described = Service(tiny()).get("/openapi.json").json()
    assert described["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
    operation = described["paths"]["/api/predict"]["post"]
    assert {"token": []} in operation["security"]
    assert {"400", "401", "404", "408", "413", "415", "421", "422", "431", "503"} <= set(operation["responses"])
    assert "security" not in described["paths"]["/healthz"]["get"]
