// ResBeMF's exact step taken apart, for rows whose ratings lie in several places: what ratings here say of a row, and
// the step that all of them make.
#pragma once

#include "resbemf.hpp"

namespace starcast::STARCAST_ISA_NS {

// Planes of n_scores numbers, one after the other, from and to planes of W lanes with zeros in the padding.
template <int W>
STARCAST_INLINE void widen(const float* from, int n_planes, int n_scores, float* to) {
  for (int k = 0; k < n_planes; ++k)
    for (int s = 0; s < W; ++s) to[k * W + s] = s < n_scores ? from[k * n_scores + s] : 0.0f;
}
template <int W>
STARCAST_INLINE void narrow(const float* from, int n_planes, int n_scores, float* to) {
  for (int k = 0; k < n_planes; ++k)
    for (int s = 0; s < n_scores; ++s) to[k * n_scores + s] = from[k * W + s];
}

template <int W, int S, int D>
void look_at_rows(const ScoreLook& look, int64_t first, int64_t last, float* scratch) {
  const Pass& pass = look.pass;
  ExactRow<W, S, D> worker(pass, scratch);
  const Block block = worker.block(look.block);
  const int d = pass.n_scores, n = block.size(), triangle = n * (n + 1) / 2;
  for (int64_t k = first; k < last; ++k) {
    const int64_t begin = pass.indptr[look.which[k]], end = pass.indptr[look.which[k] + 1];
    const Lanes<S> start =
        prepare<S>(worker.layout, pass.n_factors, pass.biased, pass.base, pass.rows + k * worker.stride, worker.packed);
    // Logits are not kept, since nobody comes back to them.
    look.loglik[k] = worker.sweep(begin, end, start, 0, worker.layout.slots(worker.n_planes), false, nullptr,
                                  look.curve ? &block : nullptr);
    if (!look.curve) continue;
    narrow<W>(worker.G, n, d, look.slope + k * n * d);
    narrow<W>(worker.H, triangle, d, look.curve + k * triangle * d);
  }
}

template <int W, int S, int D>
void aim_rows(const ScoreAim& aim, int64_t first, int64_t last, float* scratch) {
  const Pass& pass = aim.pass;
  ExactRow<W, S, D> worker(pass, scratch);
  const Block block = worker.block(aim.block);
  const int d = pass.n_scores, n = block.size(), triangle = n * (n + 1) / 2;
  for (int64_t row = first; row < last; ++row) {
    widen<W>(aim.planes + row * worker.n_planes * d, worker.n_planes, d, worker.x);
    widen<W>(aim.slope + row * n * d, n, d, worker.G);
    widen<W>(aim.curve + row * triangle * d, triangle, d, worker.H);
    aim.gain[row] = worker.direction(block);
    narrow<W>(worker.d, n, d, aim.step + row * n * d);
  }
}

}  // namespace starcast::STARCAST_ISA_NS
