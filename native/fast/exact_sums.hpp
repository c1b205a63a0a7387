// Sums that do not depend on their order: of whole numbers of a unit, in floats that have room for them.
//
// A float sum begins at 1.5 * 2^23 units, where floats are one unit apart: whatever is added is rounded to whole units,
// by itself, as long as the sum stays between 2^23 and 2^24 of them. Only a term that lies halfway between two would be
// rounded by what is there already; a factor whose last bit is one cannot make such a term.
#pragma once

#include "kernels.hpp"
#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

constexpr int most_bits = 16;                             // of a term, in units
constexpr int64_t longest_exact = 1 << (22 - most_bits);  // terms that a float sum has room for
constexpr float middle = 12582912.0f;                     // 1.5 * 2^23
constexpr double loglik_step = 0x1p-30, spread_step = 0x1p-24;
static constexpr float last_bit = __builtin_bit_cast(float, 1);

// The bits that a term may have so that n of them fit into 31.
STARCAST_INLINE int exact_bits(int64_t n) {
  int bits = most_bits;
  while (bits > 1 && (n >> (30 - bits)) > 0) --bits;
  return bits;
}

// The unit of sums of terms whose size is at most `most`: a power of two. By bits, since rows that are placed one at a
// time ask for dozens.
STARCAST_INLINE float unit_of(float most, int bits) {
  const float size = most > 1e-12f ? (most < 1e12f ? most * 1.001f : 1e12f) : 1e-12f;
  const int32_t above = (__builtin_bit_cast(int32_t, size) >> 23) + 1;  // the exponent of the next power of two
  return __builtin_bit_cast(float, (above - bits) << 23);
}
STARCAST_INLINE float start_of(float unit) { return middle * unit; }

// The same lanes with some bits set.
template <int W>
STARCAST_INLINE Lanes<W> with_bits(const Lanes<W>& a, const Lanes<W>& bits) {
  using F = typename Lanes<W>::F;
  using I = typename Lanes<W>::I;
  Lanes<W> c;
  for (int n = 0; n < Lanes<W>::N; ++n)
    c.v[n] = reinterpret_cast<F>(reinterpret_cast<I>(a.v[n]) | reinterpret_cast<I>(bits.v[n]));
  return c;
}

template <int W>
STARCAST_INLINE Lanes<W> odd(const Lanes<W>& a) {
  using F = typename Lanes<W>::F;
  using I = typename Lanes<W>::I;
  Lanes<W> c;
  for (int n = 0; n < Lanes<W>::N; ++n) c.v[n] = reinterpret_cast<F>(reinterpret_cast<I>(a.v[n]) | 1);
  return c;
}

// sums + a * b, of which one is odd: rounded once where an instruction does both, else the product is made odd again.
template <int W>
STARCAST_INLINE Lanes<W> add_product(const Lanes<W>& a, const Lanes<W>& b, const Lanes<W>& sums) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return fma(a, b, sums);
#else
  return sums + odd(a * b);
#endif
}

// totals += the units by which sums have moved from where they started, and to where they return.
STARCAST_INLINE void carry(float* sums, const float* starts, int32_t* totals, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {  // unsigned, since lanes that nobody reads may hold anything
    const uint32_t moved = __builtin_bit_cast(uint32_t, sums[k]) - __builtin_bit_cast(uint32_t, starts[k]);
    totals[k] = static_cast<int32_t>(static_cast<uint32_t>(totals[k]) + moved);
    sums[k] = starts[k];
  }
}

// The nearest multiple of a step, a power of two; sums of such numbers below 2^53 steps are exact.
STARCAST_INLINE double on_grid(double x, double step) {
  const double start = step * 0x1.8p52;
  return (x + start) - start;
}

// Sixteen numbers rounded and added up.
STARCAST_INLINE double exact_sum(const float* x) {
  double sums[4] = {0, 0, 0, 0};
  for (int t = 0; t < 16; t += 4)
    for (int k = 0; k < 4; ++k) sums[k] += on_grid(static_cast<double>(x[t + k]), loglik_step);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace starcast::STARCAST_ISA_NS
