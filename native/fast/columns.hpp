// Eight ratings turned from one vector per rating (lanes over the scores) to one vector per score (lanes over the
// ratings) and back. In that form maxima, sums and divisions over the scores are vertical, and no lane is padding: on
// five scores a softmax costs half.
#pragma once

#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

constexpr int T = 8;  // ratings turned at a time
using Ratings = Lanes<T>;

constexpr int B = STARCAST_VECTOR_FLOATS > T ? STARCAST_VECTOR_FLOATS : T;  // ratings put through a link at a time
using Batch = Lanes<B>;

#if STARCAST_VECTOR_FLOATS >= 8
STARCAST_INLINE void transpose(const Ratings (&a)[8], Ratings (&out)[8]) {
  using F = Vec<8>::f;
  F t[8], s[8];
  for (int n = 0; n < 8; n += 2) {
    t[n] = __builtin_shufflevector(a[n].v[0], a[n + 1].v[0], 0, 8, 1, 9, 4, 12, 5, 13);
    t[n + 1] = __builtin_shufflevector(a[n].v[0], a[n + 1].v[0], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int h = 0; h < 8; h += 4)
    for (int n = 0; n < 2; ++n) {
      s[h + 2 * n] = __builtin_shufflevector(t[h + n], t[h + n + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      s[h + 2 * n + 1] = __builtin_shufflevector(t[h + n], t[h + n + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int n = 0; n < 4; ++n) {
    out[n].v[0] = __builtin_shufflevector(s[n], s[n + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    out[n + 4].v[0] = __builtin_shufflevector(s[n], s[n + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
#else
STARCAST_INLINE void transpose(const Ratings (&a)[8], Ratings (&out)[8]) {
  using F = Vec<4>::f;
  for (int h = 0; h < 2; ++h)
    for (int q = 0; q < 2; ++q) {
      const F r0 = a[4 * h].v[q], r1 = a[4 * h + 1].v[q], r2 = a[4 * h + 2].v[q], r3 = a[4 * h + 3].v[q];
      const F t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
      const F t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
      out[4 * q].v[h] = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
      out[4 * q + 1].v[h] = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
      out[4 * q + 2].v[h] = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
      out[4 * q + 3].v[h] = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
    }
}
#endif

// Scores 8b .. 8b+7 of a vector over the scores, and the same put back.
template <int W>
STARCAST_INLINE Ratings eighth(const Lanes<W>& a, int b) {
  Ratings r;
  if constexpr (Lanes<W>::V == 16) {
    const auto x = a.v[b / 2];
    r.v[0] = b % 2 ? __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)
                   : __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
  } else {
    for (int n = 0; n < Ratings::N; ++n) r.v[n] = a.v[b * Ratings::N + n];
  }
  return r;
}

template <int W>
STARCAST_INLINE void to_columns(const Lanes<W> (&rows)[T], Ratings (&columns)[W]) {
  for (int b = 0; b < W / 8; ++b) {
    Ratings a[8], out[8];
    for (int t = 0; t < T; ++t) a[t] = eighth(rows[t], b);
    transpose(a, out);
    for (int s = 0; s < 8; ++s) columns[8 * b + s] = out[s];
  }
}

template <int W>
STARCAST_INLINE void put_eighth(Lanes<W>& a, int b, const Ratings& r) {
  if constexpr (Lanes<W>::V == 16) {
    // Two halves make a register; the first leaves the upper half to the second.
    const auto low = b % 2 ? eighth(a, b - 1) : r, high = b % 2 ? r : r;
    a.v[b / 2] = __builtin_shufflevector(low.v[0], high.v[0], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  } else {
    for (int n = 0; n < Ratings::N; ++n) a.v[b * Ratings::N + n] = r.v[n];
  }
}

template <int W>
STARCAST_INLINE void to_rows(const Ratings (&columns)[W], Lanes<W> (&rows)[T]) {
  for (int b = 0; b < W / 8; ++b) {
    Ratings a[8], out[8];
    for (int s = 0; s < 8; ++s) a[s] = columns[8 * b + s];
    transpose(a, out);
    for (int t = 0; t < T; ++t) put_eighth(rows[t], b, out[t]);
  }
}

// The scores of a batch of ratings; -1, which no score equals, beyond the end of the row.
struct Truth {
  using Bits = typename Batch::I;
  Bits at[Batch::N];
  Bits real[Batch::N];  // all ones for a rating, 0 beyond the end
  bool whole;

  STARCAST_INLINE Truth(const int8_t* score, int m) : whole(m == B) {
    int8_t padded[B];
    if (!whole) {
      for (int t = 0; t < B; ++t) padded[t] = t < m ? score[t] : int8_t(-1);
      score = padded;
    }
#if defined(__AVX512F__)
    at[0] = reinterpret_cast<Bits>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(score))));
#elif defined(__AVX2__)
    at[0] = reinterpret_cast<Bits>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(score))));
#else
    for (int t = 0; t < B; ++t) at[t / Batch::V][t % Batch::V] = score[t];
#endif
    for (int n = 0; n < Batch::N; ++n) real[n] = at[n] >= 0;
  }
  STARCAST_INLINE explicit Truth(const uint64_t (&bytes)[B / 8]) : whole(false) {
#if defined(__AVX512F__)
    at[0] = reinterpret_cast<Bits>(
        _mm512_cvtepi8_epi32(_mm_set_epi64x(static_cast<int64_t>(bytes[1]), static_cast<int64_t>(bytes[0]))));
#elif defined(__AVX2__)
    at[0] = reinterpret_cast<Bits>(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes[0]))));
#else
    for (int t = 0; t < B; ++t) at[t / Batch::V][t % Batch::V] = static_cast<int8_t>(bytes[t / 8] >> t % 8 * 8);
#endif
    for (int n = 0; n < Batch::N; ++n) real[n] = at[n] >= 0;
  }
  // x where the true score is s, otherwise 0.
  STARCAST_INLINE Batch where(int s, const Batch& x) const {
    Batch y;
    for (int n = 0; n < Batch::N; ++n)
      y.v[n] = reinterpret_cast<Batch::F>(reinterpret_cast<Bits>(x.v[n]) & (at[n] == s));
    return y;
  }
  // The entry of a table of n numbers at the true score; any beyond the end.
  STARCAST_INLINE Batch look_up(const float* table, int n) const {
    Batch y = Batch::all(0.0f);
#if defined(__AVX512F__)
    if (n <= 16) {
      y.v[0] = _mm512_permutexvar_ps(reinterpret_cast<__m512i>(at[0]), _mm512_load_ps(table));
      return y;
    }
#endif
    for (int s = 0; s < n; ++s) y = y + where(s, Batch::all(table[s]));
    return y;
  }
  // x for ratings, 0 beyond the end.
  STARCAST_INLINE Batch keep(const Batch& x) const {
    if (whole) return x;
    Batch y;
    for (int n = 0; n < Batch::N; ++n) y.v[n] = reinterpret_cast<Batch::F>(reinterpret_cast<Bits>(x.v[n]) & real[n]);
    return y;
  }
};

}  // namespace starcast::STARCAST_ISA_NS
