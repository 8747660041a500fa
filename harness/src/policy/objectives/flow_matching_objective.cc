// See flow_matching_objective.h.
#include "policy/objectives/flow_matching_objective.h"

#include <ATen/record_function.h>

#include <boost/math/special_functions/beta.hpp>
#include <cmath>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::policy {

using torch::Tensor;

FlowMatchingConfig FlowMatchingConfig::FromConfig(const Config& config) {
  FlowMatchingConfig c;
  c.sampler = config.GetChoice("sampler", {"euler", "heun"},
                               "how the velocity is integrated; heun evaluates the network twice "
                               "per step. It can be changed without training") == "heun"
                  ? FlowSampler::kHeun
                  : FlowSampler::kEuler;
  c.num_inference_steps = static_cast<int>(
      config.GetInRange("num_inference_steps", std::int64_t{c.num_inference_steps}, 1, 1000,
                        "steps from noise to action when actions are planned"));
  c.convention = config.GetChoice("convention", {"noise_at_one", "noise_at_zero"},
                                  "the time at which a sequence is noise; the weights depend on "
                                  "it") == "noise_at_zero"
                     ? FlowConvention::kNoiseAtZero
                     : FlowConvention::kNoiseAtOne;
  const std::string distribution =
      config.GetChoice("time_distribution", {"beta", "uniform", "logit_normal"},
                       "how noise levels from 0 to 1 are drawn in training; beta: 1 - beta_s + "
                       "beta_s * u with u from "
                       "the distribution Beta(beta_alpha, beta_beta), as pi_0");
  if (distribution == "uniform") c.time_distribution = FlowTimeDistribution::kUniform;
  if (distribution == "logit_normal") c.time_distribution = FlowTimeDistribution::kLogitNormal;
  c.beta_alpha = config.GetInRange("beta_alpha", c.beta_alpha, 0.01, 100.0,
                                   "beta only: more than beta_beta prefers noise");
  c.beta_beta = config.GetInRange("beta_beta", c.beta_beta, 0.01, 100.0, "beta only");
  c.beta_s = config.GetInRange("beta_s", c.beta_s, 0.01, 1.0,
                               "beta only: 1 minus the lowest noise level that is drawn");
  c.logit_mean = config.GetInRange("logit_mean", c.logit_mean, -10.0, 10.0,
                                   "logit_normal only: more than 0 prefers noise");
  c.logit_std = config.GetInRange("logit_std", c.logit_std, 0.01, 10.0, "logit_normal only");
  return c;
}

Tensor FlowMatchingObjective::DrawNoiseLevels(NoiseSource& noise) const {
  constexpr StreamId kStream = StreamId::kDiffusionTimestep;
  const std::int64_t rows = noise.batch_size();
  switch (config_.time_distribution) {
    case FlowTimeDistribution::kUniform:
      return noise.Uniform(kStream, {rows});
    case FlowTimeDistribution::kLogitNormal:
      return torch::sigmoid(noise.Randn(kStream, {rows}) * config_.logit_std + config_.logit_mean);
    case FlowTimeDistribution::kBeta:
      break;
  }
  // the inverse of the distribution function, row by row
  Tensor levels = noise.Uniform(kStream, {rows});
  float* level = levels.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const double u = boost::math::ibeta_inv(config_.beta_alpha, config_.beta_beta,
                                            static_cast<double>(level[row]));
    level[row] = static_cast<float>(1.0 - config_.beta_s + config_.beta_s * u);
  }
  return levels;
}

std::vector<TrainingPass> FlowMatchingObjective::Corrupt(const TrainingInputs& inputs) const {
  const Tensor& x_0 = inputs.x_0;
  const Tensor epsilon = inputs.noise.Randn(StreamId::kTrainingNoise, x_0.sizes()).to(x_0.device());
  const Tensor levels = DrawNoiseLevels(inputs.noise).to(x_0.device());
  const Tensor of_rows = levels.view({-1, 1, 1});
  return {{.noisy = of_rows * epsilon + (1.0 - of_rows) * x_0,
           .times = (is_noise_at_one() ? levels : 1.0 - levels) * kNetworkTime,
           .target = is_noise_at_one() ? epsilon - x_0 : x_0 - epsilon,
           .noise = epsilon}};
}

std::vector<double> FlowMatchingObjective::times() const {
  const int n = config_.num_inference_steps;
  std::vector<double> times;
  // Heun's method also sees the end of the last step
  for (int i = 0; i < (config_.sampler == FlowSampler::kHeun ? n + 1 : n); ++i) {
    const double done = static_cast<double>(i) / n;
    times.push_back((is_noise_at_one() ? 1.0 - done : done) * kNetworkTime);
  }
  return times;
}

std::vector<SamplerStep> FlowMatchingObjective::steps() const {
  const int n = config_.num_inference_steps;
  const double step = 1.0 / n;
  const double sign = is_noise_at_one() ? 1.0 : -1.0;
  const std::vector<double> network_times = times();
  std::vector<SamplerStep> steps;
  for (int i = 0; i < n; ++i) {
    const double level = 1.0 - static_cast<double>(i) / n;
    steps.push_back({.time = network_times[static_cast<std::size_t>(i)],
                     .x0_from_sample = 1.0,
                     .x0_from_output = -sign * level,
                     .next_from_sample = 1.0,
                     .next_from_output = -sign * step});
    if (config_.sampler != FlowSampler::kHeun) continue;
    // half of the step is done with the first velocity, half with that at its end
    const double end = level - step;
    steps.push_back({.time = network_times[static_cast<std::size_t>(i) + 1],
                     .x0_from_sample = 1.0,
                     .x0_from_output = -sign * end,
                     .next_from_sample = 0.5,
                     .next_from_output = -0.5 * sign * step,
                     .next_from_last_sample = 0.5});
  }
  return steps;
}

Tensor FlowMatchingObjective::Sample(const Tensor& initial, const SamplingTools& tools) const {
  const int n = config_.num_inference_steps;
  const double step = 1.0 / n;
  const double sign = is_noise_at_one() ? 1.0 : -1.0;
  const std::vector<double> network_times = times();
  Tensor sequence = initial;
  for (int i = 0; i < n; ++i) {
    RECORD_USER_SCOPE("denoising step");
    const auto at = static_cast<std::size_t>(i);
    TraceTime(network_times[at] / kNetworkTime);
    sequence = tools.restore_obs(sequence);
    // towards noise; products are rounded before they are added (docs/adr/0004)
    Tensor velocity = tools.predict(sequence, at) * sign;
    const double level = 1.0 - static_cast<double>(i) / n;
    const Tensor x_0 = sequence - velocity * level;
    if (config_.sampler == FlowSampler::kHeun) {
      const Tensor ahead = tools.restore_obs(sequence - velocity * step);
      velocity = (velocity + tools.predict(ahead, at + 1) * sign) * 0.5;
    }
    sequence = sequence - velocity * step;
    TraceSample(x_0, sequence, tools);
  }
  return sequence;
}

}  // namespace dp_bench::policy
