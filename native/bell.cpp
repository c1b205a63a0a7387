// A normal distribution cut into scores.
#include <stdexcept>

#include "answers.hpp"
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
    for (size_t row = 0; row < n; ++row)
      bell_row(values.data()[row], edges.data(), cuts, spread, probs.data() + row * (cuts + 1));
  }
  return to_numpy(std::move(probs), {n, cuts + 1});
}

void bind_bell(nb::module_& m) { m.def("bell", &bell, nb::arg("values"), nb::arg("edges"), nb::arg("spread")); }

}  // namespace starcast
