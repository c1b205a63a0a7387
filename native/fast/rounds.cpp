#include "rounds.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace starcast {

namespace {

// Ratings that a chunk should hold: small enough to share the work evenly, large enough that rows can be walked side by
// side in it.
int64_t chunk_ratings(int64_t n_ratings) { return std::clamp<int64_t>(n_ratings / 64, 1024, 16384); }

// Bytes of the other side beyond which it is walked in windows, as it would not stay in a third-level cache; bytes of a
// window; and ratings that a row must have in one on average, since taking up a row again costs as much as a few.
constexpr int64_t roomy_bytes = 16 << 20, window_bytes = 8 << 20, window_ratings = 24;

double in_order(const std::vector<double>& rows) { return std::accumulate(rows.begin(), rows.end(), 0.0); }

auto kernel_of(Method method) {
  const Kernels& k = kernels();
  return method == Method::resbemf_exact      ? k.resbemf_exact
         : method == Method::resbemf_gradient ? k.resbemf_gradient
         : method == Method::bemf_gradient    ? k.bemf_gradient
                                              : k.dirmf_sgd;
}

// Rows dealt out to chunks from the longest to the shortest, so that those who walk side by side in a chunk come to its
// end together.
struct Deal {
  std::vector<int64_t> order, cuts;

  explicit Deal(const Side& side) {
    const auto length = [&](int64_t row) { return side.indptr[row + 1] - side.indptr[row]; };
    std::vector<int64_t> longest(side.n_rows);
    std::iota(longest.begin(), longest.end(), int64_t(0));
    std::stable_sort(longest.begin(), longest.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
    // Large enough for sixteen to be busy to the end; an even number, since cores often come in pairs.
    const int64_t ratings = std::max<int64_t>(8192, 32 * side.longest_row);
    const int64_t n_chunks = std::clamp<int64_t>(side.indptr[side.n_rows] / ratings / 2 * 2, 1, 64);
    cuts.push_back(0);
    for (int64_t c = 0; c < n_chunks; ++c) {
      for (int64_t at = c; at < side.n_rows; at += n_chunks) order.push_back(longest[at]);
      cuts.push_back(static_cast<int64_t>(order.size()));
    }
  }
};

int64_t stride_of(const Pass& pass) { return RowLayout(pass.n_scores).stride(pass.n_factors + pass.biased); }

using Scratch = std::vector<std::unique_ptr<float[]>>;  // one per thread

// Padding is read, and times 0 must be 0.
Scratch scratch_for(const Crew& crew, const Pass& pass) {
  Scratch scratch;
  for (int t = 0; t < crew.size(); ++t) scratch.emplace_back(new float[kernels().scratch_floats(pass)]());
  return scratch;
}

// Calls a kernel for every chunk between the cuts.
template <typename Kernel, typename Work>
void walk(Crew& crew, const std::vector<int64_t>& cuts, Kernel kernel, const Work& work, const Scratch& scratch) {
  crew.run(static_cast<int64_t>(cuts.size()) - 1,
           [&](int64_t c, int thread) { kernel(work, cuts[c], cuts[c + 1], scratch[thread].get()); });
}

// Newton steps and steps rating by rating take a row as a whole.
bool is_whole(Method method) { return method == Method::resbemf_exact || method == Method::dirmf_sgd; }

class Passes {
 public:
  Passes(const Side& users, const Side& items, const ScoreFit& fit)
      : crew_(fit.n_threads),
        users_(users),
        items_(items),
        fit_(fit),
        user_windows_(users, whole() ? 0 : items.n_rows, stride_of(fit.settings)),
        item_windows_(items, whole() ? 0 : users.n_rows, stride_of(fit.settings)),
        user_loglik_(users.n_rows),
        user_penalty_(users.n_rows),
        item_loglik_(items.n_rows),
        item_penalty_(items.n_rows) {
    Pass pass = fit.settings;
    pass.longest_row = std::max(users.longest_row, items.longest_row);
    scratch_ = scratch_for(crew_, pass);
    if (fit.method != Method::dirmf_sgd) return;
    user_deal_ = std::make_unique<Deal>(users);
    item_deal_ = std::make_unique<Deal>(items);
  }

  // Gradient rounds report what the item pass meets; only the exact step needs the likelihood on both sides.
  void users() {
    run(users_, user_windows_, user_deal_.get(), fit_.P, fit_.Q,
        fit_.method == Method::resbemf_exact ? user_loglik_.data() : nullptr, user_penalty_.data());
  }
  void items() {
    run(items_, item_windows_, item_deal_.get(), fit_.Q, fit_.P, item_loglik_.data(), item_penalty_.data());
  }

  double objective() const { return in_order(item_loglik_) - in_order(item_penalty_) - in_order(user_penalty_); }

  double centre(const Side& side, float* rows, double objective) {
    const Pass& s = fit_.settings;
    const RowLayout layout(s.n_scores);
    const int64_t stride = layout.stride(s.n_factors + 1);
    const float* biases = rows + layout.offset(s.n_factors);
    std::vector<double> mean(s.n_scores, 0.0);
    int64_t n = 0;
    for (int64_t row = 0; row < side.n_rows; ++row) {
      if (side.indptr[row] == side.indptr[row + 1]) continue;
      ++n;
      for (int k = 0; k < s.n_scores; ++k) mean[k] += static_cast<double>(biases[row * stride + k]);
    }
    for (double& m : mean) m /= static_cast<double>(n);
    return starcast::centre(side, fit_, rows, mean, n, objective);
  }

 private:
  void run(const Side& side, const Windows& windows, const Deal* deal, float* rows, const float* others, double* loglik,
           double* penalty) {
    Pass pass = pass_over(side, fit_, rows, others);
    pass.longest_row = std::max(users_.longest_row, items_.longest_row);
    pass.row_loglik = loglik;
    pass.row_penalty = penalty;
    if (deal) pass.order = deal->order.data();
    for (int64_t w = 0; w < windows.size(); ++w) {
      pass.window = windows[w];
      walk(crew_, deal ? deal->cuts : side.cuts, kernel_of(fit_.method), pass, scratch_);
    }
  }

  bool whole() const { return is_whole(fit_.method); }

  Crew crew_;
  const Side &users_, &items_;
  const ScoreFit& fit_;
  const Windows user_windows_, item_windows_;
  std::unique_ptr<const Deal> user_deal_, item_deal_;  // DirMF
  std::vector<double> user_loglik_, user_penalty_, item_loglik_, item_penalty_;
  Scratch scratch_;
};

}  // namespace

Side::Side(const int64_t* indptr, const int32_t* other, const int8_t* score, int64_t n_rows)
    : indptr(indptr), other(other), score(score), n_rows(n_rows) {
  const int64_t n = indptr[n_rows], n_chunks = std::max<int64_t>(1, n / chunk_ratings(n));
  cuts.push_back(0);
  for (int64_t c = 1; c < n_chunks; ++c) {
    const int64_t row = std::lower_bound(indptr, indptr + n_rows, n * c / n_chunks) - indptr;
    if (row > cuts.back()) cuts.push_back(row);
  }
  if (cuts.back() < n_rows) cuts.push_back(n_rows);
  for (int64_t row = 0; row < n_rows; ++row) longest_row = std::max(longest_row, indptr[row + 1] - indptr[row]);
}

Pass pass_over(const Side& side, const ScoreFit& fit, float* rows, const float* others) {
  Pass pass = fit.settings;
  pass.indptr = side.indptr;
  pass.other = side.other;
  pass.score = side.score;
  pass.rows = rows;
  pass.others = others;
  pass.base = fit.base;
  pass.longest_row = side.longest_row;
  pass.window = {side.indptr, side.indptr + 1};
  return pass;
}

double centre(const Side& side, const ScoreFit& fit, float* rows, const std::vector<double>& mean, int64_t n,
              double objective) {
  const Pass& s = fit.settings;
  const RowLayout layout(s.n_scores);
  const int64_t stride = layout.stride(s.n_factors + 1);
  float* biases = rows + layout.offset(s.n_factors);
  double gain = 0;
  for (double m : mean) gain += 0.5 * static_cast<double>(s.bias_regularization) * static_cast<double>(n) * m * m;
  if (!(gain > 1e-5 * std::abs(objective))) return 0;
  for (int64_t row = 0; row < side.n_rows; ++row) {
    if (side.indptr[row] == side.indptr[row + 1]) continue;
    for (int k = 0; k < s.n_scores; ++k) biases[row * stride + k] -= static_cast<float>(mean[k]);
  }
  for (int k = 0; k < s.n_scores; ++k) fit.base[k] += static_cast<float>(mean[k]);
  return gain;
}

Windows::Windows(const Side& side, int64_t n_others, int64_t stride) : side_(side) {
  const int64_t n_ratings = side.indptr[side.n_rows], bytes = n_others * stride * static_cast<int64_t>(sizeof(float));
  n_ = std::clamp<int64_t>(n_ratings / std::max<int64_t>(1, side.n_rows * window_ratings), 1,
                           (bytes + window_bytes - 1) / window_bytes);
  if (bytes <= roomy_bytes) n_ = 1;
  if (n_ == 1) return;
  sums_.reset(new float[side.n_rows * stride]);
  cuts_.resize((n_ + 1) * side.n_rows);
  for (int64_t row = 0; row < side.n_rows; ++row) {
    int64_t at = side.indptr[row];
    for (int64_t w = 0; w <= n_; ++w) {
      const int64_t from = n_others * w / n_;
      while (at < side.indptr[row + 1] && side.other[at] < from) ++at;
      cuts_[w * side.n_rows + row] = w < n_ ? at : side.indptr[row + 1];
    }
  }
}

Window Windows::operator[](int64_t w) const {
  if (n_ == 1) return {side_.indptr, side_.indptr + 1};
  const int64_t* begins = cuts_.data() + w * side_.n_rows;
  return {begins, begins + side_.n_rows, sums_.get(), w == 0, w + 1 == n_};
}

std::vector<double> run_rounds(const Side& users, const Side& items, const ScoreFit& fit, const Watch& watch) {
  Passes passes(users, items, fit);
  std::vector<double> history;
  const bool exact = fit.method == Method::resbemf_exact;
  for (int round = 0; round < fit.n_rounds; ++round) {
    watch.between_passes();
    passes.users();
    watch.between_passes();
    passes.items();
    double objective = passes.objective();
    if (exact && fit.settings.biased) {
      objective += passes.centre(users, fit.P, objective);
      objective += passes.centre(items, fit.Q, objective);
    }
    history.push_back(objective);
    if (watch.on_round(round, objective)) break;
    if (exact && round > 0 && objective - history[round - 1] <= fit.tolerance * std::abs(objective)) break;
  }
  return history;
}

void settle_rows(const Side& side, const ScoreFit& fit, const int32_t* n_steps, const float* rates,
                 const Watch& watch) {
  const int64_t n_chunks = static_cast<int64_t>(side.cuts.size()) - 1;
  const bool exact = fit.method == Method::resbemf_exact;
  Crew crew(fit.n_threads, n_chunks);
  std::vector<double> loglik(side.n_rows), penalty(side.n_rows);
  std::vector<int32_t> left(n_steps, n_steps + side.n_rows);
  Pass pass = pass_over(side, fit, fit.P, fit.Q);
  pass.polish = exact;
  pass.row_loglik = exact ? loglik.data() : nullptr;
  pass.row_penalty = penalty.data();
  const int64_t stride = stride_of(pass);
  const Scratch scratch = scratch_for(crew, pass);
  Scratch before;
  std::vector<Pass> own(crew.size(), pass);
  for (int t = 0; t < crew.size(); ++t) before.emplace_back(new float[stride]);
  const auto kernel = kernel_of(fit.method);
  while (std::any_of(left.begin(), left.end(), [](int32_t n) { return n > 0; })) {
    watch.between_passes();
    crew.run(n_chunks, [&](int64_t c, int thread) {
      for (int64_t row = side.cuts[c], next; row < side.cuts[c + 1]; row = next) {
        next = row + 1;
        if (left[row] <= 0) continue;
        // Rows that take the same step go together, but exact ones have to be looked at.
        while (!exact && next < side.cuts[c + 1] && left[next] > 0 && rates[next] == rates[row]) ++next;
        float *x = fit.P + row * stride, *old = before[thread].get();
        std::copy(x, x + stride, old);
        own[thread].learning_rate = rates[row];
        kernel(own[thread], row, next, scratch[thread].get());
        const bool still = exact && std::equal(x, x + stride, old);
        for (int64_t r = row; r < next; ++r) left[r] = still ? 0 : left[r] - 1;
      }
    });
  }
}

std::pair<double, double> run_pass(const Side& side, int64_t n_others, const ScoreFit& fit, bool is_asked) {
  Crew crew(fit.n_threads);
  const Windows windows(side, is_whole(fit.method) ? 0 : n_others, stride_of(fit.settings));
  std::vector<double> loglik(side.n_rows), penalty(side.n_rows);
  Pass pass = pass_over(side, fit, fit.P, fit.Q);
  pass.row_loglik = is_asked ? loglik.data() : nullptr;
  pass.row_penalty = penalty.data();
  const Scratch scratch = scratch_for(crew, pass);
  for (int64_t w = 0; w < windows.size(); ++w) {
    pass.window = windows[w];
    walk(crew, side.cuts, kernel_of(fit.method), pass, scratch);
  }
  return {in_order(loglik), in_order(penalty)};
}

void look_along(const Side& side, int64_t n_others, const ScoreFit& fit, float* sums, double* loglik) {
  Crew crew(fit.n_threads);
  const Windows windows(side, n_others, stride_of(fit.settings));
  Pass pass = pass_over(side, fit, fit.P, fit.Q);
  pass.row_loglik = loglik;
  const Scratch scratch = scratch_for(crew, pass);
  for (int64_t w = 0; w < windows.size(); ++w) {
    pass.window = windows[w];
    pass.window.sums = sums;
    pass.window.last = false;  // no row moves
    walk(crew, side.cuts, kernel_of(fit.method), pass, scratch);
  }
}

std::vector<int64_t> cut_asked(const Side& side, const std::vector<int64_t>& which) {
  std::vector<int64_t> cuts{0};
  const int64_t n_asked = static_cast<int64_t>(which.size());
  int64_t n_ratings = 0, begun = 0;
  for (int64_t row : which) n_ratings += side.indptr[row + 1] - side.indptr[row];
  const int64_t enough = chunk_ratings(n_ratings);
  for (int64_t k = 0; k < n_asked; ++k) {
    begun += side.indptr[which[k] + 1] - side.indptr[which[k]] + 1;  // a row without ratings is some work, too
    if (begun < enough && k + 1 < n_asked) continue;
    cuts.push_back(k + 1);
    begun = 0;
  }
  return cuts;
}

std::vector<int64_t> cut_evenly(int64_t n_rows, int64_t chunk) {
  std::vector<int64_t> cuts;
  for (int64_t row = 0; row < n_rows; row += chunk) cuts.push_back(row);
  cuts.push_back(n_rows);
  return cuts;
}

void look_at(const Side& side, const std::vector<int64_t>& which, ScoreLook look, int n_threads) {
  const std::vector<int64_t> cuts = cut_asked(side, which);
  Crew crew(n_threads, static_cast<int64_t>(cuts.size()) - 1);
  look.which = which.data();
  look.pass.longest_row = 0;  // no logits are kept
  walk(crew, cuts, kernels().resbemf_look, look, scratch_for(crew, look.pass));
}

void take_aim(int64_t n_rows, ScoreAim aim, int n_threads) {
  const std::vector<int64_t> cuts = cut_evenly(n_rows, 256);
  Crew crew(n_threads, static_cast<int64_t>(cuts.size()) - 1);
  aim.pass.longest_row = 0;
  walk(crew, cuts, kernels().resbemf_aim, aim, scratch_for(crew, aim.pass));
}

std::vector<double> run_rounds(const Side& users, const Side& items, const PointFit& fit, const Watch& watch) {
  Crew crew(fit.n_threads);
  std::vector<double> loss(std::max(users.n_rows, items.n_rows)), history;
  auto pass = [&](const Side& side, float* rows, const float* others, float* row_bias, const float* other_bias) {
    PointPass p = fit.settings;
    p.indptr = side.indptr;
    p.other = side.other;
    p.score = side.score;
    p.rows = rows;
    p.others = others;
    p.row_bias = row_bias;
    p.other_bias = other_bias;
    std::fill(loss.begin(), loss.end(), 0.0);
    p.row_loss = loss.data();
    crew.run(static_cast<int64_t>(side.cuts.size()) - 1,
             [&](int64_t c, int) { kernels().point_sgd(p, side.cuts[c], side.cuts[c + 1]); });
  };
  for (int round = 0; round < fit.n_rounds; ++round) {
    watch.between_passes();
    pass(users, fit.P, fit.Q, fit.user_bias, fit.item_bias);
    watch.between_passes();
    pass(items, fit.Q, fit.P, fit.item_bias, fit.user_bias);
    history.push_back(-in_order(loss));
    if (watch.on_round(round, history.back())) break;
  }
  return history;
}

void answer(const Question& ask, int64_t n_pairs, int n_threads) {
  constexpr int64_t chunk = 8192;
  const int64_t n_chunks = (n_pairs + chunk - 1) / chunk;
  Crew crew(n_threads, n_chunks);
  crew.run(n_chunks, [&](int64_t c, int) { kernels().proba(ask, c * chunk, std::min(n_pairs, (c + 1) * chunk)); });
}

}  // namespace starcast
