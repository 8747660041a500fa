// Rolls out a policy as configured in env_runner, and writes the results; runs an episode of a
// finished run again.
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
#include "dp_bench/normalizer.h"
#include "evaluate/policy_planning.h"
#include "rollout/env_runner.h"
#include "run/plan_record.h"
#include "run/planning.h"
#include "run/run_folder.h"
#include "task/experiment.h"

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

  /// Throws Error{kConfig} or {kUsage} if Run could not plan with `policy`. Call it before files
  /// change.
  void RequirePlannable(Policy& policy, torch::Device device) const;

  /// See EnvRunner::RecordSteps. Call before Run.
  void RecordSteps() { runner_.RecordSteps(); }

  /// Each rank runs its share of the episodes and gets the records of all. Shows progress on
  /// standard error; hooks.progress is replaced.
  run::RunResult Run(Policy& policy, torch::Device device, const run::RunHooks& hooks = {});

  /// The same for some episodes, given as indices in the seed list.
  run::RunResult Run(Policy& policy, torch::Device device, std::span<const int> episodes,
                     const run::RunHooks& hooks);

  /// The latency of the last Run that planned anything on this rank, and of single rows from it,
  /// which are planned again now. Does not affect rollouts.
  run::PolicyLatencySummary MeasureLatency(Policy& policy, torch::Device device) const;

  const rollout::EnvRunner& runner() const { return runner_; }

 private:
  std::shared_ptr<control::ChunkPlanner> MakePlanner(std::shared_ptr<TimedPlanner> timed,
                                                     const PolicySpec& spec);
  control::ChunkingConfig ChunkingOfPlans() const;

  core::Communicator& ranks_;
  std::filesystem::path output_dir_;
  ShapeMeta shape_meta_;
  control::EnvRunnerConfig config_;
  rollout::EnvRunner runner_;
  run::PlanningLatency latency_;
  std::vector<control::RecordedObs> recorded_;
  std::shared_ptr<run::PlanRecordWriter> plans_;  // null unless env_runner.record_plans
};

/// The ranges of those low-dimensional keys of `shape_meta` whose minimum and maximum the
/// normalizer keeps.
run::ObsRanges ObsRangesOf(const Normalizer& normalizer, const ShapeMeta& shape_meta);

/// Metrics such as "test/mean_score" for logs.json.txt and for the choice of checkpoints.
std::map<std::string, double> MetricsOf(const run::RunResult& result);

/// "rollout/<split>_<seed>": frames of each episode's video side by side.
std::map<std::string, RgbImage> VideoStripsOf(const run::RunResult& result,
                                              const std::filesystem::path& output_dir);

/// Writes results and report into the run folder, which has manifest and config, removes its
/// journal, and prints the tables. Returns the exit code: 0, or 5 if an episode failed.
int ReportEvaluation(const run::RunResult& result, const run::PolicyLatencySummary& latency,
                     const std::filesystem::path& output_dir);

/// Rank 0 adds the cost of this process to the run's (run/run_cost.h) and prints the sum; with
/// `n_episodes` of an evaluation that has ended, also for 1,000 of them.
void RecordCost(core::CostMeter& meter, const std::filesystem::path& output_dir,
                const core::Communicator& ranks, std::size_t n_episodes = 0);

/// The record at an index of the seed list. Throws Error{kUsage} if there is none.
const run::EpisodeRecord& EpisodeAt(const run::RunFolder& run, int place);

/// Runs the episode with the run's checkpoint (the evaluated one, or `checkpoints/latest` of a
/// training) and config, changed by `overrides`. Writes video and trace into `output`. On the same
/// build and kind of machine the trace hash equals the recorded one. Throws Error{kUsage} if the
/// folder does not say what it evaluated.
run::EpisodeRecord RunRecordedEpisode(const run::RunFolder& run, int place,
                                      const std::vector<std::string>& overrides,
                                      const std::filesystem::path& output);

}  // namespace dp_bench::evaluate
