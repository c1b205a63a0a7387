"""Figures: numbers in, Axes out."""

import io
from typing import Any

from starcast.errors import MissingExtraError
from starcast.metrics import ReliabilityCurve
from starcast.results import Results

GREY, ACCENT = "#9aa0a6", "#d1495b"
PALETTE = ("#d1495b", "#00798c", "#edae49", "#66a182", "#2e4057", "#8d6a9f", "#b5651d", "#5c6bc0", "#6b6b6b", "#c77daa")


def plot_error_coverage(results: Results, *, highlight: str | None = None, ax: Any = None) -> Any:
    """Draw 1-MAE against coverage, a line per model and a point per threshold; return the Axes.

    With `highlight` that model alone has a colour and a name, and the others are grey.
    """
    ax = ax if ax is not None else new_axes()
    models = list(dict.fromkeys(results["model"]))
    others = next((model for model in models if model != highlight), None)
    for at, model in enumerate(models):
        rows = [row for row in results.where(model=model) if row["coverage"] > 0]
        x, y = [row["coverage"] for row in rows], [row["1-MAE"] for row in rows]
        lit = highlight in (None, model)
        colour = ACCENT if model == highlight else PALETTE[at % len(PALETTE)] if lit else GREY
        label = model if lit else f"{len(models) - 1} other models" if model == others else None
        size, width = (4, 1.8) if lit else (2.5, 1)
        ax.plot(x, y, marker="o", markersize=size, linewidth=width, color=colour, label=label, zorder=2 + lit)
    ax.set_xlabel("coverage: share of ratings that are predicted")
    ax.set_ylabel("1 − MAE of these predictions")
    ax.set_xlim(-0.02, 1.02)
    ax.legend(frameon=False, loc="best")
    return ax


def plot_reliability(curves: dict[str, ReliabilityCurve], *, least: int = 20, ax: Any = None) -> Any:
    """Draw how often predictions are right against how reliable they claim to be; the diagonal is honest.

    The area of a point grows with the number of ratings behind it; bins with less than `least` are left out.
    """
    ax = ax if ax is not None else new_axes()
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", zorder=1)
    for at, (model, curve) in enumerate(curves.items()):
        full = curve.count >= least
        size = 12 + 160 * curve.count[full] / max(curve.count.max(), 1)
        colour = PALETTE[at % len(PALETTE)]
        ax.plot(curve.reliability[full], curve.accuracy[full], color=colour, linewidth=1.2, label=model)
        ax.scatter(
            curve.reliability[full], curve.accuracy[full], s=size, color=colour, alpha=0.75, linewidths=0, zorder=3
        )
    ax.set_xlabel("reliability: what the model says")
    ax.set_ylabel("accuracy: what happens")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_recklessness(results: Results, *, ax: Any = None) -> Any:
    """Draw what a model says (mean reliability) and what happens (accuracy) against its recklessness."""
    ax = ax if ax is not None else new_axes()
    x = results["recklessness"]
    ax.plot(x, results["reliability"], marker="o", color=ACCENT, label="mean reliability: what the model says")
    ax.plot(x, results["accuracy"], marker="o", color=GREY, label="accuracy: what happens")
    ax.axvline(0, color="#000000", alpha=0.25, linewidth=0.8, zorder=1)
    ax.set_xlabel("recklessness: cautious ← 0 → bold")
    ax.set_ylim(0, 1)
    ax.legend(frameon=False, loc="upper left")
    return ax


def new_axes(size: tuple[float, float] = (6.4, 4.2)) -> Any:
    """Return fresh Axes in the house style, without touching the state of pyplot."""
    return style_axes(new_figure(size).add_subplot())


def new_figure(size: tuple[float, float]) -> Any:
    """Return a fresh Figure of that size in inches, without touching the state of pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing", "matplotlib", "plot") from None
    return Figure(figsize=size, layout="constrained")


def style_axes(ax: Any) -> Any:
    """Return the Axes in the house style: two sides, a faint grid behind."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(color="#000000", alpha=0.08, linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def to_svg(ax: Any) -> str:
    """Return the figure of the Axes as an SVG element to be put into a page: same numbers, same bytes."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "starcast", "font.family": "sans-serif"}):
        ax.figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
