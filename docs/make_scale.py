"""Fills the tables of the page on scale from benchmarks/results: python docs/make_scale.py."""

from collections.abc import Callable
from pathlib import Path

from make_performance import BLOCK, ROOT, Results, read_results, table
from ray_figures import BLOCKS as FITS

PAGE = ROOT / "docs" / "scale.md"
JOBS = {
    "cut": "{ratings:,} ratings of {users:,} users, 20 Parquet parts, cut within 1 GB",
    "lists": "lists of ten for {users:,} users of {items:,} items, from a model file",
    "search": "{trials} settings of the paper's search, ResBeMF on MovieLens 100K, five folds",
}


def main() -> None:
    PAGE.write_text(fill(PAGE, read_results(ROOT / "benchmarks" / "results")), encoding="utf-8")


def fill(page: Path, results: Results) -> str:
    """Return the page with its tables filled in."""
    text = page.read_text(encoding="utf-8")
    return BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]](results)}\n{block[3]}", text)


def jobs(results: Results) -> str:
    """Return time and memory of the jobs that Ray's workers share, alone and with two of them."""
    found = results["shards"]
    rows = []
    for name, told in JOBS.items():
        alone, two = (found[name][who] for who in ("alone", "two workers"))
        took = [one.get("listing seconds", one["seconds"]) for one in (alone, two)]
        memory = f"{alone['driver MB']} MB", f"{two['driver MB']} MB; {two['largest other MB']} MB"
        cells = [f"{seconds:.0f} s; {held}" for seconds, held in zip(took, memory, strict=True)]
        rows.append([told.format(**alone), *cells, "the same" if found[name]["same"] else "**not the same**"])
    head = [
        "job",
        "one process: time; memory",
        "two workers: time; memory of the asking and of the largest other process",
        "results",
    ]
    where = f"{found['processor']}, {found['cores']} cores; commit {found['commit']}; `{found['command']}`"
    return table(head, rows) + f"\n\n{where}"


BLOCKS: dict[str, Callable[[Results], str]] = {"jobs": jobs, **FITS}

if __name__ == "__main__":
    main()
