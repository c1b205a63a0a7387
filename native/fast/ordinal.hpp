// Rows of the ordinal model: a step of Newton's, or a draw from the posterior of a row while the others stand still.
//
// The logits of a pair are base + B eta, with a column of B per basis function and
//   eta_j = bias_uj + bias_ij + p_uj . q_ij
// so that they are linear in the numbers of one row, and the log-posterior of a row is concave. A row is laid out as
// the factors of basis function 0, those of 1, ..., then the biases, then zeros up to a multiple of 16.
//
// Sums over ratings are exact (exact_sums.hpp), whole numbers of units that depend on the largest factors of the
// others: the ratings of a row may lie in several places and still move it to the same bits.
#pragma once

#include "exact_sums.hpp"
#include "kernels.hpp"
#include "triangles.hpp"

namespace starcast::STARCAST_ISA_NS {

constexpr double enough = 1e-5;  // of a log-posterior: what a step must promise to be taken
constexpr int G = 16;            // ratings put through the softmax at a time, one a lane

class OrdinalRow : private Triangles {
 public:
  static STARCAST_INLINE int64_t scratch_floats(const OrdinalPass& p) {
    const int64_t D = p.stride, J = p.n_basis, S = p.n_scores, wide = D + 16 * J;
    return 3 * D * D + 7 * D + wide + G * (D + wide + 2 * J + S + J * J) + 4 * sums_floats(wide, D, J) + J * J * S + 64;
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
    scratch = take(scratch, &odd_, wide_[J_]);
    for (int j = 0; j < J_; ++j)
      for (int d = wide_[j]; d < wide_[j + 1]; ++d) odd_[d] = d - wide_[j] < p_.ranks[j] ? last_bit : 0.0f;
    bias_pull_ = wide_[J_];
    bias_square_ = bias_pull_ + J_ * G;
    crosses_ = bias_square_ + J_ * J_ * G;
    blocks_ = crosses_ + J_ * wide_[J_];
    sums_floats_ = sums_floats(wide_[J_], K_, J_);
    float** const sums[] = {&sums_, &starts_, &units_};
    for (float** vector : sums) scratch = take(scratch, vector, sums_floats_);
    totals_ = reinterpret_cast<int32_t*>(scratch);
    told_ = totals_ + sums_floats_;
    if (p_.reach) choose_units(p_.reach, p_.longest);
    float* product = products_;
    for (int a = 0; a < J_; ++a)
      for (int b = 0; b <= a; ++b)
        for (int s = 0; s < S_; ++s) *product++ = p_.basis[a * S_ + s] * p_.basis[b * S_ + s];
  }

  void move(int64_t row) {
    float* theta = p_.rows + row * stride_;
    if (!p_.reach) measure(row);
    double now = look(row, theta, g_, U_), size = factorize(U_, p_.precision);
    if (p_.spread) add_inverse();
    for (int n = 1; n <= p_.n_steps && climb(row, theta, now); ++n) {
      if (n == p_.n_steps && !p_.noise) break;  // nobody asks for the curvature where the steps end
      now = look(row, theta, g_, U_);
      size = factorize(U_, p_.precision);
    }
    if (p_.noise) now = jump(row, theta, now, size);
    p_.row_objective[row] = now;
  }

  // The likelihood alone, for sums over several places: whole numbers of units.
  void tell(const OrdinalLook& ask, int64_t k) {
    const float* theta = p_.rows + k * stride_;
    if (!ask.curve) {
      ask.loglik[k] = likelihood(ask.which[k], theta);
      return;
    }
    ask.loglik[k] = count(ask.which[k], theta);
    int32_t *const slope = told_, *const H = told_ + stride_, *curve = ask.curve + k * D_ * (D_ + 1) / 2;
    arrange([this](int64_t at) { return totals_[at]; }, slope, H);
    for (int d = 0; d < D_; ++d) {
      ask.slope[k * D_ + d] = slope[d];
      for (int e = d; e < D_; ++e) *curve++ = H[static_cast<int64_t>(d) * stride_ + e];
    }
  }

  // What such sums make of a row; without slopes, of its log-posterior alone.
  void aim(const OrdinalAim& sums, int64_t row) {
    const float* theta = p_.rows + row * stride_;
    if (!sums.slope) {
      p_.row_objective[row] = sums.loglik[row] - prior(row, theta, nullptr, nullptr);
      return;
    }
    if (!has_units_) arrange([this](int64_t at) { return units_[at]; }, g1_, U1_);
    has_units_ = true;
    for (int64_t n = 0; n < static_cast<int64_t>(stride_) * stride_; ++n) U_[n] = 0;
    for (int d = 0; d < stride_; ++d) g_[d] = d < D_ ? static_cast<float>(sums.slope[row * D_ + d]) * g1_[d] : 0.0f;
    const int32_t* curve = sums.curve + row * D_ * (D_ + 1) / 2;
    for (int d = 0; d < D_; ++d)
      for (int64_t e = d, at = static_cast<int64_t>(d) * stride_; e < D_; ++e)
        U_[at + e] = static_cast<float>(*curve++) * U1_[at + e];
    p_.row_objective[row] = sums.loglik[row] - prior(row, theta, g_, U_);
    sums.size[row] = factorize(U_, p_.precision);
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
    return wide + G * (J + J * J) + J * wide + K * wide;
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
    const double objective = count(row, theta);
    arrange([this](int64_t at) { return static_cast<float>(totals_[at]) * units_[at]; }, g, H);
    return objective;
  }

  // The log-likelihood, and its sums as whole numbers of their units.
  double count(int64_t row, const float* theta) {
    double objective = 0;
    const int64_t end = p_.indptr[row + 1];
    int64_t n = p_.indptr[row];
    for (int64_t k = 0; k < sums_floats_; ++k) totals_[k] = 0;
    while (n < end) {
      for (const int64_t stop = n + longest_exact; n < end && n < stop; n += G)
        objective += meet(theta, n, ratings_left(row, n));
      carry(sums_, starts_, totals_, sums_floats_);
    }
    for (int at = bias_pull_; at < crosses_; at += G)
      for (int t = 1; t < G; ++t) totals_[at] += totals_[at + t];
    return objective;
  }

  // Units so large that no sum over ratings rounds: what a rating can add at most is a fixed number of them. Residuals
  // lie within the range of their basis function, and covariances within a quarter of the product of two.
  void choose_units(const float* reach, int64_t n_ratings) {
    const int bits = exact_bits(n_ratings);
    float range[max_scores];
    for (int j = 0; j < J_; ++j) {
      float low = p_.basis[j * S_], high = low;
      for (int s = 1; s < S_; ++s) {
        low = p_.basis[j * S_ + s] < low ? p_.basis[j * S_ + s] : low;
        high = p_.basis[j * S_ + s] > high ? p_.basis[j * S_ + s] : high;
      }
      range[j] = high - low;
    }
    const auto set = [&](int64_t at, int64_t n, float most) {
      const float unit = unit_of(most, bits);
      for (int64_t k = at; k < at + n; k += 16) {  // all parts are whole strips
        Sixteen::all(unit).store(units_ + k);
        Sixteen::all(start_of(unit)).store(starts_ + k);
        Sixteen::all(start_of(unit)).store(sums_ + k);
      }
    };
    for (int b = 0; b < J_; ++b) {
      const int width = wide_[b + 1] - wide_[b];
      set(wide_[b], width, range[b] * reach[b]);
      set(bias_pull_ + b * G, G, range[b]);
      for (int a = 0; a < J_; ++a) {
        const float bend = range[a] * range[b] * 0.25f;
        set(bias_square_ + (a * J_ + b) * G, G, bend);
        set(crosses_ + a * wide_[J_] + wide_[b], width, bend * reach[b]);
        set(block_at(a, b), static_cast<int64_t>(p_.ranks[a]) * width, bend * reach[a] * reach[b]);
      }
    }
  }

  // Units for a row whose ratings are all here, whatever is asked of other rows: from the others that it rated.
  void measure(int64_t row) {
    float reach[max_scores];
    for (int d = 0; d < stride_; d += 16) {
      Sixteen top = Sixteen::all(0.0f);
      for (int64_t n = p_.indptr[row]; n < p_.indptr[row + 1]; ++n) {
        const Sixteen x = Sixteen::load(p_.others + int64_t{p_.other[n]} * stride_ + d);
        top = max(top, max(x, Sixteen::all(0.0f) - x));
      }
      top.store(trial_ + d);
    }
    for (int j = 0; j < J_; ++j) {
      reach[j] = 0;
      for (int d = first_[j]; d < first_[j + 1]; ++d) reach[j] = trial_[d] > reach[j] ? trial_[d] : reach[j];
    }
    choose_units(reach, p_.indptr[row + 1] - p_.indptr[row]);
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
      add_lanes(sums_ + bias_pull_ + b * G, pull_ + b * G);
      add_rows(sums_ + wide_[b], b, pull_ + b * G, 1, count);
      add_rows(sums_ + crosses_ + wide_[b], b, C_ + b * J_ * G, J_, count);
      for (int a = 0; a <= b; ++a) {
        const float* C = C_ + (a * J_ + b) * G;
        add_lanes(sums_ + bias_square_ + (a * J_ + b) * G, C);
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
  // covariance through the basis, nothing for lanes without a rating.
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
    ((Sixteen::load(logit) - top - log(total)) * Sixteen::load(on)).store(logs);
    const double gain = exact_sum(logs);
    if constexpr (!Slopes) return gain;
    const Sixteen scale = reciprocal(total) * Sixteen::load(on);
    for (int j = 0; j < J_; ++j) {
      Sixteen mean = Sixteen::all(0.0f);
      for (int s = 0; s < S_; ++s) mean = fma(Sixteen::load(prob_ + s * G), Sixteen::all(p_.basis[j * S_ + s]), mean);
      (mean * scale).store(pull_ + j * G);
    }
    covary(scale);
    for (int j = 0; j < J_; ++j) {
      for (int t = 0; t < count; ++t) pull_[j * G + t] = p_.basis[j * S_ + score[t]] - pull_[j * G + t];
      odd(Sixteen::load(pull_ + j * G)).store(pull_ + j * G);
    }
    return gain;
  }

  void covary(const Sixteen& scale) {
    const float* products = products_;
    for (int a = 0; a < J_; ++a)
      for (int b = 0; b <= a; ++b, products += S_) {
        Sixteen c = Sixteen::all(0.0f);
        for (int s = 0; s < S_; ++s) c = fma(Sixteen::load(prob_ + s * G), Sixteen::all(products[s]), c);
        c = odd(c * scale - Sixteen::load(pull_ + a * G) * Sixteen::load(pull_ + b * G));
        c.store(C_ + (a * J_ + b) * G);
        c.store(C_ + (b * J_ + a) * G);
      }
  }

  STARCAST_INLINE void add_lanes(float* sums, const float* x) { (Sixteen::load(sums) + Sixteen::load(x)).store(sums); }

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
      for (int r = 0; r < Tall; ++r) x[r] = add_product(y, Sixteen::all(weights[r * G + t]), x[r]);
    }
    for (int r = 0; r < Tall; ++r) x[r].store(sums + r * wide_[J_]);
  }

  // Factors of a against those of b: the latter weighted once, then four rows at a time against them.
  void add_block(int a, int b, const float* C, int count) {
    const int rows = p_.ranks[a], width = wide_[b + 1] - wide_[b];
    if (!rows || !width) return;
    for (int t = 0; t < count; ++t)
      for (int e = 0; e < width; e += 16)
        with_bits(Sixteen::load(v_ + t * stride_ + first_[b] + e) * C[t], Sixteen::load(odd_ + wide_[b] + e))
            .store(w_ + t * width + e);
    float* block = sums_ + block_at(a, b);
    for (int d = 0; d < rows; d += 4)
      for (int e = a == b ? d / 16 * 16 : 0; e < width; e += 16)
        if (d + 4 <= rows) add_tile<4>(block + int64_t{d} * width + e, width, v_ + first_[a] + d, w_ + e, count);
        else
          for (int r = d; r < rows; ++r)
            add_tile<1>(block + int64_t{r} * width + e, width, v_ + first_[a] + r, w_ + e, count);
  }

  template <int Tall>
  STARCAST_INLINE void add_tile(float* block, int width, const float* v, const float* w, int count) {
    Sixteen x[Tall];
    for (int r = 0; r < Tall; ++r) x[r] = Sixteen::load(block + r * width);
    for (int t = 0; t < count; ++t, v += stride_, w += width) {
      const Sixteen y = Sixteen::load(w);
      for (int r = 0; r < Tall; ++r) x[r] = add_product(y, Sixteen::all(v[r]), x[r]);
    }
    for (int r = 0; r < Tall; ++r) x[r].store(block + r * width);
  }

  STARCAST_INLINE int64_t block_at(int a, int b) const {
    return blocks_ + static_cast<int64_t>(first_[a]) * wide_[J_] + static_cast<int64_t>(wide_[b]) * p_.ranks[a];
  }

  // Where a row of a square matrix begins.
  STARCAST_INLINE int64_t in_square(int row) const { return int64_t{row} * stride_; }

  // Sums put in order: factors by basis function, then biases.
  template <typename Sum, typename T>
  void arrange(const Sum& sum_at, T* g, T* H) {
    for (int d = 0; d < stride_; ++d) g[d] = 0;
    for (int64_t n = 0; n < static_cast<int64_t>(stride_) * stride_; ++n) H[n] = 0;
    for (int a = 0; a < J_; ++a) {
      for (int d = 0; d < p_.ranks[a]; ++d) g[first_[a] + d] = sum_at(wide_[a] + d);
      g[K_ + a] = sum_at(bias_pull_ + a * G);
      for (int b = a; b < J_; ++b) {
        const int rows = p_.ranks[a], width = wide_[b + 1] - wide_[b];
        const int64_t block = block_at(a, b);
        for (int d = 0; d < rows; ++d)
          for (int e = 0; e < p_.ranks[b]; ++e)
            H[in_square(first_[a] + d) + first_[b] + e] = sum_at(block + int64_t{d} * width + e);
        H[in_square(K_ + a) + K_ + b] = sum_at(bias_square_ + (a * J_ + b) * G);
      }
      for (int b = 0; b < J_; ++b)
        for (int e = 0; e < p_.ranks[b]; ++e)
          H[in_square(first_[b] + e) + K_ + a] = sum_at(crosses_ + a * wide_[J_] + wide_[b] + e);
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
    const double size_then = factorize(U1_, p_.precision);
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
      for (int d = 0; d < D_; ++d) p_.spread[int64_t{c} * D_ + d] += on_grid(static_cast<double>(unit_[d]), spread_step);
    }
  }

  const OrdinalPass& p_;
  const int J_, S_;
  int K_ = 0;
  int first_[max_scores + 1] = {};  // where the factors of a basis function begin in a row,
  int wide_[max_scores + 1] = {};   // and where in rows in which each has room for whole strips
  // Where sums lie: pulls of factors, then these. Biases have a sum for every lane, in the first of which they end up.
  int bias_pull_ = 0, bias_square_ = 0, crosses_ = 0, blocks_ = 0;
  int64_t sums_floats_ = 0;
  float *U_, *U1_, *g_, *g1_, *step_, *trial_, *away_, *unit_, *v_, *w_, *eta_, *pull_, *prob_, *C_, *products_;
  float *sums_, *starts_, *units_, *odd_;
  int32_t *totals_, *told_;
  bool has_units_ = false;  // whether g1_ and U1_ hold those of slopes and curvatures
};

}  // namespace starcast::STARCAST_ISA_NS
