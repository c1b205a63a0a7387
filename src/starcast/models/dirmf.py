"""Dirichlet Matrix Factorization: how often each score would be given, as a whole."""

from typing import Any

import numpy as np

from starcast.errors import choose
from starcast.kernels import Side, fast, resolve_threads
from starcast.models.factorization import check_positive
from starcast.models.per_score import PerScore
from starcast.ratings import Ratings


class DirMF(PerScore):
    r"""The parameters of a Dirichlet distribution, factorized; its mean is the answer (Lara-Cabrera et al. 2022).

    .. math:: P(s \mid u, i) = \frac{a_s}{A}, \qquad a_s = \frac{1}{1 + \exp(-P_u^s \cdot Q_i^s)}, \quad A = \sum_t a_t

    Rating by rating, for users and then for items,

    .. math:: P_u^s \leftarrow P_u^s - \eta \bigl(Q_i^s\, a_s (1 - a_s)
              (\psi(a_s) - \psi(A) - \ln \rho_s) + \gamma P_u^s\bigr)

    with the target :math:`\rho_s = e^r / (d - 1 + e^r)` for the score that was given and :math:`1 / (d - 1 + e^r)` for
    the others. Low ratings have targets that are nearly uniform, by construction.

    Parameters
    ----------
    n_factors : int, default=6
    n_iters : int, default=50
    learning_rate : float, default=0.1
        :math:`\eta`.
    regularization : float, default=0.001
        :math:`\gamma`.
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
        learning_rate: float = 0.1,
        regularization: float = 0.001,
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

    def _is_strict(self) -> bool:
        return self.precision == "double"

    def _rounds(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: Any) -> list[float]:
        return fast.fit_gradient(
            "dirmf", users, items, self._P, self._Q, self._base, ratings.scores.astype(np.float32), self.n_factors,
            learning_rate=self.learning_rate, regularization=self.regularization,
            n_rounds=n_iters, n_threads=resolve_threads(self.n_jobs), callback=on_round,
        )  # fmt: skip

    def _settle(self, side: Side, rows: Any, others: Any, steps: Any, rates: Any) -> None:
        fast.solve_rows(
            "dirmf", side, rows, others, self._base, self.scores_.astype(np.float32), steps, rates, self.n_factors,
            regularization=self.regularization, n_threads=resolve_threads(self.n_jobs),
        )  # fmt: skip
