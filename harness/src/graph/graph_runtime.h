// Plans with the graphs of a policy instead of the policy.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
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

/// The bytes of the two models.
struct OnnxGraphs {
  std::string encoder;
  std::string denoiser;
};

/// What the library libdp_bench_openvino.so exports under the name kOpenVinoEntry. The caller owns
/// the result.
using OpenVinoEntry = GraphRuntime*(const OnnxGraphs& graphs, int n_threads);
inline constexpr const char* kOpenVinoEntry = "dp_bench_make_openvino_runtime";

/// As Policy::PredictAction, with the same draws of noise.
torch::Tensor PredictWithGraphs(const PolicyGraphs& graphs, GraphRuntime& runtime,
                                const TensorMap& obs, NoiseSource& noise);

}  // namespace dp_bench::graph
