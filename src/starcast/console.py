"""What the commands share: options, ratings read from a file or a data set, tables written, answers shown."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from starcast import trust
from starcast.datasets import DATASETS, load_dataset
from starcast.errors import ParameterError, choose, plural
from starcast.files import check_target, replacing
from starcast.io import read_pairs, read_ratings
from starcast.models import Model
from starcast.names import strings
from starcast.ratings import Ratings
from starcast.split import benchmark_split

out = Console()
err = Console(stderr=True)

ARGUMENT = re.compile(
    r"""\b(on_bad|duplicates|encoding|sep|columns|accuracy|mae|coverage)=(\([^)]*\)|(?:["'][^"']+["'](?:, | or )?)*)"""
)
WRITERS = {".csv": "write_csv", ".parquet": "write_parquet", ".json": "write_json"}


def check_ending(path: Path | None) -> Path | None:
    """Refuse an ending or a place that cannot be written to before any work is done."""
    if path is not None:
        choose("ending", path.suffix.lower(), WRITERS)
        check_target(path)
    return path


Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table for people.")]
Device = Annotated[str, typer.Option("--device", help="Where the search of ResBeMF runs: cpu, cuda, auto.")]
Threshold = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        "-t",
        metavar="θ",
        help="Withhold what is less reliable than this, from 0 to 1; error:0.85 goes by the error that is expected.",
    ),
]
User = Annotated[str | None, typer.Argument(metavar="USER", help="A user's name.")]
Item = Annotated[list[str] | None, typer.Argument(metavar="ITEM", help="One or more items.")]
Pairs = Annotated[Path | None, typer.Option("--pairs", help="A file with a user and an item column instead.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", callback=check_ending, help="Write the table here: .csv, .parquet or .json."),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `starcast fit` wrote.")]
NewRatings = Annotated[
    Path | None,
    typer.Option("--ratings", help="Ask for the users of this file instead, who need not have been there in training."),
]
Source = Annotated[str, typer.Argument(metavar="RATINGS", help="A ratings file, or a data set of `starcast datasets`.")]
Part = Annotated[
    str,
    typer.Option("--split", help="all: every rating; benchmark: the part of the paper's split that fits the command."),
]
Separator = Annotated[str | None, typer.Option("--sep", help="What separates the columns; found out if not given.")]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="User, item, rating (and time) column by name or position: user,item,rating"),
]
Duplicates = Annotated[str, typer.Option("--duplicates", help="Pairs rated twice: error, first, last or mean.")]
OnBad = Annotated[str, typer.Option("--on-bad", help="Lines that cannot be read: error or skip.")]
Encoding = Annotated[str, typer.Option("--encoding", help="Of a text file.")]


def read_source(
    source: str,
    split: str,
    part: str,
    sep: str | None = None,
    columns: str | None = None,
    *,
    scores: object = None,
    **options: str,
) -> Ratings:
    """Return the ratings of a data set or of a file, all or one part of them.

    `scores` is the scale, where it is known; `options` are those of :func:`starcast.read_ratings`.
    """
    choose("split", split, ["all", "benchmark"])
    with err.status(f"reading {source}"):
        if source in DATASETS and not Path(source).is_file():
            table = load_dataset(source)
        else:
            how = {"sep": parse_separator(sep), "columns": parse_columns(columns), "scores": scores}
            table = read_ratings(source, **how, **options)  # type: ignore[arg-type]
        return table if split == "all" else getattr(benchmark_split(table), part)


def parse_columns(columns: str | None) -> list[str | int] | None:
    """Return the columns that are written with commas, by name or position."""
    return [int(name) if name.isdecimal() else name for name in columns.split(",")] if columns else None


def parse_separator(sep: str | None) -> str | None:
    """Return a separator as it was meant: a shell leaves a tab as two characters."""
    return sep.replace("\\t", "\t") if sep else None


def fold_file(model: Model, file: Path) -> Model:
    """Return the model of the users whose ratings are in the file, and tell how many of these say nothing to it."""
    table = named_as_in(model, read_ratings(file, scores=model.scores_))
    folded = model.fold_in(table)
    if folded.n_left_out:
        count = f"{folded.n_left_out:,} of {plural(len(table), 'rating')}"
        err.print(f"[yellow]note:[/yellow] left out {count}: the model does not know their items.", soft_wrap=True)
    return folded


def named_as_in(model: Model, table: Ratings) -> Ratings:
    """Return the ratings with numbers as text where the model's names are text: a file may hold none but numbers."""
    names = {"users": (model.users_, table.users), "items": (model.items_, table.items)}
    texts = {
        side: strings(here.tolist())
        for side, (there, here) in names.items()
        if there.dtype == object and here.dtype != object
    }
    return dataclasses.replace(table, **texts) if texts else table


def read_question(
    model: Model, user: str | None, items: list[str] | None, pairs: Path | None
) -> tuple[list[Any], list[Any]]:
    """Return the users and items that are asked for: a user and some items, or the pairs of a file."""
    if (pairs is None) == (user is None or not items):
        raise ParameterError("give a user and at least one item, or a file with --pairs.")
    user_texts, item_texts = ([user or ""], items or []) if pairs is None else read_pairs(pairs)
    return model.parse_users(user_texts), model.parse_items(item_texts)


def parse_threshold(text: str | None) -> float | None:
    """Return the threshold that is written as a number, or as its kind and a number: ``error:0.85``."""
    if text is None:
        return None
    kind, colon, number = text.rpartition(":")
    try:
        theta = float(number)
    except ValueError:
        raise ParameterError(
            f"a threshold must be a number, or a kind and a number: error:0.85, got {text!r}."
        ) from None
    return trust.Threshold(theta, kind) if colon else theta


def parse_parameter(text: str) -> tuple[str, Any]:
    """Return name and value of ``name=value``; a value that reads as JSON (5, 0.1, true, null) or Python's True,
    False or None is one.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ParameterError(f"a parameter must read name=value, got {text!r}.")
    try:
        return name, json.loads({"True": "true", "False": "false", "None": "null"}.get(value, value))
    except ValueError:
        return name, value


def write_table(frame: Any, path: Path) -> None:
    """Write a table in the format that the ending of the file names."""
    with replacing(path) as temporary:
        getattr(frame, WRITERS[path.suffix.lower()])(temporary)
    err.print(f"{len(frame):,} rows written to {path}", highlight=False)


def show(data: Any, table: Any, as_json: bool) -> None:
    """Print data as JSON for programs, or a table for people."""
    if as_json:
        sys.stdout.write(json.dumps(plain(data), allow_nan=False, ensure_ascii=False) + "\n")
    else:
        out.print(table)


def in_options(message: str) -> str:
    """Return an error of the library in the words of the command line: ``on_bad="skip"`` is ``--on-bad skip`` there."""

    def option(found: re.Match[str]) -> str:
        name, values = found[1].replace("_", "-"), found[2].replace('"', "").replace("'", "")
        if values.startswith("("):  # a tuple is written with commas alone
            values = values[1:-1].replace(" ", "")
        return f"--{name} {values}" if values else f"--{name}"

    return ARGUMENT.sub(option, message)


def plain(value: Any) -> Any:
    """Return what JSON can hold: NaN and infinity, which it cannot, become null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value
