"""The state of a fit on disk, so that a new driver can go on with it."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from starcast import modelfile
from starcast.distributed.plan import Plan
from starcast.distributed.shards import Shards
from starcast.errors import FileError, ParameterError, StarcastError
from starcast.files import replacing
from starcast.models.base import Model
from starcast.names import plain

LATEST, ROUND, DRAW = "starcast-fit.json", "starcast-round-", "starcast-draw-"  # nobody else has such names
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

    The name of a round is written last, so a state is there whole or not at all.
    """

    def __init__(self, folder: str | os.PathLike[str], model: Model, shards: Shards) -> None:
        self._folder = Path(folder)
        params = {name: value for name, value in model.get_params().items() if name not in NO_MATTER}
        self._of = {
            "ratings": shards.digest, "model": type(model).__name__, "workers": len(shards),
            "params": json.loads(json.dumps(params, default=plain)),
        }  # fmt: skip
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(
                f"checkpoint must be a folder that can be made, got {str(folder)!r}: {error.strerror}."
            ) from None

    def find(self) -> State | None:
        """Return the last state of this fit; None if there is none, an error if it is another fit's."""
        latest = self._folder / LATEST
        if not latest.exists():
            self._drop()  # of a driver that was stopped before the first state was whole
            return None
        try:
            told = json.loads(latest.read_text())
            place = self._folder / told["round"]
            differs = [name for name, value in self._of.items() if told["of"].get(name) != value]
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            raise FileError(f"{latest} is not the checkpoint of a fit. Give another folder.") from None
        if differs:
            raise ParameterError(
                f"checkpoint must be of the same fit, but in {self._folder} {' and '.join(differs)} differ. "
                "Give another folder, or delete this one to begin anew."
            )
        try:
            meta, arrays = modelfile.read(place / "shared")
            users = [modelfile.read(place / f"users-{k}")[1]["rows"] for k in range(self._of["workers"])]
        except StarcastError as error:
            raise FileError(
                f"the checkpoint in {self._folder} is not whole: {error} Delete the folder to begin anew."
            ) from None
        shared = meta["shared"] | {n.removeprefix("shared."): a for n, a in arrays.items() if n.startswith("shared.")}
        return State(meta["seed"], meta["history"], shared, arrays["items"], users)

    def bring_draws(self, plan: Plan, state: State) -> None:
        """Give the plan the draws that were kept up to a state."""
        for at in range((state.shared or {}).get("n_kept", 0)):
            plan.put_draw(at, modelfile.read(self._folder / f"{DRAW}{at}")[1])

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
            file.write_text(json.dumps({"round": place.name, "of": self._of}, indent=1))
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
