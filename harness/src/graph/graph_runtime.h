// Plans with the graphs of a policy instead of the policy: what runs them, and the loop of
// sampler.json, with which every sampler of dp_bench plans.
#pragma once

#include <torch/types.h>

#include <functional>
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

/// What the loop calls.
struct SamplingCalls {
  /// The denoiser for sequences [B, T, D] at one time.
  std::function<torch::Tensor(const torch::Tensor& sample, double time)> denoise;
  /// N(0, 1) numbers in the shape of a sequence.
  std::function<torch::Tensor()> draw_noise;
};

/// Plans from `initial`, noise or zeros [B, T, D]. `condition` [B, To, Do] is used with inpainting.
/// Returns [B, T, D], of which the first Da channels are the normalized actions.
torch::Tensor RunSamplingPlan(const policy::SamplingPlan& plan, const torch::Tensor& initial,
                              const torch::Tensor& condition, const SamplingCalls& calls);

/// As Policy::PredictAction, with the same draws of noise.
torch::Tensor PredictWithGraphs(const PolicyGraphs& graphs, GraphRuntime& runtime,
                                const TensorMap& obs, NoiseSource& noise);

}  // namespace dp_bench::graph
