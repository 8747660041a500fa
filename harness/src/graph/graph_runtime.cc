// See graph_runtime.h.
#include "graph/graph_runtime.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

#include "policy/sampling.h"

namespace dp_bench::graph {
namespace {

using torch::Tensor;

class TorchScriptRuntime final : public GraphRuntime {
 public:
  explicit TorchScriptRuntime(const PolicyGraphs& graphs)
      : encoder_(graphs.encoder.module), denoiser_(graphs.denoiser.module) {}

  Tensor Encode(const std::vector<Tensor>& obs) override { return Run(encoder_, obs); }
  Tensor Denoise(const std::vector<Tensor>& inputs) override { return Run(denoiser_, inputs); }

 private:
  static Tensor Run(torch::jit::Module& module, const std::vector<Tensor>& inputs) {
    const torch::NoGradGuard no_grad;
    // compiling kernels takes seconds, which a few runs do not win back
    const torch::jit::GraphOptimizerEnabledGuard as_it_is(false);
    return module.forward({inputs.begin(), inputs.end()}).toTensor();
  }

  torch::jit::Module encoder_;
  torch::jit::Module denoiser_;
};

}  // namespace

std::unique_ptr<GraphRuntime> MakeTorchScriptRuntime(const PolicyGraphs& graphs) {
  return std::make_unique<TorchScriptRuntime>(graphs);
}

Tensor PredictWithGraphs(const PolicyGraphs& graphs, GraphRuntime& runtime, const TensorMap& obs,
                         NoiseSource& noise) {
  std::vector<Tensor> inputs;
  for (const EncoderInput& input : graphs.observations) inputs.push_back(obs.at(input.key.name));
  const Tensor condition = runtime.Encode(inputs);
  const Horizons& horizons = graphs.spec.horizons;
  const std::vector<std::int64_t> shape = {condition.size(0), horizons.horizon, graphs.sample_dim};
  const auto draw_noise = [&] { return noise.Randn(StreamId::kPolicyNoise, shape); };
  const auto denoise = [&](const Tensor& sample, std::size_t i) {
    const Tensor times =
        torch::full({sample.size(0)}, graphs.sampling.steps[i].time, torch::kFloat32);
    if (graphs.sampling.inpaints_obs) return runtime.Denoise({sample, times});
    return runtime.Denoise({sample, times, condition});
  };
  const Tensor initial = graphs.sampling.starts_from_noise ? draw_noise() : torch::zeros(shape);
  const Tensor sequence = policy::RunSamplingPlan(graphs.sampling, initial, condition,
                                                  {.denoise = denoise, .draw_noise = draw_noise});
  const Tensor chunk = sequence.slice(2, 0, graphs.spec.shape_meta.action_dim())
                           .narrow(1, horizons.n_obs_steps - 1, horizons.n_action_steps);
  const Tensor offset = torch::tensor(graphs.action_offset, torch::kFloat32);
  const Tensor scale = torch::tensor(graphs.action_scale, torch::kFloat32);
  return (chunk - offset) / scale;
}

}  // namespace dp_bench::graph
