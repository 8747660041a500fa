// See inspect_policy.h.
#include "inspect/inspect_policy.h"

#include <fmt/format.h>

#include <memory>

#include "core/memory.h"
#include "dp_bench/error.h"
#include "train/device_batch.h"
#include "train/fit_normalizer.h"
#include "train/synthetic_batch.h"
#include "train/train_config.h"

namespace dp_bench::inspect {
namespace {

std::vector<policy::Stage> TraceLoss(Policy& policy, std::int64_t batch_size) {
  data::HostBatch host = train::SyntheticBatch(policy, batch_size);
  const Batch batch = train::ToBatch(host, policy.spec().shape_meta, torch::kCPU);
  NoiseSource noise =
      train::BatchNoise(/*seed=*/0, train::NoisePurpose::kTraining, /*number=*/0, batch_size);
  policy.module().train();
  const policy::StageRecorder recorder;
  policy.ComputeLoss(batch, noise);
  return recorder.stages();
}

// Runs a step of the requested batch size only if it fits in memory.
void RequireRoom(const train::StepMemory& step, const char* option) {
  const std::int64_t free = core::AvailableMemory();
  if (free == 0 || step.total() <= free) return;
  throw Error(
      ErrorCode::kUsage,
      fmt::format("{} {}: a step of this size needs {:.0f} MiB, {:.0f} MiB are free. Give a "
                  "smaller one; larger sizes are estimated without a check.",
                  option, step.batch_size, train::Mebibytes(step.total()), train::Mebibytes(free)));
}

void InspectMemory(Policy& policy, const train::StepMemoryModel& memory,
                   const PolicyInspectionOptions& options, PolicyInspection* inspection) {
  inspection->measured = memory.measured();
  for (const std::int64_t batch_size : options.batch_sizes) {
    inspection->steps.push_back(memory.At(batch_size));
  }
  if (!options.checked_batch_size) return;
  const train::StepMemory estimated = train::EstimateStepMemory(
      memory.measured()[0], memory.measured()[1], *options.checked_batch_size);
  RequireRoom(estimated, "--check");
  inspection->check = {.estimated = estimated,
                       .measured = train::MeasureStepMemory(policy, *options.checked_batch_size)};
}

}  // namespace

PolicyInspection InspectPolicy(const experiment::Experiment& experiment,
                               const PolicyInspectionOptions& options) {
  const Config& config = experiment.config();
  const auto normalizer = train::NormalizerConfig::FromConfig(config.Sub("normalizer"));
  config.Sub("normalizer").RejectUnread();
  const std::unique_ptr<Policy> policy = experiment.CreatePolicy();
  policy->SetNormalizer(train::NeutralNormalizer(experiment.spec().shape_meta, normalizer));

  const train::StepMemoryModel memory(*policy);
  RequireRoom(memory.At(options.batch_size), "--batch-size");
  PolicyInspection inspection = {.policy = config.Sub("policy").Get<std::string>("plugin"),
                                 .task = experiment.name(),
                                 .batch_size = options.batch_size,
                                 .stages = TraceLoss(*policy, options.batch_size),
                                 .modules = train::ModuleSizes(policy->module(), options.n_levels),
                                 .n_parameters = train::NumParameters(policy->module())};
  inspection.held = train::MeasureHeldMemory(policy->module(), config);
  InspectMemory(*policy, memory, options, &inspection);
  return inspection;
}

}  // namespace dp_bench::inspect
