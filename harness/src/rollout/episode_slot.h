// One env instance and what it takes to run episodes in it one after the other: observation window,
// action queue, score, trace hash, video. The queues of LeRobot's select_action live here, once.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "media/video_encoder.h"
#include "rollout/action_queue.h"
#include "rollout/chunk_planner.h"
#include "rollout/episode_record.h"
#include "rollout/episode_trace.h"
#include "rollout/obs_history.h"

namespace dp_bench {

using EnvFactory = std::function<std::unique_ptr<Env>()>;

/// What all slots of a runner share; constant while they live.
struct RolloutPlan {
  EnvFactory env_factory;
  EnvSpec env;                        // what the env offers
  ShapeMeta shape_meta;               // what the policy asks for: some of the env's keys
  std::vector<int> obs_index_of_env;  // per env obs key: index into shape_meta.obs, or -1
  Horizons horizons;
  int max_steps = 0;
  int n_stale_steps = 0;  // that a plan takes, see ActionQueue
  std::filesystem::path output_dir;
  bool record_traces = false;
  int video_width = 0;
  int video_height = 0;
  int crf = 0;
};

/// Used by one thread at a time. No function throws for what the env, the planner or the encoder
/// do: the first two fail the episode, the encoder costs the video.
class EpisodeSlot {
 public:
  /// `plan` must outlive the slot.
  explicit EpisodeSlot(const RolloutPlan& plan);

  /// Resets the env (created when there is none) and takes the first observation.
  void Start(const EpisodeJob& job);

  /// Executes the chunk in `actions()` until the next plan is due or the episode ends.
  void ExecuteChunk();

  /// Ends the running episode as failed.
  void Fail(const std::string& reason);

  bool awaits_plan() const { return state_ == State::kAwaitsPlan; }
  bool has_record() const { return state_ == State::kEnded; }

  /// The record of the ended episode; the slot is idle afterwards.
  EpisodeRecord TakeRecord();

  /// What the next plan is made from.
  PlanRow plan_row() const;
  const ObsHistory& history() const { return history_; }

  /// The action chunk to execute, [Ta, Da].
  std::span<float> actions() { return actions_.chunk(); }

 private:
  enum class State { kIdle, kAwaitsPlan, kEnded };

  void ResetEnv();
  void Step(std::span<const float> action, bool is_observed);
  void Observe();
  void AddToMetrics(std::span<const double> values);
  void End();

  // The video begins with the state after Reset: an episode of n steps has n + 1 frames.
  void OpenVideo();
  void FilmFrame();
  void CloseVideo();

  // Runs `body`; what it throws costs the video and nothing else.
  template <class Body>
  void GuardVideo(const Body& body);

  const RolloutPlan& plan_;
  std::unique_ptr<Env> env_;
  State state_ = State::kIdle;
  ObsHistory history_;
  std::vector<std::byte> unused_obs_;              // where keys go that the policy does not ask for
  std::vector<std::span<std::byte>> obs_buffers_;  // [env obs keys]
  ActionQueue actions_;
  EpisodeRecord record_;
  bool is_terminated_ = false;
  Sha256 trace_hash_;
  EpisodeTrace trace_;  // empty unless traces are recorded
  std::chrono::steady_clock::time_point start_time_;
  RgbImage frame_;
  std::unique_ptr<VideoEncoder> encoder_;
};

}  // namespace dp_bench
