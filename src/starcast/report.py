"""Results as one self-contained page: opens offline, reads well on a phone, prints well."""

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from starcast.distribution import Distribution
from starcast.files import replacing
from starcast.results import Results
from starcast.terminal import number


@dataclass(frozen=True)
class Forecasts:
    """Forecasts to be shown with their bars: names, distributions, the ratings that came true, a threshold."""

    names: Sequence[str]
    answer: Distribution
    truth: Sequence[float]
    threshold: float
    caption: str = ""


@dataclass(frozen=True)
class Report:
    """What a report page says, from top to bottom. Figures are SVG elements by caption."""

    title: str
    lead: str
    results: Results
    measures: Sequence[str]
    overall: Sequence[str]
    figures: Mapping[str, str] = field(default_factory=dict)
    forecasts: Forecasts | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(to_html(report), encoding="utf-8")


def to_html(report: Report) -> str:
    """Return the page."""
    parts = [
        _forecasts(report.forecasts) if report.forecasts else "",
        _overall_table(report),
        *(figure_html(svg, caption) for caption, svg in report.figures.items()),
        _threshold_table(report),
        facts_html(report.facts),
    ]
    return page_html(report.title, report.lead, parts)


def page_html(title: str, lead: str, parts: Iterable[str]) -> str:
    """Return a self-contained page in the house style: a title, a leading sentence and parts that are HTML already."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_style()}</style></head><body><main>"
        f"<header><p class=brand>★ Starcast</p><h1>{html.escape(title)}</h1>"
        f"<p class=lead>{html.escape(lead)}</p></header>{''.join(parts)}</main></body></html>\n"
    )


def figure_html(svg: str, caption: str, *, wide: bool = False) -> str:
    """Return a figure with what it shows below it; a wide one takes the whole page."""
    return f"<figure{' class=wide' if wide else ''}>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def table_html(
    title: str, note: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, dense: bool = False
) -> str:
    """Return a section with a table; the first cell of a row names it. Many columns need a dense one."""
    body = "".join(
        f"<tr><th scope=row>{html.escape(row[0])}</th>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    top = "".join(f"<th scope=col>{html.escape(head)}</th>" for head in heads)
    return (
        f"<section><h2>{html.escape(title)}</h2><p>{html.escape(note)}</p>"
        f"<div class=scroll><table{' class=dense' if dense else ''}>"
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _style() -> str:
    return resources.files("starcast").joinpath("report.css").read_text("utf-8")


def _forecasts(forecasts: Forecasts) -> str:
    """Return one card a forecast: bars over the scores, the prediction, the reliability, what came true."""
    answer = forecasts.answer
    prediction, reliability, keep = answer.mode(), answer.reliability(), answer.keep(forecasts.threshold)
    cards = []
    for at, name in enumerate(forecasts.names):
        highest = answer.probs[at].max()
        columns = "".join(
            f'<i class="{"top" if s == prediction[at] else "low"}" style="height:{max(100 * p / highest, 2):.0f}%" '
            f'title="{s:g}: {p:.0%}"></i>'
            for s, p in zip(answer.scores, answer.probs[at], strict=True)
        )
        verdict = f"<b>{prediction[at]:g} ★</b>" if keep[at] else "<b>withheld</b>"
        cards.append(
            f'<li class="{"kept" if keep[at] else "withheld"}"><h3>{html.escape(name)}</h3>'
            f'<div class=bars role=img aria-label="probability of each score">{columns}</div>'
            f"<div class=scale><span>{answer.scores[0]:g}</span><span>{answer.scores[-1]:g}</span></div>"
            f"<p>{verdict} <span>{reliability[at]:.0%} sure</span></p>"
            f"<p><span>rated {forecasts.truth[at]:g}</span></p></li>"
        )
    caption = f"<p>{html.escape(forecasts.caption)}</p>" if forecasts.caption else ""
    return f"<section><h2>Forecasts</h2>{caption}<ul class=cards>{''.join(cards)}</ul></section>"


def _overall_table(report: Report) -> str:
    rows = list({row["model"]: row for row in report.results}.values())
    best = {name: min(row[name] for row in rows) for name in report.overall}
    body = "".join(
        f"<tr><th scope=row>{html.escape(row['model'])}</th>"
        + "".join(
            f"<td{' class=best' if row[name] == best[name] else ''}>{number(row[name])}</td>" for name in report.overall
        )
        + "</tr>"
        for row in rows
    )
    heads = "".join(f"<th scope=col>{html.escape(name.upper())}</th>" for name in report.overall)
    return (
        "<section><h2>All ratings, no threshold</h2><p>Smaller is better; the best of a column is bold.</p>"
        f"<div class=scroll><table><thead><tr><th scope=col>model</th>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _threshold_table(report: Report) -> str:
    body = "".join(
        f"<tr{' class=silent' if row['coverage'] == 0 else ''}><th scope=row>{html.escape(row['model'])}</th>"
        f"<td>{row['threshold']:.2f}</td>"
        + "".join(f"<td>{number(row[name])}</td>" for name in report.measures)
        + "</tr>"
        for row in report.results
    )
    heads = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in ("θ", *report.measures))
    return (
        "<section><h2>At a threshold</h2><p>Only predictions with a reliability of at least θ count; "
        "a dash means that none is left.</p><div class=scroll><table><thead><tr><th scope=col>model</th>"
        f"{heads}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def facts_html(facts: Mapping[str, str]) -> str:
    """Return how a page was made, or nothing if nothing is said."""
    if not facts:
        return ""
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts.items())
    return f"<footer><h2>How this was made</h2><dl>{rows}</dl></footer>"
