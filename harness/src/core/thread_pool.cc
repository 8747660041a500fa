#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>

#include "core/control_groups.h"
#include "core/stop_signal.h"

namespace dp_bench::core {

std::vector<int> UsableProcessors() {
  std::vector<int> processors;
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &usable)) processors.push_back(i);
  }
  return processors;
}

int ResolveThreadCount(int n_threads) {
  if (n_threads >= 1) return n_threads;
  // hardware_concurrency also counts processors that this process may not use
  const std::vector<int> usable = UsableProcessors();
  const int n_processors = usable.empty() ? static_cast<int>(std::thread::hardware_concurrency())
                                          : static_cast<int>(usable.size());
  return std::max(1, std::min(n_processors, ProcessorsInGroups().value_or(n_processors)));
}

// Delegates, so that the destructor joins the threads that started before one was refused.
ThreadPool::ThreadPool(int n_threads) : ThreadPool() {
  const int count = ResolveThreadCount(n_threads);
  threads_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void ThreadPool::Work() {
  const SignalStack stack;
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return is_closing_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace dp_bench::core
