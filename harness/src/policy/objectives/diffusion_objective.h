// Denoising diffusion (Ho et al. 2020): the network learns to predict the noise in an action
// sequence, the sequence, or the velocity between them.
#pragma once

#include <torch/types.h>

#include <vector>

#include "dp_bench/config.h"
#include "policy/noise_scheduler.h"
#include "policy/objectives/objective.h"

namespace dp_bench::policy {

class DiffusionObjective final : public Objective {
 public:
  /// Reads noise_scheduler and the loss weighting by timestep from the params of a policy.
  explicit DiffusionObjective(const Config& params);

  /// DDPM Alg. 1 and eq. 14: one pass at a random timestep per row.
  std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const override;
  const char* prediction_name() const override;

  /// The reverse process with the sampler of noise_scheduler.type.
  std::vector<SamplerStep> steps() const override { return scheduler_.steps(); }

  const NoiseScheduler& scheduler() const { return scheduler_; }

 private:
  NoiseScheduler scheduler_;
  torch::Tensor timestep_weights_;  // [num_train_timesteps]; undefined: equal weight
};

}  // namespace dp_bench::policy
