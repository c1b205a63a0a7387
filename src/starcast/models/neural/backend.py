"""PyTorch where it is needed and not before: the library itself, its device, its threads, its memory."""

import contextlib
import functools
import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from starcast.errors import MissingExtraError, ParameterError, choose
from starcast.kernels import resolve_threads
from starcast.models.memory import available_memory

Tensor = Any  # torch.Tensor, which is not imported here
GIGABYTE = 1e9
# Below, threads wait for each other most of the time, on a busy machine for seconds. With one, a fit is the same to the
# last bit whatever n_jobs is.
MANY_RATINGS = 500_000


class _Torch:
    """The library, imported at the first use of one of its names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspects modules asks every object for such names
            raise AttributeError(name)
        return getattr(_imported(), name)


torch: Any = _Torch()


@functools.cache
def _imported() -> Any:
    check_installed("learning")
    return importlib.import_module("torch")


def check_installed(purpose: str) -> None:
    """Raise an error that says how to get PyTorch if it is not there."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(purpose, "PyTorch", "torch")


def resolve_device(device: str) -> Any:
    """Return the device that "cpu", "cuda" or "auto" (CUDA where there is one) asks for."""
    choose("device", device, ["auto", "cpu", "cuda"])
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise ParameterError(
            f'device="cuda" needs a CUDA device, and PyTorch {torch.version.__version__} sees none. Use device="cpu" '
            'or "auto", or install a PyTorch that is built for CUDA.'
        )
    return torch.device("cuda" if there and device != "cpu" else "cpu")


@contextlib.contextmanager
def limited_threads(n_jobs: int | None, n_ratings: int) -> Iterator[None]:
    """Let PyTorch use as many threads as `n_jobs` asks for, one on small tables, and afterwards as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(resolve_threads(n_jobs) if n_ratings >= MANY_RATINGS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def free_memory(device: Any) -> int | None:
    """Return the bytes that can still be had on a device; None where nobody knows."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    return available_memory()


@contextlib.contextmanager
def enough_memory(model: str, needed: float, device: Any, advice: str) -> Iterator[None]:
    """Raise an error with the estimate and the advice if what follows needs more memory than there is, or runs out."""
    free = free_memory(device)
    told = f"{model} needs about {needed / GIGABYTE:.2g} GB on the device {device.type} for these ratings"
    if free is not None and needed > free:
        raise ParameterError(f"{told}, and {free / GIGABYTE:.2g} GB are free. {advice}")
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "alloc" in str(error) or "out of memory" in str(error):
            raise ParameterError(f"{told} or more, and memory ran out. {advice}") from None
        raise
