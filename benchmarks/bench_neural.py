"""The neural, graph and Gaussian-process baselines on the paper's test splits: quality, calibration, times.

``python benchmarks/bench_neural.py ml-100k filmtrust`` measures these data sets and keeps the figures of the others.
Settings are the presets, which were chosen on training ratings. The device is CUDA where there is one.
"""

import argparse
import json
import platform
import time
from typing import Any

import measure
import numpy as np

import starcast as sc
from starcast import metrics
from starcast.distribution import Distribution
from starcast.models.neural.backend import resolve_device, torch
from starcast.reproduce.neural import measures_of, neural_models

DATASETS = ("ml-100k", "filmtrust", "ml-1m")
CALIBRATED = ("GCMC", "NGCF", "MWGP")
N_SPLITS = 3  # fits more that calibration costs
N_SEEDS = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("datasets", nargs="*", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--models", default="", help="titles with commas; all if not given")
    parser.add_argument("--jobs", type=int, default=None)
    args = parser.parse_args()
    figures = kept()
    for dataset in args.datasets:
        train, test = sc.benchmark_split(sc.load_dataset(dataset))
        for title, model in neural_models(dataset).items():
            if not args.models or title in args.models.split(","):
                figures[f"{dataset} {title}"] = score(title, model.set_params(n_jobs=args.jobs), train, test)
                measure.write("neural", figures)
        if not args.models or "MLP" in args.models.split(","):
            figures[f"{dataset} MLP, {N_SEEDS} seeds"] = seeds(neural_models(dataset)["MLP"], train, test)
        if not args.models or "GCMC" in args.models.split(","):
            figures |= published_splits(dataset, args.jobs)
        measure.write("neural", figures)


def kept() -> dict[str, Any]:
    """Return the figures of earlier runs."""
    file = measure.RESULTS / "neural.json"
    found = json.loads(file.read_text()) if file.is_file() else {}
    return {name: value for name, value in found.items() if isinstance(value, dict)}


def score(title: str, model: Any, train: sc.Ratings, test: sc.Ratings) -> dict[str, Any]:
    """Return quality at full coverage, and calibration before and after `calibrate`."""
    begin = time.perf_counter()
    model.fit(train)
    facts = {"seconds": round(time.perf_counter() - begin, 1), "epochs": model.n_iter_, "device": device_name()}
    at_zero = {name: float(values[0]) for name, values in measures_of(model, test).items()}
    found = {name: round(at_zero[name], 4) for name in ("1-MAE", "accuracy", "mAP")}
    if model.get_params().get("distribution") == "certain":
        return {"1-MAE": found["1-MAE"], "mAP": found["mAP"]} | facts
    answer = model.predict_proba(test.users[test.user], test.items[test.item])
    found |= overall(test, answer)
    if title in CALIBRATED:
        honest = sc.calibrate(model, train, n_splits=N_SPLITS)
        after = overall(test, honest.predict_proba(test.users[test.user], test.items[test.item]))
        found |= {f"{name}, calibrated": after[name] for name in ("nll", "ece")}
    return found | facts


def overall(test: sc.Ratings, answer: Distribution) -> dict[str, float]:
    """Return the measures over all ratings alike."""
    rmse = metrics.rmse(test.values, answer.mean())
    found = {"nll": metrics.nll(test.values, answer), "rmse": rmse, "ece": metrics.ece(test.values, answer)}
    return {name: round(float(value), 4) for name, value in found.items()}


def seeds(model: Any, train: sc.Ratings, test: sc.Ratings) -> dict[str, Any]:
    """Return 1-MAE of the paper's MLP from several starting points, from low to high."""
    fits = (model.clone().set_params(random_state=seed).fit(train) for seed in range(N_SEEDS))
    return {"1-MAE": sorted(round(float(measures_of(fit, test)["1-MAE"][0]), 4) for fit in fits)}


def published_splits(dataset: str, jobs: int | None) -> dict[str, Any]:
    """Return the error of GC-MC on the splits of its own paper."""
    if dataset == "filmtrust":
        return {}
    if dataset == "ml-100k":
        name, (train, test) = "fold u1", sc.load_movielens_folds([1])[0]
    else:
        name, (train, test) = "random tenth", sc.holdout(sc.load_dataset(dataset), test_size=0.1, random_state=0)
    model = sc.GCMC.preset(dataset, random_state=0, n_jobs=jobs)
    begin = time.perf_counter()
    answer = model.fit(train).predict_proba(test.users[test.user], test.items[test.item])
    facts = {"seconds": round(time.perf_counter() - begin, 1), "device": device_name()}
    return {f"{dataset} GCMC, {name}": overall(test, answer) | facts}


def device_name() -> str:
    """Return what the models are fitted on."""
    if resolve_device("auto").type == "cuda":
        return f"{torch.cuda.get_device_name()}, PyTorch {torch.version.__version__}"
    return f"CPU ({platform.machine()}), PyTorch {torch.version.__version__}"


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    measure.data_folder()
    main()
