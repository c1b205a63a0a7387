"""Sets of neighbouring scores that hold the rating as often as they say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.errors import DataError, ParameterError, choose, plural
from starcast.frames import make_aligned_frame
from starcast.models.base import Model
from starcast.ratings import Ratings
from starcast.results import Results
from starcast.trust.answers import answers_to_new

Floats = npt.NDArray[np.float64]
Groups = npt.NDArray[np.intp]


def conformal(
    model: Model, ratings: Ratings, alpha: float = 0.1, *, by: str | None = None, n_groups: int = 4
) -> "RatingSets":
    r"""Return rating sets that hold a new rating with a probability of at least ``1 - alpha``, whatever the model.

    A set grows from the mode, each time by the likelier of the two scores beside it, until it holds enough of the
    probability. How much is enough is learnt from ratings that the model has not seen: of *n* of them, the
    :math:`\lceil (n + 1)(1 - \alpha) \rceil`-th smallest probability that a set held before it took the rating in
    (split conformal prediction). The sets are narrow where the model is sure and wide where it is not.

    Parameters
    ----------
    model : Model
        Fitted.
    ratings : Ratings
        Ratings that the model has not seen, drawn as the new ones will be.
    alpha : float
        The share of sets that may miss.
    by : {None, "activity"}
        ``"activity"`` keeps the promise in each group of users by itself, parted by their number of training ratings.
    n_groups : int
        How many groups; their bounds part the training ratings evenly.

    Examples
    --------
    >>> from starcast import NaiveBayes, holdout, make_ratings
    >>> train, new = holdout(make_ratings(random_state=0)[0], random_state=0)
    >>> sets = conformal(NaiveBayes().fit(train), new, alpha=0.2)
    >>> sets.predict([1, 1], [2, 3]).columns
    ['user', 'item', 'low', 'high', 'size', 'known']
    """
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float, np.number)) or not 0 < alpha < 1:
        raise ParameterError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    edges = _activity_edges(model, by, n_groups)
    answer, known, score, user, _ = answers_to_new(model, ratings, "conformal")
    before = np.take_along_axis(probability_before(answer.probs), score[:, None], axis=1)[:, 0]
    group = _groups(model, user, known, edges)
    levels, counts = np.empty(len(edges) + 2), np.bincount(group, minlength=len(edges) + 2)
    for g in range(len(levels)):
        levels[g] = _quantile(before[group == g], alpha)
        # The last group are unknown pairs: with too few of them their set is the whole scale, which always holds.
        if g < len(levels) - 1 and not np.isfinite(levels[g]):
            raise DataError(_too_few(alpha, int(counts[g]), g if by else None))
    return RatingSets(model, float(alpha), edges, levels, counts)


@dataclass(frozen=True, eq=False, repr=False)
class RatingSets:
    """What :func:`conformal` learnt; ``predict`` answers.

    Attributes
    ----------
    model : Model
    alpha : float
    edges : ndarray
        The activities at which a next group begins; empty if all known pairs are one group.
    levels : ndarray of shape (groups + 1,)
        The probability that a set must hold before it stops to grow, for each group and, last, for unknown pairs;
        infinite where that is the whole scale.
    counts : ndarray of shape (groups + 1,)
        How many ratings these were learnt from.
    """

    model: Model
    alpha: float
    edges: npt.NDArray[np.int64]
    levels: Floats
    counts: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        return f"RatingSets({self.model!r}, alpha={self.alpha:g}, {plural(len(self.edges) + 1, 'group')})"

    def predict(self, users: object, items: object) -> Any:
        """Return a frame with user, item, the lowest and highest score of the set, its size, and known.

        `size` is the number of scores. The frame is of the kind that `users` or `items` come from.
        """
        answer, known, user_names, item_names = self.model._answer(users, items)
        user = self.model._user_lookup.codes(user_names, "users")
        inside = self._inside(answer.probs, _groups(self.model, user, known, self.edges))
        low, size = inside.argmax(axis=1), inside.sum(axis=1)
        columns = {
            "user": user_names,
            "item": item_names,
            "low": answer.scores[low],
            "high": answer.scores[low + size - 1],
            "size": size,
            "known": known,
        }
        return make_aligned_frame(columns, users, items)

    def evaluate(self, test: Ratings) -> Results:
        """Return the number of ratings, the share that their sets hold, and the mean size, of all and of each group."""
        answer, known, score, user, _ = answers_to_new(self.model, test, "RatingSets.evaluate")
        group = _groups(self.model, user, known, self.edges)
        inside = self._inside(answer.probs, group)
        held, size = np.take_along_axis(inside, score[:, None], axis=1)[:, 0], inside.sum(axis=1)
        rows = []
        for name, rows_of in [("all", group >= 0), *((self._name(g), group == g) for g in range(len(self.levels)))]:
            if rows_of.any():
                rows.append(
                    {
                        "group": name,
                        "ratings": int(rows_of.sum()),
                        "coverage": float(held[rows_of].mean()),
                        "size": float(size[rows_of].mean()),
                    }
                )
        return Results(rows)

    def _inside(self, probs: Floats, group: Groups) -> npt.NDArray[np.bool_]:
        return np.asarray(probability_before(probs) <= self.levels[group][:, None])

    def _name(self, group: int) -> str:
        bounds = [1, *self.edges.tolist()]
        if group == len(self.levels) - 1:
            return "unknown pairs"
        if not len(self.edges):
            return "known pairs"
        last = f" to {bounds[group + 1] - 1:,}" if group + 1 < len(bounds) else " or more"
        return f"users with {bounds[group]:,}{last} ratings"


def probability_before(probs: npt.NDArray[Any]) -> Floats:
    """Return, for each pair and score, the probability that the set held when the score was taken in.

    Sets grow from the mode by the likelier neighbour, the lower one if both are as likely.

    >>> probability_before(np.array([[0.1, 0.2, 0.4, 0.3]])).round(2).tolist()
    [[0.9, 0.7, 0.0, 0.4]]
    """
    row = np.arange(len(probs))
    # A column of -1 on either side: an end of the scale is never the likelier neighbour.
    padded = np.pad(probs.astype(np.float64), ((0, 0), (1, 1)), constant_values=-1)
    low = high = probs.argmax(axis=1) + 1
    held = padded[row, low]
    before = np.zeros(padded.shape)
    for _ in range(probs.shape[1] - 1):
        down = padded[row, low - 1] >= padded[row, high + 1]
        taken = np.where(down, low - 1, high + 1)
        low, high = np.minimum(low, taken), np.maximum(high, taken)
        before[row, taken] = held
        held = held + padded[row, taken]
    return before[:, 1:-1]


def _quantile(before: Floats, alpha: float) -> float:
    """Return the value that a new one exceeds with a probability of at most alpha; infinite if there are too few."""
    rank = int(np.ceil((len(before) + 1) * (1 - alpha) - 1e-9))
    return float(np.sort(before)[rank - 1]) if rank <= len(before) else np.inf


def _activity_edges(model: Model, by: str | None, n_groups: int) -> npt.NDArray[np.int64]:
    """Return the numbers of training ratings at which the next group of users begins."""
    if by is None:
        return np.empty(0, np.int64)
    choose("by", by, ["activity"])
    if isinstance(n_groups, bool) or not isinstance(n_groups, (int, np.integer)) or n_groups < 1:
        raise ParameterError(f"n_groups must be a whole number of at least 1, got {n_groups!r}.")
    model._check_fitted()
    activity = np.diff(model.seen_start_)
    each = np.sort(np.repeat(activity, activity))  # every rating counts, so that groups have as many ratings
    n_groups = min(int(n_groups), len(each))  # more would be empty
    at = np.arange(1, n_groups) * len(each) // n_groups
    edges = np.unique(each[at])
    return np.asarray(edges[edges > each[0]])


def _groups(model: Model, user: npt.NDArray[np.int32], known: npt.NDArray[np.bool_], edges: Any) -> Groups:
    """Return the group of each pair; the last, ``len(edges) + 1``, are unknown pairs."""
    group = np.searchsorted(edges, np.diff(model.seen_start_)[user], side="right")
    return np.asarray(np.where(known, group, len(edges) + 1), np.intp)


def _too_few(alpha: float, found: int, group: int | None) -> str:
    least = int(np.ceil(1 / alpha - 1e-9)) - 1
    where = "" if group is None else f" in each group, and group {group + 1} has fewer"
    return (
        f"sets that miss at most {alpha:g} need at least {plural(least, 'rating')} of known users and items{where}: "
        f"got {found:,}. Give more ratings{'' if group is None else ', fewer groups'} or a larger alpha."
    )
