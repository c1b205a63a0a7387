"""What every model shares: names, checks, unknown pairs, predictions, recommendations, files."""

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from starcast import modelfile
from starcast.columns import pair_positions
from starcast.distribution import Distribution, check_fraction, kind_of, normalize
from starcast.errors import DataError, DivergenceError, NotFittedError, ParameterError, choose, plural
from starcast.frames import make_aligned_frame, read_columns
from starcast.kernels import Side, resolve_threads
from starcast.models import explanation, growth, memory, ranking
from starcast.models.parameters import Parametrized, check_engine
from starcast.names import Array, Codes, Lookup
from starcast.ratings import Ratings, check_ratings
from starcast.recalibration import recalibrate

Floats = npt.NDArray[np.floating[Any]]

NEWCOMER_SHRINKAGE = 10.0  # ratings that the table's frequencies count for, beside an item's own


class Model(Parametrized):
    """A forecaster of ratings: ``fit(ratings)``, then ``predict_proba(users, items)``.

    Attributes
    ----------
    users_, items_ : ndarray
        Names seen in training.
    scores_ : ndarray
        The scale.
    prior_ : ndarray of shape (scores,)
        Score frequencies of the whole table: the answer for a pair with an unknown user or item.
    seen_start_, seen_items_, seen_scores_ : ndarray
        The ratings by user: those of user *u* stand from ``seen_start_[u]`` to ``seen_start_[u + 1]``, as codes.
    item_counts_ : ndarray of shape (items,)
        How often each item was rated in training.

    Notes
    -----
    Hooks of a subclass: it stores its parameters in ``__init__``, checks them in ``_check_params``, learns in ``_fit``
    and answers in ``_proba``. What it learns it stores in attributes that end in ``_`` and declares in ``LEARNT``,
    attribute to axes, so that a model file can be checked before it is trusted, and rows can be added. Copies of it
    in the layout of kernels are made in ``_index_users`` and ``_index_items``. A subclass that can solve for some rows
    while the others stand still says so in ``_solves_rows`` and does so in ``_solve_rows``; it then has ``fold_in``,
    ``explain`` and a ``partial_fit`` that leaves untouched rows alone. What it learns last, from the rows, it learns
    in ``_finish``. What it says of a user without ratings, if more than the items' frequencies, is ``_newcomer_proba``.
    """

    EXTRA: ClassVar[str | None] = None  # what learning needs beyond the core
    LEARNT: ClassVar[dict[str, str]] = {}
    MOST_TOUCHED: ClassVar[float] = 1.0  # share of the ratings beyond which `partial_fit` learns afresh
    PEAK: ClassVar[int] = 3  # bytes of memory in a fit for each byte that is learnt
    SETTLES: ClassVar[bool] = True  # whether rows that are solved for come to rest, or stop after so many steps
    BASE: ClassVar[dict[str, str]] = {
        "users_": "users", "items_": "items", "scores_": "scores", "prior_": "scores", "seen_start_": "users+1",
        "seen_items_": "ratings", "seen_scores_": "ratings", "item_counts_": "items",
    }  # fmt: skip
    OPTIONAL: ClassVar[dict[str, str]] = {
        "calibration_": "maps scores", "calibration_gain_": "",  # after calibrate
        "item_scores_": "items scores",  # in a file or copy of what fold_in made
    }  # fmt: skip

    users_: Array
    items_: Array
    scores_: npt.NDArray[np.float64]
    titles_: Array | None
    prior_: npt.NDArray[np.float64]
    seen_start_: npt.NDArray[np.int64]
    seen_items_: Codes
    seen_scores_: npt.NDArray[np.int8]
    item_counts_: npt.NDArray[np.int64]
    digest_: str
    item_scores_: npt.NDArray[np.int64]
    calibration_: npt.NDArray[np.float64]
    calibration_gain_: float
    n_left_out: int = 0  # of the ratings that this model was folded in from

    def fit(self, ratings: Any, y: object = None, *, engine: Any = None) -> Self:
        """Learn from the ratings, always afresh, and return self.

        With an engine, "ray" or a :class:`starcast.RayEngine`, many machines do, also from :class:`starcast.Shards`.
        As in scikit-learn, ``fit(X, y)`` takes users and items as the two columns of a frame or an array, and their
        ratings as `y`. A NumPy generator as ``random_state`` draws a seed, which takes its place.

        >>> from starcast import ItemFrequency
        >>> ItemFrequency().fit([["ann", "Heat"], ["bob", "Heat"]], [4, 5]).items_.tolist()
        ['Heat']
        """
        if y is not None:
            ratings = ratings_of_pairs(ratings, y)
        self._draw_seed()
        if engine is not None:
            check_engine(engine).fit(self, ratings)
            return self
        check_ratings(ratings)
        self._check_params()
        self._check_memory(ratings)
        self._forget()
        self._remember(ratings)
        self._index()
        try:
            self._fit(ratings)
        except MemoryError:
            self._forget()
            told = memory.needs(self, ratings)
            raise ParameterError(f"{told} or more, and memory ran out. {memory.advice(self, ratings)}") from None
        except BaseException:  # Ctrl-C too: half a fit is none
            self._forget()
            raise
        return self

    def estimate(self, ratings: Ratings) -> memory.Estimate:
        """Return about how many bytes the model file and the memory of a fit will take, without fitting.

        Returned is a named tuple of `file` and `memory`. A fit that needs more memory than there is raises an error
        before it begins.

        >>> from starcast import OrdinalMF, make_ratings
        >>> print(OrdinalMF().estimate(make_ratings(1000, 500, random_state=0)[0]))
        a file of about 10 MB, about 14 MB of memory for the fit
        """
        check_ratings(ratings)
        self._check_params()
        return memory.estimate(self, ratings)

    def fold_in(self, ratings: Ratings) -> Self:
        """Return a model of the users of `ratings`, known in training or not; this one stays as it is.

        Each user's row solves the problem of the fit with the items fixed. The new model shares all that it has of the
        items, so it costs little. Ratings of items that are unknown are left out; its ``n_left_out`` tells how many. A
        user with no other ratings is unknown to it.
        """
        return growth.fold_in(self, ratings)

    def partial_fit(self, ratings: Ratings) -> Self:
        """Learn new ratings, users and items on top of those of the fit and return self.

        A pair that is rated again takes its new score. Users and items with new ratings are solved for in turn, while
        all others keep their rows. Models that cannot do that, or not as fast, learn afresh from old and new ratings.
        """
        return growth.partial_fit(self, ratings)

    def explain(self, user: object, item: object, n: int = 5) -> Any:
        """Return a frame with the user's ratings that move the forecast for `item` most: item, rating, shift, moved.

        Each of the user's ratings is left out in turn and the user solved for again. `shift` is what the rating adds to
        the mean of the forecast, `direction` its sign ("up", "down", "level"), `moved` the total variation distance
        between the forecasts with and without it. A user's rows without one rating hold a million ratings at most: of
        1,024 ratings all are left out in turn (OrdinalMF: of 256), of 2,000 the 524 that are the least likely (32).
        """
        return explanation.explain(self, user, item, n)

    def predict_proba(self, users: object, items: object) -> Distribution:
        """Return a probability for every score, for each pair of the names in `users` and `items`.

        A lone name stands for as many as the other side has. A pair whose user or item was not seen in training gets
        the score frequencies of the whole table.
        """
        return self._answer(users, items)[0]

    def predict(self, users: object, items: object, threshold: float | None = None, *, point: str = "mode") -> Any:
        """Return a frame with user, item, prediction, reliability and known, one row per pair.

        The prediction is the `point` ("mode", "median" or "mean") of the distribution, and missing where the
        reliability lies below the threshold; `known` is False where user or item was not seen in training. The frame
        is of the kind that `users` or `items` come from, Polars if they come from none; a pandas frame has the index of
        the column, so that it can be assigned to the frame that it was asked with.
        """
        if threshold is not None:
            check_fraction(threshold, "threshold")
        choose("point", point, ["mode", "median", "mean"])
        answer, known, user_names, item_names = self._answer(users, items)
        prediction = answer.point(point)
        if threshold is not None:
            prediction = np.where(answer.keep(threshold), prediction, np.nan)
        columns = {
            "user": user_names,
            "item": item_names,
            "prediction": prediction,
            "reliability": answer.reliability(kind_of(threshold)),
            "known": known,
        }
        return make_aligned_frame(columns, users, items)

    def recommend(
        self,
        users: object = None,
        n: int = 10,
        threshold: float | None = None,
        *,
        exclude_seen: bool = True,
        candidates: object = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """Return a frame with the best `n` items of each user: user, rank, item, prediction, mean, reliability, known,
        title.

        Items are ordered as in the paper, by mode, then by mean. Only those with at least the reliability `threshold`
        are listed, so a list may be shorter than `n`, or empty. The frame is of the kind that `users` or `candidates`
        come from, Polars if they come from none.

        A user that the model does not know, or who has no ratings, gets the list of a newcomer, and `known` is False
        there: OrdinalMF draws such a user from its prior, the other models rank by the score frequencies of each item.

        Parameters
        ----------
        users : names, optional
            One or many; all that were seen in training if not given.
        exclude_seen : bool
            Whether to leave out what a user rated in training.
        candidates : names, optional
            The items to choose from; all if not given. Those that the model does not know are left out, with a
            warning.
        on_progress : callable, optional
            Called with the number of users done and the number of all.
        """
        return ranking.recommend(
            self, users, n, threshold, exclude_seen=exclude_seen, candidates=candidates, on_progress=on_progress
        )

    def titles_for(self, items: Sequence[Any]) -> list[str]:
        """Return what people call the items: their titles where there are some, else their names."""
        self._check_fitted()
        names = [str(item) for item in items]
        if self.titles_ is None or not names:
            return names
        codes = self._item_lookup.codes(items, "items").tolist()
        return [(str(self.titles_[c]) if c >= 0 else "") or name for c, name in zip(codes, names, strict=True)]

    def parse_users(self, texts: Sequence[str]) -> list[Any]:
        """Return users typed as text (on a command line, in a URL) as the type that the users' names have."""
        self._check_fitted()
        return self._user_lookup.parse(texts)

    def parse_items(self, texts: Sequence[str]) -> list[Any]:
        """Return items typed as text as the type that the items' names have."""
        self._check_fitted()
        return self._item_lookup.parse(texts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safe file; :func:`starcast.load` reads it back."""
        self._check_fitted()
        learnt = self._learnt()
        arrays = {name: value for name, value in learnt.items() if isinstance(value, np.ndarray)}
        values = {name: value for name, value in learnt.items() if name not in arrays}
        wild = [name for name, value in arrays.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
        if wild:
            raise DivergenceError(f"a model that diverged cannot be saved: {', '.join(wild)} must be finite.")
        meta = {"model": type(self).__name__, "params": self.get_params(), "learnt": values}
        modelfile.write(path, meta, arrays)

    def _repr_html_(self) -> str:
        from starcast.html import model_html, scale

        changed = self._changed_params()
        params = [(name, repr(value), name in changed) for name, value in self.get_params().items()]
        fitted: list[str] = []
        if self.is_fitted:
            counts = {"rating": self.seen_items_, "user": self.users_, "item": self.items_}
            fitted = ["fitted", *(plural(len(names), noun) for noun, names in counts.items())]
            fitted.append(scale(self.scores_.tolist()))
            fitted.append("calibrated" if hasattr(self, "calibration_") else "not calibrated")
        return model_html(type(self).__name__, params, fitted)

    def __getstate__(self) -> dict[str, Any]:
        """Return parameters and what was learnt; look-ups and the kernels' copies are made anew where it arrives."""
        return self.get_params() | self._learnt() | {"n_left_out": self.n_left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.is_fitted:
            self._index()

    # Hooks of a subclass.

    def _check_params(self) -> None:
        """Raise ParameterError for a parameter that cannot be."""

    def _fit(self, ratings: Ratings) -> None:
        raise NotImplementedError

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        """Return the lengths of the axes in ``LEARNT`` that the parameters decide, and `width`, the bytes a number."""
        return {}

    def _memory(self, ratings: Ratings) -> int | float:
        """Return about how many bytes of memory a fit takes at its peak."""
        return self.PEAK * memory.learnt_bytes(self, ratings) + memory.shared_bytes(ratings)

    def _check_memory(self, ratings: Ratings) -> None:
        memory.check_memory(self, ratings)

    def _proba(self, user: Codes, item: Codes) -> Floats:
        """Return the probabilities of known pairs, shape (pairs, scores)."""
        raise NotImplementedError

    def _settle_ties(self, probs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the probabilities with the last say on which score is ahead, after calibration."""
        return probs

    def _rank(self, ask: ranking.Ranking) -> ranking.Columns | None:
        """Return the lists that are asked for; None where all answers must be made first."""
        return None

    def _table(self, user: Codes, item: Codes) -> Any:
        """Return the probabilities of all pairs of some users and items on the GPU, (scores, users, items), or None."""
        return None

    def _half_known_proba(self, user: Codes, item: Codes) -> Floats:
        """Return the probabilities of pairs of which one half is unknown, its code -1."""
        return np.tile(self.prior_, (len(user), 1))

    def _newcomer_proba(self, item: Codes) -> Floats:
        r"""Return the probabilities of known items for a user without ratings: here the score frequencies of each item,
        shrunk towards those of the table, :math:`(n_{is} + \kappa \pi_s) / (n_i + \kappa)`."""
        counts = self._count_item_scores()
        if counts is None:
            return np.tile(self.prior_, (len(item), 1))
        weights = counts[item] + NEWCOMER_SHRINKAGE * self.prior_
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _count_item_scores(self) -> npt.NDArray[np.int64] | None:
        """Return how often each item got each score in training; None where a file of an earlier version does not
        tell."""
        if hasattr(self, "item_scores_"):
            return self.item_scores_
        items, scores = self._item_ratings
        if scores is None or not np.array_equal(np.bincount(items, minlength=len(self.items_)), self.item_counts_):
            return None
        shape = len(self.items_), len(self.scores_)
        return np.bincount(items.astype(np.int64) * shape[1] + scores, minlength=shape[0] * shape[1]).reshape(shape)

    def _learnt(self) -> dict[str, Any]:
        """Return what a file or a copy of the model holds beside its parameters."""
        learnt = {name: value for name, value in vars(self).items() if name.endswith("_")}
        if self.is_fitted and self._item_ratings[0] is not self.seen_items_:  # fold_in made it: its items know more
            counts = self._count_item_scores()
            learnt |= {} if counts is None else {"item_scores_": counts}
        return learnt

    def _index_users(self) -> None:
        """Prepare the look-up of users and whatever `_proba` wants of their rows; runs once these are there or new."""
        self._user_lookup = Lookup(self.users_)
        self._user_known = np.diff(self.seen_start_) > 0

    def _index_items(self) -> None:
        """Prepare the same of the items."""
        self._item_lookup = Lookup(self.items_)
        self._item_known = self.item_counts_ > 0
        self._item_ratings = self.seen_items_, getattr(self, "seen_scores_", None)  # all; fold_in keeps a part only

    def _solves_rows(self) -> bool:
        """Tell whether `_solve_rows` is there, for these parameters."""
        return False

    def _solve_rows(self, of: str, side: Side, start: Codes | None = None) -> dict[str, Array]:
        """Return the rows of some users or items at the optimum of the fit's own objective, the other side as it is.

        `of` is "users" or "items"; `side` holds the ratings of the rows, the codes of the others ascending in each.
        `start`, if given, tells which rows of the model they may go on from (-1: none); a few steps are enough then. A
        row must not depend on those beside it. Returned is an array for each attribute that has the axis `of` in
        ``LEARNT``, in its layout and type.
        """
        raise NotImplementedError

    def _finish(self) -> None:
        """Learn what only the rows allow to be learnt; `partial_fit` calls it too."""

    def _agrees(self) -> bool:
        """Tell whether what was learnt fits the parameters, which a file or set_params may have changed."""
        return True

    # What the doors share.

    @property
    def is_fitted(self) -> bool:
        """Whether the model can answer."""
        return hasattr(self, "users_")

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"{type(self).__name__} is not fitted. Call fit(ratings) first.")
        self._check_params()  # which set_params may have made anything
        if not self._agrees():
            name = type(self).__name__
            raise NotFittedError(f"the parameters of {name} were changed since it was fitted. Call fit(ratings) again.")

    def _remember(self, ratings: Ratings) -> None:
        """Keep what every model keeps of the ratings that it learns from."""
        self.users_, self.items_ = ratings.users, ratings.items
        self.scores_, self.titles_ = ratings.scores, ratings.titles
        self.prior_ = (ratings.counts() + 1) / (len(ratings) + len(ratings.scores))
        self.seen_start_, rows = ratings.by_user()
        self.seen_items_, self.seen_scores_ = ratings.item[rows], ratings.score[rows]
        self.item_counts_ = np.bincount(ratings.item, minlength=len(ratings.items))
        self.digest_ = ratings.digest()

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _index(self) -> None:
        self._index_users()
        self._index_items()

    def _answer(self, users: object, items: object) -> tuple[Distribution, npt.NDArray[np.bool_], Array, Array]:
        self._check_fitted()
        user_names, user = ranking.find_names(self, users, "user")
        item_names, item = ranking.find_names(self, items, "item")
        if len(user) != len(item):
            if 1 not in (len(user), len(item)):
                raise DataError(f"users and items must pair up, got {len(user):,} users and {len(item):,} items.")
            n = max(len(user), len(item)) if min(len(user), len(item)) else 0
            user, user_names = (np.resize(side, n) for side in (user, user_names))
            item, item_names = (np.resize(side, n) for side in (item, item_names))
        known, half = (user >= 0) & (item >= 0), (user >= 0) ^ (item >= 0)
        if known.all() and len(known):
            probs = self._known_proba(user, item)
        else:
            probs = np.tile(self.prior_, (len(user), 1))
            for some, proba in ((known, self._known_proba), (half, self._half_known_proba)):
                if some.any():
                    probs[some] = proba(user[some], item[some])
            normalize(probs, self._n_threads())
        return Distribution.trusted(probs, self.scores_), known, user_names, item_names

    def _known_proba(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        """Return the probabilities of known pairs in double precision, calibrated if the model is."""
        # In place from here on, unless the model returns a view of what it keeps.
        probs = np.require(self._proba(user, item), np.float64, ["C", "W", "O"])
        if hasattr(self, "calibration_"):
            probs = recalibrate(normalize(probs, self._n_threads()), self.calibration_)
        return normalize(self._settle_ties(probs), self._n_threads())

    def _n_threads(self) -> int:
        return resolve_threads(getattr(self, "n_jobs", None))

    def _draw_seed(self) -> None:
        """Let a generator given as random_state draw a seed, so that the model can be saved and fitted again."""
        given = getattr(self, "random_state", None)
        if isinstance(given, np.random.Generator):
            self.set_params(random_state=int(given.integers(2**31)))
        elif isinstance(given, np.random.RandomState):
            self.set_params(random_state=int(given.randint(2**31, dtype=np.int64)))


def ratings_of_pairs(pairs: Any, values: object) -> Ratings:
    """Return ratings from the two columns of a frame or an array, users and items, and the ratings themselves.

    The columns of a frame are found by their names where these are recognised, else the first is the users'.
    """
    if isinstance(pairs, (np.ndarray, list, tuple)):
        array = pairs if isinstance(pairs, np.ndarray) else np.array(pairs, object)
        if array.ndim != 2 or array.shape[1] != 2:
            raise DataError(f"X must have two columns, users and items, got an array of shape {array.shape}.")
        return Ratings.from_arrays(array[:, 0], array[:, 1], values)
    if isinstance(pairs, Ratings):
        raise DataError("fit takes Ratings alone, or pairs X and their ratings y, got Ratings and y.")
    frame = read_columns(pairs)
    found = pair_positions(frame.columns) or ((0, 1) if len(frame.columns) == 2 else None)
    if found is None:
        raise DataError(
            f"X must have two columns, users and items, got {len(frame.columns)}: {', '.join(map(str, frame.columns))}."
        )
    users, items = (frame[:, at].to_native() for at in found)
    return Ratings.from_arrays(users, items, values)
