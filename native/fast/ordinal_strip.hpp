// What the gradient of the ordinal model does sixteen ratings at a time: rows of the other side turned, so that a
// vector holds one column of sixteen of them, and the softmax, in which all is vertical.
#pragma once

#include "columns.hpp"
#include "kernels.hpp"
#include "triangles.hpp"

namespace starcast::STARCAST_ISA_NS {

// 2^t within 3e-6, for t from -126 to 126: the error only shifts the probabilities that a gradient starts from.
template <int W>
STARCAST_INLINE Lanes<W> rough_exp2(const Lanes<W>& t) {
  using F = typename Lanes<W>::F;
  using I = typename Lanes<W>::I;
  Lanes<W> whole, r, y;
  for (int n = 0; n < Lanes<W>::N; ++n) {
    whole.v[n] = t.v[n] + 12582912.0f;  // leaves the nearest integer in the low bits, to be shifted into an exponent
    r.v[n] = t.v[n] - (whole.v[n] - 12582912.0f);
  }
  Lanes<W> p = r * 9.570101908e-03f + 5.591786032e-02f;
  p = p * r + 2.402474483e-01f;
  p = p * r + 6.931218147e-01f;
  p = p * r + 9.999992614e-01f;
  for (int n = 0; n < Lanes<W>::N; ++n)
    y.v[n] = reinterpret_cast<F>(reinterpret_cast<I>(p.v[n]) + (reinterpret_cast<I>(whole.v[n]) << 23));
  return y;
}

// The larger of two, whatever their signs.
template <int W>
STARCAST_INLINE Lanes<W> farther(const Lanes<W>& a, const Lanes<W>& b) {
  Lanes<W> c;
  for (int n = 0; n < Lanes<W>::N; ++n) {
#if STARCAST_VECTOR_FLOATS == 16
    c.v[n] = _mm512_range_ps(a.v[n], b.v[n], 0x0b);
#else
    using F = typename Lanes<W>::F;
    using I = typename Lanes<W>::I;
    c.v[n] = max(a.v[n], reinterpret_cast<F>(reinterpret_cast<I>(b.v[n]) & 0x7fffffff));
#endif
  }
  return c;
}

// The scores of W ratings, those beyond `count` as if they were 0.
template <int W>
class Scores {
 public:
  STARCAST_INLINE Scores(const int8_t* score, int count) {
    int8_t padded[W] = {};
    if (count < W) {
      for (int t = 0; t < count; ++t) padded[t] = score[t];
      score = padded;
    }
    for (int n = 0; n < Lanes<W>::N; ++n) {
#if STARCAST_VECTOR_FLOATS == 16
      at_[n] = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(score) + n));
#elif STARCAST_VECTOR_FLOATS == 8
      at_[n] = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(score + 8 * n)));
#else
      for (int t = 0; t < 4; ++t) at_[n][t] = score[4 * n + t];
#endif
    }
  }
  // What a table says of each score; it has room for sixteen.
  STARCAST_INLINE Lanes<W> pick(const float* table, int n_scores) const {
    Lanes<W> a;
#if STARCAST_VECTOR_FLOATS == 16
    if (n_scores <= 16) {
      for (int n = 0; n < Lanes<W>::N; ++n) a.v[n] = _mm512_permutexvar_ps(at_[n], _mm512_loadu_ps(table));
      return a;
    }
#elif STARCAST_VECTOR_FLOATS == 8
    if (n_scores <= 8) {
      for (int n = 0; n < Lanes<W>::N; ++n) a.v[n] = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at_[n]);
      return a;
    }
#endif
    alignas(64) int32_t at[W];
    alignas(64) float picked[W];
    std::memcpy(at, at_, sizeof at);
    for (int t = 0; t < W; ++t) picked[t] = table[at[t]];
    return Lanes<W>::load(picked);
  }

 private:
#if STARCAST_VECTOR_FLOATS == 16
  __m512i at_[Lanes<W>::N];
#elif STARCAST_VECTOR_FLOATS == 8
  __m256i at_[Lanes<W>::N];
#else
  typename Lanes<W>::I at_[Lanes<W>::N];
#endif
};

// 1 in lanes from .. to - 1 of sixteen, otherwise 0.
STARCAST_INLINE Sixteen lanes_between(int from, int to) {
  static constexpr float steps[48] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                      1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  return Sixteen::load(steps + 16 - from) * Sixteen::load(steps + 32 - to);
}

// Eight columns of sixteen rows, turned: out[c] is column at + c of all of them.
#if STARCAST_VECTOR_FLOATS == 16
// The lanes of each four, turned: register k takes the k-th of each.
STARCAST_INLINE void turn_lanes(__m512* a) {
  const __m512 low = _mm512_unpacklo_ps(a[0], a[1]), high = _mm512_unpackhi_ps(a[0], a[1]);
  const __m512 low2 = _mm512_unpacklo_ps(a[2], a[3]), high2 = _mm512_unpackhi_ps(a[2], a[3]);
  a[0] = _mm512_shuffle_ps(low, low2, 0x44);
  a[1] = _mm512_shuffle_ps(low, low2, 0xee);
  a[2] = _mm512_shuffle_ps(high, high2, 0x44);
  a[3] = _mm512_shuffle_ps(high, high2, 0xee);
}
template <typename Rows>
STARCAST_INLINE void turn_eight(const Rows& rows, int at, Sixteen* out) {
  __m512 a[8];
  for (int t = 0; t < 8; ++t)
    a[t] =
        _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(rows[t] + at)), _mm256_loadu_ps(rows[t + 8] + at), 1);
  turn_lanes(a);
  turn_lanes(a + 4);
  for (int i = 0; i < 4; ++i) {  // a[i]: ratings 0-3 and 8-11 of columns i and 4 + i; a[4 + i]: the others
    out[i].v[0] = _mm512_mask_shuffle_f32x4(a[i], 0xf0f0, a[4 + i], a[4 + i], 0xb1);
    out[4 + i].v[0] = _mm512_mask_shuffle_f32x4(a[4 + i], 0x0f0f, a[i], a[i], 0xb1);
  }
}
#else
template <typename Rows>
STARCAST_INLINE void turn_eight(const Rows& rows, int at, Sixteen* out) {
  for (int h = 0; h < 2; ++h) {
    Ratings a[8], b[8];
    for (int t = 0; t < 8; ++t) a[t] = Ratings::load(rows[8 * h + t] + at);
    transpose(a, b);
    for (int k = 0; k < 8; ++k)
      for (int n = 0; n < Ratings::N; ++n) out[k].v[h * Ratings::N + n] = b[k].v[n];
  }
}
#endif

// f(0), ..., f(N - 1), each with a number that the compiler knows: arrays walked like this stay in registers.
template <int N>
struct Number {
  STARCAST_INLINE constexpr operator int() const { return N; }
};
template <int N, typename F>
STARCAST_INLINE void unrolled(const F& f) {
  if constexpr (N > 0) {
    unrolled<N - 1>(f);
    f(Number<N - 1>{});
  }
}
#define STARCAST_EACH(c) [&](auto c) __attribute__((always_inline))

// The largest eta with which rough_exp2 can take all logits, relative to the middle score.
inline float steepest(const OrdinalSlopes& p) {
  float most = 0, start = 0;
  for (int s = 0, middle = p.n_scores / 2; s < p.n_scores; ++s) {
    float reach = 0;
    for (int j = 0; j < p.n_basis; ++j) {
      const float* basis = p.basis + j * p.n_scores;
      reach += __builtin_fabsf(basis[s] - basis[middle]) * 1.44269504f;
    }
    const float base = __builtin_fabsf(p.base[s] - p.base[middle]) * 1.44269504f;
    most = most > reach ? most : reach;
    start = start > base ? start : base;
  }
  return (120 - start) / most;
}

constexpr int strip_length = 64;

// A strip of ratings with eta, and how the log-likelihood changes with it.
class OrdinalStrip {
 protected:
  static constexpr float log2_e = 1.44269504f;

  explicit OrdinalStrip(const OrdinalSlopes& slopes)
      : steepest_(steepest(slopes)), p_(slopes), J_(slopes.n_basis), S_(slopes.n_scores) {
    // Logits are relative to the middle score: one exponential less, and sums that rarely overflow.
    for (int s = 0; s < S_; ++s) {
      base_[s] = p_.base[s] - p_.base[S_ / 2];
      base2_[s] = base_[s] * log2_e;
      for (int j = 0; j < J_; ++j) {
        basis_[j][s] = p_.basis[j * S_ + s] - p_.basis[j * S_ + S_ / 2];
        basis2_[j][s] = basis_[j][s] * log2_e;
      }
    }
    for (int k = 0; k < S_ / 2; ++k) {
      level_[k] = (base2_[S_ - 1 - k] + base2_[k]) * 0.5f;
      tilt_[k] = (base2_[S_ - 1 - k] - base2_[k]) * 0.5f;
    }
    for (int j = 0; j < J_; ++j)
      for (int t = 0; t < 16; ++t) squares_[j][t] = 0;
  }

  // What a strip adds up to. Its sums of exponentials are multiplied, so that one logarithm serves four.
  template <int Jt>
  struct Sums {
    Sixteen linear = Sixteen::all(0.0f), product = Sixteen::all(1.0f), reach = product, squares[Jt >= 0 ? Jt : 1];
    STARCAST_INLINE Sums() {
      for (Sixteen& square : squares) square = Sixteen::all(0.0f);
    }
  };

  // Residuals of sixteen ratings, pulled back through the basis. With care the largest logit is taken out first.
  template <int Jt, int St, bool Asked, bool WithCare, bool Mirrored>
  STARCAST_INLINE void pull(const int8_t* score, int from, Sums<Jt>& sums) {
    const int J = Jt >= 0 ? Jt : J_, S = St >= 0 ? St : S_, middle = S / 2, left = count_ - from;
    constexpr int most = Jt >= 0 ? Jt : max_scores;
    using L = Sixteen;
    const Scores<16> truth(score + from, left);
    L eta[most], e[St >= 0 ? St : max_scores], top = L::all(0.0f), total = L::all(1.0f);
    for (int j = 0; j < J; ++j) {
      eta[j] = L::load(eta_[j] + from);
      sums.reach = farther(sums.reach, eta[j]);
    }
    if constexpr (Mirrored)
      for (int k = 0; k < middle; ++k) {
        L both[2] = {L::all(tilt_[k]), L::all(level_[k])};
        for (int j = 0; j < J; ++j) both[j % 2] = fma(eta[j], L::all(basis2_[j][S - 1 - k]), both[j % 2]);
        e[k] = both[1] - both[0];
        e[S - 1 - k] = both[1] + both[0];
      }
    else
      for (int s = 0; s < S; ++s) {
        e[s] = L::all(base2_[s]);
        for (int j = 0; j < J; ++j) e[s] = fma(eta[j], L::all(basis2_[j][s]), e[s]);
        if (WithCare) top = max(top, e[s]);
      }
    if (WithCare) total = rough_exp2(max(L::all(0.0f) - top, L::all(-126.0f)));
    for (int s = 0; s < S; ++s) {
      if (s == middle) continue;
      e[s] = rough_exp2(WithCare ? max(e[s] - top, L::all(-126.0f)) : e[s]);
      if (!Mirrored) total = total + e[s];
    }
    if constexpr (Mirrored)
      for (int k = 0; k < middle; ++k) {  // from now on, sums and differences of twins
        const L low = e[k], high = e[S - 1 - k];
        e[k] = high + low;
        e[S - 1 - k] = high - low;
        total = total + e[k];
      }
    const L scale = reciprocal(total);
    L pulls[most], logit = Asked ? truth.pick(base_, S) : top;
    for (int j = 0; j < J; ++j) {
      L mean = L::all(0.0f);
      for (int s = 0; s < S; ++s)
        if (s != middle && (!Mirrored || (s > middle) == (j % 2 == 0))) mean = fma(e[s], L::all(basis_[j][s]), mean);
      const L met = truth.pick(basis_[j], S);
      pulls[j] = met - mean * scale;
      if (Asked) logit = fma(met, eta[j], logit);
    }
    if (WithCare) logit = logit - top * (1 / log2_e);
    if (left < 16) {
      const L on = lanes_between(0, left);
      for (int j = 0; j < J; ++j) pulls[j] = pulls[j] * on;
      logit = logit * on;
      total = fma(total, on, L::all(1.0f) - on);
    }
    for (int j = 0; j < J; ++j) {
      pulls[j].store(pull_[j] + from);
      if (Asked && Jt >= 0) sums.squares[j] = fma(pulls[j], pulls[j], sums.squares[j]);
    }
    sums.product = sums.product * total;
    if (Asked) sums.linear = sums.linear + logit;
  }

  // False if a number came near to where rough_exp2 ends: the strip is then to be done again with care.
  template <int Jt, bool Asked, bool WithCare>
  STARCAST_INLINE bool finish(const Sums<Jt>& sums) {
    if (!WithCare && !(maximum(sums.product) < 1e36f && maximum(sums.reach) < steepest_)) return false;
    if (Asked) {
      if constexpr (Jt >= 0)
        for (int j = 0; j < Jt; ++j) (Sixteen::load(squares_[j]) + sums.squares[j]).store(squares_[j]);
      else
        for (int from = 0; from < count_; from += 16)
          for (int j = 0; j < J_; ++j) {
            const Sixteen pulls = Sixteen::load(pull_[j] + from);
            fma(pulls, pulls, Sixteen::load(squares_[j])).store(squares_[j]);
          }
      *p_.loglik += static_cast<double>(sum(sums.linear)) - static_cast<double>(sum(log(sums.product)));
    }
    return true;
  }

  const float steepest_;
  float level_[max_scores], tilt_[max_scores];
  alignas(64) float base_[max_scores], base2_[max_scores];  // 2: of powers of two
  alignas(64) float basis_[max_scores][max_scores], basis2_[max_scores][max_scores];

 protected:
  const OrdinalSlopes& p_;
  const int J_, S_;
  int count_ = 0;  // ratings in the strip
  alignas(64) float squares_[max_scores][16];
  alignas(64) float eta_[max_scores][strip_length], pull_[max_scores][strip_length];
};

}  // namespace starcast::STARCAST_ISA_NS
