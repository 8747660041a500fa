// The tensors of a policy's data flow, noted while it runs: their shapes, which `dp_bench inspect`
// prints, and for `dp_bench diagnose` their values. Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/export.h"

namespace dp_bench {

/// A tensor on its way through a policy.
struct Stage {
  std::string name;   // "noisy action"
  Shape shape;        // [B, ...]
  std::string dtype;  // "float32", "bool", ...
};

/// Notes `tensor` as the next stage. Nothing happens (one branch) unless a StageRecorder lives on
/// this thread.
DPB_API void TraceStage(std::string_view name, const torch::Tensor& tensor);

/// Whether a StageRecorder lives on this thread. For stages whose name or view must be made first.
DPB_API bool IsTracingStages();

/// Records the stages of its thread while it lives. Recorders do not nest.
class DPB_API StageRecorder {
 public:
  /// Sees each stage's tensor when it is noted. The tensor may change afterwards.
  using Observer = std::function<void(std::string_view name, const torch::Tensor& tensor)>;

  explicit StageRecorder(Observer observer = {});
  StageRecorder(const StageRecorder&) = delete;
  StageRecorder& operator=(const StageRecorder&) = delete;
  ~StageRecorder();

  /// In the order of the data flow.
  const std::vector<Stage>& stages() const { return stages_; }

 private:
  friend void TraceStage(std::string_view name, const torch::Tensor& tensor);

  Observer observer_;
  std::vector<Stage> stages_;
};

}  // namespace dp_bench
