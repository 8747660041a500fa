// See graph_runtime.h.
#include "graph/graph_runtime.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

#include <utility>

#include "dp_bench/stage_trace.h"

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

// Adds factor * x to `sum`. A term of factor 0 is left out, as its tensor may not exist.
void AddTerm(Tensor* sum, double factor, const Tensor& x) {
  if (factor == 0.0) return;
  *sum = sum->defined() ? *sum + x * factor : x * factor;
}

// The last channels of the first steps get the observations.
Tensor RestoreObs(const Tensor& sample, const Tensor& condition) {
  Tensor restored = sample.clone();
  const std::int64_t action_dim = sample.size(2) - condition.size(2);
  restored.slice(2, action_dim).slice(1, 0, condition.size(1)).copy_(condition);
  return restored;
}

}  // namespace

std::unique_ptr<GraphRuntime> MakeTorchScriptRuntime(const PolicyGraphs& graphs) {
  return std::make_unique<TorchScriptRuntime>(graphs);
}

Tensor RunSamplingPlan(const policy::SamplingPlan& plan, const Tensor& initial,
                       const Tensor& condition, const SamplingCalls& calls) {
  const auto restored = [&](const Tensor& x) {
    return plan.inpaints_obs ? RestoreObs(x, condition) : x;
  };
  TraceStage("noise", initial);
  Tensor sample = initial;
  Tensor last_sample;
  Tensor last_x_0;
  for (const policy::SamplerStep& step : plan.steps) {
    if (IsTracingStages()) TraceStage("timestep", torch::tensor(step.time));
    sample = restored(sample);
    const Tensor output = calls.denoise(sample, step.time);
    Tensor x_0;
    AddTerm(&x_0, step.x0_from_output, output);
    AddTerm(&x_0, step.x0_from_sample, sample);
    if (step.clip) x_0 = x_0.clamp(-*step.clip, *step.clip);

    Tensor next;
    AddTerm(&next, step.next_from_x0, x_0);
    AddTerm(&next, step.next_from_sample, sample);
    AddTerm(&next, step.next_from_output, output);
    AddTerm(&next, step.next_from_last_x0, last_x_0);
    AddTerm(&next, step.next_from_last_sample, last_sample);
    if (step.noise > 0.0) AddTerm(&next, step.noise, calls.draw_noise());
    last_sample = std::exchange(sample, std::move(next));
    last_x_0 = std::move(x_0);
    TraceStage("sample", sample);
  }
  return restored(sample);
}

Tensor PredictWithGraphs(const PolicyGraphs& graphs, GraphRuntime& runtime, const TensorMap& obs,
                         NoiseSource& noise) {
  std::vector<Tensor> inputs;
  for (const EncoderInput& input : graphs.observations) inputs.push_back(obs.at(input.key.name));
  const Tensor condition = runtime.Encode(inputs);
  const Horizons& horizons = graphs.spec.horizons;
  const std::vector<std::int64_t> shape = {condition.size(0), horizons.horizon, graphs.sample_dim};
  const auto draw_noise = [&] { return noise.Randn(StreamId::kPolicyNoise, shape); };
  const auto denoise = [&](const Tensor& sample, double time) {
    const Tensor times = torch::full({sample.size(0)}, time, torch::kFloat32);
    if (graphs.sampling.inpaints_obs) return runtime.Denoise({sample, times});
    return runtime.Denoise({sample, times, condition});
  };
  const Tensor initial = graphs.sampling.starts_from_noise ? draw_noise() : torch::zeros(shape);
  const Tensor sequence = RunSamplingPlan(graphs.sampling, initial, condition,
                                          {.denoise = denoise, .draw_noise = draw_noise});
  const Tensor chunk = sequence.slice(2, 0, graphs.spec.shape_meta.action_dim())
                           .narrow(1, horizons.n_obs_steps - 1, horizons.n_action_steps);
  const Tensor offset = torch::tensor(graphs.action_offset, torch::kFloat32);
  const Tensor scale = torch::tensor(graphs.action_scale, torch::kFloat32);
  return (chunk - offset) / scale;
}

}  // namespace dp_bench::graph
