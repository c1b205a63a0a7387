"""Bernoulli Matrix Factorization: a yes-or-no question for every score."""

from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.errors import ParameterError, choose
from starcast.kernels import Side, fast, resolve_threads
from starcast.models.factorization import check_positive, check_recklessness
from starcast.models.per_score import PerScore
from starcast.models.resbemf import spread_scores
from starcast.ratings import Ratings


class BeMF(PerScore):
    r"""One logistic factorization per score, normalised afterwards (Ortega et al. 2021).

    .. math:: P(s \mid u, i) = \frac{L_s}{\sum_t L_t}, \qquad L_s = \frac{1}{1 + \exp(-U_u^s \cdot V_i^s)}

    Each round adds, for users and then for items,

    .. math:: \Delta U_u^s = \eta \Bigl(\sum_{i \in R_u} (1[r_{ui} = s] - L_s)\, V_i^s - \gamma U_u^s\Bigr)

    Parameters
    ----------
    n_factors : int, default=6
    n_iters : int, default=50
    learning_rate : float, default=0.01
        :math:`\eta`.
    regularization : float, default=0.1
        :math:`\gamma`, once per vector.
    recklessness : float, default=0.0
        Above 0 the variance of every predicted distribution is penalised (bold), below 0 and down to -1 it is
        rewarded (cautious).
    precision : {"single", "double"}
        "double" follows the published program to the last bit.
    early_stopping, generator, on_divergence, random_state, n_jobs, verbose
        As in :class:`ResBeMF`.

    Attributes
    ----------
    user_factors_, item_factors_ : ndarray of shape (users or items, factors, scores)
    n_iter_ : int
    history_ : ndarray
        The log-likelihood met in each round.
    """

    LINK = "logistic"
    ROW_START = 0.5
    SETTLES = False

    def __init__(
        self,
        n_factors: int = 6,
        n_iters: int = 50,
        learning_rate: float = 0.01,
        regularization: float = 0.1,
        recklessness: float = 0.0,
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
        self.recklessness = recklessness
        self.precision = precision
        self.early_stopping = early_stopping
        self.generator = generator
        self.on_divergence = on_divergence
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        choose("precision", self.precision, ["single", "double"])
        check_positive("learning_rate", self.learning_rate)
        check_recklessness(self.recklessness)
        if self.precision == "double" and self.recklessness != 0:
            raise ParameterError(f"recklessness needs single precision, got {self.recklessness!r} with double.")

    def _is_strict(self) -> bool:
        return self.precision == "double"

    def _rounds(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: Any) -> list[float]:
        return fast.fit_gradient(
            "bemf", users, items, self._P, self._Q, self._base, spread_scores(ratings.scores), self.n_factors,
            learning_rate=self.learning_rate, regularization=self.regularization, recklessness=self.recklessness,
            n_rounds=n_iters, n_threads=resolve_threads(self.n_jobs), callback=on_round,
        )  # fmt: skip

    def _row_rates(self, side: Side, others: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        r"""Return a rate at which the row's own objective rises with each step.

        Its curvature is at most :math:`\gamma + \tfrac{1}{4} \sum_i \lVert V_i^s \rVert^2`. In a fit both sides give
        way to steps that are too long; alone, the row of an item with a thousand ratings would swing to and fro.
        """
        length = np.einsum("iks,iks->is", others, others)[side.other]
        total = np.concatenate([np.zeros((1, length.shape[1])), np.cumsum(length, axis=0, dtype=np.float64)])
        bend = self.regularization + 0.25 * np.diff(total[side.start], axis=0).max(axis=1)
        return np.asarray(np.minimum(self.learning_rate, 1 / np.maximum(bend, 1e-9)), np.float32)

    def _settle(self, side: Side, rows: Any, others: Any, steps: Any, rates: Any) -> None:
        fast.solve_rows(
            "bemf", side, rows, others, self._base, spread_scores(self.scores_), steps, rates, self.n_factors,
            regularization=self.regularization, recklessness=self.recklessness,
            n_threads=resolve_threads(self.n_jobs),
        )  # fmt: skip
