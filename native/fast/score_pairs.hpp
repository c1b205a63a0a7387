// What the models with a vector per score say of pairs: logits with lanes over the scores, eight pairs turned at a
// time.
#pragma once

#include "columns.hpp"
#include "top.hpp"

namespace starcast::STARCAST_ISA_NS {

template <int W>
void proba_pairs(const Question& ask, int64_t first, int64_t last) {
  using L = Lanes<W>;
  const RowLayout layout(ask.n_scores);
  const int S = ask.n_scores, K = ask.n_factors;
  alignas(64) float padded[W], columns[W * T];
  for (int s = 0; s < W; ++s) padded[s] = s < S ? ask.base[s] : 0.0f;
  const L base = L::load(padded);
  const int64_t stride = layout.stride(K + ask.biased);
  const auto user_row = [&](int64_t n) { return ask.P + ask.user[ask.item ? n : n / ask.n_items] * stride; };
  const auto item_row = [&](int64_t n) { return ask.Q + (ask.item ? ask.item[n] : n % ask.n_items) * stride; };
  for (int64_t begin = first; begin < last; begin += T) {
    L rows[T];
    for (int t = 0; t < T; ++t) {
      const int64_t n = begin + t < last ? begin + t : last - 1, next = n + T < last ? n + T : last - 1;
      prefetch(user_row(next), stride);
      prefetch(item_row(next), stride);
      const float *p = user_row(n), *q = item_row(n);
      L z = base;
      int at = 0, in_slot = 0;
      for (int k = 0; k < K; ++k, layout.next(at, in_slot)) z = fma(L::load(p + at), L::load(q + at), z);
      if (ask.biased) z = z + (L::load(p + at) + L::load(q + at));
      rows[t] = z;
    }
    Ratings turned[W];
    to_columns(rows, turned);
    for (int s = 0; s < S; ++s) turned[s].store(columns + s * T);
    apply_link<T>(columns, S, T, ask.link);
    const int64_t many = last - begin < T ? last - begin : T;
    float* out = ask.out + begin * S;
    for (int64_t t = 0; t < many; ++t)
      for (int s = 0; s < S; ++s) out[t * S + s] = columns[s * T + t];
  }
}

}  // namespace starcast::STARCAST_ISA_NS
