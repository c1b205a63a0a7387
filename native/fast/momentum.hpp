// ResBeMF's gradient step: a heavy ball, each number slowed by the curvature that the row is likely to have there.
#pragma once

#include "kernels.hpp"
#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

// v <- momentum v + (sums - decay x) / (stiffness decay + n bend), x <- x + v; what the next pass wants to know of all
// rows is added to the tally. Padding has neither gradient nor decay, and a bend of 1, so it stays 0.
STARCAST_INLINE void roll(const Pass& pass, int64_t stride, int64_t row, float n, const float* sums) {
  using L = Lanes<16>;
  float *x = pass.rows + row * stride, *v = pass.velocity + row * stride, *tally = pass.tally;
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

// A row without ratings has nothing but its prior.
STARCAST_INLINE void rest(const Pass& pass, int64_t stride, int64_t row) {
  std::memset(pass.rows + row * stride, 0, sizeof(float) * stride);
  std::memset(pass.velocity + row * stride, 0, sizeof(float) * stride);
}

}  // namespace starcast::STARCAST_ISA_NS
