"""Whether reliabilities hold in recommended lists, too, which are no random sample of all pairs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DataError
from starcast.metrics import ReliabilityCurve, ece, reliability_curve
from starcast.models.base import Model
from starcast.ratings import Ratings
from starcast.trust.answers import answers_to_new


@dataclass(frozen=True)
class ListReliability:
    """Reliability curves and their calibration errors, of all held-out ratings and of those that lists hold.

    `gap` and `overall_gap` are the mean reliability minus the accuracy: above zero, the model promises too much.
    """

    listed: ReliabilityCurve
    overall: ReliabilityCurve
    listed_ece: float
    overall_ece: float
    gap: float
    overall_gap: float
    n_listed: int


def list_reliability(model: Model, test: Ratings, n: int = 10, *, n_bins: int = 15) -> ListReliability:
    """Return how reliable reliabilities are among the held-out ratings that fall in each user's list of `n` items.

    A list is made of what a model rates highest, and so of what it overrates: a model that is calibrated over all
    ratings need not be so over those in lists (Sato, RecSys 2024).
    :func:`starcast.plots.plot_reliability` draws ``{"in lists": found.listed, "all": found.overall}``.

    Parameters
    ----------
    model : Model
        Fitted.
    test : Ratings
        Ratings that the model has not seen; unknown pairs are left out.
    n : int
        The length of the lists, which :meth:`Model.recommend` makes of all items that a user has not rated in training.
    """
    answer, known, score, user, item = answers_to_new(model, test, "list_reliability")
    if not known.any():
        raise DataError(f"list_reliability needs ratings of known users and items, got none among {len(test):,}.")
    users = np.unique(user[known])
    lists = model.recommend(model.users_[users], n)
    listed_user = model._user_lookup.codes(lists["user"], "users").astype(np.int64)
    listed = listed_user * len(model.items_) + model._item_lookup.codes(lists["item"], "items")
    inside = known & np.isin(user.astype(np.int64) * len(model.items_) + item, listed)
    parts = [_part(answer, answer.scores[score], rows, n_bins) for rows in (inside, known)]
    (curve, error, gap), (overall, overall_error, overall_gap) = parts
    return ListReliability(curve, overall, error, overall_error, gap, overall_gap, int(inside.sum()))


def _part(
    answer: Distribution, truth: npt.NDArray[np.float64], rows: npt.NDArray[np.bool_], n_bins: int
) -> tuple[ReliabilityCurve, float, float]:
    part = Distribution.trusted(answer.probs[rows], answer.scores)
    gap = part.reliability() - (part.mode() == truth[rows])
    curve = reliability_curve(truth[rows], part, n_bins)
    return curve, ece(truth[rows], part, n_bins), float(gap.mean()) if len(gap) else float("nan")
