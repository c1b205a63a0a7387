// The native module: everything that must be fast, one binding function a file.
#include <nanobind/nanobind.h>

namespace starcast {
void bind_coding(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_top_n(nanobind::module_& m);
}  // namespace starcast

NB_MODULE(_native, m) {
  m.attr("compiler") = STARCAST_COMPILER;
  starcast::bind_coding(m);
  starcast::bind_text(m);
  starcast::bind_top_n(m);
}
