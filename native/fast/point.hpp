// PMF and BiasedMF: stochastic gradient steps rating by rating. Each row is a chain of steps, each waiting for the one
// before, so several rows of the same thread walk side by side; rows do not see each other within a pass, so the result
// is that of one after the other.
#pragma once

#include "kernels.hpp"
#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

template <int N>  // vectors of eight factors
struct Walker {
  using L = Lanes<8>;
  int64_t row = -1, at = 0, end = 0;
  L p[N];
  float bias = 0;
  double loss = 0;

  STARCAST_INLINE void enter(const PointPass& pass, int64_t r) {
    row = r;
    at = pass.indptr[r];
    end = pass.indptr[r + 1];
    for (int n = 0; n < N; ++n) p[n] = L::load(pass.rows + r * pass.stride + 8 * n);
    bias = pass.row_bias ? pass.row_bias[r] : 0.0f;
    loss = 0;
  }
  STARCAST_INLINE void leave(const PointPass& pass) {
    for (int n = 0; n < N; ++n) p[n].store(pass.rows + row * pass.stride + 8 * n);
    if (pass.row_bias) pass.row_bias[row] = bias;
    pass.row_loss[row] = loss;
    row = -1;
  }
  template <bool Biased>
  STARCAST_INLINE void step(const PointPass& pass, float keep) {
    const int64_t i = pass.other[at];
    const float* q = pass.others + i * pass.stride;
    if (at + 8 < end) __builtin_prefetch(pass.others + static_cast<int64_t>(pass.other[at + 8]) * pass.stride);
    L dot = p[0] * L::load(q);
    for (int n = 1; n < N; ++n) dot = fma(p[n], L::load(q + 8 * n), dot);
    float e = pass.values[pass.score[at]] - pass.mean;
    if (Biased) e -= bias + pass.other_bias[i];
    e -= sum(dot);
    const L pull = L::all(e * pass.learning_rate);
    for (int n = 0; n < N; ++n) p[n] = fma(pull, L::load(q + 8 * n), p[n] * keep);
    if (Biased) bias = bias * keep + e * pass.learning_rate;
    loss += static_cast<double>(e) * static_cast<double>(e);
    ++at;
  }
};

template <int N, bool Biased, int Active>
STARCAST_INLINE void walk(const PointPass& pass, float keep, Walker<N>* walkers, int64_t steps) {
  for (int64_t n = 0; n < steps; ++n)
    for (int w = 0; w < Active; ++w) walkers[w].template step<Biased>(pass, keep);
}

template <int N, bool Biased>
void point_rows(const PointPass& pass, int64_t first, int64_t last) {
  const float keep = 1.0f - pass.learning_rate * pass.regularization;
  Walker<N> walkers[4];
  int active = N <= 2 ? 4 : 2;
  int64_t next = first;
  for (;;) {
    int64_t steps = INT64_MAX;
    for (int n = 0; n < active;) {
      Walker<N>& w = walkers[n];
      while (w.at == w.end) {  // rows without ratings stay as they are
        if (w.row >= 0) w.leave(pass);
        if (next == last) break;
        w.enter(pass, next++);
      }
      if (w.at == w.end) w = walkers[--active];  // no row is left: those still walking close ranks
      else {
        if (w.end - w.at < steps) steps = w.end - w.at;
        ++n;
      }
    }
    switch (active) {
      case 4:
        walk<N, Biased, 4>(pass, keep, walkers, steps);
        break;
      case 3:
        walk<N, Biased, 3>(pass, keep, walkers, steps);
        break;
      case 2:
        walk<N, Biased, 2>(pass, keep, walkers, steps);
        break;
      case 1:
        walk<N, Biased, 1>(pass, keep, walkers, steps);
        break;
      default:
        return;
    }
  }
}

// More than 32 factors: the row stays in memory.
inline void point_rows_long(const PointPass& pass, int64_t first, int64_t last) {
  using L = Lanes<8>;
  const float keep = 1.0f - pass.learning_rate * pass.regularization;
  for (int64_t row = first; row < last; ++row) {
    float* p = pass.rows + row * pass.stride;
    float bias = pass.row_bias ? pass.row_bias[row] : 0.0f;
    double loss = 0;
    for (int64_t j = pass.indptr[row]; j < pass.indptr[row + 1]; ++j) {
      const int64_t i = pass.other[j];
      const float* q = pass.others + i * pass.stride;
      L dot0 = L::all(0.0f), dot1 = dot0;
      int k = 0;
      for (; k + 8 < pass.stride; k += 16) {
        dot0 = fma(L::load(p + k), L::load(q + k), dot0);
        dot1 = fma(L::load(p + k + 8), L::load(q + k + 8), dot1);
      }
      if (k < pass.stride) dot0 = fma(L::load(p + k), L::load(q + k), dot0);
      float e = pass.values[pass.score[j]] - pass.mean - sum(dot0 + dot1);
      if (pass.row_bias) e -= bias + pass.other_bias[i];
      const L pull = L::all(e * pass.learning_rate);
      for (k = 0; k < pass.stride; k += 8) fma(pull, L::load(q + k), L::load(p + k) * keep).store(p + k);
      bias = bias * keep + e * pass.learning_rate;
      loss += static_cast<double>(e) * static_cast<double>(e);
    }
    if (pass.row_bias) pass.row_bias[row] = bias;
    pass.row_loss[row] = loss;
  }
}

}  // namespace starcast::STARCAST_ISA_NS
