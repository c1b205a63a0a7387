"""What a fit, an answer and a file cost, model by model: defaults, seed 0, all threads, the least of three.

The neural models are timed by bench_neural.py.
"""

import tempfile
from pathlib import Path
from typing import Any

import measure

import starcast as sc
from starcast.models import MODELS, make_model

DATASETS = ("ml-100k", "ml-1m")
TURNS = 3


def main() -> None:
    figures: dict[str, Any] = {"threads": measure.N_THREADS, "turns": TURNS}
    for dataset in DATASETS:
        train, test = sc.benchmark_split(sc.load_dataset(dataset))
        figures[dataset] = {"ratings": len(train), "users": len(train.users), "items": len(train.items)}
        for name, cls in MODELS.items():
            if cls.EXTRA is None:
                figures[f"{dataset} {name}"] = cost(name, train, test)
    measure.write("cost", figures)


def cost(name: str, train: sc.Ratings, test: sc.Ratings) -> dict[str, float]:
    """Return seconds of a fit, nanoseconds of a distribution, bytes of a file."""
    seed = {"random_state": 0} if "random_state" in MODELS[name]().get_params() else {}
    model = make_model(name, seed)
    fits = [measure.clock(lambda: model.fit(train)) for _ in range(TURNS)]
    users, items = test.users[test.user], test.items[test.item]
    answers = [measure.clock(lambda: model.predict_proba(users, items)) for _ in range(TURNS)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.starcast")
        model.save(file)
        size = file.stat().st_size
    return {
        "fit_seconds": measure.digits(min(fits), 3),
        "answer_ns": measure.digits(min(answers) / len(test) * 1e9, 3),
        "file_bytes": size,
    }


if __name__ == "__main__":
    measure.data_folder()
    main()
