// exp, log and digamma with the last bits that the published program saw.
//
// Two of the paper's models amplify the last bit of exp to the third digit of their metrics, and C libraries differ in
// that bit from each other and from Java's Math.exp. So the exponential is written out here, after the method of
// Intel's library, which Java's virtual machine uses on x86-64: exp(x) = 2^n * 2^(j/64) * (1 + p(y)) with x = (64 n +
// j) ln2 / 64 + y, |y| <= ln2 / 128.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace strict {

struct PowerOfTwo {
  double head, rest;  // 2^(j/64) = head * (1 + rest), head rounded down
};

inline constexpr PowerOfTwo POWERS[64] = {
#include "exp_table.inc"
};

// x = (64 n + j) ln2 / 64 + y; returns p(y), with the rounding error of the table's head in it. The order of the sum is
// Java's.
inline double reduce(double x, std::int64_t& steps) {
  constexpr double SHIFT = 0x1.8p52;  // adding it rounds to an integer, which then stands in the low bits
  constexpr double STEPS = 0x1.71547652b82fep+6, STEP_HEAD = 0x1.62e42fefa0000p-7, STEP_REST = 0x1.cf79abc9e3b3ap-46;
  const double shifted = x * STEPS + SHIFT;
  const double m = shifted - SHIFT;
  const double y = (x - m * STEP_HEAD) - m * STEP_REST;
  steps = std::bit_cast<std::int64_t>(shifted);
  const double y2 = y * y, y3 = y2 * y;
  const double high = (y3 * y2) * (0x1.11115c090cf0fp-7 + 0x1.6c15ce3289860p-10 * y);
  const double middle = y3 * (0x1.5555555548ba1p-3 + 0x1.55555555b9e25p-5 * y);
  return (middle + ((y + POWERS[steps & 63].rest) + high)) + y2 * 0x1.ffffffffffffep-2;
}

// exp for |x| < EASY, where no power of two can leave the range of a double: no branches, so loops over lanes become
// vector code.
inline constexpr double EASY = 600.0;

inline double exp_easy(double x) {
  std::int64_t steps;
  const double p = reduce(x, steps);
  const std::uint64_t exponent = (static_cast<std::uint64_t>(steps & ~63) + (1023u << 6)) << 46;
  const double power =
      std::bit_cast<double>(exponent | (std::bit_cast<std::uint64_t>(POWERS[steps & 63].head) & 0xFFFFFFFFFFFFFull));
  return power * p + power;
}

inline double java_exp(double x) {
  if (std::abs(x) < EASY) return exp_easy(x);
  if (x != x) return x;
  if (x > 709.782712893384) return std::numeric_limits<double>::infinity();
  if (x < -745.1332191019412) return 0.0;
  std::int64_t steps;
  const double p = reduce(x, steps);
  const int n = static_cast<std::int32_t>(steps) >> 6;
  const double head = POWERS[steps & 63].head;
  return std::ldexp(head * p + head, n);
}

// exp of W values side by side. One value out of the easy range sends all of them down the careful road; the bits are
// the same.
template <int W>
inline void exp_lanes(const double* x, double* out) {
  bool easy = true;
  for (int s = 0; s < W; ++s) easy &= std::abs(x[s]) < EASY;
  if (easy) {
    for (int s = 0; s < W; ++s) out[s] = exp_easy(x[s]);
  } else {
    for (int s = 0; s < W; ++s) out[s] = java_exp(x[s]);
  }
}

// 1 / (1 + exp(-x)) of W values side by side.
template <int W>
inline void logistic_lanes(const double* x, double* out) {
  double minus[W];
  for (int s = 0; s < W; ++s) minus[s] = -x[s];
  exp_lanes<W>(minus, out);
  for (int s = 0; s < W; ++s) out[s] = 1.0 / (1.0 + out[s]);
}

struct LogOfMantissa {
  double head, rest;
};

inline constexpr LogOfMantissa LOGS[32] = {
#include "log_table.inc"
};

// ln x for 49 <= x < 50 as Apache Commons Math 3.6.1 computes it (not as Java does): x = 32 m (1 + y) with m = 1 +
// j/1024, and the parts 5 ln 2, ln m and ln(1 + y) added in its order with the rounding errors kept aside.
inline double log_49(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), low = bits & 0x3FFFFFFFFFFull,
                      high = bits & 0xFFC0000000000ull;
  const double y = static_cast<double>(static_cast<std::int64_t>(low)) /
                   (0x1p52 + static_cast<double>(static_cast<std::int64_t>(high)));
  double p = -0.16624882440418567;
  for (double c : {0.19999954120254515, -0.2499999997677497, 0.3333333333332802, -0.5, 1.0}) p = p * y + c;
  const auto& [head, rest] = LOGS[(high >> 42) - 544];
  double total = 5 * 0.6931470632553101, lost = 0.0;
  for (double part : {head, p * y, 5 * 1.1730463525082348e-7, rest}) {
    const double next = total + part;
    lost += -(next - total - part);
    total = next;
  }
  return total + lost;
}

// The series the published program uses for digamma at x >= 49. Its 1/120 has the wrong sign (an error of 3e-9); kept,
// since it was used.
inline double digamma_series(double x, double log_x) {
  const double inv = 1.0 / (x * x);
  return log_x - 0.5 / x - inv * (1.0 / 12 + inv * (1.0 / 120 - inv / 252));
}

inline double digamma_tiny(double x) { return -0.5772156649015329 - 1.0 / x; }

inline constexpr double DIGAMMA_TINY = 1e-5, DIGAMMA_LARGE = 49.0;

// digamma(x) = digamma(x + 1) - 1/x until x >= 49, summed from the far end as the recursion does. NaN below 0, where no
// logistic goes.
inline double digamma(double x) {
  if (!std::isfinite(x)) return x;
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x > 0 && x <= DIGAMMA_TINY) return digamma_tiny(x);
  double below[49];
  int n = 0;
  for (; x < DIGAMMA_LARGE; x += 1.0) below[n++] = 1.0 / x;
  double value = digamma_series(x, x < 50.0 ? log_49(x) : std::log(x));
  while (n > 0) value -= below[--n];
  return value;
}

// digamma of W logistic values side by side. From (0, 1) it takes 49 steps to reach 49; where rounding makes it another
// number of steps, and for tiny or undefined values, the lane goes the plain way instead.
template <int W>
inline void digamma_lanes(const double* a, double* out) {
  constexpr int STEPS = 49;
  double below[STEPS][W], x[W];
  bool plain = false;
  for (int s = 0; s < W; ++s) x[s] = a[s];
  for (int j = 0; j < STEPS; ++j) {
    for (int s = 0; s < W; ++s) below[j][s] = 1.0 / x[s];
    if (j == STEPS - 1)
      for (int s = 0; s < W; ++s) plain |= !(a[s] > DIGAMMA_TINY && x[s] < DIGAMMA_LARGE);
    for (int s = 0; s < W; ++s) x[s] += 1.0;
  }
  if (plain) {
    for (int s = 0; s < W; ++s) out[s] = digamma(a[s]);
    return;
  }
  for (int s = 0; s < W; ++s) out[s] = digamma_series(x[s], log_49(x[s]));
  for (int j = STEPS - 1; j >= 0; --j)
    for (int s = 0; s < W; ++s) out[s] -= below[j][s];
}

}  // namespace strict
