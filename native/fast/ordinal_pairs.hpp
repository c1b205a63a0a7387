// What the draws of the ordinal model say of pairs.
#pragma once

#include "kernels.hpp"
#include "triangles.hpp"

namespace starcast::STARCAST_ISA_NS {

// Probabilities of pairs, averaged over draws: lanes over the draws, so nothing is summed across them until the end.
inline void ordinal_pairs(const OrdinalQuestion& ask, int64_t first, int64_t last) {
  const int J = ask.n_basis, S = ask.n_scores;
  const int64_t T = ask.n_draws, width = static_cast<int64_t>(ask.n_columns) * T;
  int K = 0;
  for (int j = 0; j < J; ++j) K += ask.ranks[j];
  for (int64_t n = first; n < last; ++n) {
    const float* p = ask.P + ask.user[n] * width;
    const float* q = ask.Q + ask.item[n] * width;
    Sixteen answer[max_scores], x[max_scores];
    for (int s = 0; s < S; ++s) answer[s] = Sixteen::all(0.0f);
    for (int64_t t = 0; t < T; t += 16) {
      for (int s = 0; s < S; ++s) x[s] = Sixteen::all(ask.base[s]);
      for (int j = 0, d = 0; j < J; ++j) {
        Sixteen eta = Sixteen::load(p + (K + j) * T + t) + Sixteen::load(q + (K + j) * T + t);
        for (int end = d + ask.ranks[j]; d < end; ++d)
          eta = fma(Sixteen::load(p + d * T + t), Sixteen::load(q + d * T + t), eta);
        for (int s = 0; s < S; ++s) x[s] = fma(eta, Sixteen::all(ask.basis[j * S + s]), x[s]);
      }
      Sixteen top = x[0], total = Sixteen::all(0.0f);
      for (int s = 1; s < S; ++s) top = max(top, x[s]);
      for (int s = 0; s < S; ++s) {
        x[s] = exp(x[s] - top);
        total = total + x[s];
      }
      const Sixteen weight = reciprocal(total) * Sixteen::load(ask.weights + t);
      for (int s = 0; s < S; ++s) answer[s] = fma(x[s], weight, answer[s]);
    }
    float probs[max_scores], all = 0;
    for (int s = 0; s < S; ++s) all += probs[s] = sum(answer[s]);
    for (int s = 0; s < S; ++s) ask.out[n * S + s] = probs[s] / all;
  }
}

}  // namespace starcast::STARCAST_ISA_NS
