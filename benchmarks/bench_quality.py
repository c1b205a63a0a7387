"""Log-loss, error and calibration of every model on the paper's test splits, with default parameters and seed 0.

ResBeMF stands there a second time with factors and regularization chosen on a random tenth of the training ratings.
"""

import itertools
from typing import Any

import measure

import starcast as sc
from starcast.models import MODELS, make_model

DATASETS = ("ml-100k", "ml-1m", "filmtrust")
GRID = {
    "n_factors": (4, 8, 16),
    "regularization": (6.0, 8.0, 10.0, 13.0, 17.0, 25.0),
    "bias_regularization": (1.0, 2.0, 4.0),
}
MEASURES = ("nll", "rmse", "ece", "aurc", "1-MAE", "accuracy")


def main() -> None:
    figures: dict[str, Any] = {}
    for dataset in DATASETS:
        train, test = sc.benchmark_split(sc.load_dataset(dataset))
        for name, cls in MODELS.items():
            if cls.EXTRA is not None:  # bench_neural.py has these
                continue
            seed = {"random_state": 0} if "random_state" in cls().get_params() else {}
            figures[f"{dataset} {name}"] = score(make_model(name, seed), train, test)
        chosen = choose(train)
        figures[f"{dataset} resbemf, chosen on training"] = chosen | score(make_model("resbemf", chosen), train, test)
    measure.write("quality", figures)


def score(model: Any, train: sc.Ratings, test: sc.Ratings) -> dict[str, float]:
    """Return the measures of the model without a threshold."""
    row = sc.evaluate(model.fit(train), test, [0.0]).rows[0]
    return {name: round(row[name], 4) for name in MEASURES}


def choose(train: sc.Ratings) -> dict[str, Any]:
    """Return the parameters with the least log-loss on a tenth of the training ratings, learnt from the others."""
    part, held = sc.holdout(train, test_size=0.1, random_state=0)
    settings = [
        dict(zip(GRID, values, strict=True)) | {"random_state": 0} for values in itertools.product(*GRID.values())
    ]
    return min(settings, key=lambda params: score(make_model("resbemf", params), part, held)["nll"])


if __name__ == "__main__":
    measure.data_folder()
    main()
