// The gradient of one long row of the ordinal model with five scores, sixteen ratings at a time, in registers
// throughout. Three things go on side by side, since each alone would leave the processor waiting: the next sixteen
// rows of the other side are turned, these pass through the softmax, and the last ones are added up.
#pragma once

#include "ordinal_strip.hpp"

#if STARCAST_VECTOR_FLOATS == 16

namespace starcast::STARCAST_ISA_NS {

// K0 factors along the first basis function, a multiple of 8, and 4 along the second; four functions of five scores,
// odd and even in turns.
template <int K0>
class OrdinalStream {
 public:
  static_assert(K0 == 8 || K0 == 16, "rows of one or two cache lines");
  static constexpr int K = K0 + 4, stride = (K0 + 8 + 15) / 16 * 16, blocks = (K + 15) / 16;

  explicit OrdinalStream(const OrdinalSlopes& slopes) : p_(slopes) {
    for (int j = 0; j < 4; ++j) {
      const float* basis = p_.basis + j * 5;
      for (int s = 0; s < 16; ++s) table_[j][s] = s < 5 ? basis[s] - basis[2] : 0.0f;
      for (int k = 0; k < 2; ++k) {
        basis_[j][k] = table_[j][4 - k];
        basis2_[j][k] = table_[j][4 - k] * log2_e;
      }
    }
    for (int s = 0; s < 16; ++s) base_[s] = s < 5 ? p_.base[s] - p_.base[2] : 0.0f;
    for (int k = 0; k < 2; ++k) {
      level_[k] = (base_[4 - k] + base_[k]) * (0.5f * log2_e);
      tilt_[k] = (base_[4 - k] - base_[k]) * (0.5f * log2_e);
    }
    for (int c = 0; c < 16 * blocks; ++c)
      for (int i = 0; i < 8; ++i) lane_[c / 16][i][c % 16] = (c < K0 ? 0 : 8) + i;
  }

  // False if a number was too large for powers of two; nothing is added up then.
  template <bool Asked>
  bool walk(int64_t row, double* loglik, Sixteen (&squares)[4]) {
    const int64_t begin = p_.indptr[row], n = p_.indptr[row + 1] - begin, last = (n - 1) / 16;
    other_ = p_.other + begin;
    score_ = p_.score + begin;
    x_ = p_.rows + row * stride;
    State s;
    point(0, n);
    point(1, n);
    turn_rest(0, turn_line(0), s.eta);
    if (last > 0) step<Asked, true, false>(0, n, s);
    for (int64_t b = 1; b < last; ++b) step<Asked, true, true>(b, n, s);
    if (last > 0) step<Asked, false, true>(last, n, s);
    else step<Asked, false, false>(0, n, s);
    collect(last, s);
    const float told = sum(s.bias[0]) + sum(s.octaves);
    if (!(told - told == 0)) return false;
    if (Asked) {
      *loglik +=
          static_cast<double>(sum(s.linear)) - static_cast<double>(sum(s.octaves * (1 / log2_e) + log(s.product)));
      for (int j = 0; j < 4; ++j) squares[j] = squares[j] + s.squares[j];
    }
    put(p_.slopes + row * stride, s);
    return true;
  }

 private:
  static constexpr float log2_e = 1.44269504f;
  struct State {
    Sixteen eta[4], last_pulls[2], factors[blocks][2], bias[4], squares[4];
    Sixteen linear, product, octaves;
    STARCAST_INLINE State() {
      for (auto& block : factors) block[0] = block[1] = Sixteen::all(0.0f);
      for (int j = 0; j < 4; ++j) bias[j] = squares[j] = Sixteen::all(0.0f);
      linear = octaves = Sixteen::all(0.0f);
      product = Sixteen::all(1.0f);
    }
  };

  STARCAST_INLINE const float** rows(int64_t b) { return f_ + b % 4 * 16; }

  // Where the rows of the b-th sixteen ratings lie; those beyond the end are the first again.
  STARCAST_INLINE void point(int64_t b, int64_t n) {
    const float** f = rows(b);
    if (n - 16 * b >= 16)
      for (int t = 0; t < 16; ++t) f[t] = p_.others + int64_t{other_[16 * b + t]} * stride;
    else
      for (int t = 0; t < 16; ++t) f[t] = p_.others + (t < n - 16 * b ? int64_t{other_[16 * b + t]} : 0) * stride;
    if (p_.is_far)
      for (int t = 0; t < 16; ++t)
        for (int d = 0; d < stride; d += 16) __builtin_prefetch(f[t] + d);
  }

  // The sixteen products along the first function.
  STARCAST_INLINE Sixteen turn_line(int64_t b) {
    Sixteen sums[2] = {Sixteen::all(0.0f), Sixteen::all(0.0f)};
    unrolled<K0 / 8>(STARCAST_EACH(o) {
      Sixteen y[8];
      turn_eight(rows(b), 8 * o, y);
      unrolled<8>(STARCAST_EACH(c) { sums[c % 2] = fma(y[c], Sixteen::all(x_[8 * o + c]), sums[c % 2]); });
    });
    return sums[0] + sums[1];
  }

  // Eta, with the products along the second function, and biases.
  STARCAST_INLINE void turn_rest(int64_t b, const Sixteen& line, Sixteen (&eta)[4]) {
    Sixteen y[8], sums = Sixteen::all(0.0f);
    turn_eight(rows(b), K0, y);
    unrolled<4>(STARCAST_EACH(c) { sums = fma(y[c], Sixteen::all(x_[K0 + c]), sums); });
    unrolled<4>(STARCAST_EACH(j) { eta[j] = y[4 + j] + Sixteen::all(x_[K + j]); });
    eta[0] = eta[0] + line;
    eta[1] = eta[1] + sums;
  }

  template <bool Asked, bool HasNext, bool HasLast>
  STARCAST_INLINE void step(int64_t b, int64_t n, State& s) {
    Sixteen line, e[4], eta[4];
    for (int j = 0; j < 4; ++j) eta[j] = s.eta[j];
    if (HasNext) {
      point(b + 2, n);  // in time for the store to arrive before it is read
      line = turn_line(b + 1);
    }
    raise(eta, e);
    if (HasNext) turn_rest(b + 1, line, s.eta);
    if (HasLast) collect(b - 1, s);
    settle<Asked>(b, HasNext ? 16 : static_cast<int>(n - 16 * b), eta, e, s);
  }

  // rough_exp2 for all t: beyond its range 0 or infinity, of which a slope becomes no number.
  static STARCAST_INLINE Sixteen power(const Sixteen& t) {
    Sixteen y;
    const __m512 whole = _mm512_roundscale_ps(t.v[0], _MM_FROUND_TO_NEAREST_INT), r = t.v[0] - whole;
    __m512 p = r * 9.570101908e-03f + 5.591786032e-02f;
    p = p * r + 2.402474483e-01f;
    p = p * r + 6.931218147e-01f;
    p = p * r + 9.999992614e-01f;
    y.v[0] = _mm512_scalef_ps(p, whole);
    return y;
  }

  // Powers of two of the logits: sums of twins in e[0] and e[1], differences in e[2] and e[3].
  STARCAST_INLINE void raise(const Sixteen (&eta)[4], Sixteen (&e)[4]) {
    unrolled<2>(STARCAST_EACH(k) {
      const Sixteen odd =
          fma(eta[2], Sixteen::all(basis2_[2][k]), fma(eta[0], Sixteen::all(basis2_[0][k]), Sixteen::all(tilt_[k])));
      const Sixteen even =
          fma(eta[3], Sixteen::all(basis2_[3][k]), fma(eta[1], Sixteen::all(basis2_[1][k]), Sixteen::all(level_[k])));
      const Sixteen low = power(even - odd), high = power(even + odd);
      e[k] = high + low;
      e[2 + k] = high - low;
    });
  }

  template <bool Asked>
  STARCAST_INLINE void settle(int64_t b, int left, const Sixteen (&eta)[4], const Sixteen (&e)[4], State& s) {
    const Scores<16> truth(score_ + 16 * b, left);
    Sixteen total = e[0] + e[1] + 1.0f, pulls[4], logit;
    const Sixteen scale = reciprocal(total);
    if (Asked) logit = truth.pick(base_, 5);
    unrolled<4>(STARCAST_EACH(j) {
      const Sixteen mean =
          fma(e[j % 2 ? 1 : 3], Sixteen::all(basis_[j][1]), e[j % 2 ? 0 : 2] * Sixteen::all(basis_[j][0]));
      const Sixteen met = truth.pick(table_[j], 5);
      pulls[j] = met - mean * scale;
      if (Asked) logit = fma(met, eta[j], logit);
    });
    if (left < 16) {
      const Sixteen on = lanes_between(0, left);
      for (int j = 0; j < 4; ++j) pulls[j] = pulls[j] * on;
      if (Asked) {
        logit = logit * on;
        total = fma(total, on, Sixteen::all(1.0f) - on);
      }
    }
    for (int j = 0; j < 4; ++j) s.bias[j] = s.bias[j] + pulls[j];
    s.last_pulls[0] = pulls[0];
    s.last_pulls[1] = pulls[1];
    if (Asked) {
      for (int j = 0; j < 4; ++j) s.squares[j] = fma(pulls[j], pulls[j], s.squares[j]);
      s.linear = s.linear + logit;
      const __m512 product = s.product.v[0] * total.v[0];  // its exponent is counted, its mantissa goes on
      s.octaves.v[0] = s.octaves.v[0] + _mm512_getexp_ps(product);
      s.product.v[0] = _mm512_getmant_ps(product, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
    }
  }

  // A permutation gives each of sixteen columns its pull: those of both functions lie side by side for eight ratings.
  STARCAST_INLINE void collect(int64_t b, State& s) {
    const float* const* f = rows(b);
    const __m512 p = s.last_pulls[0].v[0], q = s.last_pulls[1].v[0];
    const __m512 sides[2] = {_mm512_insertf32x8(p, _mm512_castps512_ps256(q), 1), _mm512_shuffle_f32x4(p, q, 0xee)};
    unrolled<16>(STARCAST_EACH(t) {
      unrolled<blocks>(STARCAST_EACH(z) {
        __m512& sums = s.factors[z][t % 2].v[0];
        const __m512 pull = _mm512_permutexvar_ps(_mm512_load_si512(lane_[z][t % 8]), sides[t / 8]);
        sums = _mm512_fmadd_ps(pull, _mm512_loadu_ps(f[t] + 16 * z), sums);
      });
    });
  }

  static STARCAST_INLINE void put(float* slope, const State& s) {
    for (int d = 16 * blocks; d < stride; d += 16) Sixteen::all(0.0f).store(slope + d);
    unrolled<blocks>(STARCAST_EACH(z) { (s.factors[z][0] + s.factors[z][1]).store(slope + 16 * z); });
    for (int d = K; d < 16 * blocks; ++d) slope[d] = 0;
    for (int j = 0; j < 4; ++j) slope[K + j] = sum(s.bias[j]);
  }

  const OrdinalSlopes& p_;
  const int32_t* other_ = nullptr;
  const int8_t* score_ = nullptr;
  const float* x_ = nullptr;
  float level_[2], tilt_[2], basis_[4][2], basis2_[4][2];  // 2: of powers of two
  const float* f_[64];
  alignas(64) float base_[16], table_[4][16];
  alignas(64) int32_t lane_[blocks][8][16];
};

// Of any other shape no row is streamed; there may be fewer than five scores and four functions to read.
template <>
class OrdinalStream<-1> {
 public:
  explicit OrdinalStream(const OrdinalSlopes&) {}
};

}  // namespace starcast::STARCAST_ISA_NS

#endif
