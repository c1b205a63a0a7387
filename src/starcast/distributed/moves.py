"""A pass over rows as questions and answers, so that their ratings may lie in several places.

Whoever owns rows moves them by a generator that asks for sums over all ratings of these rows; every place that has some
of the ratings answers with its part, and the parts are added up.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ask:
    """What the owner of rows wants to know of them."""

    rows: F32  # (asked, …) the numbers of those rows that are asked about
    want: str  # "value", "slope" (and value) or "curve" (and both)
    some: I64 | None = None  # (asked,) which of the owner's rows they are, ascending; None: all, in their order
    block: int = 0  # of the factors, where slopes and curvatures are wanted of a block at a time
    units: "Units | None" = None  # where these are to be whole numbers, whose sums do not round


class Units(NamedTuple):
    """What decides how large units must be for sums over all ratings to be exact, wherever these lie."""

    reach: F32  # (functions,) the largest factor of anybody who may have rated
    longest: int  # the most ratings of a row


@dataclass(frozen=True, slots=True)
class Part:
    """What the ratings of one place say of the rows that were asked about."""

    loglik: F64  # (asked,)
    slope: npt.NDArray[Any] | None = None  # (asked, …) in single precision, or whole numbers of units
    curve: npt.NDArray[Any] | None = None  # (asked, triangle, …) likewise


@dataclass(frozen=True, slots=True)
class Moved:
    """Rows after a move, and what the history of a fit wants to know of them."""

    rows: F32
    loglik: float
    penalty: float
    accepted: int = 0  # draws
    spread: F64 | None = None  # (columns, columns) sum over rows of their covariances before the move


Move = Generator[Ask, Part, Moved]


def add_up(parts: Sequence[Part]) -> Part:
    """Return the sum of the parts, added in their order.

    >>> add_up([Part(np.array([1.0, 2.0])), Part(np.array([3.0, 4.0]))]).loglik.tolist()
    [4.0, 6.0]
    """
    total = Part(*(None if sums is None else sums.copy() for sums in _sums(parts[0])))  # type: ignore[arg-type]
    for part in parts[1:]:
        for mine, found in zip(_sums(total), _sums(part), strict=True):
            if mine is not None and found is not None:
                mine += found
    return total


def _sums(part: Part) -> tuple[npt.NDArray[Any] | None, ...]:
    return part.loglik, part.slope, part.curve


def drive(move: Move, answer: Callable[[Ask], Part]) -> Moved:
    """Answer everything that a move asks and return what comes of it."""
    try:
        ask = next(move)
        while True:
            ask = move.send(answer(ask))
    except StopIteration as end:
        moved: Moved = end.value
        return moved
