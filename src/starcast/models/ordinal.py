"""Scores tied by their order: one vector per user and item, biases along the scores, averaged over the posterior."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.errors import ParameterError, choose
from starcast.kernels import Side, aligned, empty_aligned, fast, resolve_threads
from starcast.models.ascent import Ascent
from starcast.models.base import Model
from starcast.models.chain import LANES, MOST_SCORES, Chain, State, Ties, fresh_rows, tie_scores
from starcast.models.factorization import check_flag, check_positive, check_whole
from starcast.models.memory import learnt_bytes, shared_bytes
from starcast.models.ranking import Columns, Ranking
from starcast.names import Codes
from starcast.progress import progress_bar
from starcast.ratings import Ratings
from starcast.scale import coarser_advice

Floats = npt.NDArray[np.floating[Any]]

OF = {"users": "user", "items": "item"}
CLIMBS = {"exact": 6, "gradient": 40}  # rounds
VISITS = 20_000_000  # of ratings, by a user and by an item, that draws to be kept are thinned out over
COLD_SEEDS = {"users": 0, "items": 1}  # of the noise of rows that are solved for after the fit
MANY_PAIRS = 4096  # that are worth an order of their own
NEAR = 64  # items whose draws fit into a core's own cache
FLOOR = 1e-6  # share of the table's frequencies in every answer: draws may agree, but nothing is impossible


class OrdinalMF(Model):
    r"""Scores tied by their order, every number drawn from its posterior.

    .. math:: P(s \mid u, i) \propto \pi_s \exp \sum_j B_{sj}\, \eta_j, \qquad
              \eta_j = b_{uj} + c_{ij} + p_u^j \cdot q_i^j

    The columns of *B* are orthogonal polynomials of the score: the first, a line, moves the whole distribution up or
    down; the second, a parabola, makes it narrow or wide; the others shape it. Each user and item has a bias along all
    of them, and factors for the first two. All numbers of a row have a common normal prior, whose mean depends on which
    items a user rated (and which users an item was rated by), and whose covariance is learnt: nothing is to be tuned.

    The fit climbs by Newton's steps, row by row, while the prior is learnt (``n_iters`` rounds); with
    ``update="gradient"`` by many quick steps along the gradient. Then every round draws each row from its posterior
    given all others, by a step of Newton's with noise that is accepted or refused (Metropolis and Hastings), and the
    priors from theirs; the probabilities of the draws are averaged. No step has a learning rate, nothing can diverge.

    Parameters
    ----------
    n_factors : int, default=16
        Length of the vectors along the line.
    n_spread_factors : int, default=4
        Length of those along the parabola.
    n_company : int, default=16
        Features of who rated what, on which the prior's mean depends; 0 for none.
    n_iters : int or None, default=None
        Rounds of climbing. None takes 6, or 40 with ``update="gradient"``, which cost less.
    burn_in : int, default=60
        Rounds of drawing before the first draw that is kept.
    n_draws : int, default=64
        Draws that answers are averaged over; 0 ends the fit after climbing, which is fast and less sure.
    thin : int or None, default=None
        Rounds for each draw that is kept. None takes from 2, for a million ratings, to 8, for few, where rounds cost
        little and draws differ much.
    centering : float, default=0.8
        How near a tie between two scores must be to be settled in favour of the one nearer to the mean, so that the
        mode, which the paper predicts, errs by less: the score with the largest
        :math:`\log p_s - c\,(z_s - \bar z)^2`, on a scale *z* from -1 to 1, shares with those that are likelier.
        0 leaves ties alone.
    update : {"exact", "gradient"}
        How rows climb. With ``n_draws=0`` the gradient is both faster and better: it keeps count of how little is known
        of each number. With draws, which begin where the climb ends, it makes no difference that lasts.
    device : {"cpu", "cuda", "auto"}
        Where rows climb along the gradient, and lists of many users are made: "cuda" needs a GPU and
        ``pip install 'starcast[torch]'``, "auto" takes one if there is one. Draws are made on the CPU.
    random_state : int or None
    n_jobs : int or None
        Threads; None is one a core. The result does not depend on it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    user_draws_, item_draws_ : ndarray of shape (users or items, columns, draws)
        Factors along the line, factors along the parabola, biases.
    user_weights_, item_weights_, user_precision_, item_precision_ : ndarray
        The priors of the draws.
    user_company_, item_company_ : ndarray of shape (users or items, company)
        What a rating of an item adds to the features of its user, and the other way round.
    history_ : ndarray
        Log-posterior of the items' rows after each round; of all rows before it while they follow the gradient.
    n_iter_ : int
        Rounds in all.
    n_factors_ : int
        What ``n_factors`` was; the number of columns does not tell where the factors along the parabola begin.
    base_ : ndarray of shape (scores,)
        :math:`\log \pi` of the fit, which the rows are relative to; ``prior_`` moves on with ``partial_fit``.

    Examples
    --------
    >>> from starcast.planted import make_ratings
    >>> ratings, truth = make_ratings(random_state=0)
    >>> model = OrdinalMF(n_draws=16, burn_in=10, random_state=0).fit(ratings)
    >>> model.user_draws_.shape == (len(ratings.users), 24, 16)
    True
    """

    ROW_COST = 16  # rows are solved for once a draw, several lanes at a time
    MOST_TOUCHED = 0.1  # every row is solved for once a draw: with more, a fit is as fast, and better
    LEARNT: ClassVar[dict[str, str]] = {
        "n_iter_": "",
        "n_factors_": "",
        "base_": "scores",
        "history_": "rounds",
        "user_draws_": "users columns draws",
        "item_draws_": "items columns draws",
        "user_weights_": "draws features columns",
        "item_weights_": "draws features columns",
        "user_precision_": "draws columns columns",
        "item_precision_": "draws columns columns",
        "user_company_": "users company",
        "item_company_": "items company",
    }

    n_iter_: int
    n_factors_: int
    base_: npt.NDArray[np.float32]
    history_: npt.NDArray[np.float64]
    user_draws_: npt.NDArray[np.float32]
    item_draws_: npt.NDArray[np.float32]
    user_weights_: npt.NDArray[np.float32]
    item_weights_: npt.NDArray[np.float32]
    user_precision_: npt.NDArray[np.float32]
    item_precision_: npt.NDArray[np.float32]
    user_company_: npt.NDArray[np.float32]
    item_company_: npt.NDArray[np.float32]

    _P: npt.NDArray[np.float32]  # draws in whole lanes, as the kernels want them
    _Q: npt.NDArray[np.float32]

    def __init__(
        self,
        n_factors: int = 16,
        n_spread_factors: int = 4,
        n_company: int = 16,
        n_iters: int | None = None,
        burn_in: int = 60,
        n_draws: int = 64,
        thin: int | None = None,
        centering: float = 0.8,
        update: str = "exact",
        device: str = "cpu",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.n_spread_factors = n_spread_factors
        self.n_company = n_company
        self.n_iters = n_iters
        self.burn_in = burn_in
        self.n_draws = n_draws
        self.thin = thin
        self.centering = centering
        self.update = update
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_params(self) -> None:
        for name, least in (
            ("n_factors", 0), ("n_spread_factors", 0), ("n_company", 0), ("n_iters", 1), ("burn_in", 0),
            ("n_draws", 0), ("thin", 1),
        ):  # fmt: skip
            if name not in ("thin", "n_iters") or getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least)
        check_positive("centering", self.centering, zero=True)
        choose("update", self.update, ["exact", "gradient"])
        choose("device", self.device, ["cpu", "cuda", "auto"])
        if self.device == "cuda" and self.update == "exact":
            raise ParameterError('device="cuda" needs update="gradient", got update="exact".')
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0, None)
        check_flag("verbose", self.verbose)
        resolve_threads(self.n_jobs)

    def _fit(self, ratings: Ratings) -> None:
        if len(ratings.scores) > MOST_SCORES:
            raise ParameterError(
                f"OrdinalMF takes up to {MOST_SCORES} scores, got {len(ratings.scores)}. "
                f"{coarser_advice(ratings.scores)}"
            )
        self.base_ = np.log(self.prior_).astype(np.float32)
        chain = Chain(ratings, self._ties(), self.n_company, self.random_state, resolve_threads(self.n_jobs))
        n_columns, n_draws = chain.ties.n_columns, max(self.n_draws, 1)
        draws = [empty_aligned((len(rows), n_columns, n_draws)) for rows in chain.rows]
        priors: list[list[tuple[Floats, Floats]]] = [[], []]
        for k, state in enumerate(self._climb_and_draw(chain)):
            for which, (rows, weights, precision) in enumerate(state):
                draws[which][:, :, k] = rows
                priors[which].append((weights, precision))
        for which, name in enumerate(OF.values()):
            setattr(self, f"{name}_draws_", draws[which])
            setattr(self, f"{name}_weights_", np.stack([weights for weights, _ in priors[which]]))
            setattr(self, f"{name}_precision_", np.stack([precision for _, precision in priors[which]]))
        self.user_company_, self.item_company_ = chain.company
        self._index()

    def _climb_and_draw(self, chain: Chain) -> Iterator[State]:
        """Yield the state of the chain at every draw that is kept, or at the summit if there are to be none."""
        n_climbs, thin, total = self._schedule(len(self.seen_items_))
        ascent = Ascent(chain, self.device) if self.update == "gradient" else None
        history: list[float] = []
        with progress_bar("fitting OrdinalMF", self.verbose) as advance:
            for done in range(1, total + 1):
                history.append((ascent or chain).climb() if done <= n_climbs else chain.wander())
                if ascent and done == n_climbs:
                    ascent.land()
                drawn = done - n_climbs - self.burn_in
                if (drawn > 0 and drawn % thin == 0) or (done == total and self.n_draws == 0):
                    yield chain.state()
                advance(done, total)
        self.n_iter_, self.n_factors_, self.history_ = total, self.n_factors, np.array(history)

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        ties = tie_scores(np.full(len(ratings.scores), 1 / len(ratings.scores)), 0, 0)
        ranks = [int(self.n_factors), int(self.n_spread_factors)][: len(ties.ranks)]
        return {
            "columns": sum(ranks) + len(ties.ranks),
            "draws": max(int(self.n_draws), 1),
            "company": int(self.n_company),
            "features": 2 + int(self.n_company),
            "rounds": self._schedule(len(ratings))[-1],
            "width": 4,
        }

    def _memory(self, ratings: Ratings) -> int:
        sizes, n_rows = self._sizes(ratings), len(ratings.users) + len(ratings.items)
        n_numbers = n_rows * sizes["columns"]
        copies = 0 if sizes["draws"] % LANES == 0 else 2 * (sizes["draws"] // LANES + 1) * LANES  # see _in_lanes
        chain = 8 * (4 * n_numbers + n_rows * sizes["features"])
        return learnt_bytes(self, ratings) + 4 * n_numbers * copies + chain + shared_bytes(ratings)

    def _schedule(self, n_ratings: int) -> tuple[int, int, int]:
        """Return the rounds of climbing, the rounds for a draw that is kept, and the rounds in all."""
        thin = self.thin or min(max(VISITS // (self.n_draws * n_ratings or 1), 2), 8)
        n_climbs = self.n_iters or CLIMBS[self.update]
        return n_climbs, thin, n_climbs + (self.burn_in + self.n_draws * thin if self.n_draws else 0)

    def _ties(self) -> Ties:
        return tie_scores(self.prior_, self.n_factors, self.n_spread_factors)._replace(base=np.array(self.base_))

    def _agrees(self) -> bool:
        parts = [getattr(self, f"{of}_{part}_") for of in OF.values() for part in ("draws", "weights", "precision")]
        n_draws, n_features, n_columns = self.item_weights_.shape
        return (
            len(self.scores_) <= MOST_SCORES
            and all(part.dtype == np.float32 for part in [*parts, self.base_])
            and self.item_company_.shape[1] == self.n_company == n_features - 2
            and n_draws == max(self.n_draws, 1)
            and (self.n_factors_, n_columns) == (self.n_factors, self._ties().n_columns)
        )

    def _index_users(self) -> None:
        super()._index_users()
        self._nobody: dict[str, npt.NDArray[np.float32]] = {}
        if hasattr(self, "user_draws_"):  # before a fit there are none
            self._P = _in_lanes(self.user_draws_)

    def _index_items(self) -> None:
        super()._index_items()
        self._nobody = {}
        if hasattr(self, "item_draws_"):
            self._Q = _in_lanes(self.item_draws_)

    def _proba(self, user: Codes, item: Codes) -> Floats:
        return self._ask(self._P, self._Q, user, item)

    def _half_known_proba(self, user: Codes, item: Codes) -> Floats:
        """Return what the known half of pairs says: the other is drawn from what rows without ratings are like."""
        sides = []
        for codes, draws, of in ((user, self._P, "users"), (item, self._Q, "items")):
            some, place = np.unique(np.maximum(codes, 0), return_inverse=True)
            if of not in self._nobody:
                self._nobody[of] = _in_lanes(self._solve_rows(of, NOBODY)[f"{OF[of]}_draws_"])
            sides.append((np.concatenate([draws[some], self._nobody[of]]), np.where(codes >= 0, place, len(some))))
        (P, user_place), (Q, item_place) = sides
        return self._ask(P, Q, user_place.astype(np.int32), item_place.astype(np.int32))

    def _newcomer_proba(self, item: Codes) -> Floats:
        return self._half_known_proba(np.full(len(item), -1, np.int32), item)

    def _ask(self, P: Floats, Q: Floats, user: Codes, item: Codes) -> Floats:
        order = _near_each_other(user, item, len(P), len(Q))
        probs = np.empty((len(user), len(self.scores_)), np.float32)
        fast.ordinal_proba(
            np.ascontiguousarray(user[order]), np.ascontiguousarray(item[order]), P, Q, *self._ties(),
            self._draw_weights(), probs, resolve_threads(self.n_jobs),
        )  # fmt: skip
        answer = np.empty(probs.shape)
        answer[order] = (1 - FLOOR) * probs + FLOOR * self.prior_
        return answer

    def _draw_weights(self) -> npt.NDArray[np.float32]:
        n_draws = self.item_draws_.shape[2]
        weights = np.zeros(self._Q.shape[2], np.float32)
        weights[:n_draws] = 1 / n_draws
        return weights

    def _rank(self, ask: Ranking) -> Columns:
        floor = FLOOR * self.prior_
        return ask.by_draws(self._P, self._Q, *self._ties(), self._draw_weights(), 1 - FLOOR, floor)

    def _table(self, user: Codes, item: Codes) -> Any:
        from starcast.kernels.gpu.device import find_device, to_device  # an extra
        from starcast.kernels.gpu.lists import ordinal_table, settle

        ties, device = self._ties(), find_device()
        P, Q = to_device(self.user_draws_[user], device), to_device(self.item_draws_[item], device)
        base, basis = to_device(ties.base, device), to_device(ties.basis, device)
        prior, scores = (to_device(part.astype(np.float32), device) for part in (self.prior_, self.scores_))
        return settle(ordinal_table(P, Q, base, basis, ties.ranks.tolist(), prior, FLOOR), scores, self.centering)

    def _settle_ties(self, probs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return settle_ties(probs, self.scores_, self.centering, resolve_threads(self.n_jobs))

    def _solves_rows(self) -> bool:
        return True

    def _solve_rows(self, of: str, side: Side, start: Codes | None = None) -> dict[str, Any]:
        name, other = OF[of], "item" if of == "users" else "user"
        company = getattr(self, f"{name}_company_")
        own = np.zeros((len(side.start) - 1, company.shape[1]), np.float32)
        if start is not None:
            own[start >= 0] = company[start[start >= 0]]
        drawn = fresh_rows(
            side, getattr(self, f"{other}_draws_"), getattr(self, f"{other}_company_"),
            getattr(self, f"{name}_weights_"), getattr(self, f"{name}_precision_"), self._ties(),
            resolve_threads(self.n_jobs), seed=COLD_SEEDS[of], is_point=self.n_draws == 0,
        )  # fmt: skip
        return {f"{name}_draws_": drawn, f"{name}_company_": own}


NOBODY = Side(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))  # one row without ratings


def _near_each_other(user: Codes, item: Codes, n_users: int, n_items: int) -> Any:
    """Return an order of pairs in which few rows of draws, kilobytes each, are asked for at a time: some items, with
    one user after the other. A million pairs at random then take half as long."""
    if len(user) < MANY_PAIRS:
        return slice(None)
    _, by_user = _native.group_rows(np.ascontiguousarray(user), n_users)
    _, by_both = _native.group_rows(item[by_user] // NEAR, n_items // NEAR + 1)
    return by_user[by_both]


def settle_ties(
    probs: npt.NDArray[np.float64], scores: npt.NDArray[np.float64], centering: float, n_threads: int = 1
) -> npt.NDArray[np.float64]:
    """Return distributions, one a row, whose near ties are settled in favour of scores near the mean.

    Whoever is likelier than the winner shares with it, and it is ahead of them by a millionth.

    >>> settle_ties(np.array([[0.1, 0.25, 0.31, 0.34]]), np.arange(4.0), 0.8).round(3).tolist()
    [[0.1, 0.25, 0.325, 0.325]]
    >>> settle_ties(np.array([[0.1, 0.2, 0.2, 0.5]]), np.arange(4.0), 0.8).tolist()
    [[0.1, 0.2, 0.2, 0.5]]
    """
    settled = np.array(probs, np.float64, order="C")
    place = 2 * (scores - scores[0]) / (scores[-1] - scores[0]) - 1
    _native.settle_ties(settled, place, centering, n_threads)
    return settled


def _in_lanes(draws: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    missing = -draws.shape[2] % LANES
    return aligned(np.pad(draws, ((0, 0), (0, 0), (0, missing))) if missing else draws)
