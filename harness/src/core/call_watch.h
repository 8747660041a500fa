// Finds calls into plugins that never return, so that a stop signal ends the program anyway.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dp_bench::core {

/// Calls of one object, which one thread makes at a time.
class CallWatch {
 public:
  /// `name`: of the object, for messages.
  explicit CallWatch(std::string name);
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
  ~CallWatch();

  /// A call, from its construction to its destruction. Takes about 1 ns.
  class Call {
   public:
    Call(CallWatch& watch, const char* call) : watch_(watch) {
      watch_.call_.store(call, std::memory_order_relaxed);
      watch_.Count();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { watch_.Count(); }

   private:
    CallWatch& watch_;
  };

 private:
  friend class OpenCalls;

  void Count() {
    n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // one writer
  }

  const std::string name_;
  const std::uint64_t id_;  // of this object alone; another may get its address later
  std::atomic<const char*> call_{""};
  std::atomic<std::uint64_t> n_{0};  // odd during a call
};

/// The calls that were under way at one moment. Allocates nothing after its construction, unless
/// there are more than a thousand.
class OpenCalls {
 public:
  OpenCalls() { entries_.reserve(kRoom); }

  /// Takes those of now.
  void Refresh();

  /// "env plugin 'pusht', during Step" for one of them that is still under way; empty if all ended.
  std::string StillOpen() const;

 private:
  static constexpr std::size_t kRoom = 1024;

  struct Entry {
    const CallWatch* watch;
    std::uint64_t id;
    std::uint64_t n;
  };
  std::vector<Entry> entries_;
};

}  // namespace dp_bench::core
