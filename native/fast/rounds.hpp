// Rounds of the factorizations: a pass over the users, a pass over the items, and what happens between them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "crew.hpp"
#include "kernels.hpp"

namespace starcast {

struct Side {
  const int64_t* indptr = nullptr;
  const int32_t* other = nullptr;
  const int8_t* score = nullptr;
  int64_t n_rows = 0;
  std::vector<int64_t> cuts;  // rows where chunks begin: about the same number of ratings in each
  int64_t longest_row = 0;

  Side(const int64_t* indptr, const int32_t* other, const int8_t* score, int64_t n_rows);
};

struct Watch {
  std::function<void()> between_passes;                       // throws to interrupt
  std::function<bool(int round, double objective)> on_round;  // true: stop
};

enum class Method : int { resbemf_exact, resbemf_gradient, bemf_gradient, dirmf_sgd };

struct ScoreFit {  // ResBeMF, BeMF, DirMF
  Method method = Method::resbemf_exact;
  Pass settings;  // everything that the two sides share
  float *P = nullptr, *Q = nullptr;
  float* base = nullptr;  // [n_scores]; moves with the means of the biases when they do
  int n_rounds = 0;
  double tolerance = 0;
  int n_threads = 1;
  const float* weights = nullptr;  // [n_scores] climb: curvature of the log-likelihood by each logit, on average
};

struct PointFit {  // PMF, BiasedMF
  PointPass settings;
  float *P = nullptr, *Q = nullptr, *user_bias = nullptr, *item_bias = nullptr;
  int n_rounds = 0;
  int n_threads = 1;
};

// The objective after each round. Exact: penalised log-likelihood, never falling. Otherwise the log-likelihood (point
// models: minus the squared error) met by the item pass.
std::vector<double> run_rounds(const Side& users, const Side& items, const ScoreFit& fit, const Watch& watch);
std::vector<double> run_rounds(const Side& users, const Side& items, const PointFit& fit, const Watch& watch);

// ResBeMF by gradient steps with momentum (climb.cpp). The objective after the users' step of each round, before the
// items' step: the item pass meets it.
std::vector<double> climb(const Side& users, const Side& items, const ScoreFit& fit, const Watch& watch);

// One side of a fit as a pass sees it.
Pass pass_over(const Side& side, const ScoreFit& fit, float* rows, const float* others);

// The ratings of a side cut by ranges of the other side's rows, where those of all would not stay in the cache.
class Windows {
 public:
  Windows(const Side& side, int64_t n_others, int64_t stride);
  int64_t size() const { return n_; }
  Window operator[](int64_t w) const;

 private:
  int64_t n_ = 1;
  const Side& side_;
  std::vector<int64_t> cuts_;  // [window][row] where it begins; one more at the end
  std::unique_ptr<float[]> sums_;
};

// Moves the mean biases of the n rows that have ratings into base: the same predictions at a smaller penalty. Left
// alone when the gain would drown in rounding; returns it.
double centre(const Side& side, const ScoreFit& fit, float* rows, const std::vector<double>& mean, int64_t n,
              double objective);

// Moves the rows P of one side, which have the ratings, while the rows Q of the other stand still: each takes its
// number of steps at its learning rate, exact ones fewer if one leaves them where they are. Rows do not see each other,
// so each ends where it would alone.
void settle_rows(const Side& side, const ScoreFit& fit, const int32_t* n_steps, const float* rates, const Watch& watch);

// One half of a round: the rows P of a side move by the ratings that it has of the rows Q. Returns their log-likelihood
// (0 unless asked for) and their penalty.
std::pair<double, double> run_pass(const Side& side, int64_t n_others, const ScoreFit& fit, bool is_asked);

// What the ratings of a side say of some of its rows, and the steps that sums of this make.
void look_at(const Side& side, const std::vector<int64_t>& which, ScoreLook look, int n_threads);
void take_aim(int64_t n_rows, ScoreAim aim, int n_threads);

// The gradient of the log-likelihood of the rows P, laid out as they are; loglik: its sum, wherever it lies.
void look_along(const Side& side, int64_t n_others, const ScoreFit& fit, float* sums, double* loglik);

// Chunks of rows that are asked about: about the same number of ratings in each; and of rows that cost the same.
std::vector<int64_t> cut_asked(const Side& side, const std::vector<int64_t>& which);
std::vector<int64_t> cut_evenly(int64_t n_rows, int64_t chunk);

void answer(const Question& ask, int64_t n_pairs, int n_threads);

}  // namespace starcast
