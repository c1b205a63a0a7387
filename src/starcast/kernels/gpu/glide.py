"""The step of the ordinal model's gradient rounds on the GPU, for all rows of a side in one kernel."""

from typing import Any

import torch
import triton
import triton.language as tl

from starcast.kernels.gpu.device import Tensor

ROWS = 32  # that a program moves


@triton.jit
def _glide(
    rows, velocity, spelt, slopes, features, counts, weights, precision, doubt, function, factor, bias,
    moments, squares, basis, parts, n_rows, n_ratings, length, memory,
    K: tl.constexpr, S: tl.constexpr, N_FEATURES: tl.constexpr, STRIDE: tl.constexpr, SPELT: tl.constexpr,
    COLUMNS: tl.constexpr, SCORES: tl.constexpr, FEATURES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Move some rows by their slopes and their prior; write where biases per score put them, and sums over the rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = (row < n_rows)[:, None]
    column, score, feature = tl.arange(0, COLUMNS), tl.arange(0, SCORES), tl.arange(0, FEATURES)
    real, scored = (column < STRIDE)[None, :], (score < S)[None, :]
    at = row[:, None] * STRIDE + column[None, :]
    x = tl.load(rows + at, mask=live & real, other=0.0)
    v = tl.load(velocity + at, mask=live & real, other=0.0)
    count = tl.load(counts + row, mask=row < n_rows, other=0.0)[:, None]
    # basis[column, score] is 0 but for biases
    up = tl.load(basis + column[:, None] * S + score[None, :], mask=(column < STRIDE)[:, None] & scored, other=0.0)
    own = slopes + row[:, None] * SPELT
    slope = tl.load(own + column[None, :], mask=live & (column < K)[None, :], other=0.0)
    by_score = tl.load(own + K + score[None, :], mask=live & scored, other=0.0)
    slope += tl.dot(by_score, tl.trans(up), input_precision="ieee")
    f = tl.load(
        features + row[:, None] * N_FEATURES + feature[None, :], mask=live & (feature < N_FEATURES)[None, :], other=0.0
    )
    W = tl.load(
        weights + feature[:, None] * STRIDE + column[None, :], mask=(feature < N_FEATURES)[:, None] & real, other=0.0
    )
    away = x - tl.dot(f, W, input_precision="ieee")
    stiff = tl.load(
        precision + column[:, None] * STRIDE + column[None, :], mask=(column < STRIDE)[:, None] & real, other=0.0
    )
    pull = tl.dot(away, stiff, input_precision="ieee")
    in_doubt = tl.load(doubt + column, mask=column < STRIDE, other=0.0)
    doubtful = in_doubt[None, :] * count * x
    price = 0.5 * (away * pull + doubtful * x)
    diagonal = tl.load(precision + column * (STRIDE + 1), mask=column < STRIDE, other=1.0)[None, :]
    mean_square = tl.load(moments + column, mask=column < STRIDE, other=0.0) / n_ratings
    of = tl.load(function + column, mask=column < STRIDE, other=0)
    variance = tl.load(squares + of) / n_ratings
    is_factor = tl.load(factor + column, mask=column < STRIDE, other=0.0)
    is_bias = tl.load(bias + column, mask=column < STRIDE, other=0.0)
    bend = (variance * (is_factor * mean_square + is_bias)).to(tl.float32) + in_doubt
    sure = 1.0 / (bend[None, :] * count + diagonal)
    v = memory * v + (slope - pull - doubtful) * sure / length
    x += v
    tl.store(velocity + at, v, mask=live & real)
    tl.store(rows + at, x, mask=live & real)
    out = spelt + row[:, None] * SPELT
    tl.store(out + column[None, :], x, mask=live & (column < K)[None, :])
    tl.store(out + K + score[None, :], tl.dot(x, up, input_precision="ieee"), mask=live & scored)
    part = parts + tl.program_id(0).to(tl.int64) * 4 * STRIDE + column
    sure = tl.where(live, sure, 0.0)
    tl.store(part, tl.sum(count * x * x, 0), mask=column < STRIDE)
    tl.store(part + STRIDE, tl.sum(count * sure, 0), mask=column < STRIDE)
    tl.store(part + 2 * STRIDE, tl.sum(sure, 0), mask=column < STRIDE)
    tl.store(part + 3 * STRIDE, tl.sum(price, 0), mask=column < STRIDE)


def glide(
    rows: Tensor, velocity: Tensor, spelt: Tensor, slopes: Tensor, features: Tensor, counts: Tensor, prior: Any,
    columns: Any, known: tuple[Tensor, Tensor], basis: Tensor, n_factors: int, n_ratings: float, length: float,
    memory: float, sums: Tensor,
) -> None:  # fmt: skip
    """Move all rows of a side; leave sums over them of n x², n / h, 1 / h and the price, each (stride,), in `sums`.

    `prior` is weights, precision and doubt, and `columns` says what the numbers of a row are, as for
    ``models.ascent.Passes``; `known` are such sums of the other side and the squared residuals of the basis functions,
    of which the curvature is made; `basis`, (stride, scores), turns the biases of a row into those of scores; `spelt`
    gets the rows as the slopes' kernel reads them.
    """
    n_rows, stride = rows.shape
    parts: Any = torch.empty((-(-n_rows // ROWS), 4, stride), device=rows.device)
    _glide[len(parts),](
        rows, velocity, spelt, slopes, features, counts, *prior, *columns, *known, basis, parts, n_rows, n_ratings,
        length, memory,
        K=n_factors, S=basis.shape[1], N_FEATURES=features.shape[1], STRIDE=stride, SPELT=spelt.shape[1],
        COLUMNS=max(16, triton.next_power_of_2(stride)), SCORES=max(16, triton.next_power_of_2(basis.shape[1])),
        FEATURES=max(16, triton.next_power_of_2(features.shape[1])), ROWS=ROWS, num_warps=4,
    )  # fmt: skip
    torch.sum(parts, 0, dtype=torch.float64, out=sums)
