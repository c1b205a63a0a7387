// Vectors with one lane per score. Everything here lives in a namespace named after the instruction set
// (STARCAST_ISA_NS), because the same templates are compiled once per set and the linker must never mix them.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifndef STARCAST_ISA_NS
#error "compile kernels.cpp with -DSTARCAST_ISA_NS=<name of the instruction set>"
#endif

#if defined(__AVX512F__) && defined(__AVX512VL__)
#define STARCAST_VECTOR_FLOATS 16
#elif defined(__AVX2__)
#define STARCAST_VECTOR_FLOATS 8
#else
#define STARCAST_VECTOR_FLOATS 4  // SSE2, NEON, and whatever the compiler lowers four floats to
#endif

#define STARCAST_INLINE inline __attribute__((always_inline))

namespace starcast::STARCAST_ISA_NS {

template <int N>
struct Vec;  // N floats in one register; the aligned(4) twins allow loads from any float address
#define STARCAST_VEC(N)                                                          \
  template <>                                                                    \
  struct Vec<N> {                                                                \
    typedef float f __attribute__((vector_size(4 * N)));                         \
    typedef int32_t i __attribute__((vector_size(4 * N)));                       \
    typedef float fu __attribute__((vector_size(4 * N), aligned(4), may_alias)); \
  };
STARCAST_VEC(4)
STARCAST_VEC(8)
STARCAST_VEC(16)
#undef STARCAST_VEC

// W floats, W a power of two: as many registers as that takes.
template <int W>
struct Lanes {
  static constexpr int V = W < STARCAST_VECTOR_FLOATS ? W : STARCAST_VECTOR_FLOATS;
  static constexpr int N = W / V;
  using F = typename Vec<V>::f;
  using I = typename Vec<V>::i;
  using U = typename Vec<V>::fu;
  F v[N];

  static STARCAST_INLINE Lanes load(const float* p) {
    Lanes a;
    for (int n = 0; n < N; ++n) a.v[n] = *reinterpret_cast<const U*>(p + n * V);
    return a;
  }
  static STARCAST_INLINE Lanes all(float x) {
    Lanes a;
    for (int n = 0; n < N; ++n) a.v[n] = x - F{};
    return a;
  }
  STARCAST_INLINE void store(float* p) const {
    for (int n = 0; n < N; ++n) *reinterpret_cast<U*>(p + n * V) = v[n];
  }
};

#define STARCAST_OP(op)                                                        \
  template <int W>                                                             \
  STARCAST_INLINE Lanes<W> operator op(const Lanes<W>& a, const Lanes<W>& b) { \
    Lanes<W> c;                                                                \
    for (int n = 0; n < Lanes<W>::N; ++n) c.v[n] = a.v[n] op b.v[n];           \
    return c;                                                                  \
  }                                                                            \
  template <int W>                                                             \
  STARCAST_INLINE Lanes<W> operator op(const Lanes<W>& a, float b) {           \
    Lanes<W> c;                                                                \
    for (int n = 0; n < Lanes<W>::N; ++n) c.v[n] = a.v[n] op b;                \
    return c;                                                                  \
  }
STARCAST_OP(+)
STARCAST_OP(-)
STARCAST_OP(*)
STARCAST_OP(/)
#undef STARCAST_OP

// c + a * b; the compiler contracts it to one instruction where there is one (-ffp-contract=fast).
template <int W>
STARCAST_INLINE Lanes<W> fma(const Lanes<W>& a, const Lanes<W>& b, const Lanes<W>& c) {
  Lanes<W> d;
  for (int n = 0; n < Lanes<W>::N; ++n) d.v[n] = a.v[n] * b.v[n] + c.v[n];
  return d;
}

// Where a compiler does not see a maximum in a comparison and a choice, it is named.
#define STARCAST_CHOOSE(name, op, N) \
  STARCAST_INLINE Vec<N>::f name(Vec<N>::f a, Vec<N>::f b) { return op; }
#if defined(__SSE2__)
STARCAST_CHOOSE(max, _mm_max_ps(a, b), 4)
STARCAST_CHOOSE(min, _mm_min_ps(a, b), 4)
#else
STARCAST_CHOOSE(max, a > b ? a : b, 4)
STARCAST_CHOOSE(min, a < b ? a : b, 4)
#endif
#if defined(__AVX__)
STARCAST_CHOOSE(max, _mm256_max_ps(a, b), 8)
STARCAST_CHOOSE(min, _mm256_min_ps(a, b), 8)
#endif
#if defined(__AVX512F__)
STARCAST_CHOOSE(max, _mm512_max_ps(a, b), 16)
STARCAST_CHOOSE(min, _mm512_min_ps(a, b), 16)
#endif
#undef STARCAST_CHOOSE

template <int W>
STARCAST_INLINE Lanes<W> max(const Lanes<W>& a, const Lanes<W>& b) {
  Lanes<W> c;
  for (int n = 0; n < Lanes<W>::N; ++n) c.v[n] = max(a.v[n], b.v[n]);
  return c;
}

template <int W>
STARCAST_INLINE Lanes<W> min(const Lanes<W>& a, const Lanes<W>& b) {
  Lanes<W> c;
  for (int n = 0; n < Lanes<W>::N; ++n) c.v[n] = min(a.v[n], b.v[n]);
  return c;
}

// Folding halves keeps the order of the additions fixed for a given instruction set.
#define STARCAST_FOLD(name, combine)                                                                          \
  STARCAST_INLINE float name(Vec<4>::f a) {                                                                   \
    Vec<4>::f b = __builtin_shufflevector(a, a, 2, 3, 0, 1);                                                  \
    a = combine(a, b);                                                                                        \
    b = __builtin_shufflevector(a, a, 1, 0, 3, 2);                                                            \
    a = combine(a, b);                                                                                        \
    return a[0];                                                                                              \
  }                                                                                                           \
  STARCAST_INLINE float name(Vec<8>::f a) {                                                                   \
    Vec<4>::f lo = __builtin_shufflevector(a, a, 0, 1, 2, 3), hi = __builtin_shufflevector(a, a, 4, 5, 6, 7); \
    return name(combine(lo, hi));                                                                             \
  }                                                                                                           \
  STARCAST_INLINE float name(Vec<16>::f a) {                                                                  \
    Vec<8>::f lo = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7);                                     \
    Vec<8>::f hi = __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);                               \
    return name(combine(lo, hi));                                                                             \
  }                                                                                                           \
  template <int W>                                                                                            \
  STARCAST_INLINE float name(const Lanes<W>& a) {                                                             \
    auto b = a.v[0];                                                                                          \
    for (int n = 1; n < Lanes<W>::N; ++n) b = combine(b, a.v[n]);                                             \
    return name(b);                                                                                           \
  }
#define STARCAST_ADD(a, b) ((a) + (b))
#define STARCAST_MUL(a, b) ((a) * (b))
#define STARCAST_MAX(a, b) ((a) > (b) ? (a) : (b))
STARCAST_FOLD(sum, STARCAST_ADD)
STARCAST_FOLD(maximum, STARCAST_MAX)
STARCAST_FOLD(product, STARCAST_MUL)
#undef STARCAST_FOLD
#undef STARCAST_ADD
#undef STARCAST_MUL
#undef STARCAST_MAX

// 2^t by a polynomial on [-1/2, 1/2], about 1 ulp of the result for small |x|, for -87 <= x <= 88.
template <int W>
STARCAST_INLINE Lanes<W> exp_in_range(const Lanes<W>& x) {
  using L = Lanes<W>;
  using F = typename L::F;
  using I = typename L::I;
  L y;
  for (int n = 0; n < L::N; ++n) {
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa, ready to be shifted into an
    // exponent.
    const F t = x.v[n] * 1.44269504f;
    const F whole = t + 12582912.0f;
    const F r = t - (whole - 12582912.0f);
    F p = r * 1.326472727e-03f + 9.671512739e-03f;
    p = p * r + 5.550733744e-02f;
    p = p * r + 2.402224208e-01f;
    p = p * r + 6.931469776e-01f;
    p = p * r + 1.0f;
    y.v[n] = reinterpret_cast<F>(reinterpret_cast<I>(p) + (reinterpret_cast<I>(whole) << 23));
  }
  return y;
}

// exp for x <= 88; below -86 it is 0, so that padding weighs nothing.
template <int W>
STARCAST_INLINE Lanes<W> exp(const Lanes<W>& x) {
  using L = Lanes<W>;
  L y = exp_in_range(max(x, L::all(-86.0f)));
  for (int n = 0; n < L::N; ++n)
    y.v[n] = reinterpret_cast<typename L::F>(reinterpret_cast<typename L::I>(y.v[n]) & (x.v[n] > -86.0f));
  return y;
}

// Natural logarithm of positive normal numbers, about 1 ulp.
template <int W>
STARCAST_INLINE Lanes<W> log(const Lanes<W>& x) {
  using L = Lanes<W>;
  using F = typename L::F;
  using I = typename L::I;
  L y;
  for (int n = 0; n < L::N; ++n) {
    // Mantissa in [sqrt(1/2), sqrt(2)), so that the logarithm of numbers near 1 keeps its digits.
    const I shifted = reinterpret_cast<I>(x.v[n]) - 0x3f3504f3;
    const I exponent = shifted >> 23;
    const F r = reinterpret_cast<F>((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f, rr = r * r;
    F p = r * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    const F e = __builtin_convertvector(exponent, F);
    y.v[n] = (p * rr * r - rr * 0.5f + e * -2.12194440e-4f) + r + e * 0.693359375f;
  }
  return y;
}

// 1 / x within 2 ulp, for the normal range: an estimate and one step of Newton's take a fraction of a division's time.
template <int W>
STARCAST_INLINE Lanes<W> reciprocal(const Lanes<W>& x) {
  constexpr int V = Lanes<W>::V;
  Lanes<W> y;
  for (int n = 0; n < Lanes<W>::N; ++n) {
    if constexpr (false) {
    }
#if defined(__AVX512F__)
    else if constexpr (V == 16)
      y.v[n] = _mm512_rcp14_ps(x.v[n]);
#endif
#if defined(__AVX2__)
    else if constexpr (V == 8) y.v[n] = _mm256_rcp_ps(x.v[n]);
#endif
    else y.v[n] = 1.0f / x.v[n];
  }
  if constexpr (V < 8) return y;
  return y + y * (Lanes<W>::all(1.0f) - x * y);
}

// For |x| up to 17, beyond which 1 / (1 + exp(-x)) is 0 or 1 to within 4e-8. Kept inside, five of these multiplied are
// still a normal number.
template <int W>
STARCAST_INLINE Lanes<W> logistic(const Lanes<W>& x) {
  using L = Lanes<W>;
  return reciprocal(exp_in_range(max(min(L::all(0.0f) - x, L::all(17.0f)), L::all(-17.0f))) + 1.0f);
}

// The first lines of a row, at most four: a longer one wakes the processor's own prefetching.
STARCAST_INLINE void prefetch(const float* row, int64_t stride) {
  __builtin_prefetch(row);
  __builtin_prefetch(row + (stride > 16 ? 16 : 0));
  __builtin_prefetch(row + (stride > 32 ? 32 : 0));
  if (stride > 48) __builtin_prefetch(row + 48);
}

}  // namespace starcast::STARCAST_ISA_NS
