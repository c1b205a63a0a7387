// BeMF (batch gradient steps, one logistic per score) and DirMF (steps rating by rating) for a range of rows.
#pragma once

#include "strip.hpp"

namespace starcast::STARCAST_ISA_NS {

// The logits of a batch -> g = 1[r = s] - L_s, L = logistic(z); returns the log-likelihood of the d yes-or-no questions
// of each rating: z_r - sum_s z_s + ln prod_s L_s, because 1 - L = exp(-z) L.
template <bool Scored, int S, int D>
STARCAST_INLINE Batch yes_or_no(const Pass& pass, const int8_t* score, int batch, Strip<S, D>& strip) {
  const int n = strip.d();
  const Truth truth(score, strip.ratings(batch));
  const Batch one = Batch::all(1.0f), none = Batch::all(0.0f);
  Batch y[S], like[S];
  Batch loglik = none, all = one;
  for (int s = 0; s < n; ++s) {
    const Batch z = max(min(Batch::load(strip.slopes[batch][s]), Batch::all(17.0f)), Batch::all(-17.0f));
    like[s] = logistic(z);
    y[s] = truth.keep(truth.where(s, one) - like[s]);
    if constexpr (!Scored) continue;
    loglik = loglik - (z - truth.where(s, z));
    all = all * like[s];
    if (s % 5 == 4 || s == n - 1) {
      loglik = loglik + log(all);
      all = one;
    }
  }
  loglik = truth.keep(loglik);
  if (pass.recklessness != 0) {
    Batch total = none, p[S];
    for (int s = 0; s < n; ++s) total = total + like[s];
    for (int s = 0; s < n; ++s) p[s] = truth.keep(like[s] / total);
    const Spread<S> spread(p, pass.values, n);
    loglik = loglik - truth.keep(spread.variance) * pass.recklessness;
    for (int s = 0; s < n; ++s) y[s] = y[s] - spread.slope(s, p[s]) * (one - like[s]) * pass.recklessness;
  }
  for (int s = 0; s < n; ++s) y[s].store(strip.slopes[batch][s]);
  return loglik;
}

// x_s += rate (sum_ratings g_s f_s - decay x_s), all ratings of the row in one step.
template <int S, int D, bool Scored>
void bemf_gradient_rows(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  const int n_slots = Layout(pass.n_scores).slots(pass.n_factors);
  const int64_t stride = static_cast<int64_t>(n_slots) * S;
  const int length = Strip<S, D>::length(stride);
  const Lanes<S> start = Lanes<S>::all(0.0f);
  Strip<S, D> strip(pass.n_scores);
  double loglik = 0;
  for (int64_t row = first; row < last; ++row) {
    const Visit visit(pass, row, last, stride, scratch);
    visit.begin_sums();
    const float* x = pass.rows + row * stride;
    Lanes<S> total = start;
    for (int64_t j = visit.begin; j < visit.end; j += length) {
      Batch strip_loglik = Batch::all(0.0f);
      strip.gather(pass, stride, j, visit.end, length);
      for (int tile = 0; tile < strip.n_tiles; ++tile) {
        Ratings y[S];
        strip.dot(tile, x, start, 0, n_slots, y);
        for (int s = 0; s < strip.d(); ++s) y[s].store(strip.slope_at(tile, s));
      }
      const int64_t next = visit.after(j, length);
      for (int batch = 0; batch < strip.n_batches; ++batch) {
        ask_ahead(pass, stride, next + batch * B, visit.limit());
        strip_loglik = strip_loglik + yes_or_no<Scored>(pass, pass.score + j + batch * B, batch, strip);
      }
      loglik += static_cast<double>(sum(strip_loglik));
      add_gradient(strip, n_slots, visit.sums, total);
    }
    if (pass.window.last) visit.step();
  }
  if constexpr (Scored) report(pass, first, last, loglik);
}

template <int W>
STARCAST_INLINE Lanes<W> real_lanes(int n_scores) {  // 1 where there is a score, 0 in the padding
  alignas(64) float on[W];
  for (int s = 0; s < W; ++s) on[s] = s < n_scores ? 1.0f : 0.0f;
  return Lanes<W>::load(on);
}

// digamma(1 + a) for a in [0, 1]: Chebyshev interpolation, error below 2e-8.
template <int W>
STARCAST_INLINE Lanes<W> digamma1(const Lanes<W>& a) {
  constexpr float c[] = {3.648997398e-02f,  9.348023120e-01f, -4.143983964e-01f, 2.348396392e-01f,
                         -1.447545028e-01f, 9.280868610e-02f, -6.048865248e-02f, 3.798675692e-02f,
                         -2.513021823e-02f, 2.398229799e-02f, -1.595531128e-02f};
  const Lanes<W> t = a - 0.5f;
  constexpr int n = sizeof(c) / sizeof(c[0]);
  Lanes<W> p = Lanes<W>::all(c[n - 1]);
  for (int k = n - 2; k >= 0; --k) p = p * t + c[k];
  return p;
}

// digamma(x) for x > 0: eight steps of the recurrence at once, then the asymptotic series.
STARCAST_INLINE float digamma(float x) {
  alignas(64) constexpr float offsets[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const float recurrence = sum(Lanes<8>::all(1.0f) / (Lanes<8>::load(offsets) + x));
  const float y = x + 8.0f, i = 1.0f / (y * y);
  return __builtin_logf(y) - 0.5f / y - i * (1.0f / 12 - i * (1.0f / 120 - i * (1.0f / 252))) - recurrence;
}

// Rating by rating: x_s -= rate (a_s (1 - a_s) (psi(a_s) - psi(A) - ln rho_s) f_s + decay x_s), a = logistic(x . f), A
// = sum a. Here `values` are the ratings that the scores stand for; the log-likelihood is of the distribution answered,
// a / A.
template <int W>
void dirmf_sgd_rows(const Pass& pass, int64_t first, int64_t last, float* x) {
  using L = Lanes<W>;
  const Layout layout(pass.n_scores);
  const L one = L::all(1.0f), on = real_lanes<W>(pass.n_scores);
  const int K = pass.n_factors;
  const int64_t stride = layout.stride(K);
  alignas(64) float log_target[W][W];
  for (int r = 0; r < pass.n_scores; ++r) {
    const double e = __builtin_exp(static_cast<double>(pass.values[r])), total = __builtin_log(pass.n_scores - 1 + e);
    for (int s = 0; s < W; ++s)
      log_target[r][s] = static_cast<float>((s == r ? static_cast<double>(pass.values[r]) : 0.0) - total);
  }
  const float keep = 1.0f - pass.learning_rate * pass.regularization;
  for (int64_t row = first; row < last; ++row) {
    const int64_t begin = pass.indptr[row], end = pass.indptr[row + 1];
    float* home = pass.rows + row * stride;
    std::memset(x, 0, sizeof(float) * W * K);
    for (int k = 0; k < K; ++k) std::memcpy(x + k * W, home + layout.offset(k), sizeof(float) * pass.n_scores);
    double loglik = 0;
    for (int64_t j = begin; j < end; ++j) {
      const float* f = pass.others + pass.other[j] * stride;
      if (j + 4 < end) prefetch(pass.others + pass.other[j + 4] * stride, stride);
      // Two sums, because one chain of K additions would be the whole cost.
      L z[2] = {L::all(0.0f), L::all(0.0f)};
      for (int k = 0, at = 0, in_slot = 0; k < K; ++k, layout.next(at, in_slot))
        z[k % 2] = fma(L::load(x + k * W), L::load(f + at), z[k % 2]);
      const L a = logistic(z[0] + z[1]);
      const float A = sum(a * on);
      // a psi(a) = a psi(1 + a) - 1, which stays finite as a goes to 0.
      const L level = digamma1(a) - digamma(A) - L::load(log_target[pass.score[j]]);
      const L pull = (one - a) * (a * level - 1.0f) * (-pass.learning_rate) * on;
      for (int k = 0, at = 0, in_slot = 0; k < K; ++k, layout.next(at, in_slot))
        fma(pull, L::load(f + at), L::load(x + k * W) * keep).store(x + k * W);
      if (!pass.row_loglik) continue;
      alignas(64) float chance[W];
      a.store(chance);
      loglik += __builtin_log(static_cast<double>(chance[pass.score[j]]) / static_cast<double>(A));
    }
    for (int k = 0; k < K; ++k) std::memcpy(home + layout.offset(k), x + k * W, sizeof(float) * pass.n_scores);
    if (pass.row_loglik) pass.row_loglik[row] = loglik;
  }
}

}  // namespace starcast::STARCAST_ISA_NS
