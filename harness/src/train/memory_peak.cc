// See memory_peak.h. The allocator reports to whoever holds the profiler's place in the thread's
// debug info, which autograd passes on to its backward pass.
#include "train/memory_peak.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstddef>

namespace dp_bench {

class MemoryPeak::Counter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, std::int64_t alloc_size, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device /*device*/) override {
    current_ += alloc_size;  // negative when memory is freed
    peak_ = std::max(peak_, current_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t current() const { return current_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t current_ = 0;
  std::int64_t peak_ = 0;
};

MemoryPeak::MemoryPeak()
    : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

MemoryPeak::~MemoryPeak() = default;

std::int64_t MemoryPeak::current() const { return counter_->current(); }

std::int64_t MemoryPeak::peak() const { return counter_->peak(); }

}  // namespace dp_bench
