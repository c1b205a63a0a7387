"""SIGTERM under load, many times: ``starcast serve`` must end in time, and no client may get a 5xx or hang.

Clients ask without pause, on connections that they keep and on new ones. After the signal, a connection may be refused,
reset or closed between two responses; a response that has begun must be whole, and nobody may wait for one.
"""

import argparse
import contextlib
import http.client
import json
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from service import Process, tiny

HANGS = 25.0  # seconds: less than the time limit of the service, so that the limit does not hide a hang
BODY = json.dumps({"pairs": [{"user": 1, "item": 2}] * 10})


def ask_without_pause(port: int, is_over: threading.Event, keeps: bool, wrong: list[str]) -> None:
    """Ask until there is nobody to ask; note what should not have happened."""
    connection: http.client.HTTPConnection | None = None
    while True:
        began = time.monotonic()
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)
            connection.request("POST", "/api/predict", BODY, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                wrong.append(f"status {response.status}")
            if keeps and not response.will_close:
                continue
        except TimeoutError:
            wrong.append(f"no response for {time.monotonic() - began:.1f} seconds")
        except http.client.IncompleteRead:
            wrong.append("half a response")
        except (OSError, http.client.HTTPException) as error:
            if not is_over.is_set():
                wrong.append(f"before the signal: {error!r}")
        with contextlib.suppress(OSError):
            connection.close()
        connection = None
        if is_over.is_set():
            return


def drain_under_load(file: Path, workers: int = 2, clients: int = 16) -> tuple[float, list[str]]:
    """Return how many seconds the end took, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        process, is_over, wrong = Process(file, "--workers", workers, log=Path(folder, "log")), threading.Event(), []
        threads = [
            threading.Thread(target=ask_without_pause, args=(process.port, is_over, k % 2 == 0, wrong))
            for k in range(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        is_over.set()
        began = time.monotonic()
        code = process.stop(signal.SIGTERM)
        seconds = time.monotonic() - began
        for thread in threads:
            thread.join()
        log = Path(folder, "log").read_text()
    if code:
        wrong.append(f"exit code {code}")
    wrong += [line for line in log.splitlines() if "ERROR" in line or "Traceback" in line]
    return seconds, wrong


def main() -> None:
    """End the service many times and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=16)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.starcast")
        tiny().save(file)
        times, wrong = [], list[str]()
        for place in range(args.rounds):
            seconds, lines = drain_under_load(file, args.workers, args.clients)
            print(f"round {place + 1}: {seconds:.2f} s", *lines, flush=True)
            times.append(seconds)
            wrong += lines
    times.sort()
    print(f"{len(times)} rounds: median {times[len(times) // 2]:.2f} s, slowest {times[-1]:.2f} s; wrong: {len(wrong)}")
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
