"""The table of how good the models are, from what ``benchmarks/bench_{quality,flagship,neural}.py`` wrote."""

from typing import Any

DATA = {"ml-100k": "MovieLens 100K", "ml-1m": "MovieLens 1M", "filmtrust": "FilmTrust"}
PLAIN = {
    "GlobalFrequency": "global", "ItemFrequency": "item", "NaiveBayes": "bayes", "DirMF": "dirmf", "BeMF": "bemf",
    "PMF": "pmf", "BiasedMF": "biasedmf", "ResBeMF": "resbemf",
}  # fmt: skip
NEURAL = {"MLP": "MLP in batches", "MWGP": "MWGP", "NGCF": "NGCF", "GCMC": "GCMC"}
BEST = "OrdinalMF"
MEASURES = ("nll", "accuracy")


def quality(results: dict[str, Any]) -> str:
    """Return log-loss and accuracy of all models on the three data sets as a Markdown table, the best in bold."""
    rows = {name: _figures(results["quality"], key) for name, key in PLAIN.items()}
    rows |= {name: _figures(results["neural"], key) for name, key in NEURAL.items()}
    rows[BEST] = [results["flagship"][f"{data} raw {m}"][0] for m in MEASURES for data in DATA]
    order = sorted(rows, key=lambda name: -rows[name][1])  # of MovieLens 1M, the largest
    best = [min(column) if n < len(DATA) else max(column) for n, column in enumerate(zip(*rows.values(), strict=True))]
    head = [f"log-loss, {name}" for name in DATA.values()] + [f"accuracy, {name}" for name in DATA.values()]
    lines = [f"| model | {' | '.join(head)} |", f"|---|{'---|' * len(head)}"]
    for name in order:
        cells = [_cell(value, value == best[n], n < len(DATA)) for n, value in enumerate(rows[name])]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    commits = ", ".join(f"`{part}.json` at {results[part]['commit']}" for part in ("quality", "neural", "flagship"))
    return "\n".join([*lines, "", f"*`benchmarks/results/`: {commits}.*"])


def _figures(measured: dict[str, Any], key: str) -> list[float]:
    return [measured[f"{data} {key}"][measure] for measure in MEASURES for data in DATA]


def _cell(value: float, is_best: bool, is_loss: bool) -> str:
    """Return a figure as it stands in the table.

    >>> _cell(1.12722, True, True), _cell(0.4908, False, False)
    ('**1.127**', '49.1%')
    """
    text = f"{value:.3f}" if is_loss else f"{100 * value:.1f}%"
    return f"**{text}**" if is_best else text
