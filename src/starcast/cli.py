"""The command line: one short function a command, exit code 2 and one line for a user's mistake."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

import starcast
from starcast import metrics
from starcast.datasets import DATASETS, load_dataset
from starcast.doctor import examination_table, examine
from starcast.errors import ParameterError, StarcastError, choose
from starcast.evaluate import THRESHOLDS, evaluate
from starcast.files import replacing
from starcast.io import read_pairs, read_ratings
from starcast.models import MODELS, load, make_model
from starcast.ratings import Ratings
from starcast.split import benchmark_split
from starcast.terminal import dataset_table, forecast_table, overall_table, recommendation_table, threshold_table

app = typer.Typer(
    help="Star ratings as forecasts: collaborative filtering that says how sure it is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
out = Console()
err = Console(stderr=True)

WRITERS = {".csv": "write_csv", ".parquet": "write_parquet", ".json": "write_json"}


def _check_ending(path: Path | None) -> Path | None:
    """Refuse an ending that cannot be written before any work is done."""
    if path is not None:
        choose("ending", path.suffix.lower(), WRITERS)
    return path


Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table for people.")]
Threshold = Annotated[
    float | None, typer.Option("--threshold", "-t", help="θ: withhold what is less reliable than this, from 0 to 1.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", callback=_check_ending, help="Write the table here: .csv, .parquet or .json."),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `starcast fit` wrote.")]
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


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="starcast")
    except StarcastError as error:
        err.print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)


@app.command(epilog="Example: [bold]starcast datasets ml-100k[/bold]")
def datasets(
    name: Annotated[str | None, typer.Argument(help="Fetch this one, if it is not here yet, and describe it.")] = None,
    as_json: Json = False,
) -> None:
    """List the data sets that can be named instead of a file, or fetch one."""
    if name is None:
        rows = [
            {"name": key, "title": data.title, "ratings": data.n_ratings, "users": data.n_users, "items": data.n_items,
             "scale": f"{data.scores[0]:g} to {data.scores[-1]:g}"}
            for key, data in DATASETS.items()
        ]  # fmt: skip
        return _show(rows, dataset_table(rows), as_json)
    ratings = load_dataset(name)
    facts = {
        "name": name,
        "ratings": len(ratings),
        "users": len(ratings.users),
        "items": len(ratings.items),
        "scores": ratings.scores.tolist(),
        "titles": ratings.titles is not None,
        "digest": ratings.digest(),
    }
    return _show(facts, f"{name}: {ratings!r}", as_json)


@app.command(epilog="Example: [bold]starcast fit ratings.csv --model bayes --out model.starcast[/bold]")
def fit(
    ratings: Source,
    model: Annotated[str, typer.Option("--model", "-m", help=f"One of: {', '.join(MODELS)}.")] = "resbemf",
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")] = Path("model.starcast"),
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter of the model: name=value.")
    ] = None,
    split: Part = "all",
    sep: Separator = None,
    columns: Columns = None,
    duplicates: Duplicates = "error",
    as_json: Json = False,
) -> None:
    """Fit a model on ratings and write it to a file."""
    chosen = make_model(model, dict(_parameter(text) for text in param or []))
    table = _read(ratings, split, "train", sep, columns, duplicates)
    if "verbose" in chosen.get_params():
        chosen.set_params(verbose=err.is_terminal).fit(table).set_params(verbose=False).save(out_file)
    else:
        chosen.fit(table).save(out_file)
    facts = {
        "model": type(chosen).__name__,
        "params": chosen.get_params(),
        "ratings": len(table),
        "file": str(out_file),
    }
    _show(facts, f"{chosen!r} fitted on {table!r}\nwritten to {out_file}", as_json)


@app.command(epilog="Example: [bold]starcast predict model.starcast 196 242 --threshold 0.5[/bold]")
def predict(
    model: ModelFile,
    user: Annotated[str | None, typer.Argument(help="A user's name.")] = None,
    items: Annotated[list[str] | None, typer.Argument(help="One or more items.")] = None,
    pairs: Annotated[
        Path | None, typer.Option("--pairs", help="A file with a user and an item column instead.")
    ] = None,
    threshold: Threshold = None,
    point: Annotated[str, typer.Option("--point", help="What to predict: mode, median or mean.")] = "mode",
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Forecast ratings: the probability of every score, a prediction, a reliability, or silence."""
    fitted = load(model)
    if (pairs is None) == (user is None or not items):
        raise ParameterError("give a user and at least one item, or a file with --pairs.")
    if pairs is None:
        whom: Any = fitted.parse_users([user or ""])
        what: Any = fitted.parse_items(items or [])
    else:
        user_texts, item_texts = read_pairs(pairs)
        whom, what = fitted.parse_users(user_texts), fitted.parse_items(item_texts)
    frame = fitted.predict(whom, what, threshold, point=point)
    answer = fitted.predict_proba(whom, what)
    if out_file is not None:
        return _write(frame, out_file)
    names = fitted.titles_for(frame["item"].to_list())
    table = forecast_table(names, answer, threshold, point=point, known=frame["known"].to_list())
    probs = [dict(zip(map(str, answer.scores.tolist()), row, strict=True)) for row in answer.probs.tolist()]
    return _show([row | {"probs": p} for row, p in zip(frame.to_dicts(), probs, strict=True)], table, as_json)


@app.command(epilog="Example: [bold]starcast recommend model.starcast 196 -n 5 --threshold 0.5[/bold]")
def recommend(
    model: ModelFile,
    users: Annotated[list[str] | None, typer.Argument(help="Users' names; all users if none is given.")] = None,
    n: Annotated[int, typer.Option("--number", "-n", help="How many items a user.")] = 10,
    threshold: Threshold = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also what the user has rated already.")] = False,
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Recommend items to some users or to all, the most promising of the reliable ones first."""
    fitted = load(model)
    whom = fitted.parse_users(users) if users else None
    with Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("recommending", total=None)
        frame = fitted.recommend(
            whom, n, threshold, exclude_seen=not include_seen,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )  # fmt: skip
    if out_file is not None:
        return _write(frame, out_file)
    return _show(frame.to_dicts(), recommendation_table(frame.to_dicts()), as_json)


@app.command("evaluate", epilog="Example: [bold]starcast evaluate model.starcast ml-100k --split benchmark[/bold]")
def evaluate_command(
    model: ModelFile,
    ratings: Source,
    threshold: Annotated[
        list[float] | None, typer.Option("--threshold", "-t", help="θ; may be given many times.")
    ] = None,
    relevant: Annotated[float | None, typer.Option("--relevant", help="The least rating of a relevant item.")] = None,
    split: Part = "all",
    sep: Separator = None,
    columns: Columns = None,
    duplicates: Duplicates = "error",
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Measure a model on test ratings: the paper's four measures at each θ, and those without a threshold."""
    fitted = load(model)
    test = _read(ratings, split, "test", sep, columns, duplicates)
    if test.digest() == fitted.digest_:
        err.print(
            "[yellow]note:[/yellow] these are the ratings that the model was fitted on, so the figures flatter it."
        )
    with err.status("evaluating"):
        results = evaluate(fitted, test, threshold or THRESHOLDS, relevant=relevant)
    if out_file is not None:
        return _write(results.to_frame(), out_file)
    if as_json:
        return _show(results.rows, None, as_json)
    out.print(threshold_table(results, metrics.PAPER_MEASURES, f"[bold]{test!r}[/bold]"))
    out.print()
    overall = [name for name in results.columns if name not in ("model", "threshold", *metrics.PAPER_MEASURES)]
    return out.print(overall_table(results, overall, "[bold]No threshold[/bold], smaller is better"))


@app.command(epilog="Example: [bold]starcast demo --out report.html[/bold]")
def demo(
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path(
        "starcast-report.html"
    ),
    as_json: Json = False,
) -> None:
    """Fit every model on a real sample of MovieLens, compare them, forecast real films, write a report page."""
    from starcast.demo import run_demo  # drawing is an extra

    found = run_demo(err if as_json else out, out_file)
    if as_json:
        _show({"best": found.best, "report": str(out_file), "results": found.results.rows}, None, as_json)


@app.command(epilog="Example: [bold]starcast doctor --json[/bold]")
def doctor(as_json: Json = False) -> None:
    """Tell what is installed, what is missing and how to get it."""
    checks = examine()
    _show([vars(check) for check in checks], examination_table(checks), as_json)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(f"starcast {starcast.__version__}", highlight=False)
        raise typer.Exit


def _read(source: str, split: str, part: str, sep: str | None, columns: str | None, duplicates: str) -> Ratings:
    """Return the ratings of a data set or of a file, all or one part of them."""
    choose("split", split, ["all", "benchmark"])
    with err.status(f"reading {source}"):
        if source in DATASETS and not Path(source).is_file():
            table = load_dataset(source)
        else:
            chosen = [int(name) if name.isdecimal() else name for name in columns.split(",")] if columns else None
            table = read_ratings(source, sep=sep, columns=chosen, duplicates=duplicates)
        return table if split == "all" else getattr(benchmark_split(table), part)


def _parameter(text: str) -> tuple[str, Any]:
    """Return name and value of ``name=value``; a value that reads as JSON (5, 0.1, true, null) is one."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ParameterError(f"a parameter must read name=value, got {text!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _write(frame: Any, path: Path) -> None:
    """Write a table in the format that the ending of the file names."""
    with replacing(path) as temporary:
        getattr(frame, WRITERS[path.suffix.lower()])(temporary)
    err.print(f"{len(frame):,} rows written to {path}", highlight=False)


def _show(data: Any, table: Any, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(_plain(data), allow_nan=False, ensure_ascii=False) + "\n")
    else:
        out.print(table)


def _plain(value: Any) -> Any:
    """Return what JSON can hold: NaN and infinity, which it cannot, become null."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value
