"""The figures of the performance page: numbers in, files in docs/images out. Drawn by make_performance.py."""

import math
from pathlib import Path
from typing import Any

from starcast.plots import ACCENT, GREY, PALETTE, new_figure, style_axes

TITLES = {
    "ratings": "ratings", "factors": "factors", "scores": "scores", "threads": "threads",
}  # fmt: skip


def draw_all(results: dict[str, Any], headlines: list[tuple[str, str, dict[str, float]]], folder: Path) -> None:
    """Draw what there are results for."""
    for name, draw, needs in (
        ("speed", lambda: draw_headlines(headlines), "jobs"),
        ("speed-scaling", lambda: draw_scaling(results["scaling"]), "scaling"),
        ("speed-roofline", lambda: draw_roofline(results["roofline"]), "roofline"),
    ):
        if needs in results:
            draw().savefig(folder / f"{name}.png", dpi=150, facecolor="white")


def draw_headlines(headlines: list[tuple[str, str, dict[str, float]]]) -> Any:
    """How many times faster, a line per job: the median, and the spread over the turns."""
    figure = new_figure((8.6, 1.0 + 0.3 * len(headlines)))
    ax = style_axes(figure.add_subplot())
    ax.grid(visible=False, axis="y")
    ax.axvline(1, color=GREY, linewidth=1, linestyle="--", zorder=1)
    for at, (_, _, found) in enumerate(reversed(headlines)):
        ax.plot([found["min"], found["max"]], [at, at], color=ACCENT, linewidth=5, alpha=0.35, solid_capstyle="round")
        ax.plot(found["median"], at, "o", color=ACCENT, markersize=6.5)
        place = {"xytext": (9, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        ax.annotate(
            f"{found['median']:.2g}×" if found["median"] < 100 else f"{found['median']:.0f}×",
            (found["max"], at),
            **place,
        )
    ax.set_xscale("log")
    ends = [
        min(0.7, *(found["min"] * 0.8 for *_, found in headlines)),
        max(found["max"] for *_, found in headlines) * 1.9,
    ]
    ax.set_xlim(*ends)
    ticks = [tick for tick in (0.01, 0.1, 1, 3, 10, 30, 100, 300, 1000) if ends[0] <= tick <= ends[1]]
    ax.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    ax.minorticks_off()
    ax.set_ylim(-0.7, len(headlines) - 0.3)
    ax.set_yticks(
        range(len(headlines)), [_label(what, against) for what, against, _ in reversed(headlines)], fontsize=9
    )
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("times faster, median and spread over the turns")
    return figure


def _label(what: str, against: str) -> str:
    job, _, rest = what.partition(", ")
    if job.startswith("a round"):
        return f"{job} · an epoch of Surprise's SVD"
    return f"{job}, {rest.partition(':')[0].replace('MovieLens ', '')} · {against.partition(':')[0]}"


def draw_scaling(results: dict[str, Any]) -> Any:
    """Nanoseconds a visit along each axis, a line per model."""
    figure = new_figure((10.4, 7.2))
    curves = results["curves"]
    models = list(dict.fromkeys(model for curve in curves.values() for model in curve["lines"]))
    colours = {model: GREY if model == "svd" else PALETTE[at % len(PALETTE)] for at, model in enumerate(models)}
    axes = figure.subplots(2, 2).ravel()
    handles: dict[str, Any] = {}
    for ax, (axis, curve) in zip(axes, curves.items(), strict=False):
        style_axes(ax)
        for model, line in curve["lines"].items():
            low, middle, high = ([point[name] for point in line["ns"]] for name in ("min", "median", "max"))
            ax.fill_between(line["at"], low, high, color=colours[model], alpha=0.15, linewidth=0)
            style = "--" if model == "svd" else "-"
            (drawn,) = ax.plot(
                line["at"], middle, marker="o", markersize=4, color=colours[model], linewidth=1.6, linestyle=style
            )
            handles.setdefault(line["title"], drawn)
        ax.set_xscale("log", base=2 if axis != "ratings" else 10)
        ax.set_yscale("log")
        at = sorted({point for line in curve["lines"].values() for point in line["at"]})
        ax.set_xticks(at, [f"{point / 1e6:g}M" if axis == "ratings" else str(point) for point in at])
        ax.minorticks_off()
        ax.set_xlabel(TITLES[axis])
        ax.set_ylabel("nanoseconds a visit")
        ax.set_title(curve["about"], loc="left", fontsize=9)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def draw_roofline(results: dict[str, Any]) -> Any:
    """Operations a second against operations a byte: the machine's roofs, a point per model and number of factors."""
    figure = new_figure((8.2, 5.4))
    ax = style_axes(figure.add_subplot())
    machine = results["machine"][max(results["machine"], key=int)]
    rows = results["rounds"]
    intensity = [row["operations"] / row["bytes"] for row in rows]
    left, right = min(intensity) / 2.2, max(intensity) * 2.2
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(left, right)
    ax.set_ylim(min(row["operations_per_second"] for row in rows) / 2, machine["operations"] * 1.7)
    ink = {"fontsize": 8.5, "color": "#2e4057"}
    labels = []
    for name, title in (("L2", "second-level cache"), ("L3", "last-level cache"), ("memory", "memory")):
        ends = [left, min(right, machine["operations"] / machine[name])]
        ax.plot(ends, [x * machine[name] for x in ends], color="#2e4057", linewidth=1.3)
        labels.append((f"{title}, {machine[name] / 1e9:.0f} GB/s", left * 1.06, left * 1.06 * machine[name]))
    ax.plot([machine["operations"] / machine["L2"], right], [machine["operations"]] * 2, color="#2e4057", linewidth=1.3)
    peak = f"multiply-adds, {machine['operations'] / 1e9:.0f} G operations/s"
    ax.annotate(peak, (right, machine["operations"]), (-4, 5), textcoords="offset points", ha="right", **ink)
    models = list(dict.fromkeys(row["model"] for row in rows))
    for model, colour in zip(models, PALETTE, strict=False):
        points = [row for row in rows if row["model"] == model]
        x, y = [row["operations"] / row["bytes"] for row in points], [row["operations_per_second"] for row in points]
        ax.plot(x, y, color=colour, linewidth=0.8, alpha=0.6)
        ax.scatter(
            x,
            y,
            s=[14 + 1.6 * row["n_factors"] for row in points],
            color=colour,
            label=points[0]["title"],
            zorder=3,
            linewidths=0,
        )
    ticks = [tick for tick in (0.2, 0.5, 1, 2, 5, 10, 20) if left <= tick <= right]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    marks = [
        mark
        for mark in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
        if ax.get_ylim()[0] <= mark * 1e9 <= ax.get_ylim()[1]
    ]
    ax.set_yticks([mark * 1e9 for mark in marks], [f"{mark}" for mark in marks])
    ax.minorticks_off()
    ax.set_xlabel("operations a byte of rows read")
    ax.set_ylabel("billions of operations a second, all threads")
    figure.legend(
        frameon=False, fontsize=8.5, loc="outside right upper", title="larger: more factors", title_fontsize=8.5
    )
    figure.draw_without_rendering()  # only now is it known how steep the lines are on paper
    (x0, y0), (x1, y1) = ax.transData.transform([(1, 1), (10, 10)])
    slope = math.degrees(math.atan2(y1 - y0, x1 - x0))
    for label, x, y in labels:
        place = {"xytext": (3, -3), "textcoords": "offset points", "ha": "left", "va": "top"}
        ax.annotate(label, (x, y), rotation=slope, rotation_mode="anchor", **place, **ink)
    return figure
