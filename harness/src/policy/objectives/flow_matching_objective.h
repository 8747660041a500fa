// Flow matching on straight paths (Lipman et al. 2023; Liu et al. 2023, rectified flow): the
// network learns the velocity with which an action sequence turns into noise. Settings and
// conventions are those of LeRobot.
#pragma once

#include <torch/types.h>

#include <vector>

#include "dp_bench/config.h"
#include "policy/objectives/objective.h"

namespace dp_bench::policy {

/// kNoiseAtOne: x_t = t noise + (1 - t) x_0, and the network answers noise - x_0. kNoiseAtZero: the
/// same path with 1 - t in place of t, and the network answers x_0 - noise.
enum class FlowConvention { kNoiseAtOne, kNoiseAtZero };
enum class FlowSampler { kEuler, kHeun };

/// The distribution of the noise level in training. kBeta: 1 - s + s u with u from Beta(alpha,
/// beta) (Black et al. 2024, pi_0, appendix B). kLogitNormal: 1 / (1 + exp(-n)) with normal n
/// (Esser et al. 2024, eq. 19).
enum class FlowTimeDistribution { kBeta, kUniform, kLogitNormal };

struct FlowMatchingConfig {
  FlowSampler sampler = FlowSampler::kEuler;
  int num_inference_steps = 10;
  FlowConvention convention = FlowConvention::kNoiseAtOne;
  FlowTimeDistribution time_distribution = FlowTimeDistribution::kBeta;
  double beta_alpha = 1.5;
  double beta_beta = 1.0;
  double beta_s = 0.999;
  double logit_mean = 0.0;
  double logit_std = 1.0;

  static FlowMatchingConfig FromConfig(const Config& config);
};

class FlowMatchingObjective final : public Objective {
 public:
  explicit FlowMatchingObjective(const FlowMatchingConfig& config) : config_(config) {}

  std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const override;
  const char* prediction_name() const override { return "predicted flow"; }
  std::vector<double> times() const override;
  std::vector<SamplerStep> steps() const override;

  /// Integrates the velocity from noise level 1 to 0 in equal steps.
  torch::Tensor Sample(const torch::Tensor& initial, const SamplingTools& tools) const override;

 private:
  torch::Tensor DrawNoiseLevels(NoiseSource& noise) const;  // [B] float32
  bool is_noise_at_one() const { return config_.convention == FlowConvention::kNoiseAtOne; }

  FlowMatchingConfig config_;
};

}  // namespace dp_bench::policy
