// A fixed set of threads that process a first-in, first-out queue of jobs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace dp_bench::core {

class ThreadPool {
 public:
  /// `n_threads` < 1 means one thread per usable processor. Throws std::system_error when the
  /// system refuses a thread.
  explicit ThreadPool(int n_threads);

  /// Finishes every job that was submitted, then joins.
  ~ThreadPool();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// A job must not throw: an escaping exception ends the program.
  void Submit(std::function<void()> job);

 private:
  ThreadPool() = default;
  void Work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
};

/// Runs a job that may throw. The future has what it returns or throws.
template <class Job>
auto RunOn(ThreadPool& pool, Job job) {
  // shared, because a std::function must be copyable
  const auto task =
      std::make_shared<std::packaged_task<std::invoke_result_t<Job&>()>>(std::move(job));
  pool.Submit([task] { (*task)(); });
  return task->get_future();
}

/// The numbers of the processors that this process may use; none if the system does not tell. A
/// quota of a container allows time on any of them, and changes nothing here.
std::vector<int> UsableProcessors();

/// `n_threads` itself, or when it is below 1 one per processor that this process may use, but no
/// more than the quotas of control groups allow.
int ResolveThreadCount(int n_threads);

}  // namespace dp_bench::core
