"""Measures by name, as searches, fronts and comparisons call them: "nll", "1-MAE@0.5", "cumulative coverage"."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import metrics
from starcast.distribution import Distribution, check_fraction
from starcast.errors import ParameterError, UnknownNameError, choose
from starcast.metrics import PAPER_MEASURES
from starcast.ratings import Ratings

Objectives = str | Sequence[str] | Mapping[str, str]

OVERALL: dict[str, Callable[[npt.ArrayLike, Distribution], float]] = {
    "nll": metrics.nll,
    "brier": metrics.brier,
    "rps": metrics.rps,
    "rmse": lambda truth, answer: metrics.rmse(truth, answer.mean()),
    "ece": metrics.ece,
    "aurc": metrics.aurc,
    "aurc_mae": lambda truth, answer: metrics.aurc(truth, answer, "absolute"),
}
CUMULATIVE = tuple(f"cumulative {name}" for name in PAPER_MEASURES)
STEPS = 20  # of the thresholds 0, 1/19, …, 1 that a cumulative measure adds up
CUMULATIVE_THRESHOLDS = tuple(k / (STEPS - 1) for k in range(STEPS))
CUMULATIVE_WEIGHTS = np.arange(STEPS, 0, -1) / (STEPS * (STEPS + 1) / 2)


def measure(
    test: Ratings,
    answer: Distribution,
    names: Iterable[str],
    *,
    relevant: float | None = None,
    empty: str = "undefined",
) -> dict[str, float]:
    r"""Return the named measures of an answer that has a row per rating of `test`.

    A name is one without threshold (nll, brier, rps, rmse, ece, aurc, aurc_mae), one of the paper's at a threshold
    (``1-MAE@0.5``, ``coverage@0.5``, ``accuracy@0``, ``mAP@0.25``), or one of the paper's over all thresholds:
    "cumulative 1-MAE" and its like are :math:`\sum_{k=0}^{19} (20 - k)\, x_k / 210` at :math:`\theta_k = k / 19`,
    where a threshold at which :math:`x_k` is undefined adds nothing. `relevant` and `empty` are those of
    :func:`starcast.metrics.paper_measures`.

    >>> test = Ratings.from_arrays(["ann", "bob"], ["x", "x"], [1, 2])
    >>> sure = Distribution([[0.75, 0.25], [0.75, 0.25]], [1, 2])
    >>> measure(test, sure, ["rps", "coverage@0.5", "1-MAE@0.5"])
    {'rps': 0.3125, 'coverage@0.5': 1.0, '1-MAE@0.5': 0.5}
    """
    wanted = {name: parse(name) for name in names}
    thresholds = sorted({threshold for _, at in wanted.values() for threshold in at})
    found = metrics.paper_measures(test, answer, thresholds, relevant=relevant, empty=empty) if thresholds else {}
    place = {threshold: k for k, threshold in enumerate(thresholds)}
    values = {}
    for name, (base, at) in wanted.items():
        x = found[base][[place[threshold] for threshold in at]] if at else np.empty(0)
        if not at:
            values[name] = OVERALL[base](test.values, answer)
        else:
            values[name] = cumulate(x) if len(at) == STEPS else float(x[0])
    return values


def cumulate(values: npt.NDArray[np.float64]) -> Any:
    """Return the weighted sum of a measure over the cumulative thresholds, which lie along the last axis.

    >>> round(cumulate(np.ones(20)), 6)
    1.0
    """
    total = np.nansum(values * CUMULATIVE_WEIGHTS, axis=-1)
    return float(total) if np.ndim(total) == 0 else total


def parse(name: str) -> tuple[str, tuple[float, ...]]:
    """Return the measure that a name speaks of and the thresholds that it is taken at: none, one or all twenty.

    >>> parse("nll"), parse("mAP@0.5")
    (('nll', ()), ('mAP', (0.5,)))
    """
    base, at, threshold = str(name).partition("@")
    if at and base in PAPER_MEASURES:
        try:
            return base, (check_fraction(float(threshold), "threshold"),)
        except ValueError:
            raise ParameterError(
                f"the threshold of {name!r} must be a number from 0 to 1, such as {base}@0.5, got {threshold!r}."
            ) from None
    choose("measure", name, [*OVERALL, *CUMULATIVE, *(f"{base}@θ" for base in PAPER_MEASURES)])
    return (str(name), ()) if name in OVERALL else (str(name).removeprefix("cumulative "), CUMULATIVE_THRESHOLDS)


def direction(name: str) -> str:
    """Return "min" if less of a measure is better, else "max"."""
    return "min" if parse(name)[0] in OVERALL else "max"


def known_direction(column: str) -> str | None:
    """Return the direction of a column of results if it is a measure, with or without a threshold, else None.

    >>> known_direction("accuracy"), known_direction("nll"), known_direction("n_factors")
    ('max', 'min', None)
    """
    if column in PAPER_MEASURES:
        return "max"
    try:
        return direction(column)
    except (ParameterError, UnknownNameError):
        return None


def directions(objectives: Objectives) -> dict[str, str]:
    """Return name → "min" or "max"; names alone have the direction that is usual for them.

    >>> directions(["nll", "coverage@0.5"])
    {'nll': 'min', 'coverage@0.5': 'max'}
    """
    given = objectives if isinstance(objectives, Mapping) else None
    names = [objectives] if isinstance(objectives, str) else list(objectives)
    if not names:
        raise ParameterError("objectives must name at least one measure, got none.")
    found = {}
    for name in names:
        found[name] = (
            direction(name) if given is None else choose(f"direction of {name!r}", given[name], ["min", "max"])
        )
    return found
