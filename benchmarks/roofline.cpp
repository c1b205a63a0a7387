// What this machine can do at best, as JSON on one line: multiply-adds, exponentials, and bytes from each level of memory.
//
//   roofline THREADS L2_BYTES L3_BYTES
//
// Every thread works on numbers of its own; the clock runs from when all are ready until all are done. Each figure is the
// best of several tries. Compiled with -O3 -march=native by bench_roofline.py; nothing here is part of the package.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef int32_t Whole __attribute__((vector_size(4 * lanes)));

namespace {

constexpr int tries = 5;
std::atomic<float> sink{0};  // what is computed is used, so that it is computed

void use(Vector v) {
  float total = 0;
  for (int n = 0; n < lanes; ++n) total += v[n];
  sink = total;
}

// The least seconds that all threads need for work(thread).
double best(int n_threads, const std::function<void(int)>& work) {
  double least = 1e30;
  for (int n = 0; n < tries; ++n) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> crew;
    for (int t = 0; t < n_threads; ++t)
      crew.emplace_back([&, t] {
        ++ready;
        while (!go) std::this_thread::yield();
        work(t);
      });
    while (ready < n_threads) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    go = true;
    for (auto& thread : crew) thread.join();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float, Free>;

// Touched by the thread that will use it.
std::vector<Buffer> buffers(int n_threads, int64_t floats) {
  std::vector<Buffer> all(n_threads);
  std::vector<std::thread> crew;
  for (int t = 0; t < n_threads; ++t)
    crew.emplace_back([&, t] {
      all[t].reset(static_cast<float*>(std::aligned_alloc(2 << 20, (floats * 4 / (2 << 20) + 1) * (2 << 20))));
      std::fill(all[t].get(), all[t].get() + floats, 1e-3f * static_cast<float>(t + 1));
    });
  for (auto& thread : crew) thread.join();
  return all;
}

// Operations a second, a multiply-add being two: twelve chains, more than any processor has in flight.
double multiply_adds(int n_threads) {
  constexpr int chains = 12;
  constexpr int64_t turns = 4'000'000;
  const double seconds = best(n_threads, [](int t) {
    Vector x[chains];
    const Vector a = Vector{} + (0.999f + 1e-4f * static_cast<float>(t)), b = Vector{} + 1e-3f;
    for (int c = 0; c < chains; ++c) x[c] = Vector{} + static_cast<float>(c);
    for (int64_t n = 0; n < turns; ++n)
      for (int c = 0; c < chains; ++c) x[c] = x[c] * a + b;
    for (int c = 1; c < chains; ++c) x[0] += x[c];
    use(x[0]);
  });
  return 2.0 * chains * lanes * static_cast<double>(turns) * n_threads / seconds;
}

// exp by its usual polynomial of degree five, to about one unit in the last place.
inline Vector exp_of(Vector x) {
  const Vector t = x * 1.44269504f, whole = t + 12582912.0f, r = t - (whole - 12582912.0f);
  Vector p = r * 1.326472727e-03f + 9.671512739e-03f;
  p = p * r + 5.550733744e-02f;
  p = p * r + 2.402224208e-01f;
  p = p * r + 6.931469776e-01f;
  p = p * r + 1.0f;
  return reinterpret_cast<Vector>(reinterpret_cast<Whole>(p) + (reinterpret_cast<Whole>(whole) << 23));
}

double exponentials(int n_threads) {
  constexpr int chains = 8;
  constexpr int64_t turns = 1'000'000;
  const double seconds = best(n_threads, [](int t) {
    Vector x[chains];
    for (int c = 0; c < chains; ++c) x[c] = Vector{} - 0.1f * static_cast<float>(c + t);
    for (int64_t n = 0; n < turns; ++n)
      for (int c = 0; c < chains; ++c) x[c] = exp_of(x[c]);
    for (int c = 1; c < chains; ++c) x[0] += x[c];
    use(x[0]);
  });
  return static_cast<double>(chains * lanes * turns * n_threads) / seconds;
}

// Bytes a second, read in order and added up, again and again, of `bytes` a thread.
double read(int n_threads, int64_t bytes) {
  constexpr int chains = 8;
  const int64_t floats = bytes / 4 / (chains * lanes) * (chains * lanes);
  const int64_t sweeps = std::max<int64_t>(1, (int64_t{512} << 20) / bytes);
  const auto all = buffers(n_threads, floats);
  const double seconds = best(n_threads, [&](int t) {
    Vector x[chains] = {};
    for (int64_t sweep = 0; sweep < sweeps; ++sweep) {
      const float* p = all[t].get();
      for (int64_t n = 0; n < floats; n += chains * lanes)
        for (int c = 0; c < chains; ++c) x[c] += *reinterpret_cast<const Vector*>(p + n + c * lanes);
      asm volatile("" ::: "memory");
    }
    for (int c = 1; c < chains; ++c) x[0] += x[c];
    use(x[0]);
  });
  return static_cast<double>(floats) * 4 * static_cast<double>(sweeps) * n_threads / seconds;
}

// STREAM's a = b + s c; bytes as it counts them: two read, one written.
double triad(int n_threads, int64_t bytes) {
  const int64_t floats = bytes / 4 / lanes * lanes;
  const auto a = buffers(n_threads, floats), b = buffers(n_threads, floats), c = buffers(n_threads, floats);
  const double seconds = best(n_threads, [&](int t) {
    float* x = a[t].get();
    const float *y = b[t].get(), *z = c[t].get();
    for (int64_t n = 0; n < floats; n += lanes)
      *reinterpret_cast<Vector*>(x + n) =
          *reinterpret_cast<const Vector*>(y + n) + 3.0f * *reinterpret_cast<const Vector*>(z + n);
    sink = x[floats / 2];
  });
  return 12.0 * static_cast<double>(floats) * n_threads / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: roofline THREADS L2_BYTES L3_BYTES\n"), 2;
  const int n = std::atoi(argv[1]);
  const int64_t l2 = std::atoll(argv[2]), l3 = std::atoll(argv[3]);
  const int64_t in_l3 = std::max(2 * l2, l3 / 2 / n), in_memory = std::max<int64_t>(int64_t{128} << 20, 4 * l3 / n);
  std::printf(
      "{\"threads\": %d, \"lanes\": %d, \"operations\": %.4g, \"exponentials\": %.4g, \"L2\": %.4g, \"L3\": %.4g, "
      "\"memory\": %.4g, \"triad\": %.4g}\n",
      n, lanes, multiply_adds(n), exponentials(n), read(n, l2 / 2), read(n, in_l3), read(n, in_memory),
      triad(n, in_memory / 2));
  return 0;
}
