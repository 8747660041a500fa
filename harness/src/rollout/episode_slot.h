// One env instance and everything for running episodes in it, one after another: observation
// window, action queue, score, trace hash, video. It takes the role of the queues in LeRobot's
// select_action.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/action_queue.h"
#include "control/chunk_planner.h"
#include "control/obs_history.h"
#include "core/sha256.h"
#include "data/replay_writer.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "plugin/obs_memory.h"
#include "rollout/action_jerk.h"
#include "rollout/episode_video.h"
#include "rollout/rollout_plan.h"
#include "run/episode_record.h"
#include "run/episode_trace.h"

namespace dp_bench::rollout {

/// The steps of one episode as a dataset stores them (ReplayEpisode::ToArrays), in a file until the
/// dataset is written: episodes end in any order, and a kill must lose none that has ended. In a
/// run folder: "recording/test_100003.safetensors".
std::filesystem::path RecordedFile(std::uint64_t seed);

/// Used by one thread at a time. No function throws errors of the env, the planner or the encoder:
/// those of the first two fail the episode, those of the encoder end the video. One that ends an
/// episode throws Error{kIo} if its trace or its recording cannot be written.
class EpisodeSlot {
 public:
  /// `plan` must outlive the slot.
  explicit EpisodeSlot(const RolloutPlan& plan);

  /// Resets the env, which is created if there is none, and takes the first observation.
  void Start(const run::EpisodeJob& job);

  /// Executes the chunk in `actions()` until the next plan is due or the episode ends.
  void ExecuteChunk();

  /// Ends the running episode as failed.
  void Fail(const std::string& reason);

  bool awaits_plan() const { return state_ == State::kAwaitsPlan; }
  bool has_record() const { return state_ == State::kEnded; }

  /// The record of the ended episode; the slot is idle afterwards.
  run::EpisodeRecord TakeRecord();

  /// The input of the next plan.
  control::PlanRow plan_row() const;
  const control::ObsHistory& history() const { return history_; }

  /// The buffer for the chunk to execute, [Ta, Da], while the slot awaits a plan.
  std::span<float> actions() { return actions_.chunk(); }

 private:
  enum class State { kIdle, kAwaitsPlan, kEnded };

  void ResetEnv();
  void AskForPlan();
  std::span<const float> ActionOfStep(int i);
  void Step(std::span<const float> action, bool is_observed);
  void RecordStep(std::span<const float> action);
  void Observe();
  double ScoreAfter(double reward) const;
  void AddToMetrics(std::span<const double> values);
  void End();

  const RolloutPlan& plan_;
  std::unique_ptr<Env> env_;
  State state_ = State::kIdle;
  control::ObsHistory history_;
  std::vector<std::vector<std::byte>> unused_obs_;  // of keys that the policy does not use
  std::vector<std::span<std::byte>> obs_buffers_;   // [env obs keys]
  control::ActionQueue actions_;
  control::ObsBatch window_;      // one row, for corrections; empty without them
  std::vector<float> corrected_;  // [Da]
  control::CorrectionHead::LayerValues layers_;
  run::EpisodeRecord record_;
  bool is_terminated_ = false;
  run::EpisodeCourseKeeper course_;
  ActionJerk jerk_;
  int n_plans_ = 0;
  int expected_delay_ = 0;  // [control steps] that a plan is made for
  std::deque<int> delays_;  // of the last plans of this episode, if they are random
  std::string first_obs_;   // EpisodeCourse::first_obs
  core::Sha256 trace_hash_;
  run::EpisodeTrace trace_;  // empty unless traces are recorded
  std::chrono::steady_clock::time_point start_time_;
  std::unique_ptr<EpisodeVideo> video_;           // null unless a video is recorded
  std::optional<data::ReplayEpisode> recording_;  // none unless a recorded episode runs
  std::optional<plugin::ObsMemory> unobserved_;   // of recorded steps that the policy does not see
  int observed_step_ = 0;  // obs_buffers_ show the state after this many steps
};

}  // namespace dp_bench::rollout
