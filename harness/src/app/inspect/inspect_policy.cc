// See inspect_policy.h.
#include "app/inspect/inspect_policy.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "train/device_batch.h"
#include "train/fit_normalizer.h"
#include "train/synthetic_batch.h"
#include "train/train_config.h"

namespace dp_bench {
namespace {

constexpr std::int64_t kMeasuredBytes = 512 << 20;  // of the larger step, roughly

std::vector<Stage> TraceLoss(Policy& policy, std::int64_t batch_size) {
  HostBatch host = SyntheticBatch(policy.spec(), batch_size);
  const Batch batch = ToBatch(host, policy.spec().shape_meta, torch::kCPU);
  NoiseSource noise = BatchNoise(/*seed=*/0, NoisePurpose::kTraining, /*number=*/0, batch_size);
  policy.module().train();
  const StageRecorder recorder;
  policy.ComputeLoss(batch, noise);
  return recorder.stages();
}

// Two steps for a straight line, at batch sizes as large as memory and a few seconds allow: at
// small ones the parameters decide when the peak is, not the batch.
std::vector<StepMemory> MeasureTwoSteps(Policy& policy) {
  const StepMemory one_row = MeasureStepMemory(policy, 1);
  const std::int64_t per_row = MeasureStepMemory(policy, 2).total() - one_row.total();
  std::int64_t batch_size = 32;
  while (batch_size > 2 && 2 * batch_size * per_row > kMeasuredBytes) batch_size /= 2;
  return {MeasureStepMemory(policy, batch_size), MeasureStepMemory(policy, 2 * batch_size)};
}

// Measured where that is cheap.
StepMemory StepOf(Policy& policy, const std::vector<StepMemory>& measured,
                  std::int64_t batch_size) {
  const auto known = std::ranges::find(measured, batch_size, &StepMemory::batch_size);
  if (known != measured.end()) return *known;
  if (batch_size < measured[1].batch_size) return MeasureStepMemory(policy, batch_size);
  return EstimateStepMemory(measured[0], measured[1], batch_size);
}

void InspectMemory(Policy& policy, const PolicyInspectionOptions& options,
                   PolicyInspection* inspection) {
  const std::vector<StepMemory> measured = MeasureTwoSteps(policy);
  inspection->measured = measured;
  for (const std::int64_t batch_size : options.batch_sizes) {
    inspection->steps.push_back(StepOf(policy, measured, batch_size));
  }
  if (!options.checked_batch_size) return;
  inspection->check = {
      .estimated = EstimateStepMemory(measured[0], measured[1], *options.checked_batch_size),
      .measured = MeasureStepMemory(policy, *options.checked_batch_size)};
}

}  // namespace

double MemoryCheck::deviation() const {
  return std::abs(static_cast<double>(estimated.total()) / static_cast<double>(measured.total()) -
                  1.0);
}

PolicyInspection InspectPolicy(const Experiment& experiment,
                               const PolicyInspectionOptions& options) {
  const Config& config = experiment.config();
  const auto training = TrainingConfig::FromConfig(config.Sub("training"));
  const auto normalizer = NormalizerConfig::FromConfig(config.Sub("normalizer"));
  config.Sub("normalizer").RejectUnread();
  const std::unique_ptr<Policy> policy = experiment.CreatePolicy();
  policy->SetNormalizer(NeutralNormalizer(experiment.spec().shape_meta, normalizer));

  PolicyInspection inspection = {.policy = config.Sub("policy").Get<std::string>("plugin"),
                                 .task = experiment.name(),
                                 .batch_size = options.batch_size,
                                 .stages = TraceLoss(*policy, options.batch_size),
                                 .modules = ModuleSizes(policy->module(), options.n_levels),
                                 .n_parameters = NumParameters(policy->module())};
  const bool copies_checkpoints = CheckpointConfig::FromConfig(config.Sub("checkpoint")).background;
  inspection.held = MeasureHeldMemory(policy->module(), training.use_ema, copies_checkpoints);
  InspectMemory(*policy, options, &inspection);
  return inspection;
}

}  // namespace dp_bench
