"""The commands of the command line that make promises."""

import dataclasses
from typing import Annotated

import typer

from starcast.console import (
    AS_FOUND,
    Item,
    Json,
    ModelFile,
    Out,
    Pairs,
    Part,
    Reading,
    Source,
    User,
    err,
    out,
    read_for,
    read_question,
    reads_ratings,
    show,
    write_table,
)
from starcast.models import load
from starcast.terminal import set_table
from starcast.trust import Threshold, choose_threshold, conformal

NAMES = {"mode": "the probability of the mode", "error": "the 1-MAE that is expected"}


@reads_ratings
def threshold(
    model: ModelFile,
    ratings: Source,
    accuracy: Annotated[float | None, typer.Option("--accuracy", help="The least share of exact predictions.")] = None,
    mae: Annotated[float | None, typer.Option("--mae", help="The largest mean absolute error, in stars.")] = None,
    coverage: Annotated[float | None, typer.Option("--coverage", help="The least share that is predicted.")] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="How sure the promise must be.")] = 0.9,
    kind: Annotated[str, typer.Option("--kind", help="What θ is compared with: mode, error or share.")] = "mode",
    point: Annotated[str, typer.Option("--point", help="What is predicted: mode, median or mean.")] = "mode",
    unit: Annotated[str, typer.Option("--unit", help="What counts alike: rating or user.")] = "rating",
    split: Part = "all",
    reading: Reading = AS_FOUND,
    as_json: Json = False,
) -> None:
    """Find the θ that keeps a promise on new ratings, from ratings that the model has not seen."""
    fitted = load(model)
    table = read_for(fitted, ratings, split, reading)
    with err.status("testing thresholds"):
        found = choose_threshold(
            fitted, table, accuracy=accuracy, mae=mae, coverage=coverage,
            confidence=confidence, kind=kind, point=point, unit=unit,
        )  # fmt: skip
    show(dataclasses.asdict(found), _told(found), as_json)


@reads_ratings
def sets(
    model: ModelFile,
    ratings: Source,
    user: User = None,
    items: Item = None,
    pairs: Pairs = None,
    alpha: Annotated[float, typer.Option("--alpha", "-a", help="The share of sets that may miss.")] = 0.1,
    by: Annotated[str | None, typer.Option("--by", help="activity: keep the promise in groups of users.")] = None,
    groups: Annotated[int, typer.Option("--groups", help="How many groups.")] = 4,
    split: Part = "all",
    reading: Reading = AS_FOUND,
    out_file: Out = None,
    as_json: Json = False,
) -> None:
    """Give runs of scores that hold the rating as often as promised, from ratings that the model has not seen."""
    fitted = load(model)
    whom, what = read_question(fitted, user, items, pairs)
    table = read_for(fitted, ratings, split, reading)
    frame = conformal(fitted, table, alpha, by=by, n_groups=groups).predict(whom, what)
    if out_file is not None:
        return write_table(frame, out_file)
    names = fitted.titles_for(frame["item"].to_list())
    users = None if pairs is None else frame["user"].to_list()
    return show(frame.to_dicts(), set_table(names, frame.to_dicts(), alpha, users, out.width), as_json)


def _told(found: Threshold) -> str:
    side = "at most" if found.promise == "mae" else "at least"
    number = f"{found.threshold:.3f}"
    exact = number if float(number) == found.threshold else repr(found.threshold)  # a rounded one promises nothing
    given = exact if found.kind == "mode" else f"{found.kind}:{exact}"
    return (
        f"θ = {found.threshold:.3f}, for {NAMES[found.kind]}; use it as -t {given}\n"
        f"{found.promise} {side} {found.target:g} with a confidence of {found.confidence:g}, every {found.unit} alike\n"
        f"on {found.n_ratings:,} ratings: {found.promise} {found.observed:.3f}, surely {side} {found.bound:.3f}, "
        f"coverage {found.coverage:.1%}"
    )
