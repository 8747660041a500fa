// See diffusion_objective.h.
#include "policy/objectives/diffusion_objective.h"

#include <ATen/record_function.h>

#include <optional>

#include "dp_bench/error.h"
#include "dp_bench/stage_trace.h"
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
  switch (scheduler_.config().prediction_type) {
    case PredictionType::kEpsilon:
      return "predicted noise";
    case PredictionType::kSample:
      return "predicted action";
    case PredictionType::kVPrediction:
      return "predicted velocity";
  }
  return "prediction";
}

std::vector<double> DiffusionObjective::times() const {
  return {scheduler_.timesteps().begin(), scheduler_.timesteps().end()};
}

std::vector<SamplerStep> DiffusionObjective::steps() const {
  std::vector<SamplerStep> steps;
  const std::vector<std::int64_t>& timesteps = scheduler_.timesteps();
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    const std::vector<SamplerStep> of_timestep = scheduler_.StepAsNumbers(timesteps[i], i > 0);
    steps.insert(steps.end(), of_timestep.begin(), of_timestep.end());
  }
  return steps;
}

Tensor DiffusionObjective::Sample(const Tensor& initial, const SamplingTools& tools) const {
  const std::vector<std::int64_t>& timesteps = scheduler_.timesteps();
  Tensor sequence = initial;
  Tensor last_x_0;
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    RECORD_USER_SCOPE("denoising step");
    if (IsTracingStages()) TraceStage("timestep", torch::tensor(timesteps[i]));
    sequence = tools.restore_obs(sequence);
    const Tensor prediction = tools.predict(sequence, i);
    Tensor variance_noise;
    if (scheduler_.NeedsNoise(timesteps[i])) {
      variance_noise =
          tools.noise.Randn(StreamId::kPolicyNoise, sequence.sizes()).to(sequence.options());
    }
    if (IsTracingStages()) {
      const Tensor action_noise =
          variance_noise.defined() ? ActionChannels(variance_noise, tools) : Tensor();
      const auto step = scheduler_.Step(ActionChannels(prediction, tools), timesteps[i],
                                        ActionChannels(sequence, tools), action_noise,
                                        /*count_clipped=*/true);
      TraceStage("denoised action", step.pred_original_sample);
      TraceStage("clipped values", step.n_clipped);
    }
    const auto step = scheduler_.Step(prediction, timesteps[i], sequence, variance_noise,
                                      /*count_clipped=*/false, last_x_0);
    last_x_0 = step.pred_original_sample;
    if (scheduler_.CorrectedAt(timesteps[i])) {
      const Tensor predicted = tools.restore_obs(step.prev_sample);
      sequence =
          scheduler_.Correct(tools.predict(predicted, i + 1), timesteps[i], sequence, predicted);
    } else {
      sequence = step.prev_sample;
    }
    if (IsTracingStages()) TraceStage("sample", ActionChannels(sequence, tools));
  }
  return sequence;
}

}  // namespace dp_bench::policy
