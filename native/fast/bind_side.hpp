// What the bindings of the kernels share: arrays taken as they are, and the ratings of a side.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "rounds.hpp"

namespace nb = nanobind;

namespace starcast {

template <typename T, int N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

inline Side side_of(const nb::tuple& parts) {
  require(parts.size() == 3, "a side must be (indptr, other, score).");
  const auto indptr = nb::cast<Array<const int64_t, 1>>(parts[0], false);
  const auto other = nb::cast<Array<const int32_t, 1>>(parts[1], false);
  const auto score = nb::cast<Array<const int8_t, 1>>(parts[2], false);
  require(indptr.shape(0) >= 1 && indptr(0) == 0, "indptr must begin with 0.");
  const int64_t n = indptr(indptr.shape(0) - 1);
  require(static_cast<int64_t>(other.shape(0)) == n && static_cast<int64_t>(score.shape(0)) == n,
          "indptr must end with the number of ratings.");
  return Side(indptr.data(), other.data(), score.data(), static_cast<int64_t>(indptr.shape(0)) - 1);
}

}  // namespace starcast
