"""Models whose probabilities are frequencies: calibrated on answers that they gave before they saw the rating."""

import copy
from typing import NamedTuple, TypeVar

import numpy as np

from starcast.errors import DataError, choose
from starcast.models.base import Model
from starcast.models.growth import knows_all
from starcast.ratings import Ratings
from starcast.split import Seed, k_fold
from starcast.trust.answers import answers_to_new, check_question
from starcast.trust.maps import METHODS, Floats, Scores, choose_map

M = TypeVar("M", bound=Model)

N_GROUPS = 5  # parts of the held-out answers on which methods are compared; each costs a few maps


def calibrate(model: M, ratings: Ratings, method: str = "auto", *, n_splits: int = 10, random_state: Seed = 0) -> M:
    """Return a copy of the model whose probabilities are calibrated; `model` is left alone.

    A map from stated probabilities to observed frequencies is learnt from ratings that the answering model has not
    seen. Where these come from depends on the arguments:

    - `model` is not fitted, or was fitted on just these ratings: by cross-fitting. Clones are fitted on all but one of
      `n_splits` folds in turn and answer for the fold that they have not seen. The returned model is fitted on all
      ratings (or taken as it is if it was already), so that none is lost to calibration.
    - `model` was fitted on other ratings: from its own answers to these ratings, which must be new to it. It is not
      fitted again.

    The map then belongs to the model: ``predict_proba``, ``predict``, ``recommend`` and ``save`` use it, and ``fit``
    forgets it. Unknown pairs keep the prior.

    Parameters
    ----------
    model : Model
        Fitted or not.
    ratings : Ratings
        What to fit and calibrate on or, for a model that was fitted on other ratings, new ratings to calibrate on: some
        thousands, else ``"auto"`` will mostly take ``"none"`` or ``"temperature"``.
    method : {"auto", "none", "temperature", "vector", "isotonic"}
        ``"temperature"`` raises all probabilities to one power; ``"vector"`` gives each score a power and a factor, and
        the mode a factor that depends on the reliability; ``"isotonic"`` first moves each cumulative probability by a
        monotone map of its own. ``"auto"`` takes the one with the lowest log-loss on answers that the map has not
        seen, ``"none"`` among them, and a freer one only if it gains more than a standard error.
    n_splits : int
        Folds of the cross-fitting. More folds cost more fits, and their models are more like the final one.
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
    fitted = copy.copy(model)
    vars(fitted).pop("calibration_", None)
    if model.is_fitted and not _was_fitted_on(model, ratings):
        held = answers_of(fitted, ratings, random_state)
    else:
        held = held_out_answers(model, ratings, n_splits, random_state)
        if not model.is_fitted:
            fitted = model.clone().fit(ratings)
    choice = choose_map(*held, METHODS if method == "auto" else (method,))
    if choice.calibration is not None:
        fitted.calibration_ = choice.calibration
    fitted.calibration_gain_ = choice.gain
    return fitted


class HeldOut(NamedTuple):
    """Answers to pairs before their ratings were seen, the ratings' codes, and a number that parts them at random."""

    probs: Floats
    score: Scores
    group: Scores


def answers_of(model: Model, new: Ratings, random_state: Seed) -> HeldOut:
    """Return what a fitted model answers for ratings that it has not seen, known pairs only."""
    given = answers_to_new(model, new, "calibrate")
    score = given.score[given.known]
    if len(score) < N_GROUPS:
        raise DataError(
            f"calibrate needs at least {N_GROUPS} new ratings whose user and item the model knows, got "
            f"{len(score):,} of {len(new):,}."
        )
    group = np.random.default_rng(random_state).permutation(len(score)) % N_GROUPS
    return HeldOut(given.answer.probs[given.known], score, group)


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


def _was_fitted_on(model: Model, ratings: Ratings) -> bool:
    model._check_fitted()
    return model.digest_ == ratings.digest() and knows_all(model)
