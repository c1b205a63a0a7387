"""A threshold that keeps a promise on new ratings, with a confidence that can be stated."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from starcast.distribution import RELIABILITIES, Distribution, check_fraction
from starcast.errors import ParameterError, PromiseError, choose
from starcast.models.base import Model
from starcast.ratings import Ratings
from starcast.trust.answers import answers_to_new
from starcast.trust.trial import Trial, lowest

Floats = npt.NDArray[np.float64]

KINDS = (*RELIABILITIES, "share")
POINTS = ("mode", "median", "mean")
UNITS = ("rating", "user")
N_STEPS = 1000  # candidates between 0 and 1; a finer grid costs time, but no confidence
N_SHARES = 100  # candidates of the kind "share"
N_PAIRS = 100_000  # training pairs that tell which reliabilities are common


@dataclass(frozen=True, eq=False)
class Threshold(float):
    """A number that knows what it promises: wherever a threshold may stand, it may.

    Attributes
    ----------
    threshold : float
        θ.
    kind : {"mode", "error"}
        The reliability that it is compared with; ``predict`` and ``recommend`` go by it.
    promise : str
        What was promised: "accuracy", "mae" or "coverage"; empty for a threshold that promises nothing.
    target, confidence : float
        How much of it, and with which confidence.
    unit : {"rating", "user"}
        What counts alike.
    observed : float
        The promised measure on the ratings that were given.
    bound : float
        The value for which there is evidence with that confidence: at least the target (of an error: at most).
    coverage : float
        The share of the given ratings that were predicted.
    n_ratings : int
        Given ratings.

    Examples
    --------
    >>> Threshold(0.85, "error") + 0.05, Threshold(0.85, "error").kind
    (0.9, 'error')
    """

    threshold: float
    kind: str = "mode"
    promise: str = ""
    target: float = float("nan")
    confidence: float = float("nan")
    unit: str = "rating"
    observed: float = float("nan")
    bound: float = float("nan")
    coverage: float = float("nan")
    n_ratings: int = 0

    def __new__(cls, threshold: float, *_: Any, **__: Any) -> Self:
        return super().__new__(cls, check_fraction(threshold, "threshold"))

    def __post_init__(self) -> None:
        choose("kind", self.kind, RELIABILITIES)


def choose_threshold(
    model: Model,
    ratings: Ratings,
    *,
    accuracy: float | None = None,
    mae: float | None = None,
    coverage: float | None = None,
    confidence: float = 0.9,
    kind: str = "mode",
    point: str = "mode",
    unit: str = "rating",
) -> Threshold:
    """Return a threshold with which the model keeps one promise on new ratings, with the given confidence.

    A promise of accuracy or MAE is about the ratings that are predicted, and the lowest threshold that keeps it is
    returned; a promise of coverage is about all, and the highest is returned. It holds for new ratings that come about
    as these did, and fails, over many draws of `ratings`, in at most the share ``1 - confidence`` of them. Candidates
    are tested from the strictest down (for coverage, from the loosest up) by exact tests that allow for their number.

    Parameters
    ----------
    model : Model
        Fitted.
    ratings : Ratings
        Ratings that the model has not seen, drawn as the new ones will be.
    accuracy : float, optional
        The least share of predictions that are the rating exactly, between 0 and 1.
    mae : float, optional
        The largest mean absolute error, in stars.
    coverage : float, optional
        The least share of ratings that are predicted, between 0 and 1.
    confidence : float
        How sure the promise must be.
    kind : {"mode", "error", "share"}
        The reliability that the threshold is compared with: the probability of the mode, or the 1-MAE that the
        distribution expects. ``"share"`` takes the probability of the mode, and for candidates those values that keep
        the most reliable 1, 2, …, 100% of the pairs that the model learnt from.
    point : {"mode", "median", "mean"}
        The prediction that the promise is about.
    unit : {"rating", "user"}
        ``"rating"``: all ratings alike, taken as independent. ``"user"``: the mean over users of each user's mean, as
        in the paper; only users need be independent of each other.

    Raises
    ------
    PromiseError
        If no threshold keeps the promise; it says what can be promised instead.

    Examples
    --------
    >>> from starcast import ResBeMF, holdout, make_ratings
    >>> train, new = holdout(make_ratings(n_users=400, random_state=0)[0], test_size=0.3, random_state=0)
    >>> found = choose_threshold(ResBeMF(random_state=0).fit(train), new, accuracy=0.4)
    >>> found.bound >= 0.4, found.observed > found.bound
    (True, True)
    """
    promise, target = _one_promise(accuracy=accuracy, mae=mae, coverage=coverage)
    _check_open(confidence, "confidence", 1.0)
    for name, value, known in (("kind", kind, KINDS), ("point", point, POINTS), ("unit", unit, UNITS)):
        choose(name, value, known)
    answer, _, score, _, _ = answers_to_new(model, ratings, "choose_threshold")
    scale = float(answer.scores[-1] - answer.scores[0]) if promise == "mae" else 1.0
    _check_open(target, promise, scale)
    error = np.abs(answer.point(point) - answer.scores[score])
    loss = error / scale if promise == "mae" else (error != 0).astype(np.float64)
    compared = "error" if kind == "error" else "mode"
    user = ratings.user if unit == "user" else None
    trial = Trial(promise, answer.reliability(compared), loss, user, 1 - confidence)
    candidates = _common_reliabilities(model) if kind == "share" else np.arange(N_STEPS + 1) / N_STEPS
    found = trial.search(candidates, _risk(promise, target / scale))
    if found is None:
        raise _cannot(trial, candidates, promise, target, confidence, scale)
    theta, level = found
    return Threshold(
        theta, compared, promise, target, confidence, unit,
        observed=scale * _risk(promise, trial.observed(theta)),
        bound=scale * _risk(promise, trial.bound(theta, level)),
        coverage=float((trial.reliability >= theta).mean()),
        n_ratings=len(ratings),
    )  # fmt: skip


def _risk(promise: str, value: float) -> float:
    """Return the risk that a measure stands for, or the measure that a risk stands for."""
    return value if promise == "mae" else 1 - value


def _common_reliabilities(model: Model) -> Floats:
    """Return the values above which 1, 2, …, 100% of the training pairs lie."""
    user = np.repeat(np.arange(len(model.users_), dtype=np.int32), np.diff(model.seen_start_))
    some = np.unique(np.linspace(0, len(user) - 1, N_PAIRS).astype(np.intp))
    answer = Distribution.trusted(model._known_proba(user[some], model.seen_items_[some]), model.scores_)
    values = np.quantile(answer.reliability(), 1 - np.arange(1, N_SHARES) / N_SHARES)
    return np.concatenate([values, [0.0]])


def _cannot(
    trial: Trial, candidates: Floats, promise: str, target: float, confidence: float, scale: float
) -> PromiseError:
    """Return the error that says what can be promised instead, and where."""
    risk = lowest(lambda risk: trial.search(candidates, risk) is not None, 10)
    found = trial.search(candidates, risk)
    at = (float("nan"), float("nan"), float("nan"))
    if found is not None and risk < 1:
        at = (scale * _risk(promise, risk), found[0], float((trial.reliability >= found[0]).mean()))
    return PromiseError(promise, target, confidence, len(trial.loss), *at)


def _one_promise(**promises: float | None) -> tuple[str, float]:
    given = {name: value for name, value in promises.items() if value is not None}
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise ParameterError(
            f"choose_threshold keeps exactly one promise of accuracy, mae or coverage, got {found}. "
            "Give accuracy=, mae= or coverage=."
        )
    return next(iter(given.items()))


def _check_open(value: object, name: str, high: float) -> None:
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not good or not 0 < value < high:  # type: ignore[operator]
        raise ParameterError(f"{name} must lie between 0 and {high:g}, got {value!r}.")
