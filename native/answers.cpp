// Many distributions at once: calibrated, with their near ties settled, or normalized.
#include "answers.hpp"

#include <cstdint>
#include <stdexcept>

#include "arrays.hpp"
#include "fast/crew.hpp"

namespace starcast {

namespace {

using Rows = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename Move>
void each_row(Rows probs, int n_threads, const Move& move) {
  const int64_t n = static_cast<int64_t>(probs.shape(0)), size = 4096, n_chunks = (n + size - 1) / size;
  const size_t width = probs.shape(1);
  nb::gil_scoped_release release;
  Crew crew(n_threads, n_chunks);
  crew.run(n_chunks, [&](int64_t c, int) {
    for (int64_t row = c * size; row < std::min(n, (c + 1) * size); ++row) move(probs.data() + row * width);
  });
}

// All of these change the rows in place.
void recalibrate(Rows probs, Matrix<double> calibration, int n_threads) {
  const Calibration map{calibration.data(), calibration.shape(0), calibration.shape(1)};
  if (map.n_rows < Calibration::cuts || map.n_rows % 2 || map.n_scores != probs.shape(1) || map.n_scores == 0)
    throw std::invalid_argument(
        "a calibration must have an even number of rows, four or more, and a column per score.");
  each_row(probs, n_threads, [&](double* p) { map.move(p); });
}

void settle_ties(Rows probs, Array<double> place, double centering, int n_threads) {
  const size_t S = place.shape(0);
  if (S != probs.shape(1) || S == 0) throw std::invalid_argument("probs must have a column per score.");
  each_row(probs, n_threads, [&](double* p) { settle_row(p, place.data(), S, centering); });
}

void normalize(Rows probs, int n_threads) {
  const size_t S = probs.shape(1);
  each_row(probs, n_threads, [&](double* p) { normalize_row(p, S); });
}

}  // namespace

void bind_answers(nb::module_& m) {
  m.def("recalibrate", &recalibrate, nb::arg("probs").noconvert(), nb::arg("calibration"), nb::arg("n_threads") = 1);
  m.def("settle_ties", &settle_ties, nb::arg("probs").noconvert(), nb::arg("place"), nb::arg("centering"),
        nb::arg("n_threads") = 1);
  m.def("normalize", &normalize, nb::arg("probs").noconvert(), nb::arg("n_threads") = 1);
}

}  // namespace starcast
