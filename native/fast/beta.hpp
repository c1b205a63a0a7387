// BeMF: batch gradient steps, one logistic per score, for a range of rows.
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
  const int n_slots = RowLayout(pass.n_scores).slots(pass.n_factors);
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

}  // namespace starcast::STARCAST_ISA_NS
