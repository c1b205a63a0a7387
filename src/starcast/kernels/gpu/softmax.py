"""Rows with a number per factor and score, tied by a softmax (ResBeMF): slopes, steps and answers in Triton.

A row is `planes` x `scores` numbers without padding; a program reads them as one or two blocks whose number of planes
is a power of two, because Triton knows no other, and leaves masked lanes alone, so that 20 factors and 10 scores cost
the traffic of 200 numbers.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from starcast.kernels.gpu.device import Segments, Tensor


@triton.jit
def _slopes(
    turn, seg_row, seg_begin, seg_end, other, score, rows, others, base, values, recklessness, sums, loglik,
    n_rows, n_others, n_segments,
    K: tl.constexpr, S: tl.constexpr, LANES: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr,
    BIASED: tl.constexpr, PUBLISHED: tl.constexpr, SCORED: tl.constexpr, BOLD: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Sum the slopes of one segment over its ratings, in registers; one program a segment and model.

    Blocks are (planes, ratings x scores): Triton spreads the threads over the last axis first, so with a tile of some
    ratings the sums over the planes stay within a thread.
    """
    L: tl.constexpr = (K + BIASED) * S
    segment = tl.load(turn + tl.program_id(0))
    model = tl.program_id(1).to(tl.int64)
    row = tl.load(seg_row + segment).to(tl.int64)
    x = rows + (model * n_rows + row) * L
    kind = rows.dtype.element_ty
    lane = tl.arange(0, TILE * LANES)
    s, place = lane % LANES, lane // LANES  # the score and the rating of a lane
    real = s < S
    head = tl.arange(0, HEAD)[:, None]
    head_at, head_real = head * S + s[None, :], (head < K) & real[None, :]
    x_head = tl.load(x + head_at, mask=head_real, other=0.0)
    sum_head = tl.zeros((HEAD, TILE * LANES), kind)
    if TAIL:
        tail = HEAD + tl.arange(0, TAIL)[:, None]
        tail_at, tail_real = tail * S + s[None, :], (tail < K) & real[None, :]
        x_tail = tl.load(x + tail_at, mask=tail_real, other=0.0)
        sum_tail = tl.zeros((TAIL, TILE * LANES), kind)
    start = tl.load(base + model * S + s, mask=real, other=0.0)
    if BIASED:
        start += tl.load(x + K * S + s, mask=real, other=0.0)
        total = tl.zeros((TILE * LANES,), kind)
    start = tl.where(real, start, float("-inf"))
    if SCORED:
        fit = tl.zeros((TILE, LANES), kind)
    begin, end = tl.load(seg_begin + segment), tl.load(seg_end + segment)
    for first in range(begin, end, TILE):
        j = first + place
        live = j < end
        j = tl.minimum(j, end - 1)  # the last rating again, whose slope is then left out: no mask on what is read
        y = others + (model * n_others + tl.load(other + j).to(tl.int64)) * L
        y_head = tl.load(y[None, :] + head_at, mask=head_real, other=0.0)
        z = start + tl.sum(x_head * y_head, 0)
        if TAIL:
            y_tail = tl.load(y[None, :] + tail_at, mask=tail_real, other=0.0)
            z += tl.sum(x_tail * y_tail, 0)
        if BIASED:
            z += tl.load(y + K * S + s, mask=real, other=0.0)
        z = tl.reshape(z, (TILE, LANES))
        given = tl.reshape(tl.where(s == tl.load(score + j).to(tl.int32), 1.0, 0.0).to(kind), (TILE, LANES))
        if PUBLISHED:  # unshifted, and the given score's probability for every score: as published
            e = tl.exp(z)
            sigma = tl.sum(tl.where(given > 0, e, 0.0), 1) / tl.sum(e, 1)  # e may be infinite
            g = tl.reshape(given - sigma[:, None], (TILE * LANES,))
            g = tl.where(live & real, g, 0.0)
        else:
            z -= tl.max(z, 1)[:, None]
            e = tl.exp(z)
            norm = tl.sum(e, 1)[:, None]
            p = e * (1.0 / norm)
            g = given - p
            gain = tl.where(given > 0, z - tl.log(norm), 0.0)
            if BOLD:
                value = tl.load(values + tl.arange(0, LANES), mask=tl.arange(0, LANES) < S, other=0.0)[None, :]
                away = value - tl.sum(p * value, 1)[:, None]
                variance = tl.sum(p * away * away, 1)[:, None]
                g -= recklessness * p * (away * away - variance)
                gain -= recklessness * p * away * away
            g = tl.where(live, tl.reshape(g, (TILE * LANES,)), 0.0)
            if SCORED:
                fit += tl.where(tl.reshape(live, (TILE, LANES)), gain, 0.0)
        sum_head += g[None, :] * y_head
        if TAIL:
            sum_tail += g[None, :] * y_tail
        if BIASED:
            total += g
    out = sums + (model * n_segments + segment) * L
    _store_planes(out, sum_head, 0, K, S, HEAD, TILE, LANES)
    if TAIL:
        _store_planes(out, sum_tail, HEAD, K, S, TAIL, TILE, LANES)
    if BIASED:
        s = tl.arange(0, LANES)
        tl.store(out + K * S + s, tl.sum(tl.reshape(total, (TILE, LANES)), 0), mask=s < S)
    if SCORED:
        tl.store(loglik + model * n_segments + segment, tl.sum(tl.sum(fit, 1), 0))


@triton.jit
def _store_planes(
    out, sums, first, K: tl.constexpr, S: tl.constexpr, PLANES: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr
):  # fmt: skip
    plane, s = first + tl.arange(0, PLANES)[:, None], tl.arange(0, LANES)[None, :]
    folded = tl.sum(tl.reshape(sums, (PLANES, TILE, LANES)), 1)
    tl.store(out + plane * S + s, folded, mask=(plane < K) & (s < S))


@triton.jit
def row_sum(sums, begin, end, L: tl.constexpr, LANES: tl.constexpr, KIND: tl.constexpr):
    """Add up a row's segments, four at a time and always in the same order."""
    lane = tl.arange(0, LANES)[None, :]
    total = tl.zeros((4, LANES), KIND)
    for first in range(begin, end, 4):
        segment = first + tl.arange(0, 4)[:, None]
        total += tl.load(sums + segment * L + lane, mask=(segment < end) & (lane < L), other=0.0)
    return tl.sum(total, 0)


@triton.jit
def _step(
    of_row, counts, sums, rows, velocity, curve, decay, stiffness,
    L: tl.constexpr, LANES: tl.constexpr, MOMENTUM: tl.constexpr,
):  # fmt: skip
    """Add up the slopes of a row's segments, in order, and move the row: a heavy ball with an average curvature."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    real = lane < L
    g = row_sum(sums, tl.load(of_row + row), tl.load(of_row + row + 1), L, LANES, tl.float32)
    x = tl.load(rows + row * L + lane, mask=real, other=0.0)
    v = tl.load(velocity + row * L + lane, mask=real, other=0.0)
    weight = tl.load(decay + lane, mask=real, other=1.0)
    n = tl.load(counts + row)
    h = weight + n * tl.load(curve + lane, mask=real, other=0.0) + 1e-30
    v = tl.where(n > 0, MOMENTUM * v + (g - weight * x) / (stiffness * h), 0.0)
    tl.store(velocity + row * L + lane, v, mask=real)
    tl.store(rows + row * L + lane, tl.where(n > 0, x + v, 0.0), mask=real)


@triton.jit
def _tally(counts, rows, out, n_rows, L: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr):
    """Sum n x^2, x^2 and x over some rows, n the number of ratings of a row."""
    lane = tl.arange(0, LANES)
    weighted = tl.zeros((LANES,), tl.float32)
    squares, total = weighted, weighted
    begin = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(begin, tl.minimum(begin + ROWS, n_rows)):
        x = tl.load(rows + row * L + lane, mask=lane < L, other=0.0)
        weighted += tl.load(counts + row) * x * x
        squares += x * x
        total += x
    at = out + tl.program_id(0).to(tl.int64) * 3 * L + lane
    tl.store(at, weighted, mask=lane < L)
    tl.store(at + L, squares, mask=lane < L)
    tl.store(at + 2 * L, total, mask=lane < L)


@triton.jit
def _published_step(
    of_row, counts, sums, rows, rates, decays, n_rows, n_segments, L: tl.constexpr, LANES: tl.constexpr
):  # fmt: skip
    """Move a row as published: its decay counts once per rating."""
    row, model = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, LANES)
    real = lane < L
    own = sums + model * n_segments * L
    g = row_sum(own, tl.load(of_row + row), tl.load(of_row + row + 1), L, LANES, rows.dtype.element_ty)
    at = rows + (model * n_rows + row) * L + lane
    x = tl.load(at, mask=real, other=0.0)
    decay = tl.load(decays + model) * tl.load(counts + row)
    tl.store(at, x + tl.load(rates + model) * (g - decay * x), mask=real)


@triton.jit
def _proba(
    user, item, P, Q, base, probs, n_pairs,
    K: tl.constexpr, S: tl.constexpr, LANES: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr,
    BIASED: tl.constexpr, PUBLISHED: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Write the probabilities of some pairs."""
    L: tl.constexpr = (K + BIASED) * S
    s = tl.arange(0, LANES)
    real = s < S
    head = tl.arange(0, HEAD)[:, None]
    head_at, head_real = head * S + s[None, :], (head < K) & real[None, :]
    begin = tl.program_id(0).to(tl.int64) * PAIRS
    for pair in range(begin, tl.minimum(begin + PAIRS, n_pairs)):
        p, q = P + tl.load(user + pair).to(tl.int64) * L, Q + tl.load(item + pair).to(tl.int64) * L
        z = tl.load(base + s, mask=real, other=0.0)
        x, y = tl.load(p + head_at, mask=head_real, other=0.0), tl.load(q + head_at, mask=head_real, other=0.0)
        z += tl.sum(x * y, 0)
        if TAIL:
            tail = HEAD + tl.arange(0, TAIL)[:, None]
            tail_at, tail_real = tail * S + s[None, :], (tail < K) & real[None, :]
            x, y = tl.load(p + tail_at, mask=tail_real, other=0.0), tl.load(q + tail_at, mask=tail_real, other=0.0)
            z += tl.sum(x * y, 0)
        if BIASED:
            z += tl.load(p + K * S + s, mask=real, other=0.0) + tl.load(q + K * S + s, mask=real, other=0.0)
        z = tl.where(real, z, float("-inf"))
        e = tl.exp(z) if PUBLISHED else tl.exp(z - tl.max(z, 0))
        tl.store(probs + pair * S + s, e / tl.sum(e, 0), mask=real)


def blocks(n_factors: int, n_scores: int) -> dict[str, int]:
    """Return the sizes of the blocks that the numbers of a row are read in."""
    head = 1 << (max(n_factors, 1).bit_length() - 1)
    rest = n_factors - head
    return {"HEAD": head, "TAIL": triton.next_power_of_2(rest) if rest > 0 else 0,
            "LANES": triton.next_power_of_2(n_scores), "K": n_factors, "S": n_scores}  # fmt: skip


def add_slopes(
    side: Segments, rows: Tensor, others: Tensor, base: Tensor, sums: Tensor, loglik: Tensor | None, n_factors: int, *,
    biased: bool = False, published: bool = False, values: Tensor | None = None, recklessness: float = 0.0,
    tile: int | None = None,
) -> None:  # fmt: skip
    """Write each segment's slopes into `sums`, (models, segments, planes x scores), and log-likelihood into `loglik`.

    Rows are (models, rows, planes x scores), base (models, scores). Four ratings at a time fill the lanes of a warp,
    but with many factors their rows would overfill its registers.
    """
    n_models, n_scores = base.shape
    _slopes[len(side), n_models](
        side.turn, side.row, side.begin, side.end, side.other, side.score, rows, others, base,
        base if values is None else values, recklessness, sums, sums if loglik is None else loglik, side.n_rows,
        others.shape[1], len(side), **blocks(n_factors, n_scores), BIASED=biased, PUBLISHED=published,
        SCORED=loglik is not None, BOLD=recklessness != 0, TILE=tile or (4 if n_factors <= 24 else 1), num_warps=1,
    )  # fmt: skip


def step(
    side: Segments, sums: Tensor, rows: Tensor, velocity: Tensor, curve: Tensor, decay: Tensor,
    stiffness: float, momentum: float,
) -> None:  # fmt: skip
    """Move every row of one model by the slopes of its segments."""
    L = rows.shape[-1]
    _step[side.n_rows,](
        side.of_row, side.counts, sums, rows, velocity, curve, decay, stiffness, L=L,
        LANES=triton.next_power_of_2(L), MOMENTUM=momentum, num_warps=1 if L <= 256 else 4,
    )  # fmt: skip


def tally(side: Segments, rows: Tensor) -> Tensor:
    """Return sums over the rows of n x^2, x^2 and x, with n the number of ratings of a row, in double precision."""
    (n_rows, L), each = rows.shape, 32
    parts: Any = torch.empty((-(-n_rows // each), 3, L), device=rows.device)
    _tally[len(parts),](side.counts, rows, parts, n_rows, L=L, LANES=triton.next_power_of_2(L), ROWS=each, num_warps=4)
    return parts.sum(0, dtype=torch.float64)


def published_step(side: Segments, sums: Tensor, rows: Tensor, rates: Tensor, decays: Tensor) -> None:
    """Move every row of all models as published."""
    L = rows.shape[-1]
    _published_step[side.n_rows, len(rows)](
        side.of_row, side.counts, sums, rows, rates, decays, side.n_rows, len(side), L=L,
        LANES=triton.next_power_of_2(L), num_warps=1,
    )  # fmt: skip


def proba(
    user: Tensor, item: Tensor, P: Tensor, Q: Tensor, base: Tensor, n_factors: int, *, biased: bool = False,
    published: bool = False,
) -> Tensor:  # fmt: skip
    """Return the probabilities of pairs, shape (pairs, scores)."""
    n_pairs, each = len(user), 16
    probs: Any = torch.empty((n_pairs, len(base)), dtype=P.dtype, device=P.device)
    if n_pairs:
        _proba[(n_pairs + each - 1) // each,](
            user, item, P, Q, base, probs, n_pairs, **blocks(n_factors, len(base)), BIASED=biased,
            PUBLISHED=published, PAIRS=each, num_warps=1,
        )  # fmt: skip
    return probs
