// What belongs to the calls of one env: their order, whose they are, and the memory that shows what
// the env writes. The checks themselves are in env.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/call_watch.h"
#include "dp_bench/env.h"
#include "plugin/buffer_guard.h"
#include "plugin/guard.h"

namespace dp_bench::plugin {

/// Changes the actions that an env executes.
class ActionFilter {
 public:
  ActionFilter(const ActionFilter&) = delete;
  ActionFilter& operator=(const ActionFilter&) = delete;
  virtual ~ActionFilter() = default;

  /// An episode begins.
  virtual void Start(std::uint64_t seed) = 0;
  /// What to execute instead of `action`, [Da]; valid until the next call.
  virtual std::span<const float> Filter(std::span<const float> action) = 0;

 protected:
  ActionFilter() = default;
};

class EnvGuard {
 public:
  /// `env` owns the guard.
  explicit EnvGuard(Env& env) : env_(env) {}

  static EnvGuard& Of(Env& env) { return *env.guard_; }

  /// From now on, errors name this plugin, its other exceptions become Error{kPlugin}, and its
  /// calls are known while they are under way.
  void SetPlace(PluginPlace place) {
    place_ = std::move(place);
    watch_.emplace(place_->Name());
  }

  /// From now on, the env executes filtered actions. It offers no state any more, because what the
  /// filter remembers would be missing from it.
  void SetActionFilter(std::unique_ptr<ActionFilter> filter) {
    filter_ = std::move(filter);
    env_.spec_.abilities.state_size = 0;
  }

 private:
  friend class dp_bench::Env;

  enum class Progress { kNotBegun, kRunning, kBroken, kOver };

  // What an env writes goes here first.
  struct Memory {
    explicit Memory(const ShapeMeta& meta)
        : obs(meta.obs), writer(meta.obs, obs.buffers()), action({&meta.action, 1}) {}
    BufferGuard obs;
    const ObsWriter writer;  // checks its buffers when it is made, which takes longer than a call
    BufferGuard action;
  };

  // Checks before or after a call. They throw nothing but Error; GuardCall would take some ns more.
  template <class Body>
  void Check(const char* name, const Body& body) const {
    try {
      body();
    } catch (Error& error) {
      if (place_) place_->AddContext(name, &error);
      throw;
    }
  }

  // A call of the env's own function.
  template <class Body>
  void Call(const char* name, const Body& body) {
    if (!place_) return body();
    const core::CallWatch::Call watched(*watch_, name);
    GuardCall(*place_, name, body);
  }

  void Begun();
  void RequireBegun() const;
  void RequireRunning() const;
  void RequireAction(std::span<const float> action) const;
  void RequireActionSize(std::size_t found) const;
  void RequireResult(const StepResult& result) const;
  void RequireCamera(int camera) const;

  // Lets `write` fill a checked buffer with an action, and copies it to `action`.
  template <class Write>
  void FillAction(const char* name, std::span<float> action, const Write& write);

  // Draws, and requires a frame of the size that it had.
  template <class Draw>
  void KeepSize(const char* name, RgbImage* frame, const Draw& draw);

  Env& env_;
  std::optional<PluginPlace> place_;
  std::optional<core::CallWatch> watch_;
  std::unique_ptr<ActionFilter> filter_;
  Progress progress_ = Progress::kNotBegun;
  std::optional<Memory> memory_;  // from the first episode on: a new env's spec was not checked yet
};

}  // namespace dp_bench::plugin
