"""The numeric core: ``fast`` (float32, lanes over the scores), ``strict`` (float64, the published order of every sum).

``reference.py`` beside this file, and those that share its name, say in plain loops what both must compute.
"""

import importlib
import importlib.util
import math
import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast._native import fast, strict
from starcast.errors import ParameterError
from starcast.names import Codes
from starcast.ratings import Ratings

__all__ = [
    "Side",
    "aligned",
    "cut_sides",
    "empty_aligned",
    "fast",
    "has_gpu",
    "instruction_set",
    "make_sides",
    "resolve_threads",
    "strict",
    "wants_gpu",
]


LINE = 64  # bytes
MOST_THREADS = 256  # more could not be started everywhere, and none would have anything to do


class Side(NamedTuple):
    """The ratings by user or by item: row r has the entries start[r] to start[r + 1], the others' codes ascending."""

    start: npt.NDArray[np.int64]
    other: npt.NDArray[np.int32]
    score: npt.NDArray[np.int8]


def make_sides(ratings: Ratings) -> tuple[Side, Side]:
    """Return the ratings by user and by item."""
    return cut_sides(ratings.user, ratings.item, ratings.score, len(ratings.users), len(ratings.items))


def cut_sides(user: Codes, item: Codes, score: npt.NDArray[np.int8], n_users: int, n_items: int) -> tuple[Side, Side]:
    """Return coded ratings by user and by item.

    Two stable counting sorts, first by one side and then by the other, leave every row sorted by the other's code.
    """
    _, by_item = _native.group_rows(item, n_items)
    user_start, order = _native.group_rows(user[by_item], n_users)
    by_user = by_item[order]
    item_start, order = _native.group_rows(item[by_user], n_items)
    by_item = by_user[order]
    return Side(user_start, item[by_user], score[by_user]), Side(item_start, user[by_item], score[by_item])


def resolve_threads(n_jobs: int | None) -> int:
    """Return how many threads `n_jobs` asks for, within reason: None and -1 mean one a core.

    >>> resolve_threads(3)
    3
    """
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs < 1:
        raise ParameterError(
            f"n_jobs must be a whole number of at least 1, or -1 or None for all cores, got {n_jobs!r}."
        )
    return min(int(n_jobs), MOST_THREADS)


def aligned(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the array if it begins with a cache line, else a copy that does: a vector that lies in two lines is read
    in twice the time."""
    if array.ctypes.data % LINE == 0 and array.flags.c_contiguous:
        return array
    copy = empty_aligned(array.shape)
    copy[...] = array
    return copy


def empty_aligned(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return an array, not filled in, that begins with a cache line."""
    size = math.prod(shape)
    room = np.empty(size + LINE // 4, np.float32)
    first = -room.ctypes.data % LINE // 4
    return room[first : first + size].reshape(shape)


def wants_gpu(device: str) -> bool:
    """Tell whether `device`, one of "cpu", "cuda" and "auto", asks for a GPU; "auto" does if there is one.

    >>> wants_gpu("cpu")
    False
    """
    return has_gpu() if device == "auto" else device == "cuda"


def has_gpu() -> bool:
    """Tell whether there is a GPU, and what it takes to use it."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
        return False
    return bool(importlib.import_module("torch").cuda.is_available())


def instruction_set() -> str:
    """Return the instruction set that the fast kernels use on this machine."""
    return fast.isa()
