"""The state of a fit on disk, so that a new driver can go on with it."""

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from starcast import _native, modelfile
from starcast.distributed.plan import Plan
from starcast.distributed.shards import Shards
from starcast.errors import FileError, FileFormatError, ParameterError, StarcastError
from starcast.files import alone, replacing
from starcast.models.base import Model
from starcast.names import plain

LATEST, ROUND, DRAW = "starcast-fit.json", "starcast-round-", "starcast-draw-"  # nobody else has such names
LOCK = "starcast-fit.lock"
FORMAT, VERSION = "starcast checkpoint", 1
NO_MATTER = ("n_jobs", "verbose")  # parameters that do not change a result


@dataclass
class State:
    """Where a fit stands after a round: the rows of items and users (worker by worker) and what else has changed."""

    seed: int
    history: list[float] = field(default_factory=list)
    shared: dict[str, Any] | None = None  # None: at the beginning
    items: Any = None
    users: list[Any] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Rounds."""
        return len(self.history)


class Checkpoint:
    """A folder with the last state of one fit: ``starcast-fit.json`` names the round, another folder has its arrays.

    The name of a round is written last, so a state is there whole or not at all. One fit works with a folder at a time.
    """

    def __init__(self, folder: str | os.PathLike[str], model: Model, shards: Shards) -> None:
        self._folder = Path(folder)
        params = {name: value for name, value in model.get_params().items() if name not in NO_MATTER}
        self._of = {
            "ratings": shards.digest, "model": type(model).__name__, "workers": len(shards),
            "params": json.loads(json.dumps(params, default=plain)), "starcast": _native.version,
        }  # fmt: skip
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(
                f"checkpoint must be a folder that can be made, got {str(folder)!r}: {error.strerror}."
            ) from None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other fits out of the folder meanwhile. Whoever dies lets go."""
        file = self._folder / LOCK
        with contextlib.ExitStack() as stack:
            while True:
                handle = stack.enter_context(self._open(file))
                try:
                    stack.enter_context(alone(handle, is_patient=False))
                except BlockingIOError:
                    raise FileError(
                        f"another fit works with the checkpoint in {self._folder}: {_who(file)}. Wait for its end, or "
                        "give this one a folder of its own."
                    ) from None
                except OSError:
                    break  # a disk without locks
                if file.exists() and os.path.samestat(os.fstat(handle.fileno()), file.stat()):
                    break  # else the fit before has just removed it, and it keeps nobody out
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {socket.gethostname()}")
            handle.flush()
            stack.callback(_remove, file)
            yield

    def _open(self, file: Path) -> TextIO:
        try:
            return file.open("a+", encoding="utf-8")
        except OSError as error:
            raise FileError(
                f"the checkpoint cannot be written to {self._folder}: {error.strerror}. Choose another folder."
            ) from None

    def find(self) -> State | None:
        """Return the last state of this fit; None if there is none, an error if it is another fit's."""
        latest = self._folder / LATEST
        if not latest.exists():
            self._drop()  # of a driver that was stopped before the first state was whole
            return None
        told = self._told(latest)
        differs = [name for name, value in self._of.items() if told["of"].get(name) != value]
        if differs:
            raise ParameterError(
                f"checkpoint must be of the same fit, but in {self._folder} {' and '.join(differs)} differ. "
                "Give another folder, or delete this one to begin anew."
            )
        place = self._folder / told["round"]
        meta, arrays = self._read(place / "shared")
        try:
            users = [self._read(place / f"users-{k}")[1]["rows"] for k in range(self._of["workers"])]
            shared = {n.removeprefix("shared."): a for n, a in arrays.items() if n.startswith("shared.")}
            return State(meta["seed"], meta["history"], meta["shared"] | shared, arrays["items"], users)
        except KeyError as missing:
            raise self._torn(f"it lacks {missing}.") from None

    def _told(self, latest: Path) -> dict[str, Any]:
        """Return what the folder says of its state, which must be a checkpoint of this version."""
        try:
            told = json.loads(latest.read_text(encoding="utf-8"))
            if told["format"] != FORMAT or not isinstance(told["of"], dict) or not isinstance(told["round"], str):
                raise ValueError
            version = told["version"]
        except (OSError, ValueError, KeyError, TypeError):
            raise FileFormatError(
                f"{latest} is not the checkpoint of a fit, or a damaged one. Give another folder, or delete this one."
            ) from None
        if version != VERSION:
            raise FileFormatError(
                f"{self._folder} holds a checkpoint of the format version {version!r:.20}; this Starcast reads "
                f"{VERSION}. Finish the fit with the Starcast that began it, or delete the folder to begin anew."
            )
        return told  # type: ignore[no-any-return]

    def _read(self, file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            return modelfile.read(file)
        except StarcastError as error:
            raise self._torn(str(error)) from None

    def _torn(self, why: str) -> FileError:
        return FileError(f"the checkpoint in {self._folder} is not whole: {why} Delete the folder to begin anew.")

    def bring_draws(self, plan: Plan, state: State) -> None:
        """Give the plan the draws that were kept up to a state."""
        for at in range((state.shared or {}).get("n_kept", 0)):
            plan.put_draw(at, self._read(self._folder / f"{DRAW}{at}")[1])

    def save(self, state: State, plan: Plan, get: Callable[[Any], Any]) -> None:
        """Write a state, whose rows `get` brings here, and draws that are new; drop the state before."""
        try:
            self._save(state, plan, get)
        except OSError as error:
            raise FileError(
                f"the checkpoint cannot be written to {self._folder}: {error.strerror}. The state before is safe."
            ) from None

    def _save(self, state: State, plan: Plan, get: Callable[[Any], Any]) -> None:
        assert state.shared is not None
        for at in range(plan.n_kept):
            if not (self._folder / f"{DRAW}{at}").exists():
                modelfile.write(self._folder / f"{DRAW}{at}", {}, plan.draw(at))
        place = self._folder / f"{ROUND}{state.done}"
        shutil.rmtree(place, ignore_errors=True)  # of a driver that was stopped in the middle
        place.mkdir()
        for k, rows in enumerate(state.users):
            modelfile.write(place / f"users-{k}", {}, {"rows": get(rows)})
        arrays = {f"shared.{name}": value for name, value in state.shared.items() if isinstance(value, np.ndarray)}
        values = {name: value for name, value in state.shared.items() if not isinstance(value, np.ndarray)}
        meta = {"seed": state.seed, "history": state.history, "shared": values}
        modelfile.write(place / "shared", meta, arrays | {"items": get(state.items)})
        with replacing(self._folder / LATEST) as file:
            told = {"format": FORMAT, "version": VERSION, "round": place.name, "of": self._of}
            file.write_text(json.dumps(told, indent=1), encoding="utf-8")
        self._drop(besides=place.name)

    def clear(self) -> None:
        """Drop everything: the fit is complete."""
        (self._folder / LATEST).unlink(missing_ok=True)
        self._drop()

    def _drop(self, besides: str = "") -> None:
        for place in self._folder.glob(f"{ROUND}*"):
            if place.name != besides:
                shutil.rmtree(place, ignore_errors=True)
        if not besides:
            for draw in self._folder.glob(f"{DRAW}*"):
                draw.unlink(missing_ok=True)


def _who(lock: Path) -> str:
    with contextlib.suppress(OSError):
        return lock.read_text(encoding="utf-8") or "one that has just begun"
    return "one that has just ended"


def _remove(lock: Path) -> None:
    with contextlib.suppress(OSError):  # Windows keeps a file that is open
        lock.unlink()
