// One run of the EnvRunner: hands episodes to slots, slots to workers, ready slots to the planner.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "core/thread_pool.h"
#include "rollout/episode_slot.h"
#include "run/episode_record.h"

namespace dp_bench::rollout {

/// A slot is in one place at a time: with a worker (in flight), in the ready queue, or in the batch
/// being planned. The mutex guards the hand-over; the current holder of a slot uses it without a
/// lock.
class RolloutLoop {
 public:
  /// Runs `jobs` in this order in `slots`, which are idle. All arguments must outlive the loop.
  RolloutLoop(const RolloutPlan& plan, std::span<const std::unique_ptr<EpisodeSlot>> slots,
              std::span<const run::EpisodeJob> jobs, control::ChunkPlanner& planner, int n_workers,
              bool check_batch_invariance);

  /// Returns when every job has its record, or soon after `hooks.stop` is set, leaving slots in the
  /// middle of episodes. Called once.
  run::RunResult Run(const run::RunHooks& hooks);

 private:
  // on the workers
  void Launch(EpisodeSlot* slot);
  void Advance(EpisodeSlot* slot);
  void RunUntilPlanIsNeeded(EpisodeSlot* slot);
  const run::EpisodeJob* NextJob();
  std::optional<std::size_t> NextPlace();
  void Deliver(run::EpisodeRecord record);

  // on the calling thread
  bool TakeBatch();
  bool IsStopped() const { return hooks_.stop != nullptr && hooks_.stop->load(); }
  void WaitForWorkers();
  void PlanBatch();
  void CopyObservations(const EpisodeSlot& slot, std::size_t place);
  bool TryPlan(std::span<const control::PlanRow> rows, std::string* why);
  void PlanOneByOne();
  void HandOut(EpisodeSlot* slot, std::size_t row);

  const RolloutPlan& plan_;
  std::span<const std::unique_ptr<EpisodeSlot>> slots_;
  std::span<const run::EpisodeJob> jobs_;
  control::ChunkPlanner& planner_;
  bool check_batch_invariance_;
  std::size_t batch_size_;  // M
  std::size_t chunk_size_;  // Ta * Da
  std::vector<EpisodeSlot*> batch_;
  std::vector<control::PlanRow> rows_;
  control::ObsBatch obs_;
  std::vector<float> actions_;  // [M, Ta, Da]

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EpisodeSlot*> ready_;  // first in, first out
  int n_in_flight_ = 0;
  std::size_t n_started_ = 0;
  bool has_more_;  // episodes that no one has started
  std::exception_ptr worker_failure_;
  run::RunHooks hooks_;
  run::RunResult result_;
  run::RunProgress progress_;
  double score_sum_ = 0.0;

  core::ThreadPool workers_;  // last: joined before the members it uses are destroyed
};

// Checks whether a row of the policy's batch depends on the other rows. The outcome of an episode
// must not, but the low bits of a matrix product often do. The check uses real observations, before
// any outcome counts.

/// Plans `obs` again with its rows in reverse order, and again with every second row replaced.
/// Throws Error{kNumeric} unless the actions of each row have the same bits as in `actions`, the
/// result of planner.Plan(obs, rows, ...).
void CheckBatchInvariance(control::ChunkPlanner& planner, const control::ObsBatch& obs,
                          std::span<const control::PlanRow> rows, std::span<const float> actions);

}  // namespace dp_bench::rollout
