"""What comes before the first answer: importing, and whether the first call of anything is slower than the second.

    python benchmarks/bench_start.py

Fresh processes take turns: one imports NumPy alone, one starcast, one each other library. Nothing is compiled when it
is first used, so that a first call costs what a second one does, but for pages that the system has yet to hand out.
Polars, which tables come in and which is imported when the first is made, is told as an import of its own.
"""

import json
import os
import statistics
import subprocess
import sys
from typing import Any

import measure
from peers import PYTHON

TURNS = measure.pick(15, 2)
IMPORTS = {"numpy": "numpy", "starcast": "starcast", "polars": "polars"}
PEERS = {"surprise": "surprise", "lenskit": "lenskit.als, lenskit.batch", "implicit": "implicit.als", "myfm": "myfm"}
TIMED = "import time; b = time.perf_counter(); import {}; print(time.perf_counter() - b)"
FIRST = """
import json, time
import polars
import starcast as sc
from starcast.planted import make_ratings
ratings, _ = make_ratings(random_state=0)
def clock(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
model = sc.ResBeMF(random_state=0, n_iters=5, tolerance=0)
pairs = ratings.users[ratings.user], ratings.items[ratings.item]
calls = {
    "fit": lambda: model.fit(ratings),
    "predict_proba": lambda: model.predict_proba(*pairs),
    "recommend": lambda: model.recommend(n=10),
}
print(json.dumps({name: [clock(call) for _ in range(7)] for name, call in calls.items()}))
"""


def seconds(python: str, program: str) -> Any:
    """Return what a program says in a fresh process."""
    # With the byte code that an installed package has, whatever this shell says of writing it.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    told = subprocess.run([python, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True, env=kept)
    return json.loads(told.stdout.splitlines()[-1])


def main() -> None:
    ours = {name: (sys.executable, what) for name, what in IMPORTS.items()}
    theirs = {name: (str(PYTHON), what) for name, what in PEERS.items()}
    jobs = {
        name: lambda python=python, what=what: float(seconds(python, TIMED.format(what)))
        for name, (python, what) in (ours | theirs).items()
    }
    took = measure.take_turns(jobs, TURNS + 1)
    found = {
        name: [1e3 * s for s in times[1:]] for name, times in took.items()
    }  # the first turn fills the disk's cache
    more = [a - b for a, b in zip(found["starcast"], found["numpy"], strict=True)]
    first: dict[str, Any] = {}
    for name, times in seconds(sys.executable, FIRST).items():
        first[name] = {
            "first_ms": measure.digits(1e3 * times[0]),
            "later_ms": measure.digits(1e3 * statistics.median(times[1:])),
        }
    figures = {"turns": TURNS, "import_ms": {name: measure.spread(times) for name, times in found.items()}}
    measure.write("start", figures | {"more_than_numpy_ms": measure.spread(more), "calls": first})


if __name__ == "__main__":
    main()
