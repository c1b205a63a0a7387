// NumPy arrays in and out of the native module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace starcast {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Hands a vector to NumPy without a copy: the array owns it from then on.
template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T>&& values, std::initializer_list<size_t> shape = {}) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  std::vector<size_t> dims(shape);
  if (dims.empty()) dims.push_back(owned->size());
  return nb::ndarray<nb::numpy, T>(owned->data(), dims.size(), dims.data(), owner);
}

}  // namespace starcast
