"""The figures of the paper: numbers in, a Figure out."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.plots import PALETTE, new_figure, style_axes
from starcast.reproduce.summary import Band, Searched

Floats = npt.NDArray[np.float64]
INK = "#1d2129"
COLOURS = dict(zip(("ResBeMF", "BeMF", "DirMF", "PMF", "BiasedMF"), PALETTE, strict=False))
MARKERS = {"ResBeMF": "o", "BeMF": "s", "DirMF": "^", "PMF": "D", "BiasedMF": "v"}
NEURAL_COLOURS = dict(zip(("MLP", "MLP in batches", "GCMC", "NGCF", "MWGP"), PALETTE[5:], strict=False))
DASHES = {"PMF": (0, (5, 2)), "BiasedMF": (0, (1.5, 1.5))}
MEASURE_NAMES = {"1-MAE": "1 − MAE", "coverage": "coverage", "accuracy": "accuracy", "mAP": "mAP@10"}


def draw_hyperparameters(searches: Mapping[str, Searched], title: str = "") -> Any:
    """Draw a row of scatter plots per model: the same settings, coloured by one hyper-parameter after the other.

    The front is ringed and joined by a line. Settings that are not alive are left out.
    """
    import matplotlib as mpl

    figure = new_figure((10.4, 0.4 + 2.7 * len(searches)))
    columns = max(len(search.values) for search in searches.values())
    panels = figure.subplots(len(searches), columns, squeeze=False, sharex="row", sharey="row")
    for row, (model, search) in zip(panels, searches.items(), strict=True):
        # In no order, so that no value lies on top of the others.
        shown = np.random.default_rng(0).permutation(np.flatnonzero(search.alive))
        for ax, (name, values) in zip(row, search.values.items(), strict=True):
            levels = np.unique(values)
            shades = mpl.colormaps["viridis"](np.linspace(0.05, 0.95, len(levels)))
            colour = shades[np.searchsorted(levels, values)]
            style_axes(ax)
            ax.scatter(search.coverage[shown], search.quality[shown], s=11, c=colour[shown], linewidths=0, alpha=0.85)
            _ring_front(ax, search, colour)
            _key(ax, name, levels, shades)
            ax.tick_params(labelsize=8)
        row[0].set_ylabel(f"$\\bf{{{model}}}$\n1 − MAE", fontsize=10)
        _zoom(row[0], search)
    for ax in panels[-1]:
        ax.set_xlabel("coverage", fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def _ring_front(ax: Any, search: Searched, colour: npt.NDArray[Any]) -> None:
    order = np.flatnonzero(search.front)[np.argsort(search.coverage[search.front])]
    x, y = search.coverage[order], search.quality[order]
    ax.plot(x, y, color=INK, linewidth=0.7, alpha=0.7, zorder=3)
    ax.scatter(x, y, s=22, c=colour[order], edgecolors=INK, linewidths=0.6, zorder=4)


def _key(ax: Any, name: str, levels: Floats, shades: npt.NDArray[Any]) -> None:
    """Put a strip above the panel: a cell per value in its colour."""
    strip = ax.inset_axes((0, 1.03, 1, 0.085))
    strip.imshow(shades[None, :, :3], aspect="auto")
    for at, (level, shade) in enumerate(zip(levels, shades, strict=True)):
        ink = INK if shade[:3] @ (0.299, 0.587, 0.114) > 0.5 else "white"
        text = f"{level:g}"
        strip.text(
            at, 0, text.removeprefix("0") if levels[0] < 1e-3 else text, ha="center", va="center", fontsize=7, color=ink
        )
    strip.set_axis_off()
    strip.set_title(name, fontsize=9, pad=3)


def _zoom(ax: Any, search: Searched) -> None:
    """Show the whole front and all settings but the worst of twenty; a few strays must not squeeze the rest."""
    for values, limit in ((search.coverage, ax.set_xlim), (search.quality, ax.set_ylim)):
        if search.alive.any():
            low, high = np.quantile(values[search.alive], 0.05), values[search.alive].max()
            low = min(low, values[search.front].min(initial=low))
            limit(low - 0.06 * (high - low + 1e-3), high + 0.06 * (high - low + 1e-3))


def draw_fronts(fronts: Mapping[str, tuple[Floats, Floats]], title: str = "") -> Any:
    """Draw the fronts of all models, coverage against 1 − MAE, each named beside its line."""
    figure = new_figure((6.8, 4.6))
    ax = style_axes(figure.add_subplot())
    for model, (coverage, quality) in fronts.items():
        order = np.argsort(coverage)
        ax.plot(
            coverage[order], quality[order], color=COLOURS[model], marker=MARKERS[model], markersize=4.5,
            linewidth=1.4 if len(order) > 1 else 0,
            markeredgecolor="white", markeredgewidth=0.4, label=f"{model} ({len(coverage)})", zorder=3,
        )  # fmt: skip
    ax.set_xlabel("coverage, averaged over thresholds (larger is better)")
    ax.set_ylabel("1 − MAE, averaged over thresholds (larger is better)")
    ax.legend(frameon=False, title="front (rows)", alignment="left", fontsize=9, title_fontsize=9)
    if title:
        ax.set_title(title, fontsize=11, fontweight="bold", loc="left")
    return figure


def draw_curves(bands: Mapping[str, Mapping[str, Band]], thresholds: Sequence[float], title: str = "") -> Any:
    """Draw the four measures against θ: the mean over each front as a line, its 95% interval as a band."""
    figure = new_figure((9.2, 6.4))
    panels = dict(zip(("1-MAE", "accuracy", "coverage", "mAP"), figure.subplots(2, 2, sharex=True).flat, strict=True))
    for measure, ax in panels.items():
        style_axes(ax)
        for model, band in bands.get(measure, {}).items():
            style = {"color": COLOURS[model], "linewidth": 1.8, "linestyle": DASHES.get(model, "-")}
            ax.plot(thresholds, band.mean, label=model, zorder=3, **style)
            ax.fill_between(thresholds, band.low, band.high, color=COLOURS[model], alpha=0.18, linewidth=0)
        ax.set_ylabel(MEASURE_NAMES[measure])
    panels["coverage"].set_ylim(-0.03, 1.03)
    for measure in ("coverage", "mAP"):
        panels[measure].set_xlabel("reliability threshold θ")
    handles, names = panels["1-MAE"].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(names), frameon=False, fontsize=10)
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def draw_neural_curves(
    here: Mapping[str, Mapping[str, Floats]],
    there: Mapping[str, Mapping[str, Floats]],
    thresholds: Sequence[float],
    band: Mapping[str, Band],
    title: str = "",
) -> Any:
    """Draw the four measures of the neural models against θ: ours as lines, the published ones dashed.

    `band` has the measures of ResBeMF, which stands behind them as in the paper.
    """
    figure = new_figure((9.2, 6.6))
    panels = dict(zip(("1-MAE", "accuracy", "coverage", "mAP"), figure.subplots(2, 2, sharex=True).flat, strict=True))
    for measure, ax in panels.items():
        style_axes(ax)
        if measure in band:
            ax.plot(thresholds, band[measure].mean, color=COLOURS["ResBeMF"], linewidth=1.2, label="ResBeMF", zorder=2)
            ax.fill_between(
                thresholds, band[measure].low, band[measure].high, color=COLOURS["ResBeMF"], alpha=0.15, linewidth=0
            )
        for curves, style in ((here, {"linewidth": 1.9}), (there, {"linewidth": 1.3, "linestyle": (0, (4, 2))})):
            for model, values in curves.get(measure, {}).items():
                label = model if curves is here else f"{model}, published"
                ax.plot(thresholds, values, color=NEURAL_COLOURS[model], label=label, zorder=3, **style)
        ax.set_ylabel(MEASURE_NAMES[measure])
    panels["coverage"].set_ylim(-0.03, 1.03)
    for measure in ("coverage", "mAP"):
        panels[measure].set_xlabel("reliability threshold θ")
    handles, names = panels["1-MAE"].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def draw_times(times: Mapping[str, Sequence[float]], title: str = "") -> Any:
    """Draw the fitting time of every row as a point and the mean as a line, with the figures beside them."""
    from matplotlib import ticker

    figure = new_figure((7.2, 0.9 + 0.5 * len(times)))
    ax = style_axes(figure.add_subplot())
    for at, (model, seconds) in enumerate(times.items()):
        values = np.asarray(seconds, np.float64)
        spread = at + np.linspace(-0.22, 0.22, len(values)) if len(values) > 1 else np.array([at])
        ax.plot([values.mean()] * 2, [at - 0.34, at + 0.34], color=INK, linewidth=2, zorder=3)
        ax.scatter(values, spread, s=18, color=COLOURS[model], alpha=0.75, linewidths=0, zorder=4)
        ax.annotate(
            time_text(values), (1.01, at), xycoords=("axes fraction", "data"), va="center", fontsize=9, color=INK,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    ax.set_yticks(range(len(times)), list(times))
    ax.set_ylim(len(times) - 0.5, -0.5)
    ax.set_xlabel("fitting time in seconds (a point per row of the front, the line is the mean)")
    ax.grid(visible=False, axis="y")
    if title:
        ax.set_title(title, fontsize=11, fontweight="bold", loc="left")
    return figure


def time_text(seconds: Sequence[float] | Floats) -> str:
    """Return mean and standard deviation as the paper prints them.

    >>> time_text([1.0, 2.0]), time_text([3.2])
    ('1.50 (0.71) s', '3.20 s')
    """
    values = np.asarray(seconds, np.float64)
    spread = f" ({values.std(ddof=1):.2f})" if len(values) > 1 else ""
    return f"{values.mean():.2f}{spread} s"


def to_png(figure: Any) -> bytes:
    """Return the figure as PNG on white."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=200, facecolor="white", metadata={"Software": None})
    return image.getvalue()
