"""exp and digamma against what Java 17 and Apache Commons Math 3.6.1 print, in java_points.txt."""

from pathlib import Path

import pytest

from starcast.kernels import strict

POINTS = [line.split() for line in Path(__file__).with_name("java_points.txt").read_text().splitlines()]


@pytest.mark.parametrize(("function", "name"), [(strict.java_exp, "exp"), (strict.digamma, "digamma")])
def test_every_bit_is_javas(function, name):
    points = [
        (float.fromhex(x.replace("Infinity", "inf")), float.fromhex(y.replace("Infinity", "inf")))
        for kind, x, y in POINTS
        if kind == name
    ]
    assert len(points) > 100
    assert [function(x) for x, _ in points] == [y for _, y in points]
