"""Fills the tables of the page on trust from benchmarks/results/trust.json: python docs/make_trust.py."""

from collections.abc import Callable, Iterator
from typing import Any

from make_performance import BLOCK, ROOT, read_results, table

from starcast.models import MODELS

PAGE = ROOT / "docs" / "trust.md"
Found = dict[str, Any]


def main() -> None:
    PAGE.write_text(fill(read_results(ROOT / "benchmarks" / "results")["trust"]), encoding="utf-8")


def fill(found: Found) -> str:
    """Return the page with its tables filled in."""
    text = PAGE.read_text(encoding="utf-8")
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
    return table(["90 % sets", "ratings", "coverage", "mean size"], rows)


BLOCKS: dict[str, Callable[[Found], str]] = {
    "calibration": calibration, "lists": lists, "promises": promises, "often": often, "sets": sets,
}  # fmt: skip


if __name__ == "__main__":
    main()
