// See inspect_policy.h.
#include "app/inspect/inspect_policy.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "core/available_memory.h"
#include "dp_bench/error.h"
#include "train/device_batch.h"
#include "train/fit_normalizer.h"
#include "train/synthetic_batch.h"
#include "train/train_config.h"

namespace dp_bench {
namespace {

std::vector<Stage> TraceLoss(Policy& policy, std::int64_t batch_size) {
  HostBatch host = SyntheticBatch(policy.spec(), batch_size);
  const Batch batch = ToBatch(host, policy.spec().shape_meta, torch::kCPU);
  NoiseSource noise = BatchNoise(/*seed=*/0, NoisePurpose::kTraining, /*number=*/0, batch_size);
  policy.module().train();
  const StageRecorder recorder;
  policy.ComputeLoss(batch, noise);
  return recorder.stages();
}

// A step of a batch size that the user asks for is only run where it fits.
void RequireRoom(const StepMemory& step, const char* option) {
  const std::int64_t free = AvailableMemory();
  if (free == 0 || step.total() <= free) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("{} {}: a step of this size needs {:.0f} MiB, {:.0f} are free. Give a "
                          "smaller one; the memory of a larger one is estimated without it.",
                          option, step.batch_size, Mebibytes(step.total()), Mebibytes(free)));
}

void InspectMemory(Policy& policy, const StepMemoryModel& memory,
                   const PolicyInspectionOptions& options, PolicyInspection* inspection) {
  inspection->measured = memory.measured();
  for (const std::int64_t batch_size : options.batch_sizes) {
    inspection->steps.push_back(memory.At(batch_size));
  }
  if (!options.checked_batch_size) return;
  const StepMemory estimated =
      EstimateStepMemory(memory.measured()[0], memory.measured()[1], *options.checked_batch_size);
  RequireRoom(estimated, "--check");
  inspection->check = {.estimated = estimated,
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

  const StepMemoryModel memory(*policy);
  RequireRoom(memory.At(options.batch_size), "--batch-size");
  PolicyInspection inspection = {.policy = config.Sub("policy").Get<std::string>("plugin"),
                                 .task = experiment.name(),
                                 .batch_size = options.batch_size,
                                 .stages = TraceLoss(*policy, options.batch_size),
                                 .modules = ModuleSizes(policy->module(), options.n_levels),
                                 .n_parameters = NumParameters(policy->module())};
  const bool copies_checkpoints = CheckpointConfig::FromConfig(config.Sub("checkpoint")).background;
  inspection.held = MeasureHeldMemory(policy->module(), training.use_ema, copies_checkpoints);
  InspectMemory(*policy, memory, options, &inspection);
  return inspection;
}

}  // namespace dp_bench
