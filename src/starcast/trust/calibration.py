"""Models whose probabilities are frequencies: calibrated on answers that they gave before they saw the rating."""

import copy
from typing import NamedTuple, TypeVar

import numpy as np

from starcast.errors import DataError, choose
from starcast.models.base import Model
from starcast.models.growth import knows_all
from starcast.ratings import Ratings
from starcast.split import Seed, k_fold
from starcast.trust.answers import check_question
from starcast.trust.maps import METHODS, Floats, Scores, choose_map

M = TypeVar("M", bound=Model)

N_GROUPS = 5  # parts of the held-out answers on which methods are compared; each costs a few maps


def calibrate(model: M, ratings: Ratings, method: str = "auto", *, n_splits: int = 10, random_state: Seed = 0) -> M:
    """Return the model, fitted on all the ratings, with answers that are calibrated; `model` is left alone.

    Clones of the model are fitted on all but one of `n_splits` folds in turn; their answers for the folds that they
    have not seen teach a map from what is said to what happens. No rating is lost to it: the final model is fitted on
    all of them, or taken as it is if it was already. The map then belongs to the model: ``predict_proba``, ``predict``,
    ``recommend`` and ``save`` know no other answers, and ``fit`` forgets it. Unknown pairs keep the prior.

    Parameters
    ----------
    model : Model
        Fitted or not.
    ratings : Ratings
    method : {"auto", "none", "temperature", "vector", "isotonic"}
        ``"temperature"`` raises all probabilities to one power; ``"vector"`` gives each score a power and a factor, and
        the mode a factor that depends on the reliability; ``"isotonic"`` first moves each cumulative probability by a
        monotone map of its own. ``"auto"`` takes the one with the lowest log-loss on answers that the map has not
        seen, ``"none"`` among them, and a freer one only if it gains more than a standard error.
    n_splits : int
        More folds cost more fits, and their models are more like the final one.
    random_state : int, Generator or None
        What the folds are drawn with.

    Returns
    -------
    Model
        With `calibration_`, the array that :func:`starcast.recalibration.recalibrate` explains, unless nothing is
        better, and `calibration_gain_`, how much lower the log-loss of held-out ratings is, in nats a rating.

    Examples
    --------
    >>> from starcast import BeMF, holdout, make_ratings, metrics
    >>> train, test = holdout(make_ratings(n_users=400, n_items=200, random_state=0)[0], random_state=0)
    >>> pairs = test.users[test.user], test.items[test.item]
    >>> bold = BeMF(random_state=0).fit(train)
    >>> honest = calibrate(bold, train)
    >>> [round(metrics.ece(test.values, m.predict_proba(*pairs)), 2) for m in (bold, honest)]
    [0.11, 0.01]
    """
    check_question(model, ratings, "calibrate")
    choose("method", method, ["auto", *METHODS])
    held = held_out_answers(model, ratings, n_splits, random_state)
    choice = choose_map(*held, METHODS if method == "auto" else (method,))
    fitted = copy.copy(model) if _knows(model, ratings) else model.clone().fit(ratings)
    vars(fitted).pop("calibration_", None)
    if choice.calibration is not None:
        fitted.calibration_ = choice.calibration
    fitted.calibration_gain_ = choice.gain
    return fitted


class HeldOut(NamedTuple):
    """Answers to pairs before their ratings were seen, the ratings' codes, and a number that parts them at random."""

    probs: Floats
    score: Scores
    group: Scores


def held_out_answers(model: Model, ratings: Ratings, n_splits: int, random_state: Seed) -> HeldOut:
    """Return what clones of the model answer for folds that they were not fitted on, known pairs only."""
    parts = []
    for fold, (train, test) in enumerate(k_fold(ratings, n_splits, random_state=random_state)):
        clone = model.clone().fit(train)
        answer, known, _, _ = clone._answer(test.users[test.user], test.items[test.item])
        score = test.score[known].astype(np.intp)
        parts.append(HeldOut(answer.probs[known], score, np.full(len(score), fold % N_GROUPS)))
    held = HeldOut(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if len(np.unique(held.group)) < 2:
        raise DataError(
            f"calibrate needs held-out ratings whose user and item have others, got {len(held.score):,} of "
            f"{len(ratings):,}. Give more ratings a user and item."
        )
    return held


def _knows(model: Model, ratings: Ratings) -> bool:
    if not model.is_fitted or model.digest_ != ratings.digest():
        return False
    return model._agrees() and knows_all(model)
