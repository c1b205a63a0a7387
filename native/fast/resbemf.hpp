// ResBeMF: the exact block step and the gradient step, for a range of rows.
#pragma once

#include "strip.hpp"

namespace starcast::STARCAST_ISA_NS {

// A step that promises less than this part of the row's objective is lost in float32 rounding, and is not taken:
// this is what lets the objective stand still at the optimum instead of trembling.
constexpr double least_gain = 2e-7;

// Below that a gain cannot be checked, but a gradient is known far better than an objective: rows that are solved for
// alone go on unchecked to this one, where gradients drown, too. Near the optimum the steps shrink, since the true
// curvature is at most 2 (d - 1) / d times the one they are made from.
constexpr double least_polish = 1e-12;

// One row's step: the planes [begin, end) of factors and, if bias, the plane of biases.
struct Block {
  int begin = 0, end = 0;
  bool bias = false;
  STARCAST_INLINE int size() const { return end - begin + bias; }
};

// The logits of a batch -> g and, if Curved, w. D is n_scores when the compiler knows it, otherwise 0.
//
// w: sigma (1 - sigma) d / (d - 1) is the exact Hessian of the log-softmax for two scores, and for any number of
// equally likely ones; the step is checked afterwards, so it need not be a bound. A bold or cautious term bends the
// objective by at most about its own size.
template <int S, int D, bool Curved, bool Scored = true>
STARCAST_INLINE void softmax(const Pass& pass, const int8_t* score, int batch, Strip<S, D>& strip, LogLik& loglik) {
  const int n = strip.d(), m = strip.ratings(batch);
  const Truth truth(score, m);
  const Batch one = Batch::all(1.0f);
  Batch y[S], e[S];
  for (int s = 0; s < n; ++s) y[s] = Batch::load(strip.slopes[batch][s]);
  Batch top = y[0];
  for (int s = 1; s < n; ++s) top = max(top, y[s]);
  Batch total = Batch::all(0.0f), shifted = total;
  for (int s = 0; s < n; ++s) {
    const Batch x = y[s] - top;
    if constexpr (Scored) shifted = shifted + truth.where(s, x);
    e[s] = exp_in_range(max(x, Batch::all(-60.0f)));  // smaller numbers would only turn into denormals, which are slow
    total = total + e[s];
  }
  if (m < B) total = truth.keep(total) + (one - truth.keep(one));
  if constexpr (Scored) loglik.add(shifted, total);
  const Batch scale = truth.keep(reciprocal(total));
  for (int s = 0; s < n; ++s) e[s] = e[s] * scale;
  for (int s = 0; s < n; ++s) y[s] = truth.where(s, one) - e[s];
  if (pass.recklessness != 0) {
    const Spread<S> spread(e, pass.values, n);
    if constexpr (Scored) loglik.linear = loglik.linear - spread.variance * pass.recklessness;
    for (int s = 0; s < n; ++s) y[s] = y[s] - spread.slope(s, e[s]) * pass.recklessness;
  }
  for (int s = 0; s < n; ++s) y[s].store(strip.slopes[batch][s]);
  if constexpr (Curved) {
    const float r = pass.recklessness < 0 ? -pass.recklessness : pass.recklessness;
    const float c = (1.0f + r) * static_cast<float>(n) / static_cast<float>(n - 1);
    for (int s = 0; s < n; ++s) ((e[s] - e[s] * e[s]) * c).store(strip.curves[batch][s]);
  }
}

// H += sum w f f', G += sum g f over the planes of a block, which lie at `at`; H packed by rows of its lower triangle,
// the bias (feature 1) last.
template <int W, int S, int D>
STARCAST_INLINE void add_curvature(const Strip<S, D>& strip, const int* at, const Block& block, float* H, float* G) {
  using L = Lanes<W>;
  L slopes[T], curves[T];
  const int n = block.end - block.begin;
  float* last = H + n * (n + 1) / 2 * W;
  for (int t = 0; t < strip.n_tiles * T; t += 4) {
    if (t % T == 0) {
      strip.turn_back(strip.slopes, t / T, 1, slopes);
      strip.turn_back(strip.curves, t / T, 1, curves);
    }
    const L *g = slopes + t % T, *w = curves + t % T;
    // A vector of one plane has numbers of the next one in its padding, where g and w are 0.
    const float *f0 = strip.f[t], *f1 = strip.f[t + 1], *f2 = strip.f[t + 2], *f3 = strip.f[t + 3];
    float* h = H;
    for (int k = 0; k < n; ++k) {
      const L a0 = L::load(f0 + at[k]), a1 = L::load(f1 + at[k]), a2 = L::load(f2 + at[k]), a3 = L::load(f3 + at[k]);
      L s = L::load(G + k * W);
      s = fma(g[0], a0, s);
      s = fma(g[1], a1, s);
      s = fma(g[2], a2, s);
      s = fma(g[3], a3, s);
      s.store(G + k * W);
      const L b0 = w[0] * a0, b1 = w[1] * a1, b2 = w[2] * a2, b3 = w[3] * a3;
      for (int l = 0; l <= k; ++l, h += W) {
        L c = L::load(h);
        c = fma(b0, L::load(f0 + at[l]), c);
        c = fma(b1, L::load(f1 + at[l]), c);
        c = fma(b2, L::load(f2 + at[l]), c);
        c = fma(b3, L::load(f3 + at[l]), c);
        c.store(h);
      }
      if (block.bias) (L::load(last + k * W) + ((b0 + b1) + (b2 + b3))).store(last + k * W);
    }
    if (block.bias) {
      (L::load(last + n * W) + ((w[0] + w[1]) + (w[2] + w[3]))).store(last + n * W);
      (L::load(G + n * W) + ((g[0] + g[1]) + (g[2] + g[3]))).store(G + n * W);
    }
  }
}

template <int W>
STARCAST_INLINE Lanes<W> root(Lanes<W> a) {
  for (int n = 0; n < Lanes<W>::N; ++n)
    for (int i = 0; i < Lanes<W>::V; ++i) a.v[n][i] = __builtin_sqrtf(a.v[n][i]);
  return a;
}

// Solves H d = G for all scores at once (Cholesky, lanes over the scores); H is overwritten.
template <int W>
STARCAST_INLINE void solve(int n, float* H, float* G, float* d) {
  using L = Lanes<W>;
  auto at = [H](int k, int l) { return H + (k * (k + 1) / 2 + l) * W; };
  for (int k = 0; k < n; ++k) {
    for (int l = 0; l <= k; ++l) {
      const L h = L::load(at(k, l));
      L c = h;
      for (int q = 0; q < l; ++q) c = c - L::load(at(k, q)) * L::load(at(l, q));
      // The diagonal holds 1 / L_kk. A pivot lost in rounding is replaced by one that keeps the step bounded.
      if (l < k) c = c * L::load(at(l, l));
      else c = L::all(1.0f) / root(max(c, h * 1e-5f + 1e-12f));
      c.store(at(k, l));
    }
    L y = L::load(G + k * W);
    for (int q = 0; q < k; ++q) y = y - L::load(at(k, q)) * L::load(d + q * W);
    (y * L::load(at(k, k))).store(d + k * W);
  }
  for (int k = n - 1; k >= 0; --k) {
    L y = L::load(d + k * W);
    for (int q = k + 1; q < n; ++q) y = y - L::load(at(q, k)) * L::load(d + q * W);
    (y * L::load(at(k, k))).store(d + k * W);
  }
}

// The step of one row, block after block: Newton with a curvature that is block-diagonal over the scores, halved until
// the row's objective rises. W: lanes of one plane. The row is worked on as planes of W lanes, 0 in the padding, and
// put back at the end.
template <int W, int S, int D>
struct ExactRow {
  static constexpr int block_planes = max_block + 1;
  using L = Lanes<W>;
  const Pass& pass;
  const RowLayout layout{pass.n_scores};
  const int n_planes = pass.n_factors + pass.biased;
  const int64_t stride = layout.stride(n_planes);
  float *H, *G, *d, *x, *trial, *packed, *z, *z_trial;  // scratch
  Strip<S, D> strip{pass.n_scores};

  static int64_t scratch_floats(const Pass& pass, int64_t longest_row) {
    const int n = pass.n_factors + 1;
    return W * (block_planes * (block_planes + 1) / 2 + 2 * block_planes + 2 * n) + RowLayout(pass.n_scores).stride(n) +
           2 * pass.n_scores * (longest_row + T);
  }

  STARCAST_INLINE ExactRow(const Pass& p, float* scratch) : pass(p) {
    H = scratch;
    G = H + W * block_planes * (block_planes + 1) / 2;
    d = G + W * block_planes;
    x = d + W * block_planes;
    trial = x + W * (p.n_factors + 1);
    packed = trial + W * (p.n_factors + 1);
    z = packed + layout.stride(p.n_factors + 1);
    z_trial = z + p.n_scores * (p.longest_row + T);
  }

  STARCAST_INLINE Block block(int b) const {
    return {block_begin(pass.n_factors, b), block_begin(pass.n_factors, b + 1), pass.biased && b == 0};
  }
  STARCAST_INLINE int plane(const Block& b, int k) const { return k < b.end - b.begin ? b.begin + k : pass.n_factors; }
  STARCAST_INLINE float decay(int plane) const {
    return plane < pass.n_factors ? pass.regularization : pass.bias_regularization;
  }

  double penalty(const float* y) const {
    double sums[2] = {0, 0};
    for (int k = 0; k < n_planes; ++k) {
      const L a = L::load(y + k * W);
      sums[k == pass.n_factors] += static_cast<double>(sum(a * a));
    }
    return 0.5 * (static_cast<double>(pass.regularization) * sums[0] +
                  static_cast<double>(pass.bias_regularization) * sums[1]);
  }

  // The log-likelihood of the row where `start` and `packed` put it: at x, or (from) a step away from the logits z.
  // With `next`, leaves that block's H and G, and the logits in z_out unless that is null.
  double sweep(int64_t begin, int64_t end, const Lanes<S>& start, int first_slot, int last_slot, bool from,
               float* z_out, const Block* next) {
    LogLik loglik;
    int at_plane[max_block];
    if (next) {
      for (int k = next->begin; k < next->end; ++k) at_plane[k - next->begin] = layout.offset(k);
      const int n = next->size();
      std::memset(H, 0, sizeof(float) * W * n * (n + 1) / 2);
      std::memset(G, 0, sizeof(float) * W * n);
    }
    const int length = Strip<S, D>::length(stride), n_scores = strip.d();
    for (int64_t j = begin; j < end; j += length) {
      strip.gather(pass, stride, j, end, length);
      for (int tile = 0; tile < strip.n_tiles; ++tile) {
        Ratings y[S];
        strip.dot(tile, packed, start, first_slot, last_slot, y);
        const int64_t at = (j - begin + tile * T) * n_scores;
        for (int s = 0; s < n_scores; ++s) {
          if (from) y[s] = y[s] + Ratings::load(z + at + s * T);
          y[s].store(strip.slope_at(tile, s));
          if (next && z_out) y[s].store(z_out + at + s * T);
        }
      }
      for (int batch = 0; batch < strip.n_batches; ++batch) {
        const int8_t* score = pass.score + j + batch * B;
        ask_ahead(pass, stride, j + length + batch * B, end);
        if (next) softmax<S, D, true>(pass, score, batch, strip, loglik);
        else softmax<S, D, false>(pass, score, batch, strip, loglik);
      }
      if (next) add_curvature<W>(strip, at_plane, *next, H, G);
    }
    loglik.fold();
    return loglik.total;
  }

  // The Newton step of a block from its H and G, into d; returns the gain it promises, or -1 if the step is not a
  // number.
  double direction(const Block& b) {
    for (int k = 0; k < b.size(); ++k) {
      const float reg = decay(plane(b, k));
      float* h = H + (k * (k + 1) / 2 + k) * W;
      (L::load(h) + reg).store(h);
      (L::load(G + k * W) - L::load(x + plane(b, k) * W) * reg).store(G + k * W);
    }
    solve<W>(b.size(), H, G, d);
    L gain = L::all(0.0f), zero = gain;
    for (int k = 0; k < b.size(); ++k) {
      gain = fma(L::load(G + k * W), L::load(d + k * W), gain);
      zero = zero + L::load(d + k * W) * 0.0f;
    }
    return sum(zero) == 0.0f ? 0.5 * static_cast<double>(sum(gain)) : -1.0;
  }

  // trial = x + a d, and the log-likelihood there.
  double try_step(int64_t begin, int64_t end, const Block& b, float a, const Block* next) {
    std::memcpy(trial, x, sizeof(float) * W * n_planes);
    std::memset(packed, 0, sizeof(float) * stride);
    alignas(64) float start[S] = {};
    for (int k = 0; k < b.size(); ++k) {
      const int p = plane(b, k);
      for (int s = 0; s < pass.n_scores; ++s) {
        const float step = a * d[k * W + s];
        trial[p * W + s] += step;
        if (p < pass.n_factors) packed[layout.offset(p) + s] = step;
        else start[s] = step;
      }
    }
    const int last = b.end > b.begin ? (b.end - 1) / layout.pack + 1 : 0;
    return sweep(begin, end, Lanes<S>::load(start), b.begin / layout.pack, last, true, z_trial, next);
  }

  void step(int64_t row) {
    const int64_t begin = pass.indptr[row], end = pass.indptr[row + 1];
    float* home = pass.rows + row * stride;
    if (begin == end) {  // nothing but the prior
      std::memset(home, 0, sizeof(float) * stride);
      pass.row_loglik[row] = pass.row_penalty[row] = 0;
      return;
    }
    std::memset(x, 0, sizeof(float) * W * n_planes);
    for (int k = 0; k < n_planes; ++k) std::memcpy(x + k * W, home + layout.offset(k), sizeof(float) * pass.n_scores);
    const int n_blocks = blocks_of(pass.n_factors);
    Block now = block(0);
    const Lanes<S> start = prepare<S>(layout, pass.n_factors, pass.biased, pass.base, home, packed);
    double loglik = sweep(begin, end, start, 0, layout.slots(n_planes), false, z, &now), prior = penalty(x);
    for (int b = 0; b < n_blocks; ++b) {
      const Block next = b + 1 < n_blocks ? block(b + 1) : Block{};
      const Block* after = b + 1 < n_blocks ? &next : nullptr;
      const double value = loglik - prior;
      bool moved = false;
      const double gain = direction(now), size = value < 0 ? -value : value;
      if (gain > (pass.polish ? least_polish : least_gain) * size) {
        const bool checked = gain > least_gain * size;
        float a = 1;
        for (int trials = 0; trials < 6 && !moved; ++trials, a *= 0.5f) {
          const double new_loglik = try_step(begin, end, now, a, after), new_prior = penalty(trial);
          if (checked && !(new_loglik - new_prior > value)) continue;
          moved = true;
          loglik = new_loglik;
          prior = new_prior;
          std::memcpy(x, trial, sizeof(float) * W * n_planes);
        }
      }
      if (!moved && after) try_step(begin, end, now, 0, after);
      float* swap = z;
      z = z_trial;
      z_trial = swap;
      now = next;
    }
    for (int k = 0; k < n_planes; ++k) std::memcpy(home + layout.offset(k), x + k * W, sizeof(float) * pass.n_scores);
    pass.row_loglik[row] = loglik;
    pass.row_penalty[row] = prior;
  }
};

// One step of a row by all of its ratings, with momentum or without.
template <int S, int D, bool Scored>
void resbemf_gradient_rows(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  const RowLayout layout(pass.n_scores);
  const int n_slots = layout.slots(pass.n_factors + pass.biased);
  const int64_t stride = static_cast<int64_t>(n_slots) * S;
  const int length = Strip<S, D>::length(stride);
  float* prepared = scratch + stride;
  Strip<S, D> strip(pass.n_scores);
  LogLik loglik;
  for (int64_t row = first; row < last; ++row) {
    const Visit visit(pass, row, last, stride, scratch);
    visit.begin_sums();
    const Lanes<S> start =
        prepare<S>(layout, pass.n_factors, pass.biased, pass.base, pass.rows + row * stride, prepared);
    float* bias_sums = visit.sums + layout.offset(pass.n_factors);
    alignas(64) float biases[S] = {};
    if (pass.biased) std::memcpy(biases, bias_sums, sizeof(float) * pass.n_scores);
    Lanes<S> total = Lanes<S>::load(biases);
    for (int64_t j = visit.begin; j < visit.end; j += length) {
      strip.gather(pass, stride, j, visit.end, length);
      for (int tile = 0; tile < strip.n_tiles; ++tile) {
        Ratings y[S];
        strip.dot(tile, prepared, start, 0, n_slots, y);
        for (int s = 0; s < strip.d(); ++s) y[s].store(strip.slope_at(tile, s));
      }
      const int64_t next = visit.after(j, length);
      for (int batch = 0; batch < strip.n_batches; ++batch) {
        ask_ahead(pass, stride, next + batch * B, visit.limit());
        softmax<S, D, false, Scored>(pass, pass.score + j + batch * B, batch, strip, loglik);
      }
      add_gradient(strip, n_slots, visit.sums, total);
    }
    total.store(biases);
    if (pass.biased) std::memcpy(bias_sums, biases, sizeof(float) * pass.n_scores);
    if (pass.window.last) visit.step();
  }
  loglik.fold();
  if constexpr (Scored) report(pass, first, last, loglik.total);
}

}  // namespace starcast::STARCAST_ISA_NS
