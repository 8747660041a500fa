// Rolls out a policy as configured in env_runner, and writes the results.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/machine.h"
#include "dp_bench/env.h"
#include "evaluate/policy_latency.h"
#include "rollout/env_runner.h"
#include "run/planning.h"
#include "task/experiment.h"

namespace dp_bench {
class Normalizer;
}

namespace dp_bench::evaluate {

/// Test seeds start at env_runner.test_start_seed (kReport) or selection_start_seed (kSelection).
enum class TestSeeds { kReport, kSelection };

class Evaluation {
 public:
  /// Reads env_runner. Videos go to `output_dir`/media; `n_videos` overrides the config. The
  /// experiment and the ranks must outlive this object.
  Evaluation(const task::Experiment& experiment, core::Communicator& ranks,
             const std::filesystem::path& output_dir, std::optional<int> n_videos = std::nullopt,
             TestSeeds test_seeds = TestSeeds::kReport);

  /// The policy's normalizer, whose ranges tell which observations are outside the training data.
  /// Call before Run.
  void SetNormalizer(const Normalizer& normalizer);

  /// Each rank runs its share of the episodes and gets the records of all. Shows progress on
  /// standard error; hooks.progress is replaced.
  run::RunResult Run(Policy& policy, c10::Device device, const run::RunHooks& hooks = {});

  /// The same for some episodes, given as indices in the seed list.
  run::RunResult Run(Policy& policy, c10::Device device, std::span<const int> episodes,
                     const run::RunHooks& hooks);

  /// The latency of the last Run that planned anything on this rank, and of single rows from it,
  /// which are planned again now. Also repeats the first plan of the first test episode (or the
  /// first episode) to record its denoising. Does not affect rollouts.
  run::PlanningRecord RecordPlanning(Policy& policy, c10::Device device) const;

  const rollout::EnvRunner& runner() const { return runner_; }

 private:
  std::optional<run::Denoising> RecordFirstDenoising(Policy& policy, c10::Device device) const;

  core::Communicator& ranks_;
  ShapeMeta shape_meta_;
  control::EnvRunnerConfig config_;
  rollout::EnvRunner runner_;
  run::PlanningLatency latency_;
  std::vector<control::RecordedObs> recorded_;
};

/// Metrics such as "test/mean_score" for logs.json.txt and for the choice of checkpoints.
std::map<std::string, double> MetricsOf(const run::RunResult& result);

/// "rollout/<split>_<seed>": frames of each filmed episode side by side.
std::map<std::string, RgbImage> FilmStripsOf(const run::RunResult& result,
                                             const std::filesystem::path& output_dir);

/// Writes results and report into the run folder, which has manifest and config, removes its
/// journal, and prints the tables. Returns the exit code: 0, or 5 if an episode failed.
int ReportEvaluation(const run::RunResult& result, const run::PlanningRecord& planning,
                     const std::filesystem::path& output_dir);

/// Rank 0 adds the cost of this process to the run's (run/run_cost.h) and prints the sum.
void RecordCost(core::CostMeter& meter, const std::filesystem::path& output_dir,
                const core::Communicator& ranks);

}  // namespace dp_bench::evaluate
