"""How far the reproduced figures are from the published ones, model by model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from starcast.reproduce.experiment import WITHOUT_RELIABILITY, grid_of, title_of
from starcast.reproduce.published import (
    LEAST_COVERAGE,
    MEASURE_FILES,
    SEARCH_MEASURES,
    fold_values,
    on_front,
    read_curves,
    read_rows,
)
from starcast.reproduce.run import Run

AGREES = 1e-9  # the published curves are printed with eleven decimals


@dataclass(frozen=True)
class Verdict:
    """One model of one stage: rows compared, the largest difference of each measure, what diverged there and here.

    Rows are numbered from 0 in the order of the published file. A row has diverged if it covers less than 2% in some
    fold of the search, or at θ = 0 in the test. `differences` leaves out the rows that diverged there,
    `all_differences` does not; `front` is how many rows the fronts have there, here and in common (search only).
    """

    stage: str
    model: str
    rows: int
    differences: dict[str, float]
    all_differences: dict[str, float]
    diverged_there: list[int]
    diverged_here: list[int]
    front: tuple[int, int, int] | None = None

    @property
    def agrees(self) -> bool:
        """Whether no measure of a row that lived there differs by more than the published digits."""
        return bool(self.rows) and all(not gap > AGREES for gap in self.differences.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return asdict(self) | {"agrees": self.agrees}


def search_verdict(run: Run, model: str) -> Verdict | None:
    """Return how far the search of a model is from the published one; None if there is nothing to compare."""
    published = run.published_search(model)
    if published is None or not published.is_file() or not run.search_file(model).is_file():
        return None
    names = list(grid_of(run.dataset, model))
    here = {tuple(row[name] for name in names): row for row in read_rows(run.search_file(model))}
    rows = [(k, row) for k, row in enumerate(read_rows(published)) if tuple(row[name] for name in names) in here]
    there_rows = [row for _, row in rows]
    here_rows = [here[tuple(row[name] for name in names)] for row in there_rows]
    numbers = np.array([k for k, _ in rows], int)
    gaps = {m: np.abs(fold_values(here_rows, m) - fold_values(there_rows, m)).max(axis=1) for m in SEARCH_MEASURES}
    dead_there, dead_here = (
        (fold_values(part, "coverage") < LEAST_COVERAGE).any(axis=1) for part in (there_rows, here_rows)
    )
    fronts = on_front(there_rows), on_front(here_rows)
    front = (int(fronts[0].sum()), int(fronts[1].sum()), int((fronts[0] & fronts[1]).sum()))
    return _verdict("search", model, numbers, gaps, dead_there, dead_here, front)


def curve_verdict(run: Run, model: str) -> Verdict | None:
    """Return how far the test curves of a model are from the published ones; None if there is nothing to compare."""
    published = run.published_test()
    folder = run.path("test-split", "mae.csv").parent
    if published is None or not all((place / "mae.csv").is_file() for place in (published, folder)):
        return None
    title = title_of(model)
    there, here = read_curves(published), read_curves(folder)
    columns = [c for c in there["1-MAE"] if c.partition("_")[0] == title and c in here["1-MAE"]]
    if not columns:
        return None
    measures = [m for m in MEASURE_FILES if not (m == "accuracy" and model in WITHOUT_RELIABILITY)]
    gaps = {m: np.array([np.abs(here[m][c] - there[m][c]).max() for c in columns]) for m in measures}
    dead_there, dead_here = (
        np.array([part["coverage"][c][0] <= LEAST_COVERAGE for c in columns]) for part in (there, here)
    )
    numbers = np.array([int(c.partition("_")[2] or 0) for c in columns])
    return _verdict("test", model, numbers, gaps, dead_there, dead_here)


def verdicts(run: Run) -> list[Verdict]:
    """Return all verdicts that the files of a run allow."""
    found = [judge(run, model) for judge in (search_verdict, curve_verdict) for model in run.models]
    return [verdict for verdict in found if verdict is not None]


def verdict_tables(found: Sequence[Verdict]) -> Group:
    """Return the verdicts as tables of at most 80 columns."""
    parts: list[Any] = []
    for stage, measures, title in (
        ("search", list(SEARCH_MEASURES), "Search: largest difference of a fold from the published one"),
        ("test", list(MEASURE_FILES), "Test curves: largest difference from the published ones"),
    ):
        rows = [verdict for verdict in found if verdict.stage == stage]
        if rows:
            parts += [_table(rows, measures, title), *(Text(note, style="dim") for note in _notes(rows)), Text()]
    return Group(*parts)


def gap_text(gap: float | None) -> str:
    """Return a difference as people read it.

    >>> gap_text(5e-12), gap_text(0.0), gap_text(None)
    ('5.0e-12', '0', '—')
    """
    return "—" if gap is None else f"{gap:.1e}" if gap else "0"


def _verdict(
    stage: str, model: str, numbers: Any, gaps: Mapping[str, Any], dead_there: Any, dead_here: Any, front: Any = None
) -> Verdict:
    def largest(keep: Any) -> dict[str, float]:
        return {measure: float(gap[keep].max(initial=0.0)) for measure, gap in gaps.items()}

    everything = np.ones(len(numbers), bool)
    there, here = (numbers[which].tolist() for which in (dead_there, dead_here))
    return Verdict(stage, model, len(numbers), largest(~dead_there), largest(everything), there, here, front)


def _table(rows: Sequence[Verdict], measures: Sequence[str], title: str) -> Table:
    table = Table(title=f"[bold]{title}[/bold]", title_justify="left", header_style="bold", box=None, pad_edge=False)
    table.add_column("model")
    heads = ["rows", *measures, "diverged", *(["front"] if rows[0].front else []), "verdict"]
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        gaps = (gap_text(row.differences.get(m)) for m in measures)
        dead = f"{len(row.diverged_here)} of {len(row.diverged_there)}"
        front = [f"{row.front[2]} of {row.front[0]}"] if row.front else []
        good = row.agrees and row.diverged_here == row.diverged_there
        word = Text("agrees" if good else "differs", style="green" if good else "red")
        table.add_row(title_of(row.model), str(row.rows), *gaps, dead, *front, word)
    return table


def _notes(rows: Sequence[Verdict]) -> list[str]:
    """Return what a table does not say: which rows diverged, if they are few or not the same."""
    notes = []
    for row in rows:
        there, here = row.diverged_there, row.diverged_here
        if there == here and 0 < len(there) <= 12:
            notes.append(f"{title_of(row.model)}: diverged there and here: rows {', '.join(map(str, there))}")
        elif there != here:
            only = [sorted(set(a) - set(b)) for a, b in ((there, here), (here, there))]
            notes.append(f"{title_of(row.model)}: diverged only there: {_few(only[0])}; only here: {_few(only[1])}")
    return notes


def _few(numbers: Sequence[int], most: int = 12) -> str:
    shown = ", ".join(map(str, numbers[:most])) or "none"
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"
