"""PMF and BiasedMF on a cluster: users and items in turn solve their least squares."""

from collections.abc import Callable
from typing import Any

import numpy as np

from starcast.distributed.crew import Crew
from starcast.distributed.plan import Plan, add, joined
from starcast.distributed.plan_scores import check_single
from starcast.distributed.point_moves import PointMoves
from starcast.distributed.shards import Shards
from starcast.errors import ParameterError
from starcast.models.base import Model
from starcast.models.point import PointFactorization, mean_rating


class PointPlan(Plan):
    """Every round is one question: the sums of the normal equations."""

    NEEDS = 'update="exact"'

    model: PointFactorization

    def __init__(self, model: PointFactorization, shards: Shards, seed: int) -> None:
        check_single(model)
        if model.update != "exact":
            raise ParameterError(
                f'{type(model).__name__} on a cluster needs update="exact", got {model.update!r}: steps rating by '
                "rating cannot be added up."
            )
        super().__init__(model, shards, seed)
        self.mean = mean_rating(shards.counts, shards.scores) if model.BIASED else 0.0
        self.moves = PointMoves(
            n_factors=model.n_factors, biased=model.BIASED, regularization=model.regularization,
            values=shards.scores.astype(np.float32), mean=self.mean,
        )  # fmt: skip

    def drawer(self) -> Callable[[int], Any]:
        return self.model._drawer()

    @property
    def n_rounds(self) -> int:
        return self.model.n_iters

    def round(self, crew: Crew, done: int) -> float:
        users, items = add(crew.each("move_users")), add(crew.exchange("move_items"))
        return -float(-items[0] + users[1] + items[1])

    def check(self, history: list[float]) -> None:
        if not np.isfinite(history[-1]):
            raise self.model._divergence(len(history))

    def finish(self, model: Model, crew: Crew, history: list[float]) -> None:
        assert isinstance(model, PointFactorization)
        model.user_factors_ = joined(crew.rows_of_users(), self.n_users)
        model.item_factors_ = np.array(crew.rows_of_items())
        model.mean_, model.history_ = self.mean, np.array(history)
        model._check_finite()
        model._finish()
        model._index()
