// A normal distribution cut into scores.
#include <cmath>
#include <stdexcept>

#include "arrays.hpp"

namespace starcast {

// The probability between two neighbouring edges, the outermost open: a row per value, a column more than there are
// edges.
static auto bell(Array<double> values, Array<double> edges, double spread) {
  const size_t n = values.shape(0), cuts = edges.shape(0);
  if (!(spread > 0)) throw std::invalid_argument("spread must be above zero");
  std::vector<double> probs(n * (cuts + 1));
  {
    nb::gil_scoped_release release;
    const double scale = 1 / (spread * std::sqrt(2.0));
    for (size_t row = 0; row < n; ++row) {
      double below = 0;
      double* out = probs.data() + row * (cuts + 1);
      for (size_t s = 0; s < cuts; ++s) {
        const double next = 0.5 * std::erfc((values.data()[row] - edges.data()[s]) * scale);
        out[s] = next - below;
        below = next;
      }
      out[cuts] = 1 - below;
    }
  }
  return to_numpy(std::move(probs), {n, cuts + 1});
}

void bind_bell(nb::module_& m) { m.def("bell", &bell, nb::arg("values"), nb::arg("edges"), nb::arg("spread")); }

}  // namespace starcast
