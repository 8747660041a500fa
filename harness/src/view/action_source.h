// Where a player gets its actions: an expert, a policy, a recorded episode or a person.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "control/chunk_planner.h"
#include "control/control_loop.h"
#include "dp_bench/dataset.h"
#include "dp_bench/deploy.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "plugin/obs_memory.h"

namespace dp_bench::view {

/// A pointer over the image of the env: x and y as in Env::PointerAction.
struct Pointer {
  double x = 0.0;
  double y = 0.0;
  bool is_down = false;

  bool operator==(const Pointer&) const = default;
};

/// What an ActionSource has for the current step.
enum class Supply {
  kAction,
  kWait,  // no action yet: time stands still
  kEnd,   // no more actions: the episode is over
};

/// Belongs to one env and is used on that env's thread.
class ActionSource {
 public:
  ActionSource(const ActionSource&) = delete;
  ActionSource& operator=(const ActionSource&) = delete;
  virtual ~ActionSource() = default;

  /// "expert", "policy", ...: for the title.
  virtual std::string_view name() const = 0;

  /// The seed for the env's reset in this episode; nullopt if there is no such episode. An episode
  /// is identified by its seed, or by its place in a recording.
  virtual std::optional<std::uint64_t> SeedOf(std::uint64_t episode) const { return episode; }
  virtual bool is_recording() const { return false; }
  /// Whether the rewards of the env mean something; images of a recording have none.
  virtual bool has_rewards() const { return true; }

  /// Called after the env was Reset for this episode.
  virtual void Begin(std::uint64_t episode) = 0;

  /// Writes the action for the env's current state, [Da]. After kAction, the caller steps the env
  /// with it. Throws Error{kEnv} if the source cannot continue.
  virtual Supply Next(std::span<float> action) = 0;

  /// Where the pointer is now.
  virtual void Point(const Pointer&) {}

 protected:
  ActionSource() = default;
};

class ExpertSource final : public ActionSource {
 public:
  /// Throws Error{kUsage} when the env has no expert.
  explicit ExpertSource(Env& env);

  std::string_view name() const override { return "expert"; }
  void Begin(std::uint64_t episode) override { env_.BeginExpert(episode); }
  Supply Next(std::span<float> action) override;

 private:
  Env& env_;
};

/// A person: the env follows the pointer while its button is held, and pauses otherwise.
class PointerSource final : public ActionSource {
 public:
  /// Throws Error{kUsage} when the env has no pointer control.
  explicit PointerSource(Env& env);

  std::string_view name() const override { return "human"; }
  void Begin(std::uint64_t) override {}
  Supply Next(std::span<float> action) override;
  void Point(const Pointer& pointer) override { pointer_ = pointer; }

 private:
  Env& env_;
  Pointer pointer_;
};

/// A policy: a control loop that observes every step of the env. Fills a whole micro-batch of the
/// planner with the one episode, so that the actions have the same bits as in an evaluation:
/// (checkpoint, env, seed) is shown as it was scored.
class PlannerSource final : public ActionSource {
 public:
  /// All arguments must outlive the source. Throws Error{kShape} if the env lacks something that
  /// `shape_meta` asks for.
  PlannerSource(Env& env, control::ChunkPlanner& planner, const ShapeMeta& shape_meta,
                const Horizons& horizons);

  std::string_view name() const override { return "policy"; }
  void Begin(std::uint64_t episode) override { loop_.Reset(episode); }

  /// Throws Error{kNumeric} on an observation or action that is not finite.
  Supply Next(std::span<float> action) override;

 private:
  Env& env_;
  plugin::ObsMemory seen_;       // the latest observation
  std::vector<ObsView> wanted_;  // of it: what the policy reads
  control::ControlLoop loop_;
};

// Episodes of a dataset to look at. Their actions are repeated in the env of the recording. If the
// dataset does not have the seeds, its images are shown instead.

/// First and one past the last step of an episode of `dataset`. Throws Error{kUsage} with the
/// number of episodes if there is no such episode.
struct StepRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
StepRange StepsOfEpisode(const Dataset& dataset, std::uint64_t episode);

/// The actions of the episodes of a dataset.
class RecordedSource final : public ActionSource {
 public:
  /// `seeds`: one per episode; empty if the env is reset to the place of the episode instead.
  /// `dataset` must outlive the source. Throws Error{kShape} if its actions do not have
  /// `action_dim` numbers, Error{kData} on a wrong number of seeds.
  RecordedSource(const Dataset& dataset, std::vector<std::uint64_t> seeds, std::int64_t action_dim);

  std::string_view name() const override { return "dataset"; }
  std::optional<std::uint64_t> SeedOf(std::uint64_t episode) const override;
  bool is_recording() const override { return true; }
  bool has_rewards() const override { return !seeds_.empty(); }
  void Begin(std::uint64_t episode) override;
  Supply Next(std::span<float> action) override;

 private:
  const Dataset& dataset_;
  std::vector<std::uint64_t> seeds_;
  std::vector<float> actions_;  // [N, Da] of the episode
  std::size_t next_ = 0;        // element of `actions_`
};

/// The images of a dataset as an env. Reset goes to an episode's place, and each step shows the
/// next recorded image. The rewards are 0, because a recording has none.
class RecordedEnv final : public Env {
 public:
  /// `dataset` must outlive the env and is played at `control_hz`. Throws Error{kUsage} when it has
  /// no rgb key.
  RecordedEnv(const Dataset& dataset, double control_hz);

  /// The size of all rgb keys side by side [px].
  int width() const { return mosaic_.width; }
  int height() const { return mosaic_.height; }

 private:
  void DoReset(std::uint64_t episode) override;
  StepResult DoStep(std::span<const float> action) override;
  void DoObserve(const ObsWriter& obs) override;
  // All rgb keys side by side, stretched to the frame.
  void DoRender(RgbImage* frame) override;

  const Dataset& dataset_;
  std::vector<int> rgb_keys_;  // dataset keys
  RgbImage mosaic_;
  std::vector<std::byte> picture_;
  StepRange steps_;
  std::int64_t step_ = 0;  // within the dataset
};

}  // namespace dp_bench::view
