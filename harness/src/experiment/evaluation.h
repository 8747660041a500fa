// Rolls a policy out as the config's env_runner section says, and writes down what came of it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "dp_bench/env.h"
#include "experiment/experiment.h"
#include "rollout/env_runner.h"
#include "rollout/policy_latency.h"
#include "run/planning.h"

namespace dp_bench {
class Normalizer;
}

namespace dp_bench::experiment {

/// Which test seeds: those from env_runner.test_start_seed or selection_start_seed on.
enum class TestSeeds { kReport, kSelection };

class Evaluation {
 public:
  /// Reads env_runner. Videos go to `output_dir`/media; `n_videos` counts in place of the
  /// config's. The experiment and the ranks must outlive it.
  Evaluation(const Experiment& experiment, core::Communicator& ranks,
             const std::filesystem::path& output_dir, std::optional<int> n_videos = std::nullopt,
             TestSeeds test_seeds = TestSeeds::kReport);

  /// The policy's, by which the observations of its episodes are judged. Before Run.
  void SetNormalizer(const Normalizer& normalizer);

  /// Every rank plays its share of the episodes and gets the records of all. Shows progress on
  /// standard error, in place of the hook.
  run::RunResult Run(Policy& policy, c10::Device device, const run::RunHooks& hooks = {});

  /// The same with these places of the seed list.
  run::RunResult Run(Policy& policy, c10::Device device, std::span<const int> episodes,
                     const run::RunHooks& hooks);

  /// Of the last Run that planned anything on this rank: the latency there, and now of single rows
  /// that it planned. Of the first test episode, or else the first: the denoising of its first
  /// plan, made again. Changes nothing that is rolled out.
  run::PlanningRecord RecordPlanning(Policy& policy, c10::Device device) const;

  const rollout::EnvRunner& runner() const { return runner_; }

 private:
  std::optional<run::Denoising> RecordFirstDenoising(Policy& policy, c10::Device device) const;

  core::Communicator& ranks_;
  ShapeMeta shape_meta_;
  run::EnvRunnerConfig config_;
  rollout::EnvRunner runner_;
  run::PlanningLatency latency_;
  std::vector<rollout::RecordedObs> recorded_;
};

/// "test/mean_score" and the like: what goes into logs.json.txt and decides about checkpoints.
std::map<std::string, double> MetricsOf(const run::RunResult& result);

/// "rollout/<split>_<seed>": frames of each filmed episode side by side.
std::map<std::string, RgbImage> FilmStripsOf(const run::RunResult& result,
                                             const std::filesystem::path& output_dir);

/// Writes the results into the run folder, whose manifest and config are there, makes its page, and
/// prints the tables. Returns the exit code: 0, or 5 when an episode failed.
int ReportEvaluation(const run::RunResult& result, const run::PlanningRecord& planning,
                     const std::filesystem::path& output_dir);

}  // namespace dp_bench::experiment
