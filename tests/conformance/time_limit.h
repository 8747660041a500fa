// Ends a conformance program whose plugin hangs, and says where.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>

#include "core/call_watch.h"

namespace dp_bench::conformance {

/// Watches the tests from another thread. The program ends with exit code 1 if a call into an env
/// takes longer than `call_seconds`, or a test longer than `test_seconds`.
class TimeLimit : public testing::EmptyTestEventListener {
 public:
  TimeLimit(double call_seconds, double test_seconds)
      : call_limit_(call_seconds), test_limit_(test_seconds), thread_([this] { Watch(); }) {}

  ~TimeLimit() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void OnTestStart(const testing::TestInfo& info) override {
    const std::lock_guard lock(mutex_);
    test_ = std::string(info.test_suite_name()) + "." + info.name();
    start_ = Clock::now();
  }
  void OnTestEnd(const testing::TestInfo& /*info*/) override {
    const std::lock_guard lock(mutex_);
    test_.clear();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  void Watch() {
    core::OpenCalls calls;
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      calls.Refresh();
      changed_.wait_for(lock, call_limit_, [this] { return is_over_; });
      if (is_over_) return;
      const std::string hanging = calls.StillOpen();
      if (!hanging.empty()) End(hanging, call_limit_);
      if (!test_.empty() && Clock::now() - start_ > test_limit_) End("this check", test_limit_);
    }
  }

  [[noreturn]] void End(const std::string& what, Seconds limit) const {
    std::cout << what << ": expected it to end within " << limit.count()
              << " s, found it still running. Does the plugin wait for something?\n"
              << "[  FAILED  ] " << test_ << std::endl;
    _exit(1);
  }

  const Seconds call_limit_;
  const Seconds test_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::string test_;  // that runs now; empty between two
  Clock::time_point start_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace dp_bench::conformance
