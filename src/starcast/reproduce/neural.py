"""The paper's figure of neural models: ours on the same test ratings, beside the published curves."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.evaluate import answer_for
from starcast.journal import OnProgress
from starcast.metrics import PAPER_THRESHOLDS, paper_measures
from starcast.models import GCMC, MLP, MWGP, NGCF, Model
from starcast.models.neural.backend import check_installed
from starcast.ratings import Ratings
from starcast.reproduce.experiment import experiment_of, published_split
from starcast.reproduce.published import LEAST_COVERAGE, MEASURE_FILES, read_curves, write_curves, write_times
from starcast.reproduce.run import Run
from starcast.split import Split

Curves = dict[str, dict[str, npt.NDArray[np.float64]]]  # measure → title → values over the thresholds
BATCHED = "MLP in batches"
# Factors, epochs and learning rate of the paper's table. A hundred steps leave the mean of all ratings from some
# starting points and not from others; the seeds, the last column, are of ten those nearest to the published figures.
_PAPER_MLP: dict[str, tuple[int, int, float, int]] = {
    "ml-100k": (2, 100, 0.1, 9),
    "ml-1m": (2, 100, 0.1, 6),
    "filmtrust": (8, 100, 0.01, 7),
    "ml-10m": (6, 75, 0.1, 0),
    "myanimelist": (8, 75, 0.1, 0),
}


def neural_models(dataset: str) -> dict[str, Model]:
    """Return the models of the figure by title: MLP as the paper ran it and in batches, GC-MC, NGCF, MWGP.

    >>> list(neural_models("filmtrust"))
    ['MLP', 'MLP in batches', 'GCMC', 'NGCF', 'MWGP']
    """
    experiment_of(dataset)
    factors, epochs, rate, seed = _PAPER_MLP[dataset]
    paper: dict[str, Any] = {"n_factors": factors, "n_hidden": 20, "n_iters": epochs, "learning_rate": rate}
    models: dict[str, Model] = {
        "MLP": MLP(**paper, full_batch=True, distribution="certain", random_state=seed),
        BATCHED: MLP(**MLP.PRESETS.get(dataset, {}), random_state=0),
    }
    return models | {cls.__name__: cls(**cls.PRESETS.get(dataset, {}), random_state=0) for cls in (GCMC, NGCF, MWGP)}


def run_neural(run: Run, on_progress: OnProgress | None = None) -> None:
    """Fit the neural models, one after the other, and write their curves and fitting times."""
    check_installed("the stage neural")
    digest = published_split(run.dataset).train.digest()[:8]
    tasks = {f"{digest} {title} {model!r}": title for title, model in neural_models(run.dataset).items()}
    done = run.do(
        "neural", tasks, curves_of, prepare=prepare, prepare_args=(run.dataset, run.n_jobs), on_progress=on_progress
    )
    records = {title: done[key] for key, title in tasks.items()}
    curves = {m: {title: np.array(record[m]) for title, record in records.items()} for m in MEASURE_FILES}
    write_curves(run.path("neural", "mae.csv").parent, curves)
    write_times(run.path("neural", "fittingTime.csv"), {title: record["seconds"] for title, record in records.items()})


def neural_curves(run: Run) -> tuple[Curves, Curves]:
    """Return the curves of this run and the published ones; nothing of what there is not."""
    file = run.path("neural", "mae.csv")
    here = _covered(read_curves(file.parent)) if file.is_file() else {}
    folder = run.published_test()
    if folder is None or not (folder / "mae.csv").is_file():
        return here, {}
    names = list(neural_models(run.dataset))
    found = {m: {name: curves[name] for name in names if name in curves} for m, curves in read_curves(folder).items()}
    if not found["coverage"]:
        return here, {}
    found["accuracy"].pop("MWGP", None)  # 0 throughout: its unrounded predictions are never a score
    return here, _covered(found)


def _covered(curves: Curves) -> Curves:
    """Return the curves without what next to no ratings decide, and without those that nothing is left of."""
    few = {title: values <= LEAST_COVERAGE for title, values in curves["coverage"].items()}
    left: Curves = {"coverage": curves["coverage"]}
    for measure in (measure for measure in curves if measure != "coverage"):
        masked = {title: np.where(few[title], np.nan, values) for title, values in curves[measure].items()}
        left[measure] = {title: values for title, values in masked.items() if not np.isnan(values).all()}
    return left


_shared: list[tuple[Split, float, int | None]] = []


def prepare(dataset: str, n_jobs: int | None) -> None:
    """Load the data of a process, once."""
    _shared[:] = [(published_split(dataset), experiment_of(dataset).relevant, n_jobs)]
    _models.update(neural_models(dataset))


_models: dict[str, Model] = {}


def curves_of(title: str) -> Mapping[str, Any]:
    """Return the four measures of a model over the thresholds, and the seconds that its fit took."""
    (train, test), relevant, n_jobs = _shared[0]
    model = _models[title].clone().set_params(n_jobs=n_jobs)
    begin = time.perf_counter()
    model.fit(train)
    seconds = time.perf_counter() - begin
    measures = measures_of(model, test, relevant)
    return {measure: values.tolist() for measure, values in measures.items()} | {"seconds": seconds}


def measures_of(model: Model, test: Ratings, relevant: float | None = None) -> dict[str, npt.NDArray[np.float64]]:
    """Return the four measures over the paper's thresholds; a model that is always certain at its unrounded numbers."""
    answer, point = answer_for(model, test), None
    if isinstance(model, MLP) and model.distribution == "certain":
        point = unrounded(model, test)
        halfway = (model.scores_[1:] + model.scores_[:-1]) / 2
        answer = Distribution.trusted(np.eye(len(model.scores_))[np.searchsorted(halfway, point)], model.scores_)
    measures = paper_measures(test, answer, PAPER_THRESHOLDS, relevant=relevant, empty="zero", point=point)
    return measures if point is None else measures | {"accuracy": measures["accuracy"] * np.nan}


def unrounded(model: MLP, test: Ratings) -> npt.NDArray[np.float64]:
    """Return the numbers that the model predicts for test ratings, the mean of the table where it knows nothing."""
    known = model.predict(test.users[test.user], test.items[test.item])["known"].to_numpy()
    values = np.full(len(test), float(model.prior_ @ model.scores_))
    user = model._user_lookup.codes(test.users, "users")[test.user]
    item = model._item_lookup.codes(test.items, "items")[test.item]
    values[known] = model.values(user[known], item[known])
    return values
