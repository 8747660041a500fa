// Time that passed.
#pragma once

#include <chrono>

namespace dp_bench::core {

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace dp_bench::core
