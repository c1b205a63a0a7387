// Threads that are waited for, whatever happens: std::jthread is still missing from some standard libraries.
#pragma once

#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace starcast {

// Work must not throw: a thread has nowhere to throw to. Crew passes on what its work throws.
class Threads {
 public:
  Threads() = default;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    for (auto& thread : threads_) thread.join();
  }

  template <class Work>
  void emplace_back(Work work) {
    const auto shared = std::make_shared<Work>(std::move(work));
    try {
      threads_.emplace_back([shared] { (*shared)(); });
    } catch (const std::system_error&) {
      (*shared)();  // the machine gives no more threads
    }
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace starcast
