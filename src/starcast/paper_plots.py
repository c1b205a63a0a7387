"""The figures of the paper: numbers in, a Figure out."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.plots import PALETTE, new_figure, style_axes
from starcast.reproduce.summary import Band, Searched, label_of

Floats = npt.NDArray[np.float64]
INK = "#1d2129"
COLOURS = dict(zip(("ResBeMF", "BeMF", "DirMF", "PMF", "BiasedMF"), PALETTE, strict=False))
MARKERS = {"ResBeMF": "o", "BeMF": "s", "DirMF": "^", "PMF": "D", "BiasedMF": "v"}
NEURAL_COLOURS = dict(zip(("MLP", "MLP in batches", "GCMC", "NGCF", "MWGP"), PALETTE[5:], strict=False))
PUBLISHED_DASHES = (0, (4, 2))  # of every line that was not computed here
PUBLISHED_HATCH = "////"
PUBLISHED_PANEL = "#ececec"
MEASURE_NAMES = {"1-MAE": "1 − MAE", "coverage": "coverage", "accuracy": "accuracy", "mAP": "mAP@10"}


def draw_hyperparameters(searches: Mapping[str, Searched], title: str = "") -> Any:
    """Draw a row of scatter plots per model: the same settings, coloured by one hyper-parameter after the other.

    The front is ringed and joined by a line. Settings that are not alive are left out. A published search has grey
    panels and says so.
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
            if search.is_published:
                _shade(ax)
        source = "\npublished" if search.is_published else ""
        row[0].set_ylabel(f"$\\bf{{{model}}}${source}\n1 − MAE", fontsize=10)
        _zoom(row[0], search)
    for ax in panels[-1]:
        ax.set_xlabel("coverage", fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def _shade(ax: Any) -> None:
    """Make a panel grey; the background of the axes itself is lost where a figure is saved as transparent."""
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((0, 0), 1, 1, transform=ax.transAxes, facecolor=PUBLISHED_PANEL, linewidth=0, zorder=0))


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


def draw_fronts(searches: Mapping[str, Searched], title: str = "") -> Any:
    """Draw the fronts of all models, coverage against 1 − MAE; published ones are hollow and dashed."""
    figure = new_figure((6.8, 4.6))
    ax = style_axes(figure.add_subplot())
    _plot_fronts(ax, searches)
    ax.set_xlabel("coverage, averaged over thresholds (larger is better)")
    ax.set_ylabel("1 − MAE, averaged over thresholds (larger is better)")
    ax.legend(frameon=False, title="front (rows)", alignment="left", fontsize=9, title_fontsize=9)
    if title:
        ax.set_title(title, fontsize=11, fontweight="bold", loc="left")
    return figure


def draw_fronts_across(searches: Mapping[str, Mapping[str, Searched]], title: str = "") -> Any:
    """Draw the fronts of every data set, a panel each; the key has a place of its own."""
    columns = min(3, len(searches) + 1)
    rows = -(-(len(searches) + 1) // columns)
    figure = new_figure((3.6 * columns, 0.3 + 3.1 * rows))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    handles: dict[str, Any] = {}
    for ax, (dataset, found) in zip(panels, searches.items(), strict=False):
        style_axes(ax)
        _plot_fronts(ax, found, with_rows=False)
        ax.set_title(dataset, fontsize=10, fontweight="bold", loc="left")
        ax.set_xlabel("coverage", fontsize=9)
        ax.set_ylabel("1 − MAE", fontsize=9)
        ax.tick_params(labelsize=8)
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    for ax in panels[len(searches) :]:
        ax.set_axis_off()
    panels[len(searches)].legend(handles.values(), handles, loc="center left", frameon=False, fontsize=10)
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def _plot_fronts(ax: Any, searches: Mapping[str, Searched], *, with_rows: bool = True) -> None:
    for model, search in searches.items():
        coverage, quality = search.coverage[search.front], search.quality[search.front]
        order = np.argsort(coverage)
        colour, is_published = COLOURS[model], search.is_published
        label = label_of(f"{model} ({len(order)})" if with_rows else model, is_published)
        ax.plot(
            coverage[order], quality[order], color=colour, marker=MARKERS[model], markersize=4.5,
            linewidth=1.4 if len(order) > 1 else 0, linestyle=PUBLISHED_DASHES if is_published else "-",
            markerfacecolor="white" if is_published else colour,
            markeredgecolor=colour if is_published else "white", markeredgewidth=1.0 if is_published else 0.4,
            label=label, zorder=3,
        )  # fmt: skip


def draw_curves(bands: Mapping[str, Mapping[str, Band]], thresholds: Sequence[float], title: str = "") -> Any:
    """Draw the four measures against θ: the mean over each front as a line, its 95% interval as a band.

    Published lines are dashed and their bands hatched.
    """
    figure = new_figure((9.2, 6.4))
    panels = dict(zip(("1-MAE", "accuracy", "coverage", "mAP"), figure.subplots(2, 2, sharex=True).flat, strict=True))
    for measure, ax in panels.items():
        style_axes(ax)
        for model, band in bands.get(measure, {}).items():
            _plot_band(ax, thresholds, band, model)
        ax.set_ylabel(MEASURE_NAMES[measure])
    _finish_curves(figure, panels, title)
    return figure


def _plot_band(ax: Any, thresholds: Sequence[float], band: Band, model: str, width: float = 1.8) -> None:
    colour, is_published = COLOURS[model], band.is_published
    ax.plot(
        thresholds, band.mean, color=colour, linewidth=width, linestyle=PUBLISHED_DASHES if is_published else "-",
        marker=MARKERS[model], markersize=4, markevery=3, markerfacecolor="white" if is_published else colour,
        label=label_of(model, is_published), zorder=3,
    )  # fmt: skip
    hatching = {"hatch": PUBLISHED_HATCH, "edgecolor": colour} if is_published else {}
    ax.fill_between(thresholds, band.low, band.high, facecolor=colour, alpha=0.15, linewidth=0, **hatching)


def _finish_curves(figure: Any, panels: Mapping[str, Any], title: str) -> None:
    """Label the axes of four panels of curves and put one key below them."""
    panels["coverage"].set_ylim(-0.03, 1.03)
    for measure in ("coverage", "mAP"):
        panels[measure].set_xlabel("reliability threshold θ")
    handles: dict[str, Any] = {}
    for ax in panels.values():
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")


def draw_neural_curves(
    here: Mapping[str, Mapping[str, Floats]],
    there: Mapping[str, Mapping[str, Floats]],
    thresholds: Sequence[float],
    band: Mapping[str, Band],
    title: str = "",
) -> Any:
    """Draw the four measures of the neural models against θ: recomputed ones as lines, published ones dashed.

    `band` has the measures of ResBeMF, which stands behind them as in the paper.
    """
    figure = new_figure((9.2, 6.6))
    panels = dict(zip(("1-MAE", "accuracy", "coverage", "mAP"), figure.subplots(2, 2, sharex=True).flat, strict=True))
    for measure, ax in panels.items():
        style_axes(ax)
        if measure in band:
            _plot_band(ax, thresholds, band[measure], "ResBeMF", 1.2)
        for curves, is_published in ((here, False), (there, True)):
            for model, values in curves.get(measure, {}).items():
                ax.plot(
                    thresholds, values, color=NEURAL_COLOURS[model], label=label_of(model, is_published), zorder=3,
                    linewidth=1.3 if is_published else 1.9, linestyle=PUBLISHED_DASHES if is_published else "-",
                )  # fmt: skip
        ax.set_ylabel(MEASURE_NAMES[measure])
    _finish_curves(figure, panels, title)
    return figure


def draw_mlp_search(search: Searched, title: str = "") -> Any:
    """Draw the published search of MLP, whose coverage is always 1: 1 − MAE by epochs, factors and learning rate."""
    import matplotlib as mpl

    rates, factors = (np.unique(search.values[name]) for name in ("learningRate", "numFactors"))
    figure = new_figure((9.2, 3.2))
    panels = figure.subplots(1, len(rates), sharey=True, squeeze=False)[0]
    shades = mpl.colormaps["viridis"](np.linspace(0.05, 0.9, len(factors)))
    for ax, rate in zip(panels, rates, strict=True):
        _shade(style_axes(ax))
        for n_factors, shade in zip(factors, shades, strict=True):
            rows = np.flatnonzero((search.values["learningRate"] == rate) & (search.values["numFactors"] == n_factors))
            rows = rows[np.argsort(search.values["numEpochs"][rows])]
            ax.plot(
                search.values["numEpochs"][rows], search.quality[rows], color=shade, linestyle=PUBLISHED_DASHES,
                marker="o", markersize=4.5, markerfacecolor="white", label=f"{n_factors:g} factors",
            )  # fmt: skip
        best = np.flatnonzero(search.front & (search.values["learningRate"] == rate))
        ax.scatter(
            search.values["numEpochs"][best], search.quality[best], s=90, facecolors="none", edgecolors=INK, zorder=4
        )
        ax.set_title(f"learning rate {rate:g}", fontsize=9)
        ax.set_xlabel("epochs", fontsize=9)
        ax.set_xticks(np.unique(search.values["numEpochs"]))
        ax.tick_params(labelsize=8)
    panels[0].set_ylabel("1 − MAE, mean over folds", fontsize=9)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def draw_times(here: Mapping[str, Sequence[float]], there: Mapping[str, Sequence[float]], title: str = "") -> Any:
    """Draw the fitting time of every row as a point and the mean as a line, with the figures beside them.

    The published times, of another machine, have lines of their own with hollow points.
    """
    from matplotlib import ticker

    rows = [
        (model, times[model], is_published)
        for model in COLOURS
        for times, is_published in ((here, False), (there, True))
        if model in times
    ]
    figure = new_figure((7.6, 0.9 + (0.36 if here and there else 0.5) * len(rows)))
    ax = style_axes(figure.add_subplot())
    for at, (model, seconds, is_published) in enumerate(rows):
        values = np.asarray(seconds, np.float64)
        spread = at + np.linspace(-0.22, 0.22, len(values)) if len(values) > 1 else np.array([at])
        fill = {"facecolors": "none", "linewidths": 0.9} if is_published else {"linewidths": 0, "alpha": 0.75}
        edge = {"edgecolors": COLOURS[model]} if is_published else {"color": COLOURS[model]}
        ax.plot([values.mean()] * 2, [at - 0.34, at + 0.34], color=INK, linewidth=2, zorder=3)
        ax.scatter(values, spread, s=18, zorder=4, **fill, **edge)
        ax.annotate(
            time_text(values), (1.01, at), xycoords=("axes fraction", "data"), va="center", fontsize=9, color=INK,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    ax.set_yticks(range(len(rows)), [label_of(model, is_published) for model, _, is_published in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
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
