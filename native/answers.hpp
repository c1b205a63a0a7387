// What is done to one distribution in double precision: the bell of a number, a calibration, near ties, its sum, and
// the questions that rank it. One code for predictions and for recommendations, so that both give the same bits; files that
// include it are compiled without contraction.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace starcast {

// The number that factors predict, summed factor by factor in double precision, as the published program does. With
// biases, the first column is the bias.
template <typename F>
double point_value(const F* p, const F* q, int n_columns, bool biased, double mean) {
  double dot = 0;
  for (int k = biased; k < n_columns; ++k) dot += static_cast<double>(p[k] * q[k]);
  if (!biased) return dot;
  const F bias = static_cast<F>(mean) + p[0] + q[0];
  return static_cast<double>(bias) + dot;
}

// The probability between two neighbouring edges of a normal distribution, the outermost open.
inline void bell_row(double value, const double* edges, size_t cuts, double spread, double* out) {
  const double scale = 1 / (spread * std::sqrt(2.0));
  double below = 0;
  for (size_t s = 0; s < cuts; ++s) {
    const double next = 0.5 * std::erfc((value - edges[s]) * scale);
    out[s] = next - below;
    below = next;
  }
  out[cuts] = 1 - below;
}

// The piecewise linear function through (knot, value), n of them with a step from one to the next, at x; beyond the
// ends it is level. Of knots that coincide, the last counts. NaN has no place between knots and stays NaN.
inline double interpolate(double x, const double* knots, const double* values, size_t n, size_t step) {
  if (std::isnan(x)) return x;
  if (x < knots[0]) return values[0];
  if (!(x < knots[(n - 1) * step])) return values[(n - 1) * step];
  size_t at = 1;
  while (knots[at * step] <= x) ++at;
  const double left = knots[(at - 1) * step], right = knots[at * step];
  const double low = values[(at - 1) * step], high = values[at * step];
  return low + (high - low) * ((x - left) / (right - left));  // a share, not a slope: that may be infinite
}

// A calibration: rows of one number a score. recalibration.py says what they mean.
struct Calibration {
  const double* rows = nullptr;
  size_t n_rows = 0, n_scores = 0;
  static constexpr size_t scale = 0, shift = 1, knot = 2, lift = 3, cuts = 4;
  static constexpr double least = 1e-12, mixed = 0.01;

  const double* row(size_t r) const { return rows + r * n_scores; }

  // p becomes what it should have been.
  void move(double* p) const {
    const size_t S = n_scores;
    if (n_rows > cuts) move_cuts(p);
    const size_t mode = std::max_element(p, p + S) - p;
    const double raised = interpolate(p[mode], row(knot), row(lift), S, 1);
    for (size_t s = 0; s < S; ++s) p[s] = row(scale)[s] * std::log(std::max(p[s], least)) + row(shift)[s];
    p[mode] += raised;
    const double top = *std::max_element(p, p + S);
    double total = 0;
    for (size_t s = 0; s < S; ++s) total += p[s] = std::exp(p[s] - top);
    for (size_t s = 0; s < S; ++s) p[s] /= total;
  }

 private:
  void move_cuts(double* p) const {
    const size_t S = n_scores, n = (n_rows - cuts) / 2;
    double below = 0, reached = 0, before = 0;
    for (size_t s = 0; s < S; ++s) {
      below += p[s];
      const double level = s + 1 < S ? interpolate(below, row(cuts) + s, row(cuts + n) + s, n, S) : 1.0;
      reached = s == 0 ? level : std::max(reached, level);  // each map was learnt alone, so two may cross
      p[s] = (1 - mixed) * (reached - before) + mixed * p[s];
      before = reached;
    }
  }
};

constexpr double ahead = 1e-6;  // by which share the winner of a tie is ahead

// The score that is both likely and near the mean shares with those that are likelier; place: the scores on a scale
// from -1 to 1.
inline void settle_row(double* p, const double* place, size_t S, double centering) {
  const size_t mode = std::max_element(p, p + S) - p;
  double mean = 0;
  for (size_t s = 0; s < S; ++s) mean += p[s] * place[s];
  const auto away = [&](size_t s) { return (place[s] - mean) * (place[s] - mean); };
  double nearest = away(0);
  for (size_t s = 1; s < S; ++s) nearest = std::min(nearest, away(s));
  if (away(mode) == nearest) return;
  size_t central = 0;
  double most = -1;
  for (size_t s = 0; s < S; ++s) {
    // The least distance is taken off all, so that however large the centering is, not all is rounded to nothing.
    const double weight = p[s] * std::exp(-centering * (away(s) - nearest));
    if (weight > most) {
      most = weight;
      central = s;
    }
  }
  if (central == mode) return;
  const double level = p[central];
  double shared = 0, n = 0;
  for (size_t s = 0; s < S; ++s)
    if (p[s] >= level) {
      shared += p[s];
      n += 1;
    }
  shared /= n;
  for (size_t s = 0; s < S; ++s)
    if (p[s] >= level) p[s] = shared * (1 + (s == central ? ahead : -ahead / (n - 1)));
}

// Divides a row by its sum, so that it adds up to one to the last bits. A row that does already stays as it is:
// normalizing twice is normalizing once. The sum is compensated (TwoSum), so its error does not grow with the number
// of scores. Rows that are no distribution (a sum of zero, infinite, or not a number) stay as they are, too.
inline void normalize_row(double* p, size_t S) {
  constexpr double exact = 4.5e-16;  // two units in the last place of one: what rounding leaves after a division
  double total = 0, lost = 0;
  for (size_t s = 0; s < S; ++s) {
    const double next = total + p[s], part = next - total;
    lost += (total - (next - part)) + (p[s] - part);
    total = next;
  }
  total += lost;
  if (!(std::abs(total - 1) > exact) || !(total > 0) || !std::isfinite(total)) return;
  for (size_t s = 0; s < S; ++s) p[s] /= total;
}

// The sums run score by score, as those of Distribution do.
inline double mean_of(const double* p, const double* scores, size_t S) {
  double mean = 0;
  for (size_t s = 0; s < S; ++s) mean += p[s] * scores[s];
  return mean;
}

// 1 - E|score - median| / range.
inline double expected_accuracy(const double* p, const double* scores, size_t S) {
  size_t median = 0;
  double below = p[0];
  while (median + 1 < S && !(below >= 0.5 - 1e-9)) below += p[++median];
  if (!(below >= 0.5 - 1e-9)) median = 0;  // nothing reaches one half: not a distribution
  double error = 0;
  for (size_t s = 0; s < S; ++s) error += p[s] * std::abs(scores[s] - scores[median]);
  return 1 - error / (scores[S - 1] - scores[0]);
}

}  // namespace starcast
