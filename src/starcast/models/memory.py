"""How large a model file will be and how much memory a fit will take, before either is made."""

import contextlib
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from starcast.errors import ParameterError, plural
from starcast.names import Array, plain

if TYPE_CHECKING:
    from starcast.models.base import Model

GIGABYTE = 10**9
BYTES = {"seen_items_": 4, "seen_scores_": 1, "base_": 4}  # a number; others have the width that the model says, or 8
HEADER = 250  # bytes of a model file that any model has, and
ENTRY = 80  # those for each array
PER_RATING, PER_NAME = 26, 60  # bytes of memory, while ratings are grouped and names are looked up


class Estimate(NamedTuple):
    """Bytes of the model file, and of the memory that a fit takes at its peak on top of the ratings.

    >>> print(Estimate(6_200_000, 15_000_000))
    a file of about 6.2 MB, about 15 MB of memory for the fit
    """

    file: int
    memory: int

    def __str__(self) -> str:
        return f"a file of about {shown_bytes(self.file)}, about {shown_bytes(self.memory)} of memory for the fit"


def estimate(model: "Model", ratings: Any) -> Estimate:
    """Return the sizes for these ratings; see :meth:`Model.estimate`."""
    names = sum(_text_bytes(array) for array in (ratings.users, ratings.items, ratings.titles) if array is not None)
    params = len(json.dumps(model.get_params(), default=plain))
    n_arrays = len(type(model).BASE) + len(type(model).LEARNT)
    file = HEADER + params + ENTRY * n_arrays + names + _array_bytes(model, ratings, type(model).BASE)
    return Estimate(file + learnt_bytes(model, ratings), int(model._memory(ratings)))


def shared_bytes(ratings: Any) -> int:
    """Return the bytes of memory that a fit of any model takes."""
    return PER_RATING * len(ratings) + PER_NAME * (len(ratings.users) + len(ratings.items))


def learnt_bytes(model: "Model", ratings: Any) -> int:
    """Return the bytes of the arrays that the model adds to what all models have."""
    return _array_bytes(model, ratings, type(model).LEARNT)


def _array_bytes(model: "Model", ratings: Any, declared: dict[str, str]) -> int:
    own = model._sizes(ratings)
    sizes = own | {
        "users": len(ratings.users),
        "items": len(ratings.items),
        "scores": len(ratings.scores),
        "ratings": len(ratings),
    }
    total = 0
    for name, axes in declared.items():
        if name in ("users_", "items_"):  # counted with the names
            continue
        parts = [axis.partition("+") for axis in axes.split()]
        width = BYTES.get(name, 8 if name in model.BASE or name == "history_" else own.get("width", 8))
        total += math.prod(sizes[base] + int(more or 0) for base, _, more in parts) * width if parts else 0
    return total


def _text_bytes(names: Array) -> int:
    if names.dtype != object:
        return names.nbytes
    return sum(len(name.encode()) for name in names) + 8 * len(names)


def check_memory(model: "Model", ratings: Any) -> None:
    """Raise an error if a fit needs more memory than there is: before it takes any."""
    needed, available = int(model._memory(ratings)), available_memory()
    if available is not None and needed > available:
        raise ParameterError(
            f"{needs(model, ratings)}, and {shown_bytes(available)} are available. {advice(model, ratings)}"
        )


def needs(model: "Model", ratings: Any) -> str:
    """Return what a fit needs, in words."""
    return (
        f"{type(model).__name__} needs about {shown_bytes(int(model._memory(ratings)))} of memory for "
        f"{plural(len(ratings.users), 'user')} and {plural(len(ratings.items), 'item')}"
    )


def advice(model: "Model", ratings: Any) -> str:
    """Return what to lower."""
    settings = {
        name: value
        for name, value in model.get_params().items()
        if name.startswith("n_") and name not in ("n_jobs", "n_iters")
    }
    shown = " or ".join(f"{name} (now {value})" for name, value in settings.items())
    return f"Lower {shown}, or take fewer ratings." if shown else "Take fewer ratings."


def available_memory() -> int | None:
    """Return the bytes that this process can still have; None where nobody knows."""
    limits = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits.append(1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable"))))
    with contextlib.suppress(OSError, ValueError):
        limits.append(group_memory(Path("/sys/fs/cgroup")))
    if not limits:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def group_memory(group: Path) -> int:
    """Return the bytes that a container may still have; pages of files count as free, since they can be dropped.

    Raises ValueError where there is no limit ("max").
    """
    limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
    facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    cached = int(facts.get("inactive_file", 0)) + int(facts.get("active_file", 0))
    return max(limit - used + cached, 0)


def shown_bytes(n: int) -> str:
    """Return a number of bytes as people read it.

    >>> shown_bytes(389_000_000), shown_bytes(1_100_000_000), shown_bytes(0)
    ('389 MB', '1.1 GB', '0 kB')
    """
    n = min(n, 10**30)  # beyond it no number is more than large
    for unit, size in (("GB", GIGABYTE), ("MB", 10**6)):
        if n >= size:
            return f"{n / size:.2g} {unit}" if n < 100 * size else f"{n / size:,.0f} {unit}"
    return f"{np.ceil(n / 1000):.0f} kB"
