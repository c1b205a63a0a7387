// Ratings in registers of sixteen lanes, the scores of one side by side: with five scores three ratings, with ten one.
// Slots of factors hold three planes, and that is what saves the turning: the planes of a rating are added up, and
// slopes spread over the planes again, with a few permutations. Needs permutations of any sixteen lanes and masks, so
// AVX-512.
#pragma once

#include "strip.hpp"

#if STARCAST_VECTOR_FLOATS == 16

namespace starcast::STARCAST_ISA_NS {

using Wide = Lanes<16>;

struct Index {
  alignas(64) int32_t lane[16];
  STARCAST_INLINE Wide operator()(const Wide& a) const {
    Wide b;
    b.v[0] = _mm512_permutexvar_ps(_mm512_load_si512(lane), a.v[0]);
    return b;
  }
  STARCAST_INLINE Wide operator()(const Wide& a, const Wide& after) const {  // lanes from 16 on are those of the second
    Wide b;
    b.v[0] = _mm512_permutex2var_ps(a.v[0], _mm512_load_si512(lane), after.v[0]);
    return b;
  }
};

STARCAST_INLINE Wide choose(__mmask16 where, const Wide& yes, const Wide& no) {
  Wide c;
  c.v[0] = _mm512_mask_blend_ps(where, no.v[0], yes.v[0]);
  return c;
}

// D: scores. V: registers of a slot, which holds three planes. R: ratings of a register, whose lane t D + s belongs to
// score s of rating t.
template <int D>
struct Packing {
  static constexpr int V = D > 5 ? 2 : 1, R = D > 5 ? 1 : 3, n_planes = 3;
  static_assert(D == 5 || D == 10, "three planes fill a slot, and as many ratings a register, or one");
  static constexpr __mmask16 lanes = (1 << R * D) - 1;

  Index cycle[D];                // score s takes score (s + j) % D of its rating
  Index turn[3];                 // V = 1: group t takes group (t + j) % 3. V = 2: the planes 1 and 2, of both registers
  Index spread[R][V];            // what multiplies a slot's registers takes the slopes of rating t
  Index score_bits, score_byte;  // lane (t, s): s in byte t, and all ones there

  constexpr Packing() : cycle{}, turn{}, spread{}, score_bits{}, score_byte{} {
    for (int lane = 0; lane < 16; ++lane) {
      const bool used = lane < R * D;
      const int t = lane / D, s = lane % D;
      for (int j = 0; j < D; ++j) cycle[j].lane[lane] = used ? t * D + (s + j) % D : lane;
      for (int j = 0; j < 3; ++j) turn[j].lane[lane] = V == 2 ? lane + j * D : used ? (t + j) % 3 * D + s : lane;
      for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) {
          const int of_slot = 16 * v + lane;
          spread[r][v].lane[lane] = of_slot < 3 * D ? r * D + of_slot % D : 15;
        }
      score_bits.lane[lane] = used ? s << 8 * t : 1;  // 1 is never what a byte of no ones leaves
      score_byte.lane[lane] = used ? static_cast<int32_t>(0xffu << 8 * t) : 0;
    }
  }
  static constexpr __mmask16 group(int t) { return ((1 << D) - 1) << t * D; }
  static constexpr __mmask16 rated(int64_t n) {  // lanes of the first n ratings
    return n >= R ? lanes : static_cast<__mmask16>((1 << n * D) - 1);
  }
};

template <int D>
inline constexpr Packing<D> packing{};

// Products with R rows, lanes over their planes -> one register: in group t the planes of row t added up. Groups that
// need the same turn are brought into one register first, so that two permutations serve three rows.
template <int D>
STARCAST_INLINE Wide add_planes(const Wide (&z)[Packing<D>::R][Packing<D>::V], const Wide& start) {
  const Packing<D>& pack = packing<D>;
  if constexpr (Packing<D>::V == 2) {
    const Wide sum = (z[0][0] + pack.turn[1](z[0][0], z[0][1])) + pack.turn[2](z[0][0], z[0][1]);
    Wide y;
    y.v[0] = _mm512_maskz_add_ps(Packing<D>::lanes, sum.v[0], start.v[0]);
    return y;
  } else {
    Wide total = start;
    for (int j = 0; j < 3; ++j) {
      Wide same = z[(3 - j) % 3][0];  // in group g: row g - j
      for (int g = 1; g < 3; ++g) same = choose(Packing<D>::group(g), z[(g + 3 - j) % 3][0], same);
      total = total + (j == 0 ? same : pack.turn[j](same));
    }
    return total;
  }
}

// Where a lane's score is the true one of its rating; the scores are four bytes, of which R count.
template <int D>
STARCAST_INLINE __mmask16 truth_of(int32_t scores) {
  const __m512i own = _mm512_and_si512(_mm512_set1_epi32(scores), _mm512_load_si512(packing<D>.score_byte.lane));
  return _mm512_cmpeq_epi32_mask(own, _mm512_load_si512(packing<D>.score_bits.lane));
}

// The sum (or maximum) of N neighbours, taken cyclically within each group: with N = D over all scores, in all of the
// group's lanes. Five of them are one and four of its neighbours, four are twice two, so three permutations do.
template <int D, int N = D, typename Combine>
STARCAST_INLINE Wide over_scores(const Wide& a, const Combine& combine) {
  if constexpr (N == 1) return a;
  else if constexpr (N % 2) return combine(a, packing<D>.cycle[1](over_scores<D, N - 1>(a, combine)));
  else {
    const Wide half = over_scores<D, N / 2>(a, combine);
    return combine(half, packing<D>.cycle[N / 2](half));
  }
}

// 2^t within 2e-7, for t from -120 to 120; below, it goes to 0. With vreduceps for r, and vscalefps by t,
// a loop over this took 26 cycles a turn on Zen 4 instead of 5, as if turns waited for each other; why was not found.
template <int W>
STARCAST_INLINE Lanes<W> exp2(const Lanes<W>& t) {
  Lanes<W> whole, y;
  for (int n = 0; n < Lanes<W>::N; ++n) whole.v[n] = _mm512_roundscale_ps(t.v[n], _MM_FROUND_TO_NEAREST_INT);
  const Lanes<W> r = t - whole;
  Lanes<W> p = r * 1.327647198e-03f + 9.675541334e-03f;
  p = p * r + 5.550713274e-02f;
  p = p * r + 2.402211972e-01f;
  p = p * r + 6.931469671e-01f;
  p = p * r + 1.0f;
  for (int n = 0; n < Lanes<W>::N; ++n) y.v[n] = _mm512_scalef_ps(p.v[n], whole.v[n]);
  return y;
}

// The sum of logarithms to the base 2 without a logarithm per rating: numbers are multiplied, and every now and then
// the exponents of the products go into sums of their own.
struct Log2Lik {
  double total = 0;
  __m512 linear = _mm512_setzero_ps(), product = _mm512_set1_ps(1.0f);
  __m512i exponents = _mm512_setzero_si512();
  int count = 0;
  // + a - log2(b), each in its own lanes; b between 2^-62 and 2^63, and `part` after two of them at the latest.
  STARCAST_INLINE void add(__mmask16 where_a, __m512 a, __mmask16 where_b, __m512 b) {
    linear = _mm512_mask_add_ps(linear, where_a, linear, a);
    product = _mm512_mask_mul_ps(product, where_b, product, b);
  }
  // Leaves products from 1 to 2.
  STARCAST_INLINE void part() {
    const __m512i bits = _mm512_castps_si512(product);
    exponents = _mm512_add_epi32(exponents, _mm512_srli_epi32(bits, 23));
    product = _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(0x007fffff), _mm512_set1_epi32(0x3f800000), 0xea));
    if (++count == 64) fold();
  }
  STARCAST_INLINE void fold() {
    total += sum_of(linear, exponents, product, count);
    linear = _mm512_setzero_ps();
    exponents = _mm512_setzero_si512();
    product = _mm512_set1_ps(1.0f);
    count = 0;
  }
  static __attribute__((noinline)) double sum_of(__m512 linear, __m512i exponents, __m512 products, int count) {
    alignas(64) float lanes[16];
    _mm512_store_ps(lanes, products);
    double product = 1;
    for (float m : lanes) product *= static_cast<double>(m);
    return static_cast<double>(_mm512_reduce_add_ps(linear)) - _mm512_reduce_add_epi32(exponents) + 16 * 127 * count -
           __builtin_log2(product);
  }
  STARCAST_INLINE double natural() {
    fold();
    return total * 0.69314718055994531;
  }
};

constexpr float log2_e = 1.44269504f;

// Logits z come as z log2(e) and leave as the probabilities softmax(z).
struct PackedSoftmax {
  static constexpr float unit = log2_e;
  static constexpr bool based = true;  // logits start at base and biases
  static constexpr float far = 60;  // as far from 0 as 2^t and its sums and reciprocals are sure to be normal numbers

  // Subtracts the largest logit of each rating; only needed where a logit is far from 0, so hardly ever. As small as it
  // comes: the log-likelihood wants it, and 2^t may go to 0.
  template <int D>
  static __attribute__((noinline)) __m512 tame(__m512 logits) {
    Wide t;
    t.v[0] = logits;
    return (t - over_scores<D>(t, [](const Wide& a, const Wide& b) { return max(a, b); })).v[0];
  }
  static STARCAST_INLINE Wide weights(const Wide& t) { return exp2(t); }
  template <int D, bool Scored>
  static STARCAST_INLINE Wide chances(const Wide& t, const Wide& e, __mmask16 truth, __mmask16, Log2Lik& loglik) {
    const Wide total = over_scores<D>(e, [](const Wide& a, const Wide& b) { return a + b; });
    if constexpr (Scored) loglik.add(truth, t.v[0], truth, total.v[0]);
    return e * reciprocal(total);
  }
};

// Logits z come as -z log2(e) and leave as logistic(z_s). The log-likelihood is that of d yes-or-no questions: with
// e = exp(-z), yes has the probability 1 / (1 + e), no e / (1 + e).
struct PackedLogistic {
  static constexpr float unit = -log2_e;
  static constexpr bool based = false;
  static constexpr float far = 17 * log2_e;  // beyond |z| = 17 the logistic is 0 or 1 to within 4e-8

  template <int D>
  static __attribute__((noinline)) __m512 tame(__m512 logits) {
    return _mm512_max_ps(_mm512_min_ps(logits, _mm512_set1_ps(far)), _mm512_set1_ps(-far));
  }
  static STARCAST_INLINE Wide weights(const Wide& t) { return exp2(t) + 1.0f; }
  template <int D, bool Scored>
  static STARCAST_INLINE Wide chances(const Wide& t, const Wide& e1, __mmask16 truth, __mmask16 rated,
                                      Log2Lik& loglik) {
    if constexpr (Scored) loglik.add(rated & ~truth, t.v[0], rated, e1.v[0]);
    return reciprocal(e1);
  }
};

// Logits and weights -> g = 1[r = s] - their probability, 0 beyond the ratings.
template <typename Model, int D, bool Scored, bool Whole>
STARCAST_INLINE Wide slopes(const Wide& t, const Wide& weights, __mmask16 truth, __mmask16 rated, Log2Lik& loglik) {
  const Wide chances = Model::template chances<D, Scored>(t, weights, truth, rated, loglik);
  Wide g;
  g.v[0] = _mm512_maskz_mov_ps(truth, _mm512_set1_ps(1.0f)) - chances.v[0];
  if constexpr (!Whole) g.v[0] = _mm512_maskz_mov_ps(rated, g.v[0]);
  return g;
}

template <typename Model, int D>
STARCAST_INLINE Wide tamed(Wide t) {
  if (_mm512_cmp_ps_mask(_mm512_abs_ps(t.v[0]), _mm512_set1_ps(Model::far), _CMP_NLE_UQ)) [[unlikely]]
    t.v[0] = Model::template tame<D>(t.v[0]);
  return t;
}

}  // namespace starcast::STARCAST_ISA_NS

#endif
