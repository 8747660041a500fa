// See diffusion_objective.h.
#include "policy/objectives/diffusion_objective.h"

#include <array>

#include "policy/networks/loss_weights.h"

namespace dp_bench::policy {

using torch::Tensor;

DiffusionObjective::DiffusionObjective(const Config& params)
    : scheduler_(NoiseSchedulerConfig::FromConfig(params.Sub("noise_scheduler"))),
      timestep_weights_(ReadTimestepWeights(params, scheduler_)) {}

std::vector<TrainingPass> DiffusionObjective::Corrupt(const TrainingInputs& inputs) const {
  const Tensor& x_0 = inputs.x_0;
  const Tensor epsilon = inputs.noise.Randn(StreamId::kTrainingNoise, x_0.sizes()).to(x_0.device());
  const Tensor timesteps =
      inputs.noise.RandInt(StreamId::kDiffusionTimestep, scheduler_.config().num_train_timesteps)
          .to(x_0.device());
  TrainingPass pass = {.noisy = scheduler_.AddNoise(x_0, epsilon, timesteps),
                       .times = timesteps,
                       .target = scheduler_.Target(x_0, epsilon, timesteps),
                       .noise = epsilon};
  if (timestep_weights_.defined()) {
    pass.row_weights = timestep_weights_.to(x_0.device()).index_select(0, timesteps);
  }
  return {pass};
}

const char* DiffusionObjective::prediction_name() const {
  constexpr std::array kNames = {"predicted noise", "predicted action", "predicted velocity"};
  return kNames.at(static_cast<std::size_t>(scheduler_.config().prediction_type));
}

}  // namespace dp_bench::policy
