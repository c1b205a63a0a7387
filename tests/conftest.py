"""What the tests share: real data where there are some, and planted data where there need be none."""

import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import starcast as sc

os.environ.setdefault("TRITON_INTERPRET", "1")  # 0 runs the kernels on the GPU that is there
# A busy machine is no failure. With STARCAST_CI every run has the same examples, elsewhere each looks for others.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="STARCAST_CI" in os.environ
)
settings.load_profile("patient")
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
beside = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
os.environ["no_proxy"] = os.environ["NO_PROXY"] = f"{beside},127.0.0.1,localhost"  # which no proxy can reach
# Ray gives up workers that take long to start, ends some where other programs have filled the memory, and stores
# nothing more where they have filled the disk.
os.environ.update({"RAY_worker_register_timeout_seconds": "600", "RAY_memory_monitor_refresh_ms": "0"})
os.environ.update({"RAY_local_fs_capacity_threshold": "1"})
if len(tempfile.gettempdir()) > 30:  # the names of its sockets, 70 letters longer, would be too long
    os.environ.setdefault("RAY_TMPDIR", "/tmp")


# Tests that start clusters, and tests that start services, run one after the other: together they would want more
# memory and processes than a small machine has. Others go to whichever worker is free.
CLUSTERS = {"test_cluster", "test_distributed", "test_ray_data", "test_ray"}
SERVICES = {"test_serve_processes", "test_serve_schema", "test_fuzz_service", "test_service"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem in CLUSTERS or "scale.md" in item.name:
            item.add_marker(pytest.mark.xdist_group("clusters"))
        elif item.path.stem in SERVICES or "browser" in item.path.parts or "service.md" in item.name:
            item.add_marker(pytest.mark.xdist_group("services"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real ratings. Without it these tests are skipped, but with STARCAST_CI that is a failure."""
    folder = os.environ.get("STARCAST_DATA")
    if folder and Path(folder).is_dir():
        return Path(folder)
    if os.environ.get("STARCAST_CI"):
        pytest.fail("STARCAST_DATA must name the folder of real ratings, for STARCAST_CI is set")
    pytest.skip("STARCAST_DATA is not set")


@pytest.fixture
def ratings() -> sc.Ratings:
    """Six ratings by three users of four items."""
    return sc.Ratings.from_arrays(
        ["ann", "ann", "bob", "bob", "cat", "cat"],
        ["x", "y", "x", "z", "y", "w"],
        [5, 3, 4, 1, 2, 5],
        scores=[1, 2, 3, 4, 5],
    )


@pytest.fixture(scope="session")
def published_folder() -> Path:
    """The folder of the paper's published results. Without it these tests are skipped, but with STARCAST_CI that is a failure."""
    folder = os.environ.get("STARCAST_PUBLISHED")
    if folder and Path(folder).is_dir():
        return Path(folder)
    if os.environ.get("STARCAST_CI"):
        pytest.fail("STARCAST_PUBLISHED must name the folder of the published results, for STARCAST_CI is set")
    pytest.skip("STARCAST_PUBLISHED is not set")


@pytest.fixture
def ctrl_c():
    """Call what would never end, and press Ctrl-C while it runs: nowhere else, for it would end all tests."""

    def call(endless, *args, **params):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        try:
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                endless(*args, **params)
        finally:
            timer.cancel()

    return call
