// What the bindings of the models with a vector per score share: rows in the layout of the kernels.
#pragma once

#include "bind_side.hpp"

namespace starcast {

using Rows = Array<float, 2>;

// Whether all of these floats, and the room that vectors read past the last row, were made by allocate_rows.
bool are_allocated(const float* rows, size_t n_floats);

inline RowLayout layout_of(size_t n_scores) {
  require(n_scores >= 2 && n_scores <= max_scores, "there must be between 2 and 64 scores.");
  return RowLayout(static_cast<int>(n_scores));
}

inline void require_rows(const Rows& rows, const RowLayout& layout, int n_factors, bool biased) {
  require_planes(n_factors, biased);
  require(static_cast<int64_t>(rows.shape(1)) == layout.stride(n_factors + biased) &&
              reinterpret_cast<uintptr_t>(rows.data()) % 64 == 0 && are_allocated(rows.data(), rows.size()),
          "rows must come from allocate_rows(n_rows, n_planes, n_scores).");
}

inline ScoreFit score_fit(Method method, int64_t n_users, int64_t n_items, Rows P, Rows Q, Array<float, 1> base,
                          Array<const float, 1> values, int n_factors, bool biased) {
  ScoreFit fit;
  fit.method = method;
  const RowLayout layout = layout_of(base.shape(0));
  const int n_scores = layout.n_scores;
  require_rows(P, layout, n_factors, biased);
  require_rows(Q, layout, n_factors, biased);
  require(static_cast<int64_t>(P.shape(0)) == n_users && static_cast<int64_t>(Q.shape(0)) == n_items,
          "P and Q must have a row per user and item.");
  require(values.shape(0) == base.shape(0), "values must be one per score.");
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
