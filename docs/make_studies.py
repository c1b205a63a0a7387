"""Fills the tables of the pages on trust and on new users from benchmarks/results: python docs/make_studies.py."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from make_performance import BLOCK, ROOT, Results, read_results, table

from starcast.models import MODELS

PAGES = {ROOT / "docs" / "trust.md": "trust", ROOT / "docs" / "new-users.md": "new_users"}
Found = dict[str, Any]


def main() -> None:
    results = read_results(ROOT / "benchmarks" / "results")
    for page in PAGES:
        page.write_text(fill(page, results), encoding="utf-8")


def fill(page: Path, results: Results) -> str:
    """Return a page with its tables filled in."""
    found = results[PAGES[page]]
    text = page.read_text(encoding="utf-8")
    return BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]](found)}\n{block[3]}", text)


def calibration(found: Found) -> str:
    """Return log-loss and calibration error before and after calibration, on two splits."""
    rows = []
    for name in ("bayes", "bemf", "biasedmf", "resbemf", "ordinalmf"):
        cells = [found[f"{name}, {split}, {how}"] for split in SPLITS for how in ("as it is", "calibrated")]
        rows.append([MODELS[name].__name__, *(f"{cell['nll']:.3f}, {cell['ece']:.3f}" for cell in cells)])
    return table(["model", "paper's split: NLL, ECE", "calibrated", "random fifth: NLL, ECE", "calibrated"], rows)


SPLITS = ("paper's split", "random split")


def lists(found: Found) -> str:
    """Return by how much reliabilities exceed accuracies in lists."""
    rows = []
    for name in ("bemf", "resbemf"):
        for how in ("as it is", "calibrated"):
            ten, fifty = (found[f"lists of {n}, {name} {how}"] for n in (10, 50))
            told = [f"{row['gap']:+.3f} ({row['listed']:,})" for row in (ten, fifty)]
            rows.append([f"{MODELS[name].__name__}, {how}", *told, f"{ten['gap of all']:+.3f}"])
    return table(["reliability minus accuracy", "in lists of 10", "in lists of 50", "all held-out ratings"], rows)


def promises(found: Found) -> str:
    """Return what thresholds that were chosen for a promise came to."""
    kinds: list[tuple[str, dict[str, str]]] = [
        ("mode", {"kind": "mode"}), ("error", {"kind": "error"}), ("mode, by user", {"kind": "mode", "unit": "user"}),
    ]  # fmt: skip
    rows = []
    for target, words in ((("accuracy", 0.5), "at least"), (("mae", 0.65), "at most"), (("coverage", 0.5), "at least")):
        for kind, asked in kinds:
            row = found[f"promise {dict([target])} {asked}"]
            rows.append([f"{target[0]} {words} {target[1]}", kind, *_kept(row)])
    return table(["promise, confidence 0.9", "kind", "θ", "on `new`", "surely", "coverage", "on the test part"], rows)


def _kept(row: Found | str) -> Iterator[str]:
    if isinstance(row, str):  # what the refusal says
        best = row.partition("The best that can is ")[2].partition(",")[0]
        yield from ("—", "", f"cannot be promised; the best is {best}", "", "")
        return
    yield from (f"{row[name]:.3f}" for name in ("threshold", "observed", "bound"))
    yield from (f"{100 * row['coverage']:.1f}%", f"{row['came true']:.3f}")


def often(found: Found) -> str:
    """Return how often promises were kept over many cuts."""
    end = " kept on unseen ratings, of 200 cuts"
    rows = [[key.removesuffix(end), row["tested"], row["obvious"]] for key, row in found.items() if key.endswith(end)]
    return table(["promise", "kept when tested", "kept by the obvious threshold"], rows)


def sets(found: Found) -> str:
    """Return how often rating sets hold their rating, and how large they are."""
    rows = []
    for key, row in found.items():
        if key.startswith("90 % sets, "):
            split, _, group = key.removeprefix("90 % sets, ").partition(" split, ")
            rows.append([f"{split}: {group}", f"{row['ratings']:,}", f"{row['coverage']:.3f}", f"{row['size']:.2f}"])
    return table(["90% sets", "ratings", "coverage", "mean size"], rows)


def strangers(found: Found) -> str:
    """Return the log-loss for users who were held out: unknown, folded in, or fitted with the others."""
    rows = []
    for name in ("ordinalmf", "resbemf", "bemf", "pmf", "biasedmf", "dirmf"):
        cells = [found[f"{data} {name} held-out users, nll"][how] for data in DATA for how in STRANGERS]
        note = " (MovieLens 1M: seed 0)" if name == "ordinalmf" else ""
        rows.append([MODELS[name].__name__ + note, *(f"{cell:.4f}" for cell in cells)])
    return table(["", *_headed(("unknown", "folded in", "refit with them"))], rows)


DATA = {"ml-100k": "MovieLens 100K", "ml-1m": "MovieLens 1M"}
STRANGERS = ("unknown", "folded in", "refit")


def _headed(names: Sequence[str]) -> Iterator[str]:
    for title in DATA.values():
        yield from (f"{title}: {names[0]}", *names[1:])


def more(found: Found) -> str:
    """Return log-loss and reliability by the number of ratings that a stranger gives."""
    given = ("1 given", "5 given", "20 given", "50 given")
    rows = []
    for name in ("ordinalmf", "resbemf", "bemf", "biasedmf"):
        told = found[f"ml-1m {name} more and more ratings"]
        rows.append([MODELS[name].__name__, *(" / ".join(f"{x:.3f}" for x in _numbers(told[n])) for n in given)])
    return table(["ratings given", *(n.removesuffix(" given") for n in given)], rows)


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def absorbed(found: Found) -> str:
    """Return the log-loss before and after new ratings, for all users and for new ones."""
    rows = []
    for name in ("resbemf", "bemf", "pmf", "biasedmf", "dirmf"):
        cells = [found[f"{data} {name} ratings absorbed, nll"] for data in DATA]
        told = [f"{cell[how]:.3f} / {cell[f'{how}, new users']:.3f}" for cell in cells for how in ABSORBED]
        rows.append([MODELS[name].__name__, *told])
    return table(["", *_headed(("before", "`partial_fit`", "refit"))], rows)


ABSORBED = ("before", "partial_fit", "refit")


def moments(found: Found) -> str:
    """Return the milliseconds of what is done for one user: least and median."""
    jobs = {
        "fold_in": "`fold_in`", "fold_in and recommend": "and `recommend`", "partial_fit": "`partial_fit`",
        "explain, 20 ratings": "`explain`", "explain, 1000 ratings": "`explain`, 1,000 ratings",
    }  # fmt: skip
    rows = []
    for name in ("resbemf", "bemf", "pmf", "biasedmf", "dirmf"):
        cells = [_numbers(found[f"ml-1m {name} {job}, ms"]) for job in jobs]
        rows.append([MODELS[name].__name__, *(" / ".join(map(_milliseconds, cell)) for cell in cells)])
    return table(["", *jobs.values()], rows)


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


BLOCKS: dict[str, Callable[[Found], str]] = {
    "calibration": calibration, "lists": lists, "promises": promises, "often": often, "sets": sets,
    "strangers": strangers, "more": more, "absorbed": absorbed, "moments": moments,
}  # fmt: skip


if __name__ == "__main__":
    main()
