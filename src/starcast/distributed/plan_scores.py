"""Models with a vector per score on a cluster: BeMF by its gradient, ResBeMF by exact steps."""

from collections.abc import Callable
from typing import Any

import numpy as np

from starcast.distributed.crew import Crew
from starcast.distributed.moves import Moved
from starcast.distributed.plan import Plan, Rows, Shared, add, joined
from starcast.distributed.score_moves import BeMFMoves, ResBeMFMoves
from starcast.distributed.shards import Shards
from starcast.distributed.worker import Ground
from starcast.errors import ParameterError
from starcast.models import BeMF, ResBeMF
from starcast.models.base import Model
from starcast.models.factorization import Factorization
from starcast.models.per_score import PerScore, check_scores
from starcast.models.resbemf import spread_scores


class PerScorePlan(Plan):
    """What the two share."""

    model: PerScore

    def __init__(self, model: PerScore, shards: Shards, seed: int) -> None:
        check_scores(model, shards)
        check_single(model)
        super().__init__(model, shards, seed)

    def drawer(self) -> Callable[[int], Rows]:
        return self.model._drawer(len(self.scores))

    @property
    def n_rounds(self) -> int:
        return self.model.n_iters

    def check(self, history: list[float]) -> None:
        if not np.isfinite(history[-1]):
            raise self.model._divergence(len(history))

    def finish(self, model: Model, crew: Crew, history: list[float]) -> None:
        assert isinstance(model, PerScore)
        model.user_factors_ = joined(crew.rows_of_users(), self.n_users)
        model.item_factors_ = np.array(crew.rows_of_items())
        model.base_ = self.base()
        model.history_ = np.array(history)
        model._check_finite()
        model._index()

    def base(self) -> Rows:
        return np.zeros(len(self.scores), np.float32)


class BeMFPlan(PerScorePlan):
    """Every round is one question: the gradient."""

    NEEDS = 'precision="single"'

    model: BeMF

    def __init__(self, model: BeMF, shards: Shards, seed: int) -> None:
        super().__init__(model, shards, seed)
        self.moves = BeMFMoves(
            n_factors=model.n_factors, values=spread_scores(shards.scores), learning_rate=model.learning_rate,
            regularization=model.regularization, recklessness=model.recklessness,
        )  # fmt: skip

    def move_users(self, at: Ground, *given: Any, **more: Any) -> Any:
        moved = self.moves.whole(at.by_user, at.users, at.packed_items, is_asked=False)
        return self.summary(at, moved, of="users")


class ResBeMFPlan(PerScorePlan):
    """Every round the users move alone, the items by two questions or a few more; then biases are centred."""

    NEEDS = 'update="exact"'

    model: ResBeMF

    def __init__(self, model: ResBeMF, shards: Shards, seed: int) -> None:
        if model.update != "exact":
            raise ParameterError(f'ResBeMF on a cluster needs update="exact", got {model.update!r}.')
        super().__init__(model, shards, seed)
        self.moves = ResBeMFMoves(
            n_factors=model.n_factors, biased=model._has_biases(), regularization=model.regularization,
            bias_regularization=model.bias_regularization, recklessness=model.recklessness,
            values=spread_scores(shards.scores), base=np.array(model._starting_base(shards)),
        )  # fmt: skip

    def summary(self, at: Ground, moved: Moved, of: str) -> Any:
        told = np.array([moved.loglik, moved.penalty])
        if not self.model._has_biases():
            return told
        if of == "users":
            return np.concatenate([told, self.moves.bias_sums(at.users, np.diff(at.by_user.start))])
        first, last = at.own
        rows = at.packed_items if at.is_alone else self.moves.pack(moved.rows)
        return np.concatenate([told, self.moves.bias_sums(rows, at.item_counts[first:last])])

    def shift(self, at: Ground, of: str, shift: Rows) -> None:
        if of == "users":
            self.moves.shift(at.users, np.diff(at.by_user.start), shift)
        else:
            self.moves.shift(at.packed_items, at.item_counts, shift)
            if not at.is_alone:
                at.items = self.moves.unpack(at.packed_items)
        self.moves.base = self.moves.base + shift

    def round(self, crew: Crew, done: int) -> float:
        users, items = add(crew.each("move_users")), add(crew.exchange("move_items"))
        objective = items[0] - items[1] - users[1]
        if self.model._has_biases():
            for of, sums in (("users", users[2:]), ("items", items[2:])):
                shift, gain = self.moves.centre(sums, objective)
                if gain:
                    objective += gain
                    self.moves.base = self.moves.base + shift
                    crew.each("shift", of, shift)
        return float(objective)

    def is_over(self, history: list[float]) -> bool:
        if super().is_over(history):
            return True
        return len(history) > 1 and history[-1] - history[-2] <= self.model.tolerance * abs(history[-1])

    def shared(self) -> Shared:
        return {"base": np.array(self.moves.base)}

    def resume(self, shared: Shared) -> None:
        self.moves.base = np.array(shared["base"])

    def base(self) -> Rows:
        return np.array(self.moves.base)


def check_single(model: Factorization) -> None:
    """Raise an error if the model wants what only one machine can do."""
    if model._is_strict():
        raise ParameterError(f"{type(model).__name__} on a cluster needs single precision, got the published program.")
    if model.early_stopping:
        raise ParameterError("early_stopping must be False on a cluster, got True. Find n_iters on a sample.")
