#include "task/dry_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "config/dataset_format.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/machine.h"
#include "core/stop_signal.h"
#include "core/temporary_folder.h"
#include "data/collector.h"
#include "dp_bench/policy.h"
#include "run/checkpoint.h"
#include "task/collection.h"
#include "train/fit_normalizer.h"
#include "train/step_memory.h"
#include "train/train_config.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;

constexpr int kEpisodes = 2;       // to collect
constexpr int kRolloutChunks = 2;  // action chunks of the rollout

// The same experiment, as short as possible.
ExperimentOptions Shortened(ExperimentOptions options, const Experiment& asked) {
  const std::int64_t max_steps = kRolloutChunks * asked.spec().horizons.n_action_steps;
  for (const char* value :
       {"training.num_epochs=1", "training.max_train_steps=2", "training.max_val_steps=1",
        "training.lr_warmup_steps=0", "training.rollout_every=1", "training.sample_every=1",
        "training.checkpoint_every=1", "env_runner.n_train=0", "env_runner.n_test=1",
        "env_runner.n_videos=0"}) {
    options.overrides.emplace_back(value);
  }
  options.overrides.push_back(fmt::format("env_runner.max_steps={}", max_steps));
  return options;
}

// Collects a few episodes instead of each dataset that is not there yet. Returns false if
// interrupted.
bool CollectSome(const Experiment& asked, const fs::path& folder, ExperimentOptions* options) {
  if (!asked.is_collected()) return true;
  const std::vector<const Task*> tasks = asked.CollectedTasks();
  const bool is_mixture = tasks.front() != &asked;
  if (is_mixture) options->overrides.emplace_back("dataset.mixture.tasks=[]");
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    data::CollectRequest request = tasks[i]->MakeCollectRequest();
    if (!data::FindCollection(request)) {
      request.config.n_episodes = std::min(request.config.n_episodes, kEpisodes);
      request.output = folder / fmt::format("demonstrations_{}.zarr", i);
      options->overrides.emplace_back("dataset.val_ratio=0");
      if (!RunCollection(*tasks[i], request, core::CatchStopSignals())) return false;
    }
    const std::string path = request.output.string();
    if (is_mixture) {
      const std::string source = fmt::format("dataset.mixture.datasets.tried_{}", i);
      options->overrides.push_back(fmt::format("{}.path={}", source, path));
      options->overrides.push_back(fmt::format("{}.task={}", source, tasks[i]->env_task()));
    } else if (request.output.parent_path() == folder) {
      options->overrides.push_back(fmt::format("dataset.plugin={}", config::kReplayPlugin));
      options->overrides.push_back("dataset.params.path=" + path);
    }
  }
  return true;
}

std::uintmax_t BytesBelow(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

// Counts the k best, those that are kept permanently, the latest, and one that is being written.
void ReportDisk(const Experiment& asked, const fs::path& tried, const fs::path& parent) {
  const auto config = train::CheckpointConfig::FromConfig(asked.config().Sub("checkpoint"));
  const auto training = train::TrainingConfig::FromConfig(asked.config().Sub("training"));
  // epochs 0, n, 2n, ... and the last one
  const int n_kept = config.keep_every > 0
                         ? (training.num_epochs + config.keep_every - 2) / config.keep_every + 1
                         : 0;
  const int n_named = static_cast<int>(std::ssize(config.save_at));
  const int n_checkpoints = config.topk.k + n_kept + n_named + 2;
  const std::uintmax_t one = BytesBelow(tried / "checkpoints" / run::kLatest);
  const std::uintmax_t needed = one * static_cast<std::uintmax_t>(n_checkpoints);
  const std::uintmax_t free = fs::space(parent).available;
  core::PrintResult("disk    {:>9.1f} MiB for {} checkpoints of {:.1f} MiB; '{}' has {:.0f} MiB\n",
                    train::Mebibytes(static_cast<std::int64_t>(needed)), n_checkpoints,
                    train::Mebibytes(static_cast<std::int64_t>(one)), parent.string(),
                    train::Mebibytes(static_cast<std::int64_t>(free)));
  if (needed <= free) return;
  throw IoError(
      "'{}' has {} bytes free, the checkpoints of this run need {}. Free some, choose another "
      "--output, or keep fewer of them: checkpoint.topk.k, checkpoint.keep_every.",
      parent.string(), free, needed);
}

struct MemoryNeed {
  std::int64_t batch_size = 0;
  std::int64_t small_batch_size = 0;  // of a measured step
  std::int64_t bytes = 0;             // on the CPU, without the dataset

  bool fits() const { return core::AvailableMemory() == 0 || bytes <= core::AvailableMemory(); }
};

// Estimates the memory of the requested batch size from smaller ones.
MemoryNeed EstimateMemory(const Experiment& asked) {
  const Config& config = asked.config();
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  const auto loader = train::DataLoaderConfig::FromConfig(config.Sub("dataloader"), true);
  const std::unique_ptr<Policy> policy = asked.CreatePolicy();
  policy->SetNormalizer(train::NeutralNormalizer(
      asked.spec().shape_meta, train::NormalizerConfig::FromConfig(config.Sub("normalizer"))));
  const train::HeldMemory held = train::MeasureHeldMemory(policy->module(), config);
  const train::StepMemoryModel memory(*policy, training.mixed_precision);
  return {.batch_size = loader.batch_size,
          .small_batch_size = memory.measured()[0].batch_size,
          .bytes = held.total() + memory.At(loader.batch_size).total()};
}

void ReportMemory(const MemoryNeed& need) {
  core::PrintResult(
      "memory  {:>9.1f} MiB for networks, optimizer and a step of batch size {} on the CPU, "
      "without the dataset; {:.0f} MiB are free\n",
      train::Mebibytes(need.bytes), need.batch_size, train::Mebibytes(core::AvailableMemory()));
  if (need.fits()) return;
  core::PrintResult(
      "WARNING: that is more than is free, so the parts were tried with a batch size of {}. Lower "
      "dataloader.batch_size; training.gradient_accumulate_every compensates.\n",
      need.small_batch_size);
}

// Limits the batches of a dry run to the available memory.
void ShrinkBatches(const Experiment& asked, const MemoryNeed& need, ExperimentOptions* options) {
  if (need.fits()) return;
  for (const char* section : {"dataloader", "val_dataloader"}) {
    if (!asked.config().Has(section)) continue;
    options->overrides.push_back(fmt::format("{}.batch_size={}", section, need.small_batch_size));
  }
}

}  // namespace

int DryRun(const ExperimentOptions& options, const fs::path& parent, const TrainOnce& train_once) {
  const core::TemporaryFolder folder;
  const Experiment asked(options);
  PrintReferences(asked);
  ExperimentOptions shortened = Shortened(options, asked);
  const MemoryNeed need = EstimateMemory(asked);
  ShrinkBatches(asked, need, &shortened);
  if (!CollectSome(asked, folder.path(), &shortened)) return core::kExitInterrupted;
  const fs::path run = folder.path() / "run";
  if (const int result = train_once(shortened, run); result != 0) return result;

  core::PrintResult("\ndry run: every part works. The whole run needs\n");
  ReportDisk(asked, run, fs::exists(parent) ? parent : fs::current_path());
  ReportMemory(need);
  return 0;
}

}  // namespace dp_bench::task
