// What the draws of the ordinal model say of pairs.
#pragma once

#include "falling.hpp"
#include "kernels.hpp"
#include "triangles.hpp"

namespace starcast::STARCAST_ISA_NS {

constexpr int drawn_at_once = 4;  // users whose rows of draws stay in the nearest cache while an item's pass by

// Probabilities of U users and one item, averaged over draws: lanes over the draws, so nothing is summed across them
// until the end. D: the number of scores where it is known, else 0. A pair gets the same bits in any company.
// next: the item that comes after, fetched while this one is worked on, as rows of draws are long.
template <int D, int U>
STARCAST_INLINE void ordinal_users(const OrdinalQuestion& ask, const float* const* p, const float* q, const float* next,
                                   float* const* out) {
  const int J = ask.n_basis, S = D ? D : ask.n_scores;
  const int64_t T = ask.n_draws;
  int K = 0;
  for (int j = 0; j < J; ++j) K += ask.ranks[j];
  Sixteen answer[U][D ? D : max_scores];
  for (int u = 0; u < U; ++u)
    for (int s = 0; s < S; ++s) answer[u][s] = Sixteen::all(0.0f);
  for (int64_t t = 0; t < T; t += 16) {
    Sixteen eta[U][max_scores];
    for (int d = 0; d < ask.n_columns; ++d) __builtin_prefetch(next + d * T + t);
    for (int j = 0, d = 0; j < J; ++j) {
      const Sixteen bias = Sixteen::load(q + (K + j) * T + t);
      Sixteen sums[U];
      for (int u = 0; u < U; ++u) sums[u] = Sixteen::load(p[u] + (K + j) * T + t) + bias;
      for (int end = d + ask.ranks[j]; d < end; ++d) {
        const Sixteen factor = Sixteen::load(q + d * T + t);
        for (int u = 0; u < U; ++u) sums[u] = fma(Sixteen::load(p[u] + d * T + t), factor, sums[u]);
      }
      for (int u = 0; u < U; ++u) eta[u][j] = sums[u];
    }
    const Sixteen share = Sixteen::load(ask.weights + t);
    for (int u = 0; u < U; ++u) {
      Sixteen x[D ? D : max_scores];
      for (int s = 0; s < S; ++s) x[s] = Sixteen::all(ask.base[s]);
      for (int j = 0; j < J; ++j)
        for (int s = 0; s < S; ++s) x[s] = fma(eta[u][j], Sixteen::all(ask.basis[j * S + s]), x[s]);
      Sixteen top = x[0], total = Sixteen::all(0.0f);
      for (int s = 1; s < S; ++s) top = max(top, x[s]);
      for (int s = 0; s < S; ++s) {
        x[s] = exp_falling(x[s] - top);
        total = total + x[s];
      }
      const Sixteen weight = reciprocal(total) * share;
      for (int s = 0; s < S; ++s) answer[u][s] = fma(x[s], weight, answer[u][s]);
    }
  }
  for (int u = 0; u < U; ++u) {
    float all = 0;
    for (int s = 0; s < S; ++s) all += out[u][s] = sum(answer[u][s]);
    for (int s = 0; s < S; ++s) out[u][s] /= all;
  }
}

template <int U>
void ordinal_answers(const OrdinalQuestion& ask, const float* const* p, const float* q, const float* next,
                     float* const* out) {
  if (ask.n_scores == 5) ordinal_users<5, U>(ask, p, q, next, out);
  else if (ask.n_scores == 10) ordinal_users<10, U>(ask, p, q, next, out);
  else ordinal_users<0, U>(ask, p, q, next, out);
}

inline void ordinal_pairs(const OrdinalQuestion& ask, int64_t first, int64_t last) {
  const int64_t width = static_cast<int64_t>(ask.n_columns) * ask.n_draws;
  for (int64_t n = first; n < last; ++n) {
    const float* row = ask.P + ask.user[n] * width;
    float* to = ask.out + n * ask.n_scores;
    const float* next = ask.Q + ask.item[n + 1 < last ? n + 1 : n] * width;
    ordinal_answers<1>(ask, &row, ask.Q + ask.item[n] * width, next, &to);
  }
}

// out: [user][score][item] of the items that any of the users wants; the others keep what was there.
inline void tile_of_draws(const OrdinalQuestion& ask, const float* const* rows, int n_users, int64_t index,
                          const uint32_t* wanted, float* out) {
  const int64_t width = static_cast<int64_t>(ask.n_columns) * ask.n_draws;
  const int S = ask.n_scores;
  float probs[drawn_at_once][max_scores];
  for (int u = 0; u < n_users;) {
    const int many = n_users - u >= drawn_at_once ? drawn_at_once : 1;
    uint32_t any = 0;
    float* to[drawn_at_once];
    for (int v = 0; v < many; ++v) {
      any |= wanted[u + v];
      to[v] = probs[v];
    }
    for (; any; any &= any - 1) {
      const int lane = __builtin_ctz(any);
      const float* tile = ask.Q + index * tile_items * width;
      const float *q = tile + lane * width, *next = any & (any - 1) ? tile + __builtin_ctz(any & (any - 1)) * width : q;
      if (many == 1) ordinal_answers<1>(ask, rows + u, q, next, to);
      else ordinal_answers<drawn_at_once>(ask, rows + u, q, next, to);
      for (int v = 0; v < many; ++v)
        for (int s = 0; s < S; ++s) out[((u + v) * S + s) * tile_items + lane] = probs[v][s];
    }
    u += many;
  }
}

}  // namespace starcast::STARCAST_ISA_NS
