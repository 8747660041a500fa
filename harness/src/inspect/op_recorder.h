// Every operator that LibTorch runs while something is profiled, with its place in time. Built on
// LibTorch's RecordFunction, which also carries our own kernels and the scopes that policies name;
// its Kineto profiler gives no operands, and hands nothing back but a file.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "inspect/op_work.h"

namespace dp_bench::inspect {

enum class OpKind {
  kOperator,  // "aten::mm", or a kernel of ours
  kBackward,  // a node of autograd's graph: "MmBackward0"
  kScope,     // a stage that somebody named: "forward"
};

/// One call. Calls nest: a child begins and ends within its parent. The parent of what autograd
/// does on a thread of its own, for a GPU, is the call that waits for it.
struct OpEvent {
  std::string name;
  OpKind kind = OpKind::kOperator;
  std::uint64_t thread = 0;  // LibTorch's number
  double begin_us = 0.0;     // since the recorder was made [µs]
  double end_us = 0.0;
  int parent = -1;     // place in the list of events; -1: none
  double flops = 0.0;  // of products; 0 within another operator that counts
  double bytes = 0.0;  // of operators within which nothing else is moved [B]

  double duration_us() const { return end_us - begin_us; }
};

/// Records its thread and the backward passes that it starts, while it lives. One at a time in the
/// process, and not beside a MemoryPeak or a profiler of LibTorch. A call ends when `device` has
/// done its work: on a GPU nothing overlaps while this lives.
class OpRecorder {
 public:
  explicit OpRecorder(c10::Device device = c10::kCPU);
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;
  ~OpRecorder();

  /// In the order in which they began; to be called when all have ended.
  std::vector<OpEvent> TakeEvents();

 private:
  struct Call;  // what LibTorch keeps of a call between its two ends

  static std::unique_ptr<at::ObserverContext> Start(const at::RecordFunction& call);
  static void End(const at::RecordFunction& call, at::ObserverContext* context);

  int Add(const at::RecordFunction& call);
  void Close(const at::RecordFunction& call, int index);
  double Now() const;

  c10::Device device_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t thread_ = at::RecordFunction::currentThreadId();
  std::mutex mutex_;  // on a GPU the backward pass runs on a thread of its own
  std::vector<OpEvent> events_;
  // of each event: whether it or one around it counts as a product, whether one within it moves
  std::vector<bool> is_counted_;
  std::vector<bool> moves_within_;
  std::map<std::uint64_t, std::vector<int>> nested_;  // by thread: the calls that have not ended
  ByteCounter bytes_;
  at::CallbackHandle callback_;
};

}  // namespace dp_bench::inspect
