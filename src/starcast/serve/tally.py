"""What is counted: requests, refusals and times, in memory that all workers share, as text for Prometheus."""

import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

PATHS = (
    "/", "/static", "/api/model", "/api/predict", "/api/recommend", "/api/fold-in", "/api/explain", "/api/items",
    "/api/users", "/api/ratings", "/healthz", "/readyz", "/metrics", "/openapi.json", "other",
)  # fmt: skip
STATUSES = (200, 304, 400, 401, 404, 405, 408, 413, 415, 421, 422, 431, 499, 500, 503)
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROW = np.dtype(
    [
        ("requests", np.float64, (len(PATHS), len(STATUSES) + 1)),  # the last is any other status
        ("times", np.float64, (len(PATHS), len(BUCKETS) + 1)),
        ("seconds", np.float64, len(PATHS)),
        ("in_flight", np.float64),
        ("connections", np.float64),  # NaN while a worker does not accept any
        ("beat", np.float64),  # when the worker last said so
        ("starts", np.float64),
        ("loads", np.float64),
        ("refusals", np.float64),
    ]
)
PATH_PLACE = {path: place for place, path in enumerate(PATHS)}
STATUS_PLACE = {status: place for place, status in enumerate(STATUSES)}


class Tally:
    """One worker's counts beside those of the others; a worker that takes another's place counts on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, two = Tally(make_tally(Path(folder, "tally"), 2), 0), Tally(Path(folder, "tally"), 1)
    ...     one.count("/healthz", 200, 0.002)
    ...     two.count("/api/no/such", 404, 0.3)
    ...     [line for line in one.text().splitlines() if line.startswith("starcast_requests_total")]
    ['starcast_requests_total{path="/healthz",status="200"} 1', 'starcast_requests_total{path="other",status="404"} 1']
    """

    def __init__(self, file: Path, slot: int) -> None:
        handle = os.open(file, os.O_RDWR)
        try:
            shared = mmap.mmap(handle, 0)
        finally:
            os.close(handle)
        self._rows: npt.NDArray[np.void] = np.frombuffer(shared, ROW)
        row = self._rows[slot]
        self._requests, self._times, self._seconds = row["requests"], row["times"], row["seconds"]
        self._row = self._rows[slot : slot + 1]
        self.info: dict[str, str] = {}

    def start(self) -> None:
        """Count a worker that starts here; what the one before it was answering is gone."""
        self._row["in_flight"] = 0
        self._row["connections"] = np.nan
        self._row["starts"] += 1

    def stop(self) -> None:
        """Note that the worker of this place is no more."""
        self._row["in_flight"] = 0
        self._row["connections"] = np.nan

    def connect(self, connections: int) -> float:
        """Note how many connections this worker has; return how many more that is than another has.

        A worker that has not been heard of for a second does not count.
        """
        now = time.monotonic()
        self._row["connections"], self._row["beat"] = connections, now
        there = self._rows["connections"][self._rows["beat"] > now - 1]
        return float(connections - np.nanmin(there))

    def is_accepting(self) -> bool:
        """Tell whether the worker of this place accepts connections."""
        return not np.isnan(self._row[0]["connections"])

    def silence(self) -> float:
        """Return for how many seconds the worker of this place has not been heard of; NaN if it accepts nothing."""
        return float(time.monotonic() - self._row[0]["beat"] if self.is_accepting() else np.nan)

    def begin(self) -> None:
        """Count a request that came."""
        self._row["in_flight"] += 1

    def end(self) -> None:
        """Count it as gone."""
        self._row["in_flight"] -= 1

    def load(self) -> None:
        """Count a model that was loaded."""
        self._row["loads"] += 1

    def refuse(self) -> None:
        """Count a new model that is not served."""
        self._row["refusals"] += 1

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        place = PATH_PLACE.get(path)
        if place is None:
            place = PATH_PLACE["/static" if path.startswith("/static/") else "other"]
        self._requests[place, STATUS_PLACE.get(status, -1)] += 1
        bucket = 0
        for most in BUCKETS:
            if seconds <= most:
                break
            bucket += 1
        self._times[place, bucket] += 1
        self._seconds[place] += seconds

    def text(self) -> str:
        """Return the counts of all workers in the format of Prometheus."""
        return "\n".join([*self._requests_text(), *self._times_text(), *self._gauges_text(), ""])

    def _requests_text(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests by path and status.")
        counts = self._rows["requests"].sum(axis=0)
        for place, column in zip(*np.nonzero(counts), strict=True):
            status = STATUSES[column] if column < len(STATUSES) else "other"
            yield f'starcast_requests_total{{path="{PATHS[place]}",status="{status}"}} {counts[place, column]:.0f}'

    def _times_text(self) -> Iterator[str]:
        yield from _head("request_seconds", "histogram", "What answers took.")
        times, seconds = self._rows["times"].sum(axis=0), self._rows["seconds"].sum(axis=0)
        for place in np.flatnonzero(times.sum(axis=1)):
            path, total = PATHS[place], np.cumsum(times[place])
            for most, so_far in zip([*BUCKETS, "+Inf"], total, strict=True):
                yield f'starcast_request_seconds_bucket{{path="{path}",le="{most}"}} {so_far:.0f}'
            yield f'starcast_request_seconds_sum{{path="{path}"}} {seconds[place]:.6f}'
            yield f'starcast_request_seconds_count{{path="{path}"}} {total[-1]:.0f}'

    def _gauges_text(self) -> Iterator[str]:
        yield from _head("requests_in_flight", "gauge", "Requests that are being answered.")
        yield f"starcast_requests_in_flight {self._rows['in_flight'].sum():.0f}"
        yield from _head("connections", "gauge", "Connections that are open.")
        yield f"starcast_connections {np.nansum(self._rows['connections']):.0f}"
        yield from _head("workers", "gauge", "Places for workers.")
        yield f"starcast_workers {len(self._rows)}"
        yield from _head("worker_starts_total", "counter", "Workers that were started; more than places if some died.")
        yield f"starcast_worker_starts_total {self._rows['starts'].sum():.0f}"
        yield from _head("model_loads_total", "counter", "Models that workers loaded.")
        yield f"starcast_model_loads_total {self._rows['loads'].sum():.0f}"
        yield from _head("model_refusals_total", "counter", "New models that could not be served; the old one stayed.")
        yield f"starcast_model_refusals_total {self._rows['refusals'].sum():.0f}"
        if self.info:
            yield from _head("model_info", "gauge", "The model that is served.")
            labels = ",".join(f'{name}="{value}"' for name, value in self.info.items())
            yield f"starcast_model_info{{{labels}}} 1"


def make_tally(file: Path, workers: int) -> Path:
    """Make the file that the workers share and return its path."""
    rows = np.zeros(workers, ROW)
    rows["connections"] = np.nan
    file.write_bytes(rows.tobytes())
    return file


def _head(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP starcast_{name} {told}"
    yield f"# TYPE starcast_{name} {kind}"
