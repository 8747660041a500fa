// A trial of a batch is a whole step: loss, gradients, optimizer, averaged weights.
#include "task/auto_settings.h"

#include <fmt/format.h>

#include <new>

#include "core/console.h"
#include "core/memory.h"
#include "dp_bench/policy.h"
#include "policy/device.h"
#include "train/batches.h"
#include "train/fit_normalizer.h"
#include "train/step_memory.h"
#include "train/step_timer.h"
#include "train/train_config.h"
#include "train/train_step.h"

namespace dp_bench::task {
namespace {

constexpr int kMaxTrials = 16;
constexpr double kUsableShare = 0.8;  // of the free memory

void SetNeutralNormalizer(const Experiment& experiment, Policy& policy) {
  policy.SetNormalizer(train::NeutralNormalizer(
      experiment.spec().shape_meta,
      train::NormalizerConfig::FromConfig(experiment.config().Sub("normalizer"))));
}

// On the CPU, whether a training with this batch would leave memory for the rest. Without a trial,
// because Linux grants memory that it does not have and ends the process later.
class CpuEstimate {
 public:
  CpuEstimate(const Experiment& experiment, const train::TrainingConfig& training, int n_ranks)
      : usable_(kUsableShare * static_cast<double>(core::AvailableMemory()) / n_ranks),
        policy_(experiment.CreatePolicy()) {
    SetNeutralNormalizer(experiment, *policy_);
    held_ =
        train::MeasureHeldMemory(
            policy_->module(), training.use_ema,
            train::CheckpointConfig::FromConfig(experiment.config().Sub("checkpoint")).background,
            train::OptimizerConfig::FromConfig(experiment.config().Sub("optimizer")))
            .total();
    model_ = std::make_unique<train::StepMemoryModel>(*policy_, training.mixed_precision);
  }

  bool Fits(std::int64_t n_rows) const {
    if (usable_ <= 0.0) return true;  // unknown
    return static_cast<double>(held_ + model_->At(n_rows).total()) <= usable_;
  }

 private:
  double usable_;
  std::unique_ptr<Policy> policy_;
  std::int64_t held_ = 0;
  std::unique_ptr<train::StepMemoryModel> model_;
};

void TakeTrialStep(const Experiment& experiment, std::int64_t n_rows) {
  core::SingleProcess alone;
  train::DataParallel parallel(alone);
  std::optional<train::GradScalerState> scaler;
  const torch::Device device = experiment.device();
  train::TrainStep step({.config = experiment.config(),
                         .create_policy = [&] { return experiment.CreatePolicy(); },
                         .device = device,
                         .parallel = parallel,
                         .grad_scaler = scaler});
  SetNeutralNormalizer(experiment, step.policy());
  step.StartGradScaler();
  step.policy().module().train();
  data::HostBatch host = train::SyntheticBatch(step.policy(), n_rows);
  host.indices.resize(static_cast<std::size_t>(n_rows));
  train::StepTimer timer([] { return 0.0; }, [device] { policy::Synchronize(device); });
  step.Run(host, {.window_rows = n_rows}, timer);
  policy::Synchronize(device);
}

bool IsTrialPassed(const Experiment& experiment, std::int64_t n_rows) {
  try {
    TakeTrialStep(experiment, n_rows);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const c10::Error& error) {
    if (!policy::IsOutOfMemory(error)) throw;
    return false;
  }
}

void ResolvePrecision(ExperimentOptions* options, core::Communicator& ranks) {
  const Experiment experiment(*options);
  if (!train::IsAutoPrecision(experiment.config().Sub("training"))) return;
  const bool is_slow = !policy::HasFastBfloat16(experiment.device());
  const bool is_slow_somewhere = ranks.AllReduceMax(is_slow ? 1 : 0) != 0;
  const char* precision = is_slow_somewhere ? "no" : "bf16";
  options->overrides.push_back(fmt::format("training.mixed_precision={}", precision));
  if (!ranks.is_root()) return;
  core::LogInfo(fmt::format("training.mixed_precision: {}, because {} fast bfloat16 products",
                            precision, is_slow_somewhere ? "not every device has" : "there are"));
}

void ResolveBatch(ExperimentOptions* options, core::Communicator& ranks) {
  const Experiment experiment(*options);
  const Config& config = experiment.config();
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  if (!training.auto_batch) return;
  const std::int64_t batch_size =
      train::DataLoaderConfig::FromConfig(config.Sub("dataloader"), true).batch_size;
  std::optional<CpuEstimate> estimate;
  if (experiment.device().is_cpu()) estimate.emplace(experiment, training, ranks.size());
  const auto fits = [&](std::int64_t n) {
    const std::int64_t n_rows = (n + ranks.size() - 1) / ranks.size();
    const bool is_refused =
        (estimate && !estimate->Fits(n_rows)) || !IsTrialPassed(experiment, n_rows);
    return ranks.AllReduceMax(is_refused ? 1 : 0) == 0;
  };
  const std::optional<std::int64_t> found = LargestFittingBatch(batch_size, fits);
  if (!found) throw core::OutOfMemory("not even a batch of one sample fits (training.auto_batch)");

  const std::int64_t n_parts = batch_size / *found;
  const auto set = [&](const char* key, std::int64_t value) {
    options->overrides.push_back(fmt::format("{}={}", key, value));
  };
  set("dataloader.batch_size", *found);
  set("training.gradient_accumulate_every", n_parts * training.gradient_accumulate_every);
  if (training.max_train_steps)
    set("training.max_train_steps", n_parts * *training.max_train_steps);
  options->overrides.emplace_back("training.auto_batch=false");
  if (!ranks.is_root()) return;
  core::LogInfo(
      fmt::format("training.auto_batch: a batch of {} fits; dataloader.batch_size={} "
                  "training.gradient_accumulate_every={} keep {} samples for an update",
                  *found, *found, n_parts * training.gradient_accumulate_every,
                  batch_size * training.gradient_accumulate_every));
}

}  // namespace

std::optional<std::int64_t> LargestFittingBatch(std::int64_t batch_size,
                                                const std::function<bool(std::int64_t)>& fits) {
  int n_trials = 0;
  for (std::int64_t n = batch_size; n >= 1; --n) {
    if (batch_size % n != 0) continue;
    // the last trial is for the smallest batch
    const std::int64_t tried = ++n_trials < kMaxTrials ? n : 1;
    if (fits(tried)) return tried;
    if (n_trials == kMaxTrials) break;
  }
  return std::nullopt;
}

void ResolveAutoSettings(ExperimentOptions* options, core::Communicator& ranks) {
  ResolvePrecision(options, ranks);
  ResolveBatch(options, ranks);
}

}  // namespace dp_bench::task
