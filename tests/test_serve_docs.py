"""The examples of docs/service.md get the answers that it shows."""

import json
import re
import shlex
from pathlib import Path

import pytest
from service import Service, tiny

import starcast as sc

TEXT = (Path(__file__).parents[1] / "docs" / "service.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sh\n(curl .*?)\n```\n+```json\n(.*?)```", TEXT, re.DOTALL)
FREE = {"parameters"}  # whatever the model has


def shape(value):
    """What an answer looks like, whatever the numbers: keys, and the first of a list."""
    if isinstance(value, dict):
        return {key: None if key in FREE else shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(value[0])]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def asked(service, command):
    words = shlex.split(command)
    assert words[0] == "curl"
    path = words[-1].removeprefix("localhost:8080")
    body = words[words.index("--json") + 1] if "--json" in words else None
    if body is None:
        return service.ask("GET", path)
    return service.post(path, content=body.encode(), headers={"content-type": "application/json"})


@pytest.mark.parametrize(("command", "answer"), EXAMPLES, ids=[command.rpartition("/")[2] for command, _ in EXAMPLES])
def test_an_example_gets_an_answer_of_the_shape_that_is_shown(command, answer):
    test, _ = sc.make_ratings(40, 30, density=0.1, random_state=8)
    got = asked(Service(tiny(), test=test), command).json()
    assert shape(got) == shape(json.loads(answer))


def test_all_doors_have_an_example():
    shown = {re.search(r"/api/[a-z-]+", command)[0] for command, _ in EXAMPLES}
    assert shown == {f"/api/{name}" for name in ("predict", "recommend", "fold-in", "explain", "items", "users", "ratings", "model")}  # fmt: skip


def test_the_limits_are_those_of_the_service():
    from starcast.serve.limits import Limits

    limits = Limits()
    for number in (limits.pairs, limits.n, limits.ratings, limits.body_bytes, limits.concurrent, limits.connections, limits.seconds):  # fmt: skip
        assert f"| {number:,g} |" in TEXT or f"| {number:,} |" in TEXT
