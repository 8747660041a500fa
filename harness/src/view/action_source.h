// Where a player gets its actions from: an expert, a policy, a recorded episode, a person.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/env_abilities.h"

namespace dp_bench::view {

/// A pointer over the picture of the env: x and y as in PointerControl.
struct Pointer {
  double x = 0.0;
  double y = 0.0;
  bool is_down = false;

  bool operator==(const Pointer&) const = default;
};

/// What an ActionSource has for the current step.
enum class Supply {
  kAction,
  kWait,  // nothing yet: time stands still
  kEnd,   // nothing any more: the episode is over
};

/// Belongs to one env and is used by the thread that uses the env.
class ActionSource {
 public:
  ActionSource(const ActionSource&) = delete;
  ActionSource& operator=(const ActionSource&) = delete;
  virtual ~ActionSource() = default;

  /// "expert", "policy", ...: for the title.
  virtual std::string_view name() const = 0;

  /// Which seed the env is reset to for an episode; nullopt when there is no such episode. Episodes
  /// are called by their seed, those of a recording by their place in it.
  virtual std::optional<std::uint64_t> SeedOf(std::uint64_t episode) const { return episode; }
  virtual bool is_recording() const { return false; }

  /// The env was just Reset for this episode.
  virtual void Begin(std::uint64_t episode) = 0;

  /// Writes the action for the env's current state, [Da]. After kAction the caller steps the env
  /// with it. Throws Error{kEnv} when the source sees no way on.
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
  void Begin(std::uint64_t episode) override { expert_->Begin(episode); }
  Supply Next(std::span<float> action) override;

 private:
  Expert* expert_;  // of the env
};

/// A person: the env follows the pointer while its button is held, and waits while it is not.
class PointerSource final : public ActionSource {
 public:
  /// Throws Error{kUsage} when the env has no pointer control.
  explicit PointerSource(Env& env);

  std::string_view name() const override { return "human"; }
  void Begin(std::uint64_t) override {}
  Supply Next(std::span<float> action) override;
  void Point(const Pointer& pointer) override { pointer_ = pointer; }

 private:
  PointerControl* control_;  // of the env
  Pointer pointer_;
};

}  // namespace dp_bench::view
