// The gradient of the ordinal model: how the log-likelihood of rows changes with their numbers, the others standing
// still.
//
// Ratings are walked in strips, whatever rows they belong to, so that short rows waste few lanes. First eta, one lane
// per rating, for which the others' rows are turned; then the softmax, in which all is vertical; then the sums, one
// lane per column. Rows are laid out as in ordinal.hpp, but only the first two basis functions have factors, and as
// many as whole fours.
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

// Sixteen rows turned: out[c] is column c of all of them, for N columns, 8 or 16.
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
template <int N>
STARCAST_INLINE void turn(const float* const* rows, int at, Sixteen (&out)[16]) {
  for (int c = 0; c < N; c += 8) {
    __m512 a[8];
    for (int t = 0; t < 8; ++t)
      a[t] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(rows[t] + at + c)),
                                _mm256_loadu_ps(rows[t + 8] + at + c), 1);
    turn_lanes(a);
    turn_lanes(a + 4);
    for (int i = 0; i < 4; ++i) {  // a[i]: ratings 0-3 and 8-11 of columns i and 4 + i; a[4 + i]: the others
      out[c + i].v[0] = _mm512_mask_shuffle_f32x4(a[i], 0xf0f0, a[4 + i], a[4 + i], 0xb1);
      out[c + 4 + i].v[0] = _mm512_mask_shuffle_f32x4(a[4 + i], 0x0f0f, a[i], a[i], 0xb1);
    }
  }
}
#else
template <int N>
STARCAST_INLINE void turn(const float* const* rows, int at, Sixteen (&out)[16]) {
  for (int c = 0; c < N; c += 8)
    for (int h = 0; h < 2; ++h) {
      Ratings a[8], b[8];
      for (int t = 0; t < 8; ++t) a[t] = Ratings::load(rows[8 * h + t] + at + c);
      transpose(a, b);
      for (int k = 0; k < 8; ++k)
        for (int n = 0; n < Ratings::N; ++n) out[c + k].v[h * Ratings::N + n] = b[k].v[n];
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

constexpr int strip_length = 64;

// A strip of ratings with eta, and how the log-likelihood changes with it.
class OrdinalStrip {
 protected:
  static constexpr float log2_e = 1.44269504f;

  explicit OrdinalStrip(const OrdinalSlopes& slopes) : p_(slopes), J_(slopes.n_basis), S_(slopes.n_scores) {
    // Logits are relative to the middle score: one exponential less, and sums that rarely overflow.
    for (int s = 0; s < S_; ++s) {
      base_[s] = p_.base[s] - p_.base[S_ / 2];
      base2_[s] = base_[s] * log2_e;
      for (int j = 0; j < J_; ++j) {
        basis_[j][s] = p_.basis[j * S_ + s] - p_.basis[j * S_ + S_ / 2];
        basis2_[j][s] = basis_[j][s] * log2_e;
      }
    }
    float most = 0;
    for (int s = 0; s < S_; ++s) {
      float reach = 0;
      for (int j = 0; j < J_; ++j) reach += __builtin_fabsf(basis2_[j][s]);
      most = most > reach ? most : reach;
      steepest_ = steepest_ > __builtin_fabsf(base2_[s]) ? steepest_ : __builtin_fabsf(base2_[s]);
    }
    steepest_ = (120 - steepest_) / most;
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

  float steepest_ = 0;  // eta that rough_exp2 can take
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

// K0t, K1t, Jt: factors of the first two basis functions, and how many functions, where the compiler knows them;
// otherwise -1.
template <int K0t, int K1t, int Jt>
class OrdinalSlope : private OrdinalStrip {
 public:
  OrdinalSlope(const OrdinalSlopes& slopes, float* scratch)
      : OrdinalStrip(slopes),
        K0_(slopes.ranks[0]),
        K_(K0_ + (slopes.n_basis > 1 ? slopes.ranks[1] : 0)),
        own_(scratch),
        biases_(own_ + 16 * slopes.stride),
        which_(reinterpret_cast<int32_t*>(biases_ + 16 * slopes.stride)) {
    for (int d = 0; d < p_.stride; ++d) which_[d] = d < K0() ? 0 : 8;
  }

  static STARCAST_INLINE int64_t scratch_floats(int stride) { return 33 * stride; }

  // The slopes of rows first .. last - 1; adds to the log-likelihood and the squares of the pulls, if asked for.
  void walk(int64_t first, int64_t last) {
    const int64_t end = p_.indptr[last];
    row_ = first;
    for (int64_t n = p_.indptr[first]; n < end; n += strip_length) {
      count_ = end - n < strip_length ? static_cast<int>(end - n) : strip_length;
      cut(n);
      if (p_.loglik) soften<true>(p_.score + n);
      else soften<false>(p_.score + n);
      for (int k = 0; k < n_pieces_; ++k) collect(pieces_[k]);
    }
    while (row_ < last) clear(p_.slopes + row_++ * p_.stride);
    if (p_.loglik)
      for (int j = 0; j < J_; ++j) p_.squares[j] += static_cast<double>(sum(Sixteen::load(squares_[j])));
  }

 private:
  struct Piece {
    int64_t row;
    int begin, end;          // ratings of the strip
    bool is_first, is_last;  // of the row's pieces
  };

  // Where the columns of the second function, the biases and the padding begin.
  STARCAST_INLINE int K0() const { return K0t >= 0 ? K0t : K0_; }
  STARCAST_INLINE int K() const { return K0t >= 0 ? K0t + K1t : K_; }
  STARCAST_INLINE int J() const { return Jt >= 0 ? Jt : J_; }
  STARCAST_INLINE int D() const { return K() + J(); }
  STARCAST_INLINE int64_t stride() const { return K0t >= 0 ? (K0t + K1t + Jt + 15) / 16 * 16 : p_.stride; }

  STARCAST_INLINE void clear(float* slope) {
    for (int d = 0; d < stride(); d += 16) Sixteen::all(0.0f).store(slope + d);
  }

  // Which rows the ratings of the strip belong to.
  STARCAST_INLINE void cut(int64_t n) {
    n_pieces_ = 0;
    for (int t = 0; t < count_;) {
      while (p_.indptr[row_ + 1] <= n + t) clear(p_.slopes + row_++ * stride());
      const int64_t left = p_.indptr[row_ + 1] - (n + t);
      const bool is_last = left <= count_ - t;
      const int end = is_last ? t + static_cast<int>(left) : count_;
      pieces_[n_pieces_++] = {row_, t, end, n + t == p_.indptr[row_], is_last};
      t = end;
      row_ += is_last;
    }
    for (int t = 0; t < count_; ++t) f_[t] = p_.others + int64_t{p_.other[n + t]} * stride();
    for (int t = count_; t % 16; ++t) f_[t] = f_[0];
  }

  // Eta of the next sixteen is made beside the softmax of these: the one is mostly turning, the other mostly
  // arithmetic.
  template <bool Asked>
  STARCAST_INLINE void soften(const int8_t* score) {
    constexpr int St = Jt == 4 ? 5 : Jt == 9 ? 10 : -1;
    constexpr bool mirrored = St == 5;
    Sums<Jt> sums;
    if constexpr (Jt >= 0)
      for (int j = 0; j < Jt; ++j) sums.squares[j] = Sixteen::all(0.0f);
    const Piece* piece = pieces_;
    meet(0, piece);
    for (int from = 0; from < count_; from += 16) {
      if (from + 16 < count_) {
        while (piece->end <= from + 16) ++piece;
        meet(from + 16, piece);
      }
      pull<Jt, St, Asked, false, mirrored>(score, from, sums);
    }
    if (finish<Jt, Asked, false>(sums)) return;
    Sums<-1> carefully;
    for (int from = 0; from < count_; from += 16) pull<-1, -1, Asked, true, false>(score, from, carefully);
    finish<-1, Asked, true>(carefully);
  }

  // Eta of sixteen ratings, the first of which is of the piece.
  STARCAST_INLINE void meet(int from, const Piece* piece) {
    const float* x = p_.rows + piece->row * stride();
    if (piece->end == count_ || piece->end >= from + 16) return tie<true>(from, x);
    const float* rows[16];
    for (int t = 0; t < 16; ++t) {
      if (from + t == piece->end && from + t < count_) ++piece;
      rows[t] = p_.rows + piece->row * stride();
    }
    for (int d = 0; d < D(); d += 16) {
      Sixteen columns[16];
      turn<16>(rows, d, columns);
      unrolled<16>(STARCAST_EACH(c) { columns[c].store(own_ + (d + c) * 16); });
    }
    tie<false>(from, own_);
  }

  // f(d) for every sixteen columns.
  template <typename F>
  STARCAST_INLINE void over_blocks(const F& f) const {
    if constexpr (K0t >= 0) unrolled<(K0t + K1t + Jt + 15) / 16>(STARCAST_EACH(z) { f(Number<16 * z>{}); });
    else
      for (int d = 0; d < D(); d += 16) f(d);
  }

  // x: the row that the ratings are of, or sixteen of them, turned.
  template <bool IsOneRow>
  STARCAST_INLINE void tie(int from, const float* x) {
    Sixteen eta[2] = {Sixteen::all(0.0f), Sixteen::all(0.0f)}, more = eta[0];
    over_blocks(STARCAST_EACH(d) {
      Sixteen y[16];
      if (D() - d > 8) turn<16>(f_ + from, d, y);
      else turn<8>(f_ + from, d, y);
      unrolled<16>(STARCAST_EACH(c) {
        const int at = d + c;
        if (at >= D()) return;
        const Sixteen own = IsOneRow ? Sixteen::all(x[at]) : Sixteen::load(x + at * 16);
        if (at < K()) {
          if (at >= K0()) eta[1] = fma(y[c], own, eta[1]);
          else if (c % 2) eta[0] = fma(y[c], own, eta[0]);
          else more = fma(y[c], own, more);
        } else {
          const int j = at - K();
          Sixteen bias = y[c] + own;
          if (j < 2) bias = bias + eta[j];
          if (j == 0) bias = bias + more;
          bias.store(eta_[j] + from);
        }
      });
    });
  }

  // Adds what the ratings of a piece pull at to the slope of its row.
  STARCAST_INLINE void collect(const Piece& piece) {
    float* slope = p_.slopes + piece.row * stride();
    if (piece.is_first) clear(slope);
    add_biases(piece);
    if (piece.is_last)
      for (int j = 0; j < J(); ++j) slope[K() + j] = sum(Sixteen::load(biases_ + j * 16));
#if STARCAST_VECTOR_FLOATS == 16
    over_blocks(STARCAST_EACH(d) {
      if (d < K()) add_factors(piece, d, slope + d);
    });
#else
    add_factors<16>(piece, 0, 0, K0(), slope);
    add_factors<16>(piece, 1, K0(), K(), slope);
#endif
  }

  STARCAST_INLINE void add_biases(const Piece& piece) {
    for (int j = 0; j < J(); j += 4) {
      Sixteen sums[4];
      for (int k = 0; k < 4; ++k) sums[k] = piece.is_first ? Sixteen::all(0.0f) : Sixteen::load(biases_ + (j + k) * 16);
      for (int from = piece.begin / 16 * 16; from < piece.end; from += 16) {
        const int a = piece.begin > from ? piece.begin - from : 0, b = piece.end - from < 16 ? piece.end - from : 16;
        const Sixteen on = lanes_between(a, b);
        for (int k = 0; k < 4; ++k) sums[k] = fma(Sixteen::load(pull_[j + k] + from), on, sums[k]);
      }
      for (int k = 0; k < 4; ++k) sums[k].store(biases_ + (j + k) * 16);
    }
  }

#if STARCAST_VECTOR_FLOATS == 16
  // A permutation gives each of sixteen columns its pull: those of both functions lie side by side for eight ratings.
  template <typename Number>
  STARCAST_INLINE void add_factors(const Piece& piece, Number d, float* slope) {
    __m512 sums = _mm512_loadu_ps(slope), more[4];
    unrolled<4>(STARCAST_EACH(k) { more[k] = _mm512_setzero_ps(); });
    int t = piece.begin;
    for (; t < piece.end && t % 8; ++t) sums = _mm512_fmadd_ps(pulls_of(t, d), _mm512_loadu_ps(f_[t] + d), sums);
    for (; t + 8 <= piece.end; t += 8) {
      const __m512 pulls = pulls_of(t);
      unrolled<8>(STARCAST_EACH(i) {
        more[i % 4] = _mm512_fmadd_ps(spread(pulls, i, d), _mm512_loadu_ps(f_[t + i] + d), more[i % 4]);
      });
    }
    for (; t < piece.end; ++t) sums = _mm512_fmadd_ps(pulls_of(t, d), _mm512_loadu_ps(f_[t] + d), sums);
    const __mmask16 factors = d + 16 > K() ? (1 << (K() - d)) - 1 : 0xffff;
    _mm512_mask_storeu_ps(slope, factors, sums + ((more[0] + more[1]) + (more[2] + more[3])));
  }
  STARCAST_INLINE __m512 pulls_of(int t) const {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_load_ps(pull_[0] + t)), _mm256_load_ps(pull_[1] + t), 1);
  }
  STARCAST_INLINE __m512 pulls_of(int t, int d) const { return spread(pulls_of(t / 8 * 8), t % 8, d); }
  STARCAST_INLINE __m512 spread(__m512 pulls, int i, int d) const {
    // Lane 8 and on: of the second function.
    const __m512i lane = _mm512_add_epi32(_mm512_load_si512(which_ + d), _mm512_set1_epi32(i));
    return _mm512_permutexvar_ps(lane, pulls);
  }
#else
  // Columns d .. end - 1, whose pull is that of function j.
  template <int W>
  STARCAST_INLINE void add_factors(const Piece& piece, int j, int d, int end, float* slope) {
    for (; d + W <= end; d += W) {
      Lanes<W> sums = Lanes<W>::load(slope + d);
      for (int t = piece.begin; t < piece.end; ++t)
        sums = fma(Lanes<W>::load(f_[t] + d), Lanes<W>::all(pull_[j][t]), sums);
      sums.store(slope + d);
    }
    if constexpr (W > 4) add_factors<W / 2>(piece, j, d, end, slope);
  }
#endif

  const int K0_, K_;
  int64_t row_ = 0;
  int n_pieces_ = 0;
  float *own_, *biases_;  // sixteen rows of this side, turned; what pulls at the biases, by lanes
  int32_t* which_;
  Piece pieces_[strip_length];
  const float* f_[strip_length];  // rows of the other side
};

inline int64_t slopes_scratch(const OrdinalSlopes& slopes) {
  return OrdinalSlope<-1, -1, -1>::scratch_floats(slopes.stride);
}

// Whether there are five scores and four functions of them, odd and even in turns.
inline bool are_five_mirrored(const OrdinalSlopes& slopes) {
  if (slopes.n_scores != 5 || slopes.n_basis != 4) return false;
  for (int j = 0; j < 4; ++j)
    for (int s = 0; s < 5; ++s) {
      const float one = slopes.basis[j * 5 + s], twin = slopes.basis[j * 5 + 4 - s];
      if (__builtin_fabsf(one - (j % 2 ? twin : -twin)) > 1e-6f) return false;
    }
  return true;
}

inline void slopes_of(const OrdinalSlopes& slopes, int64_t first, int64_t last, float* scratch) {
  const int ranks[2] = {slopes.ranks[0], slopes.n_basis > 1 ? slopes.ranks[1] : 0};
  const bool five = are_five_mirrored(slopes);
  if (five && ranks[0] == 8 && ranks[1] == 4 && slopes.stride == 16)
    OrdinalSlope<8, 4, 4>(slopes, scratch).walk(first, last);
  else if (five && ranks[0] == 16 && ranks[1] == 4 && slopes.stride == 32)
    OrdinalSlope<16, 4, 4>(slopes, scratch).walk(first, last);
  else OrdinalSlope<-1, -1, -1>(slopes, scratch).walk(first, last);
}

}  // namespace starcast::STARCAST_ISA_NS
