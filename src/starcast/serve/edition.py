"""An edition: a private copy of a model file and its card, checked once and then loaded by every worker."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from starcast.datasets import load_sample
from starcast.errors import FileError, FileFormatError
from starcast.models import Model, load, make_model
from starcast.ratings import Ratings
from starcast.serve.card import make_card
from starcast.serve.catalogue import Catalogue
from starcast.serve.limits import Limits
from starcast.serve.served import Served
from starcast.split import benchmark_split

MODEL, CARD = "model.starcast", "card.json"
SAMPLE = {"random_state": 0, "n_draws": 32, "burn_in": 30, "thin": 2}  # a sixth of the rounds, nearly as good


class Source(NamedTuple):
    """Where editions come from.

    `file` is a model file, or None for a model of the embedded sample; `read_test` returns ratings that a model has not
    seen; `name` is what the data are called.
    """

    file: Path | None = None
    read_test: Callable[[Model], Ratings] | None = None
    name: str | None = None


def prepare(source: Source, folder: Path) -> Path:
    """Write an edition into a new folder and return the folder; raise an error if the model cannot be served.

    The copy is what makes a change of models safe: whatever happens to the file afterwards, the workers map bytes that
    stay as they are, and a worker that starts anew starts with the model that the others serve.
    """
    folder.mkdir()
    copy = folder / MODEL
    name, test = source.name, None
    if source.file is None:
        parts = benchmark_split(load_sample())
        model = make_model("ordinalmf", SAMPLE).fit(parts.train)
        model.save(copy)
        name, test = name or "MovieLens sample", parts.test
    else:
        _copy(source.file, copy)
        try:
            model = load(copy, verify=True)
        except FileFormatError as error:
            raise FileFormatError(str(error).replace(str(copy), str(source.file))) from None
    if source.read_test is not None:
        test = source.read_test(model)
    (folder / CARD).write_text(json.dumps({"name": name, "card": make_card(model, test)}))
    return folder


def open_edition(folder: Path, limits: Limits, n_jobs: int = 1) -> Served:
    """Return what workers serve of an edition; the model's arrays stay in the file, which all of them map."""
    model = load(folder / MODEL, verify=False)  # checked by `prepare`
    parameters = model.get_params()
    if "n_jobs" in parameters:
        model.set_params(n_jobs=n_jobs)  # the workers share the cores already
    told = json.loads((folder / CARD).read_text())
    return Served(model, Catalogue(model), told["card"], limits, told["name"], parameters)


def _copy(file: Path, copy: Path) -> None:
    try:
        shutil.copyfile(file, copy)
    except FileNotFoundError:
        raise FileError(f"there is no model file {file}. Check the name, or write one with starcast fit.") from None
    except OSError as error:
        raise FileError(f"{file} cannot be copied to {copy.parent}: {error.strerror or error}.") from None
