// Runs a policy in many environments at once and reports every episode. Field names are those of
// diffusion_policy's env runners.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "control/correction_head.h"
#include "control/env_runner_config.h"
#include "core/communicator.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "rollout/episode_slot.h"
#include "run/episode_record.h"

namespace dp_bench::rollout {

/// Workers step the envs while the calling thread plans, without a barrier between batches: the
/// next batch takes the envs that are ready. The outcome of an episode does not depend on the
/// number of workers or envs, or on the order. A failing episode becomes a record and affects no
/// other.
class EnvRunner {
 public:
  /// Creates one env, which Run uses too. Throws Error{kShape}, listing both sides, unless the env
  /// offers every key of `shape_meta` with the same type, dtype and shape. Videos go to
  /// `output_dir`/media. Throws Error{kConfig} for `realtime` without a latency.
  EnvRunner(const control::EnvRunnerConfig& config, EnvFactory env_factory,
            const ShapeMeta& shape_meta, const Horizons& horizons,
            std::filesystem::path output_dir);

  /// The seed list: n_train train episodes, then n_test test episodes.
  const std::vector<run::EpisodeJob>& jobs() const { return jobs_; }

  /// The ranges of the observations in the policy's training data, which EpisodeCourse compares
  /// with those of the episodes; without them nothing is compared. No outcome depends on them. Call
  /// it between two runs.
  void SetObsRanges(run::ObsRanges ranges);

  /// Corrects every action before it is executed. Call it between two runs.
  void SetCorrection(std::shared_ptr<const control::CorrectionHead> correction);

  /// Every test episode that does not fail leaves its steps in `output_dir` (RecordedFile) before
  /// its record is delivered. No outcome depends on it, unless the env throws in an observation
  /// that the policy does not need. Throws Error{kShape} if the env has a key that a dataset cannot
  /// store. Call it between two runs.
  void RecordSteps();

  const EnvSpec& env_spec() const { return plan_->env; }

  /// The control steps that a plan takes; if that is random, half of the plans at most.
  int plan_delay() const { return plan_->delay; }
  std::vector<std::string> metric_names() const;  // of EpisodeRecord::metrics

  /// The input of the first plan of the episode at this place in the seed list, from a separate
  /// env; none if its reset fails.
  std::optional<control::RecordedObs> FirstObservation(int episode) const;

  /// Runs the whole seed list. If it is stopped before the end, the result is marked as
  /// interrupted. Throws Error{kNumeric} if the planner is not batch-invariant, and what a hook
  /// throws.
  run::RunResult Run(control::ChunkPlanner& planner, const run::RunHooks& hooks = {});

  /// Runs only the episodes with these places in the seed list, started in this order. The records
  /// are still sorted by place.
  run::RunResult Run(control::ChunkPlanner& planner, std::span<const int> episodes,
                     const run::RunHooks& hooks = {});

 private:
  const run::EpisodeJob& JobAt(int episode) const;

  std::unique_ptr<RolloutPlan> plan_;
  std::vector<run::EpisodeJob> jobs_;
  std::vector<std::unique_ptr<EpisodeSlot>> slots_;  // kept, so that a later Run finds warm envs
};

/// Like EnvRunner::Run, but each rank runs its share of `episodes`: with hooks.next what that gives
/// it, else every size-th from the r-th on. Every rank gets the records of all. They equal those of
/// one process, except for their wall times, which are 0. Counts are summed, times are those of the
/// slowest rank. The hooks report only this rank's episodes. The result is interrupted if any rank
/// was.
run::RunResult RunShared(EnvRunner& runner, control::ChunkPlanner& planner,
                         core::Communicator& ranks, std::span<const int> episodes,
                         const run::RunHooks& hooks = {});

}  // namespace dp_bench::rollout
