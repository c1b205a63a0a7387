"""What the benchmarks share: turns on the clock, ratios and their spread, peaks of memory, files that say how."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
QUICK = os.environ.get("STARCAST_BENCH_QUICK", "") not in ("", "0")
RESULTS = Path(os.environ.get("STARCAST_BENCH_RESULTS") or (HERE.parent / "build/bench" if QUICK else HERE / "results"))
N_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
BEGAN = time.perf_counter()
T = TypeVar("T")


def data_folder() -> Path:
    """Return the folder of real ratings, or stop with a word."""
    folder = Path(os.environ.get("STARCAST_DATA", ""))
    if not os.environ.get("STARCAST_DATA") or not folder.is_dir():
        sys.exit("set STARCAST_DATA to the folder of the data sets (ml-1m, ml-100k, filmtrust)")
    return folder


def pick(full: T, quick: T) -> T:
    """Return one or the other, as the run is a full or a quick one."""
    return quick if QUICK else full


def clock(run: Callable[[], Any]) -> float:
    """Return the seconds of one call."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def take_turns(runners: Mapping[Any, Callable[[], float | None]], n_turns: int) -> dict[Any, list[float]]:
    """Return the seconds of every runner in every turn; each is called once a turn, so a noisy moment hits them all.

    A runner is timed here, unless it returns seconds itself (as those do whose work is done in another process).
    """
    seconds: dict[Any, list[float]] = {name: [] for name in runners}
    for _ in range(n_turns):
        for name, run in runners.items():
            begin = time.perf_counter()
            told = run()
            seconds[name].append(time.perf_counter() - begin if told is None else told)
    return seconds


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return median, least and most.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'min': 1.0, 'max': 3.0}
    """
    found = sorted(values)
    return {"median": digits(statistics.median(found)), "min": digits(found[0]), "max": digits(found[-1])}


def ratio(slow: Iterable[float], fast: Iterable[float]) -> dict[str, float]:
    """Return the spread of the ratios turn by turn.

    >>> ratio([2.0, 6.0, 4.0], [1.0, 2.0, 2.0])
    {'median': 2.0, 'min': 2.0, 'max': 3.0}
    """
    return spread(a / b for a, b in zip(slow, fast, strict=True))


def digits(value: float, n: int = 4) -> float:
    """Return the value with `n` digits that count.

    >>> digits(0.00123456), digits(123456.0)
    (0.001235, 123500.0)
    """
    return float(f"{value:.{n}g}")


class Peak:
    """Measures by how many megabytes the process grows at most: ``with Peak() as peak: …``, then ``peak.megabytes``."""

    megabytes = float("nan")

    def __enter__(self) -> "Peak":
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.megabytes = digits((_status("VmHWM") - self._before) / 1e3)


def _status(key: str) -> int:
    return int(Path("/proc/self/status").read_text().split(f"{key}:")[1].split()[0])  # kilobytes


def write(name: str, figures: dict[str, Any]) -> None:
    """Keep the figures in the folder of results, with what they hang on, and print them."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(facts() | figures, indent=2) + "\n")
    for key, value in figures.items():
        if not isinstance(value, dict | list) or len(str(value)) < 100:
            print(f"{key:40} {value:.3f}" if isinstance(value, float) else f"{key:40} {value}")
    print(f"{RESULTS / name}.json", flush=True)


def facts() -> dict[str, Any]:
    """Return what figures hang on."""
    known = {
        "command": f"python benchmarks/{Path(sys.argv[0]).name}",
        "commit": commit(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "cores": N_THREADS,
        "processor": processor(),
        "seconds": round(time.perf_counter() - BEGAN),
    }
    return known | {"quick": True} if QUICK else known


def commit() -> str:
    """Return the commit that is measured, with a plus if the code was changed since."""
    name = _git("rev-parse", "--short", "HEAD")
    return f"{name}+" if _git("status", "--porcelain", "--", "../src", "../native") else name


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, cwd=HERE).stdout.strip()


def processor() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        if names:
            return names[0]
    return platform.processor() or platform.machine()
