"""What people see in a terminal: little bars, tables, one line for a mistake."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

from starcast.distribution import Distribution, kind_of
from starcast.results import Results

BLOCKS = "▁▂▃▄▅▆▇█"
KEPT, WITHHELD = "green", "bright_black"


def bars(probs: npt.ArrayLike) -> str:
    """Return one bar per score, the likeliest as high as a line.

    >>> bars([0.0, 0.1, 0.3, 0.6])
    '▁▂▅█'
    """
    heights = np.asarray(probs, np.float64)
    top = heights.max()
    steps = np.rint(heights / (top if top > 0 else 1) * (len(BLOCKS) - 1)).astype(int)
    return "".join(BLOCKS[step] for step in steps)


def number(value: Any, digits: int = 3) -> str:
    """Return a figure as people read it: '—' where it is undefined.

    >>> number(0.12345), number(float("nan")), number(4.0, 1)
    ('0.123', '—', '4.0')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "—"
    return f"{value:.{digits}f}"


def threshold_table(results: Results, measures: Iterable[str], title: str) -> Table:
    """Return a table with a row per model and threshold, a line between models."""
    measures = list(measures)
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("model")
    for name in ("θ", *measures):
        table.add_column(name, justify="right")
    before = None
    for row in results:
        model = row["model"] if row["model"] != before else ""
        if model and before is not None:
            table.add_section()
        before = row["model"]
        silent = row.get("coverage") == 0
        table.add_row(
            model, f"{row['threshold']:.2f}", *(number(row[name]) for name in measures), style="dim" if silent else ""
        )
    return table


def overall_table(results: Results, measures: Sequence[str], title: str) -> Table:
    """Return a table with a row per model; the best figure of each column is bold (smaller is better in all)."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("model")
    for name in measures:
        table.add_column(name.upper(), justify="right")
    rows = list({row["model"]: row for row in results}.values())
    best = {name: min((row[name] for row in rows if not math.isnan(row[name])), default=None) for name in measures}
    for row in rows:
        cells = (Text(number(row[name]), style="bold" if row[name] == best[name] else "") for name in measures)
        table.add_row(row["model"], *cells)
    return table


def forecast_table(
    names: Sequence[str],
    answer: Distribution,
    threshold: float | None,
    *,
    point: str = "mode",
    truth: Sequence[float] | None = None,
    known: Sequence[bool] | None = None,
    title: str = "",
    users: Sequence[Any] | None = None,
) -> Table:
    """Return a table with a forecast per row: bars over the scores, prediction, reliability, the rating if known.

    `users` are those of the rows, where they are not all the same.
    """
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 1))
    if users is not None:
        table.add_column("user", overflow="ellipsis", no_wrap=True, max_width=20)
    table.add_column("item", overflow="ellipsis", no_wrap=True, max_width=34)
    table.add_column(f"{answer.scores[0]:g}–{answer.scores[-1]:g}", no_wrap=True, min_width=len(answer.scores))
    table.add_column("forecast", justify="right", no_wrap=True, min_width=8)
    table.add_column("reliable", justify="right", no_wrap=True, min_width=8)
    if truth is not None:
        table.add_column("rated", justify="right")
    prediction, reliability = answer.point(point), answer.reliability(kind_of(threshold))
    keep = answer.keep(threshold if threshold is not None else 0.0)
    for at, name in enumerate(names):
        note = "" if known is None or known[at] else " (unknown pair)"
        shown = number(float(prediction[at]), 1 if point != "mean" else 2) if keep[at] else "withheld"
        cells: list[str | Text] = [Text(name + note), bars(answer.probs[at]), shown, f"{reliability[at]:.0%}"]
        if users is not None:
            cells.insert(0, Text(str(users[at])))
        if truth is not None:
            cells.append(f"{truth[at]:g}")
        table.add_row(*cells, style=KEPT if keep[at] else WITHHELD)
    return table


def recommendation_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return recommendations as a table; the user is told once a list."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2))
    for name, side in (("user", "left"), ("rank", "right"), ("item", "left"), ("prediction", "right"),
                       ("mean", "right"), ("reliability", "right")):  # fmt: skip
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    before = None
    for row in rows:
        user = "" if row["user"] == before else str(row["user"])
        before = row["user"]
        table.add_row(
            Text(user), str(row["rank"]), Text(str(row.get("title") or row["item"])), f"{row['prediction']:g}",
            f"{row['mean']:.2f}", f"{row['reliability']:.0%}",
        )  # fmt: skip
    if not rows:
        table.caption = "Nothing is reliable enough. Lower the threshold."
    return table


def explanation_table(rows: Sequence[dict[str, Any]], name: str) -> Table:
    """Return the ratings that moved a forecast, and how far each moved its mean."""
    title = Text(f"what moved the forecast for {name}")
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("item", overflow="ellipsis", no_wrap=True, max_width=46)
    for column in ("rating", "mean", "probability"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        item = Text(str(row.get("title") or row["item"]))
        table.add_row(item, f"{row['rating']:g}", f"{row['shift']:+.3f}", f"{row['moved']:.1%}")
    return table


def set_table(names: Sequence[str], rows: Sequence[dict[str, Any]], alpha: float) -> Table:
    """Return rating sets as a table."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("item", overflow="ellipsis", no_wrap=True, max_width=34)
    table.add_column(f"{1 - alpha:.0%} set", justify="right", no_wrap=True)
    for name, row in zip(names, rows, strict=True):
        scores = f"{row['low']:g}" if row["size"] == 1 else f"{row['low']:g} to {row['high']:g}"
        table.add_row(Text(name + ("" if row["known"] else " (unknown pair)")), scores)
    return table


def front_table(
    rows: Sequence[dict[str, Any]], params: Sequence[str], objectives: Sequence[str], n_trials: int
) -> Table:
    """Return the trials of a search that no other beats, in their order."""
    title = f"[bold]{len(rows)} of {n_trials:,} trials[/bold] that no other beats"
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2))
    for name in ("trial", *params, *objectives):
        table.add_column(name, justify="right")
    for row in rows:
        given = (f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in params)
        table.add_row(str(row["trial"]), *given, *(number(row[name], 4) for name in objectives))
    return table


def dataset_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the list of data sets."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2))
    for name in ("name", "title", "ratings", "users", "items", "scale"):
        table.add_column(name, justify="right" if name in ("ratings", "users", "items") else "left")
    for row in rows:
        figures = (f"{row[name]:,}" for name in ("ratings", "users", "items"))
        table.add_row(row["name"], row["title"], *figures, row["scale"])
    return table
