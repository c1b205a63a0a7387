"""The paper's questions with rules that can be defended.

Parameters are chosen by log-loss on parts of the training ratings that are cut like the test part, from grids of the
same size for all models; every model answers with a distribution, as it is and tempered on those same parts; all decide
by the same rules; nothing that is undefined counts as zero or as perfect; intervals, and those of the difference of two
models, come from the same resamples of users and items; those of differences also from resamples of users alone.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from starcast import metrics
from starcast.bootstrap import Resampled, Statistic, make_statistic, paired_difference, resample_statistics
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
LARGER_IS_BETTER = {"accuracy", "1-MAE of the mode", "1-MAE of the median"}


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

    def at_edge(self, params: Mapping[str, Any]) -> list[str]:
        """Return the parameters whose value is the least or the greatest of those tried: others may be better."""
        return [name for name, values in self.space.items() if params[name] in (min(values), max(values))]


# As many settings for every model as four values of one parameter and three of another make; what has no parameters
# has one.
N_SETTINGS = 12
POINT_SPACE = {"regularization": (0.02, 0.06, 0.2, 0.6), "n_factors": (1, 3, 9)}
CONTENDERS = {
    "global": Contender("global frequencies", "global", {}, {}),
    "item": Contender("item frequencies", "item", {}, {"shrinkage": tuple(2.0**k for k in range(12))}),
    "bayes": Contender(
        "naive Bayes", "bayes", {}, {"user_shrinkage": (4.0, 16.0, 64.0, 256.0), "item_shrinkage": (4.0, 16.0, 64.0)}
    ),
    "dirmf": Contender(
        "DirMF", "dirmf", {"n_iters": 100}, {"learning_rate": (0.003, 0.01, 0.03, 0.1), "n_factors": (1, 3, 9)}
    ),
    "bemf": Contender(
        "BeMF", "bemf", {"n_iters": 50}, {"regularization": (0.3, 1.0, 3.0, 10.0), "n_factors": (1, 3, 9)}
    ),
    "pmf": Contender("PMF", "pmf", {"n_iters": 100}, POINT_SPACE),
    "biasedmf": Contender("BiasedMF", "biasedmf", {"n_iters": 100}, POINT_SPACE),
    "resbemf-paper": Contender(
        "ResBeMF, published",
        "resbemf",
        {"update": "paper", "n_factors": 4, "n_iters": 100},
        {"regularization": (0.05, 0.1, 0.2, 0.4), "learning_rate": (0.0002, 0.0005, 0.001)},
    ),
    "resbemf": Contender(
        "ResBeMF, exact", "resbemf", {}, {"regularization": (6.0, 10.0, 16.0, 26.0), "n_factors": (4, 8, 16)}
    ),
}


@dataclass(frozen=True)
class Sound:
    """What the sound protocol found: a row per model and calibration, and their curves over the thresholds.

    `differences` has a row for every two models, measure and calibration; `settings` what was tried and chosen.
    """

    overall: Results
    differences: Results
    settings: Results
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
        Fits from different starting points; the measures are those of the first, their range over all is told.
    n_resamples : int
        Resamples of the test users and items behind every 95% interval.
    on_progress : callable, optional
        Called with a word on what is being done.
    """
    split = benchmark_split(ratings)
    validation = [benchmark_split(split.train, random_state=seed) for seed in VALIDATION_SEEDS]
    statistics: dict[tuple[str, bool, str], Statistic] = {}
    abouts: list[dict[str, Any]] = []
    settings, curves = [], []
    tell = on_progress or (lambda word: None)
    for key in contenders:
        contender = CONTENDERS[choose("contender", key, CONTENDERS)]
        tell(f"choosing the parameters of {contender.title}")
        params, temperature = choose_parameters(contender, validation)
        settings.append(_setting_row(contender, params))
        tell(f"fitting {contender.title}")
        answers = [_answer(contender, params, split, seed) for seed in range(n_seeds if _is_seeded(contender) else 1)]
        for calibrated in (False, True):
            shown = [temper(answer, temperature) if calibrated else answer for answer in answers]
            about = {"model": contender.title, "calibrated": calibrated}
            by_seed = [make_statistics(split.test, answer) for answer in shown]
            statistics |= {(contender.title, calibrated, name): by_seed[0][name] for name in MEASURES}
            abouts.append(about | {"params": params, "temperature": temperature} | _ranges(split.test, by_seed))
            curves += [about | row for row in _curves(split.test, shown[0], relevant)]
    tell("resampling")
    resampled = resample_statistics(split.test, statistics, n_resamples=n_resamples)
    overall = [about | _intervals(resampled, about["model"], about["calibrated"]) for about in abouts]
    of_users = resample_statistics(split.test, statistics, unit="user", n_resamples=n_resamples)
    differences = _differences(resampled, of_users)
    return Sound(Results(overall), Results(differences), Results(settings), Results(curves))


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


def _setting_row(contender: Contender, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was tried and what was chosen, for the table of settings."""
    return {
        "model": contender.title,
        "settings": len(contender.settings()),
        "tried": "; ".join(f"{name}: {', '.join(map(_plain, values))}" for name, values in contender.space.items()),
        "fixed": "; ".join(f"{name}={value}" for name, value in contender.fixed.items()),
        "chosen": "; ".join(f"{name}={_plain(params[name])}" for name in contender.space),
        "at edge": ", ".join(contender.at_edge(params)),
    }


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ranges(test: Ratings, by_seed: Sequence[Mapping[str, Statistic]]) -> dict[str, float]:
    """Return how far each measure differs between the seeds."""
    once = np.ones((1, len(test.users)))
    return {
        f"{name} range over seeds": float(np.ptp([statistics[name](once)[0] for statistics in by_seed]))
        for name in MEASURES
    }


def _intervals(resampled: Mapping[tuple[str, bool, str], Resampled], model: str, calibrated: bool) -> dict[str, float]:
    """Return each measure with its 95% interval."""
    row: dict[str, float] = {}
    for name in MEASURES:
        found = resampled[model, calibrated, name]
        low, high = np.nanquantile(found.values, [0.025, 0.975])
        row |= {name: found.value, f"{name} low": float(low), f"{name} high": float(high)}
    return row


def _differences(
    resampled: Mapping[tuple[str, bool, str], Resampled], of_users: Mapping[tuple[str, bool, str], Resampled]
) -> list[dict[str, Any]]:
    """Return the paired difference of every two models in every measure, both as they are or both tempered."""
    rows = []
    for (model, calibrated, name), one in resampled.items():
        for (other, tempered, measure), two in resampled.items():
            if other != model and (tempered, measure) == (calibrated, name):
                best = "max" if name in LARGER_IS_BETTER else "min"
                about = {"model": model, "other": other, "calibrated": calibrated, "measure": name}
                row = paired_difference(one, two, best=best)
                users = paired_difference(
                    of_users[model, calibrated, name], of_users[other, calibrated, name], best=best
                )
                rows.append(about | row | {f"{key} over users": users[key] for key in ("low", "high", "clear")})
    return rows


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
