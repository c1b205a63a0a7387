"""Rows of scores tied by their order (OrdinalMF): slopes and answers in Triton.

The kernels see a row with its biases spelt out per score, [factors along the line, along the parabola, biases], which
spares them the product with the basis for every rating; :func:`spell` and :func:`unspell` go there and back.
"""

# mypy: disable-error-code="assignment,misc"
# ruff: noqa: RUF005
# In a kernel a tuple grows piece by piece, by a sum, for Triton knows no other way.
from typing import Any

import torch
import triton
import triton.language as tl

from starcast.kernels.gpu.device import Segments, Tensor
from starcast.kernels.gpu.softmax import row_sum

ALIGNED = 4  # numbers: rows begin where sixteen bytes can be read at once, and threads read so many
WARP = 32  # threads


@triton.jit
def _slopes(
    turn, seg_row, seg_begin, seg_end, other, score, rows, others, base, basis, sums, told,
    J: tl.constexpr, K: tl.constexpr, K2: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
    WIDTH: tl.constexpr, PIECES: tl.constexpr, TILE: tl.constexpr, SCORED: tl.constexpr,
):  # fmt: skip
    """Sum the slopes of one segment over its ratings, a tile of them at a time.

    A row is read in pieces as wide as the scores are. All blocks have one shape then, ratings x width, and one thread
    has the same four columns of each: what follows from another needs no way through shared memory.
    """
    segment = tl.load(turn + tl.program_id(0))
    x = rows + tl.load(seg_row + segment).to(tl.int64) * STRIDE
    s = tl.arange(0, WIDTH)
    real = s < S
    start = tl.load(base + s, mask=real, other=0.0) + tl.load(x + K + K2 + s, mask=real, other=0.0)
    start = tl.where(real, start, float("-inf"))[None, :]
    B = ()
    squares = ()
    for j in tl.static_range(J):
        B = B + (tl.load(basis + s * J + j, mask=real, other=0.0)[None, :],)
        squares = squares + (tl.zeros((TILE,), tl.float32),)
    x_line = ()
    x_bend = ()
    moved = ()
    for p in tl.static_range(PIECES):
        at = p * WIDTH + s
        x_line = x_line + (tl.load(x + at, mask=at < K, other=0.0)[None, :],)
        x_bend = x_bend + (tl.load(x + at, mask=(at >= K) & (at < K + K2), other=0.0)[None, :],)
        moved = moved + (tl.zeros((TILE, WIDTH), tl.float32),)
    total = tl.zeros((TILE, WIDTH), tl.float32)
    fit = tl.zeros((TILE,), tl.float32)
    begin, end = tl.load(seg_begin + segment), tl.load(seg_end + segment)
    place = tl.arange(0, TILE)
    rating = tl.minimum(begin + place, end - 1)
    whom, what = tl.load(other + rating), tl.load(score + rating)
    for first in range(begin, end, TILE):
        live = (first + place < end)[:, None]
        given = s[None, :] == what.to(tl.int32)[:, None]
        y = others + (whom.to(tl.int64) * STRIDE)[:, None]
        # Whom to read next is known before this tile is done. At the end that is the last rating again, and again in
        # the last tile, where its slope is left out: no mask on what is read.
        rating = tl.minimum(first + TILE + place, end - 1)
        whom, what = tl.load(other + rating), tl.load(score + rating)
        pieces = ()
        for p in tl.static_range(PIECES):
            at = p * WIDTH + s
            if (p + 1) * WIDTH <= K + K2:
                pieces = pieces + (tl.load(y + at[None, :]),)
            else:
                pieces = pieces + (tl.load(y + at[None, :], mask=(at < K + K2)[None, :], other=0.0),)
        z = start + tl.load(y + (K + K2) + s[None, :], mask=real[None, :], other=0.0)
        line = tl.zeros((TILE, WIDTH), tl.float32)
        bend = tl.zeros((TILE, WIDTH), tl.float32)
        for p in tl.static_range(PIECES):
            if p * WIDTH < K:
                line += x_line[p] * pieces[p]
            if (p + 1) * WIDTH > K:
                bend += x_bend[p] * pieces[p]
        if K:
            z += tl.sum(line, 1)[:, None] * B[0]
        if K2:
            z += tl.sum(bend, 1)[:, None] * B[1]
        z -= tl.max(z, 1)[:, None]
        e = tl.exp(z)
        norm = tl.sum(e, 1)[:, None]
        g = tl.where(live, tl.where(given, 1.0, 0.0) - e * (1.0 / norm), 0.0)
        total += g
        slope = tl.sum(g * B[0], 1)[:, None]
        slope_bend = slope
        if K2:
            slope_bend = tl.sum(g * B[1], 1)[:, None]
        if SCORED:
            fit += tl.sum(tl.where(given & live, z - tl.log(norm), 0.0), 1)
            more = ()
            for j in tl.static_range(J):
                residual = tl.sum(g * B[j], 1)
                more = more + (squares[j] + residual * residual,)
            squares = more
        more = ()
        for p in tl.static_range(PIECES):
            if (p + 1) * WIDTH <= K or K2 == 0:
                more = more + (moved[p] + slope * pieces[p],)
            else:
                more = more + (moved[p] + tl.where((p * WIDTH + s < K)[None, :], slope, slope_bend) * pieces[p],)
        moved = more
    out = sums + segment.to(tl.int64) * STRIDE
    for p in tl.static_range(PIECES):
        at = p * WIDTH + s
        tl.store(out + at, tl.sum(moved[p], 0), mask=at < K + K2)
    tl.store(out + K + K2 + s, tl.sum(total, 0), mask=real)
    if SCORED:
        tl.store(told + segment * (J + 1), tl.sum(fit, 0))
        for j in tl.static_range(J):
            tl.store(told + segment * (J + 1) + 1 + j, tl.sum(squares[j], 0))


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


class Scratch:
    """Where the slopes of a side's rows, and what is told of them, are added up; made once for many rounds."""

    def __init__(self, side: Segments, rows: Tensor, n_functions: int) -> None:
        # Zeros, because what lies behind the numbers of a row is never written, but read.
        self.sums = torch.zeros((len(side), rows.shape[1]), device=rows.device)
        self.slopes: Any = torch.zeros_like(rows)
        self.told: Any = torch.zeros((max(len(side), 1), 1 + n_functions), device=rows.device)


def slopes(
    side: Segments, rows: Tensor, others: Tensor, base: Tensor, basis: Tensor, ranks: tuple[int, int], room: Scratch,
    *, scored: bool = True,
) -> None:  # fmt: skip
    """Leave the slopes of the log-likelihood by every row, spelt as the rows are, in `room`.

    If asked for, also the log-likelihood of every segment and, for each basis function, the squares of its residuals.
    """
    if not len(side):
        return
    K, K2 = ranks
    stride = rows.shape[1]
    width = max(ALIGNED, triton.next_power_of_2(len(base)))
    _slopes[len(side),](
        side.turn, side.row, side.begin, side.end, side.other, side.score, rows, others, base, basis, room.sums,
        room.told, J=basis.shape[1], K=K, K2=K2, S=len(base), STRIDE=stride, WIDTH=width, PIECES=-(-(K + K2) // width),
        TILE=max(1, WARP * ALIGNED // width), SCORED=scored, num_warps=1,
    )  # fmt: skip
    lanes = triton.next_power_of_2(stride)
    _gather[side.n_rows,](side.of_row, room.sums, room.slopes, STRIDE=stride, LANES=lanes, num_warps=1)
