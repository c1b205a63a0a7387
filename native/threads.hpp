// Threads that are waited for, whatever happens: std::jthread is still missing from some standard libraries.
#pragma once

#include <thread>
#include <vector>

namespace starcast {

struct Threads : std::vector<std::thread> {
  ~Threads() {
    for (auto& thread : *this) thread.join();
  }
};

}  // namespace starcast
