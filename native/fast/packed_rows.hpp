// Gradient steps of ResBeMF and BeMF on packed lanes (packed.hpp): the usual numbers of scores without recklessness.
#pragma once

#include "packed.hpp"

#if STARCAST_VECTOR_FLOATS == 16

namespace starcast::STARCAST_ISA_NS {

// A strip of ratings in three phases, as in strip.hpp, R ratings to a register.
template <typename Model, int D>
struct PackedStrip {
  static constexpr int R = Packing<D>::R, V = Packing<D>::V;
  static constexpr int together = R == 1 ? 4 : 1;  // packs whose dot products are taken side by side
  static constexpr int most = 48;                  // ratings gathered at a time
  int n = 0, n_packs = 0;
  const float* f[most];                   // rows of the other side; beyond the end its first row
  alignas(64) int8_t score[64];           // beyond the end -1, which no score equals
  alignas(64) float lanes[most / R][16];  // logits in units of ln 2, and in their place the slopes

  // Fewer when rows are long, so that they stay in the first-level cache from the first phase to the last.
  static STARCAST_INLINE int length(int64_t stride) {
    const int64_t unit = R * together, fit = 3072 / (stride + 1) / unit * unit;
    return static_cast<int>(fit < unit ? unit : fit > most ? most : fit);
  }

  // Always `most` ratings, masked beyond the end: a loop that ends now here, now there, would cost more.
  STARCAST_INLINE void gather(const Pass& pass, int64_t stride, int64_t j, int64_t end, int length) {
    n = end - j < length ? static_cast<int>(end - j) : length;
    n_packs = (n + R - 1) / R;
    const __mmask64 rated = (uint64_t(1) << n) - 1;
    const __m512i first = _mm512_set1_epi64(reinterpret_cast<int64_t>(pass.others)),
                  bytes = _mm512_set1_epi64(stride * sizeof(float));
    for (int t = 0; t < most; t += 8) {
      const __m512i other =
          _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(static_cast<__mmask8>(rated >> t), pass.other + j + t));
      _mm512_storeu_si512(f + t, _mm512_add_epi64(first, _mm512_mullo_epi64(other, bytes)));
    }
    _mm512_store_si512(score, _mm512_mask_loadu_epi8(_mm512_set1_epi8(-1), rated, pass.score + j));
  }

  // lanes = start + the dot products with x.
  STARCAST_INLINE void dot(const float* x, int n_slots, const Wide& start) {
    for (int pack = 0; pack < n_packs; pack += together) {
      const float* const* at = f + pack * R;
      Wide z[together][R][V];
      for (int k = 0; k < n_slots; ++k)
        for (int v = 0; v < V; ++v) {
          const Wide xk = Wide::load(x + 16 * (V * k + v));
          for (int p = 0; p < together; ++p)
            for (int t = 0; t < R; ++t) {
              const Wide fk = Wide::load(at[p * R + t] + 16 * (V * k + v));
              z[p][t][v] = k == 0 ? xk * fk : fma(xk, fk, z[p][t][v]);
            }
        }
      for (int p = 0; p < together; ++p) add_planes<D>(z[p], start).store(lanes[pack + p]);
    }
  }

  template <bool Scored>
  STARCAST_INLINE void link(int pack, Log2Lik& loglik) {
    int32_t scores;
    std::memcpy(&scores, score + pack * R, sizeof scores);
    const Wide t = tamed<Model, D>(Wide::load(lanes[pack]));
    slopes<Model, D, Scored, R == 1>(t, Model::weights(t), truth_of<D>(scores), Packing<D>::rated(n - pack * R), loglik)
        .store(lanes[pack]);
  }

  // sums += g f over N registers from the first one.
  template <int N>
  STARCAST_INLINE void add_registers(int first, float* sums) const {
    Wide sum[N];
    for (int k = 0; k < N; ++k) sum[k] = Wide::load(sums + 16 * (first + k));
    for (int pack = 0; pack < n_packs; ++pack) {
      const Wide packed = Wide::load(lanes[pack]);
      for (int t = 0; t < R; ++t) {
        Wide g[V];
        for (int v = 0; v < V; ++v) g[v] = packing<D>.spread[t][v](packed);
        const float* row = f[pack * R + t] + 16 * first;
        for (int k = 0; k < N; ++k) sum[k] = fma(g[k % V], Wide::load(row + 16 * k), sum[k]);
      }
    }
    for (int k = 0; k < N; ++k) sum[k].store(sums + 16 * (first + k));
  }

  // sums += g f, total += g (packed) for the ratings of the strip. Up to eight sums at a time stay in registers.
  STARCAST_INLINE void add_gradient(int n_registers, float* sums, Wide& total) const {
    int k = 0;
    for (; k + 8 < n_registers; k += 8) add_registers<8>(k, sums);
    switch (n_registers - k) {
#define STARCAST_CASE(n)       \
  case n:                      \
    add_registers<n>(k, sums); \
    break;
      STARCAST_CASE(1)
      STARCAST_CASE(2)
      STARCAST_CASE(3)
      STARCAST_CASE(4)
      STARCAST_CASE(5)
      STARCAST_CASE(6)
      STARCAST_CASE(7)
      STARCAST_CASE(8)
#undef STARCAST_CASE
    }
    for (int pack = 0; pack < n_packs; ++pack) total = total + Wide::load(lanes[pack]);
  }
};

// Asks for the rows that the next strip will need, a pack at a time.
template <int R>
STARCAST_INLINE void ask_ahead_for(const Pass& pass, int64_t stride, int64_t j, int64_t end) {
  if (j + R <= end)
    for (int t = 0; t < R; ++t) prefetch(pass.others + pass.other[j + t] * stride, stride);
}

// The moving row: what the dot products want of it, and where its biases lie.
template <typename Model, int D>
struct PackedRow {
  const Pass& pass;
  const int n_registers = static_cast<int>(RowLayout(D).stride(pass.n_factors + pass.biased) / 16);
  const int bias_at = RowLayout(D).offset(pass.n_factors);
  const __mmask16 biases = pass.biased ? Packing<D>::group(0) : 0;
  Wide base;

  STARCAST_INLINE explicit PackedRow(const Pass& p) : pass(p) {
    base.v[0] = _mm512_maskz_loadu_ps(Model::based ? Packing<D>::group(0) : 0, pass.base);
  }

  STARCAST_INLINE Wide start() const { return over_ratings(base * Model::unit); }

  // A copy of x times `unit`, for the dot products; returns what they start from. The product with the other row's
  // biases must be those biases, so that plane is 1; the row's own biases go into the start.
  STARCAST_INLINE Wide prepare(const float* x, float* prepared) const {
    for (int k = 0; k < n_registers; ++k) (Wide::load(x + 16 * k) * Model::unit).store(prepared + 16 * k);
    _mm512_mask_storeu_ps(prepared + bias_at, biases, _mm512_set1_ps(Model::unit));
    Wide start;
    start.v[0] = (base.v[0] + _mm512_maskz_loadu_ps(biases, x + bias_at)) * Model::unit;
    return over_ratings(start);
  }
  // The sums of the biases so far, to be kept while those of the other planes grow.
  STARCAST_INLINE Wide bias_sums(const float* sums) const {
    Wide before;
    before.v[0] = _mm512_maskz_loadu_ps(biases, sums + bias_at);
    return before;
  }
  // They are the slopes added up, packed in total.
  STARCAST_INLINE void put_bias_sums(const Wide& before, const Wide& total, float* sums) const {
    Wide by_score = before + total;
    if constexpr (Packing<D>::R == 3)
      for (int t = 1; t < 3; ++t) by_score = by_score + packing<D>.turn[t](total);
    _mm512_mask_storeu_ps(sums + bias_at, biases, by_score.v[0]);
  }
  static STARCAST_INLINE Wide over_ratings(const Wide& one) {
    if constexpr (Packing<D>::R == 1) return one;
    else return packing<D>.spread[0][0](one);
  }
};

// One step of a row by all of its ratings.
template <typename Model, int D, bool Scored>
void packed_gradient_rows(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  constexpr int R = Packing<D>::R;
  const PackedRow<Model, D> mover(pass);
  const int n_slots = mover.n_registers / Packing<D>::V;
  const int64_t stride = static_cast<int64_t>(mover.n_registers) * 16;
  const int length = PackedStrip<Model, D>::length(stride);
  float* prepared = scratch + stride;
  PackedStrip<Model, D> strip;
  Log2Lik loglik;
  for (int64_t row = first; row < last; ++row) {
    const Visit visit(pass, row, last, stride, scratch);
    visit.begin_sums();
    const Wide start = mover.prepare(pass.rows + row * stride, prepared), before = mover.bias_sums(visit.sums);
    Wide total = Wide::all(0.0f);
    for (int64_t j = visit.begin; j < visit.end; j += length) {
      strip.gather(pass, stride, j, visit.end, length);
      strip.dot(prepared, n_slots, start);
      const int64_t next = visit.after(j, length);
      for (int pack = 0, n_packs = strip.n_packs; pack < n_packs; ++pack) {
        ask_ahead_for<R>(pass, stride, next + pack * R, visit.limit());
        strip.template link<Scored>(pack, loglik);
        if constexpr (Scored) loglik.part();
      }
      strip.add_gradient(mover.n_registers, visit.sums, total);
    }
    mover.put_bias_sums(before, total, visit.sums);
    if (pass.window.last) visit.step();
  }
  if constexpr (Scored) report(pass, first, last, loglik.natural());
}

}  // namespace starcast::STARCAST_ISA_NS

#endif
