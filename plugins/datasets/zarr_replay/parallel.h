// A loop over several threads for the time of one load.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace dp_bench::zarr_replay {

/// Calls body(thread, i) for i in [0, n), handing out indices in order. When bodies throw, the loop
/// ends early and the exception of the smallest index is thrown, whatever the number of threads.
template <class Body>
void ParallelFor(std::int64_t n, int n_threads, const Body& body) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> has_failed{false};
  std::mutex mutex;
  std::int64_t failed_index = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure;

  const auto work = [&](int thread) {
    while (!has_failed) {
      const std::int64_t i = next++;
      if (i >= n) return;
      try {
        body(thread, i);
      } catch (...) {  // thread entry point: the caller gets it
        const std::lock_guard lock(mutex);
        has_failed = true;
        if (i < failed_index) {
          failed_index = i;
          failure = std::current_exception();
        }
      }
    }
  };

  {
    std::vector<std::jthread> threads;
    for (int thread = 1; thread < n_threads; ++thread) threads.emplace_back(work, thread);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace dp_bench::zarr_replay
