// The native module: everything that must be fast, one binding function a file.
#include <nanobind/nanobind.h>

namespace starcast {
void bind_answers(nanobind::module_& m);
void bind_bell(nanobind::module_& m);
void bind_coding(nanobind::module_& m);
void bind_fast(nanobind::module_& m);
void bind_strict(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_top_n(nanobind::module_& m);
}  // namespace starcast

NB_MODULE(_native, m) {
  m.attr("compiler") = STARCAST_COMPILER;
  m.attr("version") = STARCAST_VERSION;
  starcast::bind_answers(m);
  starcast::bind_bell(m);
  starcast::bind_coding(m);
  starcast::bind_text(m);
  starcast::bind_top_n(m);
  auto fast = m.def_submodule("fast", "Single precision, lanes over the scores.");
  starcast::bind_fast(fast);
  auto strict = m.def_submodule("strict", "Double precision, the published order of every sum.");
  starcast::bind_strict(strict);
}
