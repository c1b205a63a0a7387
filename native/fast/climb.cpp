// ResBeMF by gradient steps with momentum: what happens around the passes. reference.py states the rule.
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>

#include "rounds.hpp"

namespace starcast {

namespace {

constexpr float momentum = 0.5f;
constexpr float first_stiffness = 1.5f;  // how many times the likely curvature a step reckons with
constexpr float stiffening = 1.5f;       // the factor by which it grows when the objective falls
constexpr double rounding = 1e-6;        // share of the objective by which it may fall unnoticed

struct Aligned {
  void operator()(float* p) const { ::operator delete(p, std::align_val_t(64)); }
};
using Floats = std::unique_ptr<float[], Aligned>;  // from the start of a cache line

Floats zeros(int64_t n) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  float* data = static_cast<float*>(::operator new(bytes, std::align_val_t(64)));
  std::memset(data, 0, bytes);
  return Floats(data);
}

// One side: its rows, their velocities, and sums over the rows.
struct Half {
  const Side& side;
  const Windows windows;
  float* rows;
  int64_t stride, n_chunks = static_cast<int64_t>(side.cuts.size()) - 1, n_rated = 0;
  Floats velocity = zeros(side.n_rows * stride), tallies = zeros(n_chunks * 3 * stride);
  std::vector<double> totals = std::vector<double>(3 * stride);  // as Pass::tally
  double penalty = 0;

  Half(const Side& side, int64_t n_others, float* rows, int64_t stride)
      : side(side), windows(side, n_others, stride), rows(rows), stride(stride) {
    for (int64_t row = 0; row < side.n_rows; ++row) n_rated += side.indptr[row] < side.indptr[row + 1];
  }

  void stop() { std::memset(velocity.get(), 0, sizeof(float) * side.n_rows * stride); }

  // The totals of the rows where they stand.
  void look() {
    for (int64_t row = 0; row < side.n_rows; ++row) {
      const double n = static_cast<double>(side.indptr[row + 1] - side.indptr[row]);
      for (int64_t at = 0; at < stride; ++at) {
        const double x = static_cast<double>(rows[row * stride + at]);
        totals[at] += n * x * x;
        totals[stride + at] += x * x;
        totals[2 * stride + at] += x;
      }
    }
  }

  // The totals of the rows where a pass has put them: chunk after chunk, so that threads do not matter.
  void add_up() {
    std::fill(totals.begin(), totals.end(), 0.0);
    for (int64_t c = 0; c < n_chunks; ++c)
      for (int64_t at = 0; at < 3 * stride; ++at) totals[at] += static_cast<double>(tallies[c * 3 * stride + at]);
  }

  void weigh(const float* decay) {
    penalty = 0;
    for (int64_t at = 0; at < stride; ++at) penalty += 0.5 * static_cast<double>(decay[at]) * totals[stride + at];
  }
};

class Climb {
 public:
  Climb(const Side& users, const Side& items, const ScoreFit& fit)
      : crew_(fit.n_threads),
        fit_(fit),
        stride_(layout_.stride(fit.settings.n_factors + fit.settings.biased)),
        users_(users, items.n_rows, fit.P, stride_),
        items_(items, users.n_rows, fit.Q, stride_),
        loglik_(items.n_rows),
        decay_(zeros(stride_)),
        bend_(zeros(stride_)) {
    Pass pass = fit.settings;
    pass.longest_row = std::max(users.longest_row, items.longest_row);
    const int64_t floats = kernels().scratch_floats(pass);
    for (int t = 0; t < crew_.size(); ++t) scratch_.emplace_back(zeros(floats));
    for (int k = 0; k < pass.n_factors + pass.biased; ++k)
      for (int s = 0; s < pass.n_scores; ++s)
        decay_[layout_.offset(k) + s] = k < pass.n_factors ? pass.regularization : pass.bias_regularization;
    items_.look();
    items_.weigh(decay_.get());
  }

  void users() { run(users_, items_, nullptr); }

  // Returns the objective that the pass meets.
  double items() {
    const double penalties = users_.penalty + items_.penalty;
    run(items_, users_, loglik_.data());
    return std::accumulate(loglik_.begin(), loglik_.end(), 0.0) - penalties;
  }

  void centre(double objective) {
    const int K = fit_.settings.n_factors, n_scores = fit_.settings.n_scores;
    if (!fit_.settings.biased) return;
    for (Half* half : {&users_, &items_}) {
      const double* sums = half->totals.data() + 2 * stride_ + layout_.offset(K);
      std::vector<double> mean(sums, sums + n_scores);
      for (double& m : mean) m /= static_cast<double>(half->n_rated);
      half->penalty -= starcast::centre(half->side, fit_, half->rows, mean, half->n_rated, objective);
    }
  }

  void slow_down() {
    stiffness_ *= stiffening;
    users_.stop();
    items_.stop();
  }

 private:
  // What a rating adds to the curvature on average: the weight of the score times the mean square of the other side.
  void reckon(const Half& other) {
    const Pass& s = fit_.settings;
    const double n = std::max<double>(1, static_cast<double>(other.side.indptr[other.side.n_rows])),
                 bold = 1 + std::abs(s.recklessness);
    std::fill(bend_.get(), bend_.get() + stride_, 1.0f);
    for (int k = 0; k < s.n_factors + s.biased; ++k)
      for (int t = 0; t < s.n_scores; ++t) {
        const int at = layout_.offset(k) + t;
        const double square = k < s.n_factors ? other.totals[at] / n : 1.0;
        bend_[at] = static_cast<float>(stiffness_ * bold * static_cast<double>(fit_.weights[t]) * square + 1e-30);
      }
  }

  void run(Half& half, const Half& other, double* loglik) {
    reckon(other);
    Pass pass = pass_over(half.side, fit_, half.rows, other.rows);
    pass.longest_row = std::max(users_.side.longest_row, items_.side.longest_row);
    pass.row_loglik = loglik;
    pass.velocity = half.velocity.get();
    pass.decay = decay_.get();
    pass.bend = bend_.get();
    pass.stiffness = static_cast<float>(stiffness_);
    pass.momentum = momentum;
    const std::vector<int64_t>& cuts = half.side.cuts;
    for (int64_t w = 0; w < half.windows.size(); ++w) {
      pass.window = half.windows[w];
      crew_.run(half.n_chunks, [&](int64_t c, int thread) {
        Pass own = pass;
        own.tally = half.tallies.get() + c * 3 * stride_;
        std::memset(own.tally, 0, sizeof(float) * 3 * stride_);
        kernels().resbemf_gradient(own, cuts[c], cuts[c + 1], scratch_[thread].get());
      });
    }
    half.add_up();
    half.weigh(decay_.get());
  }

  Crew crew_;
  const ScoreFit& fit_;
  const RowLayout layout_{fit_.settings.n_scores};
  const int64_t stride_;
  Half users_, items_;
  std::vector<double> loglik_;
  Floats decay_, bend_;
  std::vector<Floats> scratch_;
  double stiffness_ = first_stiffness;
};

}  // namespace

std::vector<double> climb(const Side& users, const Side& items, const ScoreFit& fit, const Watch& watch) {
  Climb climb(users, items, fit);
  std::vector<double> history;
  for (int round = 0; round < fit.n_rounds; ++round) {
    watch.between_passes();
    climb.users();
    watch.between_passes();
    const double objective = climb.items(), size = std::abs(objective);
    climb.centre(objective);
    history.push_back(objective);
    if (watch.on_round(round, objective)) break;
    const double gain = round > 0 ? objective - history[round - 1] : size;
    if (gain < -rounding * size) climb.slow_down();
    else if (round > 0 && gain <= fit.tolerance * size) break;
  }
  return history;
}

}  // namespace starcast
