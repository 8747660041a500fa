// The base of envs that wrap another one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "plugin/env_with_abilities.h"

namespace dp_bench::plugin {

/// A reference to a function object without arguments; it allocates nothing, unlike std::function.
class CallRef {
 public:
  template <class Call>
  CallRef(const Call& call)  // implicit, so that a lambda can be passed
      : call_(&call), invoke_([](const void* object) { (*static_cast<const Call*>(object))(); }) {}

  void operator()() const { invoke_(call_); }

 private:
  const void* call_;
  void (*invoke_)(const void*);
};

/// Forwards every call to the wrapped env, including its abilities. A new method or ability of Env
/// is forwarded only here; decorators override what they change.
class ForwardingEnv : public EnvWithAbilities {
 public:
  void Reset(std::uint64_t seed) override;
  StepResult Step(std::span<const float> action) override;
  void Observe(const ObsWriter& obs) override;
  void Render(RgbImage* frame) override;

 protected:
  /// `spec`: of the wrapped env, perhaps without some of its abilities.
  ForwardingEnv(std::unique_ptr<Env> env, EnvSpec spec);

  Env& wrapped() { return *env_; }

  /// Destroys the wrapped env, after which nothing may be called.
  void Destroy() { env_.reset(); }

  /// Makes one call into the wrapped env. `name`: the method, for messages.
  virtual void Around(const char* name, CallRef call) const;

  void GetState(std::span<double> state) const override;
  void SetState(std::span<const double> state) override;
  void Begin(std::uint64_t seed) override;
  void Act(std::span<float> action) override;
  void PointerAction(double x, double y, std::span<float> action) const override;
  CameraParameters Parameters(int camera, int width, int height) const override;
  void RenderCamera(int camera, RgbImage* frame) override;
  void StateMarks(int width, int height, std::span<float> xy) const override;
  void ActionMarks(std::span<const float> action, int width, int height,
                   std::span<float> xy) const override;

 private:
  std::unique_ptr<Env> env_;
};

}  // namespace dp_bench::plugin
