// Rows of the ordinal model: a step of Newton's, or a draw from the posterior of a row while the others stand still.
//
// The logits of a pair are base + B eta, with a column of B per basis function and
//   eta_j = bias_uj + bias_ij + p_uj . q_ij
// so that they are linear in the numbers of one row, and the log-posterior of a row is concave. A row is laid out as
// the factors of basis function 0, those of 1, ..., then the biases, then zeros up to a multiple of 16.
#pragma once

#include "kernels.hpp"
#include "triangles.hpp"

namespace starcast::STARCAST_ISA_NS {

constexpr double enough = 1e-5;  // of a log-posterior: what a step must promise to be taken
constexpr int G = 16;            // ratings put through the softmax at a time, one a lane

class OrdinalRow : private Triangles {
 public:
  static STARCAST_INLINE int64_t scratch_floats(const OrdinalPass& p) {
    const int64_t D = p.stride, J = p.n_basis, S = p.n_scores, wide = D + 16 * J;
    return 2 * D * D + 6 * D + G * (D + wide + 2 * J + S + J * J) + sums_floats(wide, D, J) + J * J * S + 64;
  }

  OrdinalRow(const OrdinalPass& pass, float* scratch)
      : Triangles(pass.n_columns, pass.stride), p_(pass), J_(pass.n_basis), S_(pass.n_scores) {
    for (int j = 0; j < J_; ++j) {
      first_[j + 1] = first_[j] + p_.ranks[j];
      wide_[j + 1] = wide_[j] + (p_.ranks[j] + 15) / 16 * 16;
    }
    K_ = first_[J_];
    float** const vectors[] = {&g_, &g1_, &step_, &trial_, &away_, &unit_};
    for (float** vector : vectors) scratch = take(scratch, vector, stride_);
    scratch = take(scratch, &U_, static_cast<int64_t>(stride_) * stride_);
    scratch = take(scratch, &U1_, static_cast<int64_t>(stride_) * stride_);
    scratch = take(scratch, &eta_, G * J_);
    scratch = take(scratch, &pull_, G * J_);
    scratch = take(scratch, &prob_, G * S_);
    scratch = take(scratch, &C_, static_cast<int64_t>(G) * J_ * J_);
    scratch = take(scratch, &products_, static_cast<int64_t>(J_) * J_ * S_);
    scratch = take(scratch, &v_, G * stride_ + 16);
    scratch = take(scratch, &w_, static_cast<int64_t>(G) * wide_[J_]);
    sums_ = scratch;
    sums_floats_ = sums_floats(wide_[J_], K_, J_);
    scratch = take(scratch, &pulls_, wide_[J_]);
    scratch = take(scratch, &bias_pull_, J_);
    scratch = take(scratch, &bias_square_, J_ * J_);
    scratch = take(scratch, &crosses_, static_cast<int64_t>(J_) * wide_[J_]);
    blocks_ = scratch;
    float* product = products_;
    for (int a = 0; a < J_; ++a)
      for (int b = 0; b <= a; ++b)
        for (int s = 0; s < S_; ++s) *product++ = p_.basis[a * S_ + s] * p_.basis[b * S_ + s];
  }

  void move(int64_t row) {
    float* theta = p_.rows + row * stride_;
    double now = look(row, theta, g_, U_), size = factorize(U_);
    if (p_.spread) add_inverse();
    for (int n = 1; n <= p_.n_steps && climb(row, theta, now); ++n) {
      if (n == p_.n_steps && !p_.noise) break;  // nobody asks for the curvature where the steps end
      now = look(row, theta, g_, U_);
      size = factorize(U_);
    }
    if (p_.noise) now = jump(row, theta, now, size);
    p_.row_objective[row] = now;
  }

  // The likelihood alone, for sums over several places.
  void tell(const OrdinalLook& ask, int64_t k) {
    const float* theta = p_.rows + k * stride_;
    if (!ask.curve) {
      ask.loglik[k] = likelihood(ask.which[k], theta);
      return;
    }
    ask.loglik[k] = slopes(ask.which[k], theta, g_, U_);
    float *slope = ask.slope + k * D_, *curve = ask.curve + k * D_ * (D_ + 1) / 2;
    for (int d = 0; d < D_; ++d) {
      slope[d] = g_[d];
      for (int e = d; e < D_; ++e) *curve++ = U_[static_cast<int64_t>(d) * stride_ + e];
    }
  }

  // What such sums make of a row.
  void aim(const OrdinalAim& sums, int64_t row) {
    const float *theta = p_.rows + row * stride_, *curve = sums.curve + row * D_ * (D_ + 1) / 2;
    for (int64_t n = 0; n < static_cast<int64_t>(stride_) * stride_; ++n) U_[n] = 0;
    for (int d = 0; d < stride_; ++d) g_[d] = d < D_ ? sums.slope[row * D_ + d] : 0.0f;
    for (int d = 0; d < D_; ++d)
      for (int e = d; e < D_; ++e) U_[static_cast<int64_t>(d) * stride_ + e] = *curve++;
    p_.row_objective[row] = sums.loglik[row] - prior(row, theta, g_, U_);
    sums.size[row] = factorize(U_);
    if (p_.spread) add_inverse();
    solve(U_, g_, step_);
    for (int d = 0; d < stride_; ++d) sums.step[row * stride_ + d] = step_[d];
    sums.promise[row] = promise();
    if (p_.noise) {
      for (int d = 0; d < stride_; ++d) unit_[d] = d < D_ ? p_.noise[row * stride_ + d] : 0.0f;
      backward(U_, unit_);
      for (int d = 0; d < stride_; ++d) sums.kick[row * stride_ + d] = unit_[d];
    }
    if (sums.origin) {
      for (int d = 0; d < stride_; ++d) unit_[d] = sums.origin[row * stride_ + d] - theta[d] - step_[d];
      sums.back[row] = distance(U_);
    }
  }

 private:
  // What a look at a row adds up over its ratings, before it is put in order.
  static STARCAST_INLINE int64_t sums_floats(int64_t wide, int64_t K, int64_t J) {
    return wide + J + J * J + J * wide + K * wide;
  }
  static STARCAST_INLINE float* take(float* from, float** vector, int64_t n) {
    *vector = from;
    return from + n;
  }

  // The log-posterior of the row at theta.
  double value(int64_t row, const float* theta) { return likelihood(row, theta) - prior(row, theta, nullptr, nullptr); }

  double likelihood(int64_t row, const float* theta) {
    double objective = 0;
    for (int64_t n = p_.indptr[row]; n < p_.indptr[row + 1]; n += G) {
      const int count = ratings_left(row, n);
      gather<false>(theta, n, count);
      objective += softmax<false>(p_.score + n, count);
    }
    return objective;
  }

  // The same, its gradient, and the upper triangle of minus its second derivative.
  double look(int64_t row, const float* theta, float* g, float* H) {
    const double loglik = slopes(row, theta, g, H);
    return loglik - prior(row, theta, g, H);
  }

  double slopes(int64_t row, const float* theta, float* g, float* H) {
    for (int64_t n = 0; n < sums_floats_; ++n) sums_[n] = 0;
    double objective = 0;
    for (int64_t n = p_.indptr[row]; n < p_.indptr[row + 1]; n += G) objective += meet(theta, n, ratings_left(row, n));
    for (int d = 0; d < stride_; ++d) g[d] = 0;
    for (int j = 0; j < J_; ++j) {
      for (int d = 0; d < p_.ranks[j]; ++d) g[first_[j] + d] = pulls_[wide_[j] + d];
      g[K_ + j] = bias_pull_[j];
    }
    assemble(H);
    return objective;
  }

  STARCAST_INLINE int ratings_left(int64_t row, int64_t n) const {
    const int64_t left = p_.indptr[row + 1] - n;
    return left < G ? static_cast<int>(left) : G;
  }

  // Up to G ratings from the n-th on.
  double meet(const float* theta, int64_t n, int count) {
    gather<true>(theta, n, count);
    const double gain = softmax<true>(p_.score + n, count);
    for (int b = 0; b < J_; ++b) {
      bias_pull_[b] += sum(Sixteen::load(pull_ + b * G));
      add_rows(pulls_ + wide_[b], b, pull_ + b * G, 1, count);
      add_rows(crosses_ + wide_[b], b, C_ + b * J_ * G, J_, count);
      for (int a = 0; a <= b; ++a) {
        const float* C = C_ + (a * J_ + b) * G;
        bias_square_[a * J_ + b] += sum(Sixteen::load(C));
        add_block(a, b, C, count);
      }
    }
    return gain;
  }

  // Eta, a column per rating; for slopes the others' numbers are copied to where strips may read past their end.
  template <bool Slopes>
  STARCAST_INLINE void gather(const float* theta, int64_t n, int count) {
    for (int t = 0; t < count; ++t) {
      const float* other = p_.others + int64_t{p_.other[n + t]} * stride_;
      tie(theta, other, t);
      if constexpr (Slopes)
        for (int d = 0; d < stride_; d += 16) Sixteen::load(other + d).store(v_ + t * stride_ + d);
    }
    for (int j = 0; j < J_; ++j)
      for (int t = count; t < G; ++t) eta_[j * G + t] = 0;
  }

  STARCAST_INLINE void tie(const float* theta, const float* other, int t) {
    for (int j = 0; j < J_; ++j) {
      float dot = theta[K_ + j] + other[K_ + j];
      int d = first_[j];
      if (p_.ranks[j] >= 8) {
        Lanes<8> sums = Lanes<8>::all(0.0f);
        for (; d + 8 <= first_[j + 1]; d += 8) sums = fma(Lanes<8>::load(theta + d), Lanes<8>::load(other + d), sums);
        dot += sum(sums);
      }
      for (; d < first_[j + 1]; ++d) dot += theta[d] * other[d];
      eta_[j * G + t] = dot;
    }
  }

  // The log-likelihood; for slopes also probabilities, the residuals pulled back through the basis, and their
  // covariance through the basis, all zero for lanes without a rating.
  template <bool Slopes>
  double softmax(const int8_t* score, int count) {
    Sixteen top = Sixteen::all(-1e30f), total = Sixteen::all(0.0f);
    for (int s = 0; s < S_; ++s) {
      Sixteen x = Sixteen::all(p_.base[s]);
      for (int j = 0; j < J_; ++j) x = fma(Sixteen::load(eta_ + j * G), Sixteen::all(p_.basis[j * S_ + s]), x);
      x.store(prob_ + s * G);
      top = max(top, x);
    }
    alignas(64) float logit[G], logs[G], on[G];
    for (int t = 0; t < G; ++t) {
      on[t] = t < count ? 1.0f : 0.0f;
      logit[t] = t < count ? prob_[score[t] * G + t] : 0.0f;
    }
    for (int s = 0; s < S_; ++s) {
      const Sixteen e = exp(Sixteen::load(prob_ + s * G) - top);
      e.store(prob_ + s * G);
      total = total + e;
    }
    (Sixteen::load(logit) - top - log(total)).store(logs);
    double gain = 0;
    for (int t = 0; t < count; ++t) gain += static_cast<double>(logs[t]);
    if constexpr (!Slopes) return gain;
    const Sixteen scale = reciprocal(total) * Sixteen::load(on);
    for (int j = 0; j < J_; ++j) {
      Sixteen mean = Sixteen::all(0.0f);
      for (int s = 0; s < S_; ++s) mean = fma(Sixteen::load(prob_ + s * G), Sixteen::all(p_.basis[j * S_ + s]), mean);
      (mean * scale).store(pull_ + j * G);
    }
    covary(scale);
    for (int j = 0; j < J_; ++j)
      for (int t = 0; t < count; ++t) pull_[j * G + t] = p_.basis[j * S_ + score[t]] - pull_[j * G + t];
    return gain;
  }

  void covary(const Sixteen& scale) {
    const float* products = products_;
    for (int a = 0; a < J_; ++a)
      for (int b = 0; b <= a; ++b, products += S_) {
        Sixteen c = Sixteen::all(0.0f);
        for (int s = 0; s < S_; ++s) c = fma(Sixteen::load(prob_ + s * G), Sixteen::all(products[s]), c);
        c = c * scale - Sixteen::load(pull_ + a * G) * Sixteen::load(pull_ + b * G);
        c.store(C_ + (a * J_ + b) * G);
        c.store(C_ + (b * J_ + a) * G);
      }
  }

  // Row a of sums += weights[a][t] * (factors of basis function b of rating t), for n rows of weights; lanes past the
  // rank hold what nobody reads.
  STARCAST_INLINE void add_rows(float* sums, int b, const float* weights, int n, int count) {
    for (int e = 0; e < p_.ranks[b]; e += 16) {
      const float* v = v_ + first_[b] + e;
      int a = 0;
      for (; a + 4 <= n; a += 4) add_weighted<4>(sums + a * wide_[J_] + e, v, weights + a * G, count);
      for (; a < n; ++a) add_weighted<1>(sums + a * wide_[J_] + e, v, weights + a * G, count);
    }
  }

  template <int Tall>
  STARCAST_INLINE void add_weighted(float* sums, const float* v, const float* weights, int count) {
    Sixteen x[Tall];
    for (int r = 0; r < Tall; ++r) x[r] = Sixteen::load(sums + r * wide_[J_]);
    for (int t = 0; t < count; ++t, v += stride_) {
      const Sixteen y = Sixteen::load(v);
      for (int r = 0; r < Tall; ++r) x[r] = fma(y, Sixteen::all(weights[r * G + t]), x[r]);
    }
    for (int r = 0; r < Tall; ++r) x[r].store(sums + r * wide_[J_]);
  }

  // Factors of a against those of b: the latter weighted once, then four rows at a time against them.
  void add_block(int a, int b, const float* C, int count) {
    const int rows = p_.ranks[a], width = wide_[b + 1] - wide_[b];
    if (!rows || !width) return;
    for (int t = 0; t < count; ++t)
      for (int e = 0; e < width; e += 16)
        (Sixteen::load(v_ + t * stride_ + first_[b] + e) * C[t]).store(w_ + t * width + e);
    float* block = blocks_ + first_[a] * wide_[J_] + wide_[b] * rows;
    for (int d = 0; d < rows; d += 4)
      for (int e = a == b ? d / 16 * 16 : 0; e < width; e += 16)
        if (d + 4 <= rows) add_tile<4>(block + d * width + e, width, v_ + first_[a] + d, w_ + e, count);
        else
          for (int r = d; r < rows; ++r) add_tile<1>(block + r * width + e, width, v_ + first_[a] + r, w_ + e, count);
  }

  template <int Tall>
  STARCAST_INLINE void add_tile(float* block, int width, const float* v, const float* w, int count) {
    Sixteen x[Tall];
    for (int r = 0; r < Tall; ++r) x[r] = Sixteen::load(block + r * width);
    for (int t = 0; t < count; ++t, v += stride_, w += width) {
      const Sixteen y = Sixteen::load(w);
      for (int r = 0; r < Tall; ++r) x[r] = fma(y, Sixteen::all(v[r]), x[r]);
    }
    for (int r = 0; r < Tall; ++r) x[r].store(block + r * width);
  }

  // The blocks put together: factors by basis function, then biases.
  void assemble(float* H) {
    for (int64_t n = 0; n < static_cast<int64_t>(stride_) * stride_; ++n) H[n] = 0;
    for (int a = 0; a < J_; ++a) {
      for (int b = a; b < J_; ++b) {
        const int rows = p_.ranks[a], width = wide_[b + 1] - wide_[b];
        const float* block = blocks_ + first_[a] * wide_[J_] + wide_[b] * rows;
        for (int d = 0; d < rows; ++d)
          for (int e = 0; e < p_.ranks[b]; ++e) H[(first_[a] + d) * stride_ + first_[b] + e] = block[d * width + e];
        H[(K_ + a) * stride_ + K_ + b] = bias_square_[a * J_ + b];
      }
      for (int b = 0; b < J_; ++b)
        for (int e = 0; e < p_.ranks[b]; ++e)
          H[(first_[b] + e) * stride_ + K_ + a] = crosses_[a * wide_[J_] + wide_[b] + e];
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
      if (g) g[d] -= pull;
      price += 0.5 * static_cast<double>(pull) * static_cast<double>(away_[d]);
      if (H)
        for (int e = d / 16 * 16; e < stride_; e += 16) {
          float* h = H + static_cast<int64_t>(d) * stride_ + e;
          (Sixteen::load(h) + Sixteen::load(precision + e)).store(h);
        }
    }
    return price;
  }

  // What the gradient says of a full step.
  double promise() const {
    double gain = 0;
    for (int d = 0; d < D_; ++d) gain += static_cast<double>(step_[d]) * static_cast<double>(g_[d]);
    return gain;
  }

  // A step of Newton's, halved until it gains: false if the row is where it should be.
  bool climb(int64_t row, float* theta, double& now) {
    solve(U_, g_, step_);
    if (!(promise() > enough)) return false;
    float size = 1.0f;
    for (int tries = 0; tries < 12; ++tries, size *= 0.5f) {
      for (int d = 0; d < stride_; ++d) trial_[d] = theta[d] + size * step_[d];
      const double then = value(row, trial_);
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
    const double back = distance(U1_);
    const double chance = then - now + (size_then - 0.5 * back) - (size - 0.5 * there);
    if (!(static_cast<double>(p_.luck[row]) < chance)) return now;
    for (int d = 0; d < stride_; ++d) theta[d] = trial_[d];
    ++*p_.accepted;
    return then;
  }

  // The squared length of unit_ where U'U is the unit of squares.
  double distance(const float* U) {
    double total = 0;
    for (int d = 0; d < D_; ++d) {
      const double x = static_cast<double>(dot(U + static_cast<int64_t>(d) * stride_, unit_, d));
      total += x * x;
    }
    return total;
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
  const int J_, S_;
  int K_ = 0;
  int first_[max_scores + 1] = {};  // where the factors of a basis function begin in a row,
  int wide_[max_scores + 1] = {};   // and where in rows in which each has room for whole strips
  int64_t sums_floats_ = 0;
  float *U_, *U1_, *g_, *g1_, *step_, *trial_, *away_, *unit_, *v_, *w_, *eta_, *pull_, *prob_, *C_, *products_;
  float *sums_, *pulls_, *bias_pull_, *bias_square_, *crosses_, *blocks_;
};

}  // namespace starcast::STARCAST_ISA_NS
