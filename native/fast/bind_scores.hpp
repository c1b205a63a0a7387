// What the bindings of the models with a vector per score share: rows in the layout of the kernels.
#pragma once

#include "bind_side.hpp"

namespace starcast {

using Rows = Array<float, 2>;

inline void require_rows(const Rows& rows, const Layout& layout, int n_planes) {
  require(static_cast<int64_t>(rows.shape(1)) == layout.stride(n_planes) &&
              reinterpret_cast<uintptr_t>(rows.data()) % 64 == 0,
          "rows must come from allocate_rows(n_rows, n_planes, n_scores).");
}

inline ScoreFit score_fit(Method method, int64_t n_users, int64_t n_items, Rows P, Rows Q, Array<float, 1> base,
                          Array<const float, 1> values, int n_factors, bool biased) {
  ScoreFit fit;
  fit.method = method;
  const int n_scores = static_cast<int>(base.shape(0));
  require(n_scores >= 2 && n_scores <= max_scores, "there must be between 2 and 64 scores.");
  require(n_factors >= 0 && n_factors + biased >= 1, "there must be factors or biases.");
  require_rows(P, Layout(n_scores), n_factors + biased);
  require_rows(Q, Layout(n_scores), n_factors + biased);
  require(static_cast<int64_t>(P.shape(0)) == n_users && static_cast<int64_t>(Q.shape(0)) == n_items,
          "P and Q must have a row per user and item.");
  require(static_cast<int>(values.shape(0)) == n_scores, "values must be one per score.");
  fit.settings.n_factors = n_factors;
  fit.settings.n_scores = n_scores;
  fit.settings.biased = biased;
  fit.settings.values = values.data();
  fit.P = P.data();
  fit.Q = Q.data();
  fit.base = base.data();
  return fit;
}

}  // namespace starcast
