// The paper's five factorizations as its program computes them, for reproducing its published figures to the digit.
//
// Double precision, and nothing re-associated or contracted (compile with -fno-fast-math -ffp-contract=off). A row
// belongs to one thread, so a result does not depend on the number of threads.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "../fast/crew.hpp"
#include "updates.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace strict {
namespace {

template <class T, int N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
using Offsets = Array<const std::int64_t, 1>;
using Codes = Array<const std::int32_t, 1>;
using Scores = Array<const std::int8_t, 1>;
using Values = Array<const double, 1>;

struct Run {
  std::int64_t n_iters;
  int n_threads;
  bool stop_on_divergence;
  std::optional<nb::callable> callback;
};

struct Problem {
  Side users, items;
  Step step;
  Run run;
};

// Calls work(begin, end) on contiguous shares of the rows that hold about the same number of ratings.
template <class Work>
void parallel_rows(const Side& side, starcast::Crew& crew, Work work) {
  const int n = crew.size();
  std::vector<std::int64_t> cut(n + 1, side.rows);
  cut[0] = 0;
  for (int t = 1; t < n; ++t)
    cut[t] = std::lower_bound(side.start, side.start + side.rows, side.start[side.rows] * t / n) - side.start;
  crew.run(n, [&](std::int64_t t, int) {
    if (cut[t] < cut[t + 1]) work(cut[t], cut[t + 1]);
  });
}

bool finite(const std::vector<double>& lanes, int width, int used) {
  for (std::size_t j = 0; j < lanes.size(); j += width)
    for (int s = 0; s < used; ++s)
      if (!std::isfinite(lanes[j + s])) return false;
  return true;
}

// All users from the current item factors, then all items from the new user factors. Returns the first iteration,
// counted from 1, that left a factor infinite or NaN, else -1; by default it goes on from there, because the published
// program does. An interrupt, or an error in the callback, ends it and leaves the caller's arrays as they were.
std::int64_t iterate(const Problem& problem, std::vector<double>& P, std::vector<double>& Q, Update users, Update items,
                     int width, int used) {
  const Run& run = problem.run;
  starcast::Crew crew(run.n_threads);
  auto pass = [&](const Side& side, Update update, std::vector<double>& own, const std::vector<double>& other) {
    parallel_rows(side, crew, [&](std::int64_t begin, std::int64_t end) {
      update(side, begin, end, own.data(), other.data(), problem.step);
    });
  };
  nb::gil_scoped_release release;
  std::int64_t diverged = -1;
  for (std::int64_t iteration = 1; iteration <= run.n_iters; ++iteration) {
    pass(problem.users, users, P, Q);
    pass(problem.items, items, Q, P);
    if (diverged < 0 && !(finite(P, width, used) && finite(Q, width, used))) diverged = iteration;
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (run.callback) (*run.callback)(iteration);
    if (diverged > 0 && run.stop_on_divergence) break;
  }
  return diverged;
}

// Copies between NumPy's [row][score][factor] and [row][factor][lane].
template <class Copy>
void each_element(Array<double, 3>& array, std::vector<double>& lanes, int width, Copy copy) {
  const std::size_t n_scores = array.shape(1), n_factors = array.shape(2);
  double* element = array.data();
  for (std::size_t r = 0; r < array.shape(0); ++r)
    for (std::size_t s = 0; s < n_scores; ++s)
      for (std::size_t k = 0; k < n_factors; ++k) copy(*element++, lanes[(r * n_factors + k) * width + s]);
}

template <int W>
std::int64_t fit_lanes(const Problem& problem, Array<double, 3>& P, Array<double, 3>& Q, Update update) {
  auto load = [](double& element, double& lane) { lane = element; };
  auto store = [](double& element, double& lane) { element = lane; };
  std::vector<double> p(P.shape(0) * P.shape(2) * W), q(Q.shape(0) * Q.shape(2) * W);
  each_element(P, p, W, load), each_element(Q, q, W, load);
  const auto diverged = iterate(problem, p, q, update, update, W, problem.step.n_scores);
  each_element(P, p, W, store), each_element(Q, q, W, store);
  return diverged;
}

void check(bool holds, const char* message) {
  if (!holds) throw nb::value_error(message);
}

Side side(const Offsets& start, const Codes& other, const Scores& score) {
  check(start.size() >= 1, "start must have one entry more than there are rows, got none.");
  check(start.data()[start.size() - 1] == static_cast<std::int64_t>(other.size()) && other.size() == score.size(),
        "the last start must be the number of ratings, as many as there are codes and scores.");
  check(start.data()[0] == 0 && std::is_sorted(start.data(), start.data() + start.size()),
        "start must begin with 0 and never fall.");
  return {start.data(), other.data(), score.data(), static_cast<std::int64_t>(start.size()) - 1};
}

template <class Code>
bool are_codes(const Code* codes, std::size_t n, std::size_t limit) {
  return std::all_of(codes, codes + n, [&](Code c) { return c >= 0 && static_cast<std::size_t>(c) < limit; });
}

void check_codes(const Side& side, std::size_t n_others, std::size_t n_scores) {
  const std::size_t n = static_cast<std::size_t>(side.start[side.rows]);
  check(are_codes(side.other, n, n_others) && are_codes(side.score, n, n_scores),
        "codes must be those of rows of the other side, and of values.");
}

double mean_rating(const Side& side, const Values& values) {
  double total = 0.0;  // exact, whatever the order: ratings are multiples of 1/2
  for (std::int64_t e = 0; e < side.start[side.rows]; ++e) total += values.data()[side.score[e]];
  return total / static_cast<double>(side.start[side.rows]);
}

template <class M, int N>
std::int64_t fit(Offsets user_start, Codes user_item, Scores user_score, Offsets item_start, Codes item_user,
                 Scores item_score, Values values, Array<double, N> P, Array<double, N> Q, std::int64_t n_iters,
                 double learning_rate, double regularization, int n_threads, bool stop_on_divergence,
                 std::optional<nb::callable> callback) {
  const Side users = side(user_start, user_item, user_score), items = side(item_start, item_user, item_score);
  check(static_cast<std::int64_t>(P.shape(0)) == users.rows && static_cast<std::int64_t>(Q.shape(0)) == items.rows,
        "P and Q must have a row per user and per item.");
  check(P.shape(N - 1) == Q.shape(N - 1), "P and Q must have the same number of factors.");
  if constexpr (N == 3)
    check(P.shape(1) == values.size() && Q.shape(1) == values.size(), "P and Q must have a vector per score.");
  check(values.size() >= 1 && values.size() <= 128, "there must be between 1 and 128 values.");
  check(P.shape(N - 1) >= 1 && P.shape(N - 1) <= 1 << 20, "there must be between 1 and 2^20 factors.");
  check_codes(users, Q.shape(0), values.size());
  check_codes(items, P.shape(0), values.size());
  const int n_scores = static_cast<int>(values.size()), n_factors = static_cast<int>(P.shape(N - 1));
  const Step step{learning_rate, regularization, values.data(), mean_rating(users, values), n_scores, n_factors};
  return M::fit({users, items, step, {n_iters, n_threads, stop_on_divergence, callback}}, P, Q);
}

template <Update update4, Update update8, Update update12, Update update32, Update update128>
struct PerScore {
  static std::int64_t fit(const Problem& problem, Array<double, 3>& P, Array<double, 3>& Q) {
    const int d = problem.step.n_scores;
    if (d <= 4) return fit_lanes<4>(problem, P, Q, update4);
    if (d <= 8) return fit_lanes<8>(problem, P, Q, update8);
    if (d <= 12) return fit_lanes<12>(problem, P, Q, update12);
    if (d <= 32) return fit_lanes<32>(problem, P, Q, update32);
    return fit_lanes<128>(problem, P, Q, update128);  // a score code is a signed byte
  }
};

template <Update users, Update items>
struct Point {
  static std::int64_t fit(const Problem& problem, Array<double, 2>& P, Array<double, 2>& Q) {
    std::vector<double> p(P.data(), P.data() + P.size()), q(Q.data(), Q.data() + Q.size());
    const auto diverged = iterate(problem, p, q, users, items, 1, 1);
    std::copy(p.begin(), p.end(), P.data()), std::copy(q.begin(), q.end(), Q.data());
    return diverged;
  }
};

using ResBeMF = PerScore<resbemf_rows<4>, resbemf_rows<8>, resbemf_rows<12>, resbemf_rows<32>, resbemf_rows<128>>;
using BeMF = PerScore<bemf_rows<4>, bemf_rows<8>, bemf_rows<12>, bemf_rows<32>, bemf_rows<128>>;
using DirMF = PerScore<dirmf_rows<4>, dirmf_rows<8>, dirmf_rows<12>, dirmf_rows<32>, dirmf_rows<128>>;
using PMF = Point<pmf_rows, pmf_rows>;
using BiasedMF = Point<biasedmf_rows<true>, biasedmf_rows<false>>;

// out[n, s]: exp(z_s) for ResBeMF (not shifted) or the logistic of z_s for BeMF and DirMF, divided by their sum over s.
template <double (*weight)(double)>
void probs(Array<const double, 3> P, Array<const double, 3> Q, Codes user, Codes item, Array<double, 2> out) {
  const std::size_t d = P.shape(1), n_factors = P.shape(2);
  check(Q.shape(1) == d && Q.shape(2) == n_factors, "P and Q must have the same scores and factors.");
  check(user.size() == item.size() && out.shape(0) == user.size() && out.shape(1) == d,
        "out must have a row per pair and a column per score.");
  check(are_codes(user.data(), user.size(), P.shape(0)) && are_codes(item.data(), item.size(), Q.shape(0)),
        "user and item must be codes of rows of P and Q.");
  nb::gil_scoped_release release;
  for (std::size_t n = 0; n < user.size(); ++n) {
    const double *p = P.data() + user.data()[n] * d * n_factors, *q = Q.data() + item.data()[n] * d * n_factors;
    double* row = out.data() + n * d;
    for (std::size_t s = 0; s < d; ++s) row[s] = weight(dot(p + s * n_factors, q + s * n_factors, n_factors));
    const double total = sum(row, d);
    for (std::size_t s = 0; s < d; ++s) row[s] /= total;
  }
}

double logistic(double x) { return 1.0 / (1.0 + java_exp(-x)); }

template <class M, int N>
void bind_fit(nb::module_& m, const char* name, const char* doc) {
  m.def(name, &fit<M, N>, "user_start"_a, "user_item"_a, "user_score"_a, "item_start"_a, "item_user"_a, "item_score"_a,
        "values"_a, "P"_a.noconvert(), "Q"_a.noconvert(), "n_iters"_a, "learning_rate"_a, "regularization"_a,
        "n_threads"_a = 1, "stop_on_divergence"_a = false, "callback"_a = nb::none(), doc);
}

}  // namespace
}  // namespace strict

namespace starcast {

void bind_strict(nb::module_& m) {
  using namespace strict;
  constexpr auto PER_SCORE =
      "Fit P and Q (rows, scores, factors) in place; returns the first iteration that diverged, or -1.";
  bind_fit<ResBeMF, 3>(m, "fit_resbemf", PER_SCORE);
  bind_fit<BeMF, 3>(m, "fit_bemf", PER_SCORE);
  bind_fit<DirMF, 3>(m, "fit_dirmf", PER_SCORE);
  bind_fit<PMF, 2>(m, "fit_pmf",
                   "Fit P and Q (rows, factors) in place; returns the first iteration that diverged, or -1.");
  bind_fit<BiasedMF, 2>(m, "fit_biasedmf", "As fit_pmf, with the bias as the first of the factors.");
  m.def("java_exp", &java_exp, "x"_a, "Math.exp of Java on x86-64, to the bit wherever the result is a normal number.");
  m.def("digamma", &digamma, "x"_a, "Gamma.digamma of Apache Commons Math 3.6.1 for x >= 0, to the bit for x < 50.");
  m.def("softmax_probs", &probs<java_exp>, "P"_a, "Q"_a, "user"_a, "item"_a, "out"_a.noconvert(),
        "ResBeMF's probabilities of pairs, into out.");
  m.def("logistic_probs", &probs<logistic>, "P"_a, "Q"_a, "user"_a, "item"_a, "out"_a.noconvert(),
        "BeMF's and DirMF's probabilities of pairs, into out.");
}

}  // namespace starcast
