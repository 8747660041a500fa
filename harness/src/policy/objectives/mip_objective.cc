// See mip_objective.h.
#include "policy/objectives/mip_objective.h"

#include <ATen/record_function.h>

namespace dp_bench::policy {

using torch::Tensor;

MipConfig MipConfig::FromConfig(const Config& config) {
  MipConfig c;
  c.t_star = config.GetInRange("t_star", c.t_star, 0.01, 0.99,
                               "time of the second pass; in training it sees the action with noise "
                               "of deviation 1 - t_star");
  return c;
}

std::vector<TrainingPass> MipObjective::Corrupt(const TrainingInputs& inputs) const {
  const Tensor& x_0 = inputs.x_0;
  const Tensor epsilon = inputs.noise.Randn(StreamId::kTrainingNoise, x_0.sizes()).to(x_0.device());
  const double t = config_.t_star;
  const Tensor ones = torch::ones({x_0.size(0)}, x_0.options());
  return {{.noisy = torch::zeros_like(x_0),
           .times = torch::zeros_like(ones),
           .target = x_0,
           .row_weights = ones / (t * t)},
          {.noisy = x_0 + epsilon * (1.0 - t),
           .times = ones * (t * kNetworkTime),
           .target = x_0,
           .noise = epsilon,
           .row_weights = ones / ((1.0 - t) * (1.0 - t))}};
}

std::vector<double> MipObjective::times() const { return {0.0, config_.t_star * kNetworkTime}; }

std::vector<SamplerStep> MipObjective::steps() const {
  std::vector<SamplerStep> steps;
  for (const double time : times()) {
    steps.push_back({.time = time, .x0_from_output = 1.0, .next_from_x0 = 1.0});
  }
  return steps;
}

Tensor MipObjective::Initial(NoiseSource& /*noise*/, at::IntArrayRef shape) const {
  return torch::zeros(shape);
}

Tensor MipObjective::Sample(const Tensor& initial, const SamplingTools& tools) const {
  Tensor sequence = initial;
  for (std::size_t pass = 0; pass < 2; ++pass) {
    RECORD_USER_SCOPE("denoising step");
    TraceTime(pass == 0 ? 0.0 : config_.t_star);
    sequence = tools.predict(tools.restore_obs(sequence), pass);
    TraceSample(sequence, sequence, tools);
  }
  return sequence;
}

}  // namespace dp_bench::policy
