"""What the paper's rules do to its conclusions: the update, empty thresholds, users dropped from mAP.

    python benchmarks/bench_rules.py PUBLISHED

For every row of the published ResBeMF fronts, fitted again as published: what the model says (mean reliability), what
happens (accuracy), and its calibration error, against the regularization γ. Then, for one model of each kind, the
paper's cumulative 1-MAE and its mAP under each of the rules that the published figures were made with.
"""

import argparse
from pathlib import Path
from typing import Any

import measure
import numpy as np

import starcast as sc
from starcast import metrics
from starcast.distribution import Distribution
from starcast.reproduce import EXPERIMENTS, front_rows, number_as_published, published_model

DATASETS = ("ml-100k", "filmtrust")
CUMULATIVE = tuple(k / 19 for k in range(20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("published", type=Path)
    published = parser.parse_args().published
    figures: dict[str, Any] = {}
    for dataset in DATASETS:
        experiment = EXPERIMENTS[dataset]
        split = sc.benchmark_split(sc.load_dataset(dataset))
        numbered = number_as_published(split)
        folder = published / "gridsearch" / experiment.folder
        figures[f"{dataset}: the published front by γ"] = front_by_gamma(numbered, front_rows(folder / "resbemf.csv"))
        answers = {
            "ResBeMF, published": _published(numbered, "resbemf", folder),
            "BeMF, published": _published(numbered, "bemf", folder),
            "DirMF, published": _published(numbered, "dirmf", folder),
            "ResBeMF, exact": _exact(split),
        }
        for name, (test, answer) in answers.items():
            figures[f"{dataset}: {name}"] = rules(test, answer, experiment.relevant)
    measure.write("rules", figures)


def front_by_gamma(split: sc.Split, rows: list[dict[str, str]]) -> dict[str, dict[str, float]]:
    """Return, for each regularization on the front, the means over its rows of what is said and what happens."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        answer = _answer(published_model("resbemf", row).fit(split.train), split.test)
        if np.isnan(answer.probs).any():
            continue
        said = float(answer.reliability().mean())
        happened = metrics.accuracy(split.test.values, answer.mode())
        found.setdefault(row["regularization"], []).append((said, happened, metrics.ece(split.test.values, answer)))
    names = ("mean reliability", "accuracy", "ece")
    return {
        gamma: dict(zip(names, np.mean(values, axis=0).round(3).tolist(), strict=True)) | {"rows": len(values)}
        for gamma, values in sorted(found.items(), key=lambda item: float(item[0]))
    }


def rules(test: sc.Ratings, answer: Distribution, relevant: float) -> dict[str, float | None]:
    """Return the cumulative 1-MAE and the mAP at two thresholds under each rule."""
    curve = metrics.paper_measures(test, answer, CUMULATIVE, relevant=relevant)["1-MAE"]
    weights = np.arange(20, 0, -1)
    reached = ~np.isnan(curve)
    figures = {
        "cumulative 1-MAE, nobody left counts as 0": float((np.nan_to_num(curve) * weights).sum() / 210),
        "cumulative 1-MAE, nobody left counts as 1": float((np.where(reached, curve, 1) * weights).sum() / 210),
        "cumulative 1-MAE, reached thresholds alone": float((curve * weights)[reached].sum() / weights[reached].sum()),
    }
    for theta in (0.0, 0.5):
        for rule in ("dropped", "zero"):
            value = metrics.paper_measures(test, answer, [theta], relevant=relevant, hitless=rule)["mAP"][0]
            figures[f"mAP at θ = {theta:g}, users without a hit {rule}"] = float(value)
    return {name: None if np.isnan(value) else round(value, 3) for name, value in figures.items()}


def _published(split: sc.Split, name: str, folder: Path) -> tuple[sc.Ratings, Distribution]:
    """Return the middle row of the published front that did not diverge, fitted as published."""
    rows = front_rows(folder / f"{name}.csv")
    for row in rows[len(rows) // 2 :]:
        answer = _answer(published_model(name, row).fit(split.train), split.test)
        if not np.isnan(answer.probs).any():
            return split.test, answer
    raise SystemExit(f"every row of the second half of the published front of {name} diverges")


def _answer(model: Any, test: sc.Ratings) -> Distribution:
    with np.errstate(all="ignore"):
        return Distribution.trusted(model._proba(test.user, test.item), test.scores)


def _exact(split: sc.Split) -> tuple[sc.Ratings, Distribution]:
    model = sc.ResBeMF(random_state=0).fit(split.train)
    return split.test, model.predict_proba(split.test.users[split.test.user], split.test.items[split.test.item])


if __name__ == "__main__":
    measure.data_folder()
    main()
