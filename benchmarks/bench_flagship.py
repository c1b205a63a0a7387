"""OrdinalMF against its bars: the paper's test splits, the published curves, other scales, a planted truth.

    python benchmarks/bench_flagship.py [part ...]

Parts: quality (raw and calibrated, five seeds), curves (needs STARCAST_PUBLISHED and the answers of quality), perfect
(the ECE of luck alone), fold (u1 of MovieLens 100K), single (fits that end after climbing), scales (anime-sample and
the embedded sample). All without a word. How long fits take: bench_jobs.py.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import numpy as np

import starcast as sc
from starcast import metrics, plots
from starcast.models import make_model
from starcast.reproduce.published import read_curves

SEEDS = range(5)
IMAGES = Path(__file__).parents[1] / "docs" / "images"
DATASETS = {"ml-1m": "ml1m", "ml-100k": "ml100k", "filmtrust": "ft"}
MEASURES = ("nll", "ece", "aurc", "accuracy", "1-MAE", "rmse")
FOLDS = {"ml-100k": 5, "filmtrust": 5}  # of the calibration; MovieLens 1M, as calibrated as it gets, is spared it
RIVALS = ("GC-MC", "NGCF", "BeMF", "DirMF", "ResBeMF")
COVERAGES = np.arange(0.05, 1.001, 0.05)
ANSWERS = Path(os.environ.get("STARCAST_ANSWERS", "build/answers"))  # distributions of `quality`, kept for `curves`


def quality() -> dict[str, Any]:
    """Return the measures on the paper's test splits, mean and deviation over seeds, as fitted and calibrated."""
    figures: dict[str, Any] = {}
    for dataset in DATASETS:
        train, test = sc.benchmark_split(sc.load_dataset(dataset))
        rows: dict[str, list[dict[str, float]]] = {"raw": [], "calibrated": []}
        for seed in SEEDS:
            model = sc.OrdinalMF(random_state=seed).fit(train)
            rows["raw"].append(score(model, test, ANSWERS / f"{dataset}-{seed}.npy"))
            if dataset in FOLDS:
                rows["calibrated"].append(score(sc.calibrate(model, train, n_splits=FOLDS[dataset]), test))
            print(dataset, seed, *(found[-1] for found in rows.values() if found), flush=True)
        for kind, found in rows.items():
            for measured in MEASURES if found else ():
                values = [row[measured] for row in found]
                figures[f"{dataset} {kind} {measured}"] = [round(float(np.mean(values)), 4), round(np.std(values), 4)]
    return figures


def score(model: Any, test: sc.Ratings, keep: Path | None = None) -> dict[str, float]:
    """Return the measures without a threshold."""
    row = sc.evaluate(model, test, [0.0]).rows[0]
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        np.save(keep, model.predict_proba(test.users[test.user], test.items[test.item]).probs)
    return {name: round(float(row[name]), 4) for name in MEASURES}


def curves() -> dict[str, Any]:
    """Return how far above (below: negative) every published curve OrdinalMF's lies, at coverages from .05 to 1."""
    published = Path(os.environ["STARCAST_PUBLISHED"]) / "test-split"
    figures: dict[str, Any] = {}
    drawn: dict[str, Any] = {}
    for dataset, folder in DATASETS.items():
        _, test = sc.benchmark_split(sc.load_dataset(dataset))
        ours = mean_curve(dataset, test)
        theirs = read_curves(published / folder)
        drawn[dataset] = {"OrdinalMF": ours}
        for rival in RIVALS:
            for quality in ("accuracy", "1-MAE"):
                envelope = best_of(theirs, rival.replace("-", ""), quality)
                drawn[dataset].setdefault(rival, {})[quality] = envelope
                gap = ours[quality] - envelope
                if np.isnan(gap).all():
                    continue
                figures[f"{dataset} {rival} {quality}"] = {
                    "least gap": round(float(np.nanmin(gap)), 4),
                    "below at coverage": [round(float(c), 2) for c in COVERAGES[gap < 0]],
                }
    draw(drawn)
    return figures


def draw(drawn: dict[str, Any]) -> None:
    """Draw accuracy and 1-MAE against coverage, a column per data set, into the docs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.2), layout="constrained")
    grid = figure.subplots(2, len(drawn), sharex=True)
    for column, (dataset, models) in enumerate(drawn.items()):
        for row, quality in enumerate(("accuracy", "1-MAE")):
            ax = grid[row][column]
            ax.spines[["top", "right"]].set_visible(False)
            for at, (model, curves) in enumerate(models.items()):
                ours = model == "OrdinalMF"
                ax.plot(
                    COVERAGES, curves[quality], color=plots.PALETTE[at], label=model,
                    linewidth=2.4 if ours else 1.3, zorder=3 if ours else 2,
                )  # fmt: skip
            if row == 0:
                ax.set_title(dataset, loc="left")
            else:
                ax.set_xlabel("coverage")
            if column == 0:
                ax.set_ylabel("accuracy" if row == 0 else "1 − MAE of the mode")
    grid[0][0].legend(frameon=False, fontsize=9)
    figure.savefig(IMAGES / "flagship.png", dpi=150)


def perfect() -> dict[str, Any]:
    """Return the ECE that the test ratings would give if they were drawn from the answers themselves: what luck is."""
    rng = np.random.default_rng(0)
    figures: dict[str, Any] = {}
    for dataset in DATASETS:
        _, test = sc.benchmark_split(sc.load_dataset(dataset))
        probs = np.load(ANSWERS / f"{dataset}-0.npy")
        answer, below = sc.Distribution(probs, test.scores), probs.cumsum(axis=1)[:, :-1]
        found = [metrics.ece(test.scores[(rng.random((len(probs), 1)) > below).sum(axis=1)], answer) for _ in range(50)]
        figures[f"{dataset} perfect ece, mean and ninth decile"] = [
            round(float(np.mean(found)), 4), round(float(np.quantile(found, 0.9)), 4),
        ]  # fmt: skip
    return figures


def mean_curve(dataset: str, test: sc.Ratings) -> dict[str, Any]:
    """Return accuracy and 1-MAE of OrdinalMF at COVERAGES, mean of the seeds."""
    found = []
    for seed in SEEDS:
        probs = np.load(ANSWERS / f"{dataset}-{seed}.npy")
        answer = sc.Distribution(probs, test.scores)
        levels = np.quantile(answer.reliability(), np.linspace(0, 0.999, 400))
        at = metrics.paper_measures(test, answer, [0.0, *levels.tolist()])
        found.append({name: at_coverages(at["coverage"], at[name]) for name in ("accuracy", "1-MAE")})
    return {name: np.mean([row[name] for row in found], axis=0) for name in ("accuracy", "1-MAE")}


def best_of(theirs: dict[str, Any], rival: str, quality: str) -> Any:
    """Return the best value that any published setting of a model reaches at each coverage."""
    names = [column for column in theirs[quality] if column.lower().replace("-", "").startswith(rival.lower())]
    rows = [at_coverages(theirs["coverage"][name], theirs[quality][name]) for name in names]
    with np.errstate(all="ignore"):
        return np.nanmax(rows, axis=0) if rows else np.full(len(COVERAGES), np.nan)


def at_coverages(coverage: Any, values: Any) -> Any:
    """Return a curve at COVERAGES by straight lines between its points; NaN where it does not reach."""
    good = ~np.isnan(coverage) & ~np.isnan(values) & (coverage > 0)
    if good.sum() < 2:
        return np.full(len(COVERAGES), np.nan)
    order = np.argsort(coverage[good], kind="stable")
    x, y = coverage[good][order], values[good][order]
    top = min(x[-1], 1.0)
    return np.where((x[0] <= COVERAGES) & (top + 1e-9 >= COVERAGES), np.interp(COVERAGES, x, y), np.nan)


def fold() -> dict[str, Any]:
    """Return the measures on the standard fold u1 of MovieLens 100K."""
    folder = measure.data_folder() / "ml-100k"
    train, test = (sc.read_ratings(folder / name, columns=[0, 1, 2]) for name in ("u1.base", "u1.test"))
    rows = [sc.evaluate(sc.OrdinalMF(random_state=seed).fit(train), test, [0.0]).rows[0] for seed in SEEDS]
    return {f"u1 {name}": round(float(np.mean([row[name] for row in rows])), 4) for name in MEASURES}


def single() -> dict[str, Any]:
    """Return log-loss, error and seconds of a single fit by Newton's steps and by the gradient, mean of the seeds."""
    figures: dict[str, Any] = {}
    for dataset in DATASETS:
        train, test = sc.benchmark_split(sc.load_dataset(dataset))
        for update in ("exact", "gradient"):
            rows, seconds = [], []
            for seed in SEEDS:
                model = sc.OrdinalMF(n_draws=0, update=update, random_state=seed)
                seconds.append(measure.clock(lambda model=model, train=train: model.fit(train)))
                rows.append(score(model, test))
            for measured in ("nll", "ece", "aurc", "rmse"):
                values = [row[measured] for row in rows]
                figures[f"{dataset} single {update} {measured}"] = [
                    round(float(f(values)), 4) for f in (np.mean, np.std)
                ]
            figures[f"{dataset} single {update} seconds, the least"] = round(min(seconds), 2)
    return figures


def scales() -> dict[str, Any]:
    """Return log-loss, AURC and RMSE on ten scores, defaults untouched, beside those of the simpler models."""
    figures: dict[str, Any] = {}
    anime = sc.read_ratings(measure.data_folder() / "anime-sample" / "ratings.csv")
    for title, ratings in (("anime-sample", anime), ("sample", sc.load_sample())):
        train, test = sc.holdout(ratings, test_size=0.1, random_state=0)
        for name in ("ordinalmf", "resbemf", "biasedmf", "bayes"):
            seeds = SEEDS if name != "bayes" else range(1)
            models = [make_model(name, {"random_state": s} if name != "bayes" else {}) for s in seeds]
            rows = [score(model.fit(train), test) for model in models]
            for measured in ("nll", "aurc", "rmse"):
                figures[f"{title} {name} {measured}"] = round(float(np.mean([row[measured] for row in rows])), 4)
    return figures


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "quality": quality, "curves": curves, "perfect": perfect, "fold": fold, "single": single, "scales": scales,
}  # fmt: skip


def main(parts: list[str]) -> None:
    file = measure.RESULTS / "flagship.json"
    figures = json.loads(file.read_text()) if file.exists() else {}
    for part in parts or PARTS:
        figures |= PARTS[part]()
        measure.write("flagship", {name: value for name, value in figures.items() if " " in name})


if __name__ == "__main__":
    measure.data_folder()
    main(sys.argv[1:])
