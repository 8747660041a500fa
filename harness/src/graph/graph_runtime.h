// Plans with the graphs of a policy instead of the policy.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "dp_bench/tensor.h"
#include "graph/policy_graphs.h"

namespace dp_bench::graph {

/// What runs the two graphs.
class GraphRuntime {
 public:
  GraphRuntime() = default;
  GraphRuntime(const GraphRuntime&) = delete;
  GraphRuntime& operator=(const GraphRuntime&) = delete;
  virtual ~GraphRuntime() = default;

  /// Observations [B, To, shape...] in the order of PolicyGraphs::observations -> [B, To, Do].
  virtual torch::Tensor Encode(const std::vector<torch::Tensor>& obs) = 0;

  /// sample [B, T, D], time [B] and, without inpainting, condition -> [B, T, D].
  virtual torch::Tensor Denoise(const std::vector<torch::Tensor>& inputs) = 0;
};

/// LibTorch's interpreter of TorchScript.
std::unique_ptr<GraphRuntime> MakeTorchScriptRuntime(const PolicyGraphs& graphs);

/// As Policy::PredictAction, with the same draws of noise.
torch::Tensor PredictWithGraphs(const PolicyGraphs& graphs, GraphRuntime& runtime,
                                const TensorMap& obs, NoiseSource& noise);

}  // namespace dp_bench::graph
