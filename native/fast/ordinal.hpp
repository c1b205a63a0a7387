// Rows of the ordinal model: a step of Newton's, or a draw from the posterior of a row while the others stand still.
//
// The logits of a pair are base + B eta, with a column of B per basis function and
//   eta_j = bias_uj + bias_ij + p_uj . q_ij
// so that they are linear in the numbers of one row, and the log-posterior of a row is concave. A row is laid out as
// the factors of basis function 0, those of 1, ..., then the biases, then zeros up to a multiple of 16.
#pragma once

#include "kernels.hpp"
#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

constexpr int G = 16;  // ratings put through the softmax at a time, one a lane
using Sixteen = Lanes<16>;  // columns of a row, ratings of a group, or draws

class OrdinalRow {
 public:
  static STARCAST_INLINE int64_t scratch_floats(const OrdinalPass& p) {
    const int64_t D = p.stride, J = p.n_basis, S = p.n_scores;
    return 2 * D * D + 8 * D + G * D + J * G * D + G * (2 * J + S + J * J) + 64;
  }

  OrdinalRow(const OrdinalPass& pass, float* scratch)
      : p_(pass), D_(pass.n_columns), stride_(pass.stride), J_(pass.n_basis), S_(pass.n_scores) {
    auto take = [&scratch](int64_t n) {
      float* at = scratch;
      scratch += n;
      return at;
    };
    U_ = take(stride_ * stride_);
    U1_ = take(stride_ * stride_);
    g_ = take(stride_);
    g1_ = take(stride_);
    step_ = take(stride_);
    trial_ = take(stride_);
    away_ = take(stride_);
    unit_ = take(stride_);
    v_ = take(G * stride_);
    w_ = take(static_cast<int64_t>(J_) * G * stride_);
    eta_ = take(G * J_);
    pull_ = take(G * J_);
    prob_ = take(G * S_);
    C_ = take(static_cast<int64_t>(G) * J_ * J_);
    for (int j = 0, d = 0; j < J_; ++j) {
      first_[j] = d;
      d += p_.ranks[j];
      first_[j + 1] = d;
    }
    K_ = first_[J_];
  }

  void move(int64_t row) {
    float* theta = p_.rows + row * stride_;
    double now = look(row, theta, g_, U_);
    for (int n = 0; n < p_.n_steps; ++n) {
      factorize(U_);
      if (!climb(row, theta, now)) break;
      if (n + 1 < p_.n_steps || p_.noise || p_.spread) now = look(row, theta, g_, U_);
    }
    if (p_.noise || p_.spread) {
      const double size = factorize(U_);
      if (p_.spread) add_inverse();
      if (p_.noise) now = jump(row, theta, now, size);
    }
    p_.row_objective[row] = now;
  }

 private:
  // The log-posterior of the row at theta and its gradient; the upper triangle of minus its second derivative if H.
  double look(int64_t row, const float* theta, float* g, float* H) {
    for (int d = 0; d < stride_; ++d) g[d] = 0;
    if (H)
      for (int64_t d = 0; d < stride_ * stride_; ++d) H[d] = 0;
    double objective = 0;
    for (int64_t n = p_.indptr[row]; n < p_.indptr[row + 1]; n += G) {
      const int64_t left = p_.indptr[row + 1] - n;
      objective += meet(theta, n, left < G ? static_cast<int>(left) : G, g, H);
    }
    return objective - prior(row, theta, g, H);
  }

  // Up to G ratings from the n-th on.
  double meet(const float* theta, int64_t n, int count, float* g, float* H) {
    for (int t = 0; t < G; ++t) gather(theta, t < count ? p_.others + p_.other[n + t] * stride_ : nullptr, t);
    const double gain = softmax(p_.score + n, count, H != nullptr);
    add_gradient(count, g);
    if (H) add_curvature(count, H);
    return gain;
  }

  // Column t of eta, and the features by which the row's numbers enter the pair: the other's factors, and ones.
  STARCAST_INLINE void gather(const float* theta, const float* other, int t) {
    float* v = v_ + t * stride_;
    if (!other) {
      for (int d = 0; d < stride_; ++d) v[d] = 0;
      for (int j = 0; j < J_; ++j) eta_[j * G + t] = 0;
      return;
    }
    for (int j = 0; j < J_; ++j) {
      float dot = theta[K_ + j] + other[K_ + j];
      int d = first_[j];
      Lanes<8> sums = Lanes<8>::all(0.0f);
      for (; d + 8 <= first_[j + 1]; d += 8) sums = fma(Lanes<8>::load(theta + d), Lanes<8>::load(other + d), sums);
      dot += sum(sums);
      for (; d < first_[j + 1]; ++d) dot += theta[d] * other[d];
      eta_[j * G + t] = dot;
    }
    for (int d = 0; d < stride_; d += 16) Sixteen::load(other + d).store(v + d);
    for (int j = 0; j < J_; ++j) v[K_ + j] = 1.0f;
  }

  // Probabilities, the residuals pulled back through the basis, and their covariance through the basis.
  double softmax(const int8_t* score, int count, bool curvature) {
    Sixteen top = Sixteen::all(-1e30f), total = Sixteen::all(0.0f);
    for (int s = 0; s < S_; ++s) {
      Sixteen x = Sixteen::all(p_.base[s]);
      for (int j = 0; j < J_; ++j) x = fma(Sixteen::load(eta_ + j * G), Sixteen::all(p_.basis[j * S_ + s]), x);
      x.store(prob_ + s * G);
      top = max(top, x);
    }
    alignas(64) float logit[G], logs[G];
    for (int t = 0; t < G; ++t) logit[t] = t < count ? prob_[score[t] * G + t] : 0.0f;
    for (int s = 0; s < S_; ++s) {
      const Sixteen e = exp(Sixteen::load(prob_ + s * G) - top);
      e.store(prob_ + s * G);
      total = total + e;
    }
    (Sixteen::load(logit) - top - log(total)).store(logs);
    double gain = 0;
    for (int t = 0; t < count; ++t) gain += static_cast<double>(logs[t]);
    const Sixteen scale = reciprocal(total);
    for (int j = 0; j < J_; ++j) {
      Sixteen mean = Sixteen::all(0.0f);
      for (int s = 0; s < S_; ++s) mean = fma(Sixteen::load(prob_ + s * G), Sixteen::all(p_.basis[j * S_ + s]), mean);
      (mean * scale).store(pull_ + j * G);
    }
    if (curvature) covary(scale);
    for (int j = 0; j < J_; ++j)
      for (int t = 0; t < G; ++t)
        pull_[j * G + t] = t < count ? p_.basis[j * S_ + score[t]] - pull_[j * G + t] : 0.0f;
    return gain;
  }

  void covary(const Sixteen& scale) {
    for (int a = 0; a < J_; ++a)
      for (int b = 0; b <= a; ++b) {
        Sixteen c = Sixteen::all(0.0f);
        for (int s = 0; s < S_; ++s)
          c = fma(Sixteen::load(prob_ + s * G), Sixteen::all(p_.basis[a * S_ + s] * p_.basis[b * S_ + s]), c);
        c = c * scale - Sixteen::load(pull_ + a * G) * Sixteen::load(pull_ + b * G);
        c.store(C_ + (a * J_ + b) * G);
        c.store(C_ + (b * J_ + a) * G);
      }
  }

  void add_gradient(int count, float* g) {
    for (int j = 0; j < J_; ++j)
      for (int d = first_[j]; d < first_[j + 1]; ++d) {
        float sum = g[d];
        for (int t = 0; t < count; ++t) sum += pull_[j * G + t] * v_[t * stride_ + d];
        g[d] = sum;
      }
    for (int j = 0; j < J_; ++j) g[K_ + j] += sum(Sixteen::load(pull_ + j * G));
  }

  // H[d][e] += sum over ratings of C[j(d)][j(e)] v[d] v[e], for e >= d: per basis function j first the features weighted
  // by row j of C, then four rows of H at a time against them.
  void add_curvature(int count, float* H) {
    for (int j = 0; j < J_; ++j) {
      weigh(j, count);
      for (int d = first_[j]; d < first_[j + 1]; d += 4) {
        const int rows = first_[j + 1] - d < 4 ? first_[j + 1] - d : 4;
        for (int e = d / 16 * 16; e < stride_; e += 16) add_tile(j, d, rows, e, count, H);
      }
      float* h = H + static_cast<int64_t>(K_ + j) * stride_;
      for (int e = (K_ + j) / 16 * 16; e < stride_; e += 16) {
        Sixteen sums = Sixteen::load(h + e);
        for (int t = 0; t < count; ++t) sums = sums + Sixteen::load(w_ + (j * G + t) * stride_ + e);
        sums.store(h + e);
      }
    }
  }

  STARCAST_INLINE void weigh(int j, int count) {
    for (int t = 0; t < count; ++t) {
      const float* v = v_ + t * stride_;
      float* w = w_ + (j * G + t) * stride_;
      for (int b = 0; b < J_; ++b) {
        const float c = C_[(j * J_ + b) * G + t];
        for (int d = first_[b]; d < first_[b + 1]; ++d) w[d] = c * v[d];
        w[K_ + b] = c;
      }
      for (int d = D_; d < stride_; ++d) w[d] = 0;
    }
  }

  STARCAST_INLINE void add_tile(int j, int d, int rows, int e, int count, float* H) {
    const float *w = w_ + j * G * stride_ + e, *v = v_ + d;
    float* h = H + static_cast<int64_t>(d) * stride_ + e;
    if (rows == 4) {
      Sixteen a = Sixteen::load(h), b = Sixteen::load(h + stride_), c = Sixteen::load(h + 2 * stride_),
            f = Sixteen::load(h + 3 * stride_);
      for (int t = 0; t < count; ++t, w += stride_, v += stride_) {
        const Sixteen x = Sixteen::load(w);
        a = fma(x, Sixteen::all(v[0]), a);
        b = fma(x, Sixteen::all(v[1]), b);
        c = fma(x, Sixteen::all(v[2]), c);
        f = fma(x, Sixteen::all(v[3]), f);
      }
      a.store(h);
      b.store(h + stride_);
      c.store(h + 2 * stride_);
      f.store(h + 3 * stride_);
      return;
    }
    for (int r = 0; r < rows; ++r) {
      Sixteen a = Sixteen::load(h + r * stride_);
      for (int t = 0; t < count; ++t) a = fma(Sixteen::load(w + t * stride_), Sixteen::all(v[t * stride_ + r]), a);
      a.store(h + r * stride_);
    }
  }

  // Half the squared distance from the prior's mean; its pull and its curvature are added.
  double prior(int64_t row, const float* theta, float* g, float* H) {
    const float* mean = p_.means + row * stride_;
    for (int d = 0; d < stride_; ++d) away_[d] = theta[d] - mean[d];
    double price = 0;
    for (int d = 0; d < D_; ++d) {
      const float* precision = p_.precision + static_cast<int64_t>(d) * stride_;
      const float pull = dot(precision, away_, 0);
      g[d] -= pull;
      price += 0.5 * static_cast<double>(pull) * static_cast<double>(away_[d]);
      if (H)
        for (int e = d / 16 * 16; e < stride_; e += 16) {
          float* h = H + static_cast<int64_t>(d) * stride_ + e;
          (Sixteen::load(h) + Sixteen::load(precision + e)).store(h);
        }
    }
    return price;
  }

  STARCAST_INLINE float dot(const float* a, const float* b, int from) {
    Sixteen sums = Sixteen::all(0.0f);
    for (int e = from / 16 * 16; e < stride_; e += 16) sums = fma(Sixteen::load(a + e), Sixteen::load(b + e), sums);
    return sum(sums);
  }

  // The upper triangle of H becomes U with U'U = H, zeros below it; returns the logarithm of U's determinant.
  double factorize(float* U) {
    double size = 0;
    for (int k = 0; k < D_; ++k) {
      float* u = U + static_cast<int64_t>(k) * stride_;
      for (int e = k / 16 * 16; e < k; ++e) u[e] = 0;
      const float root = __builtin_sqrtf(u[k] > 1e-12f ? u[k] : 1e-12f), scale = 1.0f / root;
      size += __builtin_log(static_cast<double>(root));
      for (int e = k / 16 * 16; e < stride_; e += 16) (Sixteen::load(u + e) * scale).store(u + e);
      for (int d = k + 1; d < D_; ++d) {
        const Sixteen minus = Sixteen::all(-u[d]);
        float* h = U + static_cast<int64_t>(d) * stride_;
        for (int e = d / 16 * 16; e < stride_; e += 16) fma(minus, Sixteen::load(u + e), Sixteen::load(h + e)).store(h + e);
      }
    }
    return size;
  }

  // x = U'^-1 x
  void forward(const float* U, float* x) {
    for (int k = 0; k < D_; ++k) {
      const float* u = U + static_cast<int64_t>(k) * stride_;
      const float y = x[k] / u[k];
      const Sixteen minus = Sixteen::all(-y);
      for (int e = k / 16 * 16; e < stride_; e += 16) fma(minus, Sixteen::load(u + e), Sixteen::load(x + e)).store(x + e);
      x[k] = y;  // the strip above took what it covers down to zero, before and at k, where U is zero or was used
    }
  }

  // x = U^-1 x
  void backward(const float* U, float* x) {
    for (int k = D_ - 1; k >= 0; --k) {
      const float* u = U + static_cast<int64_t>(k) * stride_;
      const float own = x[k];
      x[k] = 0;
      x[k] = (own - dot(u, x, k)) / u[k];
    }
  }

  void solve(const float* U, const float* g, float* x) {
    for (int d = 0; d < stride_; ++d) x[d] = g[d];
    forward(U, x);
    backward(U, x);
  }

  // A step of Newton's, halved until it gains: false if the row is where it should be.
  bool climb(int64_t row, float* theta, double& now) {
    solve(U_, g_, step_);
    double promise = 0;  // what the gradient says of a full step
    for (int d = 0; d < D_; ++d) promise += static_cast<double>(step_[d]) * static_cast<double>(g_[d]);
    if (!(promise > 1e-6)) return false;
    float size = 1.0f;
    for (int tries = 0; tries < 12; ++tries, size *= 0.5f) {
      for (int d = 0; d < stride_; ++d) trial_[d] = theta[d] + size * step_[d];
      const double then = look(row, trial_, g1_, nullptr);
      if (then > now) {
        for (int d = 0; d < stride_; ++d) theta[d] = trial_[d];
        now = then;
        return true;
      }
    }
    return false;
  }

  // One move of Metropolis and Hastings: a draw around the end of a step of Newton's, accepted as often as makes the
  // posterior of the row the distribution that these moves leave alone.
  double jump(int64_t row, float* theta, double now, double size) {
    const float* noise = p_.noise + row * stride_;
    double there = 0;
    for (int d = 0; d < stride_; ++d) {
      unit_[d] = d < D_ ? noise[d] : 0.0f;
      there += static_cast<double>(unit_[d]) * static_cast<double>(unit_[d]);
    }
    solve(U_, g_, step_);
    backward(U_, unit_);
    for (int d = 0; d < stride_; ++d) trial_[d] = theta[d] + step_[d] + unit_[d];
    const double then = look(row, trial_, g1_, U1_);
    const double size_then = factorize(U1_);
    solve(U1_, g1_, step_);
    for (int d = 0; d < stride_; ++d) unit_[d] = theta[d] - trial_[d] - step_[d];
    double back = 0;
    for (int d = 0; d < D_; ++d) {
      const double x = static_cast<double>(dot(U1_ + static_cast<int64_t>(d) * stride_, unit_, d));
      back += x * x;
    }
    const double chance = then - now + (size_then - 0.5 * back) - (size - 0.5 * there);
    if (!(static_cast<double>(p_.luck[row]) < chance)) return now;
    for (int d = 0; d < stride_; ++d) theta[d] = trial_[d];
    ++*p_.accepted;
    return then;
  }

  // The inverse of the curvature, column by column: how far the row is from being known.
  void add_inverse() {
    for (int c = 0; c < D_; ++c) {
      for (int d = 0; d < stride_; ++d) unit_[d] = d == c ? 1.0f : 0.0f;
      forward(U_, unit_);
      backward(U_, unit_);
      for (int d = 0; d < D_; ++d) p_.spread[c * D_ + d] += static_cast<double>(unit_[d]);
    }
  }

  const OrdinalPass& p_;
  const int D_, stride_, J_, S_;
  int K_ = 0;
  int first_[max_scores + 1];
  float *U_, *U1_, *g_, *g1_, *step_, *trial_, *away_, *unit_, *v_, *w_, *eta_, *pull_, *prob_, *C_;
};

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
