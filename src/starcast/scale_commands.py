"""The commands for many ratings and many users: a table cut into shards, lists for some or for all."""

import contextlib
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from starcast.console import (
    AS_FOUND,
    Json,
    ModelFile,
    NewRatings,
    Reading,
    Scores,
    Threshold,
    check_ending,
    err,
    fold_file,
    note,
    out,
    parse_names,
    parse_scores,
    parse_threshold,
    reads_ratings,
    show,
    write_table,
)
from starcast.distributed.cutting import cut_ratings
from starcast.distributed.engine import RayEngine
from starcast.distributed.lists import recommend_all
from starcast.distributed.shardfiles import MANIFEST
from starcast.distributed.shards import Shards
from starcast.errors import ClusterWarning, ParameterError, choose, plural
from starcast.files import is_file
from starcast.models import Model, load
from starcast.models.ranking import codes_of
from starcast.terminal import recommendation_table

Engine = Annotated[str | None, typer.Option("--engine", help="ray: work on a Ray cluster; see the docs on scale.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Workers of the engine.")]
State = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="A folder for the state of a fit by an engine, which goes on from there."),
]


def make_engine(name: str | None, workers: int | None, checkpoint: Path | None) -> RayEngine | None:
    """Return the engine that the options of a fit ask for; None is this machine alone."""
    if name is None:
        if workers is not None or checkpoint is not None:
            option = "--workers" if workers is not None else "--checkpoint"
            raise ParameterError(f"{option} needs an engine. Add --engine ray.")
        return None
    choose("engine", name, ["ray"])
    return RayEngine(workers=2 if workers is None else workers, checkpoint=checkpoint)


def open_shards(source: str, engine: RayEngine | None, is_whole_wanted: bool, given: Sequence[str]) -> Shards | None:
    """Return the shards that `starcast shards` left in a folder, if the source is one; they have been read already.

    `given` are the options about reading that were given.
    """
    if not (Path(source) / MANIFEST).is_file():
        return None
    if engine is None:
        raise ParameterError(f"{source} holds shards, which are fitted by an engine. Add --engine ray.")
    if is_whole_wanted:
        raise ParameterError(f"--calibrate and --split need a table in memory, got the shards in {source}.")
    if given:
        raise ParameterError(
            f"{' and '.join(given)} must be given to `starcast shards`, which has read the ratings in {source}."
        )
    found = Shards.open(source)
    return found.recut(min(engine.workers, len(found.users)))


@contextlib.contextmanager
def losses_told() -> Iterator[None]:
    """Say what becomes of lost workers when it happens, in a line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ClusterWarning)
        show_others = warnings.showwarning

        def tell(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, ClusterWarning):
                note(str(message))
            else:
                show_others(message, category, *where, **more)

        warnings.showwarning = tell
        yield


@reads_ratings
def shards(
    ratings: Annotated[list[str], typer.Argument(metavar="RATINGS...", help="Files, patterns or folders.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="A new folder.")],
    memory: Annotated[str, typer.Option("--memory", help="What ratings may take of it, such as 500MB.")] = "1GB",
    scores: Scores = None,
    reading: Reading = AS_FOUND,
    engine: Engine = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Cut ratings that need not fit in memory into a folder that a fit on many machines reads."""
    with losses_told(), err.status("reading") as status:
        table = cut_ratings(
            ratings, folder, memory=memory, scores=parse_scores(scores), **reading.arguments(),
            engine=engine, workers=workers, on_progress=lambda doing, done: status.update(f"{doing}: {done:,} done"),
        )  # fmt: skip
    facts = {
        "folder": str(folder),
        "ratings": table.n_ratings,
        "users": len(table.users),
        "items": len(table.items),
        "scores": table.scores.tolist(),
        "digest": table.digest,
        "skipped": table.n_skipped,
    }
    if table.n_skipped:
        note(f"left out {plural(table.n_skipped, 'line')} that could not be read.")
    counted = f"{plural(table.n_ratings, 'rating')} of {plural(len(table.users), 'user')}"
    show(facts, f"{counted} and {plural(len(table.items), 'item')} written to {folder}", as_json)


@reads_ratings
def recommend(
    model: ModelFile,
    users: Annotated[list[str] | None, typer.Argument(help="Users' names; all users if none is given.")] = None,
    n: Annotated[int, typer.Option("--number", "-n", help="How many items a user.")] = 10,
    threshold: Threshold = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also what the user has rated already.")] = False,
    exclude: Annotated[
        str | None, typer.Option("--exclude", help="Items never to list: a file with one a line, or 1,2,3.")
    ] = None,
    candidates: Annotated[
        str | None, typer.Option("--candidates", help="The items to choose from: a file with one a line, or 1,2,3.")
    ] = None,
    ratings: NewRatings = None,
    reading: Reading = AS_FOUND,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write here: a table (.csv, .parquet, .json), or Parquet parts to a folder."),
    ] = None,
    users_per_part: Annotated[
        int | None, typer.Option("--users-per-part", help="Users in a part of a folder; by default 500 to 50,000.")
    ] = None,
    engine: Engine = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Recommend items to some users or to all, the most promising of the reliable ones first."""
    to_folder = out_file is not None and not out_file.suffix
    if (engine is not None or workers is not None) and (not to_folder or users or ratings):
        raise ParameterError("an engine recommends to all users of the model, to a folder: --out lists/ --engine ray")
    if to_folder and (exclude is not None or candidates is not None):
        raise ParameterError(
            f"--exclude and --candidates are for a table: give {out_file} an ending, such as .csv or .parquet."
        )
    if users_per_part is not None and (not to_folder or users or ratings):
        raise ParameterError("--users-per-part is for the lists of all users in a folder: --out lists/")
    with losses_told(), Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("recommending", total=None)

        def tell(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        if to_folder and out_file is not None and not users and ratings is None:
            files = recommend_all(
                model, out_file, n, parse_threshold(threshold), exclude_seen=not include_seen,
                users_per_part=users_per_part, engine=engine, workers=workers, on_progress=tell,
            )  # fmt: skip
            err.print(f"{plural(len(files), 'part')} in {out_file}", highlight=False)
            facts = {"folder": str(out_file), "parts": [str(file) for file in files]}
            return show(facts, "", as_json) if as_json else None
        if to_folder:
            raise ParameterError(
                "a folder takes the lists of all users of the model, a table those of some: give "
                f"{out_file} an ending, such as .csv or .parquet."
            )
        check_ending(out_file)
        fitted = load(model) if ratings is None else fold_file(load(model), ratings, reading)
        whom = fitted.parse_users(users) if users else None
        if whom is not None and len(whom) == 1:
            codes_of(fitted, whom, "user")  # one unknown user is a typing mistake; in a batch, a newcomer
        frame = fitted.recommend(
            whom, n, parse_threshold(threshold), exclude_seen=not include_seen,
            candidates=_choice(fitted, candidates, exclude), on_progress=tell,
        )  # fmt: skip
    if out_file is not None:
        return write_table(frame, out_file)
    return show(frame.to_dicts(), recommendation_table(frame.to_dicts(), out.width, threshold is not None), as_json)


def _choice(model: Model, candidates: str | None, exclude: str | None) -> list[Any] | None:
    """Return the items to choose from, without those that are never to be listed; None is all."""
    if candidates is None and exclude is None:
        return None
    known = dict.fromkeys(model.items_[model.item_counts_ > 0].tolist())
    chosen = known if candidates is None else _known_items(model, candidates, known, "candidate")
    never = {} if exclude is None else _known_items(model, exclude, known, "excluded item")
    return [item for item in chosen if item not in never]


def _known_items(model: Model, text: str, known: Collection[Any], what: str) -> dict[Any, None]:
    """Return the items of a list or file that the model knows, and tell how many it does not."""
    items = model.parse_items(parse_names(text))
    unknown = [item for item in items if item not in known]
    if unknown and len(unknown) == len(items) and "," not in text and not is_file(text):
        raise ParameterError(f"there is no file {text} and no item of that name.")
    if unknown:
        count = f"{len(unknown):,} of {plural(len(items), what)}"
        note(f"left out {count} that the model does not know, such as {unknown[0]!r}.")
    return dict.fromkeys(item for item in items if item in known)
