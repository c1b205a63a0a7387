"""What people see in a terminal: little bars, tables, one line for a mistake."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

from starcast.distribution import Distribution, kind_of
from starcast.results import Results
from starcast.streams import visible

BLOCKS = "▁▂▃▄▅▆▇█"
KEPT, WITHHELD = "green", "bright_black"
FEWEST_BARS, SHORTEST_NAME, LONGEST_NAME = 10, 6, 34
GAP = 2  # blanks between two columns


def cell(text: object) -> Text:
    """Return text from data for a cell: neither its brackets nor its control characters mean anything there."""
    return Text(visible(str(text)))


def bars(probs: npt.ArrayLike, most: int | None = None) -> str:
    """Return one bar per score, the likeliest as high as a line; at most `most` bars, each for a run of scores.

    >>> bars([0.0, 0.1, 0.3, 0.6]), bars([0.0, 0.1, 0.3, 0.6], most=2)
    ('▁▂▅█', '▂█')
    """
    heights = np.asarray(probs, np.float64)
    if most is not None and most < len(heights):
        heights = np.array([part.sum() / len(part) for part in np.array_split(heights, most)])
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
    ids: Sequence[Any] | None = None,
    width: int = 80,
) -> Table:
    """Return a table with a forecast per row: bars over the scores, prediction, reliability, the rating if known.

    `names` are the items, or their titles if `ids` are the items; `users` are those of the rows, where they are not all
    the same. Where the scale has more scores than a table of `width` columns has room for, a bar stands for several.
    """
    columns = _named_pairs(users, ids, names, known)
    figures = {"forecast": 8, "reliable": 8} | ({} if truth is None else {"rated": 5})
    scale = f"{answer.scores[0]:g}–{answer.scores[-1]:g}"
    room = width - sum(_natural(columns).values()) - sum(figures.values()) - GAP * (len(columns) + len(figures))
    n_bars = min(len(answer.scores), max(room, FEWEST_BARS))
    table = _table(columns | {scale: max(n_bars, len(scale))} | figures, width, title)
    table.columns[len(columns)].justify = "left"
    prediction, reliability = answer.point(point), answer.reliability(kind_of(threshold))
    keep = answer.keep(threshold if threshold is not None else 0.0)
    for at in range(len(names)):
        forecast = number(float(prediction[at]), 1 if point != "mean" else 2) if keep[at] else "withheld"
        cells = [column[at] for column in columns.values()]
        rated = [] if truth is None else [f"{truth[at]:g}"]
        style = KEPT if keep[at] else WITHHELD
        table.add_row(*cells, bars(answer.probs[at], n_bars), forecast, f"{reliability[at]:.0%}", *rated, style=style)
    return table


def recommendation_table(rows: Sequence[dict[str, Any]], width: int = 80, has_threshold: bool = False) -> Table:
    """Return recommendations as a table; the user is told once a list."""
    told = [row["user"] if row.get("known", True) else f"{row['user']} (unknown)" for row in rows]
    users = ["" if at and user == told[at - 1] else user for at, user in enumerate(told)]
    columns = _columns(users, [row["item"] for row in rows], [row.get("title") or "" for row in rows])
    user = {"user": columns.pop("user")}
    figures = {"forecast": 8, "mean": 4, "reliable": 8}
    table = _table({**user, "rank": 4, **columns, **figures}, width)
    for at, row in enumerate(rows):
        names = [column[at] for column in columns.values()]
        numbers = (f"{row['prediction']:g}", f"{row['mean']:.2f}", f"{row['reliability']:.0%}")
        table.add_row(user["user"][at], str(row["rank"]), *names, *numbers)
    if not rows:
        reason = "Nothing is reliable enough. Lower the threshold." if has_threshold else "No item is left to list."
        table.caption = reason
    return table


def explanation_table(rows: Sequence[dict[str, Any]], name: str, width: int = 80) -> Table:
    """Return the ratings that moved a forecast, and how far each moved its mean."""
    columns = _columns(None, [row["item"] for row in rows], [row.get("title") or "" for row in rows])
    title = cell(f"what moved the forecast for {name}")
    table = _table(columns | {"rating": 6, "mean": 6, "probability": 11}, width, title)
    for at, row in enumerate(rows):
        names = [column[at] for column in columns.values()]
        table.add_row(*names, f"{row['rating']:g}", f"{row['shift']:+.3f}", f"{row['moved']:.1%}")
    return table


def set_table(
    names: Sequence[str],
    rows: Sequence[dict[str, Any]],
    alpha: float,
    users: Sequence[Any] | None = None,
    width: int = 80,
) -> Table:
    """Return rating sets as a table; `users` are those of the rows, where they are not all the same."""
    columns = _named_pairs(users, [row["item"] for row in rows], names, [row["known"] for row in rows])
    head = f"{1 - alpha:.0%} set"
    texts = [f"{row['low']:g}" if row["size"] == 1 else f"{row['low']:g} to {row['high']:g}" for row in rows]
    table = _table(columns | {head: max(map(len, [*texts, head]))}, width)
    for at, text in enumerate(texts):
        table.add_row(*(column[at] for column in columns.values()), text)
    return table


def _named_pairs(
    users: Sequence[Any] | None, ids: Sequence[Any] | None, names: Sequence[str], known: Sequence[bool] | None
) -> dict[str, Sequence[Text]]:
    """Return the columns that name pairs, with a note where user or item were not seen in training."""
    notes = ["" if known is None or known[at] else " (unknown pair)" for at in range(len(names))]
    if ids is None or list(names) == list(map(str, ids)):
        return _columns(users, [name + note for name, note in zip(names, notes, strict=True)], None)
    titles = ["" if name == str(item) else name for name, item in zip(names, ids, strict=True)]
    return _columns(users, ids, [(title + note).strip() for title, note in zip(titles, notes, strict=True)])


def _columns(
    users: Sequence[Any] | None, items: Sequence[Any], titles: Sequence[str] | None
) -> dict[str, Sequence[Text]]:
    """Return the columns that name things: the user if there are several, the item, its title if any has one."""
    columns = {"user": users, "item": items, "title": titles if titles is not None and any(titles) else None}
    return {name: [cell(value) for value in column] for name, column in columns.items() if column is not None}


def _natural(columns: Mapping[str, Sequence[Text]]) -> dict[str, int]:
    """Return how wide columns of names would like to be."""
    most = {"user": 20, "item": 20 if "title" in columns else LONGEST_NAME, "title": LONGEST_NAME}
    return {
        name: min(most[name], max(text.cell_len for text in [Text(name), *column])) for name, column in columns.items()
    }


def _table(columns: Mapping[str, Sequence[Text] | int], width: int, title: str | Text = "") -> Table:
    """Return an empty table with columns of names, cut to fit, and columns of figures of a given width, never cut."""
    names = {name: column for name, column in columns.items() if not isinstance(column, int)}
    room = width - sum(column for column in columns.values() if isinstance(column, int)) - GAP * (len(columns) - 1)
    sizes = _natural(names)
    while sum(sizes.values()) > room and max(sizes.values()) > SHORTEST_NAME:
        sizes[max(sizes, key=lambda name: sizes[name])] -= 1
    table = Table(
        title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, GAP, 0, 0)
    )
    for name, column in columns.items():
        if isinstance(column, int):
            table.add_column(name, justify="right", no_wrap=True, min_width=column)
        else:
            table.add_column(name, overflow="ellipsis", no_wrap=True, min_width=sizes[name], max_width=sizes[name])
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
