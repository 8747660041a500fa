// Records the stages that a policy notes with TraceStage. Includes LibTorch.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench::policy {

/// A tensor on its way through a policy.
struct Stage {
  std::string name;   // "noisy action"
  Shape shape;        // [B, ...]
  std::string dtype;  // "float32", "bool", ...
};

/// Records the stages of its thread while it lives. Recorders do not nest.
class StageRecorder {
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
  friend void dp_bench::TraceStage(std::string_view name, const torch::Tensor& tensor);

  Observer observer_;
  std::vector<Stage> stages_;
};

}  // namespace dp_bench::policy
