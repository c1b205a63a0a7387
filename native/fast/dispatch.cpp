// Picks the kernels for this machine, once, when the module is imported.
#include <cstdlib>
#include <cstring>

#include "kernels.hpp"

namespace starcast {

namespace baseline {
extern const Kernels table;
}
#ifdef STARCAST_HAS_AVX2
namespace avx2 {
extern const Kernels table;
}
#endif
#ifdef STARCAST_HAS_AVX512
namespace avx512 {
extern const Kernels table;
}
#endif

namespace {

const Kernels& choose() {
  // STARCAST_ISA asks for a lower set than the best; a name that this machine cannot run is passed over, never obeyed.
  const char* wish = std::getenv("STARCAST_ISA");
  auto allowed = [wish](const char* name) { return !wish || !*wish || std::strcmp(wish, name) == 0; };
  (void)allowed;
#ifdef STARCAST_HAS_AVX512
  if (allowed("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return avx512::table;
#endif
#ifdef STARCAST_HAS_AVX2
  if ((allowed("avx2") || allowed("avx512")) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return avx2::table;
#endif
  return baseline::table;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace starcast
