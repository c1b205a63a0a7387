"""The tables of the page on scale that are about fits, from benchmarks/results/ray.json and the formulas."""

from collections.abc import Callable
from typing import Any

from make_performance import Results, number, table

from starcast.distributed.cost import round_cost, row_of
from starcast.models import BeMF, BiasedMF, OrdinalMF, ResBeMF

Found = dict[str, Any]
SIZES = [  # users, items, ratings, workers, threads of each
    (6_040, 3_706, 10**6, 2, 1),
    (80_000, 10_000, 10**7, 2, 1),
    (400_000, 30_000, 5 * 10**7, 2, 1),
    (10**7, 10**5, 10**9, 8, 16),
    (10**8, 10**6, 10**10, 32, 32),
    (10**9, 10**7, 10**11, 128, 64),
]


def agree(found: Found) -> str:
    """Return by how much fits on several workers differ from that of one machine."""
    rows = []
    for name, row in found["agree"].items():
        if name in ("size", "commit"):
            continue
        for workers in (2, 3, 4):
            cell = row[f"{workers} workers"]
            rows.append([
                name if workers == 2 else "", f"{workers}", _apart(cell["largest difference"]), f"{cell['nll']:.4f}",
                f"{row['nll']:.4f}", f"{cell['sent'] / 1e6:.2f} ({cell['sent by formula'] / 1e6:.2f})",
                f"{cell['received'] / 1e6:.2f} ({cell['received by formula'] / 1e6:.2f})",
            ])  # fmt: skip
    head = ["MovieLens 1M", "workers", "largest difference", "NLL", "one machine", "MB sent (formula)", "received"]
    return (
        table(head, rows) + f"\n\n*A round of a worker; each is a machine of its own to Ray. {_made(found, 'agree')}*"
    )


def _apart(difference: float) -> str:
    return f"{difference:.1e}" if difference else "none"


def row_bytes(found: Found) -> str:
    """Return the bytes of an item for five scores and the parameters that models have unless told."""
    models = {
        "ResBeMF": (ResBeMF(), None),
        "OrdinalMF, climbing": (OrdinalMF(), False), "OrdinalMF, drawing": (OrdinalMF(), True),
        "BeMF": (BeMF(), None), "BiasedMF": (BiasedMF(update="exact"), None),
    }  # fmt: skip
    rows = []
    for name, (model, is_draw) in models.items():
        row = row_of(model, 5, is_draw)
        rows.append([name, f"{row.up:,}", f"{row.down:,}", f"{row.n_questions}"])
    return table(["five scores, factors as by default", "$b_\\text{up}$", "$b_\\text{down}$", "$q$"], rows)


def overhead(found: Found) -> str:
    """Return seconds of a round by two workers and by two threads, and the peaks of memory beside the formulas'."""
    here, most = found["overhead"], found["memory"]
    seconds, size = here["seconds of a round"], {key: most["cut"][key] for key in ("users", "items", "ratings")}
    cost = round_cost(ResBeMF(), **size)
    rows = [
        [f"{here['size']['ratings']:,} ratings: two threads", _round(seconds["one process"])],
        ["two workers of a thread each", _round(seconds["two workers"])],
        ["the second median divided by the first", f"{_ratio_of_medians(seconds):.2f}"],
        [
            "ratio within each turn of the two, one after the other: median (least to most)",
            "{median:.2f} ({min:.2f} to {max:.2f})".format(**here["ratio"]),
        ],
        [f"{size['ratings']:,} ratings from Parquet parts: cut into shards", f"peak {most['cut']['driver MB']:,} MB"],
        *(
            [f"{who}, fitting by two workers", f"peak {peak:,} MB (formula: {told / 1e6:,.0f} MB)"]
            for who, peak, told in (
                ("the driver", most["fit"]["driver MB"], cost.driver_memory),
                ("the largest other process", most["fit"]["largest other MB"], cost.worker_memory),
            )
        ),
    ]
    measured = _made(found, "overhead")
    if most["fit"]["commit"] != found["overhead"]["commit"]:
        measured += f" Memory of the fit: commit `{most['fit']['commit']}`."
    return table(["ResBeMF on two cores", ""], rows) + f"\n\n*{measured}*"


def _round(seconds: dict[str, float]) -> str:
    """Return the median of a round, with digits enough to divide by it, and the least and the most."""
    return "{median:.3f} s a round ({min:.3f} to {max:.3f})".format(**seconds)


def _ratio_of_medians(seconds: dict[str, dict[str, float]]) -> float:
    return seconds["two workers"]["median"] / seconds["one process"]["median"]


def model(found: Found) -> str:
    """Return what the formulas say of sizes that fit here and of those that do not."""
    seconds = found["overhead"]["seconds of a round"]["two workers"]["median"]
    rate = found["overhead"]["size"]["ratings"] / seconds / 2
    measured = {
        10**6: found["agree"]["ResBeMF"]["2 workers"]["seconds of a round"],
        10**7: seconds,
        5 * 10**7: min(found["memory"]["fit"]["seconds of rounds"]),
    }
    rows = []
    for users, items, ratings, workers, threads in SIZES:
        cost = round_cost(
            ResBeMF(), users=users, items=items, ratings=ratings, workers=workers, threads=threads, rate=rate
        )
        rows.append([
            _short(users), _short(items), _short(ratings), f"{workers} × {threads}",
            _bytes(cost.sent), _bytes(cost.received), f"{number(cost.seconds)} s",
            f"{number(measured[ratings])} s" if ratings in measured else "",
            _bytes(cost.worker_memory), _bytes(cost.driver_memory),
        ])  # fmt: skip
    head = ["users", "items", "ratings", "workers", "sent", "received", "a round", "measured", "a worker", "driver"]
    note = (
        f"*ResBeMF with 8 factors and five scores; {_short(rate)} ratings a second and thread, as measured above; a "
        "network of 10 Gbit/s. Workers × threads of each; the last two columns are peaks of memory.*"
    )
    return table(head, rows) + "\n\n" + note


def _made(found: Found, part: str) -> str:
    return f"`{found['command']}`, commit `{found[part]['commit']}`, {found['cores']} cores."


def _short(value: float) -> str:
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value / 1e3:.3g} kB"


def told(block: Callable[[Found], str]) -> Callable[[Results], str]:
    """Return a block of all results, which says so where it has not been measured."""

    def of_all(results: Results) -> str:
        try:
            return block(results.get("ray", {}))
        except KeyError as missing:
            return f"*Not measured yet: `python benchmarks/bench_ray.py {str(missing).strip(chr(39))}`.*"

    return of_all


BLOCKS = {
    "ray-agree": told(agree),
    "ray-bytes": told(row_bytes),
    "ray-overhead": told(overhead),
    "ray-model": told(model),
}
