"""What the sound protocol found, as files, figures and a table."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from starcast.datasets import load_dataset
from starcast.errors import choose
from starcast.files import replacing
from starcast.paper_plots import to_png
from starcast.plots import plot_error_coverage, to_svg
from starcast.reproduce.experiment import EXPERIMENTS
from starcast.results import Results
from starcast.sound import CONTENDERS, MEASURES, Sound, run_sound
from starcast.terminal import number

LEAST_COVERAGE = 0.02  # with less, a curve is about a handful of users
SHORT = {"accuracy": "right", "1-MAE of the mode": "mode", "1-MAE of the median": "median"}


def reproduce_soundly(
    dataset: str,
    folder: Path,
    *,
    contenders: Sequence[str] = tuple(CONTENDERS),
    on_progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Sound:
    """Run the sound protocol on a data set of the paper and write what it found below `folder`/dataset/sound.

    Two tables (overall.csv, curves.csv) and the error against coverage, as it is and tempered, as PNG and SVG.
    """
    experiment = EXPERIMENTS[choose("data set of the paper", dataset, EXPERIMENTS)]
    found = run_sound(
        load_dataset(dataset), contenders=contenders, relevant=experiment.relevant, on_progress=on_progress, **options
    )
    target = folder / dataset / "sound"
    target.mkdir(parents=True, exist_ok=True)
    _write(target / "overall.csv", found.overall.to_csv().encode())
    _write(target / "curves.csv", found.curves.to_csv().encode())
    for calibrated, name in ((False, "error-coverage"), (True, "error-coverage-tempered")):
        rows = [row for row in found.curves.where(calibrated=calibrated) if row["coverage"] >= LEAST_COVERAGE]
        ax = plot_error_coverage(Results(rows))
        ax.set_title(f"{dataset}, {'tempered' if calibrated else 'as it is'}")
        _write(target / f"{name}.png", to_png(ax.figure))
        _write(target / f"{name}.svg", to_svg(ax).encode())
    return found


def sound_table(found: Sound) -> Table:
    """Return a row per model and calibration; half the width of its interval over users stands below each figure."""
    title = "[bold]Sound protocol[/bold]: mode and median are their 1-MAE, ± half of a 95% interval over users"
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 1))
    table.add_column("model")
    for name in MEASURES:
        table.add_column(SHORT.get(name, name.upper() if len(name) < 5 else name), justify="right")
    for row in found.overall:
        table.add_row(row["model"], *(number(row[name]) for name in MEASURES))
        widths = (f"±{(row[f'{name} high'] - row[f'{name} low']) / 2:.3f}" for name in MEASURES)
        table.add_row("  tempered" if row["calibrated"] else "", *widths, style="dim")
    return table


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)
