"""How much ``starcast serve`` answers: requests a second, waiting times, and a long run at half that load.

The service serves the default OrdinalMF of MovieLens 1M with one worker a core. The load comes from a second process on
the same cores: this program, with clients of its own on asyncio that write and read bytes, and ``wrk`` for comparison
where it is installed. Waiting times at a given rate are counted from when a request was due, not from when it was sent,
so that a service that stops for a while cannot hide it.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from measure import data_folder, write

import starcast as sc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CONNECTIONS = 16
BARS = {"predict": 1000, "recommend": 200}
WRK = """
local users, items = {%s}, {%s}
request = function()
  local t = {}
  for k = 1, 10 do
    t[k] = '{"user":' .. users[math.random(#users)] .. ',"item":' .. items[math.random(#items)] .. '}'
  end
  local body = '{"pairs":[' .. table.concat(t, ",") .. ']}'
  return wrk.format("POST", "/api/predict", {["Content-Type"] = "application/json"}, body)
end
"""


def predictions(model: sc.Model, seed: int) -> Iterator[bytes]:
    """Requests for ten pairs each."""
    rng = np.random.default_rng(seed)
    while True:
        users, items = (rng.choice(names, (500, 10)).tolist() for names in (model.users_, model.items_))
        for us, its in zip(users, items, strict=True):
            pairs = ",".join(f'{{"user":{u},"item":{i}}}' for u, i in zip(us, its, strict=True))
            body = f'{{"pairs":[{pairs}]}}'
            yield (
                "POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode()


def recommendations(model: sc.Model, seed: int) -> Iterator[bytes]:
    """Requests for a user's list of ten."""
    rng = np.random.default_rng(seed)
    while True:
        yield f"GET /api/recommend?user={rng.choice(model.users_)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


REQUESTS: dict[str, Callable[[sc.Model, int], Iterator[bytes]]] = {"predict": predictions, "recommend": recommendations}


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Send a request, read the whole answer, return the status."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    at = head.index(b"content-length: ") + 16
    await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
    return int(head[9:12])


async def client(
    port: int, requests: Iterator[bytes], dues: Iterator[float] | None, until: float, seen: dict[str, Any]
) -> None:
    """Ask until the time is over: at once again, or when a request is due."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        due = time.perf_counter() if dues is None else next(dues)
        if due >= until:
            break
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        try:
            status = await ask(reader, writer, next(requests))
        except (OSError, asyncio.IncompleteReadError) as error:
            seen["errors"].append(repr(error))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        if status != 200:
            seen["errors"].append(str(status))
        seen["waits"].append(time.perf_counter() - due)
    writer.close()


def due_times(rate: float, begin: float) -> Iterator[float]:
    """When requests are due, evenly; shared by the clients of a kind, each takes the next."""
    n = 0
    while True:
        yield begin + n / rate
        n += 1


async def load(file: str, port: int, wanted: dict[str, float], seconds: float, connections: int) -> dict[str, Any]:
    """Put the load on the service: for each kind a rate, or 0 for as much as it takes."""
    model = sc.load(file)
    begin = time.perf_counter() + 0.1
    seen: dict[str, Any] = {kind: {"errors": [], "waits": []} for kind in wanted}
    clients = []
    for kind, rate in wanted.items():
        dues = due_times(rate, begin) if rate else None
        for seed in range(connections):
            clients.append(client(port, REQUESTS[kind](model, seed), dues, begin + seconds, seen[kind]))
    await asyncio.gather(*clients)
    took = time.perf_counter() - begin
    return {
        kind: {
            "rate": len(part["waits"]) / took,
            "p50_ms": float(np.percentile(part["waits"], 50)) * 1000,
            "p99_ms": float(np.percentile(part["waits"], 99)) * 1000,
            "longest_ms": max(part["waits"]) * 1000,
            "errors": len(part["errors"]),
        }
        for kind, part in seen.items()
    }


def put_load(
    file: Path, port: int, wanted: dict[str, float], seconds: float, connections: int = CONNECTIONS
) -> dict[str, Any]:
    """The same from a process of its own."""
    asked = json.dumps([str(file), port, wanted, seconds, connections])
    done = subprocess.run([sys.executable, __file__, "--load", asked], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def wrk(file: Path, port: int, seconds: float) -> dict[str, Any]:
    """Predictions by wrk, if it is there."""
    if shutil.which("wrk") is None:
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        model = sc.load(file)
        script.write(WRK % (",".join(map(str, model.users_)), ",".join(map(str, model.items_))))
        script.flush()
        command = [
            "wrk",
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{seconds:.0f}s",
            "--latency",
            "-s",
            script.name,
            f"http://127.0.0.1:{port}",
        ]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = {line.split()[0]: line.split()[1] for line in text.splitlines() if line.strip()}
    return {
        "rate": float(words["Requests/sec:"]),
        "p50": words["50%"],
        "p99": words["99%"],
        "failed": "Non-2xx" in text,
    }


def memory(process: Any) -> float:
    """Mebibytes that the workers have for themselves."""
    return sum(psutil.Process(worker.pid).memory_full_info().uss for worker in process.workers()) / 2**20


def model_file() -> Path:
    """The model of the bars, fitted once and kept beside the system's temporary files."""
    file = Path(tempfile.gettempdir()) / f"starcast-bench-{sc.__version__}-ml-1m.starcast"
    if not file.exists():
        os.environ["STARCAST_DATA"] = str(data_folder())
        sc.OrdinalMF(random_state=0).fit(sc.load_movielens("1m")).save(file)
    return file


def soak(file: Path, process: Any, seconds: float) -> dict[str, Any]:
    """Half the load of the bars for a long time, in parts, with the memory after each."""
    half = {kind: bar / 2 for kind, bar in BARS.items()}
    part = min(60.0, seconds)
    memories, parts = [memory(process)], []
    for _ in range(max(1, round(seconds / part))):
        parts.append(put_load(file, process.port, half, part, CONNECTIONS // 2))
        memories.append(memory(process))
    return {
        "seconds": part * len(parts),
        "requests": round(sum(kind["rate"] for one in parts for kind in one.values()) * part),
        "errors": sum(kind["errors"] for one in parts for kind in one.values()),
        "worst_p99_ms": {kind: max(one[kind]["p99_ms"] for one in parts) for kind in BARS},
        "memory_mib": [round(value, 1) for value in memories],
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--soak", type=float, default=0, help="seconds at half the load; 600 for the bar")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a model of MovieLens 1M, instead of fitting one")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        import uvloop

        print(json.dumps(uvloop.run(load(*json.loads(args.load)))))
        return
    from service import Process

    with tempfile.TemporaryDirectory() as folder:
        file = args.model or model_file()
        process = Process(file, "--workers", args.workers, log=Path(folder, "log"))
        try:
            put_load(file, process.port, {"predict": 0, "recommend": 0}, 2)  # so that everything is in memory
            figures: dict[str, Any] = {
                "tool": "clients on asyncio and uvloop in a second process; wrk beside them",
                "workers": args.workers,
                "load average before": os.getloadavg()[0],
                "predict, as much as it takes": put_load(file, process.port, {"predict": 0}, args.seconds)["predict"],
                "predict, as much as it takes, by wrk": wrk(file, process.port, args.seconds),
                "predict, 1,000 a second": put_load(file, process.port, {"predict": 1000}, args.seconds)["predict"],
                "recommend, as much as it takes": put_load(file, process.port, {"recommend": 0}, args.seconds)[
                    "recommend"
                ],
                "recommend, 200 a second": put_load(file, process.port, {"recommend": 200}, args.seconds)["recommend"],
            }
            if args.soak:
                figures["both at half the bars"] = soak(file, process, args.soak)
        finally:
            process.stop()
    write("service", figures)


if __name__ == "__main__":
    main()
