// Several ratings in one register of sixteen lanes, the scores of one side by side: with five scores, three ratings.
// Rows of factors hold as many planes in a slot, and that is what saves the turning: the planes of three ratings are
// added up, and slopes spread over the planes again, with five permutations for three ratings. Needs permutations of
// any sixteen lanes and masks, so AVX-512.
#pragma once

#include "strip.hpp"

#if STARCAST_VECTOR_FLOATS == 16

namespace starcast::STARCAST_ISA_NS {

using Wide = Lanes<16>;

struct Index {
  alignas(64) int32_t lane[16];
  template <int W>
  STARCAST_INLINE Lanes<W> operator()(const Lanes<W>& a) const {
    Lanes<W> b;
    for (int n = 0; n < Lanes<W>::N; ++n) b.v[n] = _mm512_permutexvar_ps(_mm512_load_si512(lane), a.v[n]);
    return b;
  }
};

// Lane t D + s belongs to score s of rating t, or to score s of plane t. Lanes beyond the last group stay where they
// are.
template <int D>
struct Packing {
  static constexpr int P = 16 / D;  // groups
  static_assert(P >= 2 && P <= 4,
                "groups are added up by turning them; the scores of a register are read as four bytes");
  static constexpr __mmask16 lanes = (1 << P * D) - 1;

  Index turn[P];                 // group t takes group (t + j) % P
  Index cycle[D];                // score s takes score (s + j) % D of its group
  Index spread[P];               // every group takes group t
  Index score_bits, score_byte;  // lane (t, s): s in byte t, and all ones there

  constexpr Packing() : turn{}, cycle{}, spread{}, score_bits{}, score_byte{} {
    for (int lane = 0; lane < 16; ++lane) {
      const bool used = lane < P * D;
      const int t = lane / D, s = lane % D;
      for (int j = 0; j < P; ++j) turn[j].lane[lane] = used ? (t + j) % P * D + s : lane;
      for (int j = 0; j < D; ++j) cycle[j].lane[lane] = used ? t * D + (s + j) % D : lane;
      for (int j = 0; j < P; ++j) spread[j].lane[lane] = used ? j * D + s : lane;
      score_bits.lane[lane] = used ? s << 8 * t : 1;  // 1 is never what a byte of no ones leaves
      score_byte.lane[lane] = used ? static_cast<int32_t>(0xffu << 8 * t) : 0;
    }
  }
  static constexpr __mmask16 group(int t) { return ((1 << D) - 1) << t * D; }
};

template <int D>
inline constexpr Packing<D> packing{};

STARCAST_INLINE Wide choose(__mmask16 where, const Wide& yes, const Wide& no) {
  Wide c;
  c.v[0] = _mm512_mask_blend_ps(where, no.v[0], yes.v[0]);
  return c;
}

// Products with P rows, lanes over their planes -> group t: the planes of row t added up. Groups that need the same
// turn are brought into one register first, so that P - 1 permutations serve P rows.
template <int D>
STARCAST_INLINE Wide add_planes(const Wide (&z)[16 / D], Wide total) {
  using Pack = Packing<D>;
  for (int j = 0; j < Pack::P; ++j) {
    Wide same = z[(Pack::P - j) % Pack::P];  // in group g: row g - j
    for (int g = 1; g < Pack::P; ++g) same = choose(Pack::group(g), z[(g + Pack::P - j) % Pack::P], same);
    total = total + (j == 0 ? same : packing<D>.turn[j](same));
  }
  return total;
}

// The sum (or maximum) of N neighbours, taken cyclically within each group: with N = D over all scores, in all of the
// group's lanes. Five of them are one and four of its neighbours, four are twice two, so three permutations do.
template <int D, int N = D, int W, typename Combine>
STARCAST_INLINE Lanes<W> over_scores(const Lanes<W>& a, const Combine& combine) {
  if constexpr (N == 1) return a;
  else if constexpr (N % 2) return combine(a, packing<D>.cycle[1](over_scores<D, N - 1>(a, combine)));
  else {
    const Lanes<W> half = over_scores<D, N / 2>(a, combine);
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

// The sum of logarithms to the base 2 without a logarithm per rating: exponents are added, mantissas multiplied.
struct Log2Lik {
  double total = 0;
  __m512 linear = _mm512_setzero_ps(), exponents = _mm512_setzero_ps(), mantissas = _mm512_set1_ps(1.0f);
  int count = 0;
  // + a - log2(b), each in its own lanes.
  STARCAST_INLINE void add(__mmask16 where_a, __m512 a, __mmask16 where_b, __m512 b) {
    linear = _mm512_mask_add_ps(linear, where_a, linear, a);
    exponents = _mm512_mask_add_ps(exponents, where_b, exponents, _mm512_getexp_ps(b));
    mantissas =
        _mm512_mask_mul_ps(mantissas, where_b, mantissas, _mm512_getmant_ps(b, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src));
  }
  // To be called before more than 60 additions have come together: sixteen lanes of as many mantissas below 2 are still
  // a double.
  STARCAST_INLINE void fold() {
    alignas(64) float lanes[16];
    _mm512_store_ps(lanes, mantissas);
    double product = 1;
    for (float m : lanes) product *= static_cast<double>(m);
    total += static_cast<double>(_mm512_reduce_add_ps(_mm512_sub_ps(linear, exponents))) - __builtin_log2(product);
    *this = {total};
  }
  STARCAST_INLINE double natural() {
    fold();
    return total * 0.69314718055994531;
  }
};

}  // namespace starcast::STARCAST_ISA_NS

#endif
