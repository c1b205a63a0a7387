"""The paper again by one command: its stages one after the other, figures, tables, a report page and a verdict."""

import csv
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

import starcast
from starcast import paper_plots
from starcast.errors import choose
from starcast.files import replacing
from starcast.journal import OnProgress
from starcast.metrics import PAPER_THRESHOLDS
from starcast.plots import new_figure, to_svg
from starcast.report import facts_html, figure_html, page_html, table_html
from starcast.reproduce import summary
from starcast.reproduce.experiment import WITHOUT_RELIABILITY, title_of
from starcast.reproduce.neural import Curves, neural_curves, run_neural
from starcast.reproduce.run import Run
from starcast.reproduce.searching import run_search
from starcast.reproduce.testing import run_test, run_time
from starcast.reproduce.verdict import Verdict, gap_text, verdict_tables, verdicts

Bar = Callable[[str], AbstractContextManager[OnProgress]]
WORK = {"search": run_search, "test": run_test, "time": run_time, "neural": run_neural}
STAGES = (*WORK, "figures")
USUAL_STAGES = tuple(stage for stage in STAGES if stage != "neural")  # which needs PyTorch
WORDS = {
    "numIters": "number of iterations", "numFactors": "number of factors", "learningRate": "learning rate",
    "regularization": "regularization", "gamma": "learning rate γ", "lambda": "regularization λ",
}  # fmt: skip
ORDER = ("numFactors", "regularization", "learningRate", "numIters")  # of the paper's panels


def reproduce(run: Run, stages: Sequence[str] = USUAL_STAGES, *, bar: Bar) -> list[Verdict]:
    """Run the stages in their order; return how far the figures are from the published ones, if there are any.

    `bar` gives a function that is told of the progress of a stage, such as :func:`starcast.progress.progress_bar`.
    """
    for stage in stages:
        choose("stage", stage, STAGES)
    if "figures" in stages:
        new_figure((1, 1))  # a missing library is told before hours of work
    for stage, work in WORK.items():
        if stage in stages:
            with bar(f"{stage} {run.dataset}") as on_progress:
                work(run, on_progress)
    found = verdicts(run)
    if "figures" in stages:
        write_figures(run, found)
    return found


def write_figures(run: Run, found: Sequence[Verdict] = ()) -> Path:
    """Draw what the run has results for, as PNG, SVG and the CSV of what is drawn; return the report page."""
    title = run.experiment.title
    bands, times, neural = summary.curve_bands(run), summary.fitting_times(run), neural_curves(run)
    searches = summary.searches(run) if summary.drawn_from(run) or not neural[0] else {}
    figures: dict[str, Any] = {}
    reliable = {name: _panels(search) for name, search in searches.items() if name not in _unreliable()}
    if reliable:
        figures["hyperparameters"] = paper_plots.draw_hyperparameters(reliable, f"{title}: random search")
    fronts = {name: (search.coverage[search.front], search.quality[search.front]) for name, search in searches.items()}
    if fronts:
        figures["fronts"] = paper_plots.draw_fronts(fronts, f"{title}: fronts of the search")
    if bands:
        figures["test-curves"] = paper_plots.draw_curves(bands, PAPER_THRESHOLDS, f"{title}: test")
    if neural[0]:
        band = {measure: curves["ResBeMF"] for measure, curves in bands.items() if "ResBeMF" in curves}
        figures["neural-curves"] = paper_plots.draw_neural_curves(
            *neural, PAPER_THRESHOLDS, band, f"{title}: test, neural models"
        )
    if times:
        figures["fitting-times"] = paper_plots.draw_times(times, f"{title}: fitting times")
    numbers: dict[str, list[list[Any]]] = {
        "hyperparameters": _search_numbers(searches),
        "fronts": _front_numbers(fronts),
        "test-curves": _band_numbers(bands),
        "neural-curves": _neural_numbers(*neural),
        "fitting-times": [["model", "seconds"], *([name, time] for name in times for time in times[name])],
    }
    for name, figure in figures.items():
        _write(run.path("figures", f"{name}.png"), paper_plots.to_png(figure))
        _write(run.path("figures", f"{name}.svg"), to_svg(figure.axes[0]).encode())
        _write_csv(run.path("figures", f"{name}.csv"), numbers[name])
    page = run.path("report.html")
    _write(page, _page(run, figures, times, found).encode())
    return page


def outcome(run: Run, found: Sequence[Verdict]) -> Group:
    """Return what a terminal shows in the end: the verdict, the fitting times, where the files are."""
    parts: list[Any] = [verdict_tables(found)] if found else []
    times, there = summary.fitting_times(run), summary.published_times(run)
    if times:
        table = Table(title="[bold]Fitting times[/bold], mean (standard deviation)", title_justify="left", box=None)
        for head in ("model", "rows", "here", *(["published"] if there else [])):
            table.add_column(head, justify="left" if head == "model" else "right")
        for name, seconds in times.items():
            published = [paper_plots.time_text(there[name]) if name in there else "—"] if there else []
            table.add_row(name, str(len(seconds)), paper_plots.time_text(seconds), *published)
        parts += [table, Text()]
    folder = run.folder / run.dataset
    files = (folder / name for name in ("report.html", "figures", "gridsearch", "test-split", "neural"))
    parts.append(
        Text("\n".join(f"written: {path}" for path in files if path.is_file() or any(path.glob("*"))), overflow="fold")
    )
    return Group(*parts)


def facts(run: Run, found: Sequence[Verdict]) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "dataset": run.dataset,
        "folder": str(run.folder / run.dataset),
        "verdicts": [verdict.to_dict() for verdict in found],
        "fitting_times": summary.fitting_times(run),
    }


def _panels(search: summary.Searched) -> summary.Searched:
    values = {WORDS[name]: search.values[name] for name in ORDER}
    return replace(search, values=values)


def _unreliable() -> list[str]:
    return [title_of(model) for model in WITHOUT_RELIABILITY]


def _search_numbers(searches: Mapping[str, summary.Searched]) -> list[list[Any]]:
    rows: list[list[Any]] = [["model", "hyper-parameters", "coverage", "1-MAE", "front"]]
    for name, search in searches.items():
        for at in range(len(search.coverage)):
            setting = " ".join(f"{key}={values[at]:g}" for key, values in search.values.items())
            rows.append([name, setting, search.coverage[at], search.quality[at], int(search.front[at])])
    return rows


def _front_numbers(fronts: Mapping[str, tuple[Any, Any]]) -> list[list[Any]]:
    rows = [[name, k, x, y] for name, points in fronts.items() for k, (x, y) in enumerate(zip(*points, strict=True))]
    return [["model", "row", "coverage", "1-MAE"], *rows]


def _band_numbers(bands: Mapping[str, Mapping[str, summary.Band]]) -> list[list[Any]]:
    rows: list[list[Any]] = [["measure", "model", "threshold", "mean", "low", "high", "rows"]]
    for measure, curves in bands.items():
        for name, band in curves.items():
            values = zip(PAPER_THRESHOLDS, band.mean, band.low, band.high, band.rows, strict=True)
            rows += [[measure, name, *value] for value in values]
    return rows


def _neural_numbers(here: Curves, there: Curves) -> list[list[Any]]:
    rows: list[list[Any]] = [["measure", "model", "source", "threshold", "value"]]
    for source, curves in (("here", here), ("published", there)):
        for measure, models in curves.items():
            for name, values in models.items():
                rows += [[measure, name, source, t, v] for t, v in zip(PAPER_THRESHOLDS, values, strict=True)]
    return rows


def _page(run: Run, figures: Mapping[str, Any], times: Mapping[str, Sequence[float]], found: Sequence[Verdict]) -> str:
    captions = {
        "hyperparameters": "Every setting of the search, a row of panels per model and a colour per value; rings are "
        "the front. Settings that cover less than 2% in some fold are left out, and a few of the worst lie beyond the "
        "edges. Larger is better on both axes.",
        "fronts": "The settings that no other setting of the model beats, among those that cover 2% in every fold.",
        "test-curves": "Test ratings: the mean over the rows of each front, and its 95% t-interval over those rows. "
        "1 − MAE, accuracy and mAP leave out rows that cover 2% or less.",
        "neural-curves": "Test ratings: neural models, here as lines, as published dashed. Published MLP and MWGP have "
        "no reliability; here MWGP's variance gives it one. The rest is left out at a coverage of 2%.",
        "fitting-times": f"Fitting on the training part with {run.threads} threads, in double precision.",
    }
    title = f"{run.experiment.title}: the paper's experiments again"
    lead = (
        "Restricted Bernoulli matrix factorization against its rivals: the random search, the fronts, the test curves "
        "and the fitting times of the paper, recomputed by the rules of the program behind its figures."
    )
    parts = [
        _verdict_section(found),
        *(
            figure_html(to_svg(figure.axes[0]), captions[name], wide=name == "hyperparameters")
            for name, figure in figures.items()
        ),
        _settings_section(run),
        _times_section(times, summary.published_times(run)),
        facts_html(
            {
                "data": run.experiment.title,
                "searches": summary.drawn_from(run),
                "rows": "all of the paper's" if run.limit is None else f"a trial with {run.limit} rows a model",
                "command": f"starcast reproduce {run.dataset}",
                "version": f"Starcast {starcast.__version__}, Python {platform.python_version()}",
            }
        ),
    ]
    return page_html(title, lead, parts)


def _verdict_section(found: Sequence[Verdict]) -> str:
    if not found:
        return ""
    rows = []
    for verdict in found:
        gaps = [gap_text(verdict.differences.get(m)) for m in ("1-MAE", "coverage", "accuracy", "mAP")]
        dead = f"{len(verdict.diverged_here)} of {len(verdict.diverged_there)}"
        front = f"{verdict.front[2]} of {verdict.front[0]}" if verdict.front else "—"
        rows.append([f"{title_of(verdict.model)}, {verdict.stage}", str(verdict.rows), *gaps, dead, front])
    note = (
        "The largest difference from the published figures, over the rows that did not diverge there; how many rows "
        "diverged here, of those that did there; how many rows of the published front are on the front here."
    )
    heads = ["model, stage", "rows", "1-MAE", "coverage", "accuracy", "mAP", "diverged", "front"]
    return table_html("Compared with the published figures", note, heads, rows)


def _settings_section(run: Run) -> str:
    best = summary.best_settings(run) if summary.drawn_from(run) else {}
    if not best:
        return ""
    names = list(next(iter(best.values())))
    rows = [[WORDS[name], *(setting[name] for setting in best.values())] for name in names]
    note = "The setting with the lowest error in the search, for the models that have no reliability."
    return table_html("Chosen hyper-parameters", note, ["hyper-parameter", *best], rows)


def _times_section(times: Mapping[str, Sequence[float]], there: Mapping[str, Sequence[float]]) -> str:
    if not times:
        return ""
    rows = [
        [name, paper_plots.time_text(seconds), paper_plots.time_text(there[name]) if name in there else "—"]
        for name, seconds in times.items()
    ]
    note = "Mean over the tested rows, with the standard deviation. The published times are of another machine."
    return table_html("Fitting times", note, ["model", "here", "published"], rows)


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="") as text:
        csv.writer(text, lineterminator="\n").writerows(rows)
