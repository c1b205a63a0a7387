"""What one worker of a cluster does: it keeps a range of users with their ratings, and looks after a range of items."""

import copy
import os
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.distributed.moves import Ask, Moved, Part, add_up
from starcast.kernels import Side, cut_sides

if TYPE_CHECKING:
    from starcast.distributed.plan import Plan

Rows = npt.NDArray[np.float32]
Bounds = tuple[int, int]


@dataclass
class Ground:
    """What a worker stands on: its ratings by user and by item, the rows of its users and those of all items.

    `items` are numbers as models keep them, `users` and `packed_items` are in the layout of the kernels.
    """

    me: int
    user_range: Bounds
    ranges: list[Bounds]  # of items, by who moves them
    n_users: int
    n_items: int
    item_counts: npt.NDArray[np.int64]  # of all items, in all shards
    by_user: Side
    by_item: Side
    users: Any = None
    items: Any = None
    packed_items: Any = None
    more: dict[Any, Any] = field(default_factory=dict)  # what only some plans need

    @property
    def own(self) -> Bounds:
        """The items that this worker moves."""
        return self.ranges[self.me]

    @property
    def is_alone(self) -> bool:
        """Whether nobody else has ratings."""
        return len(self.ranges) == 1


class Worker:
    """The actor. Steps of a fit are the plan's; here is what all fits share: rows come and go, parts are added up."""

    def __init__(self) -> None:
        self._sent = self._received = 0

    def hello(self) -> dict[str, Any]:
        """Say who this is."""
        return {"version": _native.version, "pid": os.getpid()}

    def load(self, plan: "Plan", me: int, ranges: list[Bounds], item_counts: Any, place: Any) -> None:
        """Read the worker's ratings and stand at the beginning of a fit."""
        shard = place.load()
        n_items = len(item_counts)
        begin = shard.begin
        sides = cut_sides(shard.user, shard.item, shard.score, shard.n_users, n_items)
        self._plan = copy.deepcopy(plan)  # what comes from the object store cannot be written to
        self._ground = Ground(me, (begin, begin + shard.n_users), ranges, plan.n_users, n_items, item_counts, *sides)

    def do(self, step: str, *given: Any) -> Any:
        """Take a step of the plan that concerns this worker alone and return what it says."""
        return getattr(self._plan, step)(self._ground, *given)

    def open(self, step: str, *given: Any) -> tuple[Any, Any]:
        """Begin to move the worker's own range of items; return (None, what to ask of all) or (summary, new rows)."""
        move = getattr(self._plan, step)(self._ground, *given)
        if isinstance(move, Moved):  # nobody to ask
            return self._plan.summary(self._ground, move, "items"), None
        self._move: Generator[Ask, Part, Moved] = move
        return self._go_on(None)

    def look(self, owners: list[int], *asks: Ask) -> Any:
        """Return what this worker's ratings add to the sums that the owners ask for, a part for each."""
        parts = []
        for owner, ask in zip(owners, asks, strict=True):
            first, last = self._ground.ranges[owner]
            known = ask if ask.rows is not None else replace(ask, rows=self._ground.items[first:last])  # everybody's
            part = self._plan.look(self._ground, known, first)
            if owner != self._ground.me:
                self._received += _nbytes(ask)
                self._sent += _nbytes(part)
            parts.append(part)
        return parts if len(parts) > 1 else parts[0]

    def tell(self, *parts: Part) -> tuple[Any, Any]:
        """Take the parts of all workers, in their order; return as :meth:`open` does."""
        return self._go_on(add_up(parts))

    def take(self, owners: list[int], *rows: Rows) -> None:
        """Take the new rows of the items from those who moved them."""
        for owner, new in zip(owners, rows, strict=True):
            first, last = self._ground.ranges[owner]
            self._ground.items[first:last] = new
            self._received += 0 if owner == self._ground.me else new.nbytes
        self._plan.pack_items(self._ground)

    def traffic(self) -> tuple[int, int]:
        """Return the bytes sent to and received from other workers since this was asked last."""
        told = self._sent, self._received
        self._sent = self._received = 0
        return told

    def _go_on(self, part: Part | None) -> tuple[Any, Any]:
        try:
            ask = next(self._move) if part is None else self._move.send(part)
        except StopIteration as end:
            return self._plan.summary(self._ground, end.value, "items"), end.value.rows
        # At first all ask about the rows that everybody has.
        return None, _without_rows(ask) if part is None and ask.some is None else ask


def _without_rows(ask: Ask) -> Ask:
    return replace(ask, rows=None)  # type: ignore[arg-type]  # on its way only: the one who looks puts them back


def _nbytes(message: Ask | Part) -> int:
    """Return the bytes of the arrays in a message."""
    names = ("rows", "some") if isinstance(message, Ask) else ("loglik", "slope", "curve")
    return sum(array.nbytes for array in (getattr(message, name) for name in names) if array is not None)
