// What the gradient kernels share: which ratings of a row to walk, its sums, and the step that they make.
#pragma once

#include "kernels.hpp"
#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

// x += rate (sums - decay x); padding is 0 and stays it.
STARCAST_INLINE void slide(const Pass& pass, int64_t stride, int64_t row, const float* sums) {
  using L = Lanes<16>;
  float* x = pass.rows + row * stride;
  for (int64_t at = 0; at < stride; at += 16) {
    const L old = L::load(x + at);
    (old + (L::load(sums + at) - old * pass.regularization) * pass.learning_rate).store(x + at);
  }
}

// ResBeMF's step, a heavy ball (reference_climb.py): v <- momentum v + (sums - decay x) / (stiffness decay + n bend), x
// <- x + v; what the next pass wants to know of all rows is added to the tally. Padding has neither gradient nor decay,
// and a bend of 1, so it stays 0. A row without ratings has nothing but its prior, and goes there at once.
STARCAST_INLINE void roll(const Pass& pass, int64_t stride, int64_t row, float n, const float* sums) {
  using L = Lanes<16>;
  float *x = pass.rows + row * stride, *v = pass.velocity + row * stride, *tally = pass.tally;
  if (n == 0) {
    std::memset(x, 0, sizeof(float) * stride);
    std::memset(v, 0, sizeof(float) * stride);
    return;
  }
  for (int64_t at = 0; at < stride; at += 16) {
    const L old = L::load(x + at), decay = L::load(pass.decay + at);
    const L h = fma(L::load(pass.bend + at), L::all(n), decay * pass.stiffness);
    const L speed = L::load(v + at) * pass.momentum + (L::load(sums + at) - decay * old) / h;
    const L moved = old + speed, square = moved * moved;
    speed.store(v + at);
    moved.store(x + at);
    fma(square, L::all(n), L::load(tally + at)).store(tally + at);
    (L::load(tally + stride + at) + square).store(tally + stride + at);
    (L::load(tally + 2 * stride + at) + moved).store(tally + 2 * stride + at);
  }
}

// The ratings of a row in the window, its sums so far, and where the strip after next begins.
struct Visit {
  const Pass& pass;
  const int64_t row, last_row, stride, begin = pass.window.begins[row], end = pass.window.ends[row];
  float* const sums;

  STARCAST_INLINE Visit(const Pass& p, int64_t row, int64_t last_row, int64_t stride, float* scratch)
      : pass(p),
        row(row),
        last_row(last_row),
        stride(stride),
        sums(p.window.sums ? p.window.sums + row * stride : scratch) {
    // What the step and the next row will want is far away by then.
    if (p.velocity) prefetch(p.velocity + row * stride, stride);
    if (row + 1 < last_row) prefetch(p.rows + (row + 1) * stride, stride);
  }

  STARCAST_INLINE void begin_sums() const {
    if (pass.window.first) std::memset(sums, 0, sizeof(float) * stride);
  }
  // The rating that a strip follows on the one at j: further on in the row, or at the start of the next.
  STARCAST_INLINE int64_t after(int64_t j, int length) const {
    return j + length < end ? j + length : row + 1 < last_row ? pass.window.begins[row + 1] : end;
  }
  // Where ratings may be asked for.
  STARCAST_INLINE int64_t limit() const { return pass.window.ends[last_row - 1]; }
  STARCAST_INLINE void step() const {
    if (pass.velocity) roll(pass, stride, row, static_cast<float>(pass.indptr[row + 1] - pass.indptr[row]), sums);
    else slide(pass, stride, row, sums);
  }
};

// Logarithms come cheaper for many rows at once: the first of them gets the log-likelihood of all.
STARCAST_INLINE void report(const Pass& pass, int64_t first, int64_t last, double loglik) {
  if (pass.window.first)
    for (int64_t row = first; row < last; ++row) pass.row_loglik[row] = 0;
  pass.row_loglik[first] += loglik;
}

}  // namespace starcast::STARCAST_ISA_NS
