"""What the sound protocol found, as files, figures, a page and tables."""

import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

import starcast
from starcast.datasets import load_dataset
from starcast.errors import choose
from starcast.files import replacing
from starcast.paper_plots import to_png
from starcast.plots import plot_error_coverage, to_svg
from starcast.report import facts_html, figure_html, page_html, table_html
from starcast.reproduce.experiment import EXPERIMENTS
from starcast.results import Results
from starcast.sound import CONTENDERS, LARGER_IS_BETTER, MEASURES, N_SETTINGS, Sound, run_sound
from starcast.terminal import number

LEAST_COVERAGE = 0.02  # with less, a curve is about a handful of users
SHORT = {"accuracy": "right", "1-MAE of the mode": "mode", "1-MAE of the median": "median"}
REFERENCES = ("resbemf", "resbemf-paper")  # what the paper is about: every other model is compared with it
PAIRED_NOTE = (
    "Both models on the same resamples; 95% intervals. A difference is clear if its interval does not hold 0: ** with "
    "other users and other items, * with other users and the same items. Intervals of the two models by themselves do "
    "not tell this."
)


def reproduce_soundly(
    dataset: str,
    folder: Path,
    *,
    contenders: Sequence[str] = tuple(CONTENDERS),
    on_progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Sound:
    """Run the sound protocol on a data set of the paper and write what it found below `folder`/dataset/sound.

    Four tables (overall.csv, differences.csv, settings.csv, curves.csv), the error against coverage, as it is and
    tempered, as PNG and SVG, and a page.
    """
    experiment = EXPERIMENTS[choose("data set of the paper", dataset, EXPERIMENTS)]
    found = run_sound(
        load_dataset(dataset), contenders=contenders, relevant=experiment.relevant, on_progress=on_progress, **options
    )
    target = folder / dataset / "sound"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("overall", "differences", "settings", "curves"):
        _write(target / f"{name}.csv", getattr(found, name).to_csv().encode())
    figures = {}
    for calibrated, name in ((False, "error-coverage"), (True, "error-coverage-tempered")):
        rows = [row for row in found.curves.where(calibrated=calibrated) if row["coverage"] >= LEAST_COVERAGE]
        ax = plot_error_coverage(Results(rows))
        word = "tempered" if calibrated else "as it is"
        ax.set_title(f"{experiment.title}, {word}")
        _write(target / f"{name}.png", to_png(ax.figure))
        figures[word] = to_svg(ax)
        _write(target / f"{name}.svg", figures[word].encode())
    command = ["starcast", "reproduce", dataset, "--protocol", "sound", "--out", str(folder)]
    _write(target / "report.html", sound_page(found, experiment.title, figures, shlex.join(command)).encode())
    return found


def sound_page(found: Sound, title: str, figures: Mapping[str, str], command: str) -> str:
    """Return the page: all measures, the differences from ResBeMF, the curves, what was tried and chosen."""
    heads = ["model", *(name.upper() if len(name) < 5 else name.replace(" of the ", ",\n") for name in MEASURES)]
    overall = [
        [
            _shown_name(row),
            *(f"{_three(row[m])}\n{_three(row[f'{m} low'])}–{_three(row[f'{m} high'])}" for m in MEASURES),
        ]
        for row in found.overall
    ]
    parts = [
        table_html("All ratings, no threshold", "95% intervals over test users and items.", heads, overall, dense=True)
    ]
    for reference in references(found):
        cells = [
            [row["model"], *(difference_text(_difference(found, row["model"], reference, m)) for m in MEASURES)]
            for row in found.overall.where(calibrated=False)
            if row["model"] != reference
        ]
        note = f"The measure of the model less that of {reference}, both as they are. "
        parts.append(table_html(f"Differences from {reference}", note + PAIRED_NOTE, heads, cells, dense=True))
    caption = "1 − MAE of the mode against coverage, a point per threshold: probabilities {}."
    parts += [figure_html(svg, caption.format(word)) for word, svg in figures.items()]
    settings = [[_lines(str(value)) or "—" for value in row.values()] for row in found.settings]
    parts.append(
        table_html(
            "What was tried and chosen", settings_note(found), list(found.settings.rows[0]), settings, dense=True
        )
    )
    version = f"Starcast {starcast.__version__}, Python {platform.python_version()}"
    parts.append(facts_html({"data": title, "command": command, "version": version}))
    lead = "The paper's questions by rules that can be defended: all tuned on as many settings, compared in pairs."
    return page_html(f"{title}: the sound protocol", lead, parts)


def sound_table(found: Sound) -> Group:
    """Return three tables: all measures, the differences from ResBeMF, what was tried and chosen."""
    tables: list[Any] = [_overall_table(found)]
    for reference in references(found):
        tables += [Text(), _difference_table(found, reference)]
    return Group(*tables, Text(), _settings_table(found))


def sound_facts(found: Sound) -> dict[str, Any]:
    """Return the same for programs."""
    return {name: getattr(found, name).rows for name in ("overall", "differences", "settings")}


def references(found: Sound) -> list[str]:
    """Return the models that all others are compared with: those of the paper's title, else the first."""
    models = list(dict.fromkeys(found.overall["model"]))
    wanted = [CONTENDERS[key].title for key in REFERENCES]
    return [title for title in wanted if title in models] or models[:1]


def difference_text(row: Mapping[str, Any]) -> str:
    r"""Return a paired difference with stars if it is clear; its interval over users and items in a second line.

    >>> difference_text({"difference": -0.01, "low": -0.02, "high": 0.001, "clear": False, "clear over users": True})
    '−.010*\n−.020 to .001'
    """
    value, low, high = (_three(row[name]) for name in ("difference", "low", "high"))
    return f"{value}{stars(row)}\n{low} to {high}"


def stars(row: Mapping[str, Any]) -> str:
    """Return how clear a difference is: over users and items, over users alone, or not."""
    return "**" if row["clear"] else "*" if row["clear over users"] else ""


def settings_note(found: Sound) -> str:
    """Return how many settings the models had, and for which of them a better one may lie beyond the grid."""
    edges = [f"{row['model']} ({row['at edge']})" for row in found.settings if row["at edge"]]
    tail = f" At an edge of its grid: {'; '.join(edges)}; a better value may lie beyond." if edges else ""
    return (
        f"{N_SETTINGS} settings for every model that has parameters; the one with the lowest log-loss on two parts of "
        f"the training ratings was taken.{tail}"
    )


def _overall_table(found: Sound) -> Table:
    """Return a row per model and calibration; half the width of its interval stands below each figure."""
    title = "[bold]Sound protocol[/bold]: mode and median are their 1-MAE, ± half of a 95% interval"
    table = _measure_table(title)
    for row in found.overall:
        table.add_row(row["model"], *(number(row[name]) for name in MEASURES))
        widths = (f"±{(row[f'{name} high'] - row[f'{name} low']) / 2:.3f}" for name in MEASURES)
        table.add_row("  tempered" if row["calibrated"] else "", *widths, style="dim")
    return table


def _difference_table(found: Sound, reference: str) -> Table:
    table = _measure_table(f"[bold]Less {reference}[/bold], in pairs: ** is clear, * over users alone")
    for model in (model for model in dict.fromkeys(found.overall["model"]) if model != reference):
        rows = [_difference(found, model, reference, name) for name in MEASURES]
        cells = []
        for row in rows:
            is_better = (row["difference"] > 0) == (row["measure"] in LARGER_IS_BETTER)
            style = ("green" if is_better else "red") if stars(row) else ""
            cells.append(Text(f"{_short(row['difference'])}{stars(row):2}", style=style))
        table.add_row(model, *cells)
        widths = ((row["high"] - row["low"]) / 2 for row in rows)
        table.add_row("", *(f"±{_short(width)[1:]}  " for width in widths), style="dim")
    return table


def _three(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1).replace("-", "−") if abs(value) < 1 else f"{value:.3f}"


def _short(value: float) -> str:
    """Return a difference with its sign and without the zero before the point, as seven columns need it."""
    return f"{value:+.3f}".replace("0.", ".", 1)


def _settings_table(found: Sound) -> Group:
    table = Table(title="[bold]Settings[/bold]", title_justify="left", header_style="bold", box=None, pad_edge=False)
    for name in ("model", "tried", "chosen"):
        table.add_column(name, overflow="fold")
    for row in found.settings:
        table.add_row(row["model"], f"{row['settings']}: {row['tried']}" if row["tried"] else "1", row["chosen"])
    return Group(table, Text(settings_note(found), style="dim"))


def _measure_table(title: str) -> Table:
    table = Table(
        title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 0, 0, 1)
    )
    table.add_column("model", no_wrap=True)
    for name in MEASURES:
        table.add_column(SHORT.get(name, name.upper() if len(name) < 5 else name), justify="right")
    return table


def _difference(found: Sound, model: str, other: str, measure: str) -> Mapping[str, Any]:
    return found.differences.where(model=model, other=other, measure=measure, calibrated=False).rows[0]


def _lines(text: str) -> str:
    """Return a parameter a line: a table must not be wider than a page."""
    return text.replace("; ", "\n")


def _shown_name(row: Mapping[str, Any]) -> str:
    return f"{row['model']}, tempered" if row["calibrated"] else str(row["model"])


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)
