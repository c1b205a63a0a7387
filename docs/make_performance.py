"""Fills the figures of the performance page and of the README from benchmarks/results: python docs/make_performance.py.

Between ``<!-- figures: NAME -->`` and ``<!-- end -->`` everything is written here, from the files that the benchmarks
wrote; the words around are written by people. ``--results FOLDER`` takes other files, to try a quick run out.
"""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

sys.path.insert(0, str(ROOT / "docs"))

from bars import Results, all_bars, read_results  # noqa: E402
from quality_figures import quality  # noqa: E402

PAGES = (ROOT / "docs" / "performance.md", ROOT / "README.md")
BLOCK = re.compile(r"(<!-- figures: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
LIBRARIES = {
    "starcast": "Starcast", "surprise": "Surprise", "lenskit": "LensKit", "implicit": "implicit", "myfm": "myFM",
    "polars": "Polars",
}  # fmt: skip


def fill(text: str, results: Results) -> str:
    """Return a page with its figures filled in."""
    return BLOCK.sub(lambda found: found[1] + _block(found[2], results) + "\n" + found[3], text)


def _block(name: str, results: Results) -> str:
    try:
        return BLOCKS[name](results)
    except KeyError as missing:
        if str(missing).strip("'") in ("rounds", "roofline", "jobs", "memory", "start", "gpu", "paper", "scaling"):
            return f"*Not measured yet: `benchmarks/results/{str(missing).strip(chr(39))}.json` is missing.*"
        raise


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return rows as a Markdown table.

    >>> print(table(["what", "ms"], [["a round", "9.1"]]))
    | what | ms |
    |---|---|
    | a round | 9.1 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" if line[0] != "---" else f"|{'|'.join(line)}|" for line in lines)


def spread(found: dict[str, float], unit: str = "", scale: float = 1) -> str:
    """Return a median with its ends.

    >>> spread({"median": 2.0, "min": 1.5, "max": 3.0}, "×")
    '2.0× (1.5–3.0)'
    """
    middle, low, high = (number(found[name] * scale) for name in ("median", "min", "max"))
    return f"{middle}{unit}" if low == high else f"{middle}{unit} ({low}–{high})"


def number(value: float) -> str:
    """Return a number with two digits, or all those before the point.

    >>> number(0.01234), number(5.0), number(123.4), number(12345.6)
    ('0.012', '5.0', '123', '12,346')
    """
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return f"{value:.1f}"
    return f"{value:.2g}"


def seconds(found: dict[str, float]) -> str:
    """Return seconds in the unit that suits them."""
    middle = found["median"]
    return (
        spread(found, " s")
        if middle >= 1
        else spread(found, " ms", 1e3)
        if middle >= 1e-4
        else spread(found, " µs", 1e6)
    )


def where(results: Results) -> str:
    """Return which machine, commits and versions the figures are of."""
    parts = {name: results[name] for name in MEASURED if name in results}
    if not parts:
        return "*Nothing measured yet.*"
    first = next(iter(parts.values()))
    commits = ", ".join(sorted({f"`{part['commit']}`" for part in parts.values()}))
    versions = dict(results.get("jobs", {}).get("versions", {}))
    told = ", ".join(f"{LIBRARIES.get(name, name)} {version}" for name, version in versions.items())
    minutes = sum(part.get("seconds", 0) for part in parts.values()) / 60
    kernels = results.get("rounds", {}).get("instruction_set", "no")
    lines = [
        f"{first['processor']}, {first['cores']} threads, {kernels} kernels; "
        f"Python {first['python']}, NumPy {first['numpy']}; commits {commits}; {minutes:.0f} minutes in all.",
        f"Beside it: {told}." if told else "",
    ]
    quick = sorted(name for name, part in parts.items() if part.get("quick"))
    if quick:
        lines.append(f"\n**Rough figures:** those of {', '.join(quick)} come from a quick run on a busy machine.")
    return "\n".join(line for line in lines if line)


MEASURED = ("rounds", "roofline", "scaling", "jobs", "memory", "start", "paper")


def bars(results: Results) -> str:
    marks = {True: "yes", False: "**no**", None: "—"}
    return table(
        ["what", "bar", "measured", "reached"], [[b.what, b.bar, b.figure, marks[b.met]] for b in all_bars(results)]
    )


def rounds(results: Results) -> str:
    found = results["rounds"]["rounds"]
    rows = []
    for name, row in found.items():
        ratios = [spread(row[kind], "×") if kind in row else "—" for kind in RATIOS]
        nll, rmse = (f"{row[kind]:.3f}" if kind in row else "—" for kind in ("nll", "rmse"))
        after = "20 epochs" if name == "svd" else f"{row.get('n_rounds', '—')} rounds"
        rows.append([row["title"], spread(row["ms"], " ms"), *ratios, nll, rmse, after])
    head = ["", "a round (an epoch)", *RATIOS.values(), "NLL", "RMSE", "after"]
    return table(head, rows)


RATIOS = {
    "times_an_epoch": "times faster", "times_an_epoch_one_thread": "with one thread",
    "threads": "all threads against one",
}  # fmt: skip


def passes(results: Results) -> str:
    found = results["rounds"]["passes"]
    rows = [
        [row["title"], spread(row["user_ns"], " ns"), spread(row["item_ns"], " ns"), spread(row["apart"], "×")]
        for row in found["models"].values()
    ]
    about = (
        f"{found['n_ratings']:,} random ratings, {found['n_users']:,} users, {found['n_items']:,} items, "
        f"{found['n_scores']} scores, {found['n_factors']} factors; nanoseconds a rating:\n\n"
    )
    return about + table(["", "user pass", "item pass", "one over the other"], rows)


def machine(results: Results) -> str:
    found = results["roofline"]["machine"]
    names = {
        "operations": "multiply-adds, float32 (two operations each)", "exponentials": "exponentials, float32",
        "L2": "bytes from the second-level cache", "L3": "bytes from the last-level cache",
        "memory": "bytes from memory, read in order", "triad": "bytes of a triad in memory (as STREAM counts)",
    }  # fmt: skip
    rows = [[title, *(f"{rates[name] / 1e9:,.0f} G/s" for rates in found.values())] for name, title in names.items()]
    return table(["", *(f"{n} thread{'s' if n != '1' else ''}" for n in found)], rows)


def roofline(results: Results) -> str:
    rows = []
    for row in results["roofline"]["rounds"]:
        bound = " and ".join(dict.fromkeys(row["bound"]))
        rows.append([
            row["title"], str(row["n_factors"]), spread(row["ms"], " ms"), f"{number(row['roof_ms'])} ms", bound,
            f"{number(row['operations'] / row['bytes'])}", spread(row["fraction"], "%", 100),
        ])  # fmt: skip
    head = ["a round of", "factors", "measured", "roof", "bound by", "operations a byte", "reached"]
    answers = [[f"`{row['door']}`", f"{row['pairs']:,}", spread(row["ms"], " ms"), f"{number(row['roof_ms'])} ms",
                spread(row["fraction"], "%", 100)] for row in results["roofline"].get("answers", [])]  # fmt: skip
    doors = table(["ResBeMF, 20 factors, public door", "pairs", "measured", "roof", "reached"], answers)
    return table(head, rows) + ("\n\n" + doors if answers else "")


def rest(results: Results) -> str:
    titles = {row["model"]: row["title"] for row in results["roofline"]["rounds"]}
    parts = ("round", "grows_with_factors", "roof_of_products", "does_not_grow", "exponentials", "lost_between_threads")
    rows = [
        [titles[model], *(f"{found[part]:.1f}" for part in parts)]
        for model, found in results["roofline"]["rest"].items()
    ]
    head = [
        "ms, 32 factors",
        "a round",
        "grows with factors",
        "roof of that",
        "does not grow",
        "exponentials in it",
        "lost between threads",
    ]
    return table(head, rows)


def contest(part: str) -> Callable[[Results], str]:
    """Return what makes the table of one job."""

    def make(results: Results) -> str:
        rows, data = [], ""
        found = [row for row in results["jobs"]["parts"][part] if "times_first" in row]
        for row in found:
            name = row["job"] if part == "keep" else row["data"] if part == "distributions" else ""
            first = row["times_first"] == {"median": 1.0, "min": 1.0, "max": 1.0}
            other = "" if row["same"] else " *"
            cells = [
                LIBRARIES[row["library"]],
                row["who"] + other,
                seconds(row["seconds"]),
                "1" if first else spread(row["times_first"], "×"),
            ]
            rows.append(([name] if part in ("keep", "distributions") else []) + cells + _worth(part, row))
            data = data or row["data"]
        head = (["" if part == "keep" else "data"] if part in ("keep", "distributions") else []) + [
            "library",
            "what",
            "time",
            "times the first",
        ]
        told = table(head + WORTH.get(part, []), rows)
        starred = (
            "\n\n\\* another job than the first one's, for context." if any(not row["same"] for row in found) else ""
        )
        return told + starred

    return make


WORTH = {
    "fit": ["NLL", "RMSE"], "distributions": ["NLL", "RMSE"], "predict": ["NLL", "RMSE"], "search": ["best RMSE"],
    "recommend": ["users a second", "liked"], "keep": ["file"],
}  # fmt: skip


def _worth(part: str, row: dict[str, Any]) -> list[str]:
    def told(name: str, shape: str = ".3f") -> str:
        return format(row[name], shape) if name in row else "—"

    if part == "recommend":
        return [f"{row['users_per_second']:,.0f}", f"{100 * row['liked']:.1f}%"]
    if part == "keep":
        return [f"{row['bytes'] / 1e6:.1f} MB" if "bytes" in row else "—"]
    return [told("rmse")] if part == "search" else [told("nll"), told("rmse")] if part in WORTH else []


def to_one(results: Results) -> str:
    rows = [row for row in results["jobs"]["parts"]["recommend"] if row["job"] == "recommend to one"]
    return table(["the list of one user", "time"], [[row["who"], seconds(row["seconds"])] for row in rows])


def memory(results: Results) -> str:
    found = results["memory"]
    jobs = {
        "open": "taking the ratings, imports included",
        "fit": "fitting, 20 factors",
        "recommend": "ten items a user",
    }
    rows = []
    for row in found["jobs"]:
        title = row.get("title", jobs.get(row["job"], row["job"]))
        title = (
            title.replace("millions of ratings", f"{row['millions']} million ratings") if "millions" in row else title
        )
        rows.append([LIBRARIES[row["library"]], title, f"{number(row['megabytes'])} MB"])
    return f"A rating takes {found['table_bytes_per_rating']:.1f} bytes in a table.\n\n" + table(
        ["library", "job", "peak"], rows
    )


def start(results: Results) -> str:
    found = results["start"]
    rows = [[LIBRARIES.get(name, "NumPy alone"), spread(times, " ms")] for name, times in found["import_ms"].items()]
    calls = [
        [f"`{name}`", f"{number(row['first_ms'])} ms", f"{number(row['later_ms'])} ms"]
        for name, row in found["calls"].items()
    ]
    return (
        table(["import", "time"], rows)
        + "\n\n"
        + table(["ResBeMF, planted ratings", "first call", "later calls"], calls)
    )


def gpu(results: Results) -> str:
    found = results["gpu"]
    titles = {"resbemf": "ResBeMF", "ordinalmf": "OrdinalMF"}
    rows = [
        [
            titles[row["model"]] + (" with biases" if row.get("biases") else ""),
            str(row["n_factors"]) + (f" + {row['n_spread_factors']}" if "n_spread_factors" in row else ""),
            f"{row['ms']:.2f} ms",
            f"{row['busy_ms']:.2f} ms" if "busy_ms" in row else "",
            f"{row['bytes'] / 1e9:.1f} GB",
            f"{row['tb_per_s']:.2f} TB/s",
        ]
        for row in found["rounds"]
    ]
    told = table(["a round of", "factors", "time", "of which the GPU works", "bytes", "rate"], rows)
    names = {
        "fit_seconds": ("`fit`, 100 rounds, 20 factors, from host memory", "{:.2f} s"),
        "search_seconds": ("the paper's search of ResBeMF on MovieLens 1M, 500 settings, 5 folds", "{:.0f} s"),
        "search_values_within_1e-12": ("… of its 5,000 values, as published to 1e-12", "{:,}"),
        "search_farthest": ("… the farthest from the published one", "{:.1g}"),
        "recommend_users_per_second": ("`recommend`, MovieLens 1M, 20 factors, ten items", "{:,.0f} users a second"),
    }
    more = [[title, shape.format(found[name])] for name, (title, shape) in names.items() if found.get(name) is not None]
    commits = found.get("commits", {"all": found.get("commit", "?")})
    which = ", ".join(
        f"`{commit}` ({', '.join(part for part in commits if commits[part] == commit)})"
        for commit in dict.fromkeys(commits.values())
    )
    about = f"{found.get('gpu', found.get('device', 'GPU'))}; commits {which}.\n\n"
    return about + told + ("\n\n" + table(["job", "measured"], more) if more else "")


def paper(results: Results) -> str:
    rows = [
        [row["data"], row["model"], str(row["settings"]), "{:.1f} s ± {:.1f}".format(*row["java_seconds"]),
         "{:.2f} s ± {:.2f}".format(*row["seconds"]), f"{number(row['ratio'])}×"]
        for row in results["paper"]["rows"]
    ]  # fmt: skip
    return table(["data", "model", "settings", "paper, Java", "here", "times"], rows)


def readme(results: Results) -> str:
    """Return the README's table: every job, its nearest rival, and how many times faster."""
    nearest: dict[str, tuple[str, dict[str, float]]] = {}
    for what, against, found in headlines(results):
        if what not in nearest or found["median"] < nearest[what][1]["median"]:
            nearest[what] = against, found
    told = table(["job", "nearest rival", ""], [[what, who, faster(found)] for what, (who, found) in nearest.items()])
    quick = [name for name in ("rounds", "jobs") if results[name].get("quick")]
    commits = ", ".join(f"`{name}.json` at {results[name]['commit']}" for name in ("rounds", "jobs"))
    note = f" {', '.join(f'`{name}`' for name in quick)}: a quick run on a busy machine, so rough." if quick else ""
    return f"{told}\n\n*`benchmarks/results/`: {commits}.{note}*"


def faster(found: dict[str, float]) -> str:
    """Return a ratio in words, whichever way it points.

    >>> faster({"median": 0.5, "min": 0.4, "max": 0.5}), faster({"median": 3.0, "min": 3.0, "max": 3.0})
    ('2.0 times slower (2.0–2.5)', '3.0 times faster')
    """
    if found["median"] >= 1:
        return spread(found, " times faster")
    return spread({"median": 1 / found["median"], "min": 1 / found["max"], "max": 1 / found["min"]}, " times slower")


def headlines(results: Results) -> list[tuple[str, str, dict[str, float]]]:
    """Return the figures that the README tells and draws: what, against what, how many times faster."""
    found = []
    for model in ("resbemf", "ordinalmf", "biasedmf"):
        row = results["rounds"]["rounds"].get(model)
        if row:
            found.append((f"a round of {row['title']}, 8 factors", "an epoch of Surprise's SVD", row["times_an_epoch"]))
    rows = [row for part in results["jobs"]["parts"].values() for row in part]
    for row in rows:
        if row["library"] == "starcast" or row["job"] == "save" or not row["same"] or "times_first" not in row:
            continue
        first = next(other["who"] for other in rows if (other["job"], other["data"]) == (row["job"], row["data"]))
        against = f"{LIBRARIES[row['library']]}: {row['who']}"
        found.append((f"{row['job']}, {row['data']}: {first}", against, row["times_first"]))
    return found


BLOCKS: dict[str, Callable[[Results], str]] = {
    "where": where, "bars": bars, "rounds": rounds, "passes": passes, "machine": machine, "roofline": roofline,
    "rest": rest, "to-one": to_one, "memory": memory, "start": start, "gpu": gpu, "paper": paper, "readme": readme,
    "quality": quality,
}  # fmt: skip
BLOCKS |= {name: contest(name) for name in ("fit", "distributions", "predict", "recommend", "search", "read", "keep")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    results = read_results(parser.parse_args().results)
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    from performance_figures import draw_all

    draw_all(results, headlines(results), ROOT / "docs" / "images")


if __name__ == "__main__":
    main()
