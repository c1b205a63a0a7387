// Roots of small symmetric matrices, and what they solve. Rows are padded with zeros to a multiple of 16, so that all
// loops run over whole strips; only the upper triangle of a matrix is read.
#pragma once

#include "lanes.hpp"

namespace starcast::STARCAST_ISA_NS {

using Sixteen = Lanes<16>;  // columns of a row, ratings of a group, or draws

class Triangles {
 protected:
  Triangles(int D, int stride) : D_(D), stride_(stride) {}

  STARCAST_INLINE float dot(const float* a, const float* b, int from) {
    Sixteen sums = Sixteen::all(0.0f);
    for (int e = from / 16 * 16; e < stride_; e += 16) sums = fma(Sixteen::load(a + e), Sixteen::load(b + e), sums);
    return sum(sums);
  }

  // The upper triangle of H becomes U with U'U = H, zeros below it; returns the logarithm of U's determinant. H should
  // be no less than `least`: a column that rounding has put far below stands alone, with what is least.
  double factorize(float* U, const float* least) {
    double size = 0, roots = 1;  // a logarithm now and then: products of sixteen numbers do not overflow
    for (int k = 0; k < D_; ++k) {
      float* u = U + static_cast<int64_t>(k) * stride_;
      for (int e = k / 16 * 16; e < k; ++e) u[e] = 0;
      const float floor = least[static_cast<int64_t>(k) * stride_ + k];
      if (!(u[k] >= 1e-4f * floor)) {
        for (int e = k; e < stride_; ++e) u[e] = 0;
        u[k] = floor;
      }
      const float root = __builtin_sqrtf(u[k] > 1e-12f ? u[k] : 1e-12f), scale = 1.0f / root;
      roots *= static_cast<double>(root);
      if (k % 16 == 15 || k == D_ - 1) {
        size += __builtin_log(roots);
        roots = 1;
      }
      for (int e = k / 16 * 16; e < stride_; e += 16) (Sixteen::load(u + e) * scale).store(u + e);
      for (int d = k + 1; d < D_; ++d) {
        const Sixteen minus = Sixteen::all(-u[d]);
        float* h = U + static_cast<int64_t>(d) * stride_;
        for (int e = d / 16 * 16; e < stride_; e += 16)
          fma(minus, Sixteen::load(u + e), Sixteen::load(h + e)).store(h + e);
      }
    }
    return size;
  }

  // x = U'^-1 x
  void forward(const float* U, float* x) {
    for (int k = 0; k < D_; ++k) {
      const float* u = U + static_cast<int64_t>(k) * stride_;
      const float y = x[k] / u[k];
      const Sixteen minus = Sixteen::all(-y);
      for (int e = k / 16 * 16; e < stride_; e += 16)
        fma(minus, Sixteen::load(u + e), Sixteen::load(x + e)).store(x + e);
      x[k] = y;  // the strip above took what it covers down to zero, before and at k, where U is zero or was used
    }
  }

  // x = U^-1 x
  void backward(const float* U, float* x) {
    for (int k = D_ - 1; k >= 0; --k) {
      const float* u = U + static_cast<int64_t>(k) * stride_;
      const float own = x[k];
      x[k] = 0;
      x[k] = (own - dot(u, x, k)) / u[k];
    }
  }

  void solve(const float* U, const float* g, float* x) {
    for (int d = 0; d < stride_; ++d) x[d] = g[d];
    forward(U, x);
    backward(U, x);
  }

  const int D_, stride_;
};

}  // namespace starcast::STARCAST_ISA_NS
