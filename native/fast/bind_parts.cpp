// The Python side of passes over rows whose ratings lie in several places: one half of a round at a time, or what the
// ratings of one place say and what is made of the sums.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "bind_scores.hpp"

using namespace nb::literals;

namespace starcast {

namespace {

using Planes = Array<const float, 3>;
using Table = Array<const float, 2>;
using Which = std::optional<Array<const int64_t, 1>>;

std::unique_ptr<float[]> make_room(int64_t floats) { return std::unique_ptr<float[]>(new float[floats]()); }

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
  require_others(side, n_others);
  require_scores(side, fit.settings.n_scores);
  fit.settings.learning_rate = learning_rate;
  fit.settings.regularization = regularization;
  fit.settings.bias_regularization = bias_regularization;
  fit.settings.recklessness = recklessness;
  fit.n_threads = n_threads;
  nb::gil_scoped_release release;
  return run_pass(side, n_others, fit, is_asked);
}

int planes_of_block(int n_factors, bool biased, int block) {
  require_planes(n_factors, biased);
  require(block >= 0 && block < blocks_of(n_factors), "block must be one of those that the factors are cut into.");
  return block_begin(n_factors, block + 1) - block_begin(n_factors, block) + (biased && block == 0);
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
  require_ratings(side, which, static_cast<int64_t>(others.shape(0)), fit.settings.n_scores);
  const size_t n = static_cast<size_t>(planes_of_block(n_factors, biased, block)), d = base.shape(0);
  ScoreLook look;
  look.pass = pass_over(side, fit, rows.data(), others.data());
  look.pass.recklessness = recklessness;
  look.block = block;
  require(static_cast<int64_t>(loglik.shape(0)) == n_asked, "loglik must be one per row.");
  look.loglik = loglik.data();
  require(slope.has_value() == curve.has_value(), "slope and curve come together.");
  if (curve) {
    require(slope->shape(0) == rows.shape(0) && slope->shape(1) == n && slope->shape(2) == d,
            "slope must be (rows, planes of the block, scores).");
    require(curve->shape(0) == rows.shape(0) && curve->shape(1) == n * (n + 1) / 2 && curve->shape(2) == d,
            "curve must be (rows, lower triangle of the block, scores).");
    look.slope = slope->data();
    look.curve = curve->data();
  }
  nb::gil_scoped_release release;
  look_at(side, which, look, n_threads);
}

// The gradient of BeMF's rows from `first` on.
void look_bemf(nb::tuple parts, Rows rows, Rows others, Array<float, 1> base, Array<const float, 1> values,
               int n_factors, float recklessness, int64_t first, Array<double, 1> loglik, Array<float, 3> slope,
               int n_threads) {
  const Side all = side_of(parts);
  const int64_t n = static_cast<int64_t>(rows.shape(0)), n_others = static_cast<int64_t>(others.shape(0));
  require(first >= 0 && n <= all.n_rows && first <= all.n_rows - n,
          "rows that are asked about must be rows of the side.");
  const Side side(all.indptr + first, all.other, all.score, n);
  ScoreFit fit = score_fit(Method::bemf_gradient, n, n_others, rows, others, base, values, n_factors, false);
  require_ratings(side, rows_asked(side, n, 0, std::nullopt), n_others, fit.settings.n_scores);
  fit.settings.recklessness = recklessness;
  fit.n_threads = n_threads;
  const RowLayout layout(fit.settings.n_scores);
  const int64_t stride = layout.stride(n_factors), d = layout.n_scores;
  require(slope.shape(0) == rows.shape(0) && static_cast<int>(slope.shape(1)) == n_factors &&
              static_cast<int64_t>(slope.shape(2)) == d && loglik.shape(0) == rows.shape(0),
          "slope must be (rows, factors, scores), and loglik one per row.");
  nb::gil_scoped_release release;
  const std::unique_ptr<float[]> sums(new float[n * stride + 64]());
  look_along(side, n_others, fit, sums.get(), loglik.data());
  float* to = slope.data();
  for (int64_t row = 0; row < n; ++row)
    for (int k = 0; k < n_factors; ++k, to += d) std::copy_n(sums.get() + row * stride + layout.offset(k), d, to);
}

void aim_scores(Planes planes, Planes slope, Planes curve, int n_factors, bool biased, float regularization,
                float bias_regularization, int block, Array<float, 3> step, Array<double, 1> gain, int n_threads) {
  const size_t rows = planes.shape(0), d = planes.shape(2);
  const size_t n = static_cast<size_t>(planes_of_block(n_factors, biased, block));
  require(d >= 2 && d <= max_scores && static_cast<int64_t>(planes.shape(1)) == int64_t{n_factors} + biased,
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
  require(out.shape(0) >= 1 && rated.shape(0) == rows.shape(0), "out must be one per score, and one more.");
  const RowLayout layout = layout_of(out.shape(0) - 1);
  const int d = layout.n_scores;
  require_rows(rows, layout, n_factors, true);
  std::fill_n(out.data(), d + 1, 0.0);
  for (size_t row = 0; row < rows.shape(0); ++row) {
    if (!rated(row)) continue;
    const float* biases = &rows(row, layout.offset(n_factors));
    for (int s = 0; s < d; ++s) out.data()[s] += static_cast<double>(biases[s]);
    out.data()[d] += 1;
  }
}

void shift_biases(Rows rows, Array<const bool, 1> rated, int n_factors, Array<const float, 1> shift) {
  require(rated.shape(0) == rows.shape(0), "rated must be one per row.");
  const RowLayout layout = layout_of(shift.shape(0));
  const int d = layout.n_scores;
  require_rows(rows, layout, n_factors, true);
  for (size_t row = 0; row < rows.shape(0); ++row)
    for (int s = 0; rated(row) && s < d; ++s) rows(row, layout.offset(n_factors) + s) -= shift(s);
}

// Rows of a point model: (rows, stride), of which the first columns are used.
PointSquares squares_of(size_t n_columns, size_t stride, float regularization) {
  PointSquares work;
  require(stride % 16 == 0 && n_columns >= 1 && n_columns <= stride, "rows must be padded to a multiple of 16.");
  require(stride <= max_planes, "there must be at most 2^20 factors.");
  work.n_columns = static_cast<int>(n_columns);
  work.stride = static_cast<int>(stride);
  work.regularization = regularization;
  return work;
}

void point_at(PointSquares& work, const Side& side, const std::vector<int64_t>& which, const Table& others,
              const Array<const float, 1>& values, bool biased, float mean) {
  require_ratings(side, which, static_cast<int64_t>(others.shape(0)), static_cast<int64_t>(values.shape(0)));
  work.indptr = side.indptr;
  work.other = side.other;
  work.score = side.score;
  work.others = others.data();
  work.values = values.data();
  work.biased = biased;
  work.mean = mean;
}

using SquaresKernel = void (*)(const PointSquares&, int64_t, int64_t, float*);

void walk_squares(const PointSquares& work, const std::vector<int64_t>& cuts, SquaresKernel kernel, int n_threads) {
  nb::gil_scoped_release release;
  const int64_t n_chunks = static_cast<int64_t>(cuts.size()) - 1;
  Crew crew(n_threads, n_chunks);
  std::vector<std::unique_ptr<float[]>> scratch;
  for (int t = 0; t < crew.size(); ++t) scratch.push_back(make_room(kernels().squares_scratch_floats(work)));
  crew.run(n_chunks, [&](int64_t c, int thread) { kernel(work, cuts[c], cuts[c + 1], scratch[thread].get()); });
}

void look_squares(nb::tuple parts, Table others, Array<const float, 1> values, int n_columns, bool biased, float mean,
                  int64_t first, Array<double, 1> squares, Array<float, 2> pull, Array<float, 2> gram, int n_threads) {
  const Side side = side_of(parts);
  const size_t n = squares.shape(0), D = static_cast<size_t>(n_columns);
  PointSquares work = squares_of(D, others.shape(1), 0);
  require(pull.shape(0) == n && pull.shape(1) == D && gram.shape(0) == n && gram.shape(1) == D * (D + 1) / 2,
          "pull must be (rows, columns), gram (rows, upper triangle).");
  const std::vector<int64_t> which = rows_asked(side, static_cast<int64_t>(n), first, std::nullopt);
  point_at(work, side, which, others, values, biased, mean);
  work.which = which.data();
  work.squares = squares.data();
  work.pull = pull.data();
  work.gram = gram.data();
  walk_squares(work, cut_asked(side, which), kernels().squares_meet, n_threads);
}

// Solves for rows from sums; returns their squared error and their penalty.
std::pair<double, double> solve_squares(Array<const double, 1> squares, Table pull, Table gram,
                                        Array<const int64_t, 1> counts, float regularization, Rows rows,
                                        int n_threads) {
  const size_t n = rows.shape(0), D = pull.shape(1);
  PointSquares work = squares_of(D, rows.shape(1), regularization);
  require(squares.shape(0) == n && counts.shape(0) == n && pull.shape(0) == n && gram.shape(0) == n &&
              gram.shape(1) == D * (D + 1) / 2,
          "sums must be one per row.");
  std::vector<double> loss(n), penalty(n);
  work.squares = const_cast<double*>(squares.data());  // sums are only read
  work.pull = const_cast<float*>(pull.data());
  work.gram = const_cast<float*>(gram.data());
  work.counts = counts.data();
  work.rows = rows.data();
  work.row_loss = loss.data();
  work.row_penalty = penalty.data();
  walk_squares(work, cut_evenly(static_cast<int64_t>(n), 256), kernels().squares_solve, n_threads);
  return {std::accumulate(loss.begin(), loss.end(), 0.0), std::accumulate(penalty.begin(), penalty.end(), 0.0)};
}

// Both at once, for rows whose ratings are all here.
std::pair<double, double> pass_squares(nb::tuple parts, Rows rows, Table others, Array<const float, 1> values,
                                       int n_columns, bool biased, float mean, float regularization, int n_threads) {
  const Side side = side_of(parts);
  PointSquares work = squares_of(static_cast<size_t>(n_columns), others.shape(1), regularization);
  require(static_cast<int64_t>(rows.shape(0)) == side.n_rows && rows.shape(1) == others.shape(1),
          "rows must be one per row of the side, padded as the others are.");
  point_at(work, side, rows_asked(side, side.n_rows, 0, std::nullopt), others, values, biased, mean);
  std::vector<double> loss(side.n_rows), penalty(side.n_rows);
  std::vector<int64_t> counts(side.n_rows);
  for (int64_t row = 0; row < side.n_rows; ++row) counts[row] = side.indptr[row + 1] - side.indptr[row];
  work.counts = counts.data();
  work.rows = rows.data();
  work.row_loss = loss.data();
  work.row_penalty = penalty.data();
  walk_squares(work, side.cuts, kernels().squares_meet, n_threads);
  return {std::accumulate(loss.begin(), loss.end(), 0.0), std::accumulate(penalty.begin(), penalty.end(), 0.0)};
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
  m.def("look_bemf", &look_bemf, "side"_a, "rows"_a.noconvert(), "others"_a.noconvert(), "base"_a.noconvert(),
        "values"_a.noconvert(), "n_factors"_a, "recklessness"_a, "first"_a, "loglik"_a.noconvert(),
        "slope"_a.noconvert(), "n_threads"_a);
  m.def("look_squares", &look_squares, "side"_a, "others"_a.noconvert(), "values"_a.noconvert(), "n_columns"_a,
        "biased"_a, "mean"_a, "first"_a, "squares"_a.noconvert(), "pull"_a.noconvert(), "gram"_a.noconvert(),
        "n_threads"_a);
  m.def("solve_squares", &solve_squares, "squares"_a.noconvert(), "pull"_a.noconvert(), "gram"_a.noconvert(),
        "counts"_a.noconvert(), "regularization"_a, "rows"_a.noconvert(), "n_threads"_a);
  m.def("pass_squares", &pass_squares, "side"_a, "rows"_a.noconvert(), "others"_a.noconvert(), "values"_a.noconvert(),
        "n_columns"_a, "biased"_a, "mean"_a, "regularization"_a, "n_threads"_a);
  m.def("sum_biases", &sum_biases, "rows"_a.noconvert(), "rated"_a.noconvert(), "n_factors"_a, "out"_a.noconvert());
  m.def("shift_biases", &shift_biases, "rows"_a.noconvert(), "rated"_a.noconvert(), "n_factors"_a,
        "shift"_a.noconvert());
}

}  // namespace starcast
