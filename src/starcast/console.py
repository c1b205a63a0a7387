"""What the commands share: options, ratings read from a file or a data set, tables written, answers shown."""

import contextlib
import dataclasses
import decimal
import functools
import inspect
import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.text import Text
from typer.core import TyperCommand

from starcast import trust
from starcast.datasets import DATASETS, load_dataset
from starcast.errors import FileError, ParameterError, StarcastError, choose, plural
from starcast.files import check_sources, check_target, is_file, replacing
from starcast.io import read_pairs, read_ratings
from starcast.models import Model
from starcast.names import Lookup, code_names, strings
from starcast.ratings import Ratings
from starcast.split import benchmark_split
from starcast.streams import SafeConsole, visible, writing

out = SafeConsole()
err = SafeConsole(stderr=True)

WRITERS = {".csv": "write_csv", ".parquet": "write_parquet", ".json": "write_json"}
MOST_SCORES = 10_000  # of a scale that is written as a range; the library has the last word
NEGATIVE = re.compile(r"-\d+(\.\d+)?")
SOURCES = ("ratings", "space", "storage", "candidates", "exclude")  # parameters that may name a file, besides all paths


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
Pairs = Annotated[
    Path | None, typer.Option("--pairs", help="A file with a user and an item column instead; - is standard input.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", callback=check_ending, help="Write the table here: .csv, .parquet or .json."),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `starcast fit` wrote.")]
NewRatings = Annotated[
    str | None,
    typer.Option("--ratings", help="Ask for the users of this file instead, who need not have been there in training."),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="RATINGS", help="A ratings file, - for standard input, or a data set of `starcast datasets`."
    ),
]
Part = Annotated[
    str,
    typer.Option("--split", help="all: every rating; benchmark: the part of the paper's split that fits the command."),
]
Scores = Annotated[
    str | None,
    typer.Option("--scores", help="The whole scale: 1..5, 0.5..5:0.5 (with a step) or 1,2,3; else what occurs."),
]
Titles = Annotated[
    Path | None, typer.Option("--titles", help="A file with a title for each item: an item and a title column.")
]


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a ratings file is read: the options of every command that reads one."""

    sep: Annotated[str | None, typer.Option("--sep", help="What separates the columns; found out if not given.")] = None
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="User, item, rating (and time) column by name or position: user,item,rating"),
    ] = None
    duplicates: Annotated[str, typer.Option("--duplicates", help="Pairs rated twice: error, first, last or mean.")] = (
        "error"
    )
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line names the columns; found out if not given."),
    ] = None
    off_scale: Annotated[
        str, typer.Option("--off-scale", help="Ratings between two scores of a given scale: error or nearest.")
    ] = "error"
    on_bad: Annotated[str, typer.Option("--on-bad", help="Lines that cannot be read: error or skip.")] = "error"
    ids: Annotated[str, typer.Option("--ids", help="auto: whole numbers are integers; text: they stay text.")] = "auto"
    encoding: Annotated[str, typer.Option("--encoding", help="Of a text file.")] = "utf-8"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :func:`starcast.read_ratings` that the options ask for."""
        told = {"sep": parse_separator(self.sep), "columns": parse_columns(self.columns)}
        return dataclasses.asdict(self) | told

    def given(self) -> list[str]:
        """Return the options that were given."""
        fields = dataclasses.fields(self)
        return [f"--{f.name.replace('_', '-')}" for f in fields if getattr(self, f.name) != f.default]


AS_FOUND = Reading()


def reads_ratings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of :class:`Reading` where it has the parameter `reading`."""
    own = inspect.signature(command)
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in dataclasses.fields(Reading)
    ]
    parameters = [
        option
        for parameter in own.parameters.values()
        for option in (options if parameter.name == "reading" else [parameter])
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    @functools.wraps(command)
    def with_options(**given: Any) -> Any:
        reading = Reading(**{option.name: given.pop(option.name) for option in options})
        return command(**given, reading=reading)

    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


class Command(TyperCommand):
    """A command that takes negative numbers as arguments, and whose errors name only options that it has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the options first and the arguments behind ``--``: a negative number is no option."""
        takes_value = {
            name: not getattr(param, "is_flag", False) and not getattr(param, "count", False)
            for param in self.get_params(ctx)
            for name in (*param.opts, *param.secondary_opts)
        }
        options: list[str] = []
        arguments: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--":
                arguments.extend(words)
            elif word[:1] != "-" or word == "-" or NEGATIVE.fullmatch(word):
                arguments.append(word)
            else:
                options.append(word)
                if takes_value.get(word):
                    value = next(words, "--")
                    if value == "--":
                        return super().parse_args(ctx, options)  # which says that the last option lacks its value
                    options.append(value)
        with self._named_by_options():
            return super().parse_args(ctx, [*options, "--", *arguments])

    def invoke(self, ctx: Any) -> Any:
        """Run the command, unless it would write what it reads or read the standard input twice."""
        with self._named_by_options():
            given = {name: value for name, value in ctx.params.items() if value is not None}
            target = given.pop("out_file", given.get("folder"))
            if str(target) == "-":
                raise ParameterError("--out must be the name of a file or folder, got -, which is the standard input.")
            if self.name == "update":
                del given["model"]  # which may be updated in place
            sources = [value for name, value in given.items() if isinstance(value, Path) or name in SOURCES]
            if str(given.get("ratings")) == str(given.get("pairs")) == "-":
                raise ParameterError("- is the standard input, which can be read only once. Give a file for the other.")
            if "out_file" in ctx.params and target is not None:
                check_sources(target, sources)
            return super().invoke(ctx)

    @contextlib.contextmanager
    def _named_by_options(self) -> Iterator[None]:
        try:
            yield
        except StarcastError as error:
            names = [name for param in self.params for name in param.opts]
            raise StarcastError(in_options(str(error), names)) from error


PARAMETERS = ("update", "device")  # of models, as far as errors recommend them
ARGUMENTS = (
    "sep|columns|header|off_scale|duplicates|on_bad|encoding|ids|scores|titles|accuracy|mae|coverage|candidates|exclude|engine|"
    + "|".join(PARAMETERS)
)
ARGUMENT = re.compile(
    rf"""\b({ARGUMENTS})=(\([^)]*\)|\[[^]]*\]|["'][^"']+["'](?:(?:, (?:or )?| or )["'][^"']+["'])*|(?=[ ,.;)]|$))"""
)
SENTENCE = re.compile(r"""(?<=[.?!]) (?=[A-Z])""")
VALUES = {"scores": "LOW..HIGH", "titles": "FILE"}  # what to write where a message names an argument without a value


def in_options(message: str, options: Collection[str]) -> str:
    """Return an error of the library in the words of a command with these options.

    A sentence that recommends an argument which the command does not take is left out.

    >>> in_options('rating must be a number. Fix it, or pass on_bad="skip".', ["--on-bad"])
    'rating must be a number. Fix it, or pass --on-bad skip.'
    >>> in_options('rating must be a number. Fix it, or pass on_bad="skip".', [])
    'rating must be a number.'
    >>> in_options("The line looks separated by ';': pass sep=';'.", ["--sep"])
    "The line looks separated by ';': pass --sep ';'."
    """

    def option(found: re.Match[str]) -> str:
        name, values = spelling(found[1]), found[2]
        if name not in options and not name.endswith("="):
            return found[0]
        if values[:1] in ("(", "["):  # a sequence is written with commas alone
            values = shlex.quote(re.sub(r"[\s\"']", "", values[1:-1]))
        values = _unquoted(values) or VALUES.get(found[1], "")
        return name + values if name.endswith("=") else f"{name} {values}" if values else name

    def spelling(name: str) -> str:
        written = f"--{name.replace('_', '-')}"
        if written not in options and name in PARAMETERS and "--param" in options:
            return f"-p {name}="
        return written

    def is_for_this_command(sentence: str) -> bool:
        named = [spelling(found[1]) for found in ARGUMENT.finditer(sentence)]
        return all(name in options or name.endswith("=") for name in named)

    first, *others = SENTENCE.split(message)
    return ARGUMENT.sub(option, " ".join([first, *filter(is_for_this_command, others)]))


def _unquoted(values: str) -> str:
    """Return quoted values as a shell takes them."""
    return re.sub(r"""(["'])(.*?)\1""", lambda found: shlex.quote(found[2]), values)


def read_source(
    source: str,
    split: str,
    part: str,
    reading: Reading = AS_FOUND,
    *,
    scores: object = None,
    titles: Path | None = None,
) -> Ratings:
    """Return the ratings of a data set or of a file, all or one part of them.

    `scores` is the scale, where it is known.
    """
    choose("split", split, ["all", "benchmark"])
    with err.status(f"reading {escape(source)}"):
        table = load_dataset(source) if is_dataset(source) else read_file(source, reading, scores, titles)
        return table if split == "all" else getattr(benchmark_split(table), part)


def is_dataset(source: str) -> bool:
    """Tell whether a data set is meant rather than a file."""
    return source in DATASETS and not Path(source).is_file()


def read_file(source: str, reading: Reading, scores: object = None, titles: Path | None = None) -> Ratings:
    """Return the ratings of a file, or of standard input, and tell how many lines were left out."""
    table = read_ratings(source, scores=scores, titles=titles, **reading.arguments())
    if table.n_skipped:
        note(
            f"left out {plural(table.n_skipped, 'line')} that could not be read; {plural(len(table), 'rating')} remain."
        )
    return table


def read_for(
    model: Model, source: str, split: str = "all", reading: Reading = AS_FOUND, *, titles: Path | None = None
) -> Ratings:
    """Return ratings on the scale of a model, with names of the type that it knows."""
    if object in (model.users_.dtype, model.items_.dtype):  # 007 and 7.0 are names then, and not the number 7
        reading = dataclasses.replace(reading, ids="text")
    table = read_source(source, split, "test", reading, scores=model.scores_, titles=titles)
    named = named_as_in(model, table)
    return table if named is table else named.without_duplicates(reading.duplicates)


def parse_columns(columns: str | None) -> list[str | int] | None:
    """Return the columns that are written with commas, by name or position."""
    return [int(name) if name.isdecimal() else name for name in columns.split(",")] if columns else None


def parse_separator(sep: str | None) -> str | None:
    """Return a separator as it was meant: a shell leaves a tab as two characters."""
    return sep.replace("\\t", "\t") if sep else None


def parse_scores(text: str | None) -> list[float] | None:
    """Return the scale that is written as a range, with a step or without, or as a list.

    >>> parse_scores("1..5"), parse_scores("0.5..2:0.5"), parse_scores("1,2,4")
    ([1.0, 2.0, 3.0, 4.0, 5.0], [0.5, 1.0, 1.5, 2.0], [1.0, 2.0, 4.0])
    """
    if text is None:
        return None
    span, _, step_text = text.partition(":")
    try:
        if ".." not in span:
            return [float(number) for number in text.split(",")]
        low, high = (decimal.Decimal(end.strip()) for end in span.split("..", 1))
        step = decimal.Decimal(step_text.strip() or 1)
        count = int((high - low) / step) + 1
        if step <= 0 or not 2 <= count <= MOST_SCORES or low + (count - 1) * step != high:
            raise ValueError
    except (ValueError, OverflowError, decimal.DecimalException):
        raise ParameterError(
            f"a scale must be a range such as 1..5 or 0.5..5:0.5, or a list such as 1,2,3, got {text!r}."
        ) from None
    return [float(low + at * step) for at in range(count)]


def parse_names(text: str) -> list[str]:
    """Return the names that are written with commas, or one a line in the file of that name."""
    if not is_file(text):
        return [name.strip() for name in text.split(",") if name.strip()]
    try:
        lines = Path(text).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise FileError(f"{text} cannot be read: {reason}.") from None
    return [line.strip() for line in lines if line.strip()]


def fold_file(model: Model, file: str, reading: Reading = AS_FOUND) -> Model:
    """Return the model of the users whose ratings are in the file, and tell how many of these say nothing to it."""
    table = read_for(model, file, reading=reading)
    folded = model.fold_in(table)
    if folded.n_left_out:
        note(f"left out {folded.n_left_out:,} of {plural(len(table), 'rating')}: the model does not know their items.")
    return folded


def named_as_in(model: Model, table: Ratings) -> Ratings:
    """Return the ratings with names of the model's types: numbers as text where the model's names are text, and text as
    integers where the model's names are integers and all of the text is whole numbers.
    """
    changes: dict[str, Any] = {}
    for side, there, here in (("user", model.users_, table.users), ("item", model.items_, table.items)):
        if there.dtype == object and here.dtype != object:
            changes[f"{side}s"] = strings(here.tolist())
        elif there.dtype != object and here.dtype == object:
            numbers = Lookup(there).parse(here.tolist())
            if all(isinstance(number, int) for number in numbers):
                names, codes = code_names(numbers, f"{side}s")  # 7 and 7.0 become one
                changes |= {f"{side}s": names, side: codes[getattr(table, side)]}
                if side == "item" and table.titles is not None:
                    changes["titles"] = table.titles[np.unique(codes, return_index=True)[1]]
    return dataclasses.replace(table, **changes) if changes else table


def read_question(
    model: Model, user: str | None, items: list[str] | None, pairs: Path | None
) -> tuple[list[Any], list[Any]]:
    """Return the users and items that are asked for: a user and some items, or the pairs of a file."""
    if (pairs is None) == (user is None or not items):
        raise ParameterError("give a user and at least one item, or a file with --pairs.")
    if pairs is None:
        return model.parse_users([user or ""]), model.parse_items(items or [])
    user_texts, item_texts = read_pairs(str(pairs))
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
    except (ValueError, RecursionError):
        return name, value


def write_table(frame: Any, path: Path) -> None:
    """Write a table in the format that the ending of the file names."""
    import polars as pl

    with replacing(path) as temporary:
        try:
            getattr(frame, WRITERS[path.suffix.lower()])(temporary)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # how Polars reports a full disk
            raise OSError(str(error).partition("\n")[0]) from None
    note(f"{plural(len(frame), 'row')} written to {path}", kind="")


def note(message: str, kind: str = "note:") -> None:
    """Print a line for people to stderr."""
    err.print(Text.assemble((f"{kind} " if kind else "", "yellow"), visible(message)), soft_wrap=True, highlight=False)


def show(data: Any, table: Any, as_json: bool) -> None:
    """Print data as JSON for programs, or a table or text for people."""
    with writing():
        if as_json:
            print(as_json_text(data))
        elif isinstance(table, str):
            out.print(Text("\n".join(map(visible, table.split("\n")))), soft_wrap=True)
        else:
            out.print(table)


def as_json_text(data: Any) -> str:
    """Return data as JSON, in ASCII where stdout is not UTF-8."""
    whole = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") != "utf8"
    return json.dumps(plain(data), allow_nan=False, ensure_ascii=whole)


def plain(value: Any) -> Any:
    """Return what JSON can hold: NaN and infinity, which it cannot, become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value
