#include "task/collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "control/control_loop.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/progress.h"
#include "core/sha256.h"
#include "dp_bench/deploy.h"
#include "dp_bench/policy.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_planner.h"
#include "planner/policy_weights.h"
#include "rollout/shape_match.h"
#include "run/checkpoint.h"
#include "run/run_checkpoint.h"

namespace dp_bench::task {

namespace {

constexpr std::size_t kShownFailures = 5;

void PrintFailures(const data::CollectReport& report, const std::filesystem::path& folder) {
  const std::size_t n = report.failures.size();
  if (n == 0) return;
  core::PrintStatus("{} seed{} failed and {} skipped:\n", n, n == 1 ? "" : "s",
                    n == 1 ? "was" : "were");
  for (std::size_t i = 0; i < std::min(n, kShownFailures); ++i) {
    core::PrintStatus("  {}: {}\n", report.failures[i].seed, report.failures[i].reason);
  }
  if (n > kShownFailures) core::PrintStatus("  the others are in {}/.zattrs\n", folder.string());
}

namespace fs = std::filesystem;

class CheckpointActor final : public data::FirstActor {
 public:
  CheckpointActor(planner::PolicyFromCheckpoint from, const EnvSpec& env)
      : config_(std::move(from.config)),
        policy_(std::move(from.policy)),
        spec_(policy_->spec()),
        env_keys_(env.shape_meta.obs),
        policy_keys_(rollout::MatchObsKeys(env.shape_meta, spec_.shape_meta)),
        planner_(*policy_, torch::kCPU, /*micro_batch=*/1),
        loop_(planner_, spec_.shape_meta, spec_.horizons) {}

  void Reset(std::uint64_t seed) override { loop_.Reset(seed); }

  std::span<const float> Act(std::span<const std::span<const std::byte>> obs) override {
    std::vector<ObsView> views;
    for (std::size_t i = 0; i < env_keys_.size(); ++i) {
      if (policy_keys_[i] < 0) continue;
      const KeySpec& key = env_keys_[i];
      views.emplace_back(key.name, obs[i].data(), key.dtype, Dims(key.StorageShape()));
    }
    return loop_.Act(views);
  }

 private:
  Config config_;
  std::unique_ptr<Policy> policy_;
  PolicySpec spec_;
  std::vector<KeySpec> env_keys_;
  std::vector<int> policy_keys_;  // of each key of the env; -1: the policy does not use it
  planner::PolicyPlanner planner_;
  control::ControlLoop loop_;
};

fs::path FindFolder(const fs::path& checkpoint) {
  if (fs::is_directory(checkpoint)) return run::FindCheckpoint(checkpoint).folder;
  throw ConfigError(
      "collect.takeover.checkpoint: expected the folder of a checkpoint or of a run, found no "
      "folder '{}'",
      checkpoint.string());
}

}  // namespace

bool RunCollection(const Task& task, data::CollectRequest request, const std::atomic<bool>& stop) {
  const std::string folder = request.output.string();
  if (const auto found = data::FindCollection(request)) {
    core::PrintStatus("dataset: {}, {} episodes collected before\n", folder, found->n_episodes);
    if (found->is_of_another_env) {
      core::LogWarning(
          "the env plugin '{}' changed since it collected {}: its expert or its physics may be "
          "others now. Remove the folder to collect again.",
          task.env_name(), folder);
    }
    return true;
  }
  data::RequireExpert(task.DescribeEnv(), task.env_name(), task.catalogue());
  core::PrintStatus("collecting {} episodes of {} with its expert into {}\n",
                    request.config.n_episodes, task.name(), folder);

  request.stop = &stop;
  core::Progress progress(core::Progress::StandardError(), 0);
  const data::CollectReport report =
      data::Collect(request, [&progress](const data::CollectProgress& state) {
        progress.Update({.done = state.n_episodes, .total = state.n_wanted, .unit = "episodes"},
                        "collect",
                        fmt::format("{} steps  failed {}", state.n_steps, state.n_failed));
      });
  progress.Pause();
  if (report.is_interrupted) {
    core::PrintStatus("interrupted after {} episodes; the same command continues\n",
                      report.n_episodes);
    return false;
  }
  core::PrintStatus("dataset: {}, {} episodes, {} steps, {}\n", folder, report.n_episodes,
                    report.n_steps, core::FormatDuration(report.wall_s));
  PrintFailures(report, request.output);
  return true;
}

bool ProvideDataset(const Task& task, const std::atomic<bool>& stop) {
  if (task.is_collected()) {
    return std::ranges::all_of(task.CollectedTasks(), [&stop](const Task* collected) {
      return RunCollection(*collected, collected->MakeCollectRequest(), stop);
    });
  }
  // not used in this run, but checked
  if (task.config().Has("collect")) data::CollectConfig::FromConfig(task.config().Sub("collect"));
  return true;
}

std::unique_ptr<data::FirstActor> LoadFirstActor(const fs::path& checkpoint, const EnvSpec& env,
                                                 plugin::PluginCatalogue& catalogue) {
  try {
    const fs::path folder = FindFolder(checkpoint);
    const planner::Weights weights = planner::EvaluatedWeights(run::Checkpoint::Open(folder));
    return std::make_unique<CheckpointActor>(
        planner::CreateFromCheckpoint(folder, catalogue, weights), env);
  } catch (Error& error) {
    error.AddContext("in the policy of collect.takeover");
    throw;
  }
}

nlohmann::json TakeoverOrigin(const data::TakeoverConfig& config) {
  const run::Checkpoint checkpoint = run::Checkpoint::Open(FindFolder(config.checkpoint));
  const planner::Weights weights = planner::EvaluatedWeights(checkpoint);
  return {{"weights", checkpoint.Sha256Of(planner::WeightsFile(checkpoint, weights))},
          {"normalizer", checkpoint.Sha256Of(run::kNormalizerFile)},
          {"config", core::Sha256Hex(checkpoint.config())},
          {"max_steps", config.max_steps}};
}

}  // namespace dp_bench::task
