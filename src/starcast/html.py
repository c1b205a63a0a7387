"""HTML forms for notebooks: numbers and names in, text out, with inline styles, no scripts and nothing to fetch."""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from starcast.errors import DataError, ParameterError, plural

Cells = Sequence[str]

# Mid-tones with a contrast of 3 or more to white and to black; all other colours are those of the text.
GOLD, BLUE = "#b8801a", "#4a7fb5"
FAINT = "opacity:.75"
LINE = "1px solid rgba(128,128,128,.35)"
LONGEST, SHORT = 80, 12  # characters of a name: the most that are shown, and those that stay on one line
NAMED = 12  # scores that a chart names one by one
SLIGHT = 0.05  # the least shift that a bar of full length stands for


def show(frame: Any, n: int = 20) -> "Shown":
    """Return the first `n` rows of a list, of predictions or of an explanation as a table for notebooks.

    `frame` is what :meth:`Model.recommend`, :meth:`Model.predict` or :meth:`Model.explain` return, or any part of it,
    as pandas, Polars or PyArrow. Reliabilities and shifts have bars.

    >>> import polars as pl
    >>> show(pl.DataFrame({"rank": [1], "title": ["Alien"], "reliability": [0.52]}))._repr_html_().count("<svg")
    1
    """
    from starcast.frames import read_columns

    if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1:
        raise ParameterError(f"n must be a whole number of at least 1, got {n!r}.")
    try:
        table = read_columns(frame)
    except DataError:
        raise DataError(
            f"show needs a data frame, as recommend, predict and explain return it, got {type(frame).__name__}."
        ) from None
    users = table["user"].unique().head(2).to_list() if "user" in table.columns else []
    return Shown(frame, frame_html(table.head(int(n)).to_dict(as_series=False), len(table), users))


class Shown:
    """A frame with an HTML form; as text it is the frame itself."""

    def __init__(self, frame: Any, html: str) -> None:
        self.frame, self._html = frame, html

    def __repr__(self) -> str:
        return repr(self.frame)

    def _repr_html_(self) -> str:
        return self._html


def frame_html(columns: Mapping[str, Sequence[Any]], n_rows: int, users: Sequence[Any]) -> str:
    """Return the first rows of a frame, a list per column; `users` are its first two different ones, if it has any."""
    about, shown = [plural(n_rows, "row")], dict(columns)
    if len(users) == 1:
        about.insert(0, f"user {name(users[0])}")
        del shown["user"]
    if "shift" in shown:
        kind = "Explanation"
        about.append("shift: what the rating adds to the mean of the forecast")
        shown.pop("direction", None)  # the sign of the shift
    else:
        kind = "Recommendations" if "rank" in shown else "Predictions" if "prediction" in shown else "Table"
    if all(known is True for known in shown.get("known", ["no such column"])):
        del shown["known"]  # worth a column only where something is unknown
    if "title" in shown and "item" in shown:
        shown["title"] = [title or item for title, item in zip(shown["title"], shown["item"], strict=True)]
    first = [column for column in ("user", "rank", "title", "item") if column in shown]
    order = first + [column for column in shown if column not in first]
    cells = {column: frame_cells(column, shown[column]) for column in order}
    return form(kind, about, table(cells, [is_text(shown[column]) for column in order], n_rows))


def frame_cells(column: str, values: Sequence[Any]) -> list[str]:
    """Return the cells of a column of a frame, in the form that its name asks for."""
    if column == "reliability":
        return [share_bar(value) for value in values]
    if column == "shift":
        return shift_bars(values)
    if column in ("prediction", "rating"):
        return stars(values)
    if column in ("user", "item"):
        return [faint("–" if value is None else name(value)) for value in values]
    if column in ("mean", "moved"):
        return decimals(values, 2 if column == "mean" else 3)
    return figures(values)


def ratings_html(
    n_ratings: int,
    n_users: int,
    n_items: int,
    scores: Sequence[float],
    counts: Sequence[float],
    first: Mapping[str, Sequence[Any]],
    span: tuple[str, str] | None,
) -> str:
    """Return counts, density and time span of ratings, how often each score was given, and the first rows."""
    about = [plural(n_ratings, "rating"), plural(n_users, "user"), plural(n_items, "item"), scale(scores)]
    if n_users and n_items:
        density = n_ratings / n_users / n_items
        about.append(f"{percent(density, 2 if density < 0.1 else 0)} of all pairs")
    if span is not None:
        about.append(span[0] if span[0] == span[1] else f"{span[0]} to {span[1]}")
    if n_ratings == 0:
        return form("Ratings", about)
    shares = [count / n_ratings for count in counts]
    chart = histogram(scores, shares)
    cells = {column: (stars if column == "rating" else figures)(values) for column, values in first.items()}
    rows = table(cells, [is_text(values) for values in first.values()], n_ratings)
    return form("Ratings", about, f'<div style="display:flex;flex-wrap:wrap;gap:1em 2.5em">{chart}{rows}</div>')


def distribution_html(
    n_pairs: int,
    scores: Sequence[float],
    probs: Sequence[Sequence[float]],
    mode: Sequence[float],
    mean: Sequence[float],
    reliability: Sequence[float],
) -> str:
    """Return a chart, the mode, the mean and the reliability of the first pairs."""
    defined = [p for row in probs for p in row if not undefined(p)]
    most = max(defined, default=1.0)
    charts = [bars(scores, row, most, 44 if len(scores) <= NAMED else 2 * len(scores), 26) for row in probs]
    cells = {
        "pair": [faint(str(at)) for at in range(len(probs))],
        f"chances of {number(scores[0])} to {number(scores[-1])}": charts,
        "mode": stars(mode),
        "mean": decimals(mean, 2),
        "reliability": [share_bar(value) for value in reliability],
    }
    about = [plural(n_pairs, "pair"), scale(scores)]
    return form("Distribution", about, table(cells, [False, True, False, False, False], n_pairs) if n_pairs else "")


def results_html(
    kind: str, about: Sequence[str], columns: Mapping[str, Sequence[Any]], ways: Mapping[str, str], n_rows: int
) -> str:
    """Return a table of figures; `ways` says for which columns the least ("min") or most ("max") is the best."""
    cells, marked = {}, False
    for column, values in columns.items():
        cells[column] = figures(values)
        found = [value for value in values if isinstance(value, numbers.Real) and not undefined(value)]
        if column in ways and len(set(found)) > 1:
            best, marked = (min if ways[column] == "min" else max)(found), True
            cells[column] = [
                f"<b>{cell}</b>" if value == best else cell for cell, value in zip(cells[column], values, strict=True)
            ]
    body = table(cells, [is_text(values) for values in columns.values()], n_rows) if n_rows else ""
    return form(kind, [plural(n_rows, "row"), *about, *(["bold: the best of its column"] if marked else [])], body)


def model_html(kind: str, params: Sequence[tuple[str, str, bool]], fitted: Sequence[str]) -> str:
    """Return the parameters of a model (name, value, whether it differs from the default) and what it was fitted to."""
    changed = [f"{escape(key)}={escape(cut(value))}" for key, value, differs in params if differs]
    lines = [f'<div style="{FAINT}">{" · ".join(fitted) if fitted else "not fitted"}</div>']
    if params:
        cells = {
            "parameter": [f"<b>{escape(key)}</b>" if differs else escape(key) for key, _, differs in params],
            "value": [
                f"<b>{escape(cut(value))}</b>" if differs else faint(escape(cut(value))) for _, value, differs in params
            ],
        }
        summary = plural(len(params), "parameter")
        summary += f", changed: <b>{', '.join(changed)}</b>" if changed else ", none changed"
        body = table(cells, [True, True], len(params))
        lines.append(f'<details><summary style="cursor:pointer">{summary}</summary>{body}</details>')
    return form(kind, [], "".join(lines))


def form(kind: str, about: Sequence[str], body: str = "") -> str:
    """Return a heading with facts, and a body."""
    facts = f' <span style="{FAINT}">{" · ".join(about)}</span>' if about else ""
    return f'<div style="line-height:1.5;max-width:100%"><div><b>{escape(kind)}</b>{facts}</div>{body}</div>'


def table(cells: Mapping[str, Cells], lefts: Sequence[bool], n_rows: int) -> str:
    """Return a table of cells that are HTML; `n_rows` is how many rows there are in all."""
    sides = ["left" if left else "right" for left in lefts]
    box = "padding:.25em .9em .25em 0;vertical-align:middle;line-height:1.35;background:transparent;border:0;"
    head = f"{box}border-bottom:{LINE};font-weight:600"
    heads = "".join(
        f'<th scope="col" style="{head};text-align:{side}">{escape(cut(column))}</th>'
        for column, side in zip(cells, sides, strict=True)
    )
    rows = "".join(
        '<tr style="background:transparent">'
        + "".join(
            f'<td style="{box}text-align:{side};max-width:26em">{cell}</td>'
            for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in zip(*cells.values(), strict=True)
    )
    shown = len(next(iter(cells.values()), ()))
    more = f'<div style="{FAINT}">… and {n_rows - shown:,} more</div>' if n_rows > shown else ""
    style = "border-collapse:collapse;table-layout:auto;margin:.4em 0;font-variant-numeric:tabular-nums;border:0"
    return (
        f'<div style="overflow-x:auto;max-width:100%"><table style="{style}">'
        f'<thead><tr style="background:transparent">{heads}</tr></thead><tbody>{rows}</tbody></table>{more}</div>'
    )


def histogram(scores: Sequence[float], shares: Sequence[float]) -> str:
    """Return a column per score with its share above and its name below; of many scores, the ends and the middle."""
    many, tall = len(scores) > NAMED, 84
    step = 30 if not many else max(3.0, 400 / len(scores))
    wide, parts = step * len(scores), []
    most = max([share for share in shares if not undefined(share)], default=0) or 1.0
    named = {0, len(scores) // 2, len(scores) - 1} if many else set(range(len(scores)))
    for at, (score, share) in enumerate(zip(scores, shares, strict=True)):
        high, middle = tall * share / most, step * (at + 0.5)
        parts.append(rect(step * at + step / 8, 16 + tall - high, step * 0.75, max(high, 1), GOLD))
        if not many:
            parts.append(svg_text(middle, 12 + tall - high, percent(share)))
        if at in named:
            anchor = "middle" if not many else "start" if at == 0 else "end" if at == len(scores) - 1 else "middle"
            middle = 0 if anchor == "start" else wide if anchor == "end" else middle
            parts.append(svg_text(middle, 32 + tall, number(score), anchor))
    return f'<div style="overflow-x:auto">{svg(wide, tall + 38, "".join(parts), chances(scores, shares))}</div>'


def bars(scores: Sequence[float], probs: Sequence[float], most: float, wide: int, tall: int) -> str:
    """Return a small chart of probabilities, the likeliest score in gold; `most` is as high as the chart."""
    if any(undefined(p) for p in probs):
        return "–"
    wide = max(wide, 9 * len(scores)) if len(scores) <= NAMED else wide
    step, top = wide / len(scores), max(range(len(probs)), key=lambda at: probs[at])
    parts = []
    for at, p in enumerate(probs):
        high = max(1.0, tall * p / most)
        fill = GOLD if at == top else "currentColor"
        parts.append(rect(step * at, tall - high, step * 0.8, high, fill, 1 if at == top else 0.45))
    return svg(wide, tall, "".join(parts), chances(scores, probs))


def chances(scores: Sequence[float], shares: Sequence[float]) -> str:
    """Return a chart in words."""
    if len(scores) <= NAMED:
        return ", ".join(f"{number(score)}: {percent(share)}" for score, share in zip(scores, shares, strict=True))
    top = max(range(len(shares)), key=lambda at: shares[at])
    return f"{len(scores)} scores, most often {number(scores[top])} with {percent(shares[top])}"


def share_bar(share: Any) -> str:
    """Return a share as a figure beside a bar."""
    if undefined(share):
        return "–"
    wide = 64
    parts = rect(0, 0, wide, 9, "currentColor", 0.18) + rect(0, 0, wide * min(max(share, 0), 1), 9, GOLD)
    return f'<span style="white-space:nowrap">{svg(wide, 9, parts)} {figure(percent(share), 3)}</span>'


def shift_bars(shifts: Sequence[Any]) -> list[str]:
    """Return each shift as a figure beside a bar to the right or to the left of a line in the middle."""
    wide = 80
    most = max([abs(shift) for shift in shifts if not undefined(shift)] + [SLIGHT])
    cells = []
    for shift in shifts:
        if undefined(shift):
            cells.append("–")
            continue
        long = wide / 2 * abs(shift) / most
        bar = rect(wide / 2 if shift > 0 else wide / 2 - long, 0, long, 9, GOLD if shift > 0 else BLUE)
        middle = rect(wide / 2 - 0.5, 0, 1, 9, "currentColor", 0.6)
        text = f"{shift:+.3f}".replace("-", "−") if abs(shift) >= 0.0005 else "±0.000"
        cells.append(f'<span style="white-space:nowrap">{svg(wide, 9, bar + middle)} {figure(text, 3.2)}</span>')
    return cells


def figure(text: str, wide: float) -> str:
    """Return a figure that stands right-aligned beside its bar."""
    return f'<span style="display:inline-block;min-width:{wide}em;text-align:right">{escape(text)}</span>'


def stars(values: Sequence[Any]) -> list[str]:
    """Return scores, with a star where all lie between 0 and 5; a missing one is withheld."""
    found = [value for value in values if not undefined(value)]
    sign = " ★" if all(0 <= value <= 5 for value in found) else ""
    return [faint("withheld") if undefined(value) else f"{number(value)}{sign}" for value in values]


def svg(wide: float, tall: float, parts: str, label: str = "") -> str:
    """Return a drawing; without a label it repeats what stands beside it and is hidden from screen readers."""
    role = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    size = f'width="{wide:.4g}" height="{tall:.4g}" viewBox="0 0 {wide:.4g} {tall:.4g}"'
    return f'<svg {role} {size} style="vertical-align:middle">{parts}</svg>'


def rect(x: float, y: float, wide: float, tall: float, fill: str, opacity: float = 1) -> str:
    """Return a rectangle."""
    shade = f' opacity="{opacity:g}"' if opacity != 1 else ""
    return f'<rect x="{x:.4g}" y="{y:.4g}" width="{wide:.4g}" height="{tall:.4g}" fill="{fill}"{shade}/>'


def svg_text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    """Return a small text within a drawing."""
    place = f'x="{x:.4g}" y="{y:.4g}" text-anchor="{anchor}"'
    return f'<text {place} font-size="11" fill="currentColor">{escape(text)}</text>'


def scale(scores: Sequence[float]) -> str:
    """Return how many scores a scale has, and its ends."""
    return f"{plural(len(scores), 'score')} from {number(scores[0])} to {number(scores[-1])}"


def percent(share: float, digits: int = 0) -> str:
    """Return a share as a percentage; what is not quite nothing or everything does not become it.

    >>> percent(0.521), percent(0.001), percent(0.9999), percent(1.0), percent(0.0164, 2)
    ('52%', '<1%', '>99%', '100%', '1.64%')
    """
    if undefined(share):
        return "–"
    least = 10**-digits
    text = f"{100 * share:.{digits}f}%"
    if share > 0 and float(text[:-1]) == 0:
        return f"<{least:g}%"
    return f">{100 - least:g}%" if share < 1 and float(text[:-1]) == 100 else text


def number(value: Any) -> str:
    """Return a number with the digits that matter; NaN and missing ones are a dash.

    >>> number(1.36249), number(4.0), number(123456.7), number(float("nan"))
    ('1.362', '4', '123,457', '–')
    """
    if undefined(value):
        return "–"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    return f"{value:,.0f}" if 10_000 <= abs(value) < math.inf else f"{value:.4g}"


def decimals(values: Sequence[Any], digits: int) -> list[str]:
    """Return numbers with so many decimals."""
    return ["–" if undefined(value) else f"{value:.{digits}f}" for value in values]


def figures(values: Sequence[Any]) -> list[str]:
    """Return the cells of a column; its fractions have as many decimals as the one that needs most.

    >>> figures([1.0, 0.99684, None]), figures([7, 12]), figures([1e-6, 0.5])
    (['1.0000', '0.9968', '–'], ['7', '12'], ['1e-06', '0.5'])
    """
    broken = [value for value in values if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)]
    short = [number(value) for value in broken if not undefined(value)]
    if not short or any("e" in text or "n" in text for text in short):  # tiny, huge or infinite
        return [plain(value) for value in values]
    digits = max(len(text.partition(".")[2]) for text in short)
    return [
        f"{value:,.{digits}f}" if isinstance(value, numbers.Real) and not undefined(value) else plain(value)
        for value in values
    ]


def plain(value: Any) -> str:
    """Return any value as a cell."""
    if undefined(value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, numbers.Real) else name(value)


def name(value: Any) -> str:
    """Return a name or title as HTML that stands for itself, whatever its letters, markup and direction are."""
    text = cut(str(value))
    style = "white-space:nowrap" if len(text) <= SHORT else "display:inline-block;min-width:9em;overflow-wrap:anywhere"
    return f'<bdi style="{style}">{escape(text)}</bdi>'


def cut(text: str) -> str:
    """Return a text without its end if it is long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def escape(text: str) -> str:
    """Return a text as HTML; what cannot be printed, such as a control character, becomes a replacement character."""
    import html
    import unicodedata

    seen = "".join(" " if c.isspace() else "\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)
    return html.escape(seen)


def faint(html: str) -> str:
    """Return HTML that steps back."""
    return f'<span style="{FAINT}">{html}</span>'


def undefined(value: Any) -> bool:
    """Tell whether a value is missing or not a number."""
    return value is None or (isinstance(value, numbers.Real) and math.isnan(value))


def is_text(values: Sequence[Any]) -> bool:
    """Tell whether a column holds names or truth values, which stand on the left."""
    return any(isinstance(value, bool) or not isinstance(value, numbers.Real | type(None)) for value in values)
