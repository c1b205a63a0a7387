// The Python side of the ordinal model's gradient rounds: rows that live here, in whole cache lines, as long as an
// ascent.
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>

#include "bind_side.hpp"

using namespace nb::literals;

namespace starcast {

namespace {

using Table = Array<const float, 2>;

constexpr size_t near_floats = 1 << 18;  // a megabyte, which a core's own caches hold

// Floats that begin with a cache line, all zero, and sixteen more, since kernels may read past the end of a row.
class Lines {
 public:
  explicit Lines(size_t n) : n_(n), floats_(new (std::align_val_t{64}) float[n + 16]()) {}
  float* data() { return floats_.get(); }
  void take(const float* from) { std::copy_n(from, n_, data()); }
  void clear() { std::fill_n(data(), n_, 0.0f); }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  size_t n_;
  std::unique_ptr<float[], Free> floats_;
};

struct Half {  // the rows of one side
  Side side;
  nb::tuple parts;  // whose arrays the side points into
  size_t n_features;
  Lines rows, kept, velocity, features;
  std::vector<double> sums;  // one after the other, those of each chunk

  Half(const nb::tuple& parts, const Table& start, const Table& features)
      : side(side_of(parts)),
        parts(parts),
        n_features(features.shape(1)),
        rows(start.size()),
        kept(start.size()),
        velocity(start.size()),
        features(features.size()) {
    rows.take(start.data());
    this->features.take(features.data());
  }
  int64_t n_chunks() const { return static_cast<int64_t>(side.cuts.size()) - 1; }
  double* sums_of(size_t size) {
    sums.assign(static_cast<size_t>(n_chunks()) * size, 0.0);
    return sums.data();
  }
  // What chunks found is added in their order, so that it does not depend on who took them.
  void total(size_t size, double* out) const {
    std::fill_n(out, size, 0.0);
    for (size_t n = 0; n < sums.size(); ++n) out[n % size] += sums[n];
  }
};

class OrdinalAscent {
 public:
  OrdinalAscent(nb::tuple users, nb::tuple items, Table P, Table Q, Table user_features, Table item_features,
                Array<const float, 1> base, Array<const float, 2> basis, Array<const int32_t, 1> ranks, int n_threads)
      : halves_{{users, P, user_features}, {items, Q, item_features}},
        stride_(P.shape(1)),
        base_(base.data(), base.data() + base.size()),
        basis_(basis.data(), basis.data() + basis.size()),
        ranks_(ranks.data(), ranks.data() + ranks.size()),
        slopes_(std::max(P.size(), Q.size())),
        crew_(n_threads) {
    const size_t S = base.size(), J = ranks.size();
    const OrdinalShape shape(base, basis, ranks);
    require(J < S, "there must be fewer basis functions than scores.");
    for (size_t j = 0; j < J; ++j)
      require(ranks(j) % 4 == 0 && (j < 2 || ranks(j) == 0),
              "ranks must be multiples of 4, and 0 but for the first two.");
    require(stride_ % 16 == 0 && stride_ >= static_cast<size_t>(shape.n_columns) && stride_ <= max_columns && Q.shape(1) == stride_,
            "rows must be padded with zeros to the same multiple of 16, at most 1024.");
    for (int w = 0; w < 2; ++w) {
      require_others(halves_[w].side, halves_[1 - w].side.n_rows);
      require_scores(halves_[w].side, static_cast<int64_t>(S));
    }
    require(static_cast<int64_t>(P.shape(0)) == halves_[0].side.n_rows && user_features.shape(0) == P.shape(0) &&
                static_cast<int64_t>(Q.shape(0)) == halves_[1].side.n_rows && item_features.shape(0) == Q.shape(0),
            "rows and features must be one per row of their side.");
    const int64_t floats = kernels().ordinal_slopes_scratch(slopes_of(0, nullptr));
    for (int t = 0; t < crew_.size(); ++t) scratch_.emplace_back(static_cast<size_t>(floats));
  }

  // Slopes of all rows of a side into out.
  double slopes(int which, Array<float, 2> out, Array<double, 1> squares) {
    Half& mine = half(which);
    require(out.shape(0) == static_cast<size_t>(mine.side.n_rows) && out.shape(1) == stride_,
            "out must be as rows are.");
    require(squares.size() == ranks_.size(), "squares must be one per basis function.");
    const size_t J = ranks_.size();
    OrdinalSlopes work = slopes_of(which, out.data());
    double* found = mine.sums_of(1 + J);
    std::vector<double> all(1 + J);
    {
      nb::gil_scoped_release release;
      crew_.run(mine.n_chunks(),
                [&](int64_t c, int thread) { slope_chunk(work, mine.side, c, thread, found + c * (1 + J)); });
    }
    mine.total(1 + J, all.data());
    std::copy_n(all.data() + 1, J, squares.data());
    return all[0];
  }

  // A step of all rows of a side; returns their log-likelihood (0 unless asked for) and price before it.
  std::pair<double, double> move(int which, Table weights, Table precision, Array<const float, 1> bend,
                                 Array<const float, 1> doubt, float length, float memory, bool is_asked,
                                 Array<double, 1> squares, Array<double, 2> moments) {
    Half& mine = half(which);
    const size_t J = ranks_.size(), size = 2 + J + 3 * stride_;
    require(weights.shape(0) == mine.n_features && weights.shape(1) == stride_ && precision.shape(0) == stride_ &&
                precision.shape(1) == stride_ && bend.size() == stride_ && doubt.size() == stride_,
            "weights must be (features, stride), precision square, bend and doubt one per column.");
    require(squares.size() == J && moments.shape(0) == 3 && moments.shape(1) == stride_,
            "squares must be one per basis function, moments (3, stride).");
    const OrdinalSlopes work = slopes_of(which, slopes_.data());
    OrdinalGlide glide = glide_of(mine);
    glide.weights = weights.data();
    glide.precision = precision.data();
    glide.bend = bend.data();
    glide.doubt = doubt.data();
    glide.length = length;
    glide.memory = memory;
    double* found = mine.sums_of(size);
    {
      nb::gil_scoped_release release;
      crew_.run(mine.n_chunks(), [&](int64_t c, int thread) {
        double* own = found + c * static_cast<int64_t>(size);
        slope_chunk(work, mine.side, c, thread, is_asked ? own : nullptr);
        OrdinalGlide step = glide;
        step.price = own + 1 + J;
        step.moments = own + 2 + J;
        kernels().ordinal_glide(step, mine.side.cuts[c], mine.side.cuts[c + 1]);
      });
    }
    std::vector<double> all(size);
    mine.total(size, all.data());
    std::copy_n(all.data() + 1, J, squares.data());
    std::copy_n(all.data() + 2 + J, 3 * stride_, moments.data());
    return {all[0], all[1 + J]};
  }

  // Products of features and numbers of a side's rows with their numbers, added up over rows.
  void sums(int which, Array<double, 2> out) {
    Half& mine = half(which);
    const size_t size = (mine.n_features + stride_) * stride_;
    require(out.shape(0) == mine.n_features + stride_ && out.shape(1) == stride_,
            "out must be (features + stride, stride).");
    const OrdinalGlide glide = glide_of(mine);
    double* found = mine.sums_of(size);
    {
      nb::gil_scoped_release release;
      crew_.run(mine.n_chunks(), [&](int64_t c, int) {
        kernels().ordinal_sums(glide, mine.side.cuts[c], mine.side.cuts[c + 1], found + c * static_cast<int64_t>(size));
      });
    }
    mine.total(size, out.data());
  }

  // Rows are kept to come back to, at rest.
  void keep() {
    for (Half& mine : halves_) mine.kept.take(mine.rows.data());
  }
  void go_back() {
    for (Half& mine : halves_) {
      mine.rows.take(mine.kept.data());
      mine.velocity.clear();
    }
  }

  void rows(int which, Array<float, 2> out) {
    Half& mine = half(which);
    require(out.shape(0) == static_cast<size_t>(mine.side.n_rows) && out.shape(1) == stride_,
            "out must be as rows are.");
    std::copy_n(mine.rows.data(), out.size(), out.data());
  }

 private:
  Half& half(int which) {
    require(which == 0 || which == 1, "which must be 0 for users or 1 for items.");
    return halves_[which];
  }

  OrdinalSlopes slopes_of(int which, float* out) {
    OrdinalSlopes work;
    const Side& side = halves_[which].side;
    work.indptr = side.indptr;
    work.other = side.other;
    work.score = side.score;
    work.rows = halves_[which].rows.data();
    work.others = halves_[1 - which].rows.data();
    work.stride = static_cast<int>(stride_);
    work.n_scores = static_cast<int>(base_.size());
    work.n_basis = static_cast<int>(ranks_.size());
    work.ranks = ranks_.data();
    work.base = base_.data();
    work.basis = basis_.data();
    work.is_far = static_cast<size_t>(halves_[1 - which].side.n_rows) * stride_ > near_floats;
    work.slopes = out;
    return work;
  }

  void slope_chunk(OrdinalSlopes work, const Side& side, int64_t c, int thread, double* found) {
    work.loglik = found;
    work.squares = found ? found + 1 : nullptr;
    kernels().ordinal_slopes(work, side.cuts[c], side.cuts[c + 1], scratch_[thread].data());
  }

  OrdinalGlide glide_of(Half& mine) {
    OrdinalGlide glide;
    glide.indptr = mine.side.indptr;
    glide.stride = static_cast<int>(stride_);
    glide.n_features = static_cast<int>(mine.n_features);
    glide.rows = mine.rows.data();
    glide.velocity = mine.velocity.data();
    glide.slopes = slopes_.data();
    glide.features = mine.features.data();
    return glide;
  }

  Half halves_[2];
  size_t stride_;
  std::vector<float> base_, basis_;
  std::vector<int32_t> ranks_;
  Lines slopes_;
  std::vector<Lines> scratch_;  // one per thread
  Crew crew_;
};

}  // namespace

void bind_ascent(nb::module_& m) {
  nb::class_<OrdinalAscent>(m, "OrdinalAscent")
      .def(nb::init<nb::tuple, nb::tuple, Table, Table, Table, Table, Array<const float, 1>, Array<const float, 2>,
                    Array<const int32_t, 1>, int>(),
           "users"_a, "items"_a, "P"_a.noconvert(), "Q"_a.noconvert(), "user_features"_a.noconvert(),
           "item_features"_a.noconvert(), "base"_a.noconvert(), "basis"_a.noconvert(), "ranks"_a.noconvert(),
           "n_threads"_a)
      .def("slopes", &OrdinalAscent::slopes, "which"_a, "out"_a.noconvert(), "squares"_a.noconvert())
      .def("move", &OrdinalAscent::move, "which"_a, "weights"_a.noconvert(), "precision"_a.noconvert(),
           "bend"_a.noconvert(), "doubt"_a.noconvert(), "length"_a, "memory"_a, "is_asked"_a, "squares"_a.noconvert(),
           "moments"_a.noconvert())
      .def("sums", &OrdinalAscent::sums, "which"_a, "out"_a.noconvert())
      .def("keep", &OrdinalAscent::keep)
      .def("go_back", &OrdinalAscent::go_back)
      .def("rows", &OrdinalAscent::rows, "which"_a, "out"_a.noconvert());
}

}  // namespace starcast
