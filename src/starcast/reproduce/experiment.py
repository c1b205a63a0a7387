"""The paper's experiments as the published program runs them: data, numbering, grids, models, measures."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.datasets import DATASETS, data_folder, load_dataset
from starcast.distribution import Distribution
from starcast.errors import choose
from starcast.javarandom import JavaRandom
from starcast.metrics import PAPER_THRESHOLDS, paper_measures
from starcast.models import MODELS, make_model
from starcast.models.factorization import Factorization
from starcast.models.point import PointFactorization
from starcast.names import Array, Lookup
from starcast.ratings import Ratings
from starcast.split import Split, benchmark_split

SEED = 4815162342  # of every model, of the folds and of the random search in the published runs
N_FOLDS = 5
FACTORIZATIONS = ("resbemf", "bemf", "dirmf", "pmf", "biasedmf")
WITHOUT_RELIABILITY = ("pmf", "biasedmf")  # one row of their front is tested, and no accuracy was published
Setting = dict[str, str]  # by the names and in the spelling of the published files
Grid = dict[str, tuple[str, ...]]

ITERS: Grid = {"numIters": ("25", "50", "75", "100")}
FACTORS: Grid = {"numFactors": ("2", "4", "6", "8", "10")}
POINT: Grid = {"gamma": ("0.01", "0.02", "0.03", "0.04", "0.05"), "lambda": ("1.0E-4", "0.001", "0.01", "0.1")}
BEMF_DECAY: Grid = {"regularization": ("1.0E-4", "0.001", "0.01", "0.1", "1.0")}
DIRMF: Grid = {
    "learningRate": ("0.1", "0.2", "0.3", "0.4", "0.5"),
    "regularization": ("1.0E-4", "2.5E-4", "5.0E-4", "7.5E-4", "0.001"),
}
RESBEMF_DECAY: Grid = {"regularization": ("0.01", "0.05", "0.1", "0.15", "0.2")}
STEPS: Grid = {"learningRate": ("0.001", "0.002", "0.003", "0.004", "0.005")}
LARGE_STEPS: Grid = {"learningRate": ("0.01", "0.02", "0.03", "0.04", "0.05")}
SMALL_STEPS: Grid = {"learningRate": ("1.0E-4", "2.0E-4", "3.0E-4", "4.0E-4", "5.0E-4")}
GRIDS: dict[str, Grid] = {
    "resbemf": ITERS | FACTORS | STEPS | RESBEMF_DECAY,
    "bemf": ITERS | FACTORS | LARGE_STEPS | BEMF_DECAY,
    "dirmf": ITERS | FACTORS | DIRMF,
    "pmf": ITERS | FACTORS | POINT,
    "biasedmf": ITERS | FACTORS | POINT,
}


@dataclass(frozen=True)
class Experiment:
    """A data set of the paper.

    `folder` is what the published files call it, `relevant` the least rating of a relevant item, `counts` and `times`
    are the rows of the paper's tables: users, items, training ratings, test ratings; mean and standard deviation of the
    fitting times in seconds, in the order of :data:`FACTORIZATIONS`. `share` is the part of the grid that the random
    search tries, `grids` what differs from the other data sets' grids. `empty` says what an error counts in the search
    at a threshold that nobody reaches: as bad as can be ("undefined"), or none ("zero").
    """

    title: str
    folder: str
    relevant: float
    counts: tuple[int, int, int, int]
    times: tuple[str, ...]
    share: float = 1.0
    empty: str = "undefined"
    grids: Mapping[str, Grid] = field(default_factory=dict)


# The fitting times of the published files are others than these, in every cell.
EXPERIMENTS = {
    "ml-100k": Experiment(
        "MovieLens 100K", "ml100k", 4.0, (943, 1_682, 92_026, 7_974),
        ("1.54 (0.78)", "14.07 (2.19)", "4.52 (0.61)", "3.24", "3.25"),
    ),
    "ml-1m": Experiment(
        "MovieLens 1M", "ml1m", 4.0, (6_040, 3_706, 911_031, 89_178),
        ("2.12 (0.58)", "11.76 (1.78)", "17.57 (5.24)", "3.68", "3.90"),
    ),
    "filmtrust": Experiment(
        "FilmTrust", "ft", 3.0, (1_508, 2_071, 32_675, 2_819),
        ("1.43 (0.92)", "18.43 (6.31)", "3.07 (0.32)", "3.10", "3.14"),
    ),
    # BeMF's learning rates are those of the published file; the paper's table says a tenth of them.
    "ml-10m": Experiment(
        "MovieLens 10M", "ml10m", 4.0, (69_878, 10_677, 9_104_681, 895_373),
        ("157.53 (106.83)", "26.26 (9.71)", "176.65 (87.25)", "5.99", "5.71"), 0.5, "zero",
        {"resbemf": ITERS | {"numFactors": ("10", "20", "30", "40")} | RESBEMF_DECAY | SMALL_STEPS},
    ),
    "myanimelist": Experiment(
        "MyAnimeList", "anime", 7.0, (69_600, 9_927, 5_788_207, 549_027),
        ("58.71 (25.12)", "69.91 (14.86)", "57.96 (9.23)", "3.97", "3.95"), 0.75, "undefined",
        {
            "resbemf": ITERS | FACTORS | {"regularization": ("1.0E-4", "0.001", "0.01", "0.1")} | SMALL_STEPS,
            "bemf": ITERS | FACTORS | STEPS | BEMF_DECAY,
        },
    ),
}  # fmt: skip


def experiment_of(dataset: str) -> Experiment:
    """Return the experiment on a data set of the paper."""
    return EXPERIMENTS[choose("data set of the paper", dataset, EXPERIMENTS)]


def title_of(model: str) -> str:
    """Return what papers call a model.

    >>> title_of("resbemf")
    'ResBeMF'
    """
    return MODELS[model].__name__


def grid_of(dataset: str, model: str) -> Grid:
    """Return the values of every hyper-parameter, in the order of the columns of the published file."""
    return experiment_of(dataset).grids.get(model, GRIDS[choose("model of the paper", model, FACTORIZATIONS)])


def settings_of(dataset: str, model: str) -> list[Setting]:
    """Return the settings that the random search tries, in the order in which it draws them.

    All combinations, the last column's values changing fastest, are shuffled by Java's generator with the seed of the
    published runs; the first share of them is taken. These are the rows of the published files, on every data set.

    >>> len(settings_of("ml-100k", "resbemf")), len(settings_of("ml-10m", "resbemf"))
    (500, 200)
    """
    grid = grid_of(dataset, model)
    every = list(itertools.product(*grid.values()))
    order = JavaRandom(SEED).shuffle(len(every))[: int(experiment_of(dataset).share * len(every))]
    return [dict(zip(grid, every[at], strict=True)) for at in order]


def has_data(dataset: str) -> bool:
    """Tell whether the data set lies on this machine, so that reading it downloads nothing."""
    files = DATASETS[dataset].files
    return files is not None and any((data_folder() / name).is_dir() for name in (files.folder, dataset))


def published_split(dataset: str) -> Split:
    """Return the training and test part of a data set of the paper, numbered as the published program does."""
    experiment_of(dataset)
    return number_as_published(benchmark_split(load_dataset(dataset)))


def number_as_published(split: Split) -> Split:
    """Return the split with users and items numbered as the published program does: as they appear, test part first.

    Both parts have all names of both, since an item that was never trained on still takes its share of random numbers.
    """
    users, items = _joined(split.test.users, split.train.users), _joined(split.test.items, split.train.items)
    return Split(*(_renumbered(part, users, items) for part in split))


def published_model(name: str, row: Mapping[str, str]) -> Any:
    """Return the model that a row of a published search file describes, as the published program computes it."""
    rate, decay = ("gamma", "lambda") if name in WITHOUT_RELIABILITY else ("learningRate", "regularization")
    params: dict[str, Any] = {
        "n_factors": int(row["numFactors"]),
        "n_iters": int(row["numIters"]),
        "learning_rate": float(row[rate]),
        "regularization": float(row[decay]),
        "generator": "java",
        "random_state": SEED,
        "on_divergence": "keep",
    }
    params |= {"update": "paper"} if name == "resbemf" else {"precision": "double"}
    params |= {"distribution": "certain"} if name in WITHOUT_RELIABILITY else {}
    return make_model(name, params)


def measures_as_published(model: Factorization, test: Ratings, relevant: float) -> dict[str, npt.NDArray[np.float64]]:
    """Return the four measures over the paper's thresholds by the rules of the published program.

    PMF and BiasedMF are taken at their unrounded predictions. A threshold at which no user is left counts as no error.
    """
    with np.errstate(all="ignore"):  # what diverged stays in, as published
        answer, point = answer_as_published(model, test)
        return paper_measures(test, answer, PAPER_THRESHOLDS, relevant=relevant, empty="zero", point=point)


def answer_as_published(model: Factorization, test: Ratings) -> tuple[Distribution, npt.NDArray[np.float64] | None]:
    """Return the distributions of the test ratings, and the unrounded predictions of a model that has them.

    Where the exponential of a score overflows its share is not a number and the others are 0. The published program
    then takes the first of the others, with reliability 0, unless it is the first score that overflowed.
    """
    probs = model._proba(test.user, test.item)
    probs[np.isnan(probs) & ~np.isnan(probs[:, :1])] = 0
    answer = Distribution.trusted(probs, test.scores)
    return answer, model.values(test.user, test.item) if isinstance(model, PointFactorization) else None


def has_diverged(model: Any) -> bool:
    """Tell whether a factor of the model is infinite or not a number."""
    return not (np.isfinite(model.user_factors_).all() and np.isfinite(model.item_factors_).all())


def _joined(first: Array, then: Array) -> Array:
    return np.concatenate([first, then[Lookup(first).codes(then, "names") < 0]])


def _renumbered(part: Ratings, users: Array, items: Array) -> Ratings:
    user, item = Lookup(users).codes(part.users, "users"), Lookup(items).codes(part.items, "items")
    return Ratings(users, items, part.scores, user[part.user], item[part.item], part.score)
