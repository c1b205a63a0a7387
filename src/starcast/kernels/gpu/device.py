"""Where the tensors live: a CUDA device, or the CPU if Triton interprets its kernels."""

import importlib.util
import os
from typing import Any, NamedTuple

import numpy as np
import torch

from starcast.errors import MissingExtraError, ParameterError
from starcast.kernels import Side

Tensor = torch.Tensor

SEGMENT = 128  # ratings that one program walks through: long enough to pay for its start, short enough to share work


def find_device() -> torch.device:
    """Return the CUDA device; the CPU if Triton is told to interpret; an error that says what is missing otherwise."""
    if importlib.util.find_spec("triton") is None:
        raise MissingExtraError("the GPU", "Triton", "torch")
    if torch.cuda.is_available():
        return torch.device("cuda")
    if os.environ.get("TRITON_INTERPRET") == "1":
        return torch.device("cpu")
    raise ParameterError(
        f'device="cuda" needs a CUDA device, and PyTorch {torch.version.__version__} sees none. Use device="cpu", or '
        "install a PyTorch that is built for CUDA."
    )


class Segments(NamedTuple):
    """The ratings of one side, its rows cut into segments; a program walks through one of them."""

    row: Tensor  # of each segment, ascending
    begin: Tensor  # its first rating, and
    end: Tensor  # the one after its last
    of_row: Tensor  # row r has the segments of_row[r] to of_row[r + 1]
    turn: Tensor  # segments in the order in which programs start
    other: Tensor
    score: Tensor
    counts: Tensor  # ratings of each row, as floating-point numbers

    @property
    def n_rows(self) -> int:
        """Rows of this side."""
        return len(self.counts)

    def __len__(self) -> int:
        return len(self.row)


def cut(side: Side, device: torch.device, length: int = SEGMENT) -> Segments:
    """Return a side on the device, cut into segments of at most `length` ratings.

    Programs that run at the same moment should read the same rows of the other side, which are then in the cache: the
    others' codes ascend along a row, so segments take their turn by the first of theirs.
    """
    start, other, score = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in side)
    counts = start.diff()
    per_row = (counts + length - 1) // length
    of_row = torch.zeros(len(start), dtype=torch.int64, device=device)
    torch.cumsum(per_row, 0, out=of_row[1:])
    row = torch.repeat_interleave(torch.arange(len(counts), device=device), per_row)
    begin = start[row] + length * (torch.arange(len(row), device=device) - of_row[row])
    end = torch.minimum(begin + length, start[row + 1])
    turn = torch.argsort(other[begin], stable=True) if len(row) else row
    return Segments(
        row.int(), begin, end, of_row, turn.int(), other, score, counts.to(torch.float32)
    )


def to_device(array: "np.ndarray[Any, Any]", device: torch.device) -> Tensor:
    """Return a copy of an array on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
