#include "control/background_task.h"

#include <utility>

#include "dp_bench/error.h"

namespace dp_bench::control {

BackgroundTask::BackgroundTask(std::function<void()> task)
    : task_(std::move(task)), thread_([this] { Loop(); }) {}

BackgroundTask::~BackgroundTask() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundTask::Start() {
  {
    const std::lock_guard lock(mutex_);
    DPB_ASSERT(!is_running_);
    is_running_ = true;
  }
  changed_.notify_all();
}

bool BackgroundTask::Wait(std::optional<Clock::time_point> limit) {
  std::unique_lock lock(mutex_);
  const auto has_ended = [this] { return !is_running_; };
  if (limit) return changed_.wait_until(lock, *limit, has_ended);
  changed_.wait(lock, has_ended);
  return true;
}

void BackgroundTask::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_running_ || is_ending_; });
    if (!is_running_) return;
    lock.unlock();
    task_();
    lock.lock();
    is_running_ = false;
    changed_.notify_all();
  }
}

}  // namespace dp_bench::control
