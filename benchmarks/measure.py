"""What the benchmarks share: timing side by side, and a file that says how a figure came about."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def data_folder() -> Path:
    """Return the folder of real ratings, or stop with a word."""
    folder = Path(os.environ.get("STARCAST_DATA", ""))
    if not os.environ.get("STARCAST_DATA") or not folder.is_dir():
        sys.exit("set STARCAST_DATA to the folder of the data sets (ml-1m, ml-100k, filmtrust)")
    return folder


def race(runners: dict[str, Callable[[], Any]], repeats: int = 9) -> dict[str, float]:
    """Return the least seconds of each runner; they take turns, so that a noisy moment hits all of them."""
    best = dict.fromkeys(runners, float("inf"))
    for _ in range(repeats):
        for name, run in runners.items():
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def write(name: str, figures: dict[str, Any]) -> None:
    """Print the figures and keep them in results/, with what they hang on."""
    facts = {
        "command": f"python benchmarks/{Path(sys.argv[0]).name}",
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(facts | figures, indent=2) + "\n")
    for key, value in figures.items():
        print(f"{key:40} {value:.3f}" if isinstance(value, float) else f"{key:40} {value}")
