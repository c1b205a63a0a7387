"""Rows of scores tied by their order (OrdinalMF): slopes and answers in Triton.

The kernels see a row with its biases spelt out per score, [factors along the line, along the parabola, biases], which
spares them the product with the basis for every rating; :func:`spell` and :func:`unspell` go there and back.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from starcast.kernels.gpu.device import Segments, Tensor
from starcast.kernels.gpu.softmax import row_sum

ALIGNED = 4  # numbers: rows begin where sixteen bytes can be read at once


@triton.jit
def _slopes(
    turn, seg_row, seg_begin, seg_end, other, score, rows, others, base, basis, sums, told,
    J: tl.constexpr, FUNCTIONS: tl.constexpr,
    K: tl.constexpr, K2: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr,
    SPREAD: tl.constexpr, LANES: tl.constexpr, TILE: tl.constexpr, SCORED: tl.constexpr,
):  # fmt: skip
    """Sum the slopes of one segment over its ratings, a tile of them at a time."""
    segment = tl.load(turn + tl.program_id(0))
    x = rows + tl.load(seg_row + segment).to(tl.int64) * STRIDE
    s, k = tl.arange(0, LANES), tl.arange(0, HEAD)
    real = s < S
    x_head = tl.load(x + k, mask=k < K, other=0.0)[None, :]
    sum_head = tl.zeros((TILE, HEAD), tl.float32)
    if TAIL:
        k_tail = HEAD + tl.arange(0, TAIL)
        x_tail = tl.load(x + k_tail, mask=k_tail < K, other=0.0)[None, :]
        sum_tail = tl.zeros((TILE, TAIL), tl.float32)
    if SPREAD:
        k_spread = tl.arange(0, SPREAD)
        x_spread = tl.load(x + K + k_spread, mask=k_spread < K2, other=0.0)[None, :]
        sum_spread = tl.zeros((TILE, SPREAD), tl.float32)
        B1 = tl.load(basis + s * J + 1, mask=real, other=0.0)[None, :]
    B0 = tl.load(basis + s * J, mask=real, other=0.0)[None, :]
    start = tl.load(base + s, mask=real, other=0.0) + tl.load(x + K + K2 + s, mask=real, other=0.0)
    start = tl.where(real, start, float("-inf"))[None, :]
    total = tl.zeros((TILE, LANES), tl.float32)
    if SCORED:
        fit = tl.zeros((TILE, LANES), tl.float32)
        squares = tl.zeros((TILE, FUNCTIONS), tl.float32)
        function = tl.arange(0, FUNCTIONS)[None, :]
    begin, end = tl.load(seg_begin + segment), tl.load(seg_end + segment)
    for first in range(begin, end, TILE):
        j = first + tl.arange(0, TILE)
        live = (j < end)[:, None]
        j = tl.minimum(j, end - 1)  # the last rating again, whose slope is then left out: no mask on what is read
        given = s[None, :] == tl.load(score + j).to(tl.int32)[:, None]
        y = others + (tl.load(other + j).to(tl.int64) * STRIDE)[:, None]
        y_head = tl.load(y + k[None, :], mask=(k < K)[None, :], other=0.0)
        eta = tl.sum(x_head * y_head, 1)
        if TAIL:
            y_tail = tl.load(y + k_tail[None, :], mask=(k_tail < K)[None, :], other=0.0)
            eta += tl.sum(x_tail * y_tail, 1)
        z = start + tl.load(y + K + K2 + s[None, :], mask=real[None, :], other=0.0)
        z += eta[:, None] * B0
        if SPREAD:
            y_spread = tl.load(y + K + k_spread[None, :], mask=(k_spread < K2)[None, :], other=0.0)
            z += tl.sum(x_spread * y_spread, 1)[:, None] * B1
        z -= tl.max(z, 1)[:, None]
        e = tl.exp(z)
        norm = tl.sum(e, 1)[:, None]
        g = tl.where(live, tl.where(given, 1.0, 0.0) - e * (1.0 / norm), 0.0)
        if SCORED:
            fit += tl.where(given & live, z - tl.log(norm), 0.0)
            for j in tl.static_range(J):
                residual = tl.sum(g * tl.load(basis + s * J + j, mask=real, other=0.0)[None, :], 1)[:, None]
                squares += tl.where(function == j, residual * residual, 0.0)
        total += g
        slope = tl.sum(g * B0, 1)[:, None]
        sum_head += slope * y_head
        if TAIL:
            sum_tail += slope * y_tail
        if SPREAD:
            sum_spread += tl.sum(g * B1, 1)[:, None] * y_spread
    out = sums + segment.to(tl.int64) * STRIDE
    tl.store(out + k, tl.sum(sum_head, 0), mask=k < K)
    if TAIL:
        tl.store(out + k_tail, tl.sum(sum_tail, 0), mask=k_tail < K)
    if SPREAD:
        tl.store(out + K + k_spread, tl.sum(sum_spread, 0), mask=k_spread < K2)
    tl.store(out + K + K2 + s, tl.sum(total, 0), mask=real)
    if SCORED:
        j = tl.arange(0, FUNCTIONS)
        tl.store(told + segment * (J + 1), tl.sum(tl.sum(fit, 1), 0))
        tl.store(told + segment * (J + 1) + 1 + j, tl.sum(squares, 0), mask=j < J)


@triton.jit
def _gather(of_row, sums, out, STRIDE: tl.constexpr, LANES: tl.constexpr):
    """Add up the sums of a row's segments, in order."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    g = row_sum(sums, tl.load(of_row + row), tl.load(of_row + row + 1), STRIDE, LANES, tl.float32)
    tl.store(out + row * STRIDE + lane, g, mask=lane < STRIDE)


def spell(rows: Tensor, basis: Tensor, n_factors: int) -> Tensor:
    """Return rows of (factors, biases along the basis) with biases per score, padded with zeros."""
    factors, biases = rows[:, :n_factors], rows[:, n_factors:]
    width = n_factors + len(basis)
    spelt = torch.zeros((len(rows), -(-width // ALIGNED) * ALIGNED), dtype=rows.dtype, device=rows.device)
    spelt[:, :n_factors] = factors
    spelt[:, n_factors:width] = biases @ basis.T
    return spelt


def unspell(slopes: Tensor, basis: Tensor, n_factors: int) -> Tensor:
    """Return slopes by (factors, biases along the basis) from those by biases per score."""
    return torch.cat([slopes[:, :n_factors], slopes[:, n_factors : n_factors + len(basis)] @ basis], 1)


def slopes(
    side: Segments, rows: Tensor, others: Tensor, base: Tensor, basis: Tensor, ranks: tuple[int, int],
    *, scored: bool = True, tile: int = 4,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the slopes of the log-likelihood by every row, spelt as the rows are, and a few sums.

    These are, if asked for, the log-likelihood and for each basis function the squares of its residuals.
    """
    K, K2 = ranks
    stride = rows.shape[1]
    J = basis.shape[1]
    sums = torch.zeros((len(side), stride), device=rows.device)
    told: Any = torch.zeros((len(side) if scored else 1, 1 + J), device=rows.device)
    gathered: Any = torch.zeros_like(rows)
    head = 1 << (max(K, 1).bit_length() - 1)
    if len(side):
        _slopes[len(side),](
            side.turn, side.row, side.begin, side.end, side.other, side.score, rows, others, base, basis, sums, told,
            J=J, FUNCTIONS=triton.next_power_of_2(J), K=K, K2=K2, S=len(base), STRIDE=stride, HEAD=head,
            TAIL=triton.next_power_of_2(K - head) if head < K else 0, SPREAD=triton.next_power_of_2(K2) if K2 else 0,
            LANES=triton.next_power_of_2(len(base)), TILE=tile, SCORED=scored, num_warps=1,
        )  # fmt: skip
        lanes = triton.next_power_of_2(stride)
        _gather[side.n_rows,](side.of_row, sums, gathered, STRIDE=stride, LANES=lanes, num_warps=1)
    return gathered, told.sum(0, dtype=torch.float64)
