"""Sums over the edges of a graph that can be learnt through: sparse products, and dot products of pairs."""

import functools
import warnings
from typing import Any

from starcast.models.neural.backend import Tensor, torch


class Matrix:
    """A sparse matrix by rows (`start`, `column`, `value`), and how its entries lie by columns.

    Built from entries in any order; each product sums a row in the order of its columns, whatever the threads.
    """

    def __init__(self, row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> None:
        order = torch.argsort(row * shape[1] + column, stable=True)
        row, column = row[order], column[order]
        self.value, self.shape = value[order], shape
        self.row, self.column = row, column.to(torch.int32)
        self.start = _starts(row, shape[0])
        self.by_column = torch.argsort(column, stable=True)
        self.column_start, self.row_by_column = _starts(column, shape[1]), row[self.by_column].to(torch.int32)

    def __len__(self) -> int:
        return len(self.value)

    def csr(self, value: Tensor) -> Tensor:
        """Return the matrix with other values in its places."""
        return _csr(self.start, self.column, value, self.shape)

    def transposed(self, value: Tensor) -> Tensor:
        """Return the transposed matrix with other values in its places."""
        return _csr(self.column_start, self.row_by_column, value[self.by_column], self.shape[::-1])


def product(matrix: Matrix, dense: Tensor) -> Tensor:
    """Return matrix @ dense, to be differentiated by `dense`."""
    return _functions()[0].apply(dense, matrix)


def pair_dots(pairs: Matrix, P: Tensor, Q: Tensor) -> Tensor:
    """Return P[row] · Q[column] for every entry of `pairs`, in the order of its rows."""
    return _functions()[1].apply(P, Q, pairs)


@functools.cache
def _functions() -> tuple[Any, Any]:
    class Product(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, dense: Tensor, matrix: Matrix) -> Tensor:
            ctx.matrix = matrix
            return matrix.csr(matrix.value) @ dense

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
            return ctx.matrix.transposed(ctx.matrix.value) @ gradient.contiguous(), None

    class PairDots(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, P: Tensor, Q: Tensor, pairs: Matrix) -> Tensor:
            ctx.pairs = pairs
            ctx.save_for_backward(P, Q)
            zeros = pairs.csr(torch.zeros(len(pairs), dtype=P.dtype, device=P.device))
            return torch.sparse.sampled_addmm(zeros, P, Q.t(), beta=0).values()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
            P, Q = ctx.saved_tensors
            return ctx.pairs.csr(gradient) @ Q, ctx.pairs.transposed(gradient) @ P, None

    return Product, PairDots


def _starts(sorted_codes: Tensor, n: int) -> Tensor:
    count = torch.bincount(sorted_codes, minlength=n)
    return torch.nn.functional.pad(torch.cumsum(count, 0), (1, 0)).to(torch.int32)


def _csr(start: Tensor, column: Tensor, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():  # that this kind of tensor is in beta
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(start, column, value, shape, check_invariants=False)
