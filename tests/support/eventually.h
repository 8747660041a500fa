// Waits for what another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace dp_bench {

/// Whether `condition` holds within `limit`.
template <class Condition>
bool Eventually(const Condition& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace dp_bench
