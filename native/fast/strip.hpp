// A strip of a row's ratings, worked on in three phases: logits, link, sums. Within a phase the tiles of eight ratings
// do not wait for each other, so the processor overlaps them; done tile by tile, one long chain of latencies was twice
// as slow. The strip fits the first-level cache.
#pragma once

#include "columns.hpp"
#include "visit.hpp"

namespace starcast::STARCAST_ISA_NS {

// S: lanes of a slot. D: n_scores where the compiler knows it, otherwise 0.
template <int S, int D>
struct Strip {
  static constexpr int capacity = S > 16 ? B : 32;
  const int n_scores;
  int n = 0, n_tiles = 0, n_batches = 0;
  const float* f[capacity];  // rows of the other side; beyond the end the first one again
  // One vector per score: the logits, and in their place the derivative of the objective by them; 0 beyond the end.
  // Then the curvature, likewise.
  alignas(64) float slopes[capacity / B][S][B];
  alignas(64) float curves[capacity / B][S][B];

  STARCAST_INLINE explicit Strip(int d) : n_scores(d) {}
  STARCAST_INLINE int d() const { return D ? D : n_scores; }
  STARCAST_INLINE int pack() const { return S / d(); }

  // Ratings in a strip: fewer when rows are long, so that the rows of the other side stay in the cache from the first
  // phase to the last.
  static STARCAST_INLINE int length(int64_t stride) {
    const int64_t fit = 3072 / (stride + 1) / B * B;
    return static_cast<int>(fit < B ? B : fit > capacity ? capacity : fit);
  }

  STARCAST_INLINE void gather(const Pass& pass, int64_t stride, int64_t j, int64_t end, int length) {
    n = end - j < length ? static_cast<int>(end - j) : length;
    n_tiles = (n + T - 1) / T;
    n_batches = (n + B - 1) / B;
    for (int t = 0; t < n; ++t) f[t] = pass.others + pass.other[j + t] * stride;
    for (int t = n; t < n_tiles * T; ++t) f[t] = f[0];
  }
  STARCAST_INLINE int ratings(int batch) const { return n - batch * B < B ? n - batch * B : B; }

  // start + sum over slots of x f, its planes added up: one vector per score for the eight ratings of a tile.
  STARCAST_INLINE void dot(int tile, const float* x, const Lanes<S>& start, int first_slot, int last_slot,
                           Ratings (&out)[S]) const {
    using L = Lanes<S>;
    constexpr int G = L::N >= 4 ? 2 : T / L::N;  // ratings handled together: as many as registers hold
    L rows[T];
    for (int t0 = 0; t0 < T; t0 += G) {
      const float* const* at = f + tile * T + t0;
      L z[G];
      for (int t = 0; t < G; ++t) z[t] = start;
      for (int k = first_slot; k < last_slot; ++k) {
        const L xk = L::load(x + k * S);
        for (int t = 0; t < G; ++t) z[t] = fma(xk, L::load(at[t] + k * S), z[t]);
      }
      for (int t = 0; t < G; ++t) rows[t0 + t] = z[t];
    }
    Ratings columns[S];
    to_columns(rows, columns);
    for (int s = 0; s < d(); ++s) {
      out[s] = columns[s];
      for (int q = 1; q < pack(); ++q) out[s] = out[s] + columns[q * d() + s];
    }
  }
  STARCAST_INLINE float* slope_at(int tile, int s) { return slopes[tile * T / B][s] + tile * T % B; }

  // Columns as one vector of W lanes per rating: the scores `copies` times side by side, the rest 0.
  template <int W>
  STARCAST_INLINE void turn_back(const float (*from)[S][B], int tile, int copies, Lanes<W> (&rows)[T]) const {
    Ratings columns[S];
    for (int s = 0; s < d(); ++s) columns[s] = Ratings::load(from[tile * T / B][s] + tile * T % B);
    turn_back(columns, copies, rows);
  }
  template <int W>
  STARCAST_INLINE void turn_back(const Ratings (&from)[S], int copies, Lanes<W> (&rows)[T]) const {
#if STARCAST_VECTOR_FLOATS == 16
    if constexpr (W == 16 && D == 5) {  // one turn and one permutation instead of two turns
      if (copies == 3) {
        Ratings narrow[8], wide[8];
        for (int s = 0; s < 8; ++s) narrow[s] = s < D ? from[s] : Ratings::all(0.0f);
        transpose(narrow, wide);
        for (int t = 0; t < T; ++t) {
          const Vec<16>::f both =
              __builtin_shufflevector(wide[t].v[0], wide[t].v[0], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
          rows[t].v[0] = __builtin_shufflevector(both, both, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5);
        }
        return;
      }
    }
#endif
    Ratings columns[W];
    for (int s = 0; s < W; ++s) columns[s] = s < copies * d() ? from[s % d()] : Ratings::all(0.0f);
    to_rows(columns, rows);
  }
};

// Asks for the rows that the next strip will need, a batch at a time, while this strip's link keeps the processor from
// waiting.
STARCAST_INLINE void ask_ahead(const Pass& pass, int64_t stride, int64_t j, int64_t end) {
  if (j + B <= end)
    for (int t = 0; t < B; ++t) prefetch(pass.others + pass.other[j + t] * stride, stride);
}

// A row as `dot` wants it. The product with the other row's biases must be those biases, so that plane is 1; the row's
// own biases go into the start.
template <int S>
STARCAST_INLINE Lanes<S> prepare(const RowLayout& layout, int n_factors, bool biased, const float* base, const float* x,
                                 float* prepared) {
  std::memcpy(prepared, x, sizeof(float) * layout.stride(n_factors + biased));
  alignas(64) float start[S] = {};
  for (int s = 0; s < layout.n_scores; ++s) {
    start[s] = base[s];
    if (!biased) continue;
    float& own = prepared[layout.offset(n_factors) + s];
    start[s] += own;
    own = 1.0f;
  }
  return Lanes<S>::load(start);
}

// Adds g f to sums (slots) and g to total (the gradient of the biases) for the ratings of a strip.
template <int S, int D>
STARCAST_INLINE void add_gradient(const Strip<S, D>& strip, int n_slots, float* sums, Lanes<S>& total) {
  using L = Lanes<S>;
  constexpr int G = L::N >= 4 ? 2 : T / L::N;
  for (int tile = 0; tile < strip.n_tiles; ++tile) {
    L g[T];
    strip.turn_back(strip.slopes, tile, strip.pack(), g);
    for (int t0 = 0; t0 < T; t0 += G) {
      const float* const* f = strip.f + tile * T + t0;
      for (int k = 0; k < n_slots; ++k) {
        L a = L::load(sums + k * S), b = g[t0 + 1] * L::load(f[1] + k * S);  // two chains
        for (int t = 0; t < G; t += 2) a = fma(g[t0 + t], L::load(f[t] + k * S), a);
        for (int t = 3; t < G; t += 2) b = fma(g[t0 + t], L::load(f[t] + k * S), b);
        (a + b).store(sums + k * S);
      }
    }
    total = total + (((g[0] + g[1]) + (g[2] + g[3])) + ((g[4] + g[5]) + (g[6] + g[7])));
  }
}

// The sum of log-likelihoods without a logarithm per rating: normalisers lie between 1 and 64, so that 10 of them can
// be multiplied in a lane.
struct LogLik {
  double total = 0;
  Batch linear = Batch::all(0.0f), normalisers = Batch::all(1.0f);
  int count = 0;
  STARCAST_INLINE void add(const Batch& shifted_logit, const Batch& normaliser) {
    linear = linear + shifted_logit;
    normalisers = normalisers * normaliser;
    if (++count == 10) fold();
  }
  STARCAST_INLINE void fold() {
    alignas(64) float lanes[B];
    normalisers.store(lanes);
    double product = 1;
    for (int t = 0; t < B; ++t) product *= static_cast<double>(lanes[t]);
    total += static_cast<double>(sum(linear)) - __builtin_log(product);
    linear = Batch::all(0.0f);
    normalisers = Batch::all(1.0f);
    count = 0;
  }
};

// Variance of the distributions whose columns are p, and its derivative by the logits of a softmax: p_s ((v_s - m)^2 -
// Var). The values v lie on -1 .. 1, so that the variance is at most 1.
template <int W>
struct Spread {
  Batch mean = Batch::all(0.0f), variance = Batch::all(0.0f);
  const float* v;
  STARCAST_INLINE Spread(const Batch (&p)[W], const float* values, int n_scores) : v(values) {
    for (int s = 0; s < n_scores; ++s) mean = fma(p[s], Batch::all(v[s]), mean);
    for (int s = 0; s < n_scores; ++s) variance = fma(p[s], square(s), variance);
  }
  STARCAST_INLINE Batch square(int s) const {
    const Batch c = mean - v[s];
    return c * c;
  }
  STARCAST_INLINE Batch slope(int s, const Batch& p) const { return p * (square(s) - variance); }
};

}  // namespace starcast::STARCAST_ISA_NS
