"""How a model is fitted by many: which steps a worker takes alone, what it is asked, what the driver adds up."""

from collections.abc import Callable, Generator, Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast.distributed.crew import Crew
from starcast.distributed.moves import Ask, Moved, Part
from starcast.distributed.shards import Shards
from starcast.distributed.worker import Ground
from starcast.models.base import Model

Rows = npt.NDArray[np.float32]
Shared = dict[str, Any]  # plain values and arrays

CHUNK = 1 << 16  # rows that are drawn at a time


class Plan:
    """The rounds of a fit. A plan travels to every worker; what changes from round to round is in :meth:`shared`.

    Methods that take the ground `at` run on a worker, those that take the crew on the driver.
    """

    NEEDS: ClassVar[str] = ""  # parameters without which there is no such plan

    moves: Any  # what moves rows of this model

    def __init__(self, model: Model, shards: Shards, seed: int) -> None:
        self.model = model.clone().set_params(random_state=seed, verbose=False)
        self.n_users, self.n_items, self.scores = len(shards.users), len(shards.items), shards.scores

    # On a worker.

    def stand(self, at: Ground, n_threads: int, shared: Shared) -> None:
        """Know what the driver knows."""
        self.moves.n_threads = n_threads
        self.resume(shared)

    def begin(self, at: Ground) -> Any:
        """Put all rows where the fit on one machine begins; return what :meth:`begun` wants to know."""
        draw = self.drawer()
        at.users = self.moves.pack(draw_between(draw, self.n_users, *at.user_range))
        self._put_items(at, draw_between(draw, self.n_items, 0, self.n_items))

    def drawer(self) -> Callable[[int], Rows]:
        """Return a function that draws the starting points of so many more rows."""
        raise NotImplementedError

    def look(self, at: Ground, ask: Ask, first: int) -> Part:
        """Return what this worker's ratings add to what an owner of items, from `first` on, asks for."""
        part: Part = self.moves.look(at.by_item, ask, at.users, first)
        return part

    def move_users(self, at: Ground, *given: Any, **more: Any) -> Any:
        """Move the worker's own users, whose ratings are all here."""
        return self.summary(at, self.moves.whole(at.by_user, at.users, at.packed_items), of="users")

    def move_items(self, at: Ground, *given: Any, **more: Any) -> Moved | Generator[Ask, Part, Moved]:
        """Begin to move the worker's own items; at once, if nobody else has ratings of them."""
        if at.is_alone:
            moved: Moved = self.moves.whole(at.by_item, at.packed_items, at.users)
            return moved
        first, last = at.own
        move: Generator[Ask, Part, Moved] = self.moves.move(at.items[first:last], at.item_counts[first:last])
        return move

    def summary(self, at: Ground, moved: Moved, of: str) -> Any:
        """Return what the driver needs to know of rows that were moved, as an array that can be added up."""
        return np.array([moved.loglik, moved.penalty])

    def pack_items(self, at: Ground) -> None:
        """Prepare the rows of all items, once they are there, for the users' turn."""
        at.packed_items = self.moves.pack(at.items)

    def give_users(self, at: Ground) -> Rows:
        """Return the rows of the worker's users, as numbers."""
        rows: Rows = self.moves.unpack(at.users)
        return rows

    def give_items(self, at: Ground) -> Rows:
        """Return the rows of all items, as numbers."""
        rows: Rows = self.moves.unpack(at.packed_items)
        return rows

    def restore(self, at: Ground, items: Rows, users: Rows) -> None:
        """Put all rows where an earlier round left them."""
        at.users = self.moves.pack(np.array(users))
        self._put_items(at, np.array(items))

    def _put_items(self, at: Ground, numbers: Rows) -> None:
        at.items = numbers
        self.pack_items(at)
        if at.is_alone:
            at.items = None  # nobody asks for them

    # On the driver.

    def prepare(self, crew: Crew) -> None:
        """Learn what must be known before there are rows."""

    def begun(self, told: Any) -> None:
        """Take note of where the rows begin."""

    def round(self, crew: Crew, done: int) -> float:
        """Move all users, then all items; return the objective."""
        users, items = add(crew.each("move_users")), add(crew.exchange("move_items"))
        return float(items[0] - items[1] - users[1])

    @property
    def n_rounds(self) -> int:
        """Most rounds."""
        raise NotImplementedError

    def is_over(self, history: list[float]) -> bool:
        """Tell whether the last round was the last."""
        return len(history) >= self.n_rounds

    def check(self, history: list[float]) -> None:
        """Raise an error if the last round led away."""

    def shared(self) -> Shared:
        """Return what the rounds have changed besides the rows."""
        return {}

    def resume(self, shared: Shared) -> None:
        """Take back what :meth:`shared` returned."""

    n_kept = 0  # draws, each of which is :meth:`draw`

    def draw(self, at: int) -> Shared:
        """Return a draw that was kept."""
        raise NotImplementedError

    def put_draw(self, at: int, draw: Shared) -> None:
        """Take it back."""
        raise NotImplementedError

    def finish(self, model: Model, crew: Crew, history: list[float]) -> None:
        """Give the model what was learnt."""
        raise NotImplementedError


def draw_between(draw: Callable[[int], Any], n: int, begin: int, end: int, chunk: int = CHUNK) -> Any:
    """Return the rows from `begin` to `end` of `n` that are drawn one after the other, without keeping the others.

    >>> import itertools
    >>> count = itertools.count()
    >>> draw_between(lambda n: np.array([[next(count)] for _ in range(n)]), 5, 1, 3).tolist(), next(count)
    ([[1], [2]], 5)
    """
    kept: list[Any] = []
    for first in range(0, n, chunk):
        some = draw(min(chunk, n - first))
        if not kept or (begin < first + len(some) and first < end):
            kept.append(some[max(begin - first, 0) : max(end - first, 0)].copy())  # a view would keep them all
    return np.concatenate(kept)


def add(parts: list[Any]) -> Any:
    """Return the sum of arrays, in their order."""
    total = np.array(parts[0])
    for part in parts[1:]:
        total += part
    return total


def joined(parts: Iterable[Rows], n: int) -> Rows:
    """Return parts of `n` rows in one array, holding one part at a time beside it."""
    whole: Rows | None = None
    at = 0
    for part in parts:
        if whole is None:
            whole = np.empty((n, *part.shape[1:]), part.dtype)
        whole[at : at + len(part)] = part
        at += len(part)
    assert whole is not None
    return whole
