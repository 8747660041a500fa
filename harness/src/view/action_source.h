// Where a player gets its actions: an expert, a policy, a recorded episode or a person.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dp_bench/env.h"

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

}  // namespace dp_bench::view
