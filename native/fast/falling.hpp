// exp for what lies below a maximum.
#pragma once

#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

// exp(x) within 3e-7 of its size for -80 <= x <= 0; it goes to 0 below. Where the exponent can be scaled by an
// instruction, nothing has to be kept in range: nine operations instead of fifteen.
template <int W>
STARCAST_INLINE Lanes<W> exp_falling(const Lanes<W>& x) {
#if defined(__AVX512F__) && defined(__AVX512VL__)
  Lanes<W> y;
  for (int n = 0; n < Lanes<W>::N; ++n) {
    const auto t = x.v[n] * 1.44269504f;
    typename Lanes<W>::F whole;
    if constexpr (Lanes<W>::V == 16) whole = _mm512_roundscale_ps(t, 0);
    else if constexpr (Lanes<W>::V == 8) whole = _mm256_roundscale_ps(t, 0);
    else whole = _mm_roundscale_ps(t, 0);
    const auto r = t - whole;
    auto p = r * 1.327647198e-03f + 9.675541334e-03f;
    p = p * r + 5.550713274e-02f;
    p = p * r + 2.402211972e-01f;
    p = p * r + 6.931469671e-01f;
    p = p * r + 1.0f;
    if constexpr (Lanes<W>::V == 16) y.v[n] = _mm512_scalef_ps(p, whole);
    else if constexpr (Lanes<W>::V == 8) y.v[n] = _mm256_scalef_ps(p, whole);
    else y.v[n] = _mm_scalef_ps(p, whole);
  }
  return y;
#else
  return exp(x);
#endif
}

}  // namespace starcast::STARCAST_ISA_NS
