// The control loop of one policy: observation history, action queue, and plans in this thread or
// another. `dp_bench::Controller` is the same for a checkpoint; its rules hold here too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "control/action_queue.h"
#include "control/chunk_planner.h"
#include "control/chunking_config.h"
#include "control/correction_head.h"
#include "control/obs_history.h"
#include "control/obs_input.h"
#include "dp_bench/deploy.h"
#include "dp_bench/spec.h"

namespace dp_bench::control {

/// A function that runs on a thread of its own, again and again, without allocating memory. What
/// `task` writes can be read once Wait returned true.
class BackgroundTask {
 public:
  using Clock = std::chrono::steady_clock;

  /// `task` must not throw.
  explicit BackgroundTask(std::function<void()> task);
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  /// Waits for the run in progress.
  ~BackgroundTask();

  /// Begins a run; the last one must have ended.
  void Start();

  /// Waits until the run has ended, but not after `limit`. Whether it has.
  bool Wait(std::optional<Clock::time_point> limit = std::nullopt);

 private:
  void Loop();

  std::function<void()> task_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_running_ = false;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the members above
};

struct LoopOptions {
  int latency_steps = 0;                                       // see ControllerOptions
  double deadline_s = 0.0;                                     // [s]
  ChunkingConfig chunking = {};                                // without delay and latency
  std::shared_ptr<const CorrectionHead> correction = nullptr;  // of every action; null: none
};

/// The control steps from one plan to the next. Throws Error{kConfig} if a chunk has fewer.
int ExecuteSteps(const ChunkingConfig& chunking, int n_action_steps, int delay);

class ControlLoop {
 public:
  /// `planner` must outlive the loop. Throws Error{kUsage} for negative options.
  ControlLoop(ChunkPlanner& planner, const ShapeMeta& shape_meta, const Horizons& horizons,
              const LoopOptions& options = {});
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;

  /// Plans once, from observations of zeros, on the thread that will plan. Throws what the planner
  /// throws.
  void WarmUp();

  void Reset(std::uint64_t seed);
  std::span<const float> Act(std::span<const ObsView> obs);

  /// Returns when no thread is planning, so that the caller may use the planner.
  void AwaitPlanner();

  const ActTiming& timing() const { return timing_; }
  const ActCounts& counts() const { return counts_; }

 private:
  using Clock = BackgroundTask::Clock;

  void Observe(std::span<const ObsView> obs);
  void AskForPlan(std::uint64_t step);
  bool AwaitPlan(Clock::time_point act_start);
  void TakePlan();
  void StartPlan();
  void Plan() noexcept;
  std::span<const float> Corrected(int step);
  void Count(const ActTiming& timing);

  ChunkPlanner& planner_;
  const std::int64_t action_dim_;
  const LoopOptions options_;

  // of the episode
  std::optional<std::uint64_t> seed_;  // none before the first Reset
  std::uint64_t step_ = 0;
  int next_ = 0;  // step of the action queue
  bool awaits_plan_ = false;
  ObsInput input_;
  ObsHistory history_;
  ActionQueue queue_;
  ObsBatch window_;  // one row, for corrections; empty without them
  std::vector<float> corrected_;
  CorrectionHead::LayerValues layers_;

  // the plan: the planning thread's until AwaitPlan returns true
  PlanRow row_;
  ObsBatch obs_;
  std::vector<float> chunks_;  // [M, Ta, Da]; row 0 is executed
  double plan_s_ = 0.0;
  std::exception_ptr failure_;

  ActTiming timing_;
  ActCounts counts_;
  std::unique_ptr<BackgroundTask> background_;  // last: its thread uses the members above; or null
};

}  // namespace dp_bench::control
