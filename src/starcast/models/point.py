"""Factorizations that predict a number, PMF and BiasedMF, and the bell curve that makes it a distribution."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.errors import ParameterError, choose
from starcast.kernels import Side, fast, resolve_threads, strict
from starcast.models.factorization import Factorization, check_positive
from starcast.models.ranking import Columns, Ranking
from starcast.names import Codes
from starcast.ratings import Ratings

CHUNK = 1 << 20  # ratings whose residuals are held at a time
FLOOR = 0.001  # the share of the table's frequencies in a bell
LANES = 8  # the kernel that goes rating by rating wants vectors padded to a multiple of this
WIDE_LANES = 16  # and the one that solves for rows to a multiple of this


class PointFactorization(Factorization):
    r"""Base of the models that predict a number :math:`\hat r` and answer with a bell around it.

    .. math:: P(s) = \Phi\Bigl(\frac{h_s - \hat r}{\sigma}\Bigr) - \Phi\Bigl(\frac{h_{s-1} - \hat r}{\sigma}\Bigr)

    with :math:`h_s` halfway between score *s* and the next, infinite at both ends, and :math:`\sigma` the root mean
    square of the training residuals; one part in a thousand is the table's frequencies, so that no rating is called
    impossible. ``distribution="certain"`` is the paper's convention instead: all probability on the score nearest to
    the prediction, a reliability of 1 everywhere.

    Attributes
    ----------
    user_factors_, item_factors_ : ndarray of shape (users or items, columns)
        The factors; with biases the first column is the bias.
    mean_ : float
        The mean of the training ratings; 0 without biases.
    spread_ : float
        :math:`\sigma`.
    """

    LEARNT: ClassVar[dict[str, str]] = Factorization.LEARNT | {
        "user_factors_": "users columns",
        "item_factors_": "items columns",
        "mean_": "",
        "spread_": "",
    }
    BIASED: ClassVar[bool]

    user_factors_: npt.NDArray[Any]
    item_factors_: npt.NDArray[Any]
    mean_: float
    spread_: float

    _tiles: dict[str, npt.NDArray[np.float32]]  # what lists are made from; shared with the models that fold_in makes

    def __init__(
        self,
        n_factors: int = 8,
        n_iters: int = 50,
        learning_rate: float = 0.01,
        regularization: float = 0.1,
        update: str = "stochastic",
        distribution: str = "normal",
        precision: str = "single",
        early_stopping: bool = False,
        generator: str = "numpy",
        on_divergence: str = "raise",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.n_iters = n_iters
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.update = update
        self.distribution = distribution
        self.precision = precision
        self.early_stopping = early_stopping
        self.generator = generator
        self.on_divergence = on_divergence
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        choose("distribution", self.distribution, ["normal", "certain"])
        choose("precision", self.precision, ["single", "double"])
        choose("update", self.update, ["stochastic", "exact"])
        check_positive("learning_rate", self.learning_rate)
        if self.update == "exact" and self.precision == "double":
            raise ParameterError(
                'update="exact" needs precision="single": the published program goes rating by rating.'
            )

    def _is_strict(self) -> bool:
        return self.precision == "double"

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        strict = self._is_strict()
        return {
            "columns": int(self.n_factors) + self.BIASED,
            "rounds": 0 if strict else int(self.n_iters),
            "width": 8 if strict else 4,
        }

    def _start(self, n_users: int, n_items: int) -> list[npt.NDArray[np.float64]]:
        draw = self._drawer()
        return [draw(n_users), draw(n_items)]

    def _drawer(self) -> Callable[[int], npt.NDArray[np.float64]]:
        """Return a function that draws the starting points of so many more rows: all users', then all items'."""
        uniform, columns = self._uniform(), self.n_factors + self.BIASED
        return lambda n: -1.0 + 2.0 * uniform((n, columns))

    def _run(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: Any) -> list[float]:
        P, Q = self._start(len(ratings.users), len(ratings.items))
        self.mean_ = float(ratings.values.mean()) if self.BIASED else 0.0
        if self.update == "exact":
            self.mean_ = mean_rating(ratings.counts(), ratings.scores) if self.BIASED else 0.0
            return self._alternate(ratings, users, items, n_iters, on_round)
        biases = [np.ascontiguousarray(F[:, 0], np.float32) if self.BIASED else None for F in (P, Q)]
        packed = [_padded(F[:, int(self.BIASED) :]) for F in (P, Q)]

        def on_round_with_factors(iteration: int, objective: float) -> bool:
            self._keep(packed, biases)
            self.spread_ = max(1e-3, float(np.sqrt(max(0.0, -objective) / len(ratings))))
            return bool(on_round(iteration, objective))

        history = fast.fit_point(
            users, items, packed[0], packed[1], biases[0], biases[1], ratings.scores.astype(np.float32),
            self.mean_, self.learning_rate, self.regularization, n_iters, resolve_threads(self.n_jobs),
            on_round_with_factors if self.early_stopping else on_round,
        )  # fmt: skip
        self._keep(packed, biases)
        return history

    def _alternate(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: Any) -> list[float]:
        """Let users and items in turn solve their least squares; return minus the penalised squared error."""
        P, Q = (wide_rows(F) for F in self._start(len(ratings.users), len(ratings.items)))
        columns = self.n_factors + self.BIASED
        how = (
            ratings.scores.astype(np.float32), columns, self.BIASED, self.mean_, self.regularization,
            resolve_threads(self.n_jobs),
        )  # fmt: skip
        history: list[float] = []
        for done in range(n_iters):
            _, user_penalty = fast.pass_squares(users, P, Q, *how)
            loss, item_penalty = fast.pass_squares(items, Q, P, *how)
            history.append(-(loss + user_penalty + item_penalty))
            self.user_factors_, self.item_factors_ = (np.ascontiguousarray(F[:, :columns]) for F in (P, Q))
            self.spread_ = max(1e-3, float(np.sqrt(max(0.0, loss) / len(ratings))))  # for those who look before the end
            if on_round(done, history[-1]):
                break
        return history

    def _keep(self, packed: list[Any], biases: list[Any]) -> None:
        factors = [F[:, : self.n_factors] for F in packed]
        if self.BIASED:
            factors = [np.column_stack([b, F]) for b, F in zip(biases, factors, strict=True)]
        self.user_factors_, self.item_factors_ = (np.ascontiguousarray(F) for F in factors)

    def _start_strict(self) -> None:
        self.user_factors_, self.item_factors_ = self._start(len(self.users_), len(self.items_))

    def _run_strict(self, users: Side, items: Side, n_iters: int, on_round: Any) -> int:
        P, Q = self.user_factors_, self.item_factors_
        fit = getattr(strict, f"fit_{type(self).__name__.lower()}")
        diverged: int = fit(
            *users, *items, self.scores_, P, Q, n_iters, self.learning_rate, self.regularization,
            resolve_threads(self.n_jobs), self.on_divergence == "raise", on_round,
        )  # fmt: skip
        self.mean_ = float(self.scores_[users.score].sum() / len(users.score)) if self.BIASED else 0.0
        return diverged

    def _finish(self) -> None:
        with np.errstate(all="ignore"):  # diverged factors that were asked to be kept
            n, squares = len(self.seen_items_), 0.0
            for begin in range(0, n, CHUNK):
                rows = slice(begin, begin + CHUNK)
                user = np.searchsorted(self.seen_start_, np.arange(begin, min(begin + CHUNK, n)), side="right") - 1
                values = self.values(user.astype(np.int32), self.seen_items_[rows])
                squares += float(((self.scores_[self.seen_scores_[rows]] - values) ** 2).sum())
            # A spread of zero, from a perfect fit, would leave no bell; a hundredth of a step is as good as certain.
            self.spread_ = max(0.01 * float(np.diff(self.scores_).min()), float(np.sqrt(squares / n)))

    def _solve_rows(self, of: str, side: Side, start: Codes | None = None) -> dict[str, npt.NDArray[Any]]:
        r"""Solve :math:`\bigl(\sum_i q_i q_i^\top + \lambda n I\bigr) p = \sum_i e_i q_i`, with *n* ratings in the row.

        That is where steps rating by rating, each with its own :math:`\lambda`, would come to rest. With biases,
        :math:`q_i` begins with 1 and :math:`e_i` is what the mean and the other's bias leave of the rating.
        """
        others, name = (self.item_factors_, "user_factors_") if of == "users" else (self.user_factors_, "item_factors_")
        n, columns = len(side.start) - 1, others.shape[1]
        gram, pull = np.empty((n, columns, columns)), np.empty((n, columns))
        values = self.scores_ - self.mean_
        for row, (begin, end) in enumerate(pairwise(side.start.tolist())):
            q, e = others[side.other[begin:end]].astype(np.float64), values[side.score[begin:end]]
            if self.BIASED:
                e = e - q[:, 0]
                q[:, 0] = 1
            gram[row], pull[row] = q.T @ q, e @ q
        decay = self.regularization * np.diff(side.start)
        decay = decay + 1e-9 * np.trace(gram, axis1=1, axis2=2) + 1e-12  # without it, zero could not be solved
        gram += decay[:, None, None] * np.eye(columns)
        return {name: np.linalg.solve(gram, pull[:, :, None])[:, :, 0].astype(np.float32)}

    def _agrees(self) -> bool:
        return self.user_factors_.shape[1] == self.n_factors + self.BIASED and self.spread_ > 0

    def values(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        """Return the predicted numbers of coded pairs, summed factor by factor as the published program does."""
        values = np.empty(len(user))
        fast.point_values(
            np.ascontiguousarray(user), np.ascontiguousarray(item), self.user_factors_, self.item_factors_, self.BIASED,
            self.mean_, values, resolve_threads(self.n_jobs),
        )  # fmt: skip
        return values

    def _running_proba(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        return self._proba(user, item)

    def _proba(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        values = self.values(user, item)
        if self.distribution == "certain":
            return np.eye(len(self.scores_))[np.searchsorted(self._halfway(), values)]
        return (1 - FLOOR) * _native.bell(values, self._halfway(), self.spread_) + FLOOR * self.prior_

    def _halfway(self) -> npt.NDArray[np.float64]:
        return (self.scores_[1:] + self.scores_[:-1]) / 2

    def _index_items(self) -> None:
        super()._index_items()
        self._tiles = {}

    def _rank(self, ask: Ranking) -> Columns:
        if not self._tiles:
            rough = self.item_factors_.astype(np.float32, copy=False)
            # Both at once, for other threads that may be asking.
            self._tiles.update(items=fast.make_tiles(rough), reach=np.abs(rough).max(axis=0))
        spread = 0.0 if self.distribution == "certain" else self.spread_
        return ask.by_values(
            self.user_factors_, self.item_factors_, self.user_factors_.astype(np.float32, copy=False),
            self._tiles["items"], self._tiles["reach"], self.BIASED, self.mean_, spread, self._halfway(),
            1 - FLOOR, FLOOR * self.prior_,
        )  # fmt: skip


class PMF(PointFactorization):
    r"""Probabilistic Matrix Factorization (Mnih and Salakhutdinov 2007).

    .. math:: \hat r_{ui} = p_u \cdot q_i

    Rating by rating, :math:`p_u \leftarrow p_u + \eta (e\, q_i - \lambda p_u)` with
    :math:`e = r_{ui} - \hat r_{ui}`, for users and then for items. ``update="exact"`` lets users and items in turn be
    where such steps would come to rest, by least squares:

    .. math:: \Bigl(\sum_{i \in R_u} q_i q_i^\top + \lambda n_u I\Bigr)\, p_u = \sum_{i \in R_u} r_{ui}\, q_i

    with :math:`n_u` the ratings of the user; nothing can diverge, and there is no learning rate.

    Parameters
    ----------
    n_factors : int, default=8
    n_iters : int, default=50
    learning_rate : float, default=0.01
        :math:`\eta` (the paper calls it gamma) of ``update="stochastic"``.
    regularization : float, default=0.1
        :math:`\lambda`.
    update : {"stochastic", "exact"}
        Rating by rating, as published, or by least squares.
    distribution : {"normal", "certain"}
        A bell around the prediction, or the paper's convention of a reliability of 1 everywhere.
    precision : {"single", "double"}
        "double" follows the published program to the last bit.
    early_stopping, generator, on_divergence, random_state, n_jobs, verbose
        As in :class:`ResBeMF`.
    """

    BIASED = False


class BiasedMF(PointFactorization):
    r"""Matrix factorization with biases (Koren et al. 2009).

    .. math:: \hat r_{ui} = \mu + b_u + b_i + p_u \cdot q_i

    Rating by rating, with :math:`e = r_{ui} - \hat r_{ui}`: :math:`b_u \leftarrow b_u + \eta (e - \lambda b_u)` and
    :math:`p_u \leftarrow p_u + \eta (e\, q_i - \lambda p_u)`, for users and then for items. ``update="exact"`` solves
    for bias and factors of a row at once, as in :class:`PMF`, with :math:`q_i` beginning with 1 and
    :math:`r_{ui} - \mu - b_i` in the place of the rating.

    Parameters
    ----------
    n_factors, n_iters, learning_rate, regularization, update, distribution, precision
        As in :class:`PMF`.
    early_stopping, generator, on_divergence, random_state, n_jobs, verbose
        As in :class:`ResBeMF`.
    """

    BIASED = True


def mean_rating(counts: npt.NDArray[np.float64], scores: npt.NDArray[np.float64]) -> float:
    """Return the mean of ratings of which so many have each score.

    >>> mean_rating(np.array([1.0, 3.0]), np.array([2.0, 4.0]))
    3.5
    """
    return float(counts @ scores / counts.sum())


def wide_rows(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return rows in single precision with zeros up to the stride of the kernel that solves for them."""
    return _padded(numbers, WIDE_LANES)


def _padded(factors: npt.NDArray[Any], lanes: int = LANES) -> npt.NDArray[np.float32]:
    columns = -(-factors.shape[1] // lanes) * lanes
    padded = np.zeros((len(factors), columns), np.float32)
    padded[:, : factors.shape[1]] = factors
    return padded
