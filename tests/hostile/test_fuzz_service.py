"""Thousands of requests that nobody should send; benchmarks/fuzz_service.py sends a hundred thousand."""

import random

import pytest
from hostile_requests import complaint_about, make_request, send
from service import Process, tiny


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    tiny().save(folder / "model.starcast")
    process = Process(folder / "model.starcast", "--workers", 1, log=folder / "log")
    yield process
    process.stop()


def test_hostile_requests_get_a_helpful_refusal_and_never_a_mishap(process):
    rng, seen, pid = random.Random(0), set(), process.workers()[0].pid
    for _ in range(2500):
        request = make_request(rng)
        status, body = send(process.port, request)
        assert complaint_about(request, status, body) is None, request[:500]
        seen.add(status)
    assert {200, 400, 404, 405, 413, 415, 421, 422} <= seen  # the refusals are of many kinds
    assert process.workers()[0].pid == pid
    assert "Traceback" not in process.log.read_text()
