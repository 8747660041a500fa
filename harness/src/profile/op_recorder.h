// Records every operator that LibTorch runs during a profile, with its times; sums them, and writes
// them for a trace viewer. Built on LibTorch's RecordFunction, which also reports our own kernels
// and the scopes that policies name. LibTorch's Kineto profiler does not fit: it counts no FLOPs of
// 1D convolutions, of any convolution's backward pass and of our kernels.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::profile {

/// Floating-point operations of a matrix product or a convolution [FLOP], two per multiply-add.
/// Counted: aten::mm, addmm, bmm, baddbmm, convolution, convolution_backward, oneDNN's linear, and
/// our own kernels, which report themselves as dp_bench::product {w, x, ...} (2 · rows of w ·
/// numbers in x), dp_bench::attention and dp_bench::attention_backward {q, kv or none}, [B, T, d]
/// each, dp_bench::feed_forward and dp_bench::feed_forward_backward {x, w of the hidden units},
/// dp_bench::projected_attention and dp_bench::projected_attention_backward {x, w of queries, w of
/// the output, number of keys}. All other operators give nothing: element-wise loops, norms and
/// reductions are not counted.
std::optional<double> ProductFlops(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

/// The products of the operator `name` that ProductFlops counts, in words.
inline constexpr const char* kCountedProducts =
    "matrix products, convolutions and attention: two operations per multiply-add";

enum class OpKind {
  kOperator,  // "aten::mm", or one of our kernels
  kBackward,  // a node of autograd's graph: "MmBackward0"
  kScope,     // a named stage: "forward"
};

/// "operator", "backward" or "scope".
const char* NameOf(OpKind kind);

/// One call. Calls nest: a child begins and ends within its parent. For a GPU, autograd works on
/// its own thread; the parent of those calls is the call that waits for them.
struct OpEvent {
  std::string name;
  OpKind kind = OpKind::kOperator;
  std::uint64_t thread = 0;  // LibTorch's thread number
  double begin_us = 0.0;     // since the recorder was created [µs]
  double end_us = 0.0;
  int parent = -1;     // index in the list of events; -1: none
  double flops = 0.0;  // of products; 0 inside another operator that counts them

  double duration_us() const { return end_us - begin_us; }
};

/// Records the calls of its thread, and of the backward passes that the thread starts, while it
/// exists. Only one may exist in the process, and not together with a MemoryPeak or a LibTorch
/// profiler. A call ends when `device` has done its work, so nothing overlaps on a GPU during the
/// recording.
class OpRecorder {
 public:
  explicit OpRecorder(c10::Device device = c10::kCPU);
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;
  ~OpRecorder();

  /// The events in the order in which they began. Call it when all have ended.
  std::vector<OpEvent> TakeEvents();

 private:
  struct Call;  // what LibTorch stores between the begin and the end of a call

  static std::unique_ptr<at::ObserverContext> Start(const at::RecordFunction& call);
  static void End(const at::RecordFunction& call, at::ObserverContext* context);

  int Add(const at::RecordFunction& call);
  void Close(int index);
  double Now() const;

  c10::Device device_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t thread_ = at::RecordFunction::currentThreadId();
  std::mutex mutex_;  // on a GPU the backward pass runs on another thread
  std::vector<OpEvent> events_;
  std::vector<bool> is_counted_;  // for each event: whether it or an enclosing one is a product
  std::map<std::uint64_t, std::vector<int>> nested_;  // by thread: the calls that have not ended
  at::CallbackHandle callback_;
};

/// All calls of one operator, node or scope.
struct OpTotal {
  std::string name;
  OpKind kind = OpKind::kOperator;
  std::int64_t n_calls = 0;
  double self_us = 0.0;   // without nested calls
  double total_us = 0.0;  // with nested calls
  double flops = 0.0;
  double product_us = 0.0;  // total of the calls counted in `flops`, with nested calls
};

/// The calls within `scope` (at any depth) and the scope itself, the largest self time first. The
/// self times add up to the scope's total: time outside any operator belongs to the enclosing scope
/// or node.
std::vector<OpTotal> SummarizeOps(std::span<const OpEvent> events, std::string_view scope);

/// Sums over such a list.
struct WorkTotal {
  double flops = 0.0;
  double product_us = 0.0;
  double self_us = 0.0;  // of everything
};

WorkTotal SumOf(std::span<const OpTotal> totals);

/// Chrome's trace event format, which https://ui.perfetto.dev and chrome://tracing open. Each call
/// is a complete event ("ph": "X") with ts and dur in µs, and with flops if they were counted.
/// Process and thread names are metadata. Times are whole nanoseconds, so that rounding never makes
/// a child stick out of its parent.
std::string ChromeTrace(std::span<const OpEvent> events, const std::string& process_name);

}  // namespace dp_bench::profile
