// The step of the ordinal model's gradient rounds: a heavy ball, drawn towards what the prior expects of each row.
#pragma once

#include "kernels.hpp"
#include "triangles.hpp"

namespace starcast::STARCAST_ISA_NS {

// Z: sixteens in a row; 0: any number.
template <int Z>
void glide_by_width(const OrdinalGlide& p, int64_t first, int64_t last) {
  constexpr int most = Z ? Z : (max_columns + 15) / 16;
  const int n = Z ? Z : p.stride / 16;
  Sixteen squares[most], known[most], spread[most];
  alignas(64) float away[16 * most], diagonal[16 * most];
  for (int z = 0; z < n; ++z) squares[z] = known[z] = spread[z] = Sixteen::all(0.0f);
  for (int d = 0; d < p.stride; ++d) diagonal[d] = p.precision[int64_t{d} * p.stride + d];
  double price = 0;
  for (int64_t row = first; row < last; ++row) {
    float *x = p.rows + row * p.stride, *v = p.velocity + row * p.stride;
    const float *slope = p.slopes + row * p.stride, *f = p.features + row * p.n_features;
    const float count = static_cast<float>(p.indptr[row + 1] - p.indptr[row]);
    Sixteen cost = Sixteen::all(0.0f), pull[most];
    for (int z = 0; z < n; ++z) {
      Sixteen mean = Sixteen::all(0.0f);
      for (int k = 0; k < p.n_features; ++k)
        mean = fma(Sixteen::load(p.weights + int64_t{k} * p.stride + 16 * z), Sixteen::all(f[k]), mean);
      (Sixteen::load(x + 16 * z) - mean).store(away + 16 * z);
      pull[z] = Sixteen::all(0.0f);
    }
    for (int d = 0; d < p.stride; ++d)
      for (int z = 0; z < n; ++z)
        pull[z] = fma(Sixteen::load(p.precision + int64_t{d} * p.stride + 16 * z), Sixteen::all(away[d]), pull[z]);
    for (int z = 0; z < n; ++z) {
      const Sixteen old = Sixteen::load(x + 16 * z), doubt = Sixteen::load(p.doubt + 16 * z) * count * old;
      cost = fma(Sixteen::load(away + 16 * z), pull[z], fma(doubt, old, cost));
      const Sixteen h = fma(Sixteen::load(p.bend + 16 * z), Sixteen::all(count), Sixteen::load(diagonal + 16 * z));
      const Sixteen sure = Sixteen::all(1.0f) / h;
      const Sixteen step = (Sixteen::load(slope + 16 * z) - pull[z] - doubt) * sure * (1.0f / p.length);
      const Sixteen moved = fma(Sixteen::load(v + 16 * z), Sixteen::all(p.memory), step), now = old + moved;
      moved.store(v + 16 * z);
      now.store(x + 16 * z);
      squares[z] = fma(now * count, now, squares[z]);
      known[z] = fma(sure, Sixteen::all(count), known[z]);
      spread[z] = spread[z] + sure;
    }
    price += 0.5 * static_cast<double>(sum(cost));
  }
  *p.price += price;
  for (int z = 0; z < n; ++z) {
    const Sixteen* const all[] = {squares, known, spread};
    for (int m = 0; m < 3; ++m) {
      alignas(64) float lanes[16];
      all[m][z].store(lanes);
      for (int c = 0; c < 16; ++c) p.moments[m * p.stride + 16 * z + c] += static_cast<double>(lanes[c]);
    }
  }
}

inline void glide_rows(const OrdinalGlide& p, int64_t first, int64_t last) {
  if (p.stride == 16) glide_by_width<1>(p, first, last);
  else if (p.stride == 32) glide_by_width<2>(p, first, last);
  else glide_by_width<0>(p, first, last);
}

// Products of the features and numbers of rows with their numbers, [n_features + stride][stride], added up over rows.
inline void sum_rows(const OrdinalGlide& p, int64_t first, int64_t last, double* sums) {
  constexpr int tall = 8;
  const int height = p.n_features + p.stride;
  for (int a = 0; a < height; a += tall) {
    const float* from[tall];  // the last of them once more beyond the end
    int64_t step[tall];
    for (int k = 0; k < tall; ++k) {
      const int at = a + k < height ? a + k : height - 1;
      step[k] = at < p.n_features ? p.n_features : p.stride;
      from[k] = (at < p.n_features ? p.features + at : p.rows + (at - p.n_features)) + first * step[k];
    }
    for (int d = 0; d < p.stride; d += 16) {
      Sixteen products[tall];
      for (int k = 0; k < tall; ++k) products[k] = Sixteen::all(0.0f);
      for (int64_t row = 0; row < last - first; ++row) {
        const Sixteen y = Sixteen::load(p.rows + (first + row) * p.stride + d);
        for (int k = 0; k < tall; ++k) products[k] = fma(y, Sixteen::all(from[k][row * step[k]]), products[k]);
      }
      for (int k = 0; k < tall && a + k < height; ++k) {
        alignas(64) float lanes[16];
        products[k].store(lanes);
        for (int c = 0; c < 16; ++c) sums[int64_t{a + k} * p.stride + d + c] += static_cast<double>(lanes[c]);
      }
    }
  }
}

}  // namespace starcast::STARCAST_ISA_NS
