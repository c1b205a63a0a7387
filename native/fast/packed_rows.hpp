// Gradient steps of ResBeMF and BeMF on packed lanes (packed.hpp): the usual number of scores without recklessness.
#pragma once

#include "packed.hpp"

#if STARCAST_VECTOR_FLOATS == 16

namespace starcast::STARCAST_ISA_NS {

// A strip of ratings in three phases, as in strip.hpp, P ratings to a register.
template <int D>
struct PackedStrip {
  static constexpr int P = Packing<D>::P;
  static constexpr int most = 48;  // ratings gathered at a time
  static constexpr int capacity = most / P * P;
  int n = 0, n_packs = 0;
  const float* f[most];                       // rows of the other side; beyond the end its first row
  alignas(64) int8_t score[64];               // beyond the end -1, which no score equals
  alignas(64) float lanes[capacity / P][16];  // logits in units of ln 2, and in their place the derivative of the
                                              // objective by the logits

  static STARCAST_INLINE int length(int64_t stride) {
    const int64_t fit = 3072 / (stride + 1) / P * P;
    return static_cast<int>(fit < P ? P : fit > capacity ? capacity : fit);
  }

  // Always `most` ratings, masked beyond the end: a loop that ends now here, now there, would cost more.
  STARCAST_INLINE void gather(const Pass& pass, int64_t stride, int64_t j, int64_t end, int length) {
    n = end - j < length ? static_cast<int>(end - j) : length;
    n_packs = (n + P - 1) / P;
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

  // Where a lane's score is the true one of its rating.
  STARCAST_INLINE __mmask16 truth(int pack) const {
    int32_t scores;
    std::memcpy(&scores, score + pack * P, sizeof scores);
    const __m512i own = _mm512_and_si512(_mm512_set1_epi32(scores), _mm512_load_si512(packing<D>.score_byte.lane));
    return _mm512_cmpeq_epi32_mask(own, _mm512_load_si512(packing<D>.score_bits.lane));
  }
  STARCAST_INLINE __mmask16 rated(int pack) const {
    const int left = n - pack * P;
    return left >= P ? Packing<D>::lanes : static_cast<__mmask16>((1 << left * D) - 1);
  }

  // lanes = start + the dot products with x; returns whether one of them is farther from 0 than `far`. N: n_slots where
  // the compiler knows it, so that x stays in registers, otherwise 0.
  template <int N>
  STARCAST_INLINE bool dot(const float* x, int n_slots, const Wide& start, float far) {
    Wide own[N ? N : 1];
    for (int k = 0; k < N; ++k) own[k] = Wide::load(x + 16 * k);
    __m512 farthest = _mm512_setzero_ps();
    for (int pack = 0, n_all = n_packs; pack < n_all; ++pack) {
      const float* const* at = f + pack * P;
      Wide z[P];
      for (int k = 0; k < (N ? N : n_slots); ++k) {
        const Wide xk = N ? own[k] : Wide::load(x + 16 * k);
        for (int t = 0; t < P; ++t) z[t] = k == 0 ? xk * Wide::load(at[t]) : fma(xk, Wide::load(at[t] + 16 * k), z[t]);
      }
      const Wide y = add_planes<D>(z, start);
      farthest = _mm512_range_ps(farthest, y.v[0], 0b1011);  // the larger absolute value
      y.store(lanes[pack]);
    }
    return _mm512_cmp_ps_mask(farthest, _mm512_set1_ps(far), _CMP_NLE_UQ);
  }

  // sums += g f over N slots.
  template <int N>
  STARCAST_INLINE void add_slots(int first_slot, float* sums) const {
    Wide sum[2][N];  // two chains
    for (int k = 0; k < N; ++k) {
      sum[0][k] = Wide::load(sums + 16 * (first_slot + k));
      sum[1][k] = Wide::all(0.0f);
    }
    auto add = [&](int pack, int first_chain) __attribute__((always_inline)) {
      const Wide packed = Wide::load(lanes[pack]);
      for (int t = 0; t < P; ++t) {
        const Wide g = packing<D>.spread[t](packed);
        const float* row = f[pack * P + t] + 16 * first_slot;
        Wide* chain = sum[(first_chain + t) % 2];
        for (int k = 0; k < N; ++k) chain[k] = fma(g, Wide::load(row + 16 * k), chain[k]);
      }
    };
    int pack = 0;
    for (; pack + 2 <= n_packs; pack += 2) {
      add(pack, 0);
      add(pack + 1, P % 2);
    }
    if (pack < n_packs) add(pack, 0);
    for (int k = 0; k < N; ++k) (sum[0][k] + sum[1][k]).store(sums + 16 * (first_slot + k));
  }

  // sums += g f, total += g (packed) for the ratings of the strip.
  STARCAST_INLINE void add_gradient(int n_slots, float* sums, Wide& total) {
    if (n % P) choose(rated(n_packs - 1), Wide::load(lanes[n_packs - 1]), Wide::all(0.0f)).store(lanes[n_packs - 1]);
    int k = 0;
    for (; k + 3 <= n_slots; k += 3) add_slots<3>(k, sums);
    for (; k < n_slots; ++k) add_slots<1>(k, sums);
    for (int pack = 0; pack < n_packs; ++pack) total = total + Wide::load(lanes[pack]);
  }
};

constexpr float log2_e = 1.44269504f;

// Logits z come as z log2(e) and leave as g = 1[r = s] - softmax(z)_s.
struct PackedSoftmax {
  static constexpr float unit = log2_e;
  static constexpr bool based = true;  // logits start at base and biases
  static constexpr float far = 60;  // as far from 0 as 2^t and its sums and reciprocals are sure to be normal numbers

  // Subtracts the largest logit of each rating; only needed where a logit is far from 0, so hardly ever.
  template <int D>
  static __attribute__((noinline)) void tame(PackedStrip<D>& strip) {
    for (int pack = 0; pack < strip.n_packs; ++pack) {
      const Wide t = Wide::load(strip.lanes[pack]);
      const Wide top = over_scores<D>(t, [](const Wide& a, const Wide& b) { return max(a, b); });
      (t - top).store(strip.lanes[pack]);  // as small as it comes: the log-likelihood wants it, and 2^t may go to 0
    }
  }
  template <bool Scored, int D>
  static STARCAST_INLINE Wide chances(const PackedStrip<D>& strip, int pack, __mmask16 truth, Log2Lik& loglik) {
    const Wide t = Wide::load(strip.lanes[pack]), e = exp2(t);
    const Wide total = over_scores<D>(e, [](const Wide& a, const Wide& b) { return a + b; });
    if constexpr (Scored) loglik.add(truth, t.v[0], truth, total.v[0]);
    return e * reciprocal(total);
  }
};

// Logits z come as -z log2(e) and leave as g = 1[r = s] - logistic(z_s). The log-likelihood is that of d yes-or-no
// questions: with e = exp(-z), yes has the probability 1 / (1 + e), no e / (1 + e).
struct PackedLogistic {
  static constexpr float unit = -log2_e;
  static constexpr bool based = false;
  static constexpr float far = 17 * log2_e;  // beyond |z| = 17 the logistic is 0 or 1 to within 4e-8

  template <int D>
  static __attribute__((noinline)) void tame(PackedStrip<D>& strip) {
    for (int pack = 0; pack < strip.n_packs; ++pack)
      max(min(Wide::load(strip.lanes[pack]), Wide::all(far)), Wide::all(-far)).store(strip.lanes[pack]);
  }
  template <bool Scored, int D>
  static STARCAST_INLINE Wide chances(const PackedStrip<D>& strip, int pack, __mmask16 truth, Log2Lik& loglik) {
    const Wide t = Wide::load(strip.lanes[pack]), e1 = exp2(t) + 1.0f;
    if constexpr (Scored) loglik.add(strip.rated(pack) & ~truth, t.v[0], strip.rated(pack), e1.v[0]);
    return reciprocal(e1);
  }
};

// Asks for the rows that the next strip will need, a pack at a time.
template <int P>
STARCAST_INLINE void ask_ahead_for(const Pass& pass, int64_t stride, int64_t j, int64_t end) {
  if (j + P <= end)
    for (int t = 0; t < P; ++t) prefetch(pass.others + pass.other[j + t] * stride, stride);
}

// The moving row: what `dot` wants of it, and its step.
template <int D>
struct PackedRow {
  const Pass& pass;
  const int n_slots;
  const int bias_slot = pass.biased ? pass.n_factors / Packing<D>::P : -1;
  const __mmask16 bias_lanes = Packing<D>::group(pass.n_factors % Packing<D>::P);
  const Index& bias_spread = packing<D>.spread[pass.n_factors % Packing<D>::P];

  // A copy of x times `unit`, for the dot products; returns what they start from. The product with the other row's
  // biases must be those biases, so that plane is 1; the row's own biases go into the start.
  STARCAST_INLINE Wide prepare(const float* x, const Wide& base, float unit, float* prepared) const {
    for (int k = 0; k < n_slots; ++k) (Wide::load(x + 16 * k) * unit).store(prepared + 16 * k);
    if (!pass.biased) return base * unit;
    const Wide own = Wide::load(x + 16 * bias_slot);
    (choose(bias_lanes, Wide::all(1.0f), own) * unit).store(prepared + 16 * bias_slot);
    return (base + bias_spread(own)) * unit;
  }

  // The sums of the biases are the slopes added up, packed in total, and what they were before.
  STARCAST_INLINE void put_bias_sums(const Wide& before, const Wide& total, float* sums) const {
    if (bias_slot < 0) return;
    Wide by_score = before + total;
    for (int t = 1; t < Packing<D>::P; ++t) by_score = by_score + packing<D>.turn[t](total);
    choose(bias_lanes, by_score, Wide::load(sums + 16 * bias_slot)).store(sums + 16 * bias_slot);
  }
};

// One step of a row by all of its ratings. N: slots of a row where the compiler knows them, otherwise 0.
template <typename Model, int D, int N, bool Scored>
void packed_gradient_rows(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  constexpr int P = Packing<D>::P;
  const int n_slots = N ? N : Layout(D).slots(pass.n_factors + pass.biased);
  const int64_t stride = static_cast<int64_t>(n_slots) * 16;
  const int length = PackedStrip<D>::length(stride);
  const PackedRow<D> mover{pass, n_slots};
  Wide base = Wide::all(0.0f);
  if (Model::based) base.v[0] = _mm512_maskz_loadu_ps(Packing<D>::group(0), pass.base);
  base = packing<D>.spread[0](base);
  float* prepared = scratch + stride;
  PackedStrip<D> strip;
  for (int64_t row = first; row < last; ++row) {
    const Visit visit(pass, row, last, stride, scratch);
    const Wide start = mover.prepare(pass.rows + row * stride, base, Model::unit, prepared),
               before = Wide::load(visit.sums + 16 * (pass.biased ? mover.bias_slot : 0));
    Wide total = Wide::all(0.0f);
    Log2Lik loglik;
    int n_strips = 0;
    for (int64_t j = visit.begin; j < visit.end; j += length) {
      strip.gather(pass, stride, j, visit.end, length);
      if (strip.template dot<N>(prepared, n_slots, start, Model::far)) Model::tame(strip);
      const int64_t next = visit.after(j, length);
      for (int pack = 0, n_packs = strip.n_packs; pack < n_packs; ++pack) {
        ask_ahead_for<P>(pass, stride, next + pack * P, visit.limit());
        const __mmask16 truth = strip.truth(pack);
        const Wide chances = Model::template chances<Scored>(strip, pack, truth, loglik);
        _mm512_store_ps(strip.lanes[pack], _mm512_maskz_mov_ps(truth, _mm512_set1_ps(1.0f)) - chances.v[0]);
      }
      strip.add_gradient(n_slots, visit.sums, total);
      if constexpr (Scored)
        if (++n_strips % 3 == 0) loglik.fold();  // at most 48 packs
    }
    mover.put_bias_sums(before, total, visit.sums);
    if (pass.window.last) visit.step();
    if constexpr (Scored) visit.report(loglik.natural());
  }
}

template <typename Model, int D>
void packed_gradient(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  const bool three = Layout(D).slots(pass.n_factors + pass.biased) == 3;
  if (three)
    pass.row_loglik ? packed_gradient_rows<Model, D, 3, true>(pass, first, last, scratch)
                    : packed_gradient_rows<Model, D, 3, false>(pass, first, last, scratch);
  else
    pass.row_loglik ? packed_gradient_rows<Model, D, 0, true>(pass, first, last, scratch)
                    : packed_gradient_rows<Model, D, 0, false>(pass, first, last, scratch);
}

}  // namespace starcast::STARCAST_ISA_NS

#endif
