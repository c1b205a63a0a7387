// PMF and BiasedMF by least squares: rows that solve (sum q q' + decay I) p = sum e q while the others stand still.
// With biases, q begins with 1 and e is what the mean and the other's bias leave of the rating.
#pragma once

#include "kernels.hpp"
#include "triangles.hpp"

namespace starcast::STARCAST_ISA_NS {

class SquaresRow {
 public:
  static constexpr int G = 16;  // ratings gathered at a time

  static STARCAST_INLINE int64_t scratch_floats(const PointSquares& w) {
    const int64_t D = w.stride;
    return D * D + D + G * D + G + 2 * (D * D + D) + 16;
  }

  SquaresRow(const PointSquares& work, float* scratch) : w_(work), stride_(work.stride), D_(work.n_columns) {
    // What needs doubles comes first, so that it lies well.
    U_ = reinterpret_cast<double*>(scratch);
    x_ = U_ + stride_ * stride_;
    gram_ = reinterpret_cast<float*>(x_ + stride_);
    pull_ = gram_ + stride_ * stride_;
    v_ = pull_ + stride_;
    e_ = v_ + G * stride_;
  }

  // What the ratings of a row here add up to, put where it is asked for, or solved at once.
  void meet(int64_t k) {
    const int64_t row = w_.which ? w_.which[k] : k;
    for (int64_t n = 0; n < stride_ * stride_; ++n) gram_[n] = 0;
    for (int d = 0; d < stride_; ++d) pull_[d] = 0;
    double squares = 0;
    for (int64_t n = w_.indptr[row]; n < w_.indptr[row + 1]; n += G) {
      const int64_t left = w_.indptr[row + 1] - n;
      const int count = left < G ? static_cast<int>(left) : G;
      gather(n, count);
      for (int t = 0; t < count; ++t) squares += static_cast<double>(e_[t]) * static_cast<double>(e_[t]);
      add(count);
    }
    if (w_.rows) return settle(k, squares);
    w_.squares[k] = squares;
    float *pull = w_.pull + k * D_, *gram = w_.gram + k * D_ * (D_ + 1) / 2;
    for (int d = 0; d < D_; ++d) {
      pull[d] = pull_[d];
      for (int e = d; e < D_; ++e) *gram++ = gram_[d * stride_ + e];
    }
  }

  // The row from sums over all of its ratings.
  void solve(int64_t row) {
    const float* gram = w_.gram + row * D_ * (D_ + 1) / 2;
    for (int d = 0; d < D_; ++d) {
      pull_[d] = w_.pull[row * D_ + d];
      for (int e = d; e < D_; ++e) gram_[d * stride_ + e] = *gram++;
    }
    settle(row, w_.squares[row]);
  }

 private:
  STARCAST_INLINE void gather(int64_t n, int count) {
    for (int t = 0; t < count; ++t) {
      const float* other = w_.others + int64_t{w_.other[n + t]} * stride_;
      float* v = v_ + t * stride_;
      for (int d = 0; d < stride_; d += 16) Sixteen::load(other + d).store(v + d);
      e_[t] = w_.values[w_.score[n + t]] - w_.mean;
      if (!w_.biased) continue;
      e_[t] -= other[0];
      v[0] = 1;
    }
  }

  STARCAST_INLINE void add(int count) {
    for (int e = 0; e < stride_; e += 16) {
      Sixteen sum = Sixteen::load(pull_ + e);
      for (int t = 0; t < count; ++t) sum = fma(Sixteen::load(v_ + t * stride_ + e), Sixteen::all(e_[t]), sum);
      sum.store(pull_ + e);
    }
    for (int d = 0; d < D_; d += 4)
      for (int e = d / 16 * 16; e < stride_; e += 16) {
        Sixteen sums[4];
        for (int r = 0; r < 4; ++r) sums[r] = Sixteen::load(gram_ + (d + r) * stride_ + e);
        for (int t = 0; t < count; ++t) {
          const float* v = v_ + t * stride_;
          const Sixteen y = Sixteen::load(v + e);
          for (int r = 0; r < 4; ++r) sums[r] = fma(y, Sixteen::all(v[d + r]), sums[r]);
        }
        for (int r = 0; r < 4; ++r) sums[r].store(gram_ + (d + r) * stride_ + e);
      }
  }

  // Products are known to seven digits or so: less of a ridge than that could leave a matrix without a root.
  double decay(int64_t n_ratings) const {
    double trace = 0;
    for (int d = 0; d < D_; ++d) trace += static_cast<double>(gram_[d * stride_ + d]);
    const double asked = static_cast<double>(w_.regularization) * static_cast<double>(n_ratings), least = 1e-6 * trace;
    return (asked > least ? asked : least) + 1e-12;
  }

  void settle(int64_t row, double squares) {
    const double n_ratings = static_cast<double>(w_.counts[row]), ridge = decay(w_.counts[row]);
    factorize(ridge);
    double *x = x_, gain = 0, size = 0;
    for (int d = 0; d < D_; ++d) x[d] = static_cast<double>(pull_[d]);
    for (int k = 0; k < D_; ++k) {
      const double* u = U_ + k * stride_;
      const double y = x[k] = x[k] / u[k];
      for (int e = k + 1; e < D_; ++e) x[e] -= y * u[e];
    }
    for (int k = D_ - 1; k >= 0; --k) {
      const double* u = U_ + k * stride_;
      double y = x[k];
      for (int e = k + 1; e < D_; ++e) y -= u[e] * x[e];
      x[k] = y / u[k];
    }
    for (int d = 0; d < stride_; ++d) w_.rows[row * stride_ + d] = d < D_ ? static_cast<float>(x[d]) : 0.0f;
    for (int d = 0; d < D_; ++d) {
      gain += x[d] * static_cast<double>(pull_[d]);
      size += x[d] * x[d];
    }
    w_.row_loss[row] = squares - gain - ridge * size;  // as gram x = pull - ridge x
    w_.row_penalty[row] = static_cast<double>(w_.regularization) * n_ratings * size;
  }

  // U with U'U = gram + ridge I.
  void factorize(double ridge) {
    for (int k = 0; k < D_; ++k) {
      double* u = U_ + k * stride_;
      for (int e = k; e < D_; ++e) u[e] = static_cast<double>(gram_[k * stride_ + e]);
      u[k] += ridge;
    }
    for (int k = 0; k < D_; ++k) {
      double* u = U_ + k * stride_;
      const double root = __builtin_sqrt(u[k] > 1e-30 ? u[k] : 1e-30);
      for (int e = k; e < D_; ++e) u[e] /= root;
      for (int d = k + 1; d < D_; ++d) {
        double* h = U_ + d * stride_;
        for (int e = d; e < D_; ++e) h[e] -= u[d] * u[e];
      }
    }
  }

  const PointSquares& w_;
  const int64_t stride_;  // squared in places
  const int D_;
  double *U_, *x_;
  float *gram_, *pull_, *v_, *e_;
};

}  // namespace starcast::STARCAST_ISA_NS
