"""The command line: one short function a command, exit code 2 and one line for a user's mistake."""

import functools
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

import starcast
from starcast import metrics
from starcast.console import (
    AS_FOUND,
    Command,
    Device,
    Item,
    Json,
    ModelFile,
    NewRatings,
    Out,
    Pairs,
    Part,
    Reading,
    Scores,
    Source,
    Threshold,
    Titles,
    User,
    err,
    fold_file,
    is_dataset,
    note,
    out,
    parse_parameter,
    parse_scores,
    parse_threshold,
    read_for,
    read_question,
    read_source,
    reads_ratings,
    show,
    write_table,
)
from starcast.datasets import DATASETS, load_dataset
from starcast.distribution import Distribution
from starcast.doctor import examination_table, examine, examine_file
from starcast.errors import ParameterError, StarcastError, choose, plural
from starcast.evaluate import THRESHOLDS, evaluate
from starcast.files import check_target
from starcast.front import Front
from starcast.models import MODELS, load, make_model
from starcast.progress import progress_bar
from starcast.ratings import Ratings
from starcast.reproduce import EXPERIMENTS, FACTORIZATIONS
from starcast.reproduce.run import Run
from starcast.reproduction import (
    FOLDER,
    STAGES,
    USUAL_STAGES,
    facts,
    outcome,
    parse_datasets,
    reproduce,
    reproduce_all,
)
from starcast.scale_commands import Engine, State, Workers, losses_told, make_engine, open_shards, recommend, shards
from starcast.search import METHODS, search
from starcast.serve_command import serve
from starcast.sound_report import reproduce_soundly, sound_facts, sound_table
from starcast.spaces import paper_space, read_space
from starcast.streams import flush_output, prepare_streams, visible
from starcast.terminal import (
    dataset_table,
    explanation_table,
    forecast_table,
    front_table,
    overall_table,
    threshold_table,
)
from starcast.trust import calibrate
from starcast.trust_commands import sets, threshold

app = typer.Typer(
    help="Star ratings as forecasts: collaborative filtering that says how sure it is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)


command = functools.partial(app.command, cls=Command)


def main() -> None:
    """Run the command line."""
    prepare_streams()
    try:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: note(str(message))  # without the line that warns
                app(prog_name="starcast")
        finally:
            flush_output()
    except StarcastError as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(
            f"there is not enough memory{f': {error}' if str(error) else ''}. Use fewer ratings or smaller parameters."
        )
    except (OverflowError, RecursionError) as error:
        _fail(f"a parameter or a file asks for more than can be computed: {error}.")
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _fail(f"the operating system refused to read or write: {error.strerror or error}{where}.")


def _fail(message: str) -> None:
    """Print one line for a mistake and exit with code 2."""
    line = visible(" ".join(message.split("\n")))
    err.print(Text.assemble(("error:", "bold red"), f" {line}"), soft_wrap=True, highlight=False)
    sys.exit(2)


@command(epilog="Example: [bold]starcast datasets ml-100k[/bold]")
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
        return show(rows, dataset_table(rows), as_json)
    ratings = load_dataset(name)
    facts = {"name": name, "ratings": len(ratings), "users": len(ratings.users), "items": len(ratings.items)}
    facts |= {"scores": ratings.scores.tolist(), "titles": ratings.titles is not None, "digest": ratings.digest()}
    return show(facts, f"{name}: {ratings!r}", as_json)


@command(epilog="Example: [bold]starcast fit ratings.csv --model bayes --out model.starcast[/bold]")
@reads_ratings
def fit(
    ratings: Source,
    model: Annotated[str, typer.Option("--model", "-m", help=f"One of: {', '.join(MODELS)}.")] = "ordinalmf",
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")] = Path("model.starcast"),
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter of the model: name=value.")
    ] = None,
    calibrated: Annotated[bool, typer.Option("--calibrate", help="Recalibrate by 10-fold cross-fitting.")] = False,
    split: Part = "all",
    scores: Scores = None,
    titles: Titles = None,
    reading: Reading = AS_FOUND,
    engine: Engine = None,
    workers: Workers = None,
    checkpoint: State = None,
    as_json: Json = False,
) -> None:
    """Fit a model on ratings and write it to a file. The seed is 0; -p random_state=1 takes another."""
    given = dict(parse_parameter(text) for text in param or [])
    seed = {"random_state": 0} if "random_state" in make_model(model).get_params() else {}
    chosen = make_model(model, seed | given)
    check_target(out_file)
    crew = make_engine(engine, workers, checkpoint)
    table: Any = open_shards(
        ratings, crew, calibrated or split != "all", [*reading.given(), *_own_scale(ratings, scores, titles)]
    )
    if table is None:
        table = read_source(ratings, split, "train", reading, scores=parse_scores(scores), titles=titles)
    if calibrated and len(table) < 10:
        raise ParameterError(
            f"--calibrate cuts the ratings into 10 folds, and there are {plural(len(table), 'rating')}."
        )
    is_long = "verbose" in chosen.get_params()
    if is_long and isinstance(table, Ratings):
        expected = chosen.estimate(table)
        chosen._check_memory(table)  # as the fit will; a model on another device leaves it to the fit
        note(f"{type(chosen).__name__} will take {expected}", kind="")
    with losses_told():
        chosen.set_params(**({"verbose": True} if is_long else {})).fit(table, engine=crew)
    chosen.set_params(**({"verbose": False} if is_long else {}))
    if calibrated:
        with err.status("calibrating" if crew is None else "calibrating, ten fits on this machine alone"):
            chosen = calibrate(chosen, table)
    chosen.save(out_file)
    facts = {"model": type(chosen).__name__, "params": chosen.get_params(), "ratings": len(chosen.seen_items_)}
    facts |= {"skipped": table.n_skipped, "file": str(out_file), "bytes": out_file.stat().st_size}
    facts |= {"calibration_gain": chosen.calibration_gain_} if calibrated else {}
    told = f"\ncalibrated: {chosen.calibration_gain_:.4f} nats a held-out rating gained" if calibrated else ""
    by = "" if crew is None else f" by {plural(crew.workers, 'worker')}"
    show(facts, f"{chosen!r} fitted on {table!r}{by}{told}\nwritten to {out_file}", as_json)


def _own_scale(source: str, scores: str | None, titles: Path | None) -> list[str]:
    """Return which of the options that a data set does not take were given."""
    given = [name for name, value in (("--scores", scores), ("--titles", titles)) if value is not None]
    if given and is_dataset(source):
        raise ParameterError(
            f"{source} is a data set with a scale and titles of its own. Leave out {' and '.join(given)}."
        )
    return given


@command(epilog="Example: [bold]starcast update model.starcast new.csv --out newer.starcast[/bold]")
@reads_ratings
def update(
    model: ModelFile,
    ratings: Source,
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write the model; in its place if not given.")
    ] = None,
    titles: Titles = None,
    reading: Reading = AS_FOUND,
    as_json: Json = False,
) -> None:
    """Add new ratings, users and items to a fitted model, without a new fit where the model allows it."""
    target = out_file or model
    check_target(target)
    fitted = load(model)
    table = read_for(fitted, ratings, reading=reading, titles=titles)
    before = (len(fitted.seen_items_), len(fitted.users_), len(fitted.items_))
    with err.status("learning"):
        fitted.partial_fit(table)
    fitted.save(target)
    after = (len(fitted.seen_items_), len(fitted.users_), len(fitted.items_))
    added = [now - then for now, then in zip(after, before, strict=True)]
    facts = {"model": type(fitted).__name__, "ratings": len(table), "skipped": table.n_skipped}
    facts |= {"new_ratings": added[0], "new_users": added[1], "new_items": added[2], "file": str(target)}
    told = f"{plural(len(table), 'rating')} learnt: {added[0]:,} new, {len(table) - added[0]:,} in place of older ones"
    told += f"; {plural(added[1], 'new user')}, {plural(added[2], 'new item')}"
    show(facts, f"{told}\nwritten to {target}", as_json)


@command(epilog="Example: [bold]starcast predict model.starcast 196 242 --threshold 0.5[/bold]")
def predict(
    model: ModelFile,
    user: User = None,
    items: Item = None,
    pairs: Pairs = None,
    threshold: Threshold = None,
    point: Annotated[str, typer.Option("--point", help="What to predict: mode, median or mean.")] = "mode",
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Forecast ratings: the probability of every score, a prediction, a reliability, or silence."""
    fitted = load(model)
    whom, what = read_question(fitted, user, items, pairs)
    theta = parse_threshold(threshold)
    frame = fitted.predict(whom, what, theta, point=point)
    answer = fitted.predict_proba(whom, what)
    if out_file is not None:
        return write_table(with_probabilities(frame, answer), out_file)
    items_asked = frame["item"].to_list()
    names = fitted.titles_for(items_asked)
    table = forecast_table(
        names, answer, theta, point=point, known=frame["known"].to_list(), width=out.width,
        users=None if pairs is None else frame["user"].to_list(),
        ids=items_asked,
    )  # fmt: skip
    probs = [dict(zip(map(str, answer.scores.tolist()), row, strict=True)) for row in answer.probs.tolist()]
    return show([row | {"probs": p} for row, p in zip(frame.to_dicts(), probs, strict=True)], table, as_json)


def with_probabilities(frame: Any, answer: Distribution) -> Any:
    """Return a table of predictions with a column for the probability of each score: p_1, p_2, …"""
    return frame.with_columns(answer.to_frame().select("^p_.*$"))


@command(epilog="Example: [bold]starcast explain model.starcast 196 242[/bold]")
@reads_ratings
def explain(
    model: ModelFile,
    user: Annotated[str, typer.Argument(metavar="USER", help="A user's name.")],
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An item.")],
    n: Annotated[int, typer.Option("--number", "-n", help="How many ratings.")] = 5,
    ratings: NewRatings = None,
    reading: Reading = AS_FOUND,
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Tell which of a user's ratings moved a forecast most, and which way."""
    fitted = load(model) if ratings is None else fold_file(load(model), ratings, reading)
    asked = fitted.parse_items([item])
    frame = fitted.explain(fitted.parse_users([user]), asked, n)
    if out_file is not None:
        return write_table(frame, out_file)
    rows = frame.to_dicts()
    return show(rows, explanation_table(rows, fitted.titles_for(asked)[0], out.width), as_json)


@command("evaluate", epilog="Example: [bold]starcast evaluate model.starcast ml-100k --split benchmark[/bold]")
@reads_ratings
def evaluate_command(
    model: ModelFile,
    ratings: Source,
    threshold: Annotated[
        list[float] | None, typer.Option("--threshold", "-t", help="θ; may be given many times.")
    ] = None,
    relevant: Annotated[float | None, typer.Option("--relevant", help="The least rating of a relevant item.")] = None,
    split: Part = "all",
    reading: Reading = AS_FOUND,
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Measure a model on test ratings: the paper's four measures at each θ, and those without a threshold."""
    fitted = load(model)
    test = read_for(fitted, ratings, split, reading)
    if test.digest() == fitted.digest_:
        note("these are the ratings that the model was fitted on, so the figures flatter it.")
    with err.status("evaluating"):
        results = evaluate(fitted, test, threshold or THRESHOLDS, relevant=relevant)
    if out_file is not None:
        return write_table(results.to_frame(), out_file)
    overall = [name for name in results.columns if name not in ("model", "threshold", *metrics.PAPER_MEASURES)]
    tables = Group(
        threshold_table(results, metrics.PAPER_MEASURES, f"[bold]{test!r}[/bold]"),
        "",
        overall_table(results, overall, "[bold]No threshold[/bold], smaller is better"),
    )
    return show(results.rows, tables, as_json)


@command("search", epilog="Example: [bold]starcast search ml-100k --space paper --out trials.csv[/bold]")
@reads_ratings
def search_command(
    ratings: Source,
    space: Annotated[str, typer.Option("--space", help="A JSON file; paper; or paper:DATASET, that of a data set.")],
    model: Annotated[str, typer.Option("--model", "-m", help=f"One of: {', '.join(MODELS)}.")] = "resbemf",
    method: Annotated[str, typer.Option("--method", help=f"One of: {', '.join(METHODS)}.")] = "random",
    trials: Annotated[int | None, typer.Option("--trials", help="How many; by default every setting.")] = None,
    objective: Annotated[
        list[str] | None, typer.Option("--objective", help="Such as nll or 1-MAE@0.5; may be given many times.")
    ] = None,
    folds: Annotated[str, typer.Option("--folds", help="A number of random folds, or paper for its five.")] = "5",
    storage: Annotated[str | None, typer.Option("--storage", help="Keep trials here, to stop and go on.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes at work.")] = 1,
    engine: Engine = None,
    workers: Workers = None,
    seed: Annotated[int, typer.Option("--seed", help="Seeds folds, draws and models.")] = 0,
    split: Part = "all",
    scores: Scores = None,
    reading: Reading = AS_FOUND,
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Try hyper-parameters on folds; tell which settings no other beats."""
    goals = objective or ["nll"]
    chosen = read_space(space) if not space.startswith("paper") else paper_space(model, space[6:] or ratings)
    _own_scale(ratings, scores, None)
    table = read_source(ratings, split, "train", reading, scores=parse_scores(scores))
    results = search(
        model, table, chosen, objectives=goals, n_trials=trials, method=method, n_jobs=jobs, storage=storage,
        engine=engine, workers=workers,
        cv=int(folds) if folds.isdecimal() else folds, random_state=seed, verbose=True,
    )  # fmt: skip
    if out_file is not None:
        return write_table(results.to_frame(), out_file)
    tried = [name for name, values in chosen.items() if isinstance(values, tuple) or len(values) > 1]
    return show(results.rows, front_table(Front(results, goals).rows, tried, goals, len(results)), as_json)


@command("reproduce", epilog="Example: [bold]starcast reproduce filmtrust --models resbemf --limit 20[/bold]")
def reproduce_command(
    dataset: Annotated[
        str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}; several with commas; all for every one.")
    ],
    stage: Annotated[
        list[str] | None,
        typer.Option(
            "--stage", "-s", help=f"One of: {', '.join(STAGES)}; may be given many times; by default all but neural."
        ),
    ] = None,
    models: Annotated[str, typer.Option("--models", "-m", help="Models, with commas.")] = ",".join(FACTORIZATIONS),
    folder: Annotated[Path, typer.Option("--out", "-o", help="The folder of the results.")] = FOLDER,
    compare: Annotated[Path | None, typer.Option("--compare", help="The folder of the published results.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Cores to use; all if not given.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="For a trial: about so many rows of each model.")] = None,
    protocol: Annotated[str, typer.Option("--protocol", help="paper: its rules; sound: rules to defend.")] = "paper",
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Run the paper's experiments again: search, test curves, fitting times, figures. Goes on where it was stopped.

    Several data sets get a page across them, too. With --protocol sound every model answers the same questions by rules
    that can be defended; see the docs.
    """
    if choose("protocol", protocol, ["paper", "sound"]) == "sound":
        with err.status("starting") as status:
            sound = {
                name: reproduce_soundly(name, folder, on_progress=status.update) for name in parse_datasets(dataset)
            }
        told = {name: sound_facts(found) for name, found in sound.items()}
        return show(told.get(dataset, told), Group(*(sound_table(found) for found in sound.values())), as_json)
    runs = [
        Run(name, folder, tuple(models.split(",")), compare, jobs, limit, device) for name in parse_datasets(dataset)
    ]
    stages, bar = stage or USUAL_STAGES, lambda title: progress_bar(title, err.is_terminal)
    found = reproduce_all(runs, stages, bar=bar) if len(runs) > 1 else [reproduce(runs[0], stages, bar=bar)]
    return show(facts(runs, found), outcome(runs, found), as_json)


@command(epilog="Example: [bold]starcast demo --out report.html[/bold]")
def demo(
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write it.")] = Path("starcast-report.html"),
    as_json: Json = False,
) -> None:
    """Fit every model on a real sample of MovieLens, compare them, forecast real films, write a report page."""
    from starcast.demo import run_demo  # drawing is an extra

    check_target(out_file)
    found = run_demo(err if as_json else out, out_file)
    if as_json:
        show({"best": found.best, "report": str(out_file), "results": found.results.rows}, None, as_json)


@command(epilog="Example: [bold]starcast doctor model.starcast[/bold]")
def doctor(
    file: Annotated[Path | None, typer.Argument(help="A model file to check, every byte of it.")] = None,
    as_json: Json = False,
) -> None:
    """Tell what is installed, what is missing and how to get it, or whether a model file is undamaged."""
    checks = examine() if file is None else examine_file(file)
    show([vars(check) for check in checks], examination_table(checks), as_json)


command(epilog="Example: [bold]starcast recommend model.starcast 196 -n 5 --threshold 0.5[/bold]")(recommend)
command(epilog="Example: [bold]starcast shards ratings-*.parquet --out table --memory 1GB[/bold]")(shards)
command(epilog="Example: [bold]starcast threshold model.starcast new.csv --accuracy 0.6[/bold]")(threshold)
command(epilog="Example: [bold]starcast sets model.starcast new.csv 196 242 --alpha 0.2[/bold]")(sets)
command(epilog="Example: [bold]starcast serve model.starcast --port 8080[/bold]")(serve)

ORDER = [
    "demo", "datasets", "fit", "update", "predict", "recommend", "explain", "evaluate", "threshold", "sets", "search",
    "serve", "shards", "reproduce", "doctor",
]  # fmt: skip
app.registered_commands.sort(key=lambda made: ORDER.index(made.name or made.callback.__name__))  # type: ignore[union-attr]


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(f"starcast {starcast.__version__}", highlight=False)
        raise typer.Exit
