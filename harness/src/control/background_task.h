// A function that runs on a thread of its own, again and again, without allocating memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace dp_bench::control {

/// What `task` writes can be read once Wait returned true.
class BackgroundTask {
 public:
  using Clock = std::chrono::steady_clock;

  /// `task` must not throw.
  explicit BackgroundTask(std::function<void()> task);
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  /// Waits for the run in progress.
  ~BackgroundTask();

  /// Begins a run; the last one must have ended.
  void Start();

  /// Waits until the run has ended, but not after `limit`. Whether it has.
  bool Wait(std::optional<Clock::time_point> limit = std::nullopt);

 private:
  void Loop();

  std::function<void()> task_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_running_ = false;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace dp_bench::control
