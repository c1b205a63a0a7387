// The best items of many users: tiles of sixteen items, a running selection per user, never a whole row of answers.
// Every user's list is chosen under one total order (mode, mean, place of the item), so that it depends neither on the
// threads nor on how the items are cut among them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <tuple>

#include "../answers.hpp"
#include "bind_side.hpp"
#include "crew.hpp"

using namespace nb::literals;

namespace starcast {

namespace {

using Rows = Array<const float, 2>;

struct Entry {
  int32_t item, mode;  // mode: the place of the score
  double mean, reliability;
  double value;                               // of models that predict a number
  bool operator<(const Entry& other) const {  // comes before
    if (mode != other.mode) return mode > other.mode;
    if (mean != other.mean) return mean > other.mean;
    return item < other.item;
  }
};

// The n best so far; the last of them is on top of the heap.
struct List {
  size_t n = 0;
  std::vector<Entry> heap;
  bool is_full() const { return heap.size() == n; }
  const Entry& last() const { return heap.front(); }
  void offer(const Entry& entry) {
    if (std::isnan(entry.mean)) return;
    if (is_full()) {
      if (!(entry < last())) return;
      std::pop_heap(heap.begin(), heap.end());
      heap.back() = entry;
    } else heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end());
  }
};

// What a model says of a tile of items, first roughly and then to the last bit.
struct Source {
  int64_t n_users = 0, n_items = 0;
  int at_once = 1;         // users for whom a tile is worth keeping near, at most 64
  int64_t least_work = 1;  // tiles that are worth a thread of their own
  virtual ~Source() = default;
  virtual void fill(const int32_t* users, int n, int64_t tile, const uint32_t* wanted, float* out) const = 0;
  // How far the rough value of an item may be off, for a user.
  virtual double noise(int32_t) const { return 0; }
  virtual uint32_t pass(const Sieve& sieve, const List&, int32_t, double, int64_t, const float* probs) const {
    return kernels().sieve(sieve, probs);
  }
  // Returns the value where there is one.
  virtual double answer(int32_t user, int32_t item, const float* probs, double* out) const = 0;
};

using Columns = std::tuple<nb::object, nb::object, nb::object, nb::object, nb::object, nb::object>;

template <typename T>
nb::object to_array(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

// The question: whose lists, of which items, how long and how reliable.
class Ranking {
 public:
  Ranking(Array<const int32_t, 1> user, Array<const bool, 1> wanted, std::optional<Array<const int64_t, 1>> seen_start,
          std::optional<Array<const int32_t, 1>> seen_items, size_t n, double threshold, bool by_error,
          Array<const double, 1> scores, std::optional<Array<const double, 2>> calibration, double centering,
          int n_threads)
      : user_(user),
        wanted_(wanted),
        seen_start_(seen_start),
        seen_items_(seen_items),
        scores_(scores),
        calibration_array_(calibration),
        n_(n),
        threshold_(threshold),
        by_error_(by_error),
        centering_(centering),
        n_threads_(n_threads) {
    const size_t S = scores.shape(0);
    require(S >= 2, "there must be at least 2 scores.");
    require(n >= 1, "n must be at least 1.");
    require(n_threads >= 1, "n_threads must be one or more.");
    if (calibration) {
      require(
          calibration->shape(1) == S && calibration->shape(0) >= Calibration::cuts && calibration->shape(0) % 2 == 0,
          "a calibration must have an even number of rows, four or more, and a column per score.");
      calibration_ = {calibration->data(), calibration->shape(0), S};
    }
    require(seen_start.has_value() == seen_items.has_value(), "seen_start and seen_items come together.");
    const double low = scores(0), range = scores(S - 1) - low;
    double largest = 0;
    for (size_t s = 0; s < S; ++s) {
      values_.push_back(static_cast<float>(scores(s)));
      place_.push_back(2 * (scores(s) - low) / range - 1);
      rough_place_.push_back(static_cast<float>(place_.back()));
      largest = std::max(largest, std::abs(scores(s)));
    }
    hair_ = 1e-5 * static_cast<double>(4 + S) * largest;
  }

  size_t n_scores() const { return values_.size(); }
  void check_kernels() const { require(n_scores() <= max_scores, "there must be at most 64 scores."); }
  const Array<const double, 1>& scores() const { return scores_; }
  bool is_plain() const { return !calibration_.rows; }  // the rough answers tell the order

  // user, rank, item, prediction, mean, reliability
  Columns run(const Source& source) const {
    check(source);
    const int64_t n_users = static_cast<int64_t>(user_.shape(0)),
                  n_tiles = (source.n_items + tile_items - 1) / tile_items;
    const int64_t at_once = source.at_once, n_blocks = (n_users + at_once - 1) / at_once;
    const int64_t work = std::max<int64_t>(1, n_users * n_tiles / source.least_work);
    const int64_t n_threads = std::min<int64_t>(n_threads_, work);
    // Too few users for all threads: the items are cut, too.
    const int64_t n_parts = n_blocks >= 2 * n_threads || n_blocks == 0 ? 1 : std::min(n_tiles, n_threads);
    std::vector<List> lists(static_cast<size_t>(n_users * std::max<int64_t>(1, n_parts)));
    {
      nb::gil_scoped_release release;
      const std::vector<uint16_t> allowed = allowed_items(n_tiles);
      Crew crew(static_cast<int>(n_threads), n_blocks * n_parts);
      crew.run(n_blocks * n_parts, [&](int64_t c, int) {
        const int64_t block = c / n_parts, part = c % n_parts, begin = block * at_once;
        const int many = static_cast<int>(std::min(at_once, n_users - begin));
        choose(source, allowed, begin, many, n_tiles * part / n_parts, n_tiles * (part + 1) / n_parts,
               lists.data() + part * n_users + begin);
      });
      for (int64_t u = 0; u < n_users; ++u) {
        List& whole = lists[u];
        for (int64_t part = 1; part < n_parts; ++part)
          for (const Entry& entry : lists[part * n_users + u].heap) whole.offer(entry);
        std::sort_heap(whole.heap.begin(), whole.heap.end());
      }
    }
    return columns(lists, n_users);
  }

 private:
  void check(const Source& source) const {
    require(source.n_items <= INT32_MAX, "there must be fewer than 2^31 items.");
    require(static_cast<int64_t>(wanted_.shape(0)) == source.n_items, "wanted must be one per item.");
    for (size_t u = 0; u < user_.shape(0); ++u)
      require(user_(u) >= 0 && user_(u) < source.n_users, "users must have rows.");
    if (!seen_start_) return;
    require(static_cast<int64_t>(seen_start_->shape(0)) == source.n_users + 1,
            "seen_start must be one per user, and one.");
    const int64_t n_seen = static_cast<int64_t>(seen_items_->shape(0));
    for (size_t n = 0; n < user_.shape(0); ++n) {
      const int64_t begin = (*seen_start_)(user_(n)), end = (*seen_start_)(user_(n) + 1);
      require(0 <= begin && begin <= end && end <= n_seen, "seen_start must ascend within seen_items.");
      for (int64_t at = begin; at < end; ++at)
        require((*seen_items_)(at) >= 0 && (*seen_items_)(at) < source.n_items, "seen items must have rows.");
    }
  }

  std::vector<uint16_t> allowed_items(int64_t n_tiles) const {
    std::vector<uint16_t> allowed(n_tiles);
    for (size_t i = 0; i < wanted_.shape(0); ++i)
      allowed[i / tile_items] |= static_cast<uint16_t>(wanted_(i) << (i % tile_items));
    return allowed;
  }

  // The lists of a block of users over some of the tiles.
  void choose(const Source& source, const std::vector<uint16_t>& allowed, int64_t begin, int many, int64_t first_tile,
              int64_t last_tile, List* lists) const {
    const size_t S = n_scores(), n_tiles = static_cast<size_t>(last_tile - first_tile);
    std::vector<float> probs(S * tile_items * many);
    std::vector<uint16_t> open(n_tiles * many);
    std::vector<uint32_t> wanted(many);
    std::vector<Sieve> sieves(many, sieve_of());
    std::vector<double> noise(many), answer(S);
    for (int u = 0; u < many; ++u) {
      lists[u].n = n_;
      noise[u] = source.noise(user_(begin + u));
      uint16_t* mine = open.data() + u * n_tiles;
      std::copy_n(allowed.data() + first_tile, n_tiles, mine);
      if (!seen_start_) continue;
      const int64_t whom = user_(begin + u);
      for (int64_t at = (*seen_start_)(whom); at < (*seen_start_)(whom + 1); ++at) {
        const int64_t i = (*seen_items_)(at), tile = i / tile_items - first_tile;
        if (tile >= 0 && tile < static_cast<int64_t>(n_tiles))
          mine[tile] &= static_cast<uint16_t>(~(1u << i % tile_items));
      }
    }
    for (int64_t tile = first_tile; tile < last_tile; ++tile) {
      uint32_t any = 0;
      for (int u = 0; u < many; ++u) any |= wanted[u] = open[u * n_tiles + (tile - first_tile)];
      if (!any) continue;
      source.fill(user_.data() + begin, many, tile, wanted.data(), probs.data());
      for (int u = 0; u < many; ++u) {
        if (!wanted[u]) continue;
        const float* said = probs.data() + u * S * tile_items;
        const int32_t whom = user_(begin + u);
        uint32_t left = wanted[u];
        if (is_plain()) left &= source.pass(sieves[u], lists[u], whom, noise[u], tile, said);
        for (; left; left &= left - 1) {
          const int lane = __builtin_ctz(left);
          const bool changed = consider(source, whom, static_cast<int32_t>(tile * tile_items + lane), said + lane,
                                        answer.data(), lists[u]);
          if (changed && lists[u].is_full()) raise(sieves[u], lists[u].last());
        }
      }
    }
  }

  Sieve sieve_of() const {
    Sieve sieve;
    sieve.n_scores = static_cast<int>(n_scores());
    sieve.values = values_.data();
    sieve.place = rough_place_.data();
    sieve.centering = static_cast<float>(centering_);
    if (!by_error_) sieve.reliability = static_cast<float>(threshold_ - 2e-5);
    return sieve;
  }

  void raise(Sieve& sieve, const Entry& last) const {
    sieve.mode = static_cast<float>(last.mode);
    sieve.mean = static_cast<float>(last.mean - hair_);
  }

  // p: room for a distribution.
  bool consider(const Source& source, int32_t whom, int32_t item, const float* said, double* p, List& list) const {
    const size_t S = n_scores();
    Entry entry;
    entry.item = item;
    entry.value = source.answer(whom, item, said, p);
    if (calibration_.rows) {
      normalize_row(p, S);  // it was learnt from answers that add up
      calibration_.move(p);
    }
    if (centering_ > 0) settle_row(p, place_.data(), S, centering_);
    normalize_row(p, S);
    entry.mode = static_cast<int32_t>(std::max_element(p, p + S) - p);
    entry.reliability = by_error_ ? expected_accuracy(p, scores_.data(), S) : p[entry.mode];
    if (!(entry.reliability >= threshold_)) return false;
    entry.mean = mean_of(p, scores_.data(), S);
    list.offer(entry);
    return true;
  }

  Columns columns(const std::vector<List>& lists, int64_t n_users) const {
    size_t total = 0;
    for (int64_t u = 0; u < n_users; ++u) total += lists[u].heap.size();
    std::vector<int32_t> users, items;
    std::vector<int64_t> ranks;
    std::vector<double> predictions, means, reliabilities;
    users.reserve(total), items.reserve(total), ranks.reserve(total);
    predictions.reserve(total), means.reserve(total), reliabilities.reserve(total);
    for (int64_t u = 0; u < n_users; ++u) {
      int64_t rank = 0;
      for (const Entry& entry : lists[u].heap) {
        users.push_back(user_(u));
        ranks.push_back(++rank);
        items.push_back(entry.item);
        predictions.push_back(scores_(entry.mode));
        means.push_back(entry.mean);
        reliabilities.push_back(entry.reliability);
      }
    }
    return {to_array(std::move(users)),       to_array(std::move(ranks)), to_array(std::move(items)),
            to_array(std::move(predictions)), to_array(std::move(means)), to_array(std::move(reliabilities))};
  }

  Array<const int32_t, 1> user_;
  Array<const bool, 1> wanted_;
  std::optional<Array<const int64_t, 1>> seen_start_;
  std::optional<Array<const int32_t, 1>> seen_items_;
  Array<const double, 1> scores_;
  std::optional<Array<const double, 2>> calibration_array_;  // kept alive
  Calibration calibration_;
  size_t n_;
  double threshold_;
  bool by_error_;
  double centering_, hair_ = 0;
  int n_threads_;
  std::vector<float> values_, rough_place_;
  std::vector<double> place_;
};

// A vector per score: ResBeMF, BeMF, DirMF.
struct ScoreSource : Source {
  Question ask;
  int64_t stride;
  void fill(const int32_t* users, int n, int64_t tile, const uint32_t*, float* out) const override {
    const float* rows[64];
    for (int u = 0; u < n; ++u) rows[u] = row_of(ask.P, users[u], stride);
    kernels().tile_of_scores(ask, rows, n, tile, out);
  }
  double answer(int32_t, int32_t, const float* probs, double* out) const override {
    for (int s = 0; s < ask.n_scores; ++s) out[s] = static_cast<double>(probs[s * tile_items]);
    return 0;
  }
};

Columns rank_scores(const Ranking& ranking, Rows P, Array<const float, 4> tiles, int64_t n_items,
                    Array<const float, 1> base, int n_factors, bool biased, const std::string& link) {
  ranking.check_kernels();
  ScoreSource source;
  Question& ask = source.ask;
  ask.n_scores = static_cast<int>(ranking.n_scores());
  ask.n_factors = n_factors;
  ask.biased = biased;
  ask.link = link == "softmax" ? Link::softmax : Link::logistic;
  require_planes(n_factors, biased);
  source.stride = RowLayout(ask.n_scores).stride(n_factors + biased);
  require(link == "softmax" || link == "logistic", "link must be 'softmax' or 'logistic'.");
  require(static_cast<int>(base.shape(0)) == ask.n_scores, "base must be one per score.");
  require(static_cast<int64_t>(P.shape(1)) == source.stride, "P must come from allocate_rows.");
  require(static_cast<int64_t>(tiles.shape(0)) * tile_items >= n_items && n_items >= 0 &&
              static_cast<int>(tiles.shape(1)) == n_factors + biased &&
              static_cast<int>(tiles.shape(2)) == ask.n_scores && tiles.shape(3) == tile_items,
          "tiles must come from make_tiles.");
  ask.P = P.data();
  ask.Q = tiles.data();
  ask.base = base.data();
  source.n_users = static_cast<int64_t>(P.shape(0));
  source.n_items = n_items;
  source.at_once = 4;
  source.least_work = ranking.is_plain() ? 1024 : 64;
  return ranking.run(source);
}

// Draws: OrdinalMF.
struct DrawSource : Source {
  OrdinalQuestion ask;
  float share;          // of the draws in an answer
  const double* floor;  // [n_scores] the rest
  void fill(const int32_t* users, int n, int64_t tile, const uint32_t* wanted, float* out) const override {
    const int64_t width = static_cast<int64_t>(ask.n_columns) * ask.n_draws;
    const float* rows[64];
    for (int u = 0; u < n; ++u) rows[u] = row_of(ask.P, users[u], width);
    kernels().tile_of_draws(ask, rows, n, tile, wanted, out);
  }
  double answer(int32_t, int32_t, const float* probs, double* out) const override {
    for (int s = 0; s < ask.n_scores; ++s) {
      const float mine = share * probs[s * tile_items];
      out[s] = static_cast<double>(mine) + floor[s];
    }
    return 0;
  }
};

Columns rank_draws(const Ranking& ranking, Array<const float, 3> P, Array<const float, 3> Q, Array<const float, 1> base,
                   Rows basis, Array<const int32_t, 1> ranks, Array<const float, 1> weights, float share,
                   Array<const double, 1> floor) {
  ranking.check_kernels();
  DrawSource source;
  OrdinalQuestion& ask = source.ask;
  const OrdinalShape shape(base, basis, ranks);
  ask.n_scores = shape.n_scores;
  ask.n_basis = shape.n_basis;
  ask.n_columns = shape.n_columns;
  ask.n_draws = static_cast<int64_t>(P.shape(2));
  require(base.shape(0) == ranking.n_scores() && floor.shape(0) == ranking.n_scores(),
          "base, basis and floor must have a column per score.");
  const size_t n_columns = static_cast<size_t>(shape.n_columns);
  require(P.shape(1) == n_columns && Q.shape(1) == n_columns, "rows must have all columns.");
  require(ask.n_draws % 16 == 0 && static_cast<int64_t>(Q.shape(2)) == ask.n_draws &&
              static_cast<int64_t>(weights.shape(0)) == ask.n_draws,
          "draws must be padded to a multiple of 16, with a weight each.");
  ask.P = P.data();
  ask.Q = Q.data();
  ask.base = base.data();
  ask.basis = basis.data();
  ask.ranks = ranks.data();
  ask.weights = weights.data();
  source.share = share;
  source.floor = floor.data();
  source.n_users = static_cast<int64_t>(P.shape(0));
  source.n_items = static_cast<int64_t>(Q.shape(0));
  source.at_once = 64;
  source.least_work = 48;
  return ranking.run(source);
}

// A number and a bell around it: PMF, BiasedMF. F: the type of the factors.
template <typename F>
struct ValueSource : Source {
  const F *P, *Q;
  const float *rough, *tiles, *reach;  // P once more; Q in tiles; the largest number of each column of Q
  int n_columns;
  bool biased;
  double mean, spread;  // a spread of 0 is certainty
  const double *edges, *floor;
  double share;
  size_t n_scores;

  void fill(const int32_t*, int, int64_t, const uint32_t*, float*) const override {}

  double noise(int32_t user) const override {
    const float* p = row_of(rough, user, n_columns);
    double size = std::abs(mean);
    for (int k = 0; k < n_columns; ++k) {
      const double a = std::abs(static_cast<double>(p[k])), b = static_cast<double>(reach[k]);
      size += biased && k == 0 ? a + b : a * b;
    }
    return 1e-6 * (n_columns + 4) * size;
  }

  // Mode and mean never fall while the value rises, so whoever lies below the last entry's value cannot pass it. Where
  // the bell is all but flat, beyond the ends of the scale, two means might be told apart by rounding alone: everyone
  // is looked at there.
  uint32_t pass(const Sieve&, const List& list, int32_t user, double noise, int64_t tile, const float*) const override {
    if (!list.is_full()) return 0xffffu;
    double limit = list.last().value;
    if (spread > 0) {
      if (!(limit >= edges[0] - 5 * spread)) return 0xffffu;
      limit = std::min(limit, edges[n_scores - 2] + 5 * spread);
    }
    const float least = static_cast<float>(limit - 1e-3 * spread - noise);
    return kernels().tile_of_values(row_of(rough, user, n_columns), tiles, n_columns, biased, static_cast<float>(mean),
                                    tile, least);
  }

  double answer(int32_t user, int32_t item, const float*, double* out) const override {
    const double value =
        point_value(row_of(P, user, n_columns), row_of(Q, item, n_columns), n_columns, biased, mean);
    if (spread > 0) {
      bell_row(value, edges, n_scores - 1, spread, out);
      for (size_t s = 0; s < n_scores; ++s) out[s] = share * out[s] + floor[s];
    } else {
      std::fill_n(out, n_scores, 0.0);
      out[std::lower_bound(edges, edges + n_scores - 1, value) - edges] = 1;
    }
    return value;
  }
};

template <typename F>
Columns rank_values(const Ranking& ranking, Array<const F, 2> P, Array<const F, 2> Q, Rows rough,
                    Array<const float, 3> tiles, Array<const float, 1> reach, bool biased, double mean, double spread,
                    Array<const double, 1> edges, double share, Array<const double, 1> floor) {
  ValueSource<F> source;
  const size_t columns = P.shape(1), n_items = Q.shape(0);
  require(columns >= 1 && columns <= max_planes && Q.shape(1) == columns && rough.shape(1) == columns &&
              reach.shape(0) == columns && rough.shape(0) == P.shape(0),
          "all rows must have as many columns, at most 2^20.");
  require(tiles.shape(0) * tile_items >= n_items && tiles.shape(1) == columns && tiles.shape(2) == tile_items,
          "tiles must come from make_tiles.");
  require(edges.shape(0) + 1 == ranking.n_scores() && floor.shape(0) == ranking.n_scores(),
          "edges must lie between the scores, and floor have a column per score.");
  source.P = P.data();
  source.Q = Q.data();
  source.rough = rough.data();
  source.tiles = tiles.data();
  source.reach = reach.data();
  source.n_columns = static_cast<int>(columns);
  source.biased = biased;
  source.mean = mean;
  source.spread = spread;
  source.edges = edges.data();
  source.floor = floor.data();
  source.share = share;
  source.n_scores = ranking.n_scores();
  source.n_users = static_cast<int64_t>(P.shape(0));
  source.n_items = static_cast<int64_t>(n_items);
  source.at_once = 16;
  source.least_work = ranking.is_plain() ? 1024 : 64;
  return ranking.run(source);
}

// The predicted numbers of pairs.
template <typename F>
void point_values(Array<const int32_t, 1> user, Array<const int32_t, 1> item, Array<const F, 2> P, Array<const F, 2> Q,
                  bool biased, double mean, Array<double, 1> out, int n_threads) {
  const int64_t n = static_cast<int64_t>(user.shape(0)), size = 8192, n_chunks = (n + size - 1) / size;
  const int columns = static_cast<int>(P.shape(1));
  require(Q.shape(1) == P.shape(1) && out.shape(0) == user.shape(0), "pairs and rows must agree.");
  require(P.shape(1) >= biased && P.shape(1) <= max_planes, "there must be a bias, if any, and at most 2^20 factors.");
  require_pairs(user, item, P.shape(0), Q.shape(0));
  nb::gil_scoped_release release;
  Crew crew(n_threads, n_chunks);
  crew.run(n_chunks, [&](int64_t c, int) {
    for (int64_t r = c * size; r < std::min(n, (c + 1) * size); ++r)
      out.data()[r] =
          point_value(row_of(P.data(), user(r), columns), row_of(Q.data(), item(r), columns), columns, biased, mean);
  });
}

// (rows, …) -> (tiles, …, 16): sixteen rows side by side, zeros beyond the last, from the start of a cache line.
nb::object make_tiles(nb::ndarray<const float, nb::c_contig, nb::device::cpu> rows) {
  require(rows.ndim() >= 2, "rows must have columns.");
  const size_t n = rows.shape(0), n_tiles = (n + tile_items - 1) / tile_items;
  std::vector<size_t> shape{n_tiles};
  size_t columns = 1;
  for (size_t axis = 1; axis < rows.ndim(); ++axis) {
    shape.push_back(rows.shape(axis));
    columns *= rows.shape(axis);
  }
  shape.push_back(tile_items);
  const size_t floats = std::max<size_t>(1, n_tiles * columns * tile_items);
  float* data = static_cast<float*>(::operator new(floats * sizeof(float), std::align_val_t(64)));
  nb::capsule owner(data, [](void* p) noexcept { ::operator delete(p, std::align_val_t(64)); });
  std::memset(data, 0, floats * sizeof(float));
  for (size_t row = 0; row < n; ++row)
    for (size_t c = 0; c < columns; ++c)
      data[(row / tile_items * columns + c) * tile_items + row % tile_items] = rows.data()[row * columns + c];
  return nb::cast(nb::ndarray<nb::numpy, float>(data, shape.size(), shape.data(), owner));
}

}  // namespace

void bind_top(nb::module_& m) {
  nb::class_<Ranking>(m, "Ranking")
      .def(nb::init<Array<const int32_t, 1>, Array<const bool, 1>, std::optional<Array<const int64_t, 1>>,
                    std::optional<Array<const int32_t, 1>>, size_t, double, bool, Array<const double, 1>,
                    std::optional<Array<const double, 2>>, double, int>(),
           "user"_a, "wanted"_a, "seen_start"_a.none(), "seen_items"_a.none(), "n"_a, "threshold"_a, "by_error"_a,
           "scores"_a, "calibration"_a.none(), "centering"_a, "n_threads"_a)
      .def("by_scores", &rank_scores, "P"_a.noconvert(), "tiles"_a.noconvert(), "n_items"_a, "base"_a.noconvert(),
           "n_factors"_a, "biased"_a, "link"_a)
      .def("by_draws", &rank_draws, "P"_a.noconvert(), "Q"_a.noconvert(), "base"_a.noconvert(), "basis"_a.noconvert(),
           "ranks"_a.noconvert(), "weights"_a.noconvert(), "share"_a, "floor"_a.noconvert())
      .def("by_values", &rank_values<float>, "P"_a.noconvert(), "Q"_a.noconvert(), "rough"_a.noconvert(),
           "tiles"_a.noconvert(), "reach"_a.noconvert(), "biased"_a, "mean"_a, "spread"_a, "edges"_a.noconvert(),
           "share"_a, "floor"_a.noconvert())
      .def("by_values", &rank_values<double>, "P"_a.noconvert(), "Q"_a.noconvert(), "rough"_a.noconvert(),
           "tiles"_a.noconvert(), "reach"_a.noconvert(), "biased"_a, "mean"_a, "spread"_a, "edges"_a.noconvert(),
           "share"_a, "floor"_a.noconvert());
  m.def("make_tiles", &make_tiles, "rows"_a.noconvert());
  m.def("point_values", &point_values<float>, "user"_a.noconvert(), "item"_a.noconvert(), "P"_a.noconvert(),
        "Q"_a.noconvert(), "biased"_a, "mean"_a, "out"_a.noconvert(), "n_threads"_a = 1);
  m.def("point_values", &point_values<double>, "user"_a.noconvert(), "item"_a.noconvert(), "P"_a.noconvert(),
        "Q"_a.noconvert(), "biased"_a, "mean"_a, "out"_a.noconvert(), "n_threads"_a = 1);
}

}  // namespace starcast
