// How much memory tensors take at most while something runs, as LibTorch's CPU allocator reports
// it.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace dp_bench {

/// Follows the CPU tensors that its thread takes and frees while it lives; backward passes of CPU
/// tensors run on the calling thread. Not counted: tensors from before, memory that is not a
/// tensor's (host arrays, the insides of matrix libraries), and other threads. A profiler of
/// LibTorch and this exclude each other.
class MemoryPeak {
 public:
  MemoryPeak();
  MemoryPeak(const MemoryPeak&) = delete;
  MemoryPeak& operator=(const MemoryPeak&) = delete;
  ~MemoryPeak();

  /// [bytes] that live now, and at most so far.
  std::int64_t current() const;
  std::int64_t peak() const;

 private:
  class Counter;

  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace dp_bench
