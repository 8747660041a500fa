#include "train/epoch_evaluation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "policy/stage_recorder.h"
#include "train/batches.h"

namespace dp_bench::train {
namespace {

// What the log has about sampled actions, over all ranks; nothing if the policy does not denoise.
std::map<std::string, double> SamplingNumbers(const SamplingTrace& trace,
                                              const DataParallel& parallel) {
  const torch::Tensor actions = trace.samples().empty() ? torch::Tensor() : trace.samples().back();
  std::map<std::string, double> numbers = RangesOf({{"train_sample", actions}}, parallel);
  const SamplingStep own = ClippedInAll(trace.steps());
  SamplingStep all;
  const std::vector<std::int64_t> counts =
      parallel.Concatenate(std::array{own.n_clipped, own.n_values});
  for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
    all.n_clipped += counts[i];
    all.n_values += counts[i + 1];
  }
  const int n_steps = parallel.Max(static_cast<int>(trace.steps().size()));
  if (n_steps == 0) return {};
  numbers["train_sample_steps"] = n_steps;
  numbers["train_sample_clipped"] = static_cast<double>(all.n_clipped);
  numbers["train_sample_clipped_share"] = all.clipped_share();
  return numbers;
}

}  // namespace

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
  if (config.IsDue(config.sample_every, epoch)) results.metrics.merge(SampleActions(eval_policy));
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

std::map<std::string, double> EpochEvaluation::SampleActions(Policy& policy) {
  SamplingTrace trace;
  const auto n_rows = static_cast<std::int64_t>(parts_.sampled.indices.size());
  const double error =
      parts_.parallel.MeanOverRows(n_rows > 0 ? OwnActionMse(policy, &trace) : 0.0, n_rows);
  std::map<std::string, double> numbers = SamplingNumbers(trace, parts_.parallel);
  numbers["train_action_mse_error"] = error;
  return numbers;
}

double EpochEvaluation::OwnActionMse(Policy& policy, SamplingTrace* trace) {
  const torch::NoGradGuard no_grad;
  const Horizons& horizons = policy.spec().horizons;
  const Batch batch = ToBatch(parts_.sampled, policy.spec().shape_meta, parts_.device);
  NoiseSource noise = BatchNoise(parts_.config.seed, NoisePurpose::kSampling, 0,
                                 batch.action.size(0), parts_.sampled.first_row);
  const policy::StageRecorder recorder(std::bind_front(&SamplingTrace::Note, trace));
  const torch::Tensor predicted =
      policy.PredictAction(ObservedSteps(batch.obs, horizons.n_obs_steps), noise);  // [B, Ta, Da]

  // the executed steps of the recorded sequence; differs: upstream compares all T of them
  const std::int64_t start = horizons.n_obs_steps - 1;
  const torch::Tensor recorded = batch.action.slice(1, start, start + horizons.n_action_steps);
  return torch::mse_loss(predicted.to(parts_.device), recorded).item<double>();
}

}  // namespace dp_bench::train
