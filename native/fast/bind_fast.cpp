// The Python side of the float32 kernels. Arrays are taken as they are (C order, right dtype, never copied); sizes are
// checked here, once.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "bind_scores.hpp"

using namespace nb::literals;

namespace starcast {

namespace {

Watch watch_of(const nb::object& callback) {
  Watch watch;
  watch.between_passes = [] {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
  watch.on_round = [callback = callback.ptr()](int round, double objective) {
    if (callback == Py_None) return false;
    nb::gil_scoped_acquire gil;
    return nb::cast<bool>(nb::bool_(nb::handle(callback)(round, objective)));
  };
  return watch;
}

// Each side points at rows of the other, and at scores.
void require_both(const Side& users, const Side& items, int64_t n_scores) {
  require_others(users, items.n_rows);
  require_others(items, users.n_rows);
  require_scores(users, n_scores);
  require_scores(items, n_scores);
}

std::vector<double> fit_exact(nb::tuple user_side, nb::tuple item_side, Rows P, Rows Q, Array<float, 1> base,
                              Array<const float, 1> values, int n_factors, bool biased, float regularization,
                              float bias_regularization, float recklessness, int n_rounds, double tolerance,
                              int n_threads, nb::object callback) {
  const Side users = side_of(user_side), items = side_of(item_side);
  ScoreFit fit = score_fit(Method::resbemf_exact, users.n_rows, items.n_rows, P, Q, base, values, n_factors, biased);
  require_both(users, items, fit.settings.n_scores);
  fit.settings.regularization = regularization;
  fit.settings.bias_regularization = bias_regularization;
  fit.settings.recklessness = recklessness;
  fit.n_rounds = n_rounds;
  fit.tolerance = tolerance;
  fit.n_threads = n_threads;
  const Watch watch = watch_of(callback);
  nb::gil_scoped_release release;
  return run_rounds(users, items, fit, watch);
}

std::vector<double> fit_climb(nb::tuple user_side, nb::tuple item_side, Rows P, Rows Q, Array<float, 1> base,
                              Array<const float, 1> values, Array<const float, 1> weights, int n_factors, bool biased,
                              float regularization, float bias_regularization, float recklessness, int n_rounds,
                              double tolerance, int n_threads, nb::object callback) {
  const Side users = side_of(user_side), items = side_of(item_side);
  ScoreFit fit = score_fit(Method::resbemf_gradient, users.n_rows, items.n_rows, P, Q, base, values, n_factors, biased);
  require_both(users, items, fit.settings.n_scores);
  require(weights.shape(0) == base.shape(0), "weights must be one per score.");
  fit.weights = weights.data();
  fit.settings.regularization = regularization;
  fit.settings.bias_regularization = bias_regularization;
  fit.settings.recklessness = recklessness;
  fit.n_rounds = n_rounds;
  fit.tolerance = tolerance;
  fit.n_threads = n_threads;
  const Watch watch = watch_of(callback);
  nb::gil_scoped_release release;
  return climb(users, items, fit, watch);
}

Method method_of(const std::string& model, Method resbemf, bool biased) {
  require(model == "resbemf" || model == "bemf" || model == "dirmf", "model must be 'resbemf', 'bemf' or 'dirmf'.");
  require(!biased || model == "resbemf", "only ResBeMF has biases.");
  return model == "resbemf" ? resbemf : model == "bemf" ? Method::bemf_gradient : Method::dirmf_sgd;
}

std::vector<double> fit_gradient(const std::string& model, nb::tuple user_side, nb::tuple item_side, Rows P, Rows Q,
                                 Array<float, 1> base, Array<const float, 1> values, int n_factors, float learning_rate,
                                 float regularization, float recklessness, int n_rounds, int n_threads,
                                 nb::object callback) {
  const Side users = side_of(user_side), items = side_of(item_side);
  ScoreFit fit = score_fit(method_of(model, Method::resbemf_gradient, false), users.n_rows, items.n_rows, P, Q, base,
                           values, n_factors, false);
  require_both(users, items, fit.settings.n_scores);
  fit.settings.learning_rate = learning_rate;
  fit.settings.regularization = regularization;
  fit.settings.recklessness = recklessness;
  fit.n_rounds = n_rounds;
  fit.n_threads = n_threads;
  const Watch watch = watch_of(callback);
  nb::gil_scoped_release release;
  return run_rounds(users, items, fit, watch);
}

void solve_rows(const std::string& model, nb::tuple parts, Rows rows, Rows others, Array<float, 1> base,
                Array<const float, 1> values, Array<const int32_t, 1> n_steps, Array<const float, 1> rates,
                int n_factors, bool biased, float regularization, float bias_regularization, float recklessness,
                int n_threads) {
  const Side side = side_of(parts);
  require(static_cast<int64_t>(n_steps.shape(0)) == side.n_rows && static_cast<int64_t>(rates.shape(0)) == side.n_rows,
          "n_steps and rates must be one per row.");
  ScoreFit fit = score_fit(method_of(model, Method::resbemf_exact, biased), side.n_rows,
                           static_cast<int64_t>(others.shape(0)), rows, others, base, values, n_factors, biased);
  require_others(side, static_cast<int64_t>(others.shape(0)));
  require_scores(side, fit.settings.n_scores);
  fit.settings.regularization = regularization;
  fit.settings.bias_regularization = bias_regularization;
  fit.settings.recklessness = recklessness;
  fit.n_threads = n_threads;
  const Watch watch = watch_of(nb::none());
  nb::gil_scoped_release release;
  settle_rows(side, fit, n_steps.data(), rates.data(), watch);
}

std::vector<double> fit_point(nb::tuple user_side, nb::tuple item_side, Array<float, 2> P, Array<float, 2> Q,
                              std::optional<Array<float, 1>> user_bias, std::optional<Array<float, 1>> item_bias,
                              Array<const float, 1> values, float mean, float learning_rate, float regularization,
                              int n_rounds, int n_threads, nb::object callback) {
  const Side users = side_of(user_side), items = side_of(item_side);
  require(P.shape(1) == Q.shape(1) && P.shape(1) >= 8 && P.shape(1) % 8 == 0,
          "factors must be padded with zeros to a multiple of 8.");
  require(P.shape(1) <= max_planes, "there must be at most 2^20 factors.");
  require(static_cast<int64_t>(P.shape(0)) == users.n_rows && static_cast<int64_t>(Q.shape(0)) == items.n_rows,
          "P and Q must have a row per user and item.");
  require_both(users, items, static_cast<int64_t>(values.shape(0)));
  PointFit fit;
  require(user_bias.has_value() == item_bias.has_value(), "user_bias and item_bias come together.");
  if (user_bias) {
    require(user_bias->shape(0) == P.shape(0) && item_bias->shape(0) == Q.shape(0), "biases must be one per row.");
    fit.user_bias = user_bias->data();
    fit.item_bias = item_bias->data();
  }
  fit.settings.values = values.data();
  fit.settings.mean = mean;
  fit.settings.learning_rate = learning_rate;
  fit.settings.regularization = regularization;
  fit.settings.stride = static_cast<int>(P.shape(1));
  fit.P = P.data();
  fit.Q = Q.data();
  fit.n_rounds = n_rounds;
  fit.n_threads = n_threads;
  const Watch watch = watch_of(callback);
  nb::gil_scoped_release release;
  return run_rounds(users, items, fit, watch);
}

// out: (pairs, scores) with items, or (users, items, scores) without.
void proba(Array<const int32_t, 1> user, std::optional<Array<const int32_t, 1>> item, Rows P, Rows Q,
           Array<const float, 1> base, int n_factors, bool biased, const std::string& link,
           nb::ndarray<float, nb::c_contig, nb::device::cpu> out, int n_threads) {
  require(link == "softmax" || link == "logistic", "link must be 'softmax' or 'logistic'.");
  const RowLayout layout = layout_of(base.shape(0));
  Question ask;
  ask.n_scores = layout.n_scores;
  ask.n_factors = n_factors;
  ask.biased = biased;
  require_rows(P, layout, n_factors, biased);
  require_rows(Q, layout, n_factors, biased);
  require_pairs(user, item ? *item : user, P.shape(0), item ? Q.shape(0) : P.shape(0));
  ask.P = P.data();
  ask.Q = Q.data();
  ask.n_items = static_cast<int64_t>(Q.shape(0));
  ask.base = base.data();
  ask.link = link == "softmax" ? Link::softmax : Link::logistic;
  ask.user = user.data();
  ask.item = item ? item->data() : nullptr;
  const int64_t n = static_cast<int64_t>(user.shape(0)) * (item ? 1 : ask.n_items);
  require(static_cast<int64_t>(out.size()) == n * ask.n_scores, "out must have a row per pair and a column per score.");
  ask.out = out.data();
  nb::gil_scoped_release release;
  answer(ask, n, n_threads);
}

// What allocate_rows has made and nobody has let go of yet: the first float, and one past the room at the end.
struct Allocations {
  std::mutex mutex;
  std::map<const float*, const float*> ends;
};
Allocations& allocations() {
  static auto* const all = new Allocations;  // never destroyed: arrays may outlive the module
  return *all;
}

constexpr size_t room = 64;  // floats past the last row

// Zeros from the start of a cache line, so that no slot is split between two, and with room for a vector that reads
// past the last row.
nb::object allocate_rows(int64_t n_rows, int64_t n_planes, int64_t n_scores) {
  require(n_scores >= 2 && n_scores <= max_scores, "there must be between 2 and 64 scores.");
  require(n_planes >= 1 && n_planes <= max_planes, "there must be between 1 and 2^20 planes.");
  const int64_t stride = RowLayout(static_cast<int>(n_scores)).stride(static_cast<int>(n_planes));
  require(n_rows >= 0 && n_rows <= INT64_MAX / 8 / stride, "n_rows must be zero or more, and no more than memory has.");
  const size_t floats = static_cast<size_t>(n_rows * stride) + room;
  float* data = static_cast<float*>(::operator new(floats * sizeof(float), std::align_val_t(64)));
  nb::capsule owner(data, [](void* p) noexcept {
    {
      std::lock_guard lock(allocations().mutex);
      allocations().ends.erase(static_cast<const float*>(p));
    }
    ::operator delete(p, std::align_val_t(64));
  });
  std::memset(data, 0, floats * sizeof(float));
  {
    std::lock_guard lock(allocations().mutex);
    allocations().ends[data] = data + floats;
  }
  return nb::cast(
      nb::ndarray<nb::numpy, float>(data, {static_cast<size_t>(n_rows), static_cast<size_t>(stride)}, owner));
}

// planes: (rows, planes, scores), the form in which models keep and save what they learnt.
void pack_rows(Array<const float, 3> planes, Rows rows) {
  const RowLayout layout = layout_of(planes.shape(2));
  require(planes.shape(1) <= max_planes, "there must be at most 2^20 planes.");
  const int n_planes = static_cast<int>(planes.shape(1));
  require_rows(rows, layout, n_planes, false);
  require(rows.shape(0) == planes.shape(0), "rows and planes must be of the same length.");
  for (size_t r = 0; r < planes.shape(0); ++r)
    for (int k = 0; k < n_planes; ++k)
      for (int s = 0; s < layout.n_scores; ++s) rows(r, layout.offset(k) + s) = planes(r, k, s);
}

void unpack_rows(Rows rows, Array<float, 3> planes) {
  const RowLayout layout = layout_of(planes.shape(2));
  require(planes.shape(1) <= max_planes, "there must be at most 2^20 planes.");
  const int n_planes = static_cast<int>(planes.shape(1));
  require_rows(rows, layout, n_planes, false);
  require(rows.shape(0) == planes.shape(0), "rows and planes must be of the same length.");
  for (size_t r = 0; r < planes.shape(0); ++r)
    for (int k = 0; k < n_planes; ++k)
      for (int s = 0; s < layout.n_scores; ++s) planes(r, k, s) = rows(r, layout.offset(k) + s);
}

}  // namespace

bool are_allocated(const float* rows, size_t n_floats) {
  if (n_floats == 0) return true;
  std::lock_guard lock(allocations().mutex);
  const auto after = allocations().ends.upper_bound(rows);
  if (after == allocations().ends.begin()) return false;
  return std::prev(after)->second >= rows + n_floats + room;
}

void bind_ascent(nb::module_& m);
void bind_ordinal(nb::module_& m);
void bind_parts(nb::module_& m);
void bind_top(nb::module_& m);

void bind_fast(nb::module_& m) {
  kernels();
  bind_ascent(m);
  bind_ordinal(m);
  bind_parts(m);
  bind_top(m);
  m.def("isa", [] { return std::string(kernels().isa); }, "The instruction set of the kernels in use.");
  m.def("allocate_rows", &allocate_rows, "n_rows"_a, "n_planes"_a, "n_scores"_a);
  m.def("pack_rows", &pack_rows, "planes"_a.noconvert(), "rows"_a.noconvert());
  m.def("unpack_rows", &unpack_rows, "rows"_a.noconvert(), "planes"_a.noconvert());
  m.def("fit_resbemf_exact", &fit_exact, "user_side"_a, "item_side"_a, "P"_a.noconvert(), "Q"_a.noconvert(),
        "base"_a.noconvert(), "values"_a.noconvert(), "n_factors"_a, "biased"_a, "regularization"_a,
        "bias_regularization"_a, "recklessness"_a = 0.0f, "n_rounds"_a = 30, "tolerance"_a = 1e-4, "n_threads"_a = 1,
        "callback"_a = nb::none());
  m.def("fit_resbemf_gradient", &fit_climb, "user_side"_a, "item_side"_a, "P"_a.noconvert(), "Q"_a.noconvert(),
        "base"_a.noconvert(), "values"_a.noconvert(), "weights"_a.noconvert(), "n_factors"_a, "biased"_a,
        "regularization"_a, "bias_regularization"_a, "recklessness"_a = 0.0f, "n_rounds"_a = 30, "tolerance"_a = 1e-4,
        "n_threads"_a = 1, "callback"_a = nb::none());
  m.def("fit_gradient", &fit_gradient, "model"_a, "user_side"_a, "item_side"_a, "P"_a.noconvert(), "Q"_a.noconvert(),
        "base"_a.noconvert(), "values"_a.noconvert(), "n_factors"_a, "learning_rate"_a = 0.01f,
        "regularization"_a = 0.0f, "recklessness"_a = 0.0f, "n_rounds"_a = 1, "n_threads"_a = 1,
        "callback"_a = nb::none());
  m.def("solve_rows", &solve_rows, "model"_a, "side"_a, "rows"_a.noconvert(), "others"_a.noconvert(),
        "base"_a.noconvert(), "values"_a.noconvert(), "n_steps"_a.noconvert(), "rates"_a.noconvert(), "n_factors"_a,
        "biased"_a = false, "regularization"_a = 0.0f, "bias_regularization"_a = 0.0f, "recklessness"_a = 0.0f,
        "n_threads"_a = 1);
  m.def("fit_point", &fit_point, "user_side"_a, "item_side"_a, "P"_a.noconvert(), "Q"_a.noconvert(),
        "user_bias"_a.noconvert().none(), "item_bias"_a.noconvert().none(), "values"_a.noconvert(), "mean"_a = 0.0f, "learning_rate"_a = 0.01f,
        "regularization"_a = 0.1f, "n_rounds"_a = 1, "n_threads"_a = 1, "callback"_a = nb::none());
  m.def("proba", &proba, "user"_a.noconvert(), "item"_a.noconvert().none(), "P"_a.noconvert(), "Q"_a.noconvert(),
        "base"_a.noconvert(), "n_factors"_a, "biased"_a, "link"_a, "out"_a.noconvert(), "n_threads"_a = 1);
}

}  // namespace starcast
