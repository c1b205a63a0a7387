// The best n of each row under the paper's order, without sorting whole rows.
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "arrays.hpp"

namespace starcast {

// For each row: the columns with the largest `first`, then the largest `second`, then the lowest column; -1 where
// fewer than n columns are allowed. NaN never qualifies.
static auto top_n(Matrix<double> first, Matrix<double> second, Matrix<bool> allowed, size_t n) {
  const size_t rows = first.shape(0), columns = first.shape(1);
  if (second.shape(0) != rows || second.shape(1) != columns || allowed.shape(0) != rows || allowed.shape(1) != columns)
    throw std::invalid_argument("first, second and allowed differ in shape");
  if (columns > INT32_MAX) throw std::invalid_argument("there must be fewer than 2^31 columns");
  if (n > PTRDIFF_MAX / std::max<size_t>(1, rows * sizeof(int32_t)))
    throw std::invalid_argument("n must be no more than memory has");
  std::vector<int32_t> best(rows * n, -1);
  {
    nb::gil_scoped_release release;
    std::vector<int32_t> candidates;
    for (size_t row = 0; row < rows; ++row) {
      const double* a = first.data() + row * columns;
      const double* b = second.data() + row * columns;
      const bool* ok = allowed.data() + row * columns;
      candidates.clear();
      for (size_t c = 0; c < columns; ++c)
        if (ok[c] && !std::isnan(a[c]) && !std::isnan(b[c])) candidates.push_back(static_cast<int32_t>(c));
      const auto better = [&](int32_t x, int32_t y) {
        if (a[x] != a[y]) return a[x] > a[y];
        if (b[x] != b[y]) return b[x] > b[y];
        return x < y;
      };
      const size_t keep = std::min(n, candidates.size());
      std::partial_sort(candidates.begin(), candidates.begin() + keep, candidates.end(), better);
      std::copy_n(candidates.begin(), keep, best.begin() + row * n);
    }
  }
  return to_numpy(std::move(best), {rows, n});
}

void bind_top_n(nb::module_& m) {
  m.def("top_n", &top_n, nb::arg("first"), nb::arg("second"), nb::arg("allowed"), nb::arg("n"));
}

}  // namespace starcast
