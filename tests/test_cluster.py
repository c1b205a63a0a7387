"""The way to Ray, as far as it needs no cluster."""

import sys

import pytest

import starcast as sc
from starcast.distributed.cluster import connect
from starcast.distributed.tasks import workers_of


def test_a_missing_ray_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        sc.MissingExtraError, match=r"cutting ratings needs Ray\. Install it with: pip install 'starcast\[ray\]'"
    ):
        connect(2, "cutting ratings")


@pytest.mark.parametrize("workers", [0, True, 1.5, "2"])
def test_the_number_of_workers_is_checked(workers):
    pytest.importorskip("ray")
    with pytest.raises(sc.ParameterError, match=r"workers must be a whole number of at least 1, got"):
        connect(workers)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "127.0.0.1:99999999"])
def test_nobody_at_an_address_is_told_at_once(monkeypatch, address):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(
        sc.ClusterError, match=r"nobody answers at RAY_ADDRESS=.*Start a cluster there with: ray start --head"
    ):
        connect(1)


def test_an_engine_tells_how_many_workers_it_has():
    class Three:
        workers = 3

    assert workers_of(Three(), None) == 3
    assert workers_of("ray", 4) == 4
    assert workers_of("ray", None) == 2
    assert workers_of(None, None) is None
