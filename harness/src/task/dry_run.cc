#include "task/dry_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/dataset_format.h"
#include "core/clock.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/json.h"
#include "core/machine.h"
#include "core/stop_signal.h"
#include "core/temporary_folder.h"
#include "data/collector.h"
#include "data/sequence_sampler.h"
#include "dp_bench/policy.h"
#include "run/checkpoint.h"
#include "task/collection.h"
#include "task/training_rig.h"
#include "train/step_memory.h"
#include "train/train_config.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;

constexpr int kEpisodes = 2;       // to collect
constexpr int kRolloutChunks = 2;  // action chunks of the rollout
constexpr int kTimedSteps = 5;     // after one that is not

// The same experiment, as short as possible.
ExperimentOptions Shortened(ExperimentOptions options, const Experiment& asked) {
  const std::int64_t max_steps = kRolloutChunks * asked.spec().horizons.n_action_steps;
  for (const char* value :
       {"training.num_epochs=1", "training.max_train_steps=2", "training.max_val_steps=1",
        "training.lr_warmup_steps=0", "training.rollout_every=1", "training.sample_every=1",
        "training.checkpoint_every=1", "checkpoint.save_at=[]", "env_runner.n_train=0",
        "env_runner.n_test=1", "env_runner.n_videos=0"}) {
    options.overrides.emplace_back(value);
  }
  options.overrides.push_back(fmt::format("env_runner.max_steps={}", max_steps));
  const auto config = nlohmann::json::parse(asked.config().ToJson());
  if (core::TextAt(config, "/env/params/success_when") == "end") {
    options.overrides.emplace_back("env.params.success_when=any");  // these steps are not its end
  }
  return options;
}

// Collects a few episodes, or as many as fill a batch, and sets their number. False if interrupted.
bool CollectABatch(const Task& task, std::int64_t batch_size, int* n_episodes,
                   data::CollectRequest request) {
  const int n_wanted = *n_episodes;
  request.config.n_episodes = std::min(n_wanted, kEpisodes);
  while (true) {
    if (!RunCollection(task, request, core::CatchStopSignals())) return false;
    const auto found = data::FindCollection(request);
    *n_episodes = request.config.n_episodes;
    if (!found || found->n_steps >= batch_size || *n_episodes >= n_wanted) return true;
    request.config.n_episodes = std::min(n_wanted, 2 * *n_episodes);
  }
}

// Collects a few episodes instead of each dataset that is not there yet. Returns how many times as
// much data the whole run has, or none if interrupted.
std::optional<double> CollectSome(const Experiment& asked, const fs::path& folder,
                                  ExperimentOptions* options) {
  if (!asked.is_collected()) return 1.0;
  double n_wanted = 0.0;
  double n_there = 0.0;
  const std::vector<const Task*> tasks = asked.CollectedTasks();
  const bool is_mixture = tasks.front() != &asked;
  if (is_mixture) options->overrides.emplace_back("dataset.mixture.tasks=[]");
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    data::CollectRequest request = tasks[i]->MakeCollectRequest();
    n_wanted += request.config.n_episodes;
    if (!data::FindCollection(request)) {
      request.output = folder / fmt::format("demonstrations_{}.zarr", i);
      options->overrides.emplace_back("dataset.val_ratio=0");
      if (!CollectABatch(*tasks[i], asked.loading().batch_size, &request.config.n_episodes,
                         request)) {
        return std::nullopt;
      }
    }
    n_there += request.config.n_episodes;
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
  return n_wanted / n_there;
}

// Counts the k best, those that are kept permanently, the latest, and one that is being written, of
// each seed.
std::uintmax_t ReportDisk(const Experiment& asked, const fs::path& tried, const fs::path& parent,
                          std::size_t n_seeds) {
  const auto config = train::CheckpointConfig::FromConfig(asked.config().Sub("checkpoint"));
  const int n_epochs = asked.training().num_epochs;
  // epochs 0, n, 2n, ... and the last one
  const int n_kept =
      config.keep_every > 0 ? (n_epochs + config.keep_every - 2) / config.keep_every + 1 : 0;
  const int n_named = static_cast<int>(std::ssize(config.save_at));
  const auto n_checkpoints =
      n_seeds * static_cast<std::uintmax_t>(config.topk.k + n_kept + n_named + 2);
  const std::uintmax_t one = BytesBelow(tried / "checkpoints" / run::kLatest);
  const std::uintmax_t needed = one * n_checkpoints;
  const std::uintmax_t free = fs::space(parent).available;
  core::PrintResult("disk    {:>9.1f} MiB for {} checkpoints of {:.1f} MiB; '{}' has {:.0f} MiB\n",
                    train::Mebibytes(static_cast<std::int64_t>(needed)), n_checkpoints,
                    train::Mebibytes(static_cast<std::int64_t>(one)), parent.string(),
                    train::Mebibytes(static_cast<std::int64_t>(free)));
  if (needed <= free) return needed;
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
  const train::MixedPrecision precision = asked.training().mixed_precision;
  const std::int64_t batch_size = asked.loading().batch_size;
  const std::unique_ptr<Policy> policy = asked.CreatePolicy();
  policy->SetNormalizer(asked.NeutralNormalizer());
  const train::HeldMemory held = train::MeasureHeldMemory(policy->module(), asked.config());
  const train::StepMemoryModel memory(*policy, precision);
  return {.batch_size = batch_size,
          .small_batch_size = memory.measured()[0].batch_size,
          .bytes = held.total() + memory.At(batch_size).total()};
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

// Of all epochs. A batch of validation counts as one of training, which takes longer; a batch that
// the data of the trial do not fill counts by its samples.
run::CostPrediction PredictSteps(const Experiment& asked, TrainingRig& rig, double n_sequences) {
  const train::TrainingConfig training = asked.training();
  const auto batch = static_cast<double>(asked.loading().batch_size);
  double n_steps = std::ceil(n_sequences / batch);
  if (training.max_train_steps) {
    n_steps = std::min(n_steps, static_cast<double>(*training.max_train_steps));
  }
  train::StepTimer timer(&core::SteadyTime);
  rig.Step(&timer);
  core::CostMeter meter;
  for (int i = 0; i < kTimedSteps; ++i) rig.Step(&timer);
  const core::Cost cost = meter.Read();
  double factor = training.num_epochs * n_steps / kTimedSteps * batch /
                  static_cast<double>(rig.loading().batch_size);
  if (training.max_minutes) factor = std::min(factor, 60.0 * *training.max_minutes / cost.wall_s);
  return run::PredictionFrom(cost, factor, fmt::format("{} training steps", kTimedSteps));
}

// The share of the episodes that the training reads, with those of the validation.
double UsedShare(const Experiment& asked, double n_episodes) {
  const auto split = train::SplitConfig::FromConfig(asked.config().Sub("dataset"));
  if (!split.max_train_episodes) return 1.0;
  const double n_used =
      static_cast<double>(*split.max_train_episodes) + split.val_ratio * n_episodes;
  return std::min(1.0, n_used / n_episodes);
}

// `share`: how many times as much data the whole run has. None if interrupted.
std::optional<run::CostPredictions> PredictRun(const Experiment& asked, ExperimentOptions tried,
                                               double share,
                                               const PredictRollouts& predict_rollouts) {
  const Experiment full_batches(tried);
  const std::unique_ptr<Dataset> dataset = full_batches.CreateDataset();
  const auto n_sequences =
      static_cast<std::int64_t>(data::MakeTrainingSampler(*dataset, asked.spec().horizons).size());
  tried.overrides.push_back(fmt::format("dataloader.batch_size={}",
                                        std::min(full_batches.loading().batch_size, n_sequences)));
  const Experiment experiment(tried);
  TrainingRig rig(experiment, *dataset);
  const double used = share * static_cast<double>(n_sequences) *
                      UsedShare(asked, share * static_cast<double>(dataset->episode_ends().size()));
  run::CostPrediction training = PredictSteps(asked, rig, used);
  if (!asked.has_env()) return run::CostPredictions{{run::kPredictedTraining, training}};
  const auto rollouts = predict_rollouts(asked, rig.policy());
  if (!rollouts) return std::nullopt;
  // the training has rollouts of its own
  const train::TrainingConfig config = asked.training();
  for (int epoch = 0; epoch < config.num_epochs; ++epoch) {
    if (!config.IsDue(config.rollout_every, epoch)) continue;
    training.wall_s += rollouts->wall_s;
    training.cpu_s += rollouts->cpu_s;
    if (training.energy_j) *training.energy_j += rollouts->energy_j.value_or(0.0);
  }
  return run::CostPredictions{{run::kPredictedTraining, training},
                              {run::kPredictedEvaluation, *rollouts}};
}

}  // namespace

std::uintmax_t BytesBelow(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code gone;  // another process may work there
  for (auto entry = fs::recursive_directory_iterator(folder, gone);
       !gone && entry != fs::recursive_directory_iterator(); entry.increment(gone)) {
    const std::uintmax_t size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

int DryRun(const ExperimentOptions& options, const fs::path& parent, std::size_t n_seeds,
           const TrainOnce& train_once, const PredictRollouts& predict_rollouts,
           run::CostPredictions* costs) {
  const core::TemporaryFolder folder;
  const Experiment asked(options);
  PrintReferences(asked);
  ExperimentOptions shortened = Shortened(options, asked);
  const MemoryNeed need = EstimateMemory(asked);
  ShrinkBatches(asked, need, &shortened);
  const std::optional<double> share = CollectSome(asked, folder.path(), &shortened);
  if (!share) return core::kExitInterrupted;
  const fs::path tried = folder.path() / "run";
  if (const int result = train_once(shortened, tried); result != 0) return result;
  auto predicted = PredictRun(asked, shortened, *share, predict_rollouts);
  if (!predicted) return core::kExitInterrupted;
  for (const auto& [part, once] : *predicted) (*costs)[part] = run::Repeated(once, n_seeds);

  core::PrintResult("\ndry run: every part works. The whole run{} needs\n",
                    n_seeds > 1 ? fmt::format(" of {} seeds", n_seeds) : "");
  const std::uintmax_t needed =
      ReportDisk(asked, tried, fs::exists(parent) ? parent : fs::current_path(), n_seeds);
  costs->at(run::kPredictedTraining).disk_bytes = static_cast<double>(needed);
  ReportMemory(need);
  return 0;
}

std::optional<run::CostPrediction> PredictCollection(const Task& task,
                                                     data::CollectRequest request) {
  const core::TemporaryFolder folder;
  const int n_wanted = request.config.n_episodes;
  request.config.n_episodes = std::min(n_wanted, kEpisodes);
  request.output = folder.path() / "demonstrations.zarr";
  core::CostMeter meter;
  if (!RunCollection(task, request, core::CatchStopSignals())) return std::nullopt;
  const double factor = static_cast<double>(n_wanted) / request.config.n_episodes;
  run::CostPrediction prediction = run::PredictionFrom(
      meter.Read(), factor, fmt::format("{} demonstrations", request.config.n_episodes));
  prediction.disk_bytes = factor * static_cast<double>(BytesBelow(request.output));
  return prediction;
}

}  // namespace dp_bench::task
