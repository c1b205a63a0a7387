"""The way to Ray: a cluster that is there is joined, else one is started on this machine."""

import importlib
import os
import socket
from typing import Any

from starcast.errors import ClusterError, MissingExtraError, ParameterError

RAYLET_SOCKETS: dict[
    str, socket.socket
] = {}  # an open connection to the raylet of this machine, by the name of its socket
STARTED_HERE: list[str] = []  # the address of the cluster that this process has started itself


def connect(workers: int | None = None, purpose: str = "working on Ray") -> Any:
    """Return the module ``ray``, connected.

    A connection that this process has is kept. Otherwise the cluster that the environment variable ``RAY_ADDRESS``
    names is joined; where it names none, Ray starts on this machine, with a place for each of the `workers`, however
    few cores there are, and ends with this process.

    Parameters
    ----------
    workers : int, optional
        How many are wanted at work at a time; checked against the places that the cluster has.
    purpose : str
        What Ray is wanted for, as the error says it where Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell others about it
    os.environ.setdefault("RAY_task_oom_retries", "3")  # else a task that takes too much memory is begun for ever
    # Ray changes its handling of this in a later release and warns of it in every process until it is set.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise MissingExtraError(purpose, "Ray", "ray") from None
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ParameterError(f"workers must be a whole number of at least 1, got {workers!r}.")
    if not ray.is_initialized():
        _start(ray, workers)
    places = ray.cluster_resources().get("CPU", 0)
    if workers is not None and places < workers and _address(ray) in STARTED_HERE:
        ray.shutdown()
        _start(ray, workers)
        places = ray.cluster_resources().get("CPU", 0)
    if workers is not None and places < workers:
        raise ClusterError(
            f"{workers} workers need as many CPUs, the Ray cluster has {places:g}. Ask for fewer workers, or start "
            "more nodes: ray start --address=…"
        )
    _connect_to_raylet(ray)
    return ray


def check_raylet() -> None:
    """Raise an error if the raylet of this machine, Ray's own process on it, has ended.

    Ray ends the whole driver, without an exception, at the next use of the object store after that. So this is asked
    before each use. It costs a system call: the kernel closes our connection as soon as the raylet is gone.
    """
    for name, line in list(RAYLET_SOCKETS.items()):
        try:
            is_gone = line.recv(1) == b""
        except BlockingIOError:
            is_gone = False
        except OSError:
            is_gone = True
        if is_gone:
            raise ClusterError(
                f"the raylet of this machine ({name}) has ended: it was killed, or ran out of memory. Start Ray again "
                "and call this once more from a new process. What is in a checkpoint, a journal or a folder of lists "
                "is kept."
            )


def _connect_to_raylet(ray: Any) -> None:
    """Connect to the raylet of this machine, to notice its end; not where Ray tells no socket, as on Windows."""
    here = ray.get_runtime_context().get_node_id()
    names = [node.get("RayletSocketName", "") for node in ray.nodes() if node.get("NodeID") == here]
    for name in list(RAYLET_SOCKETS):
        if name not in names:
            RAYLET_SOCKETS.pop(name).close()
    for name in names:
        if name and name not in RAYLET_SOCKETS and hasattr(socket, "AF_UNIX"):
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(name)
            except OSError:  # a raylet that cannot be asked is not watched
                line.close()
                continue
            line.setblocking(False)
            RAYLET_SOCKETS[name] = line


def _start(ray: Any, workers: int | None) -> None:
    address = os.environ.get("RAY_ADDRESS", "local")
    if address in ("", "local"):
        address = ""
    elif address != "auto":
        _knock(address)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    local: dict[str, Any] = {} if address else {"num_cpus": max(cores, workers or 1), "include_dashboard": False}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **local)
        STARTED_HERE[:] = [] if address else [_address(ray)]
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        why = str(error).strip("'").splitlines()[0].rstrip(".") if str(error) else repr(error)
        raise ClusterError(
            f"the Ray cluster at RAY_ADDRESS={address} cannot be joined: {why}. If it asks for a token, as Ray does "
            "from 2.60 on, set RAY_AUTH_MODE=token here, too, and have its token in ~/.ray/auth_token."
            if address else f"Ray cannot be started: {why}."
        ) from None  # fmt: skip


def _address(ray: Any) -> str:
    """Return where the cluster is found that this process is connected to; another may have ended ours since."""
    return str(ray.get_runtime_context().gcs_address)


def _knock(address: str) -> None:
    """Raise an error if nobody listens at an address: Ray itself would wait there for a quarter of an hour."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ClusterError(
            f"nobody answers at RAY_ADDRESS={address} ({error}). Start a cluster there with: ray start --head"
        ) from None
