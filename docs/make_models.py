"""Fills the figures of the models' pages from benchmarks/results: python docs/make_models.py.

``docs/models/NAME.md`` is the page of ``MODELS["NAME"]``; what stands between ``<!-- figures: … -->`` and
``<!-- end -->`` is written here.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from make_performance import BLOCK, ROOT, Results, number, read_results, table
from quality_figures import DATA as DATASETS

from starcast.models import MODELS

FOLDER = ROOT / "docs" / "models"
MEASURES = {"nll": "NLL", "rmse": "RMSE", "ece": "ECE", "aurc": "AURC", "1-MAE": "1-MAE", "accuracy": "accuracy"}
NEURAL = {"mlp": "MLP in batches", "gcmc": "GCMC", "ngcf": "NGCF", "mwgp": "MWGP"}  # as neural.json calls them


def main() -> None:
    results = read_results(ROOT / "benchmarks" / "results")
    for page in FOLDER.glob("*.md"):
        page.write_text(fill(page, results), encoding="utf-8")


def fill(page: Path, results: Results) -> str:
    """Return a page with its figures filled in."""
    text = page.read_text(encoding="utf-8")
    return BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](page.stem, results)}\n{found[3]}", text)


def fares(name: str, results: Results) -> str:
    """Return the model's measures on the paper's test splits, and its place among all models by log-loss."""
    rows = []
    for dataset, title in DATASETS.items():
        found = measures(name, dataset, results)
        order = sorted(MODELS, key=lambda other: measures(other, dataset, results)["nll"])
        told = [f"{found[measure]:.3f}" if measure in found else "—" for measure in MEASURES]
        rows.append([title, *told, f"{order.index(name) + 1} of {len(order)}"])
    return table(["", *MEASURES.values(), "place by NLL"], rows) + "\n\n" + source(name, results)


def measures(name: str, dataset: str, results: Results) -> Mapping[str, float]:
    """Return what a model reaches with its defaults; of OrdinalMF the means of five seeds."""
    if name == "ordinalmf":
        return {measure: results["flagship"][f"{dataset} raw {measure}"][0] for measure in MEASURES}
    if name in NEURAL:
        return dict(results["neural"][f"{dataset} {NEURAL[name]}"])
    return dict(results["quality"][f"{dataset} {name}"])


def source(name: str, results: Results) -> str:
    """Return what the figures are of, and how they are had again."""
    if name == "ordinalmf":
        told = f"defaults, mean of seeds 0 to 4; `{results['flagship']['command']}`"
    elif name in NEURAL:
        told = f"the settings of [the neural models' page](neural.md), seed 0; {_made(results['neural'])}"
    else:
        told = f"defaults, seed 0; {_made(results['quality'])}"
    return f"*The paper's test splits, no threshold, {told}. [What the columns mean](../metrics.md).*"


def _made(file: Mapping[str, str]) -> str:
    return f"`{file['command']}`, commit `{file['commit']}`"


def cost(name: str, results: Results) -> str:
    """Return seconds of a fit, time of an answer and size of a file."""
    if name in NEURAL:
        rows = [
            [title, f"{number(found['seconds'])} s", f"{found['epochs']:,}", found["device"]]
            for dataset, title in DATASETS.items()
            for found in [results["neural"][f"{dataset} {NEURAL[name]}"]]
        ]
        note = (
            f"*`{results['neural']['command']}`, commit `{results['neural']['commit']}`; the CPU had other work, too.*"
        )
        return table(["", "a fit", "epochs", "on"], rows) + "\n\n" + note
    found = results["cost"]
    rows = [
        [
            f"{DATASETS[dataset]}, {found[dataset]['ratings']:,} ratings",
            f"{number(row['fit_seconds'])} s"
            if row["fit_seconds"] >= 0.1
            else f"{number(row['fit_seconds'] * 1e3)} ms",
            f"{number(row['answer_ns'] / 1e3)} µs",
            f"{number(row['file_bytes'] / 1e6)} MB",
        ]
        for dataset in ("ml-100k", "ml-1m")
        for row in [found[f"{dataset} {name}"]]
    ]
    note = (
        f"*Defaults, {found['threads']} threads of {found['processor']}, the least of {found['turns']} on a machine "
        f"that had other work, too; the file holds names and ratings as well. {_made(found)}.*"
    )
    parts = [table(["", "a fit", "a distribution", "the file"], rows), *rounds(name, results), note]
    return "\n\n".join(parts)


def _seconds(value: float) -> str:
    return f"{number(value)} s" if value >= 0.1 else f"{number(value * 1e3)} ms"


def rounds(name: str, results: Results) -> Iterator[str]:
    """Yield what a round costs a rating, for the models that go in rounds."""
    found = results["rounds"]
    kinds = {"resbemf": ("resbemf", "exact")}.get(name, (name,))
    told = [
        f"{row['title']}: {number(row['ms']['median'] * 1e6 / found['n_ratings'])} ns"
        for kind in kinds
        if (row := found["rounds"].get(kind))
    ]
    if told:
        yield (
            f"A round, {found['n_factors']} factors, takes this long a rating on MovieLens 1M: {', '.join(told)} "
            f"({_made(found)})."
        )


def everyone(_: str, results: Results) -> str:
    """Return the table of all models: what they reach, what they cost."""
    rows = []
    for name, cls in sorted(MODELS.items(), key=lambda pair: measures(pair[0], "ml-1m", results)["nll"]):
        losses = [f"{measures(name, dataset, results)['nll']:.3f}" for dataset in DATASETS]
        took = results["cost"].get(f"ml-1m {name}", {}).get("fit_seconds")
        told = (
            f"{number(took)} s" if took else f"{number(results['neural'][f'ml-1m {NEURAL[name]}']['seconds'])} s, GPU"
        )
        rows.append([f"[{cls.__name__}]({name}.md)", f"`{name}`", *losses, told])
    return table(["model", "name", *(f"NLL, {title}" for title in DATASETS.values()), "a fit, MovieLens 1M"], rows)


def luck(_: str, results: Results) -> str:
    """Return the calibration error that chance alone would leave."""
    rows = [
        [title, *(f"{value:.3f}" for value in results["flagship"][f"{dataset} perfect ece, mean and ninth decile"])]
        for dataset, title in DATASETS.items()
    ]
    return table(["ECE that luck alone would give", "mean", "ninth decile"], rows)


def single(_: str, results: Results) -> str:
    """Return what OrdinalMF reaches without drawing, by either climb, beside the mean of its draws."""
    found = results["flagship"]
    ways = {"Newton's steps, 6 rounds": "single exact", "the gradient, 40 rounds": "single gradient", "64 draws": "raw"}
    rows = []
    for title, way in ways.items():
        row = [title]
        for dataset in DATASETS:
            took = found.get(f"{dataset} {way} seconds, the least")
            told = [f"{found[f'{dataset} {way} {measure}'][0]:.3f}" for measure in ("nll", "rmse")]
            row.append(", ".join([*told, f"{took:.2f} s"] if took else told))
        rows.append(row)
    return table(["NLL, RMSE, time", *DATASETS.values()], rows)


def elsewhere(_: str, results: Results) -> str:
    """Return what the models reach on other data."""
    found = results["flagship"]
    rows = [["MovieLens 100K, standard fold u1", "OrdinalMF", *(f"{found[f'u1 {m}']:.3f}" for m in ELSEWHERE)]]
    for dataset, title in {
        "sample": "embedded sample, ten half stars",
        "anime-sample": "anime-sample, ten scores",
    }.items():
        for name in ("ordinalmf", "resbemf", "biasedmf", "bayes"):
            told = [f"{found[f'{dataset} {name} {measure}']:.3f}" for measure in ELSEWHERE]
            rows.append([title if name == "ordinalmf" else "", MODELS[name].__name__, *told])
    return table(["", "", "NLL", "AURC", "RMSE"], rows)


ELSEWHERE = ("nll", "aurc", "rmse")

# At full coverage, of the paper's own runs: 1-MAE, and accuracy where there is one.
PUBLISHED = {
    "ml-100k": {"GCMC": (0.8119, 0.4361), "NGCF": (0.8125, 0.4342), "MWGP": (0.7469,), "MLP": (0.7660,)},
    "ml-1m": {"GCMC": (0.8312, 0.4783), "NGCF": (0.8106, 0.4478), "MWGP": (0.7422,), "MLP": (0.8089,)},
    "filmtrust": {"GCMC": (0.7900, 0.3349), "NGCF": (0.8156, 0.3699), "MWGP": (0.7617,), "MLP": (0.7934,)},
}
RIVALS = {
    "GCMC": "GC-MC", "NGCF": "NGCF", "MWGP": "MWGP", "MLP in batches": "MLP in batches",
    "MLP": "MLP as the paper ran it",
}  # fmt: skip


def neural(_: str, results: Results) -> str:
    """Return the neural models beside their published figures, a table a data set."""
    return "\n\n".join(_rivals(dataset, title, results["neural"]) for dataset, title in DATASETS.items())


def _rivals(dataset: str, title: str, found: Mapping[str, Any]) -> str:
    rows = []
    for name, called in RIVALS.items():
        row = found[f"{dataset} {name}"]
        near, right = (*PUBLISHED[dataset].get(name, ()), None, None)[:2]
        cells = [row.get("1-MAE"), near, row.get("accuracy"), right]
        told = [_digits(value, 4) for value in cells]
        told += [_digits(row.get(measure), 3) for measure in ("nll", "ece", "ece, calibrated", "nll, calibrated")]
        rows.append([called, *told])
    head = [title, "1-MAE", "published", "accuracy", "published", "NLL", "ECE", "ECE, calibrated", "NLL, calibrated"]
    return table(head, rows)


def _digits(value: float | None, n: int) -> str:
    return "" if value is None else f"{value:.{n}f}"


def neural_times(_: str, results: Results) -> str:
    """Return the seconds of one fit of each neural model."""
    found = results["neural"]
    columns = {dataset: "GPU" if "NVIDIA" in found[f"{dataset} GCMC"]["device"] else "CPU" for dataset in DATASETS}
    rows = [
        [called, *(_seconds(found[f"{dataset} {name}"]["seconds"]) for dataset in columns)]
        for name, called in RIVALS.items()
    ]
    return table(["", *(f"{DATASETS[dataset]}, {where}" for dataset, where in columns.items())], rows)


def neural_seeds(_: str, results: Results) -> str:
    """Return 1-MAE of the paper's perceptron from ten seeds."""
    rows = [
        [title, " ".join(f"{value:.4f}" for value in results["neural"][f"{dataset} MLP, 10 seeds"]["1-MAE"])]
        for dataset, title in DATASETS.items()
    ]
    return table(["", "1-MAE"], rows)


BLOCKS: dict[str, Callable[[str, Results], str]] = {
    "fares": fares,
    "cost": cost,
    "everyone": everyone,
    "luck": luck,
    "single": single,
    "elsewhere": elsewhere,
    "neural": neural,
    "neural-times": neural_times,
    "neural-seeds": neural_seeds,
}


if __name__ == "__main__":
    main()
