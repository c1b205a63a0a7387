"""Factorizations with one vector per score for every user and item: ResBeMF, BeMF, DirMF."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast.errors import ParameterError
from starcast.kernels import Side, fast, resolve_threads, strict
from starcast.models.factorization import Factorization
from starcast.models.ranking import Columns, Ranking
from starcast.names import Codes
from starcast.ratings import Ratings
from starcast.scale import coarser_advice

MOST_SCORES = 64  # lanes of the widest fast kernel


class PerScore(Factorization):
    """Base of the models whose users and items have a vector per score.

    Attributes
    ----------
    user_factors_, item_factors_ : ndarray of shape (users or items, planes, scores)
        A plane per factor and, with biases, one more for them; single precision, double if the published program is
        followed.
    base_ : ndarray of shape (scores,)
        What all pairs have in common.
    """

    LEARNT: ClassVar[dict[str, str]] = Factorization.LEARNT | {
        "user_factors_": "users planes scores",
        "item_factors_": "items planes scores",
        "base_": "scores",
    }
    LINK: ClassVar[str]  # what turns a dot product into a weight: "softmax" or "logistic"
    ROW_START: ClassVar[float]  # where rows begin that are solved for alone: the middle of the starting points
    SCORE_BY_SCORE: ClassVar[bool] = True  # the order in which the published program draws starting points

    user_factors_: npt.NDArray[Any]
    item_factors_: npt.NDArray[Any]
    base_: npt.NDArray[np.float32]

    # The same in the layout of the kernels that answer.
    _P: npt.NDArray[Any]
    _Q: npt.NDArray[Any]
    _tiles: dict[str, npt.NDArray[np.float32]]  # what lists are made from; shared with the models that fold_in makes

    def _has_biases(self) -> bool:
        return False

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        strict = self._is_strict()
        return {
            "planes": int(self.n_factors) + self._has_biases(),
            "rounds": 0 if strict else int(self.n_iters),
            "width": 8 if strict else 4,
        }

    def _run(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: Any) -> list[float]:
        check_scores(self, ratings)
        P, Q = self._starting_planes(len(ratings.users), len(ratings.items), len(ratings.scores))
        self._P, self._Q = pack(P), pack(Q)
        self._base = self._starting_base(ratings)
        history = self._rounds(ratings, users, items, n_iters, on_round)
        self.user_factors_, self.item_factors_ = unpack(self._P, P.shape), unpack(self._Q, Q.shape)
        self.base_ = self._base
        return history

    def _rounds(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: Any) -> list[float]:
        """Move self._P, self._Q and self._base; return the objective after each round."""
        raise NotImplementedError

    def _solve_rows(self, of: str, side: Side, start: Codes | None = None) -> dict[str, npt.NDArray[Any]]:
        name, factors, fixed, others = (
            ("user_factors_", self.user_factors_, self.item_factors_, self._Q)
            if of == "users"
            else ("item_factors_", self.item_factors_, self.user_factors_, self._P)
        )
        most, few = self._row_steps()
        planes = np.full((len(side.start) - 1, *factors.shape[1:]), self.ROW_START, np.float32)
        steps = np.full(len(planes), most, np.int32)
        if start is not None:
            planes[start >= 0] = factors[start[start >= 0]]
            steps[start >= 0] = few
        rows = pack(planes)
        self._settle(side, rows, others, steps, self._row_rates(side, fixed))
        return {name: unpack(rows, planes.shape)}

    def _row_steps(self) -> tuple[int, int]:
        """Return how many steps a row takes that is solved for alone: from the start, and from where it was.

        As many as in the fit: with a regularization that weak, the row would be overfitted where steps end. One that
        has taken them already takes one more each time.
        """
        return self.n_iter_, 1

    def _row_rates(self, side: Side, others: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the learning rate of each row that is solved for alone."""
        return np.full(len(side.start) - 1, self._learning_rate(), np.float32)

    def _settle(self, side: Side, rows: Any, others: Any, steps: Any, rates: Any) -> None:
        """Move the rows, in the layout of the kernels, by as many steps as each is to take."""
        raise NotImplementedError

    def _starting_planes(self, n_users: int, n_items: int, n_scores: int) -> tuple[Any, Any]:
        """Return starting points of shape (rows, planes, scores)."""
        draw = self._drawer(n_scores)
        return draw(n_users), draw(n_items)

    def _drawer(self, n_scores: int) -> Callable[[int], npt.NDArray[np.float32]]:
        """Return a function that draws the starting points of so many more rows: all users', then all items'."""
        uniform = self._uniform()
        return lambda n: uniform((n, self.n_factors, n_scores)).astype(np.float32)

    def _starting_base(self, ratings: Any) -> npt.NDArray[np.float32]:
        return np.zeros(len(ratings.scores), np.float32)

    def _start_strict(self) -> None:
        n_users, n_items, n_scores = len(self.users_), len(self.items_), len(self.scores_)
        if self.SCORE_BY_SCORE:
            drawn = self._draw((n_scores, n_users, self.n_factors), (n_scores, n_items, self.n_factors))
            self._P, self._Q = (np.ascontiguousarray(points.transpose(1, 0, 2)) for points in drawn)
        else:
            self._P, self._Q = self._draw((n_users, n_scores, self.n_factors), (n_items, n_scores, self.n_factors))

    def _run_strict(self, users: Side, items: Side, n_iters: int, on_round: Any) -> int:
        P, Q = self._P, self._Q
        fit = getattr(strict, f"fit_{type(self).__name__.lower()}")
        diverged: int = fit(
            *users, *items, self.scores_, P, Q, n_iters, self._learning_rate(), self.regularization,
            resolve_threads(self.n_jobs), self.on_divergence == "raise", on_round,
        )  # fmt: skip
        self.user_factors_, self.item_factors_ = (np.ascontiguousarray(F.transpose(0, 2, 1)) for F in (P, Q))
        self.base_ = np.zeros(len(self.scores_), np.float32)
        return diverged

    def _learning_rate(self) -> float:
        return float(self.learning_rate)  # type: ignore[attr-defined]

    def _index_users(self) -> None:
        super()._index_users()
        if hasattr(self, "user_factors_"):  # before a fit there are none
            self._P = _for_kernels(self.user_factors_)

    def _index_items(self) -> None:
        super()._index_items()
        self._tiles = {}
        if hasattr(self, "item_factors_"):
            self._Q, self._base = _for_kernels(self.item_factors_), np.array(self.base_, np.float32)

    def _agrees(self) -> bool:
        planes = self.n_factors + self._has_biases()
        kinds = {self.user_factors_.dtype, self.item_factors_.dtype}
        return self.user_factors_.shape[1] == planes and kinds in ({np.dtype("f4")}, {np.dtype("f8")})

    def _proba(self, user: Codes, item: Codes) -> npt.NDArray[Any]:
        if self.user_factors_.dtype == np.float64:
            probs = np.empty((len(user), len(self.scores_)))
            answer = strict.softmax_probs if self.LINK == "softmax" else strict.logistic_probs
            answer(self._P, self._Q, user, item, probs)
            return probs
        return self._running_proba(user, item)

    def _running_proba(self, user: Codes, item: Codes) -> npt.NDArray[Any]:
        probs = np.empty((len(user), len(self._base)), np.float32)
        pairs = np.ascontiguousarray(user), np.ascontiguousarray(item)
        fast.proba(
            *pairs, self._P, self._Q, self._base, self.n_factors, self._has_biases(), self.LINK, probs,
            resolve_threads(self.n_jobs),
        )  # fmt: skip
        return probs

    def _rank(self, ask: Ranking) -> Columns | None:
        if self.item_factors_.dtype == np.float64:
            return None
        if not self._tiles:
            self._tiles["items"] = fast.make_tiles(np.ascontiguousarray(self.item_factors_))
        return ask.by_scores(
            self._P, self._tiles["items"], len(self.items_), self._base, self.n_factors, self._has_biases(), self.LINK
        )


def check_scores(model: PerScore, ratings: Any) -> None:
    """Raise an error if there are more scores than the kernels have lanes."""
    found = len(ratings.scores)
    if found > MOST_SCORES:
        raise ParameterError(
            f"{type(model).__name__} takes up to {MOST_SCORES} scores in single precision, got {found}. "
            f"{coarser_advice(ratings.scores)}"
        )


def _for_kernels(factors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if factors.dtype == np.float64:
        return np.ascontiguousarray(factors.transpose(0, 2, 1))
    return pack(np.ascontiguousarray(factors, np.float32))


def pack(planes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the factors in the layout of the fast kernels."""
    rows = fast.allocate_rows(*planes.shape)
    fast.pack_rows(planes, rows)
    return rows


def unpack(rows: npt.NDArray[np.float32], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return factors of the shape (rows, planes, scores) from the layout of the fast kernels."""
    planes = np.empty(shape, np.float32)
    fast.unpack_rows(rows, planes)
    return planes
