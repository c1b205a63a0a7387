// What the bindings of the kernels share: arrays taken as they are, and the ratings of a side.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "rounds.hpp"

namespace nb = nanobind;

namespace starcast {

template <typename T, int N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

inline void require_planes(int n_factors, bool biased) {
  require(n_factors >= 0 && n_factors + int64_t{biased} >= 1, "there must be factors or biases.");
  require(n_factors + int64_t{biased} <= max_planes, "there must be at most 2^20 factors.");
}

// A row of a table. Tables may have more than 2^31 numbers, so the product is taken in 64 bits.
template <typename T>
T* row_of(T* rows, int64_t row, int64_t width) {
  return rows + row * width;
}

inline Side side_of(const nb::tuple& parts) {
  Array<const int64_t, 1> indptr;
  Array<const int32_t, 1> other;
  Array<const int8_t, 1> score;
  require(parts.size() == 3 && nb::try_cast(parts[0], indptr, false) && nb::try_cast(parts[1], other, false) &&
              nb::try_cast(parts[2], score, false),
          "a side must be (indptr, other, score), contiguous arrays of int64, int32 and int8.");
  require(indptr.shape(0) >= 1 && indptr(0) == 0, "indptr must begin with 0.");
  const int64_t n_rows = static_cast<int64_t>(indptr.shape(0)) - 1, n = indptr(n_rows);
  require(static_cast<int64_t>(other.shape(0)) == n && static_cast<int64_t>(score.shape(0)) == n,
          "indptr must end with the number of ratings.");
  bool is_ascending = true;
  for (int64_t row = 0; row < n_rows; ++row) is_ascending &= indptr(row) <= indptr(row + 1);
  require(is_ascending, "indptr must not fall.");
  return Side(indptr.data(), other.data(), score.data(), n_rows);
}

// Whether codes lie within a table. No branch in the loop: it is taken for every rating before every pass.
template <typename Code>
bool are_codes(const Code* codes, int64_t n, int64_t limit) {
  bool are = true;
  for (int64_t k = 0; k < n; ++k) are &= codes[k] >= 0 && codes[k] < limit;
  return are;
}

inline void require_others(const Side& side, int64_t n_others) {
  require(are_codes(side.other, side.indptr[side.n_rows], n_others), "a side must point at rows of the other.");
}

inline void require_scores(const Side& side, int64_t n_scores) {
  require(are_codes(side.score, side.indptr[side.n_rows], n_scores), "scores must lie on the scale.");
}

// The same of some rows: many ask about a few rows each of the same side.
inline void require_ratings(const Side& side, const std::vector<int64_t>& which, int64_t n_others, int64_t n_scores) {
  for (const int64_t row : which) {
    const int64_t begin = side.indptr[row], n = side.indptr[row + 1] - begin;
    require(are_codes(side.other + begin, n, n_others) && are_codes(side.score + begin, n, n_scores),
            "a side must point at rows of the other and at scores.");
  }
}

// The rows of a side that are asked about: those of `some`, or as many as there are, counted from `first` on.
inline std::vector<int64_t> rows_asked(const Side& side, int64_t n_asked, int64_t first,
                                       const std::optional<Array<const int64_t, 1>>& some) {
  std::vector<int64_t> which(n_asked);
  require(!some || static_cast<int64_t>(some->shape(0)) == n_asked, "some must be one per row.");
  const char* const what = "rows that are asked about must be rows of the side.";
  require(first >= 0 && first <= side.n_rows, what);
  for (int64_t k = 0; k < n_asked; ++k) {
    const int64_t row = some ? (*some)(k) : k;
    require(row >= 0 && row < side.n_rows - first, what);
    which[k] = first + row;
  }
  return which;
}

inline void require_pairs(const Array<const int32_t, 1>& user, const Array<const int32_t, 1>& item, size_t n_users,
                          size_t n_items) {
  const int64_t n = static_cast<int64_t>(user.shape(0));
  require(item.shape(0) == user.shape(0), "user and item must have the same length.");
  require(are_codes(user.data(), n, static_cast<int64_t>(n_users)) &&
              are_codes(item.data(), n, static_cast<int64_t>(n_items)),
          "user and item must point at rows of P and Q.");
}

// Ranks, columns and scores of the ordinal model must fit each other before a kernel walks them.
struct OrdinalShape {
  int n_scores = 0, n_basis = 0, n_columns = 0;

  OrdinalShape(const Array<const float, 1>& base, const Array<const float, 2>& basis,
               const Array<const int32_t, 1>& ranks) {
    const size_t S = base.shape(0), J = basis.shape(0);
    require(S >= 2 && S <= max_scores, "there must be between 2 and 64 scores.");
    require(J >= 1 && J <= S, "there must be between 1 basis function and as many as scores.");
    require(basis.shape(1) == S, "basis must have a column per score.");
    require(ranks.shape(0) == J, "ranks must be one per basis function.");
    int64_t columns = static_cast<int64_t>(J);
    for (size_t j = 0; j < J; ++j) {
      require(ranks(j) >= 0, "ranks must be zero or more.");
      columns += ranks(j);
    }
    require(columns <= max_planes, "there must be at most 2^20 factors.");
    n_scores = static_cast<int>(S);
    n_basis = static_cast<int>(J);
    n_columns = static_cast<int>(columns);
  }
};

}  // namespace starcast
