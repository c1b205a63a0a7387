"""The way to Ray, as far as it needs no cluster."""

import sys
import types
import warnings

import pytest

import starcast as sc
from starcast.distributed import cluster
from starcast.distributed.cluster import connect
from starcast.distributed.tasks import tell_if_busy, workers_of


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


@pytest.mark.parametrize(
    ("address", "what"),
    [
        (
            "127.0.0.1:9",
            r"RAY_ADDRESS=127\.0\.0\.1:9 cannot be joined: no way\. If it asks for a token, .*RAY_AUTH_MODE=token",
        ),
        ("local", r"^Ray cannot be started: no way\.$"),
    ],
)
def test_a_cluster_that_cannot_be_joined_is_told_with_what_may_be_missing(monkeypatch, address, what):
    ray = pytest.importorskip("ray")

    def refuse(**_):
        raise ConnectionError("'no way.'")  # in quotes, as Ray says it

    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(cluster, "_knock", lambda address: None)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(sc.ClusterError, match=what):
        connect(1)


def test_a_cluster_without_a_free_cpu_is_told_unless_one_soon_is():
    class Busy:
        def __init__(self, *free):
            self.free = list(free)

        def available_resources(self):
            return {"CPU": self.free.pop(0)} if len(self.free) > 1 else {"CPU": self.free[0]} if self.free else {}

    for cluster_ in (Busy(), Busy(0.5)):
        with pytest.warns(sc.ClusterWarning, match=r"no CPU of the Ray cluster is free; the work begins when"):
            tell_if_busy(cluster_, patience=0.15)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell_if_busy(Busy(2), patience=0)
        tell_if_busy(Busy(0, 0, 1), patience=30)


def test_a_cluster_that_others_started_is_not_ended_to_make_it_larger(monkeypatch):
    told = types.SimpleNamespace(gcs_address="theirs:1")
    ray = types.SimpleNamespace(
        is_initialized=lambda: True, cluster_resources=lambda: {"CPU": 4.0}, get_runtime_context=lambda: told,
        shutdown=lambda: pytest.fail("it was ended"),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(cluster, "STARTED_HERE", ["ours:1"])  # which has been shut down since
    with pytest.raises(sc.ClusterError, match="5 workers need as many CPUs, the Ray cluster has 4"):
        connect(5)
