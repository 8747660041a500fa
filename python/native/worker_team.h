// Threads that share a loop over envs with the calling thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/thread_pool.h"

namespace dp_bench::python {

class WorkerTeam {
 public:
  /// `n_workers` includes the calling thread. Throws std::system_error if the system refuses a
  /// thread.
  explicit WorkerTeam(int n_workers);
  ~WorkerTeam();

  /// Calls `work` once for each index below `n`. A worker takes up to `max_chunk` indices at once:
  /// more for quick work, 1 for slow work, so that no worker waits for the last one. If calls
  /// throw, the others still happen, and the error of the lowest index is thrown afterwards. Throws
  /// Error{kEnv} in a process that was forked from the one with the threads.
  void ForEach(std::size_t n, std::size_t max_chunk,
               const std::function<void(std::size_t index)>& work);

 private:
  std::size_t n_workers_;
  std::unique_ptr<core::ThreadPool> pool_;  // null with one worker
  int process_id_;                          // of the threads
};

}  // namespace dp_bench::python
