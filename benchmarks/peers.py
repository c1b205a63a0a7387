"""Other libraries as processes of the same run: each in the peers' environment, asked for one job at a time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import measure
import numpy as np

import starcast as sc

PYTHON = Path(os.environ.get("STARCAST_PEERS") or measure.HERE.parent / ".venv-peers") / "bin" / "python"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class Peer:
    """A library at work in a process of its own: ``peer.ask("fit", n_factors=8, n_epochs=20)["seconds"]``."""

    def __init__(self, name: str, ratings: Path | None = None, n_threads: int = measure.N_THREADS) -> None:
        if not PYTHON.exists():
            sys.exit("the libraries to compare with are missing. Install them with: make peers")
        self.name = name
        # Half a second of OpenMP's waiting awake would be taken from whoever has the next turn.
        limits = dict.fromkeys(THREADS, str(n_threads)) | {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
        self._process = subprocess.Popen(
            [str(PYTHON), str(measure.HERE / "peer_worker.py"), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | limits,
        )  # fmt: skip
        self.version = self.ask("versions")["version"]
        if ratings is not None:
            self.opened = self.ask("open", file=str(ratings))

    def ask(self, job: str, **how: Any) -> dict[str, Any]:
        """Return what became of a job: seconds, megabytes, and measures of the result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"job": job} | how) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            sys.exit(f"{self.name} could not {job}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def hand_over(train: sc.Ratings, test: sc.Ratings, folder: Path) -> Path:
    """Write both parts, in codes of the training part, where a peer can open them; the test part is a known one."""
    sides = [
        codes_of(asked, names)[codes]
        for names, asked, codes in ((train.users, test.users, test.user), (train.items, test.items, test.item))
    ]
    file = folder / f"ratings-{len(train)}.npz"
    np.savez(
        file,
        train_user=train.user.astype(np.int64), train_item=train.item.astype(np.int64), train_value=train.values,
        test_user=sides[0], test_item=sides[1], test_value=test.values,
    )  # fmt: skip
    return file


def known_part(train: sc.Ratings, test: sc.Ratings) -> sc.Ratings:
    """Return the test ratings whose user and item are in the training part; of others, libraries say what they like."""
    known = np.isin(test.users[test.user], train.users) & np.isin(test.items[test.item], train.items)
    return test.take(known)


def codes_of(names: Any, among: Any) -> Any:
    """Return the place of each name among others, or any place if it is not there."""
    order = np.argsort(among)
    return order[np.minimum(np.searchsorted(among, names, sorter=order), len(among) - 1)]
