"""What the tests share: real data where there are some, and planted data where there need be none."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import starcast as sc

os.environ.setdefault("TRITON_INTERPRET", "1")  # 0 runs the kernels on the GPU that is there
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")  # a busy machine is no failure
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it


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
