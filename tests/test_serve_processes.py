"""The service as it runs: workers that die, models that change, clients that dawdle, an end in good order."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from service import Process, tiny
from typer.testing import CliRunner

import starcast as sc
import starcast.serve.supervisor as supervisor_module
from starcast.cli import app
from starcast.errors import FileError, FileFormatError, ParameterError
from starcast.serve.edition import Source, open_edition, prepare
from starcast.serve.limits import Limits
from starcast.serve.supervisor import Post, Supervisor, listen
from starcast.serve.tally import Tally, make_tally

PAIRS = [{"user": u, "item": i} for u in (1, 2, 3, 4, 5) for i in (1, 2)]
SLOW = 4  # seconds that a request may take to arrive, where that is what is tested


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def file(folder):
    tiny().save(folder / "model.starcast")
    return folder / "model.starcast"


@pytest.fixture(scope="module")
def running(folder, file):
    process = Process(file, "--workers", 2, "--timeout", 120, "--reload-model", log=folder / "log")
    yield process
    assert process.stop(signal.SIGINT) == 0


@pytest.fixture(scope="module")
def hasty(folder, file):
    """A service that waits for nobody; on a busy machine some of its answers may be late themselves."""
    process = Process(file, "--workers", 2, "--timeout", SLOW, log=folder / "log-hasty")
    yield process
    assert process.stop() == 0


@contextlib.contextmanager
def connected(process):
    with socket.create_connection(("127.0.0.1", process.port), timeout=240) as client:
        yield client


def answer_of(client):
    """Status and JSON of what the service sends until it closes the connection."""
    data = b""
    while True:
        try:
            part = client.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]), json.loads(body)) if head else (None, None)


def ask(process, method="GET", path="/api/model", question=None):
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=240)
    try:
        body = None if question is None else json.dumps(question)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def until(happens, seconds=600):
    """Wait for something, not for ever."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


class Crowd:
    """Clients that ask all the time, each request on a connection of its own, and remember what they heard."""

    def __init__(self, process, n=6):
        self.process, self.heard, self.failed, self._is_over = process, [], [], False
        self._threads = [threading.Thread(target=self._ask) for _ in range(n)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._is_over = True
        for thread in self._threads:
            thread.join()

    def _ask(self):
        while not self._is_over:
            try:
                self.heard.append(ask(self.process, "POST", "/api/predict", {"pairs": PAIRS}))
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(repr(error))


def probs_of(model):
    users, items = [p["user"] for p in PAIRS], [p["item"] for p in PAIRS]
    return model.predict_proba(users, items).probs.tolist()


def test_it_answers_over_a_socket(running):
    status, about = ask(running)
    assert status == 200
    assert about["model"] == "OrdinalMF"
    assert len(running.workers()) == 2
    with connected(running) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer_of(client) == (200, {"status": "alive"})


def test_a_crowd_gets_the_models_answers(running):
    with Crowd(running, 12) as crowd:
        until(lambda: len(crowd.heard) > 300)
    assert crowd.failed == []
    right = probs_of(tiny())
    assert all(status == 200 for status, _ in crowd.heard)
    assert all([row["probs"] for row in answer["forecasts"]] == right for _, answer in crowd.heard)


def test_requests_in_one_breath_are_answered_in_their_order(running):
    one = b"GET /api/recommend?user=%d&n=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /api/recommend?user=9&n=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(running) as client:
        client.sendall(b"".join(one % user for user in range(1, 9)) + last)
        data = b""
        while part := client.recv(65536):
            data += part
    assert [json.loads(part.partition(b"}]}")[0] + b"}]}")["user"] for part in data.split(b"\r\n\r\n")[1:]] == list(
        range(1, 10)
    )


def test_clients_that_dawdle_are_sent_away_and_hold_nobody_up(hasty):
    beginnings = [
        b"", b"\r\n", b"GET /api/mo", b"GET /api/model HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(hasty)) for _ in range(20 * len(beginnings))]
        for k, client in enumerate(slow):
            client.sendall(beginnings[k % len(beginnings)])
        until(lambda: ask(hasty)[0] == 200)
        silent = 0
        for client in slow:
            status, body = answer_of(client)  # which ends after the time limit, or the test does not
            if body is not None:
                assert (status, body["error"]["code"]) == (408, "too_slow")
            silent += body is None
        assert silent == 40  # who has not begun a request is told nothing


def test_a_client_that_trickles_is_sent_away_too(hasty):
    with connected(hasty) as client:
        client.sendall(b"GET /api/model HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(OSError):
            for k in range(1000):
                client.sendall(b"X-%d: 1\r\n" % k)
                time.sleep(0.2)
        assert k < 999
        assert answer_of(client)[0] in (408, None)  # None: the answer was lost to what was still being sent


def test_requests_far_ahead_of_their_responses_wait(running):
    one = b"GET /api/recommend?user=1&n=30 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    before = sum(worker.memory_info().rss for worker in running.workers())
    with connected(running) as client:
        client.settimeout(1)
        with pytest.raises(TimeoutError):  # nothing more is read until the client reads responses
            for _ in range(2000):
                client.sendall(one * 1000)
    assert ask(running)[0] == 200
    assert sum(worker.memory_info().rss for worker in running.workers()) < before + (100 << 20)


def test_idle_connections_make_room(folder, file):
    process = Process(file, "--workers", 1, "--max-connections", 20, log=folder / "log-room")
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(connected(process))
        assert ask(process)[0] == 200  # long before the idle ones are sent away
    process.stop()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"HELO example.org\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
        (b"POST /api/predict HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /api/predict HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST /api/predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"CONNECT example.org:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ],
)  # fmt: skip
def test_what_is_no_http_is_refused_in_json(running, sent, status):
    with connected(running) as client:
        client.sendall(sent)
        found, body = answer_of(client)
    assert found == status
    assert body["error"]["code"] == "bad_request"


def test_a_head_without_end_is_cut_off(running):
    with connected(running) as client:
        with contextlib.suppress(OSError):
            client.sendall(b"GET /" + b"a" * 100_000)
            time.sleep(0.2)
            client.sendall(b"a" * 1000)
        assert answer_of(client)[0] in (431, None)
    assert ask(running)[0] == 200


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_long_is_refused_so_that_it_can_be_read(running, is_chunked):
    size = 3 << 20
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=240)
    body = (b" " * 65536 for _ in range(size // 65536)) if is_chunked else b" " * size
    connection.request("POST", "/api/predict", body, {"Content-Type": "application/json"}, encode_chunked=is_chunked)
    reply = connection.getresponse()
    assert reply.status == 413
    assert "at most 1,048,576 bytes" in json.loads(reply.read())["error"]["message"]
    connection.close()


def test_a_client_that_does_not_read_is_cut_off(hasty):
    question = json.dumps({"pairs": [{"user": 1, "item": 1}] * 1000}).encode()
    one = (
        b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with connected(hasty) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(1)
        with contextlib.suppress(OSError):
            for _ in range(400):
                client.sendall(one % len(question) + question)
        time.sleep(2 * SLOW)
        client.settimeout(240)
        with contextlib.suppress(ConnectionResetError):
            while client.recv(1 << 20):
                pass  # what the network held; then the end, not a hang
    until(lambda: ask(hasty)[0] == 200)


def test_a_new_model_file_is_served_whole_and_no_request_fails(running, file):
    old, new = probs_of(tiny()), probs_of(tiny(9))
    with Crowd(running) as crowd:
        until(lambda: len(crowd.heard) > 50)
        tiny(9).save(file)
        until(lambda: sum(1 for _, answer in crowd.heard[-40:] if answer["forecasts"][0]["probs"] == new[0]) == 40)
    assert crowd.failed == []
    for status, answer in crowd.heard:
        assert status == 200
        assert [row["probs"] for row in answer["forecasts"]] in (old, new)
    assert ask(running)[1]["data"]["digest"] == tiny(9).digest_


def test_a_broken_model_file_changes_nothing(running, file):
    whole, before = file.read_bytes(), ask(running)[1]["data"]["digest"]
    try:
        file.write_bytes(whole[: len(whole) // 2])  # in place, as a copy that is under way
        until(lambda: "the old one stays" in running.log.read_text())
        assert ask(running, "POST", "/api/predict", {"pairs": PAIRS})[0] == 200
        victim = running.workers()[0]
        victim.kill()  # whoever starts now has the model of the others, too
        until(lambda: len(running.workers()) == 2 and victim.pid not in [w.pid for w in running.workers()])
        assert {ask(running)[1]["data"]["digest"] for _ in range(20)} == {before}
    finally:
        tiny().save(file)
    until(lambda: ask(running)[1]["data"]["digest"] == tiny().digest_)


def test_a_signal_serves_the_file_anew(running):
    def loads():
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=240)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(next(line for line in text.splitlines() if line.startswith("starcast_model_loads_total")).split()[1])

    before = loads()
    running.process.send_signal(signal.SIGHUP)
    until(lambda: loads() >= before + 2)


class Line:
    """The supervisor's end of a line to a worker that there is not."""

    def __init__(self):
        self.said, self.word = [], None

    def recv(self):
        return self.word

    def send(self, words):
        self.said.append(words)

    def close(self):
        pass


@pytest.fixture
def supervised(tmp_path):
    """A supervisor whose two workers serve one edition and have been told to load the next."""
    supervisor = Supervisor(Source(), None, None, 2)
    supervisor._folder, supervisor._is_ready = tmp_path, True
    tally = make_tally(tmp_path / "tally", 2)
    supervisor.posts = [Post(slot, Tally(tally, slot), line=Line()) for slot in range(2)]
    old, new = tmp_path / "edition-1", tmp_path / "edition-2"
    for folder in (old, new):
        folder.mkdir()
    for post in supervisor.posts:
        post.edition = old
    supervisor.edition, supervisor._before = new, old
    return supervisor


def hear(supervisor, slot, *words):
    supervisor.posts[slot].line.word = words
    supervisor._hear(supervisor.posts[slot])


@pytest.mark.parametrize("first", [0, 1])
def test_a_worker_that_cannot_load_what_another_serves_is_replaced(supervised, first):
    new = supervised.edition
    words = [("failed", new, "OSError"), ("loaded", new)]
    for place in (first, 1 - first):
        hear(supervised, place, *words[place])
    assert supervised.posts[0].line.said == [("stop",)]
    assert supervised.posts[1].line.said == []
    assert supervised.edition == new
    hear(supervised, 0, "loaded", new)  # the one that took its place
    assert [folder.name for folder in supervised._folder.glob("edition-*")] == ["edition-2"]


def test_a_model_that_no_worker_can_load_is_withdrawn(supervised, caplog):
    old, new = supervised._before, supervised.edition
    for slot in range(2):
        assert supervised.edition == new
        hear(supervised, slot, "failed", new, "MemoryError")
    assert supervised.edition == old
    assert [post.line.said for post in supervised.posts] == [[], []]  # they serve it still
    assert "the new model is not served, the old one stays: no worker could load it." in caplog.text
    assert "starcast_model_refusals_total 1" in supervised.posts[0].tally.text()
    assert [folder.name for folder in supervised._folder.glob("edition-*")] == ["edition-1"]


def test_an_edition_that_takes_too_long_is_given_up(supervised, monkeypatch, caplog):
    monkeypatch.setattr(supervisor_module, "PATIENCE", 0.1)
    monkeypatch.setattr(supervisor_module, "_make_edition", sleep_long)
    supervised._wanted, supervised.posts = True, supervised.posts[:1]
    supervised.posts[0].line = None
    waker, wakee = socket.socketpair()
    with waker, wakee:
        supervised._turn(waker)
        maker = supervised._maker[0]
        until(lambda: supervised._turn(waker) or supervised._maker is None, 60)
    assert not maker.is_alive()
    assert "preparing the model took longer than" in caplog.text
    assert "starcast_model_refusals_total 1" in supervised.posts[0].tally.text()


def sleep_long(source, folder, line):
    time.sleep(600)


def test_a_worker_that_is_killed_takes_only_its_own_requests_with_it(running):
    with Crowd(running) as crowd:
        for _ in range(2):
            until(lambda: len(running.workers()) == 2)
            victim, heard = running.workers()[0], len(crowd.heard)
            victim.kill()
            until(lambda heard=heard: len(crowd.heard) > heard + 60)
            until(
                lambda victim=victim: (
                    len(running.workers()) == 2 and victim.pid not in [w.pid for w in running.workers()]
                )
            )
    assert len(crowd.failed) <= 2 * 6  # at most what six clients had in flight, twice
    assert {status for status, _ in crowd.heard} == {200}
    assert "another takes its place" in running.log.read_text()


def test_a_worker_that_does_not_move_is_replaced(hasty):
    victim = hasty.workers()[0]  # one of the first, which accept before they say that they have a model
    victim.suspend()
    until(lambda: victim.pid not in [worker.pid for worker in hasty.workers()])
    assert "does not move any more" in hasty.log.read_text()
    until(lambda: len(hasty.workers()) == 2)
    until(lambda: ask(hasty)[0] == 200)


def test_logs_hold_nothing_of_what_was_asked(running, hasty):
    for process in (running, hasty):
        ask(process, path="/api/recommend?user=4711")
        ask(process, path="/api/ratings?user=anna")
        text = process.log.read_text()
        assert "4711" not in text
        assert "anna" not in text
        assert "Traceback" not in text


def test_what_was_begun_is_finished_before_the_end(folder, file):
    process = Process(file, "--workers", 1, "--timeout", 120, log=folder / "log-end")
    body = json.dumps({"pairs": PAIRS}).encode()
    head = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"

    def is_closed():
        try:
            with socket.create_connection(("127.0.0.1", process.port), timeout=5) as late:
                late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                return late.recv(10) == b""
        except OSError:
            return True

    with connected(process) as client:
        client.sendall(head % len(body) + b"Expect: 100-continue\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")  # it has begun
        client.sendall(body[:5])
        process.process.send_signal(signal.SIGTERM)
        until(is_closed)
        client.sendall(body[5:])
        status, answer = answer_of(client)
    assert status == 200
    assert [row["probs"] for row in answer["forecasts"]] == probs_of(sc.load(file))
    assert process.process.wait(300) == 0
    process.stop()


def test_workers_do_not_outlive_their_supervisor(folder, file):
    process = Process(file, "--workers", 2, log=folder / "log-orphans")
    workers = process.workers()
    copies = {Path(part.path).parents[1] for part in workers[0].memory_maps() if part.path.endswith("model.starcast")}
    assert [copy.is_dir() for copy in copies] == [True]
    process.stop(signal.SIGKILL)
    gone, alive = psutil.wait_procs(workers, timeout=300)
    assert len(gone) == 2
    assert alive == []
    assert [copy.exists() for copy in copies] == [False]


# Before it starts.


def complaint(*options):
    """What the command says of a mistake."""
    result = CliRunner().invoke(app, ["serve", *map(str, options)])
    assert result.exit_code != 0
    return str(result.exception)


def test_what_cannot_be_served_is_told_at_once(tmp_path):
    (tmp_path / "short").write_text("abc\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on port {port} of 127.0.0.1: Address already in use" in complaint("--port", port)
    assert "workers must be at least 1, got 0" in complaint("--workers", 0)
    assert "the limit pairs must be more than 0 and finite, got -1" in complaint("--max-pairs", "-1")
    assert "a token must be 16 or more" in complaint("--token-file", tmp_path / "short")
    assert "the token cannot be read from" in complaint("--token-file", tmp_path / "none")
    assert "cannot listen on port 8080 of no.such.host.invalid" in complaint("--host", "no.such.host.invalid")
    with pytest.raises(ParameterError, match="cannot listen on port 70000"):
        listen("127.0.0.1", 70_000)


def test_a_model_that_is_none_ends_the_command(tmp_path):
    assert "there is no model file" in complaint(tmp_path / "none", "--port", 0, "--workers", 1)
    (tmp_path / "bad").write_bytes(b"not a model")
    assert f"{tmp_path / 'bad'} is not a Starcast model" in complaint(tmp_path / "bad", "--port", 0, "--workers", 1)


def test_a_token_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("STARCAST_TOKEN", "kurz")
    assert "that of STARCAST_TOKEN is not" in complaint()


@pytest.mark.parametrize("library", ["fastapi", "httptools"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(library):
    code = f"import sys; sys.modules['{library}'] = None; sys.argv = ['starcast', 'serve']; import starcast.cli; starcast.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"the service needs {library}. Install it with: pip install 'starcast[serve]'" in done.stderr


# Editions.


def test_an_edition_is_a_checked_copy_with_a_card(tmp_path, file):
    test, _ = sc.make_ratings(40, 30, density=0.1, random_state=8)
    source = Source(file, lambda model: test, "films")
    served = open_edition(prepare(source, tmp_path / "one"), Limits())
    assert served.card["source"] == "held-out ratings"
    assert served.card["n"] == len(test)
    assert served.name == "films"
    assert served.parameters == sc.load(file).get_params()
    assert isinstance(served.model.user_draws_.base, object)
    inside = Path(f"/proc/{os.getpid()}/maps").read_text()
    assert str(tmp_path / "one" / "model.starcast") in inside  # mapped, not read


def test_an_edition_of_something_else_is_refused(tmp_path):
    (tmp_path / "bad").write_bytes(b"not a model")
    with pytest.raises(FileFormatError, match="is not a Starcast model"):
        prepare(Source(tmp_path / "bad"), tmp_path / "one")
    with pytest.raises(FileError, match="there is no model file"):
        prepare(Source(tmp_path / "none"), tmp_path / "two")
    with pytest.raises(FileError, match="cannot be copied"):
        prepare(Source(tmp_path), tmp_path / "three")


def test_without_a_model_the_sample_is_fitted(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "starcast.serve.edition.SAMPLE", {"random_state": 0, "n_draws": 0, "n_iters": 1, "n_factors": 2}
    )
    served = open_edition(prepare(Source(), tmp_path / "one"), Limits())
    assert served.name == "MovieLens sample"
    assert served.card["source"] == "held-out ratings"
    assert served.catalogue.find_items("toy story", 1)[0][0]["year"] == 1995
