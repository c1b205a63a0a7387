"""Where the tensors live: a CUDA device, or the CPU if Triton interprets its kernels."""

import os
from typing import Any, NamedTuple

import numpy.typing as npt
import torch
from torch import Tensor as Tensor  # for the other files here, too

from starcast.errors import ParameterError
from starcast.ratings import Ratings

SEGMENT = 128  # ratings that one program walks through: long enough to pay for its start, short enough to share work


def find_device() -> torch.device:
    """Return the CUDA device; the CPU if Triton is told to interpret; an error that says what is missing otherwise."""
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


def cut_ratings(ratings: Ratings, device: torch.device, length: int = SEGMENT) -> tuple[Segments, Segments]:
    """Return the ratings by user and by item, sorted and cut on the device."""
    user, item, score = (to_device(part, device) for part in (ratings.user, ratings.item, ratings.score))
    n_users, n_items = len(ratings.users), len(ratings.items)
    by_user = torch.sort(user.long() * n_items + item, stable=True).indices
    by_item = torch.sort(item.long() * n_users + user, stable=True).indices
    return (
        cut(torch.bincount(user, minlength=n_users), item[by_user], score[by_user], length),
        cut(torch.bincount(item, minlength=n_items), user[by_item], score[by_item], length),
    )


def cut(counts: Tensor, other: Tensor, score: Tensor, length: int = SEGMENT) -> Segments:
    """Return rows with so many ratings each, of others in ascending order, in segments of at most `length` ratings.

    Programs that run at the same moment should read the same rows of the other side, which are then in the cache: the
    others' codes ascend along a row, so segments take their turn by the first of theirs.
    """
    device = counts.device
    start = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    per_row = (counts + length - 1) // length
    of_row = torch.nn.functional.pad(per_row.cumsum(0), (1, 0))
    row = torch.repeat_interleave(torch.arange(len(counts), device=device), per_row)
    begin = start[row] + length * (torch.arange(len(row), device=device) - of_row[row])
    end = torch.minimum(begin + length, start[row + 1])
    turn = torch.argsort(other[begin], stable=True) if len(row) else row
    return Segments(row.int(), begin, end, of_row, turn.int(), other, score, counts.float())


def to_device(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Return a copy of an array on the device."""
    return torch.tensor(array, device=device)
