"""The paper's questions with rules that can be defended.

Parameters are chosen by log-loss on parts of the training ratings that are cut like the test part; every model answers
with a distribution, as it is and tempered on those same parts; all decide by the same rules; nothing that is undefined
counts as zero or as perfect; intervals come from resampling users.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from starcast import metrics
from starcast.bootstrap import Statistic, make_statistic
from starcast.distribution import Distribution
from starcast.errors import DivergenceError, choose
from starcast.evaluate import answer_for
from starcast.models import make_model
from starcast.ratings import Ratings
from starcast.results import Results
from starcast.split import Split, benchmark_split
from starcast.trust import fit_temperature, temper

THRESHOLDS = tuple(k / 20 for k in range(20))
VALIDATION_SEEDS = (1, 2)  # of the splits of the training part on which parameters are chosen
MEASURES = {name: name for name in ("nll", "rps", "ece", "aurc")} | {
    "accuracy": "accuracy@0", "1-MAE of the mode": "1-MAE@0", "1-MAE of the median": "1-MAE@0",
}  # fmt: skip


@dataclass(frozen=True)
class Contender:
    """A model with what is fixed of it and the settings to choose from."""

    title: str
    model: str
    fixed: Mapping[str, Any]
    space: Mapping[str, Sequence[Any]]

    def settings(self) -> list[dict[str, Any]]:
        """Return every setting to be tried."""
        values = itertools.product(*self.space.values())
        return [dict(self.fixed) | dict(zip(self.space, choice, strict=True)) for choice in values]


POINT_SPACE = {"n_factors": (2, 8), "regularization": (0.05, 0.1, 0.2), "n_iters": (30, 60, 100)}
CONTENDERS = {
    "global": Contender("global frequencies", "global", {}, {}),
    "item": Contender("item frequencies", "item", {}, {}),
    "bayes": Contender("naive Bayes", "bayes", {}, {}),
    "resbemf": Contender(
        "ResBeMF, exact", "resbemf", {}, {"n_factors": (4, 8, 16), "regularization": (6.0, 10.0, 16.0)}
    ),
    "resbemf-paper": Contender(
        "ResBeMF, published",
        "resbemf",
        {"update": "paper"},
        {
            "n_factors": (4, 10),
            "regularization": (0.01, 0.05, 0.1, 0.2),
            "learning_rate": (0.001, 0.003, 0.005),
            "n_iters": (50, 100),
        },
    ),
    "bemf": Contender(
        "BeMF", "bemf", {}, {"n_factors": (2, 6), "regularization": (0.1, 1.0, 5.0), "n_iters": (25, 50)}
    ),
    "dirmf": Contender("DirMF", "dirmf", {}, {"n_factors": (4, 8), "learning_rate": (0.1, 0.3), "n_iters": (50, 100)}),
    "pmf": Contender("PMF", "pmf", {}, POINT_SPACE),
    "biasedmf": Contender("BiasedMF", "biasedmf", {}, POINT_SPACE),
}


@dataclass(frozen=True)
class Sound:
    """What the sound protocol found: a row per model and calibration, and their curves over the thresholds."""

    overall: Results
    curves: Results


def run_sound(
    ratings: Ratings,
    *,
    contenders: Sequence[str] = tuple(CONTENDERS),
    relevant: float | None = None,
    n_seeds: int = 3,
    n_resamples: int = 300,
    on_progress: Callable[[str], None] | None = None,
) -> Sound:
    """Return the measures of every contender on the paper's test part, by sound rules.

    Parameters
    ----------
    ratings : Ratings
        The whole data set; it is split as in the paper.
    contenders : sequence of str
        Keys of :data:`CONTENDERS`.
    relevant : float, optional
        The least rating of a relevant item.
    n_seeds : int
        Fits from different starting points; the measures are those of the first, their spread over all is told.
    n_resamples : int
        Resamples of the test users behind every 95% interval.
    on_progress : callable, optional
        Called with a word on what is being done.
    """
    split = benchmark_split(ratings)
    validation = [benchmark_split(split.train, random_state=seed) for seed in VALIDATION_SEEDS]
    overall, curves = [], []
    for key in contenders:
        contender = CONTENDERS[choose("contender", key, CONTENDERS)]
        tell = on_progress or (lambda word: None)
        tell(f"choosing the parameters of {contender.title}")
        params, temperature = choose_parameters(contender, validation)
        tell(f"fitting {contender.title}")
        answers = [_answer(contender, params, split, seed) for seed in range(n_seeds if _is_seeded(contender) else 1)]
        for calibrated in (False, True):
            shown = [temper(answer, temperature) if calibrated else answer for answer in answers]
            about = {"model": contender.title, "calibrated": calibrated}
            overall.append(
                about | _overall(split.test, shown, n_resamples) | {"params": params, "temperature": temperature}
            )
            curves += [about | row for row in _curves(split.test, shown[0], relevant)]
    return Sound(Results(overall), Results(curves))


def choose_parameters(contender: Contender, validation: Sequence[Split]) -> tuple[dict[str, Any], float]:
    """Return the setting with the lowest mean log-loss on the validation parts, and the temperature it needs there.

    A setting that diverges is out.
    """
    best: tuple[float, dict[str, Any], list[Distribution]] | None = None
    for params in contender.settings():
        try:
            answers = [_answer(contender, params, split, 0) for split in validation]
        except DivergenceError:
            continue
        losses = [metrics.nll(split.test.values, answer) for split, answer in zip(validation, answers, strict=True)]
        if best is None or np.mean(losses) < best[0]:
            best = float(np.mean(losses)), params, answers
    if best is None:
        raise DivergenceError(f"every setting of {contender.title} diverged. Lower the learning rates of its space.")
    _, params, answers = best
    truth = np.concatenate([split.test.values for split in validation])
    pooled = Distribution.trusted(np.concatenate([answer.probs for answer in answers]), answers[0].scores)
    return params, fit_temperature(truth, pooled)


def _is_seeded(contender: Contender) -> bool:
    return "random_state" in make_model(contender.model).get_params()


def _answer(contender: Contender, params: Mapping[str, Any], split: Split, seed: int) -> Distribution:
    seeded = {"random_state": seed} if _is_seeded(contender) else {}
    return answer_for(make_model(contender.model, dict(params) | seeded).fit(split.train), split.test)


def _overall(test: Ratings, answers: Sequence[Distribution], n_resamples: int) -> dict[str, Any]:
    """Return each measure of the first answer, its interval over users, and its range over the seeds."""
    n_users = len(test.users)
    once = np.ones((1, n_users))
    weights = np.random.default_rng(0).multinomial(n_users, np.full(n_users, 1 / n_users), n_resamples)
    by_seed = [make_statistics(test, answer) for answer in answers]
    row: dict[str, Any] = {}
    for name in MEASURES:
        values = [float(statistics[name](once)[0]) for statistics in by_seed]
        low, high = np.quantile(by_seed[0][name](weights.astype(np.float64)), [0.025, 0.975])
        row |= {name: values[0], f"{name} low": float(low), f"{name} high": float(high)}
        row[f"{name} range over seeds"] = float(np.ptp(values))
    return row


def make_statistics(test: Ratings, answer: Distribution) -> dict[str, Statistic]:
    """Return each measure as a function of how often every user counts."""
    point = {"1-MAE of the median": answer.median()}
    return {name: make_statistic(kind, test, answer, point=point.get(name)) for name, kind in MEASURES.items()}


def _curves(test: Ratings, answer: Distribution, relevant: float | None) -> list[dict[str, Any]]:
    """Return the paper's measures over the thresholds, of the mode and of the median, nobody left out of mAP."""
    options: dict[str, Any] = {"relevant": relevant, "hitless": "zero"}
    mode = metrics.paper_measures(test, answer, THRESHOLDS, **options)
    median = metrics.paper_measures(test, answer, THRESHOLDS, point=answer.median(), **options)
    return [
        {"threshold": threshold}
        | {name: float(values[k]) for name, values in mode.items()}
        | {"1-MAE of the median": float(median["1-MAE"][k])}
        for k, threshold in enumerate(THRESHOLDS)
    ]
