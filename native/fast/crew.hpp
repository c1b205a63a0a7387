// A crew of threads that lives as long as a fit. Work comes in chunks that any thread may take: a row is never shared,
// so who takes it does not matter. What a chunk throws in any thread, run throws once no thread is at work any more.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace starcast {

class Crew {
 public:
  // At most n_threads, and no more than there are chunks.
  explicit Crew(int n_threads, int64_t n_chunks = INT32_MAX) {
    if (n_threads < 1) throw std::invalid_argument("n_threads must be one or more.");
    const int size = static_cast<int>(std::clamp<int64_t>(n_chunks, 1, n_threads));
    threads_.reserve(static_cast<size_t>(size));  // before the first thread: to be destroyed it has to be joined
    try {
      for (int t = 1; t < size; ++t) threads_.emplace_back([this, t] { wait_for_work(t); });
    } catch (const std::exception&) {
      // The machine gives no more threads: those there are do the work, with the same result.
    }
  }
  ~Crew() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (auto& t : threads_) t.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls work(chunk, thread) for every chunk; the caller is thread 0.
  void run(int64_t n_chunks, const std::function<void(int64_t, int)>& work) {
    {
      std::lock_guard lock(mutex_);
      work_ = &work;
      n_chunks_ = n_chunks;
      next_ = 0;
      busy_ = static_cast<int>(threads_.size());
      ++turn_;
    }
    start_.notify_all();
    take_chunks(0);
    const auto done = [this] { return busy_ == 0; };
    if (!soon(done)) {
      std::unique_lock lock(mutex_);
      done_.wait(lock, done);
    }
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // A pass takes milliseconds and the next follows at once, so waiting awake for a moment is cheaper than being woken.
  // Who yields in the meantime loses the core to whoever else is busy, for longer than a pass takes.
  template <typename Condition>
  static bool soon(const Condition& holds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    do {
      for (int n = 0; n < 64; ++n) {
        if (holds()) return true;
        pause();
      }
    } while (std::chrono::steady_clock::now() < until);
    return false;
  }
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void take_chunks(int thread) noexcept {
    try {
      for (int64_t c = next_++; c < n_chunks_; c = next_++) (*work_)(c, thread);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = n_chunks_;  // nobody begins another chunk
    }
  }
  void wait_for_work(int thread) {
    for (int64_t seen = 0;; ++seen) {
      auto called = [&] { return stop_ || turn_ != seen; };
      if (!soon(called)) {
        std::unique_lock lock(mutex_);
        start_.wait(lock, called);
      }
      if (stop_) return;
      take_chunks(thread);
      std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int64_t, int)>* work_ = nullptr;
  int64_t n_chunks_ = 0;
  std::exception_ptr error_;  // the first of a run
  std::atomic<int64_t> next_{0}, turn_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace starcast
