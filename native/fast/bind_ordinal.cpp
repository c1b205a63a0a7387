// The Python side of the ordinal model's kernels.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "bind_side.hpp"

using namespace nb::literals;

namespace starcast {

namespace {

using Rows = Array<float, 2>;
using Table = Array<const float, 2>;
using Counts = Array<int32_t, 2>;

constexpr double objective_step = 0x1p-20;

// The nearest multiple of a step, a power of two: sums of such numbers are exact, hence the same in any order.
double on_grid(double x, double step) {
  const double start = step * 0x1.8p52;
  return (x + start) - start;
}

// Everything of a pass but the rows and their ratings.
OrdinalPass pass_of(const OrdinalShape& shape, size_t stride, const Array<const float, 1>& base, const Table& basis,
                    const Array<const int32_t, 1>& ranks, int n_steps) {
  OrdinalPass pass;
  pass.n_columns = shape.n_columns;
  pass.stride = static_cast<int>(stride);
  pass.n_scores = shape.n_scores;
  pass.n_basis = shape.n_basis;
  pass.ranks = ranks.data();
  pass.base = base.data();
  pass.basis = basis.data();
  pass.n_steps = n_steps;
  return pass;
}

// How large the units of sums over ratings are.
void count_in(OrdinalPass& pass, const Array<const float, 1>& reach, int64_t longest) {
  require(static_cast<int>(reach.shape(0)) == pass.n_basis, "reach must be one per basis function.");
  pass.reach = reach.data();
  pass.longest = longest;
}

void point_at(OrdinalPass& pass, const Side& side) {
  pass.indptr = side.indptr;
  pass.other = side.other;
  pass.score = side.score;
}

// Moves rows in place; returns the sum of their log-posteriors and how many draws were accepted.
std::pair<double, int64_t> move_rows(nb::tuple parts, Rows rows, Table others, Array<const float, 1> base, Table basis,
                                     Array<const int32_t, 1> ranks, Table means, Table precision, int n_steps,
                                     std::optional<Table> noise, std::optional<Array<const float, 1>> luck,
                                     std::optional<Array<double, 2>> spread, Array<const float, 1> reach,
                                     int64_t longest, int n_threads) {
  const Side side = side_of(parts);
  const OrdinalShape shape(base, basis, ranks);
  const size_t stride = rows.shape(1), D = static_cast<size_t>(shape.n_columns);
  require(stride % 16 == 0 && stride >= D, "rows must be padded with zeros to a multiple of 16.");
  require(others.shape(1) == stride && means.shape(1) == stride && precision.shape(1) == stride,
          "others, means and precision must be padded as rows are.");
  require(static_cast<int64_t>(rows.shape(0)) == side.n_rows && means.shape(0) == rows.shape(0),
          "rows and means must be one per row of the side.");
  require(precision.shape(0) == D, "precision must have a row per column.");
  require(noise.has_value() == luck.has_value(), "noise and luck come together.");
  if (noise)
    require(noise->shape(0) == rows.shape(0) && noise->shape(1) == stride && luck->shape(0) == rows.shape(0),
            "noise and luck must be one per row.");
  if (spread) require(spread->shape(0) == D && spread->shape(1) == D, "spread must be square, a row per column.");
  require_others(side, static_cast<int64_t>(others.shape(0)));
  require_scores(side, shape.n_scores);

  OrdinalPass pass = pass_of(shape, stride, base, basis, ranks, n_steps);
  count_in(pass, reach, longest);
  point_at(pass, side);
  pass.rows = rows.data();
  pass.others = others.data();
  pass.means = means.data();
  pass.precision = precision.data();
  pass.noise = noise ? noise->data() : nullptr;
  pass.luck = luck ? luck->data() : nullptr;

  // Sums of chunks are exact, so that it does not matter who took them.
  const int64_t n_chunks = static_cast<int64_t>(side.cuts.size()) - 1;
  std::vector<double> objective(side.n_rows), spreads(spread ? n_chunks * D * D : 0);
  std::vector<int64_t> accepted(n_chunks);
  pass.row_objective = objective.data();
  {
    nb::gil_scoped_release release;
    Crew crew(n_threads, n_chunks);
    std::vector<std::unique_ptr<float[]>> scratch;
    for (int t = 0; t < crew.size(); ++t) scratch.emplace_back(new float[kernels().ordinal_scratch_floats(pass)]);
    crew.run(n_chunks, [&](int64_t c, int thread) {
      OrdinalPass mine = pass;
      mine.accepted = &accepted[c];
      mine.spread = spread ? spreads.data() + c * D * D : nullptr;
      kernels().ordinal_rows(mine, side.cuts[c], side.cuts[c + 1], scratch[thread].get());
    });
  }
  if (spread) {
    std::fill_n(spread->data(), D * D, 0.0);
    for (int64_t c = 0; c < n_chunks; ++c)
      for (size_t d = 0; d < D * D; ++d) spread->data()[d] += spreads[c * D * D + d];
  }
  for (double& value : objective) value = on_grid(value, objective_step);
  return {std::accumulate(objective.begin(), objective.end(), 0.0),
          std::accumulate(accepted.begin(), accepted.end(), int64_t{0})};
}

// Sums over the ratings that are here, of rows from `first` on or of some of those.
void look_ordinal(nb::tuple parts, Rows rows, Table others, Array<const float, 1> base, Table basis,
                  Array<const int32_t, 1> ranks, int64_t first, std::optional<Array<const int64_t, 1>> some,
                  Array<double, 1> loglik, std::optional<Counts> slope, std::optional<Counts> curve,
                  Array<const float, 1> reach, int64_t longest, int n_threads) {
  const Side side = side_of(parts);
  const OrdinalShape shape(base, basis, ranks);
  const size_t n = rows.shape(0), stride = rows.shape(1), D = static_cast<size_t>(shape.n_columns);
  require(stride % 16 == 0 && stride >= D && others.shape(1) == stride,
          "rows and others must be padded with zeros to a multiple of 16.");
  require(loglik.shape(0) == n, "loglik must be one per row.");
  require(slope.has_value() == curve.has_value(), "slope and curve come together.");
  if (curve)
    require(slope->shape(0) == n && slope->shape(1) == D && curve->shape(0) == n && curve->shape(1) == D * (D + 1) / 2,
            "slope must be (rows, columns), curve (rows, upper triangle).");
  const std::vector<int64_t> which = rows_asked(side, static_cast<int64_t>(n), first, some);
  require_ratings(side, which, static_cast<int64_t>(others.shape(0)), shape.n_scores);
  OrdinalLook look;
  look.pass = pass_of(shape, stride, base, basis, ranks, 0);
  count_in(look.pass, reach, longest);
  point_at(look.pass, side);
  look.pass.rows = rows.data();
  look.pass.others = others.data();
  look.which = which.data();
  look.loglik = loglik.data();
  look.slope = slope ? slope->data() : nullptr;
  look.curve = curve ? curve->data() : nullptr;
  const std::vector<int64_t> cuts = cut_asked(side, which);
  nb::gil_scoped_release release;
  Crew crew(n_threads, static_cast<int64_t>(cuts.size()) - 1);
  std::vector<std::unique_ptr<float[]>> scratch;
  for (int t = 0; t < crew.size(); ++t) scratch.emplace_back(new float[kernels().ordinal_scratch_floats(look.pass)]());
  crew.run(static_cast<int64_t>(cuts.size()) - 1,
           [&](int64_t c, int thread) { kernels().ordinal_look(look, cuts[c], cuts[c + 1], scratch[thread].get()); });
}

// What sums over all ratings make of rows: log-posterior, Newton's step, its promise, the log root of the curvature;
// with noise a kick, with an origin the squared distance back to it, and the spread if there is room for it.
void aim_ordinal(Table rows, Array<const double, 1> loglik, Array<const int32_t, 2> slope,
                 Array<const int32_t, 2> curve, Array<const float, 1> base, Table basis, Array<const int32_t, 1> ranks,
                 Table means, Table precision, std::optional<Table> noise, std::optional<Table> origin,
                 Array<double, 1> objective, Rows step, Array<double, 1> promise, Array<double, 1> size,
                 std::optional<Rows> kick, std::optional<Array<double, 1>> back, std::optional<Array<double, 2>> spread,
                 Array<const float, 1> reach, int64_t longest, int n_threads) {
  const OrdinalShape shape(base, basis, ranks);
  const size_t n = rows.shape(0), stride = rows.shape(1), D = static_cast<size_t>(shape.n_columns);
  const auto fits = [&](const auto& table) { return table.shape(0) == n && table.shape(1) == stride; };
  require(stride % 16 == 0 && stride >= D && fits(means) && fits(step) && (!noise || fits(*noise)) &&
              (!origin || fits(*origin)) && (!kick || fits(*kick)),
          "rows, means, noise, origin, step and kick must be padded alike, to a multiple of 16.");
  require(slope.shape(0) == n && slope.shape(1) == D && curve.shape(0) == n && curve.shape(1) == D * (D + 1) / 2,
          "slope must be (rows, columns), curve (rows, upper triangle).");
  require(loglik.shape(0) == n && objective.shape(0) == n && promise.shape(0) == n && size.shape(0) == n,
          "numbers must be one per row.");
  require(precision.shape(0) == D && precision.shape(1) == stride, "precision must have a padded row per column.");
  require(noise.has_value() == kick.has_value() && origin.has_value() == back.has_value(),
          "noise and kick, origin and back come together.");
  if (spread) require(spread->shape(0) == D && spread->shape(1) == D, "spread must be square, a row per column.");
  OrdinalAim aim;
  aim.pass = pass_of(shape, stride, base, basis, ranks, 0);
  count_in(aim.pass, reach, longest);
  aim.pass.rows = const_cast<float*>(rows.data());  // only read
  aim.pass.means = means.data();
  aim.pass.precision = precision.data();
  aim.pass.noise = noise ? noise->data() : nullptr;
  aim.pass.row_objective = objective.data();
  aim.loglik = loglik.data();
  aim.slope = slope.data();
  aim.curve = curve.data();
  aim.step = step.data();
  aim.promise = promise.data();
  aim.size = size.data();
  aim.kick = kick ? kick->data() : nullptr;
  aim.origin = origin ? origin->data() : nullptr;
  aim.back = back ? back->data() : nullptr;
  const std::vector<int64_t> cuts = cut_evenly(static_cast<int64_t>(n), 256);
  const int64_t n_chunks = static_cast<int64_t>(cuts.size()) - 1;
  std::vector<double> spreads(spread ? n_chunks * D * D : 0);
  {
    nb::gil_scoped_release release;
    Crew crew(n_threads, n_chunks);
    std::vector<std::unique_ptr<float[]>> scratch;
    for (int t = 0; t < crew.size(); ++t) scratch.emplace_back(new float[kernels().ordinal_scratch_floats(aim.pass)]());
    crew.run(n_chunks, [&](int64_t c, int thread) {
      OrdinalAim mine = aim;
      mine.pass.spread = spread ? spreads.data() + c * D * D : nullptr;
      kernels().ordinal_aim(mine, cuts[c], cuts[c + 1], scratch[thread].get());
    });
  }
  if (!spread) return;
  std::fill_n(spread->data(), D * D, 0.0);
  for (size_t x = 0; x < spreads.size(); ++x) spread->data()[x % (D * D)] += spreads[x];
}

// The log-posterior alone.
void value_ordinal(Table rows, Array<const double, 1> loglik, Array<const float, 1> base, Table basis,
                   Array<const int32_t, 1> ranks, Table means, Table precision, Array<double, 1> objective) {
  const OrdinalShape shape(base, basis, ranks);
  const size_t n = rows.shape(0), stride = rows.shape(1), D = static_cast<size_t>(shape.n_columns);
  require(stride % 16 == 0 && stride >= D && means.shape(0) == n && means.shape(1) == stride,
          "rows and means must be padded alike, to a multiple of 16.");
  require(precision.shape(0) == D && precision.shape(1) == stride, "precision must have a padded row per column.");
  require(loglik.shape(0) == n && objective.shape(0) == n, "numbers must be one per row.");
  OrdinalAim aim;
  aim.pass = pass_of(shape, stride, base, basis, ranks, 0);
  aim.pass.rows = const_cast<float*>(rows.data());  // only read
  aim.pass.means = means.data();
  aim.pass.precision = precision.data();
  aim.pass.row_objective = objective.data();
  aim.loglik = loglik.data();
  nb::gil_scoped_release release;
  const std::unique_ptr<float[]> scratch(new float[kernels().ordinal_scratch_floats(aim.pass)]());
  kernels().ordinal_aim(aim, 0, static_cast<int64_t>(n), scratch.get());
}

// The numbers of one draw, moved from [row][column][draw] to rows padded with zeros.
void unravel(const float* draws, size_t n_rows, size_t D, size_t T, size_t t, size_t stride, float* rows) {
  for (size_t r = 0; r < n_rows; ++r)
    for (size_t d = 0; d < stride; ++d) rows[r * stride + d] = d < D ? draws[(r * D + d) * T + t] : 0.0f;
}

// Rows of their own for ratings of others whose draws are given: for each draw a row climbs from what its prior expects
// to its summit and makes one move from there. All rows share its noise and luck, so that none depends on those beside
// it.
void place_rows(nb::tuple parts, Table features, Array<const float, 3> others, Array<const float, 3> weights,
                Array<const float, 3> precision, Array<const float, 1> base, Table basis, Array<const int32_t, 1> ranks,
                std::optional<Table> noise, std::optional<Array<const float, 1>> luck, int n_steps, Array<float, 3> out,
                int n_threads) {
  const Side side = side_of(parts);
  const OrdinalShape shape(base, basis, ranks);
  const size_t D = static_cast<size_t>(shape.n_columns), T = others.shape(2), n = static_cast<size_t>(side.n_rows);
  const size_t stride = (D + 15) / 16 * 16, n_features = features.shape(1), n_others = others.shape(0);
  require(others.shape(1) == D, "others must be (rows, columns, draws).");
  require(features.shape(0) == n && weights.shape(0) == T && weights.shape(1) == n_features && weights.shape(2) == D,
          "features must be (rows, features) and weights (draws, features, columns).");
  require(precision.shape(0) == T && precision.shape(1) == D && precision.shape(2) == D,
          "precision must be (draws, columns, columns).");
  require(out.shape(0) == n && out.shape(1) == D && out.shape(2) == T, "out must be (rows, columns, draws).");
  require(noise.has_value() == luck.has_value(), "noise and luck come together.");
  if (noise)
    require(noise->shape(0) == T && noise->shape(1) == D && luck->shape(0) == T,
            "noise must be (draws, columns) and luck (draws).");
  require_others(side, static_cast<int64_t>(n_others));
  require_scores(side, shape.n_scores);
  const OrdinalPass shared = pass_of(shape, stride, base, basis, ranks, n_steps);
  nb::gil_scoped_release release;
  Crew crew(n_threads, static_cast<int64_t>(T));
  const size_t floats = (2 * n + n_others + D + (noise ? n : 0)) * stride +
                        static_cast<size_t>(kernels().ordinal_scratch_floats(shared)) + n;
  std::vector<std::vector<float>> room(static_cast<size_t>(crew.size()));
  std::vector<std::vector<double>> objective(room.size());
  crew.run(static_cast<int64_t>(T), [&](int64_t draw, int thread) {
    const size_t t = static_cast<size_t>(draw), w = static_cast<size_t>(thread);
    room[w].assign(floats, 0.0f);
    objective[w].resize(n);
    float *means = room[w].data(), *rows = means + n * stride, *there = rows + n * stride;
    float *precise = there + n_others * stride, *lucks = precise + D * stride, *shift = lucks + n;
    float* scratch = shift + (noise ? n * stride : 0);
    unravel(others.data(), n_others, D, T, t, stride, there);
    for (size_t r = 0; r < n; ++r)
      for (size_t f = 0; f < n_features; ++f)
        for (size_t d = 0; d < D; ++d) means[r * stride + d] += features(r, f) * weights(t, f, d);
    std::copy_n(means, n * stride, rows);
    for (size_t d = 0; d < D; ++d) std::copy_n(&precision(t, d, 0), D, precise + d * stride);
    OrdinalPass pass = shared;
    point_at(pass, side);
    pass.rows = rows;
    pass.others = there;
    pass.means = means;
    pass.precision = precise;
    pass.row_objective = objective[w].data();
    int64_t accepted = 0;
    if (noise) {
      for (size_t r = 0; r < n; ++r) {
        std::copy_n(&(*noise)(t, 0), D, shift + r * stride);
        lucks[r] = (*luck)(t);
      }
      pass.noise = shift;
      pass.luck = lucks;
      pass.accepted = &accepted;
    }
    kernels().ordinal_rows(pass, 0, side.n_rows, scratch);
    for (size_t r = 0; r < n; ++r)
      for (size_t d = 0; d < D; ++d) out(r, d, t) = rows[r * stride + d];
  });
}

void proba(Array<const int32_t, 1> user, Array<const int32_t, 1> item, Array<const float, 3> P, Array<const float, 3> Q,
           Array<const float, 1> base, Table basis, Array<const int32_t, 1> ranks, Array<const float, 1> weights,
           Rows out, int n_threads) {
  const OrdinalShape shape(base, basis, ranks);
  const size_t D = static_cast<size_t>(shape.n_columns), T = weights.shape(0);
  require(T >= 16 && T % 16 == 0, "draws must be padded to a multiple of 16.");
  require(P.shape(1) == D && Q.shape(1) == D && P.shape(2) == T && Q.shape(2) == T,
          "P and Q must be (rows, columns, draws).");
  require(user.shape(0) == item.shape(0) && out.shape(0) == user.shape(0) &&
              static_cast<int>(out.shape(1)) == shape.n_scores,
          "out must have a row per pair and a column per score.");
  require_pairs(user, item, P.shape(0), Q.shape(0));
  OrdinalQuestion ask;
  ask.user = user.data();
  ask.item = item.data();
  ask.P = P.data();
  ask.Q = Q.data();
  ask.n_columns = shape.n_columns;
  ask.n_scores = shape.n_scores;
  ask.n_basis = shape.n_basis;
  ask.n_draws = static_cast<int64_t>(T);
  ask.weights = weights.data();
  ask.ranks = ranks.data();
  ask.base = base.data();
  ask.basis = basis.data();
  ask.out = out.data();
  nb::gil_scoped_release release;
  const int64_t n = static_cast<int64_t>(user.shape(0)), size = 2048, n_chunks = (n + size - 1) / size;
  Crew crew(n_threads, n_chunks);
  crew.run(n_chunks, [&](int64_t c, int) { kernels().ordinal_proba(ask, c * size, std::min(n, (c + 1) * size)); });
}

// out[r] = weight[r] * sum over the ratings of r of other_weight[other] * X[other], rounded to multiples of a step: the
// product with the table of who rated what, which needs no more memory than its factors.
void gather_company(nb::tuple parts, Array<const double, 1> weight, Array<const double, 1> other_weight,
                    Array<const double, 2> X, double step, Array<double, 2> out, int n_threads) {
  const Side side = side_of(parts);
  const size_t width = X.shape(1);
  require(static_cast<int64_t>(weight.shape(0)) == side.n_rows && static_cast<int64_t>(out.shape(0)) == side.n_rows &&
              out.shape(1) == width && other_weight.shape(0) == X.shape(0),
          "weights and rows must be one per row of a side.");
  require_others(side, static_cast<int64_t>(X.shape(0)));
  nb::gil_scoped_release release;
  const int64_t n_chunks = static_cast<int64_t>(side.cuts.size()) - 1;
  Crew crew(n_threads, n_chunks);
  crew.run(n_chunks, [&](int64_t c, int) {
    for (int64_t r = side.cuts[c]; r < side.cuts[c + 1]; ++r) {
      double* sum = out.data() + r * width;
      std::fill_n(sum, width, 0.0);
      for (int64_t n = side.indptr[r]; n < side.indptr[r + 1]; ++n) {
        const double scale = other_weight(side.other[n]);
        const double* x = X.data() + side.other[n] * width;
        for (size_t d = 0; d < width; ++d) sum[d] += on_grid(scale * x[d], step);
      }
      for (size_t d = 0; d < width; ++d) sum[d] *= weight(r);
    }
  });
}

// Products of tall matrices with few columns, plainly: a threaded library's own threads would wait for each other
// longer than this takes. Those that are summed over rows are rounded to multiples of a step, so that rows may lie in
// several places.
void cross_products(Array<const double, 2> A, Array<const double, 2> B, double step, Array<double, 2> out) {
  const size_t n = A.shape(0), rows = A.shape(1), columns = B.shape(1);
  require(B.shape(0) == n && out.shape(0) == rows && out.shape(1) == columns, "out must be A'B.");
  nb::gil_scoped_release release;
  std::fill_n(out.data(), rows * columns, 0.0);
  for (size_t r = 0; r < n; ++r)
    for (size_t a = 0; a < rows; ++a) {
      const double x = A(r, a);
      const double* b = B.data() + r * columns;
      double* sum = out.data() + a * columns;
      for (size_t c = 0; c < columns; ++c) sum[c] += on_grid(x * b[c], step);
    }
}

void row_products(Array<const double, 2> A, Array<const double, 2> W, Array<double, 2> out) {
  const size_t n = A.shape(0), inner = A.shape(1), columns = W.shape(1);
  require(W.shape(0) == inner && out.shape(0) == n && out.shape(1) == columns, "out must be AW.");
  nb::gil_scoped_release release;
  std::fill_n(out.data(), n * columns, 0.0);
  for (size_t r = 0; r < n; ++r)
    for (size_t a = 0; a < inner; ++a) {
      const double x = A(r, a);
      const double* w = W.data() + a * columns;
      double* sum = out.data() + r * columns;
      for (size_t c = 0; c < columns; ++c) sum[c] += x * w[c];
    }
}

}  // namespace

void bind_ordinal(nb::module_& m) {
  m.def("move_rows", &move_rows, "side"_a, "rows"_a.noconvert(), "others"_a.noconvert(), "base"_a.noconvert(),
        "basis"_a.noconvert(), "ranks"_a.noconvert(), "means"_a.noconvert(), "precision"_a.noconvert(), "n_steps"_a,
        "noise"_a.none(), "luck"_a.none(), "spread"_a.none(), "reach"_a.noconvert(), "longest"_a, "n_threads"_a);
  m.def("look_ordinal", &look_ordinal, "side"_a, "rows"_a.noconvert(), "others"_a.noconvert(), "base"_a.noconvert(),
        "basis"_a.noconvert(), "ranks"_a.noconvert(), "first"_a, "some"_a.noconvert().none(), "loglik"_a.noconvert(),
        "slope"_a.noconvert().none(), "curve"_a.noconvert().none(), "reach"_a.noconvert(), "longest"_a, "n_threads"_a);
  m.def("aim_ordinal", &aim_ordinal, "rows"_a.noconvert(), "loglik"_a.noconvert(), "slope"_a.noconvert(),
        "curve"_a.noconvert(), "base"_a.noconvert(), "basis"_a.noconvert(), "ranks"_a.noconvert(),
        "means"_a.noconvert(), "precision"_a.noconvert(), "noise"_a.noconvert().none(), "origin"_a.noconvert().none(),
        "objective"_a.noconvert(), "step"_a.noconvert(), "promise"_a.noconvert(), "size"_a.noconvert(),
        "kick"_a.noconvert().none(), "back"_a.noconvert().none(), "spread"_a.noconvert().none(), "reach"_a.noconvert(),
        "longest"_a, "n_threads"_a);
  m.def("value_ordinal", &value_ordinal, "rows"_a.noconvert(), "loglik"_a.noconvert(), "base"_a.noconvert(),
        "basis"_a.noconvert(), "ranks"_a.noconvert(), "means"_a.noconvert(), "precision"_a.noconvert(),
        "objective"_a.noconvert());
  m.def("place_rows", &place_rows, "side"_a, "features"_a.noconvert(), "others"_a.noconvert(), "weights"_a.noconvert(),
        "precision"_a.noconvert(), "base"_a.noconvert(), "basis"_a.noconvert(), "ranks"_a.noconvert(), "noise"_a.none(),
        "luck"_a.none(), "n_steps"_a, "out"_a.noconvert(), "n_threads"_a);
  m.def("ordinal_proba", &proba, "user"_a.noconvert(), "item"_a.noconvert(), "P"_a.noconvert(), "Q"_a.noconvert(),
        "base"_a.noconvert(), "basis"_a.noconvert(), "ranks"_a.noconvert(), "weights"_a.noconvert(),
        "out"_a.noconvert(), "n_threads"_a);
  m.def("gather_company", &gather_company, "side"_a, "weight"_a.noconvert(), "other_weight"_a.noconvert(),
        "X"_a.noconvert(), "step"_a, "out"_a.noconvert(), "n_threads"_a);
  m.def("cross_products", &cross_products, "A"_a.noconvert(), "B"_a.noconvert(), "step"_a, "out"_a.noconvert());
  m.def("row_products", &row_products, "A"_a.noconvert(), "W"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace starcast
