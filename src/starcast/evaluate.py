"""Models against test ratings: one, fold by fold, or several side by side."""

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from starcast import metrics
from starcast.bootstrap import paired_difference, resample
from starcast.distribution import Distribution, check_fraction
from starcast.errors import DataError, DivergenceError, ParameterError
from starcast.models.base import Model
from starcast.objectives import OVERALL, direction
from starcast.ratings import Ratings, check_table
from starcast.results import Results
from starcast.split import Split, k_fold

THRESHOLDS = tuple(k / 10 for k in range(10))
COMPARED = ("nll", "rps", "rmse", "ece", "aurc", "1-MAE@0", "accuracy@0")
Folds = int | str | Sequence[Split]


def evaluate(
    model: Model,
    test: Ratings,
    thresholds: float | Sequence[float] = THRESHOLDS,
    *,
    relevant: float | None = None,
    empty: str = "undefined",
) -> Results:
    """Return one row per threshold with the paper's measures there and, the same in each row, those without threshold.

    A lone number is one threshold. `relevant` and `empty` are those of :func:`starcast.metrics.paper_measures`.
    """
    thresholds = as_thresholds(thresholds)
    check_table(test, "evaluate")
    answer = answer_for(model, test)
    at = metrics.paper_measures(test, answer, thresholds, relevant=relevant, empty=empty)
    overall = overall_measures(test, answer)
    return Results(
        [
            {"model": type(model).__name__, "threshold": threshold}
            | {name: float(values[k]) for name, values in at.items()}
            | overall
            for k, threshold in enumerate(thresholds)
        ]
    )


def as_thresholds(thresholds: Any) -> list[float]:
    """Return thresholds as a list of numbers from 0 to 1, of one number if only one is given."""
    given = [thresholds] if isinstance(thresholds, (str, int, float, np.number)) else thresholds
    if not isinstance(given, Iterable):
        raise ParameterError(f"thresholds must be a number from 0 to 1, or several, got {thresholds!r}.")
    several = list(given)
    for threshold in several:
        check_fraction(threshold, "threshold")
    return several


def answer_for(model: Model, test: Ratings) -> Distribution:
    """Return the model's distribution for every rating of the table, on the scale of the model."""
    return model.predict_proba(test.users[test.user], test.items[test.item])


def overall_measures(test: Ratings, answer: Distribution) -> dict[str, float]:
    """Return the measures of a whole distribution, over all ratings alike."""
    return {name: of(test.values, answer) for name, of in OVERALL.items()}


def cross_validate(
    model: Model,
    ratings: Ratings,
    cv: Folds = 5,
    thresholds: float | Sequence[float] = THRESHOLDS,
    *,
    relevant: float | None = None,
    empty: str = "undefined",
    random_state: int | None = None,
) -> Results:
    """Return the rows of :func:`evaluate` for every fold, with the fold, a status and the seconds that the fit took.

    The model itself is left unfitted. A fold whose fit diverges is one row with the status "diverged" and the error.

    Parameters
    ----------
    cv : int, "paper" or list of Split
        A number of random folds; the paper's five, which need a `random_state`; or any splits of your own.
    random_state : int, optional
        What the folds are drawn with.

    Examples
    --------
    >>> from starcast import ItemFrequency, make_ratings
    >>> ratings, _ = make_ratings(random_state=0)
    >>> table = cross_validate(ItemFrequency(), ratings, cv=3, thresholds=[0.0], random_state=0)
    >>> table["fold"], table["status"]
    ([0, 1, 2], ['ok', 'ok', 'ok'])
    """
    thresholds = as_thresholds(thresholds)
    rows: list[dict[str, Any]] = []
    for fold, split in enumerate(make_folds(ratings, cv, random_state)):
        began = time.perf_counter()
        try:
            fitted = model.clone().fit(split.train)
        except DivergenceError as error:
            about = {"model": type(model).__name__, "fold": fold, "status": "diverged", "error": str(error)}
            rows.append(about | {"seconds": time.perf_counter() - began})
            continue
        about = {"fold": fold, "status": "ok", "seconds": time.perf_counter() - began}
        rows += [row | about for row in evaluate(fitted, split.test, thresholds, relevant=relevant, empty=empty)]
    return Results(rows)


def make_folds(ratings: Ratings, cv: Folds, random_state: int | None = None) -> list[Split]:
    """Return the splits that `cv` stands for, see :func:`cross_validate`."""
    if isinstance(cv, (int, str, np.integer)):
        check_table(ratings, "cross-validation")
    if isinstance(cv, str) and cv == "paper":
        return list(k_fold(ratings, 5, method="paper", random_state=random_state))
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        return list(k_fold(ratings, int(cv), random_state=random_state))
    folds: list[Any] = [] if isinstance(cv, (str, bytes, bool)) or not isinstance(cv, Sequence) else list(cv)
    if not folds or not all(isinstance(split, tuple) and len(split) == 2 for split in folds):
        raise ParameterError(f'cv must be a number of folds, "paper" or a list of Splits, got {cv!r}.')
    return [Split(*split) for split in folds]


def compare(
    models: Mapping[str, Model] | Sequence[Model],
    test: Ratings,
    measures: Sequence[str] = COMPARED,
    *,
    unit: str = "both",
    n_resamples: int = 1000,
    level: float = 0.95,
    relevant: float | None = None,
    random_state: int = 0,
) -> Results:
    """Return how fitted models differ on the same test ratings, with intervals from a paired bootstrap.

    A row per measure and pair of models: `value` and `other_value`, their `difference`, the interval from `low` to
    `high` that holds the share `level` of the resampled differences, `better`, the share of resamples in which the
    model is better than the other (ties count half), and `clear`, whether the interval leaves 0 out. The resamples are
    the same for all models and measures; those in which the difference is undefined do not count. Fewer than
    ``2 / (1 - level)`` of them, or those of a single user or item, make no difference clear. Each row is a test of its
    own: of a hundred pairs that do not differ, about five are clear at a level of 0.95 with ``unit="user"``, fewer with
    "both".

    Parameters
    ----------
    models : mapping from name to Model, or list of Model
        A list names each model by its class, with a number where a class appears again.
    measures : sequence of str
        Names as in :func:`starcast.objectives.measure`.
    unit : {"both", "user", "item"}
        What is resampled. "both" draws users and items independently: a clear difference would be expected with other
        users and other items, too. Its intervals err on the wide side. "user" takes the items as given and is faster
        and narrower; it is too narrow where the models differ by item.
    n_resamples : int
        A thousand take about two seconds for each measure and model and 100,000 test ratings; with "user" far less.

    Examples
    --------
    >>> from starcast import GlobalFrequency, ItemFrequency, holdout, make_ratings
    >>> train, test = holdout(make_ratings(random_state=0)[0], random_state=0)
    >>> table = compare([ItemFrequency().fit(train), GlobalFrequency().fit(train)], test, ["nll"], n_resamples=200)
    >>> row = table.rows[0]
    >>> row["model"], row["other"], row["high"] < 0, row["better"] > 0.98, row["clear"]
    ('ItemFrequency', 'GlobalFrequency', True, True, True)
    """
    if not isinstance(models, Iterable):
        raise DataError(f"compare needs a list of models, or a mapping from name to model, got {models!r:.80}.")
    check_table(test, "compare")
    named = dict(models) if isinstance(models, Mapping) else _named(models)
    if len(named) < 2:
        raise DataError(f"compare needs at least two models, got {len(named)}.")
    check_fraction(level, "level")
    answers = {name: answer_for(model, test) for name, model in named.items()}
    found = resample(
        test,
        answers,
        measures,
        unit=unit,
        n_resamples=n_resamples,
        relevant=relevant,
        random_state=random_state,
    )
    rows = []
    for name in measures:
        for one, other in itertools.combinations(named, 2):
            difference = paired_difference(found[name][one], found[name][other], level=level, best=direction(name))
            rows.append({"measure": name, "model": one, "other": other} | difference)
    return Results(rows)


def _named(models: Sequence[Model]) -> dict[str, Model]:
    named: dict[str, Model] = {}
    for model in models:
        name = title = type(model).__name__
        count = 1
        while name in named:
            count += 1
            name = f"{title} {count}"
        named[name] = model
    return named
