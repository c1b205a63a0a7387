"""Restricted Bernoulli Matrix Factorization: the paper's model, by its likelihood's own gradient and as published."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.errors import ParameterError, choose
from starcast.kernels import Side, fast, resolve_threads, wants_gpu
from starcast.models.factorization import check_flag, check_positive, check_recklessness, check_whole
from starcast.models.per_score import PerScore, check_scores
from starcast.names import Codes
from starcast.ratings import Ratings


class ResBeMF(PerScore):
    r"""One factorization per score, tied into a distribution by a softmax.

    .. math:: P(s \mid u, i) = \frac{\exp x_s}{\sum_t \exp x_t}, \qquad x_s = P_u^s \cdot Q_i^s + b_s + b_{us} + b_{is}

    The factors and biases maximise the log-likelihood of the ratings minus
    :math:`\tfrac{\lambda}{2}\sum \lVert P \rVert^2 + \lVert Q \rVert^2` (and likewise for the biases).

    ``update="exact"`` follows the true gradient: every row in turn takes Newton steps that are halved until they gain,
    so the objective never falls, nothing diverges and no learning rate is needed. ``update="gradient"`` climbs the same
    objective with steps along its gradient, which have momentum and are as long as the curvature that a row is likely
    to have allows; a round takes a fraction of the time, the fit more rounds, and there is no learning rate either.
    ``update="paper"`` is Algorithm 1 as published, in double precision and without biases: each round adds

    .. math:: \Delta P_u^s = \eta \sum_{i \in R_u} \bigl[(1[r_{ui} = s] - \sigma_{r_{ui}})\, Q_i^s - \gamma P_u^s\bigr]

    with :math:`\sigma_{r_{ui}}` the probability of the rating that was given, for every *s*, which is not the gradient
    of the likelihood, and may diverge.

    Parameters
    ----------
    n_factors : int, default=8
        Length of each vector; 0 leaves the biases alone.
    n_iters : int, default=50
        Most rounds.
    regularization : float, default=10.0
        :math:`\lambda`, once per vector; with ``update="paper"`` it is :math:`\gamma`, once per rating (the paper's
        grid: 0.01 to 0.2).
    bias_regularization : float, default=2.0
        :math:`\lambda` of the biases.
    biases : bool, default=True
        Whether users and items have a bias per score.
    recklessness : float, default=0.0
        Above 0 the variance of every predicted distribution is penalised, which makes the model bold; below 0 it is
        rewarded, which makes it cautious. The variance is that on a scale from -1 to 1. Below -1 the widest
        distribution, half at either end of the scale, would win over the ratings.
    update : {"exact", "gradient", "paper"}
    learning_rate : float, default=0.001
        :math:`\eta` of ``update="paper"``.
    tolerance : float, default=1e-4
        The fit ends when a round gains less than this share of the objective.
    early_stopping : bool, default=False
        Whether to find the number of rounds on a tenth of the ratings first.
    generator : {"numpy", "java"}
        What draws the starting points; "java" is the paper's.
    on_divergence : {"raise", "keep"}
        With ``update="paper"``: whether numbers that ran away are an error, or kept as the published program does.
    device : {"cpu", "cuda", "auto"}
        Where the rounds of "gradient" and "paper" run, and long lists of questions are answered: "cuda" needs a GPU and
        ``pip install 'starcast[torch]'``, "auto" takes one if there is one. Results agree up to rounding.
    random_state : int or None
    n_jobs : int or None
        Threads; None is one a core. The result does not depend on it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    user_factors_, item_factors_ : ndarray of shape (users or items, planes, scores)
    base_ : ndarray of shape (scores,)
    n_iter_ : int
    history_ : ndarray
        The objective after each round; with ``update="gradient"`` after the users of the round have moved.

    Examples
    --------
    >>> from starcast.planted import make_ratings
    >>> ratings, truth = make_ratings(random_state=0)
    >>> model = ResBeMF(random_state=0).fit(ratings)
    >>> all(np.diff(model.history_) > 0)
    True
    """

    LINK = "softmax"
    ROW_START = 0.0
    SCORE_BY_SCORE = False

    def __init__(
        self,
        n_factors: int = 8,
        n_iters: int = 50,
        regularization: float = 10.0,
        bias_regularization: float = 2.0,
        biases: bool = True,
        recklessness: float = 0.0,
        update: str = "exact",
        learning_rate: float = 0.001,
        tolerance: float = 1e-4,
        early_stopping: bool = False,
        generator: str = "numpy",
        on_divergence: str = "raise",
        device: str = "cpu",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.n_iters = n_iters
        self.regularization = regularization
        self.bias_regularization = bias_regularization
        self.biases = biases
        self.recklessness = recklessness
        self.update = update
        self.learning_rate = learning_rate
        self.tolerance = tolerance
        self.early_stopping = early_stopping
        self.generator = generator
        self.on_divergence = on_divergence
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_params(self) -> None:
        check_flag("biases", self.biases)
        super()._check_params()
        choose("update", self.update, ["exact", "gradient", "paper"])
        check_positive("bias_regularization", self.bias_regularization, zero=True)
        check_positive("learning_rate", self.learning_rate)
        check_positive("tolerance", self.tolerance, zero=True)
        check_recklessness(self.recklessness)
        if self.update == "paper" and self.recklessness != 0:
            raise ParameterError(
                f'recklessness needs update="exact" or "gradient", got {self.recklessness!r} with update="paper".'
            )

        choose("device", self.device, ["cpu", "cuda", "auto"])
        if self.device == "cuda" and self.update == "exact":
            raise ParameterError('device="cuda" needs update="gradient" or "paper", got update="exact".')

    def _check_factors(self) -> None:
        check_whole("n_factors", self.n_factors, 0 if self._has_biases() else 1)

    def _has_biases(self) -> bool:
        return bool(self.biases) and self.update != "paper"

    def _is_strict(self) -> bool:
        return self.update == "paper"

    def _drawer(self, n_scores: int) -> Callable[[int], npt.NDArray[np.float32]]:
        """Draw small normal factors, so that no score is ahead at the start, and biases of zero."""
        rng, spread = np.random.default_rng(self.random_state), 0.3 / np.sqrt(max(self.n_factors, 1))

        def draw(n: int) -> npt.NDArray[np.float32]:
            rows = np.zeros((n, self.n_factors + self._has_biases(), n_scores), np.float32)
            rows[:, : self.n_factors] = rng.normal(0, spread, (n, self.n_factors, n_scores))
            return rows

        return draw

    def _starting_base(self, ratings: Any) -> npt.NDArray[np.float32]:
        return np.log(self.prior_).astype(np.float32) if self._has_biases() else super()._starting_base(ratings)

    def _on_gpu(self) -> bool:
        return self.update != "exact" and wants_gpu(self.device)

    def _sides(self, ratings: Ratings) -> tuple[Any, Any]:
        if not self._on_gpu():
            return super()._sides(ratings)
        from starcast.kernels.gpu.device import cut_ratings, find_device  # an extra

        return cut_ratings(ratings, find_device())

    def _run(self, ratings: Ratings, users: Any, items: Any, n_iters: int, on_round: Any) -> list[float]:
        if not self._on_gpu():
            return super()._run(ratings, users, items, n_iters, on_round)
        from starcast.kernels.gpu.climb import Climb  # an extra

        check_scores(self, ratings)
        planes = self._starting_planes(len(ratings.users), len(ratings.items), len(ratings.scores))
        self._climb = Climb(
            (users, items), planes, self._starting_base(ratings), spread_scores(ratings.scores),
            curvature_weights(self.prior_), biased=self._has_biases(), regularization=self.regularization,
            bias_regularization=self.bias_regularization, recklessness=self.recklessness,
        )  # fmt: skip
        try:
            history = self._climb.run(n_iters, self.tolerance, on_round)
            self.user_factors_, self.item_factors_, self.base_ = self._climb.state()
        finally:
            del self._climb
        self._index()
        return history

    def _rounds(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: Any) -> list[float]:
        rows = (users, items, self._P, self._Q, self._base, spread_scores(ratings.scores))
        options: dict[str, Any] = {
            "n_factors": self.n_factors, "biased": self._has_biases(), "regularization": self.regularization,
            "bias_regularization": self.bias_regularization, "recklessness": self.recklessness, "n_rounds": n_iters,
            "tolerance": self.tolerance, "n_threads": resolve_threads(self.n_jobs), "callback": on_round,
        }  # fmt: skip
        if self.update == "gradient":
            return fast.fit_resbemf_gradient(*rows, weights=curvature_weights(self.prior_), **options)
        return fast.fit_resbemf_exact(*rows, **options)

    def _run_strict(self, users: Any, items: Any, n_iters: int, on_round: Any) -> int:
        if not self._on_gpu():
            return super()._run_strict(users, items, n_iters, on_round)
        from starcast.kernels.gpu.published import Crowd  # an extra

        planes = self._P.transpose(0, 2, 1), self._Q.transpose(0, 2, 1)
        crowd = Crowd((users, items), planes, [self._learning_rate()], [self.regularization])
        for done in range(n_iters):
            crowd.run(1)
            on_round(done)
        self.user_factors_, self.item_factors_ = crowd.planes(0)
        self._P, self._Q = (
            np.ascontiguousarray(F.transpose(0, 2, 1)) for F in (self.user_factors_, self.item_factors_)
        )
        self.base_ = np.zeros(len(self.scores_), np.float32)
        return n_iters if crowd.diverged()[0] else -1

    def _running_proba(self, user: Codes, item: Codes) -> npt.NDArray[Any]:
        return self._climb.proba(user, item) if hasattr(self, "_climb") else super()._running_proba(user, item)

    def _table(self, user: Codes, item: Codes) -> Any:
        from starcast.kernels.gpu.device import find_device, to_device  # an extra
        from starcast.kernels.gpu.lists import softmax_table

        rows = self.user_factors_[user], self.item_factors_[item], self.base_.astype(self.item_factors_.dtype)
        return softmax_table(*(to_device(part, find_device()) for part in rows), biased=self._has_biases())

    def _row_steps(self) -> tuple[int, int]:
        return 100, 10  # at most; with twenty ratings, a row comes to rest after about thirty

    def _settle(self, side: Side, rows: Any, others: Any, steps: Any, rates: Any) -> None:
        fast.solve_rows(
            "resbemf", side, rows, others, self._base, spread_scores(self.scores_), steps, rates,
            self.n_factors, self._has_biases(), regularization=self.regularization,
            bias_regularization=self.bias_regularization, recklessness=self.recklessness,
            n_threads=resolve_threads(self.n_jobs),
        )  # fmt: skip


def spread_scores(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the scores mapped to -1 … 1, on which recklessness takes the variance."""
    low, high = scores[0], scores[-1]
    return np.asarray(2 * (scores - low) / (high - low) - 1, np.float32)


def curvature_weights(prior: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    r"""Return the curvature of the log-likelihood by each score's logit, where scores are as likely as in the table.

    .. math:: w_s = \frac{d}{d-1}\, \pi_s (1 - \pi_s)

    >>> curvature_weights(np.array([0.5, 0.5])).tolist()
    [0.5, 0.5]
    """
    d = len(prior)
    return np.asarray(prior * (1 - prior) * d / (d - 1), np.float32)
