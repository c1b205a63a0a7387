"""What a model says about ratings that it has not seen, which is all that promises can be built on."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DataError, ParameterError, plural
from starcast.metrics.probability import score_codes
from starcast.models.base import Model
from starcast.ratings import Ratings


class Answers(NamedTuple):
    """The distributions, whether each pair is known, the codes of the true scores, and the model's codes of users and
    items, -1 where they are unknown."""

    answer: Distribution
    known: npt.NDArray[np.bool_]
    score: npt.NDArray[np.intp]
    user: npt.NDArray[np.int32]
    item: npt.NDArray[np.int32]


def answers_to_new(model: Model, ratings: Ratings, what: str) -> Answers:
    """Return the model's answers to ratings that must be new to it; `what` asks for them."""
    check_question(model, ratings, what)
    answer, known, _, _ = model._answer(ratings.users[ratings.user], ratings.items[ratings.item])
    user = model._user_lookup.codes(ratings.users, "users")[ratings.user]
    item = model._item_lookup.codes(ratings.items, "items")[ratings.item]
    seen = is_seen(model, user, item)
    if seen.any():
        raise DataError(
            f"{what} needs ratings that the model has not seen, but it was fitted on "
            f"{plural(int(seen.sum()), 'pair')} of these {len(ratings):,}. Set some aside before you fit it: "
            "train, new = holdout(ratings)."
        )
    return Answers(answer, known, score_codes(ratings.values, answer), user, item)


def check_question(model: object, ratings: object, what: str) -> None:
    """Raise an error unless there are a model and ratings."""
    if not isinstance(model, Model):
        raise ParameterError(f"{what} needs a model, such as NaiveBayes(), got {model!r}.")
    if not isinstance(ratings, Ratings):
        raise DataError(f"{what} needs Ratings, got {type(ratings).__name__}.")
    if len(ratings) == 0:
        raise DataError(f"{what} needs at least one rating, got none.")


def is_seen(model: Model, user: npt.NDArray[np.int32], item: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return which pairs of codes the model was fitted on."""
    n_items = len(model.items_)
    learnt = np.repeat(np.arange(len(model.users_)), np.diff(model.seen_start_)) * n_items + model.seen_items_
    return np.isin(np.where((user >= 0) & (item >= 0), user.astype(np.int64) * n_items + item, -1), learnt)
