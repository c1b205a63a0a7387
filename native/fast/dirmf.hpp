// DirMF: steps rating by rating, for a range of rows. Each row is a chain of steps, each waiting for the one before,
// and a step is a long chain itself; so a batch of rows walks side by side, a rating of each at a time. Rows do not see
// each other within a pass, so the result is that of one after the other.
#pragma once

#include "strip.hpp"

namespace starcast::STARCAST_ISA_NS {

// digamma(1 + a) for a in [0, 1]: Chebyshev interpolation, error below 2e-8.
template <int W>
STARCAST_INLINE Lanes<W> digamma1(const Lanes<W>& a) {
  constexpr float c[] = {3.648997398e-02f,  9.348023120e-01f, -4.143983964e-01f, 2.348396392e-01f,
                         -1.447545028e-01f, 9.280868610e-02f, -6.048865248e-02f, 3.798675692e-02f,
                         -2.513021823e-02f, 2.398229799e-02f, -1.595531128e-02f};
  const Lanes<W> t = a - 0.5f;
  constexpr int n = sizeof(c) / sizeof(c[0]);
  Lanes<W> p = Lanes<W>::all(c[n - 1]);
  for (int k = n - 2; k >= 0; --k) p = p * t + c[k];
  return p;
}

// digamma(x) for x > 0: six steps of the recurrence at once, sum 1 / (x + i) = P' / P with P = x (x + 1) .. (x + 5),
// then the asymptotic series.
template <int W>
STARCAST_INLINE Lanes<W> digamma(const Lanes<W>& x) {
  using L = Lanes<W>;
  const L P = (((((x + 15.0f) * x + 85.0f) * x + 225.0f) * x + 274.0f) * x + 120.0f) * x;
  const L slope = ((((x * 6.0f + 75.0f) * x + 340.0f) * x + 675.0f) * x + 548.0f) * x + 120.0f;
  const L y = x + 6.0f, r = reciprocal(y), i = r * r;
  const L series = r * 0.5f + i * ((i * (1.0f / 252) - 1.0f / 120) * i + 1.0f / 12);
  return log(y) - series - slope * reciprocal(P);
}

// B rows on their way: x_s -= rate (a_s (1 - a_s) (psi(a_s) - psi(A) - ln rho_s) f_s + decay x_s), a = logistic(x . f),
// A = sum a. Here `values` are the ratings that the scores stand for.
template <int S, int D, bool Scored>
struct Walkers {
  using L = Lanes<S>;
  const Pass& pass;
  const int64_t last;
  const int n_slots;
  const int64_t stride = static_cast<int64_t>(n_slots) * S;
  int64_t next, at[B], end[B];
  float* x[B];
  uint64_t scores[B / 8];  // a byte each
  alignas(64) float gain[max_scores] = {},
                    level[max_scores] = {};  // ln rho of the true score, less that of the others; that of the others
  Strip<S, D> strip;
  double loglik = 0;
  Batch recent = Batch::all(0.0f);  // log-likelihood not yet in loglik

  STARCAST_INLINE Walkers(const Pass& p, int64_t first, int64_t last, float* nowhere)
      : pass(p), last(last), n_slots(RowLayout(p.n_scores).slots(p.n_factors)), next(first), strip(p.n_scores) {
    std::memset(nowhere, 0, sizeof(float) * stride);
    for (int t = 0; t < B; ++t) {
      at[t] = end[t] = 0;
      x[t] = nowhere;  // where those walk that have no row
      strip.f[t] = pass.others;
    }
    for (int s = 0; s < p.n_scores; ++s) {
      const double v = static_cast<double>(p.values[s]);
      gain[s] = p.values[s];
      level[s] = static_cast<float>(-__builtin_log(p.n_scores - 1 + __builtin_exp(v)));
    }
  }

  // Gives rows to those at the end of theirs; returns how many steps all can take before that is so again, 0 at the
  // end.
  STARCAST_INLINE int64_t settle(float* nowhere) {
    int64_t steps = 0;
    for (int t = 0; t < B; ++t) {
      while (at[t] == end[t] && next < last) {  // rows without ratings stay as they are
        const int64_t row = pass.order ? pass.order[next] : next;
        ++next;
        at[t] = pass.indptr[row];
        end[t] = pass.indptr[row + 1];
        x[t] = pass.rows + row * stride;
      }
      if (at[t] == end[t]) {
        x[t] = nowhere;
        strip.f[t] = pass.others;
      } else if (steps == 0 || end[t] - at[t] < steps) steps = end[t] - at[t];
    }
    return steps;
  }

  // Scores are put together in registers: bytes that were just stored are slow to load as a vector. Those without a row
  // have the score -1, which no score equals.
  STARCAST_INLINE void gather() {
    for (int h = 0; h < B / 8; ++h) {
      uint64_t bytes = 0;
#pragma GCC unroll 8
      for (int t = 8 * h; t < 8 * h + 8; ++t) {
        uint64_t own = 0xff;
        if (at[t] < end[t]) {
          strip.f[t] = pass.others + pass.other[at[t]] * stride;
          own = static_cast<uint8_t>(pass.score[at[t]]);
          if (++at[t] < end[t]) prefetch(pass.others + pass.other[at[t]] * stride, stride);
        }
        bytes |= own << t % 8 * 8;
      }
      scores[h] = bytes;
    }
  }

  // The dot products of eight rows: one vector per score.
  STARCAST_INLINE void dot(int tile, Ratings (&y)[S]) const {
    float* const* own = x + tile * T;
    const float* const* f = strip.f + tile * T;
    L rows[T];
    for (int t = 0; t < T; ++t) rows[t] = L::load(own[t]) * L::load(f[t]);
    for (int k = 1; k < n_slots; ++k)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) rows[t] = fma(L::load(own[t] + k * S), L::load(f[t] + k * S), rows[t]);
    Ratings columns[S];
    to_columns(rows, columns);
    for (int s = 0; s < strip.d(); ++s) {
      y[s] = columns[s];
      for (int q = 1; q < strip.pack(); ++q) y[s] = y[s] + columns[q * strip.d() + s];
    }
  }

  // How far each number goes: one vector per score.
  STARCAST_INLINE void link(Batch (&pull)[S]) {
    const int n = strip.d();
    const Truth truth(scores);
    const Batch one = Batch::all(1.0f), none = Batch::all(0.0f);
    Ratings y[B / T][S];
    for (int tile = 0; tile < B / T; ++tile) dot(tile, y[tile]);
    Batch a[S], A = none, chosen = none;
    for (int s = 0; s < n; ++s) {
      a[s] = logistic(side_by_side(y, s));
      A = A + a[s];
      if constexpr (Scored) chosen = chosen + truth.where(s, a[s]);
    }
    const Batch common = digamma(A) + truth.look_up(level, n);
    for (int s = 0; s < n; ++s) {
      // a psi(a) = a psi(1 + a) - 1, which stays finite as a goes to 0.
      const Batch from = digamma1(a[s]) - common - truth.where(s, Batch::all(gain[s]));
      pull[s] = (one - a[s]) * (one - a[s] * from) * pass.learning_rate;
    }
    if constexpr (Scored) {
      Batch chance = chosen * reciprocal(A);
      for (int v = 0; v < Batch::N; ++v)  // 1 where there is no row
        chance.v[v] =
            chance.v[v] + reinterpret_cast<Batch::F>(reinterpret_cast<Truth::Bits>(one.v[v]) & ~truth.real[v]);
      recent = recent + log(chance);
    }
  }

  static STARCAST_INLINE Batch side_by_side(const Ratings (&y)[B / T][S], int s) {
    Batch both;
#if STARCAST_VECTOR_FLOATS == 16
    both.v[0] =
        __builtin_shufflevector(y[0][s].v[0], y[1][s].v[0], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    for (int v = 0; v < Batch::N; ++v) both.v[v] = y[0][s].v[v];
#endif
    return both;
  }

  STARCAST_INLINE void move(const Batch (&pull)[S]) {
    const float keep = 1.0f - pass.learning_rate * pass.regularization;
    for (int tile = 0; tile < B / T; ++tile) {
      // Not by way of memory: half of a vector that was just stored is slow to load.
      Ratings eight[S];
      for (int s = 0; s < strip.d(); ++s) eight[s] = eighth(pull[s], tile);
      L g[T];
      strip.turn_back(eight, strip.pack(), g);
      float* const* own = x + tile * T;
      const float* const* f = strip.f + tile * T;
      for (int k = 0; k < n_slots; ++k)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
          fma(g[t], L::load(f[t] + k * S), L::load(own[t] + k * S) * keep).store(own[t] + k * S);
    }
  }

  STARCAST_INLINE void walk(int64_t steps) {
    for (int64_t n = 0; n < steps; ++n) {
      gather();
      Batch pull[S];
      link(pull);
      move(pull);
      if constexpr (Scored)
        if (n % 16 == 15 || n == steps - 1) {
          loglik += static_cast<double>(sum(recent));
          recent = Batch::all(0.0f);
        }
    }
  }
};

template <int S, int D, bool Scored>
void dirmf_sgd_rows(const Pass& pass, int64_t first, int64_t last, float* nowhere) {
  Walkers<S, D, Scored> walkers(pass, first, last, nowhere);
  while (const int64_t steps = walkers.settle(nowhere)) {
    walkers.walk(steps);
    // Who has no row walks on the spot, and must not run away there.
    std::memset(nowhere, 0, sizeof(float) * walkers.stride);
  }
  if constexpr (Scored) {
    for (int64_t row = first; row < last; ++row) pass.row_loglik[row] = 0;
    pass.row_loglik[first] = walkers.loglik;
  }
}

}  // namespace starcast::STARCAST_ISA_NS
