// Probabilities of sixteen items that follow each other, one vector a score, and a first look at which of them may
// enter a list of the best. Numbers come from the same operations in the same order as those of pairs, so they are the
// same.
#pragma once

#include "falling.hpp"
#include "kernels.hpp"

namespace starcast::STARCAST_ISA_NS {

using Part = Lanes<STARCAST_VECTOR_FLOATS>;  // as many items of a tile as a register holds

// Logits, one vector of W pairs a score, become probabilities where they are. A division, not an estimate: registers of
// different widths estimate differently.
template <int W>
STARCAST_INLINE void apply_link(float* z, int S, int step, Link link) {
  using L = Lanes<W>;
  L total = L::all(0.0f);
  if (link == Link::softmax) {
    L top = L::load(z);
    for (int s = 1; s < S; ++s) top = max(top, L::load(z + s * step));
    for (int s = 0; s < S; ++s) {
      const L e = exp_falling(L::load(z + s * step) - top);
      e.store(z + s * step);
      total = total + e;
    }
  } else {
    for (int s = 0; s < S; ++s) {
      const L x = max(min(L::all(0.0f) - L::load(z + s * step), L::all(17.0f)), L::all(-17.0f));
      const L e = L::all(1.0f) / (exp_in_range(x) + 1.0f);
      e.store(z + s * step);
      total = total + e;
    }
  }
  const L scale = L::all(1.0f) / total;
  for (int s = 0; s < S; ++s) (L::load(z + s * step) * scale).store(z + s * step);
}

// G scores from the first on, U users: a product of small matrices whose sums stay in registers.
template <int U, int G>
STARCAST_INLINE void tile_logits(const Question& ask, const RowLayout& layout, const float* const* rows, int first,
                                 const float* tile, float* out) {
  const int S = ask.n_scores;
  for (int part = 0; part < tile_items; part += Part::V) {
    Part z[U][G];
    for (int u = 0; u < U; ++u)
      for (int g = 0; g < G; ++g) z[u][g] = Part::all(ask.base[first + g]);
    const float* q = tile + first * tile_items + part;
    int at = first, in_slot = 0;
    for (int k = 0; k < ask.n_factors; ++k, layout.next(at, in_slot), q += S * tile_items)
      for (int g = 0; g < G; ++g) {
        const Part x = Part::load(q + g * tile_items);
        for (int u = 0; u < U; ++u) z[u][g] = fma(Part::all(rows[u][at + g]), x, z[u][g]);
      }
    for (int g = 0; g < G; ++g)
      for (int u = 0; u < U; ++u) {
        if (ask.biased) z[u][g] = z[u][g] + (Part::load(q + g * tile_items) + Part::all(rows[u][at + g]));
        z[u][g].store(out + (u * S + first + g) * tile_items + part);
      }
  }
}

constexpr int users_at_once = STARCAST_VECTOR_FLOATS == 16 ? 4 : 2;  // what the registers hold

// out: [user][score][item]; ask.Q: [tile][plane][score][item].
inline void tile_of_scores(const Question& ask, const float* const* rows, int n_users, int64_t index, float* out) {
  const int S = ask.n_scores;
  const RowLayout layout(S);
  const float* tile = ask.Q + index * (ask.n_factors + ask.biased) * S * tile_items;
  for (int u = 0; u < n_users;) {
    const bool many = n_users - u >= users_at_once;
    float* to = out + u * S * tile_items;
    for (int s = 0; s < S;) {
      const int left = S - s;
#define STARCAST_LOGITS(G)                                                 \
  many ? tile_logits<users_at_once, G>(ask, layout, rows + u, s, tile, to) \
       : tile_logits<1, G>(ask, layout, rows + u, s, tile, to)
      if (left >= 5) STARCAST_LOGITS(5), s += 5;
      else if (left >= 2) STARCAST_LOGITS(2), s += 2;
      else STARCAST_LOGITS(1), s += 1;
#undef STARCAST_LOGITS
    }
    u += many ? users_at_once : 1;
  }
  for (int u = 0; u < n_users; ++u) apply_link<tile_items>(out + u * S * tile_items, S, tile_items, ask.link);
}

template <int W>
struct Yes {  // which lanes
  typename Lanes<W>::I v[Lanes<W>::N];
};
#define STARCAST_COMPARE(name, op)                                    \
  template <int W>                                                    \
  STARCAST_INLINE Yes<W> name(const Lanes<W>& a, const Lanes<W>& b) { \
    Yes<W> c;                                                         \
    for (int n = 0; n < Lanes<W>::N; ++n) c.v[n] = a.v[n] op b.v[n];  \
    return c;                                                         \
  }
STARCAST_COMPARE(above, >)
STARCAST_COMPARE(below, <)
STARCAST_COMPARE(equal, ==)
#undef STARCAST_COMPARE

template <int W>
STARCAST_INLINE Lanes<W> choose(const Yes<W>& where, const Lanes<W>& yes, const Lanes<W>& no) {
  Lanes<W> c;
  for (int n = 0; n < Lanes<W>::N; ++n) c.v[n] = where.v[n] ? yes.v[n] : no.v[n];
  return c;
}

template <int W>
STARCAST_INLINE uint32_t bits(const Yes<W>& a) {
  uint32_t all = 0;
  for (int n = 0; n < Lanes<W>::N; ++n) {
    constexpr int V = Lanes<W>::V;
    uint32_t some = 0;
    if constexpr (false) {
    }
#if defined(__AVX512F__)
    else if constexpr (V == 16)
      some = _mm512_movepi32_mask(reinterpret_cast<__m512i>(a.v[n]));
#endif
#if defined(__AVX2__)
    else if constexpr (V == 8) some = static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(a.v[n])));
#endif
#if defined(__SSE2__)
    else if constexpr (V == 4) some = static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(a.v[n])));
#endif
    else
      for (int lane = 0; lane < V; ++lane) some |= (a.v[n][lane] & 1u) << lane;
    all |= some << (n * V);
  }
  return all;
}

// Which items of a tile may enter a list whose last entry is the floor. Whoever cannot be told apart from it may.
inline uint32_t sieve(const Sieve& ask, const float* probs) {
  using L = Lanes<tile_items>;
  const int S = ask.n_scores;
  const L zero = L::all(0.0f);
  L mean = zero, top = L::all(-1.0f), mode = zero;
  uint32_t unsure = 0;
  for (int s = 0; s < S; ++s) {
    const L p = L::load(probs + s * tile_items);
    const auto ahead = above(p, top);
    mean = fma(p, L::all(ask.values[s]), mean);
    top = choose(ahead, p, top);
    mode = choose(ahead, L::all(static_cast<float>(s)), mode);
  }
  if (ask.centering > 0) {
    L centre = zero, nearest = L::all(8.0f), best = L::all(-1.0f), second = best, level = zero;
    for (int s = 0; s < S; ++s) centre = fma(L::load(probs + s * tile_items), L::all(ask.place[s]), centre);
    for (int s = 0; s < S; ++s) {
      const L d = L::all(ask.place[s]) - centre;
      nearest = min(nearest, d * d);
    }
    for (int s = 0; s < S; ++s) {
      const L p = L::load(probs + s * tile_items), d = L::all(ask.place[s]) - centre;
      const L weight = p * exp_falling((nearest - d * d) * ask.centering);
      const auto ahead = above(weight, best);
      second = choose(ahead, best, max(second, weight));
      best = choose(ahead, weight, best);
      mode = choose(ahead, L::all(static_cast<float>(s)), mode);
      level = choose(ahead, p, level);
    }
    unsure |= bits(above(second, best * (1.0f - 1e-3f * (1.0f + ask.centering)) - 1e-5f));
    L n = zero, shared = zero, moved = zero, scores = zero;
    for (int s = 0; s < S; ++s) {
      const L p = L::load(probs + s * tile_items), v = L::all(ask.values[s]);
      const auto in = above(p, level - 1e-5f), out = below(p, level + 1e-5f);
      unsure |= bits(in) & bits(out) & ~bits(equal(mode, L::all(static_cast<float>(s))));
      n = choose(in, n + 1.0f, n);
      shared = choose(in, shared + p, shared);
      moved = choose(in, fma(p, v, moved), moved);
      scores = choose(in, scores + v, scores);
    }
    top = shared / n;
    mean = mean + (top * scores - moved);
  }
  const L floor = L::all(ask.mode);
  const uint32_t worse = bits(below(mode, floor)) | (bits(equal(mode, floor)) & bits(below(mean, L::all(ask.mean))));
  return (~(worse | bits(below(top, L::all(ask.reliability)))) | unsure) & 0xffffu;
}

// Which items of a tile may have a value of at least `least`. Q: [tile][column][item].
inline uint32_t tile_of_values(const float* row, const float* Q, int n_columns, bool biased, float mean, int64_t index,
                               float least) {
  using L = Lanes<tile_items>;
  const float* q = Q + index * n_columns * tile_items;
  L value = L::all(mean);
  if (biased) value = L::load(q) + (mean + row[0]);
  for (int k = biased; k < n_columns; ++k) value = fma(L::all(row[k]), L::load(q + k * tile_items), value);
  return ~bits(below(value, L::all(least))) & 0xffffu;
}

}  // namespace starcast::STARCAST_ISA_NS
