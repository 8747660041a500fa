// Where a player gets its actions: an expert, a policy or a person.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "control/chunk_planner.h"
#include "control/control_loop.h"
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

/// Belongs to one env and is used on that env's thread.
class ActionSource {
 public:
  ActionSource(const ActionSource&) = delete;
  ActionSource& operator=(const ActionSource&) = delete;
  virtual ~ActionSource() = default;

  /// "expert", "policy", ...: for the title.
  virtual std::string_view name() const = 0;

  /// Called after the env was Reset with this seed.
  virtual void Begin(std::uint64_t seed) = 0;

  /// Writes the action for the env's current state, [Da], with which the caller then steps the env.
  /// False if there is no action yet: time stands still. Throws Error{kEnv} if the source cannot
  /// continue.
  virtual bool Next(std::span<float> action) = 0;

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
  void Begin(std::uint64_t seed) override { env_.BeginExpert(seed); }
  bool Next(std::span<float> action) override;

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
  bool Next(std::span<float> action) override;
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
                const Horizons& horizons, const control::LoopOptions& options = {});

  std::string_view name() const override { return "policy"; }
  void Begin(std::uint64_t seed) override { loop_.Reset(seed); }

  /// Throws Error{kNumeric} on an observation or action that is not finite.
  bool Next(std::span<float> action) override;

 private:
  Env& env_;
  plugin::ObsMemory seen_;       // the latest observation
  std::vector<ObsView> wanted_;  // of it: what the policy reads
  control::ControlLoop loop_;
};

}  // namespace dp_bench::view
