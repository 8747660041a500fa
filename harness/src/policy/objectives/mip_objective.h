// The minimal iterative policy (MIP, arXiv 2512.01809): the network predicts the action sequence
// from nothing, and once more from its first answer. Sampling draws no noise.
#pragma once

#include <torch/types.h>

#include <vector>

#include "dp_bench/config.h"
#include "policy/objectives/objective.h"

namespace dp_bench::policy {

struct MipConfig {
  double t_star = 0.9;  // the time of the second pass

  static MipConfig FromConfig(const Config& config);
};

class MipObjective final : public Objective {
 public:
  explicit MipObjective(const MipConfig& config) : config_(config) {}

  /// Two passes, f(0, 0) and f(x_0 + (1 - t*) noise, t*), whose squared errors are divided by t*^2
  /// and (1 - t*)^2.
  std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const override;
  const char* prediction_name() const override { return "predicted action"; }
  std::vector<double> times() const override;
  std::vector<SamplerStep> steps() const override;
  bool starts_from_noise() const override { return false; }

  /// Zeros.
  torch::Tensor Initial(NoiseSource& noise, at::IntArrayRef shape) const override;
  torch::Tensor Sample(const torch::Tensor& initial, const SamplingTools& tools) const override;

 private:
  MipConfig config_;
};

}  // namespace dp_bench::policy
