// One pass of each of the paper's updates over some rows, every operation in the published order.
//
// Factors of the models with a vector per score lie as [row][factor][lane]: a lane per score, zeros up to the width W.
// The scores of one rating are independent sums, so lanes make vector code without changing a bit. Padding lanes may
// become NaN and are never read back.
#pragma once

#include <algorithm>
#include <vector>

#include "javamath.hpp"

namespace strict {

// The ratings of one side, grouped by its rows: row r holds entries start[r] .. start[r + 1] in ascending order of the
// other side's code.
struct Side {
  const std::int64_t* start;
  const std::int32_t* other;
  const std::int8_t* score;
  std::int64_t rows;
};

struct Step {
  double learning_rate, regularization;
  const double* values;  // the rating that each score code stands for
  double mean;           // of all ratings
  int n_scores, n_factors;
};

using Update = void (*)(const Side&, std::int64_t begin, std::int64_t end, double* own, const double* other,
                        const Step&);

template <int W>
inline void dots(const double* p, const double* q, int n, double* z) {
  for (int s = 0; s < W; ++s) z[s] = 0.0;
  for (int k = 0; k < n; k += W)
    for (int s = 0; s < W; ++s) z[s] += p[k + s] * q[k + s];
}

inline double sum(const double* x, int n) {
  double total = 0.0;
  for (int s = 0; s < n; ++s) total += x[s];
  return total;
}

// ResBeMF: P_u^s += sum_i eta ((1[r = s] - sigma_r) Q_i^s - gamma P_u^s), sigma_r the probability of the rating that
// was given, for every s (not the gradient of the likelihood, but Algorithm 1 as published). The softmax is not
// shifted: it overflows to NaN as published.
template <int W>
void resbemf_rows(const Side& side, std::int64_t begin, std::int64_t end, double* own, const double* other,
                  const Step& step) {
  const int n = step.n_factors * W, n_scores = step.n_scores;
  const double eta = step.learning_rate, gamma = step.regularization;
  std::vector<double> buffer(2 * n);
  double* __restrict moved = buffer.data(), * __restrict decay = moved + n;
  for (std::int64_t r = begin; r < end; ++r) {
    double* p = own + r * n;
    for (int j = 0; j < n; ++j) moved[j] = 0.0, decay[j] = gamma * p[j];
    for (std::int64_t e = side.start[r]; e < side.start[r + 1]; ++e) {
      const double* q = other + std::int64_t{side.other[e]} * n;
      const int given = side.score[e];
      double z[W], error[W];
      dots<W>(p, q, n, z);
      exp_lanes<W>(z, z);
      const double sigma = z[given] / sum(z, n_scores);
      for (int s = 0; s < W; ++s) error[s] = (s == given ? 1.0 : 0.0) - sigma;
      for (int k = 0; k < n; k += W)
        for (int s = 0; s < W; ++s) moved[k + s] += eta * (error[s] * q[k + s] - decay[k + s]);
    }
    for (int j = 0; j < n; ++j) p[j] += moved[j];
  }
}

// BeMF: U_u^s += eta (sum_i (1[r = s] - L_s) V_i^s - gamma U_u^s), L the logistic of the dot product; the decay counts
// once per row.
template <int W>
void bemf_rows(const Side& side, std::int64_t begin, std::int64_t end, double* own, const double* other,
               const Step& step) {
  const int n = step.n_factors * W;
  const double eta = step.learning_rate, gamma = step.regularization;
  std::vector<double> buffer(n);
  double* __restrict gradient = buffer.data();
  for (std::int64_t r = begin; r < end; ++r) {
    double* p = own + r * n;
    std::fill(gradient, gradient + n, 0.0);
    for (std::int64_t e = side.start[r]; e < side.start[r + 1]; ++e) {
      const double* q = other + std::int64_t{side.other[e]} * n;
      const int given = side.score[e];
      double z[W], error[W];
      dots<W>(p, q, n, z);
      logistic_lanes<W>(z, z);
      for (int s = 0; s < W; ++s) error[s] = (s == given ? 1.0 : 0.0) - z[s];
      for (int k = 0; k < n; k += W)
        for (int s = 0; s < W; ++s) gradient[k + s] += error[s] * q[k + s];
    }
    for (int j = 0; j < n; ++j) p[j] += eta * (gradient[j] - gamma * p[j]);
  }
}

// DirMF, one rating after the other: P_u^s -= eta (Q_i^s a_s (1 - a_s) (psi(a_s) - psi(A) - ln rho_s) + gamma P_u^s), a
// the logistic of the dot product, A its sum, rho the target e^r / (d - 1 + e^r) for the given score and 1 / (d - 1 +
// e^r) for the others.
template <int W>
void dirmf_rows(const Side& side, std::int64_t begin, std::int64_t end, double* own, const double* other,
                const Step& step) {
  const int n = step.n_factors * W, n_scores = step.n_scores;
  const double eta = step.learning_rate, gamma = step.regularization;
  std::vector<double> hit(n_scores), miss(n_scores);
  for (int s = 0; s < n_scores; ++s) {
    const double weight = java_exp(step.values[s]), total = n_scores - 1 + weight;
    hit[s] = std::log(weight / total), miss[s] = std::log(1.0 / total);
  }
  for (std::int64_t r = begin; r < end; ++r) {
    double* __restrict p = own + r * n;
    for (std::int64_t e = side.start[r]; e < side.start[r + 1]; ++e) {
      const double* __restrict q = other + std::int64_t{side.other[e]} * n;
      const int given = side.score[e];
      double a[W], psi[W], error[W];
      dots<W>(p, q, n, a);
      logistic_lanes<W>(a, a);
      digamma_lanes<W>(a, psi);
      const double psi_of_sum = digamma(sum(a, n_scores)), if_hit = hit[given], if_miss = miss[given];
      for (int s = 0; s < W; ++s) error[s] = psi[s] - psi_of_sum - (s == given ? if_hit : if_miss);
      for (int k = 0; k < n; k += W)
        for (int s = 0; s < W; ++s) p[k + s] -= eta * (q[k + s] * a[s] * (1.0 - a[s]) * error[s] + gamma * p[k + s]);
    }
  }
}

inline double dot(const double* p, const double* q, int n) {
  double total = 0.0;
  for (int k = 0; k < n; ++k) total += p[k] * q[k];
  return total;
}

// PMF, one rating after the other: e = r - p.q, p += eta (e q - lambda p).
inline void pmf_rows(const Side& side, std::int64_t begin, std::int64_t end, double* own, const double* other,
                     const Step& step) {
  const int n = step.n_factors;
  const double eta = step.learning_rate, lambda = step.regularization;
  for (std::int64_t r = begin; r < end; ++r) {
    double* __restrict p = own + r * n;
    for (std::int64_t e = side.start[r]; e < side.start[r + 1]; ++e) {
      const double* __restrict q = other + std::int64_t{side.other[e]} * n;
      const double error = step.values[side.score[e]] - dot(p, q, n);
      for (int k = 0; k < n; ++k) p[k] += eta * (error * q[k] - lambda * p[k]);
    }
  }
}

// BiasedMF as PMF, with column 0 the bias b: e = r - (mu + b_u + b_i + p.q), b += eta (e - lambda b). The sum takes the
// user's bias first on both sides, hence user_side.
template <bool user_side>
void biasedmf_rows(const Side& side, std::int64_t begin, std::int64_t end, double* own, const double* other,
                   const Step& step) {
  const int n = step.n_factors;
  const double eta = step.learning_rate, lambda = step.regularization;
  for (std::int64_t r = begin; r < end; ++r) {
    double* __restrict p = own + r * n;
    for (std::int64_t e = side.start[r]; e < side.start[r + 1]; ++e) {
      const double* __restrict q = other + std::int64_t{side.other[e]} * n;
      const double biased = user_side ? step.mean + p[0] + q[0] : step.mean + q[0] + p[0];
      const double error = step.values[side.score[e]] - (biased + dot(p + 1, q + 1, n - 1));
      p[0] += eta * (error - lambda * p[0]);
      for (int k = 1; k < n; ++k) p[k] += eta * (error * q[k] - lambda * p[k]);
    }
  }
}

}  // namespace strict
