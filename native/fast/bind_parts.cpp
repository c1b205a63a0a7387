// The Python side of passes over rows whose ratings lie in several places: one half of a round at a time, or what the
// ratings of one place say and what is made of the sums.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "bind_scores.hpp"

using namespace nb::literals;

namespace starcast {

namespace {

using Planes = Array<const float, 3>;
using Which = std::optional<Array<const int64_t, 1>>;

std::pair<double, double> pass_scores(const std::string& model, nb::tuple parts, Rows rows, Rows others,
                                      Array<float, 1> base, Array<const float, 1> values, int n_factors, bool biased,
                                      float learning_rate, float regularization, float bias_regularization,
                                      float recklessness, bool is_asked, int n_threads) {
  require(model == "resbemf" || (model == "bemf" && !biased), "model must be 'resbemf', or 'bemf' without biases.");
  const Method method = model == "resbemf" ? Method::resbemf_exact : Method::bemf_gradient;
  require(is_asked || method == Method::bemf_gradient, "an exact pass always asks for the likelihood.");
  const Side side = side_of(parts);
  const int64_t n_others = static_cast<int64_t>(others.shape(0));
  ScoreFit fit = score_fit(method, side.n_rows, n_others, rows, others, base, values, n_factors, biased);
  fit.settings.learning_rate = learning_rate;
  fit.settings.regularization = regularization;
  fit.settings.bias_regularization = bias_regularization;
  fit.settings.recklessness = recklessness;
  fit.n_threads = n_threads;
  nb::gil_scoped_release release;
  return run_pass(side, n_others, fit, is_asked);
}

// The rows of a side that are asked about: those of `some`, or as many as there are, counted from `first` on.
std::vector<int64_t> rows_asked(const Side& side, int64_t n_asked, int64_t first, const Which& some) {
  std::vector<int64_t> which(n_asked);
  require(!some || static_cast<int64_t>(some->shape(0)) == n_asked, "some must be one per row.");
  for (int64_t k = 0; k < n_asked; ++k) {
    which[k] = first + (some ? (*some)(k) : k);
    require(which[k] >= 0 && which[k] < side.n_rows, "rows that are asked about must be rows of the side.");
  }
  return which;
}

int planes_of_block(int n_factors, bool biased, int block) {
  const int n = blocks_of(n_factors);
  require(block >= 0 && block < n, "block must be one of those that the factors are cut into.");
  return n_factors * (block + 1) / n - n_factors * block / n + (biased && block == 0);
}

void look_scores(nb::tuple parts, Rows rows, Rows others, Array<float, 1> base, Array<const float, 1> values,
                 int n_factors, bool biased, float recklessness, int64_t first, Which some, int block,
                 Array<double, 1> loglik, std::optional<Array<float, 3>> slope, std::optional<Array<float, 3>> curve,
                 int n_threads) {
  const Side side = side_of(parts);
  const int64_t n_asked = static_cast<int64_t>(rows.shape(0));
  const ScoreFit fit = score_fit(Method::resbemf_exact, n_asked, static_cast<int64_t>(others.shape(0)), rows, others,
                                 base, values, n_factors, biased);
  const std::vector<int64_t> which = rows_asked(side, n_asked, first, some);
  ScoreLook look;
  look.pass = pass_over(side, fit, rows.data(), others.data());
  look.pass.recklessness = recklessness;
  look.which = which.data();
  look.block = block;
  require(static_cast<int64_t>(loglik.shape(0)) == n_asked, "loglik must be one per row.");
  look.loglik = loglik.data();
  require(slope.has_value() == curve.has_value(), "slope and curve come together.");
  if (curve) {
    const size_t n = static_cast<size_t>(planes_of_block(n_factors, biased, block)), d = base.shape(0);
    require(slope->shape(0) == rows.shape(0) && slope->shape(1) == n && slope->shape(2) == d,
            "slope must be (rows, planes of the block, scores).");
    require(curve->shape(0) == rows.shape(0) && curve->shape(1) == n * (n + 1) / 2 && curve->shape(2) == d,
            "curve must be (rows, lower triangle of the block, scores).");
    look.slope = slope->data();
    look.curve = curve->data();
  }
  nb::gil_scoped_release release;
  look_at(side, n_asked, look, n_threads);
}

void aim_scores(Planes planes, Planes slope, Planes curve, int n_factors, bool biased, float regularization,
                float bias_regularization, int block, Array<float, 3> step, Array<double, 1> gain, int n_threads) {
  const size_t rows = planes.shape(0), d = planes.shape(2);
  const size_t n = static_cast<size_t>(planes_of_block(n_factors, biased, block));
  require(d >= 2 && d <= max_scores && static_cast<int>(planes.shape(1)) == n_factors + biased,
          "planes must be (rows, factors and biases, scores).");
  require(slope.shape(0) == rows && slope.shape(1) == n && slope.shape(2) == d && step.shape(0) == rows &&
              step.shape(1) == n && step.shape(2) == d,
          "slope and step must be (rows, planes of the block, scores).");
  require(curve.shape(0) == rows && curve.shape(1) == n * (n + 1) / 2 && curve.shape(2) == d,
          "curve must be (rows, lower triangle of the block, scores).");
  require(gain.shape(0) == rows, "gain must be one per row.");
  ScoreAim aim;
  aim.pass.n_factors = n_factors;
  aim.pass.n_scores = static_cast<int>(d);
  aim.pass.biased = biased;
  aim.pass.regularization = regularization;
  aim.pass.bias_regularization = bias_regularization;
  aim.block = block;
  aim.planes = planes.data();
  aim.slope = slope.data();
  aim.curve = curve.data();
  aim.step = step.data();
  aim.gain = gain.data();
  nb::gil_scoped_release release;
  take_aim(static_cast<int64_t>(rows), aim, n_threads);
}

// The biases of rows that are rated, added up in their order; then how many such rows there are.
void sum_biases(Rows rows, Array<const bool, 1> rated, int n_factors, Array<double, 1> out) {
  const int d = static_cast<int>(out.shape(0)) - 1;
  require(d >= 2 && d <= max_scores && rated.shape(0) == rows.shape(0), "out must be one per score, and one more.");
  const Layout layout(d);
  require_rows(rows, layout, n_factors + 1);
  std::fill_n(out.data(), d + 1, 0.0);
  for (size_t row = 0; row < rows.shape(0); ++row) {
    if (!rated(row)) continue;
    const float* biases = &rows(row, layout.offset(n_factors));
    for (int s = 0; s < d; ++s) out.data()[s] += static_cast<double>(biases[s]);
    out.data()[d] += 1;
  }
}

void shift_biases(Rows rows, Array<const bool, 1> rated, int n_factors, Array<const float, 1> shift) {
  const int d = static_cast<int>(shift.shape(0));
  require(d >= 2 && d <= max_scores && rated.shape(0) == rows.shape(0), "rated must be one per row.");
  const Layout layout(d);
  require_rows(rows, layout, n_factors + 1);
  for (size_t row = 0; row < rows.shape(0); ++row)
    for (int s = 0; rated(row) && s < d; ++s) rows(row, layout.offset(n_factors) + s) -= shift(s);
}

}  // namespace

void bind_parts(nb::module_& m) {
  m.attr("max_block") = max_block;
  m.def("pass_scores", &pass_scores, "model"_a, "side"_a, "rows"_a.noconvert(), "others"_a.noconvert(),
        "base"_a.noconvert(), "values"_a.noconvert(), "n_factors"_a, "biased"_a = false, "learning_rate"_a = 0.0f,
        "regularization"_a = 0.0f, "bias_regularization"_a = 0.0f, "recklessness"_a = 0.0f, "is_asked"_a = true,
        "n_threads"_a = 1);
  m.def("look_scores", &look_scores, "side"_a, "rows"_a.noconvert(), "others"_a.noconvert(), "base"_a.noconvert(),
        "values"_a.noconvert(), "n_factors"_a, "biased"_a, "recklessness"_a, "first"_a, "some"_a.noconvert().none(),
        "block"_a, "loglik"_a.noconvert(), "slope"_a.noconvert().none(), "curve"_a.noconvert().none(), "n_threads"_a);
  m.def("aim_scores", &aim_scores, "planes"_a.noconvert(), "slope"_a.noconvert(), "curve"_a.noconvert(), "n_factors"_a,
        "biased"_a, "regularization"_a, "bias_regularization"_a, "block"_a, "step"_a.noconvert(), "gain"_a.noconvert(),
        "n_threads"_a);
  m.def("sum_biases", &sum_biases, "rows"_a.noconvert(), "rated"_a.noconvert(), "n_factors"_a, "out"_a.noconvert());
  m.def("shift_biases", &shift_biases, "rows"_a.noconvert(), "rated"_a.noconvert(), "n_factors"_a,
        "shift"_a.noconvert());
}

}  // namespace starcast
