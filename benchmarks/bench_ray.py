"""Fits on Ray: as on one machine, in as many bytes as the guide says, in how much time and memory.

python benchmarks/bench_ray.py [agree] [overhead] [memory]

agree: MovieLens 1M on 2, 3 and 4 workers, each a machine of its own to Ray: the largest difference of a probability
from one machine, the log-loss of both, the bytes of a round beside the formula's. overhead: rounds on 10 million
ratings by 2 workers, in turns with 2 threads of one process. memory: 50 million ratings from Parquet parts, the peaks
of all processes. The last two take the ratings of many_ratings.py; STARCAST_MANY may name a folder that has 50 million.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measure
import numpy as np
from bench_shards import Watch
from many_ratings import write_parts

import starcast as sc
from starcast.distributed.cluster import connect
from starcast.distributed.cost import round_cost

MODELS = {
    "ResBeMF": sc.ResBeMF(random_state=0),
    "OrdinalMF, climb": sc.OrdinalMF(n_draws=0, random_state=0),
    "OrdinalMF, draws": sc.OrdinalMF(burn_in=10, n_draws=16, thin=2, random_state=0),
    "BeMF": sc.BeMF(learning_rate=0.003, random_state=0),  # with 0.01 one machine swings as much from a start 1e-7 off
    "BiasedMF": sc.BiasedMF(update="exact", n_iters=20, random_state=0),
}
WORKERS = measure.pick((2, 3, 4), (2,))
N_ROUNDS, N_TURNS = measure.pick(6, 3), measure.pick(3, 1)
N_RATINGS = measure.pick(10_000_000, 500_000)
N_MANY = measure.pick(50_000_000, 1_000_000)


def agree() -> dict[str, Any]:
    """Every model on machines of their own beside one machine."""
    import ray
    from ray.cluster_utils import Cluster

    train, test = sc.benchmark_split(sc.load_movielens(measure.pick("1m", "100k")))
    size = {"users": len(train.users), "items": len(train.items), "ratings": len(train), "scores": len(train.scores)}
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 10**9, "include_dashboard": False}
    )
    for _ in range(max(WORKERS) - 1):
        nodes.add_node(num_cpus=1, object_store_memory=10**9)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    found: dict[str, Any] = {}
    for name, model in MODELS.items():
        alone, nll = answers(model.clone().fit(train), test)
        found[name] = {"nll": nll}
        for workers in WORKERS:
            engine = sc.RayEngine(workers=workers)
            together, nll = answers(model.clone().fit(train, engine=engine), test)
            cost = round_cost(model, workers=workers, **size)
            found[name][f"{workers} workers"] = {
                "largest difference": measure.digits(float(np.abs(together - alone).max())),
                "mean difference": measure.digits(float(np.abs(together - alone).mean())),
                "nll": nll,
                "sent": np.median(engine.report_.sent),
                "sent by formula": cost.sent,
                "received": np.median(engine.report_.received),
                "received by formula": cost.received,
                "seconds of a round": measure.digits(float(np.median(engine.report_.seconds))),
            }
            print(name, workers, found[name][f"{workers} workers"], flush=True)
    ray.shutdown()
    nodes.shutdown()
    return found | {"size": size}


def answers(model: Any, test: sc.Ratings) -> tuple[Any, float]:
    """Return a model's probabilities of the test ratings and its log-loss."""
    given = model.predict_proba(test.users[test.user], test.items[test.item])
    return given.probs, round(float(sc.metrics.nll(test.values, given)), 6)


def overhead() -> dict[str, Any]:
    """Rounds by two workers of a thread each, and by two threads."""
    with tempfile.TemporaryDirectory() as folder:
        write_parts(Path(folder), N_RATINGS, n_users=N_RATINGS // 125, n_items=10_000, n_parts=10)
        shards = sc.cut_ratings(folder, Path(folder) / "cut")
        user = np.repeat(np.arange(len(shards.users), dtype=np.int32), shards.user_counts)
        shard = shards.load(0)
        ratings = sc.Ratings(
            shards.users, shards.items, shards.scores, user, np.array(shard.item), np.array(shard.score)
        )
    ray = connect(2)
    engine, report = sc.RayEngine(workers=2, threads_per_worker=1, every=N_ROUNDS + 1), []

    def together() -> float:
        sc.ResBeMF(n_iters=N_ROUNDS, tolerance=0, random_state=0).fit(ratings, engine=engine)
        report.append(engine.report_)
        return float(np.median(engine.report_.seconds[1:]))

    seconds = measure.take_turns({"one process": lambda: alone(ratings), "two workers": together}, N_TURNS)
    ray.shutdown()
    size = {"users": len(ratings.users), "items": len(ratings.items), "ratings": len(ratings)}
    cost = round_cost(sc.ResBeMF(), workers=2, **size)
    return {
        "size": size,
        "seconds of a round": {who: measure.spread(found) for who, found in seconds.items()},
        "ratio": measure.ratio(seconds["two workers"], seconds["one process"]),
        "sent": report[-1].sent[-1], "sent by formula": cost.sent,
        "received": report[-1].received[-1], "received by formula": cost.received,
    }  # fmt: skip


def alone(ratings: sc.Ratings) -> float:
    """Return the median of the seconds between rounds, the first one not counted, of a fit by two threads."""
    marks: list[float] = []

    class Timed(sc.ResBeMF):
        def _watch(self, advance: Any) -> Any:
            return super()._watch(lambda done: marks.append(time.perf_counter()))

    Timed(n_iters=N_ROUNDS, tolerance=0, random_state=0, n_jobs=2).fit(ratings)
    return float(np.median(np.diff(marks)))


def memory() -> dict[str, Any]:
    """Parts to shards to a fit by two workers; each step in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        many = Path(os.environ.get("STARCAST_MANY") or folder)
        if not list(many.glob("*.parquet")):
            write_parts(many, N_MANY)
        return {step: ask(step, many, Path(folder) / "cut") for step in ("cut", "fit")}


def ask(step: str, many: Path, place: Path) -> dict[str, Any]:
    """Run a step in a process of its own."""
    run = subprocess.run(
        [sys.executable, __file__, "--one", step, str(many), str(place)], capture_output=True, text=True
    )
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def run_one(step: str, many: Path, place: Path) -> None:
    """Run a step in this process and print what it took."""
    found: dict[str, Any] = {}
    if step == "fit":
        connect(2)
    with Watch() as watch:
        began = time.perf_counter()
        if step == "cut":
            shards = sc.cut_ratings(many, place, memory="1GB")
            found = {"ratings": shards.n_ratings, "users": len(shards.users), "items": len(shards.items)}
        else:
            engine = sc.RayEngine(workers=2, threads_per_worker=1, every=2)
            model = sc.ResBeMF(n_iters=3, tolerance=0, random_state=0).fit(sc.Shards.open(place), engine=engine)
            found = {
                "rounds": len(model.history_),
                "seconds of rounds": [measure.digits(s) for s in engine.report_.seconds],
            }
        found["seconds"] = measure.digits(time.perf_counter() - began)
    found |= {"driver MB": round(watch.here), "largest other MB": round(watch.others)}
    print(json.dumps(found | {"commit": measure.facts()["commit"]}))


PARTS = {"agree": agree, "overhead": overhead, "memory": memory}


def main(parts: list[str]) -> None:
    """Measure the parts and keep the figures of those that were not."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    file = measure.RESULTS / "ray.json"
    figures = json.loads(file.read_text()) if file.exists() else {}
    figures = {name: {"commit": figures["commit"]} | figures[name] for name in PARTS if name in figures}
    for part in parts or PARTS:
        figures[part] = {"commit": measure.commit()} | PARTS[part]()
        measure.write("ray", figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main(sys.argv[1:])
