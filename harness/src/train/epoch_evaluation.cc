#include "train/epoch_evaluation.h"

#include <algorithm>
#include <cstdint>

#include "train/device_batch.h"

namespace dp_bench::train {

std::optional<EpochResults> EpochEvaluation::Run(const EvalFn& evaluate, Policy& policy,
                                                 Policy& eval_policy, int epoch) {
  const TrainingConfig& config = parts_.config;
  eval_policy.module().eval();
  eval_policy.WeightsChanged();
  EpochResults results;
  if (evaluate && config.IsDue(config.rollout_every, epoch)) {
    results.scores = evaluate(eval_policy, epoch);
    if (!results.scores) return std::nullopt;
    results.metrics = results.scores->metrics;
  }
  if (parts_.val_loader && config.IsDue(config.val_every, epoch)) {
    results.metrics["val_loss"] = ValidationLoss(policy);
  }
  if (config.IsDue(config.sample_every, epoch)) {
    results.metrics["train_action_mse_error"] = ActionMse(eval_policy);
  }
  return results;
}

double EpochEvaluation::ValidationLoss(Policy& policy) {
  const torch::NoGradGuard no_grad;
  policy.module().eval();
  policy.WeightsChanged();  // without gradients, a network may use values cached from its weights
  data::BatchLoader& loader = *parts_.val_loader;
  loader.StartEpoch(0);
  data::HostBatch host;
  double sum = 0.0;
  std::int64_t n_samples = 0;
  for (std::int64_t i = 0; i < parts_.config.max_val_steps.value_or(loader.num_batches()); ++i) {
    if (!loader.Next(&host)) break;
    const auto n_rows = static_cast<std::int64_t>(host.indices.size());
    if (n_rows == 0) continue;  // fewer rows than ranks
    const Batch batch = ToBatch(host, policy.spec().shape_meta, parts_.device);
    // the same noise at every epoch, so that the curve shows only the weights
    NoiseSource noise = BatchNoise(parts_.config.seed, NoisePurpose::kValidation,
                                   static_cast<std::uint64_t>(i), n_rows, host.first_row);
    sum += policy.ComputeLoss(batch, noise).loss.item<double>() * static_cast<double>(n_rows);
    n_samples += n_rows;
  }
  const double mean = sum / static_cast<double>(std::max<std::int64_t>(n_samples, 1));
  return parts_.parallel.MeanOverRows(mean, n_samples);
}

double EpochEvaluation::ActionMse(Policy& policy) {
  const auto n_rows = static_cast<std::int64_t>(parts_.sampled.indices.size());
  return parts_.parallel.MeanOverRows(n_rows > 0 ? OwnActionMse(policy) : 0.0, n_rows);
}

double EpochEvaluation::OwnActionMse(Policy& policy) {
  const torch::NoGradGuard no_grad;
  const Horizons& horizons = policy.spec().horizons;
  const Batch batch = ToBatch(parts_.sampled, policy.spec().shape_meta, parts_.device);
  NoiseSource noise = BatchNoise(parts_.config.seed, NoisePurpose::kSampling, 0,
                                 batch.action.size(0), parts_.sampled.first_row);
  const torch::Tensor predicted =
      policy.PredictAction(ObservedSteps(batch.obs, horizons.n_obs_steps), noise);  // [B, Ta, Da]

  // the executed steps of the recorded sequence; differs: upstream compares all T of them
  const std::int64_t start = horizons.n_obs_steps - 1;
  const torch::Tensor recorded = batch.action.slice(1, start, start + horizons.n_action_steps);
  return torch::mse_loss(predicted.to(parts_.device), recorded).item<double>();
}

}  // namespace dp_bench::train
