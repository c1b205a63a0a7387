"""A hundred thousand requests that nobody should send, to ``starcast serve``: none may get a 5xx, none may hang.

A smaller number of the same kind is sent by tests/hostile/test_fuzz_service.py.
"""

import argparse
import collections
import concurrent.futures
import random
import sys
import tempfile
import time
from pathlib import Path

from measure import write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hostile_requests import complaint_about, make_request, send
from service import Process, tiny


def attack(port: int, seed: int, n: int) -> tuple[collections.Counter[int | None], list[str], float]:
    """Send `n` requests; return the statuses, what was wrong, and the longest wait."""
    rng, statuses, wrong, longest = random.Random(seed), collections.Counter[int | None](), [], 0.0
    for _ in range(n):
        request, began = make_request(rng), time.perf_counter()
        try:
            status, body = send(port, request)
            found = complaint_about(request, status, body)
        except TimeoutError:
            status, found = None, "it hung"
        longest = max(longest, time.perf_counter() - began)
        statuses[status] += 1
        if found:
            wrong.append(f"seed {seed}: {found} <- {request[:300]!r}")
    return statuses, wrong, longest


def main() -> None:
    """Start the service, attack it, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tiny().save(Path(folder, "model.starcast"))
        process = Process(Path(folder, "model.starcast"), "--workers", 2, log=Path(folder, "log"))
        workers = {worker.pid for worker in process.workers()}
        try:
            with concurrent.futures.ProcessPoolExecutor(args.clients) as pool:
                share = args.requests // args.clients
                parts = list(
                    pool.map(attack, [process.port] * args.clients, range(args.clients), [share] * args.clients)
                )
            alive = {worker.pid for worker in process.workers()}
        finally:
            process.stop()
        log = Path(folder, "log").read_text()
    statuses = sum((part[0] for part in parts), collections.Counter[int | None]())
    wrong = [line for part in parts for line in part[1]]
    figures = {
        "requests": statuses.total(),
        "statuses": {str(status): count for status, count in sorted(statuses.items(), key=lambda row: -row[1])},
        "5xx, hangs, refusals without a message": len(wrong),
        "workers that died": len(workers - alive),
        "longest wait, seconds": max(part[2] for part in parts),
        "lines in the log": len(log.splitlines()),
    }
    write("service_fuzz", figures)
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong or workers - alive))


if __name__ == "__main__":
    main()
