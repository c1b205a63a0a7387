"""The paper again by one command: its stages one after the other, figures, tables, a report page and a verdict."""

import csv
import platform
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

import starcast
from starcast import paper_plots
from starcast.errors import FileError, choose
from starcast.files import replacing
from starcast.journal import OnProgress
from starcast.metrics import PAPER_THRESHOLDS
from starcast.plots import new_figure, to_svg
from starcast.report import facts_html, figure_html, page_html, table_html
from starcast.reproduce import summary
from starcast.reproduce.experiment import (
    EXPERIMENTS,
    FACTORIZATIONS,
    WITHOUT_RELIABILITY,
    has_data,
    published_split,
    title_of,
)
from starcast.reproduce.neural import Curves, neural_curves, run_neural
from starcast.reproduce.run import Run
from starcast.reproduce.searching import run_search
from starcast.reproduce.summary import source_of
from starcast.reproduce.testing import run_test, run_time
from starcast.reproduce.verdict import Verdict, gap_text, verdict_tables, verdicts

Bar = Callable[[str], AbstractContextManager[OnProgress]]
WORK = {"search": run_search, "test": run_test, "time": run_time, "neural": run_neural}
STAGES = (*WORK, "figures")
USUAL_STAGES = tuple(stage for stage in STAGES if stage != "neural")  # which needs PyTorch
FOLDER = Path("reproduction")  # of the results, unless told otherwise
WORDS = {
    "numFactors": "number of factors", "regularization": "regularization", "learningRate": "learning rate",
    "numIters": "number of iterations",
}  # fmt: skip
COLUMNS = {  # of the table of chosen settings: what the published files call each
    "factors": ("numFactors",),
    "iterations": ("numIters", "numEpochs"),
    "learning rate": ("learningRate", "gamma"),
    "regularization": ("regularization", "lambda"),
}
MARKS = "Dashed lines, hollow points, hatched bands and grey panels are the authors' published numbers, not recomputed."
TIMES_NOTE = (
    "Mean over the tested rows in seconds, with the standard deviation. The published times were measured on another "
    "machine. Those of the authors' file differ from those of the paper's table in every cell."
)


def parse_datasets(text: str) -> list[str]:
    """Return the data sets that are meant: names with commas, or all of the paper's.

    >>> parse_datasets("filmtrust,ml-100k"), len(parse_datasets("all"))
    (['filmtrust', 'ml-100k'], 5)
    """
    names = list(EXPERIMENTS) if text == "all" else list(dict.fromkeys(text.split(",")))
    return [choose("data set of the paper", name, EXPERIMENTS) for name in names]


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


def reproduce_all(runs: Sequence[Run], stages: Sequence[str] = USUAL_STAGES, *, bar: Bar) -> list[list[Verdict]]:
    """Do so for several data sets, and draw the views across them; what has no results yet is not drawn."""
    drawn = [run for run in runs if set(stages) != {"figures"} or has_results(run)]
    found = [reproduce(run, stages, bar=bar) if run in drawn else [] for run in runs]
    if "figures" in stages:
        write_across(drawn)
    return found


@dataclass(frozen=True)
class Shown:
    """All that is drawn of a run. Parts that were not computed here say so."""

    searches: Mapping[str, summary.Searched]
    bands: Mapping[str, Mapping[str, summary.Band]]
    neural: tuple[Curves, Curves]
    times: Mapping[str, Sequence[float]]
    published_times: Mapping[str, Sequence[float]]
    mlp: summary.Searched | None
    chosen: Mapping[str, summary.Chosen]

    def sources(self) -> dict[str, dict[str, list[str]]]:
        """Return kind of result → "recomputed" or "published" → titles of the models."""
        bands = {title: band.is_published for curves in self.bands.values() for title, band in curves.items()}
        searches = {title: search.is_published for title, search in self.searches.items()}
        neural = [list(curves.get("coverage", {})) for curves in self.neural]
        kinds = {
            "search": _split_by_source(searches | ({} if self.mlp is None else {"MLP": True})),
            "test": _split_by_source(bands),
            "neural": {"recomputed": neural[0], "published": neural[1]},
            "time": {"recomputed": list(self.times), "published": list(self.published_times)},
        }
        return {kind: {s: t for s, t in found.items() if t} for kind, found in kinds.items() if any(found.values())}


def collect(run: Run) -> Shown:
    """Return what the files of a run, and the published ones where it has none, give to draw."""
    return Shown(
        summary.searches(run), summary.curve_bands(run), neural_curves(run), summary.fitting_times(run),
        summary.published_times(run), summary.mlp_search(run), summary.best_settings(run),
    )  # fmt: skip


def has_results(run: Run) -> bool:
    """Tell whether there is anything to draw."""
    return bool(collect(run).sources())


def sources_text(sources: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, str]:
    """Return whose numbers each kind of result shows, in words.

    >>> sources_text({"search": {"recomputed": ["PMF"], "published": ["MLP"]}})
    {'search': 'recomputed: PMF; published, not recomputed: MLP'}
    """
    words = {"recomputed": "recomputed", "published": "published, not recomputed"}
    return {
        kind: "; ".join(f"{words[source]}: {', '.join(titles)}" for source, titles in found.items())
        for kind, found in sources.items()
    }


def write_figures(run: Run, found: Sequence[Verdict] = ()) -> Path:
    """Draw what the run has results for, as PNG, SVG and the CSV of what is drawn; return the report page."""
    shown = collect(run)
    if not shown.sources():
        raise FileError(
            f"there is nothing to draw in {run.folder / run.dataset}. Run the stage search first, or compare with the "
            "published results."
        )
    title, searches = run.experiment.title, shown.searches
    figures: dict[str, Any] = {}
    reliable = {name: _panels(search) for name, search in searches.items() if name not in _unreliable()}
    if reliable:
        figures["hyperparameters"] = paper_plots.draw_hyperparameters(reliable, f"{title}: random search")
    if searches:
        figures["fronts"] = paper_plots.draw_fronts(searches, f"{title}: fronts of the search")
    if shown.bands:
        figures["test-curves"] = paper_plots.draw_curves(shown.bands, PAPER_THRESHOLDS, f"{title}: test")
    if any(shown.neural):
        band = {measure: curves["ResBeMF"] for measure, curves in shown.bands.items() if "ResBeMF" in curves}
        figures["neural-curves"] = paper_plots.draw_neural_curves(
            *shown.neural, PAPER_THRESHOLDS, band, f"{title}: test, neural models"
        )
    if shown.mlp:
        figures["mlp-search"] = paper_plots.draw_mlp_search(shown.mlp, f"{title}: search of MLP, published")
    if shown.times or shown.published_times:
        figures["fitting-times"] = paper_plots.draw_times(shown.times, shown.published_times, f"{title}: fitting times")
    numbers = _numbers(shown)
    drawings = {
        name: _write_figure(run.path("figures", name), figure, numbers[name]) for name, figure in figures.items()
    }
    page = run.path("report.html")
    _write(page, _page(run, shown, drawings, found).encode())
    return page


def write_across(runs: Sequence[Run]) -> Path:
    """Draw the views across data sets: fronts, fitting times, chosen settings, sizes; return the page."""
    shown = {run: collect(run) for run in runs}
    if not any(found.sources() for found in shown.values()):
        raise FileError("there is nothing to draw. Run the stage search first, or compare with the published results.")
    folder = runs[0].folder
    searches = {run.experiment.title: found.searches for run, found in shown.items() if found.searches}
    drawings = []
    if searches:
        rows = [[data, *row] for data, found in searches.items() for row in _front_numbers(found)[1:]]
        figure = paper_plots.draw_fronts_across(searches, "Fronts of the search")
        drawings.append(_write_figure(folder / "figures" / "fronts", figure, [["data set", *FRONT_HEADS], *rows]))
    tables = {"datasets": _dataset_rows(runs), "fitting-times": _time_rows(shown), "chosen": _chosen_rows(shown)}
    for name, rows in tables.items():
        _write_csv(folder / "figures" / f"{name}.csv", rows)
    sources = {
        f"{run.experiment.title}, {kind}": text
        for run, found in shown.items()
        for kind, text in sources_text(found.sources()).items()
    }
    notes = {
        "datasets": ("Data sets", "Counted here where the data are on this machine; the others are the numbers of the "
        "paper's table, which gives the training ratings as the number of ratings."),
        "fitting-times": ("Fitting times", TIMES_NOTE),
        "chosen": ("Chosen hyper-parameters", CHOSEN_NOTE),
    }  # fmt: skip
    parts = [
        *(figure_html(drawing, f"The settings of each search that no other setting of the model beats, by data set. "
        f"Larger is better on both axes. {MARKS}", wide=True) for drawing in drawings),
        *(table_html(*notes[name], rows[0], rows[1:]) for name, rows in tables.items() if len(rows) > 1),
        facts_html(sources | {"command": command_of(runs, list(shown.values())), "version": _version()}),
    ]  # fmt: skip
    page = folder / "report.html"
    lead = "The views of the paper across its data sets. " + _lead([found.sources() for found in shown.values()])
    if any("counted here" in row[-1] for row in tables["datasets"]):
        lead += " Sizes of data sets were counted here where the table says so."
    _write(page, page_html("The paper's experiments again", lead, parts).encode())
    return page


def command_of(runs: Sequence[Run], shown: Sequence[Shown]) -> str:
    """Return the command that gives a page: all options that differ from the usual, and the stages that it shows."""
    run = runs[0]
    here = {kind for found in shown for kind, sources in found.sources().items() if "recomputed" in sources}
    stages = tuple(stage for stage in STAGES if stage in here or stage == "figures")
    datasets = [run.dataset for run in runs]
    words = ["starcast", "reproduce", "all" if datasets == list(EXPERIMENTS) else ",".join(datasets)]
    if stages != USUAL_STAGES:
        words += [word for stage in stages for word in ("--stage", stage)]
    if run.models != FACTORIZATIONS:
        words += ["--models", ",".join(run.models)]
    if run.folder != FOLDER:
        words += ["--out", str(run.folder)]
    options = {"--compare": run.published, "--jobs": run.n_jobs, "--limit": run.limit}
    words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
    return shlex.join(words + (["--device", run.device] if run.device != "cpu" else []))


def outcome(runs: Sequence[Run], found: Sequence[Sequence[Verdict]]) -> Group:
    """Return what a terminal shows in the end: the verdict, the fitting times, where the files are."""
    parts: list[Any] = []
    for run, judged in zip(runs, found, strict=True):
        shown = collect(run)
        heading = [Text(run.experiment.title, style="bold"), Text()] if len(runs) > 1 else []
        parts += [*heading, *_outcome(run, judged, shown)]
    page = runs[0].folder / "report.html"
    parts += [Text(f"written: {page}", overflow="fold")] if len(runs) > 1 and page.is_file() else []
    return Group(*parts)


def _outcome(run: Run, found: Sequence[Verdict], shown: Shown) -> list[Any]:
    parts: list[Any] = [verdict_tables(found)] if found else []
    if shown.times:
        there = shown.published_times
        table = Table(title="[bold]Fitting times[/bold] in seconds, mean (standard deviation)", title_justify="left",
        box=None)  # fmt: skip
        heads = ["model", "rows", "here", *(["published file", "paper's table"] if there else [])]
        for head in heads:
            table.add_column(head, justify="left" if head == "model" else "right")
        for name, seconds in shown.times.items():
            published = [_seconds(there.get(name)), _paper_time(run, name)] if there else []
            table.add_row(name, str(len(seconds)), _seconds(seconds), *published)
        parts += [table, *([Text(TIMES_NOTE, style="dim")] if there else []), Text()]
    for kind, text in sources_text(shown.sources()).items():
        parts.append(Text(f"{kind}: {text}", overflow="fold"))
    folder = run.folder / run.dataset
    files = (folder / name for name in ("report.html", "figures", "gridsearch", "test-split", "neural"))
    written = [f"written: {path}" for path in files if path.is_file() or any(path.glob("*"))]
    return [*parts, Text("\n".join(written) or f"nothing to draw in {folder}", overflow="fold")]


def facts(runs: Sequence[Run], found: Sequence[Sequence[Verdict]]) -> dict[str, Any]:
    """Return the same for programs: of one data set, or of each of several."""
    told = [
        {
            "dataset": run.dataset,
            "folder": str(run.folder / run.dataset),
            "verdicts": [verdict.to_dict() for verdict in judged],
            "fitting_times": summary.fitting_times(run),
            "sources": collect(run).sources(),
        }
        for run, judged in zip(runs, found, strict=True)
    ]
    return told[0] if len(told) == 1 else {"folder": str(runs[0].folder), "datasets": told}


def _split_by_source(is_published: Mapping[str, bool]) -> dict[str, list[str]]:
    return {
        source_of(which): [title for title, published in is_published.items() if published == which]
        for which in (False, True)
    }


def _panels(search: summary.Searched) -> summary.Searched:
    return replace(search, values={word: search.values[name] for name, word in WORDS.items()})


def _unreliable() -> list[str]:
    return [title_of(model) for model in WITHOUT_RELIABILITY]


FRONT_HEADS = ["model", "row", "coverage", "1-MAE", "source"]


def _numbers(shown: Shown) -> dict[str, list[list[Any]]]:
    """Return the rows of the table beside each figure; the first has the names of the columns."""
    times = [
        [name, time, source_of(is_published)]
        for found, is_published in ((shown.times, False), (shown.published_times, True))
        for name in found
        for time in found[name]
    ]
    return {
        "hyperparameters": _search_numbers(shown.searches),
        "fronts": _front_numbers(shown.searches),
        "test-curves": _band_numbers(shown.bands),
        "neural-curves": _neural_numbers(*shown.neural),
        "mlp-search": _search_numbers({"MLP": shown.mlp} if shown.mlp else {}),
        "fitting-times": [["model", "seconds", "source"], *times],
    }


def _search_numbers(searches: Mapping[str, summary.Searched]) -> list[list[Any]]:
    rows: list[list[Any]] = [["model", "hyper-parameters", "coverage", "1-MAE", "front", "source"]]
    for name, search in searches.items():
        for at in range(len(search.coverage)):
            setting = " ".join(f"{key}={values[at]:g}" for key, values in search.values.items())
            numbers = search.coverage[at], search.quality[at], int(search.front[at])
            rows.append([name, setting, *numbers, source_of(search.is_published)])
    return rows


def _front_numbers(searches: Mapping[str, summary.Searched]) -> list[list[Any]]:
    rows: list[list[Any]] = [FRONT_HEADS]
    for name, search in searches.items():
        points = zip(search.coverage[search.front], search.quality[search.front], strict=True)
        rows += [[name, k, x, y, source_of(search.is_published)] for k, (x, y) in enumerate(points)]
    return rows


def _band_numbers(bands: Mapping[str, Mapping[str, summary.Band]]) -> list[list[Any]]:
    rows: list[list[Any]] = [["measure", "model", "threshold", "mean", "low", "high", "rows", "source"]]
    for measure, curves in bands.items():
        for name, band in curves.items():
            values = zip(PAPER_THRESHOLDS, band.mean, band.low, band.high, band.rows, strict=True)
            rows += [[measure, name, *value, source_of(band.is_published)] for value in values]
    return rows


def _neural_numbers(here: Curves, there: Curves) -> list[list[Any]]:
    rows: list[list[Any]] = [["measure", "model", "source", "threshold", "value"]]
    for is_published, curves in ((False, here), (True, there)):
        for measure, models in curves.items():
            for name, values in models.items():
                points = zip(PAPER_THRESHOLDS, values, strict=True)
                rows += [[measure, name, source_of(is_published), t, v] for t, v in points]
    return rows


def _page(run: Run, shown: Shown, drawings: Mapping[str, str], found: Sequence[Verdict]) -> str:
    sources = shown.sources()
    told = sources_text(sources)
    captions = {
        "hyperparameters": "Every setting of the search, a row of panels per model and a colour per value; rings are "
        "the front. Settings that cover less than 2% in some fold are left out, and a few of the worst lie beyond the "
        "edges. Larger is better on both axes.",
        "fronts": "The settings that no other setting of the model beats, among those that cover 2% in every fold.",
        "test-curves": "Test ratings: the mean over the rows of each front, and its 95% t-interval over those rows: "
        "over settings, not over users or seeds. 1 − MAE, accuracy and mAP leave out rows that cover 2% or less; the "
        "mean coverage keeps them.",
        "neural-curves": "Test ratings: neural models, with ResBeMF behind them. Published MLP and MWGP have no "
        "reliability; Starcast's MWGP takes its variance for one. 1 − MAE, accuracy and mAP leave out a coverage of 2% "
        "or less.",
        "mlp-search": "The published search of MLP, which covers everything at any threshold: means over five folds. "
        "The ring is the setting that was tested.",
        "fitting-times": _times_caption(run, shown),
    }
    kind_of = {"hyperparameters": "search", "fronts": "search", "test-curves": "test", "neural-curves": "neural",
    "mlp-search": "search", "fitting-times": "time"}  # fmt: skip
    marks = {}
    for name in drawings:
        own = {"published": ["MLP"]} if name == "mlp-search" else sources[kind_of[name]]
        if name in ("hyperparameters", "fronts"):
            left_out = ["MLP", *(_unreliable() if name == "hyperparameters" else [])]
            own = {source: [t for t in titles if t not in left_out] for source, titles in own.items()}
        text = sources_text({name: {source: titles for source, titles in own.items() if titles}})[name]
        marks[name] = f"{captions[name]} {text[0].upper()}{text[1:]}." + (f" {MARKS}" if "published" in own else "")
    parts = [
        _verdict_section(found),
        *(figure_html(drawing, marks[name], wide=name == "hyperparameters") for name, drawing in drawings.items()),
        _section("Chosen hyper-parameters", CHOSEN_NOTE, _chosen_rows({run: shown}, with_data=False)),
        _section("Fitting times", TIMES_NOTE, _time_rows({run: shown})),
        facts_html(
            {
                "data": run.experiment.title,
                **told,
                "rows": "all of the paper's" if run.limit is None else f"a trial with {run.limit} rows a model",
                "relevant items": f"rated {run.experiment.relevant:g} or more, as in the paper",
                "command": command_of([run], [shown]),
                "version": _version(),
            }
        ),
    ]
    is_new = any("recomputed" in found for found in sources.values())
    title = f"{run.experiment.title}: the paper's {'experiments again' if is_new else 'published results'}"
    lead = (
        "Restricted Bernoulli matrix factorization against its rivals: the random search, the fronts, the test curves "
        f"and the fitting times of the paper. {_lead([sources])}"
    )
    return page_html(title, lead, parts)


def _times_caption(run: Run, shown: Shown) -> str:
    here = f"Fitting on the training part with {run.threads} threads, in double precision." if shown.times else ""
    there = (
        "The published times are those of the authors' file, measured on another machine; those of the paper's table "
        "are others."
    )
    return f"{here} {there if shown.published_times else ''}".strip()


def _lead(sources: Sequence[Mapping[str, Mapping[str, Sequence[str]]]]) -> str:
    """Return how much of a page was computed here."""
    kinds = [found for kinds in sources for found in kinds.values()]
    if not any("recomputed" in found for found in kinds):
        return "No result on this page was computed here: all are the authors' published ones."
    rules = "by the rules of the program behind the paper's figures"
    if any("published" in found for found in kinds):
        return f"Some of it was computed here {rules}; what was not is marked as published."
    return f"All of it was computed here {rules}."


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


CHOSEN_NOTE = "The setting with the lowest error in the search, for the models that have no reliability."


def _section(title: str, note: str, rows: Sequence[Sequence[str]]) -> str:
    return table_html(title, note, rows[0], rows[1:]) if len(rows) > 1 else ""


def _chosen_rows(shown: Mapping[Run, Shown], *, with_data: bool = True) -> list[list[str]]:
    """Return the settings of the models without reliabilities, a row each, and whose search they are of."""
    rows = []
    for run, found in shown.items():
        for title, chosen in found.chosen.items():
            values = [
                next((chosen.setting[name] for name in names if name in chosen.setting), "—")
                for names in COLUMNS.values()
            ]
            data = [run.experiment.title] if with_data else []
            rows.append([title, *data, source_of(chosen.is_published), *values])
    rows.sort(key=lambda row: row[0])
    return [["model", *(["data set"] if with_data else []), "search", *COLUMNS], *rows]


def _time_rows(shown: Mapping[Run, Shown]) -> list[list[str]]:
    """Return the fitting times, a column per model: measured here, of the published file, of the paper's table."""
    found = {title for parts in shown.values() for title in (*parts.times, *parts.published_times)}
    titles = [title for title in map(title_of, FACTORIZATIONS) if title in found]
    rows = []
    for run, parts in shown.items():
        kinds = {"here": parts.times, "published file": parts.published_times}
        rows += [
            [run.experiment.title, kind, *(_seconds(times.get(title)) for title in titles)]
            for kind, times in kinds.items()
            if times
        ]
        if parts.published_times:
            rows.append([run.experiment.title, "paper's table", *(_paper_time(run, title) for title in titles)])
    return [["data set", "source", *titles], *rows]


def _dataset_rows(runs: Sequence[Run]) -> list[list[str]]:
    """Return the sizes of the data sets, counted where the data are here, else those of the paper's table."""
    rows = []
    for run in runs:
        counts, source = run.experiment.counts, "paper's table"
        if has_data(run.dataset):
            train, test = published_split(run.dataset)
            mine = len(train.users), len(train.items), len(train), len(test)
            source = "counted here, as in the paper" if mine == counts else "counted here, not as in the paper"
            counts = mine
        rows.append([run.experiment.title, *(f"{count:,}" for count in counts), source])
    return [["data set", "users", "items", "training ratings", "test ratings", "source"], *rows]


def _seconds(times: Sequence[float] | None) -> str:
    return paper_plots.time_text(times).removesuffix(" s") if times else "—"


def _paper_time(run: Run, title: str) -> str:
    return run.experiment.times[[title_of(model) for model in FACTORIZATIONS].index(title)]


def _version() -> str:
    return f"Starcast {starcast.__version__}, Python {platform.python_version()}"


def _write_figure(stem: Path, figure: Any, numbers: Iterable[Sequence[Any]]) -> str:
    """Write a figure as PNG and SVG, and what it shows as CSV; return the SVG."""
    drawing = to_svg(figure.axes[0])
    _write(stem.with_suffix(".png"), paper_plots.to_png(figure))
    _write(stem.with_suffix(".svg"), drawing.encode())
    _write_csv(stem.with_suffix(".csv"), numbers)
    return drawing


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("w", newline="") as text:
        csv.writer(text, lineterminator="\n").writerows(rows)
