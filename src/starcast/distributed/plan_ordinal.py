"""OrdinalMF on a cluster: company, climb and draws, with the random numbers of one machine."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast.distributed.crew import Crew
from starcast.distributed.moves import Ask, Moved, Part, Units
from starcast.distributed.ordinal_moves import OrdinalMoves
from starcast.distributed.plan import Plan, Rows, Shared, add, draw_between, joined
from starcast.distributed.shards import Shards
from starcast.distributed.worker import Ground
from starcast.errors import ParameterError
from starcast.kernels import aligned
from starcast.models import OrdinalMF
from starcast.models.base import Model
from starcast.models.chain import MOST_SCORES
from starcast.models.company import (
    EXTRA,
    FINE,
    FINEST,
    TURNS,
    features_of,
    gather,
    load,
    random_columns,
    scale_of,
    singular_values,
    straighten,
)
from starcast.models.hierarchy import SummedHierarchy
from starcast.models.tall import STEP, cross, times
from starcast.scale import coarser_advice

Floats = npt.NDArray[np.float64]
Numbers = tuple[Floats, Floats]  # weights and precision of a prior

SIDES = ("users", "items")


class OrdinalPlan(Plan):
    """The driver has the priors and the generator; workers have rows and features.

    Random numbers are those of one machine: every worker draws for all rows and keeps what belongs to its own. So are
    sums: none rounds, and it does not matter where its terms lie.
    """

    NEEDS = 'update="exact"'

    model: OrdinalMF
    _priors: dict[str, SummedHierarchy]

    def __init__(self, model: OrdinalMF, shards: Shards, seed: int) -> None:
        if model.update != "exact":
            raise ParameterError(f'OrdinalMF on a cluster needs update="exact", got {model.update!r}.')
        if len(shards.scores) > MOST_SCORES:
            raise ParameterError(
                f"OrdinalMF takes up to {MOST_SCORES} scores, got {len(shards.scores)}. {coarser_advice(shards.scores)}"
            )
        super().__init__(model, shards, seed)
        model.base_ = np.log(model.prior_).astype(np.float32)
        self.moves = OrdinalMoves(model._ties())
        self._n_climbs, self._thin, self._n_rounds = model._schedule(len(model.seen_items_))
        self._width = min(model.n_company + EXTRA, self.n_users, self.n_items) if model.n_company else 0
        self._longest = {"users": int(shards.user_counts.max()), "items": int(shards.item_counts.max())}
        self._sums: dict[str, Numbers] = {}
        self._rng: Any = None
        self._kept: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what workers need: no draws."""
        return vars(self) | {"_kept": {}}

    # Company, on a worker: `items` hold one column a feature, in double precision, until there are rows.

    def begin_company(self, at: Ground) -> None:
        """Put random directions in the place of the items' rows."""
        at.more["is_company"] = True
        at.items = random_columns(self.n_items, self._width)

    def gather_users(self, at: Ground) -> Floats:
        """Return the product of who rated what with the items' columns, a row per user of this worker."""
        own, others = scale_of(np.diff(at.by_user.start)), scale_of(at.item_counts)
        at.more["users"] = gather(at.by_user, own, others, at.items, self.moves.n_threads, FINE)
        return cross(at.more["users"], at.more["users"], FINEST)

    def gather_items(self, at: Ground, is_last: bool = False) -> Generator[Ask, Part, Moved]:
        """Sum up the users' columns for the worker's own items; the last time these are their features."""
        first, last = at.own
        part = yield Ask(np.empty((0, 0), np.float32), "company")
        company: Any = scale_of(at.item_counts[first:last])[:, None] * part.loglik
        return Moved(company, 0.0, 0.0, spread=None if is_last else cross(company, company, FINEST))

    def look(self, at: Ground, ask: Ask, first: int) -> Part:
        if ask.want != "company":
            return super().look(at, ask, first)
        last = next(end for begin, end in at.ranges if begin == first and end > begin)
        start = at.by_item.start[first : last + 1]
        some = type(at.by_item)(
            start - start[0], at.by_item.other[start[0] : start[-1]], at.by_item.score[start[0] : start[-1]]
        )
        columns, (weights, step) = at.more["users"], at.more["weights"]
        return Part(gather(some, np.ones(last - first), weights, columns, self.moves.n_threads, step))

    def turn(self, at: Ground, rotation: Floats, lengths: Floats) -> None:
        """Turn the items' columns."""
        at.items = times(at.items, rotation) * lengths

    def load_company(self, at: Ground, sigma: Floats, rotation: Floats) -> None:
        """Keep the loadings of items and of own users, and the users' features."""
        counts = np.diff(at.by_user.start)
        U, V = times(at.more["users"], rotation) / sigma, times(at.items, rotation)
        at.more["user_company"] = load(U, sigma, counts, self.n_items, self.model.n_company)
        at.more["item_company"] = load(V, sigma, at.item_counts, self.n_users, self.model.n_company)

    def weigh_users(self, at: Ground, weights: str) -> None:
        """Choose how much a user counts in sums over users."""
        counts = np.diff(at.by_user.start)
        at.more["weights"] = (scale_of(counts), FINE) if weights == "scaled" else (np.ones(len(counts)), STEP)

    def describe_users(self, at: Ground) -> Floats:
        """Make the users' features and put their loadings where the items' are gathered from; return sums of f f'."""
        counts, loadings = np.diff(at.by_user.start), at.more["item_company"].astype(np.float64)
        company = gather(at.by_user, scale_of(counts), np.ones(self.n_items), loadings)
        at.more["features", "users"] = features_of(counts, company)
        at.more["users"] = at.more["user_company"].astype(np.float64)
        at.items = np.zeros((self.n_items, self.model.n_company))
        return cross(at.more["features", "users"], at.more["features", "users"])

    def describe_items(self, at: Ground) -> Floats:
        """Make the features of own items, now that their company is known; return sums of f f'."""
        first, last = at.own
        features = features_of(at.item_counts[first:last], at.items[first:last])
        at.more["features", "items"] = features
        return cross(features, features)

    def end_company(self, at: Ground) -> None:
        """Drop what was needed on the way."""
        at.more["is_company"] = False
        at.items = None
        del at.more["users"], at.more["weights"]

    # Rows, on a worker.

    def begin(self, at: Ground) -> Any:
        super().begin(at)
        return self._rng.bit_generator.state

    def drawer(self) -> Callable[[int], Rows]:
        self._rng = np.random.default_rng(self.model.random_state)
        n_factors = int(self.moves.ties.ranks.sum())

        def draw(n: int) -> Rows:
            rows = np.zeros((n, self.moves.ties.n_columns), np.float32)
            rows[:, :n_factors] = self._rng.normal(0, 0.3 / np.sqrt(max(n_factors, 1)), (n, n_factors))
            return rows

        return draw

    def pack_items(self, at: Ground) -> None:
        if not at.more["is_company"]:
            super().pack_items(at)

    def move_users(self, at: Ground, prior: Numbers, state: Any = None) -> Any:
        units = Units(self.moves.ties.reach(at.packed_items), self._longest["users"])
        how = self._how(at, "users", prior, state, at.user_range, self.n_users)
        moved = self.moves.whole(at.by_user, at.users, at.packed_items, units, **how)
        return self.summary(at, moved, "users") | {"reach": self.moves.ties.reach(at.users)}

    def move_items(self, at: Ground, prior: Numbers, state: Any, reach: Rows) -> Moved | Generator[Ask, Part, Moved]:
        how = self._how(at, "items", prior, state, at.own, self.n_items)
        how["units"] = Units(reach, self._longest["items"])
        if at.is_alone:
            moved: Moved = self.moves.whole(at.by_item, at.packed_items, at.users, **how)
            return moved
        first, last = at.own
        move: Generator[Ask, Part, Moved] = self.moves.move(at.items[first:last], at.item_counts[first:last], **how)
        return move

    def _how(self, at: Ground, of: str, prior: Numbers, state: Any, own: tuple[int, int], n: int) -> dict[str, Any]:
        """Return what to expect of rows and, for draws, their noise and luck."""
        weights, precision = prior
        how: dict[str, Any] = {
            "means": times(at.more["features", of], weights).astype(np.float32),
            "precision": precision,
        }
        if state is None:
            return how | {"is_spread_wanted": True}
        rng = np.random.default_rng()
        rng.bit_generator.state = state
        stride = self.moves.ties.stride
        how["noise"] = draw_between(lambda k: rng.standard_normal((k, stride), np.float32), n, *own)
        luck = draw_between(lambda k: rng.random(k), n, *own)
        at.more["state"] = rng.bit_generator.state
        return how | {"luck": np.log(1 - luck).astype(np.float32)}

    def summary(self, at: Ground, moved: Moved, of: str) -> Any:
        if at.more["is_company"]:
            return moved.spread if moved.spread is not None else ()
        if of == "users":
            rows = self.moves.unpack(at.users)
        else:
            rows = self.moves.unpack(at.packed_items) if at.is_alone else moved.rows
        numbers, features = rows.astype(np.float64), at.more["features", of]
        return {
            "objective": moved.loglik, "spread": moved.spread, "by_features": cross(features, numbers),
            "by_numbers": cross(numbers, numbers), "state": at.more.get("state"),
        }  # fmt: skip

    def give_company(self, at: Ground, of: str) -> Rows:
        """Return loadings: those of the worker's users, or of all items."""
        loadings: Rows = at.more[f"{of}_company"]
        return loadings

    # On the driver.

    @property
    def n_rounds(self) -> int:
        return self._n_rounds

    def prepare(self, crew: Crew) -> None:
        """Find the company that users and items keep, as ``models/company.py`` does, and the features it makes."""
        crew.each("begin_company")
        crew.each("weigh_users", "scaled")
        sigma, rotation = np.ones(0), np.zeros((self._width, 0))
        if self._width:
            for _ in range(TURNS):
                crew.each("gather_users")
                crew.each("turn", *straighten(add(crew.exchange("gather_items"))))
            sigma, rotation = singular_values(add(crew.each("gather_users")))
        else:
            crew.each("gather_users")
        crew.each("load_company", sigma, rotation)
        grams = {"users": add(crew.each("describe_users"))}
        crew.each("weigh_users", "alike")
        crew.exchange("gather_items", True)
        grams["items"] = add(crew.each("describe_items"))
        ties, n = self.moves.ties, {"users": self.n_users, "items": self.n_items}
        self._priors = {of: SummedHierarchy(n[of], grams[of], ties.n_columns, len(ties.ranks)) for of in SIDES}
        crew.each("end_company")

    def begun(self, told: Any) -> None:
        self._rng = np.random.default_rng()
        self._rng.bit_generator.state = told

    def round(self, crew: Crew, done: int) -> float:
        objective = 0.0
        for of in SIDES:
            objective = self._climb(crew, of) if done < self._n_climbs else self._wander(crew, of)
        drawn = done + 1 - self._n_climbs - self.model.burn_in
        if (drawn > 0 and drawn % self._thin == 0) or (done + 1 == self._n_rounds and not self.n_kept):
            self._keep_draw(crew)
        return objective

    def _climb(self, crew: Crew, of: str) -> float:
        told = self._move(crew, of, None)
        self._priors[of].learn_from(*self._sums[of], add([part["spread"] for part in told]))
        return float(sum(part["objective"] for part in told))

    def _wander(self, crew: Crew, of: str) -> float:
        self._priors[of].draw_from(*self._sums[of], self._rng)
        told = self._move(crew, of, self._rng.bit_generator.state)
        self._rng.bit_generator.state = told[0]["state"]
        return float(sum(part["objective"] for part in told))

    def _move(self, crew: Crew, of: str, state: Any) -> list[Any]:
        prior = (self._priors[of].weights, self._priors[of].precision)
        if of == "users":
            told = crew.each("move_users", prior, state)
            self._reach = np.max([part["reach"] for part in told], axis=0)
        else:
            told = crew.exchange("move_items", prior, state, self._reach)
        self._sums[of] = (add([part["by_features"] for part in told]), add([part["by_numbers"] for part in told]))
        return told

    def _keep_draw(self, crew: Crew) -> None:
        for of, rows in (("users", crew.rows_of_users()), ("items", iter([crew.rows_of_items()]))):
            prior = self._priors[of]
            self._put(of, self.n_kept, rows, prior.weights.astype(np.float32), prior.precision.astype(np.float32))
        self.n_kept += 1

    def _put(self, of: str, at: int, rows: Iterator[Rows], weights: Rows, precision: Rows) -> None:
        n_draws, columns = max(self.model.n_draws, 1), self.moves.ties.n_columns
        if of not in self._kept:
            n = self.n_users if of == "users" else self.n_items
            self._kept[of] = (
                aligned(np.empty((n, columns, n_draws), np.float32)), np.empty((n_draws, *weights.shape), np.float32),
                np.empty((n_draws, *precision.shape), np.float32),
            )  # fmt: skip
        draws, all_weights, all_precision = self._kept[of]
        first = 0
        for part in rows:
            draws[first : first + len(part), :, at] = part
            first += len(part)
        all_weights[at], all_precision[at] = weights, precision

    def shared(self) -> Shared:
        if not self._sums:
            return {}
        shared: Shared = {"n_kept": self.n_kept, "state": self._rng.bit_generator.state}
        for of in SIDES:
            prior, sums = self._priors[of], self._sums[of]
            shared |= {
                f"{of}.weights": prior.weights,
                f"{of}.precision": prior.precision,
                f"{of}.strength": prior.strength,
            }
            shared |= {f"{of}.by_features": sums[0], f"{of}.by_numbers": sums[1]}
        return shared

    def resume(self, shared: Shared) -> None:
        self.n_kept = shared.get("n_kept", 0)
        if not shared or not hasattr(self, "_priors"):
            return
        self.begun(shared["state"])
        for of in SIDES:
            prior = self._priors[of]
            prior.weights, prior.precision = np.array(shared[f"{of}.weights"]), np.array(shared[f"{of}.precision"])
            prior.strength = float(shared[f"{of}.strength"])
            self._sums[of] = (np.array(shared[f"{of}.by_features"]), np.array(shared[f"{of}.by_numbers"]))

    def draw(self, at: int) -> Shared:
        return {
            f"{of}.{name}": np.ascontiguousarray(array[:, :, at] if name == "rows" else array[at])
            for of in SIDES for name, array in zip(("rows", "weights", "precision"), self._kept[of], strict=True)
        }  # fmt: skip

    def put_draw(self, at: int, draw: Shared) -> None:
        for of in SIDES:
            self._put(of, at, iter([draw[f"{of}.rows"]]), draw[f"{of}.weights"], draw[f"{of}.precision"])

    def finish(self, model: Model, crew: Crew, history: list[float]) -> None:
        assert isinstance(model, OrdinalMF)
        model.user_company_ = joined(crew.each("give_company", "user"), self.n_users)
        model.item_company_ = np.array(crew.each("give_company", "item")[0])
        model.user_draws_, model.user_weights_, model.user_precision_ = self._kept["users"]
        model.item_draws_, model.item_weights_, model.item_precision_ = self._kept["items"]
        model.n_iter_, model.n_factors_, model.history_ = len(history), model.n_factors, np.array(history)
        model._index()
