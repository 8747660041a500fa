// The guarded env: what the contract of Env says about every call is checked here, once for all
// verbs. A step of a fast env takes 2 us, so a check of every step may take a few ns.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/call_watch.h"
#include "plugin/buffer_guard.h"
#include "plugin/forwarding_env.h"
#include "plugin/guard.h"
#include "plugin/spec_check.h"
#include "plugin/step_ahead.h"

namespace dp_bench::plugin {
namespace {

void RequireAbility(const char* name, bool is_declared, bool is_offered) {
  if (is_declared == is_offered) return;
  throw Error(ErrorCode::kPlugin,
              fmt::format("the env's spec {} and {}() is {}null. Correct `abilities` in Describe, "
                          "or what {}() returns.",
                          is_declared ? "declares an ability" : "does not declare an ability", name,
                          is_offered ? "not " : "", name));
}

// A plugin's spec and its ability pointers must agree: the host relies on the spec alone.
EnvSpec CheckedSpec(Env& env) {
  const EnvSpec& spec = env.spec();
  RequireSound(spec);
  const EnvAbilities& abilities = spec.abilities;
  RequireAbility("state_access", abilities.state_size > 0, env.state_access() != nullptr);
  RequireAbility("expert", abilities.has_expert, env.expert() != nullptr);
  RequireAbility("pointer_control", abilities.has_pointer_control,
                 env.pointer_control() != nullptr);
  RequireAbility("camera_access", !abilities.cameras.empty(), env.camera_access() != nullptr);
  RequireAbility("picture_marks", abilities.n_marks > 0, env.picture_marks() != nullptr);
  return spec;
}

void RequireFiniteResult(double value, std::string_view name) {
  if (std::isfinite(value)) return;
  throw Error(
      ErrorCode::kNumeric,
      fmt::format("the env reported {} = {}, expected a finite number. Look at its simulation.",
                  name, value));
}

class GuardedEnv final : public ForwardingEnv, public StepAhead {
 public:
  GuardedEnv(std::unique_ptr<Env> env, EnvSpec spec, PluginPlace place)
      : ForwardingEnv(std::move(env), std::move(spec)),
        ahead_(dynamic_cast<StepAhead*>(&wrapped())),
        place_(std::move(place)),
        watch_(place_.Name()),
        obs_guard_(this->spec().shape_meta.obs),
        guarded_obs_(this->spec().shape_meta.obs, obs_guard_.buffers()),
        action_guard_({&this->spec().shape_meta.action, 1}) {}

  ~GuardedEnv() override {
    const core::CallWatch::Call watched(watch_, "its destructor");
    Destroy();
  }

  void Reset(std::uint64_t seed) override {
    progress_ = Progress::kNotBegun;
    place_.seed = seed;
    ForwardingEnv::Reset(seed);
    Begun();
  }

  StepResult Step(std::span<const float> action) override {
    Check("Step", [&] {
      RequireBegun();
      if (progress_ == Progress::kOver) {
        throw Error(ErrorCode::kEnv,
                    "the episode is over: expected Reset, found another Step. Stop when a step "
                    "reports `terminated`.");
      }
      RequireAction(action);
    });
    const StepResult result = ForwardingEnv::Step(action);
    if (result.terminated) progress_ = Progress::kOver;
    Check("Step", [&] { RequireResult(result); });
    return result;
  }

  void ExpectSteps(std::span<const float> actions, int first_observed) override {
    if (ahead_ == nullptr) return;
    Around("Step", [&] { ahead_->ExpectSteps(actions, first_observed); });
  }

  void Observe(const ObsWriter& obs) override {
    CheckBegun("Observe");
    obs_guard_.Prepare(obs.buffers());
    ForwardingEnv::Observe(guarded_obs_);
    Check("Observe", [&] { obs_guard_.Finish(obs.buffers()); });
  }

  void Render(RgbImage* frame) override {
    CheckBegun("Render");
    KeepSize("Render", frame, [&] { ForwardingEnv::Render(frame); });
  }

 private:
  enum class Progress { kNotBegun, kRunning, kOver };

  void GetState(std::span<double> state) const override {
    CheckBegun("GetState");
    Check("GetState", [&] { RequireStateSize(state.size()); });
    ForwardingEnv::GetState(state);
  }
  void SetState(std::span<const double> state) override {
    Check("SetState", [&] { RequireStateSize(state.size()); });
    ForwardingEnv::SetState(state);
    Begun();
  }

  void Begin(std::uint64_t seed) override {
    CheckBegun("Expert::Begin");
    ForwardingEnv::Begin(seed);
  }
  void Act(std::span<float> action) override {
    Check("Expert::Act", [&] {
      RequireBegun();
      RequireActionSize(action.size());
    });
    const std::span<std::byte> bytes = std::as_writable_bytes(action);
    action_guard_.Prepare({&bytes, 1});
    const std::span<std::byte> own = action_guard_.buffers().front();
    ForwardingEnv::Act({reinterpret_cast<float*>(own.data()), action.size()});
    Check("Expert::Act", [&] { action_guard_.Finish({&bytes, 1}); });
  }

  void PointerAction(double x, double y, std::span<float> action) const override {
    CheckBegun("PointerAction");
    ForwardingEnv::PointerAction(x, y, action);
  }

  CameraParameters Parameters(int camera, int width, int height) const override {
    CheckBegun("Parameters");
    return ForwardingEnv::Parameters(camera, width, height);
  }
  void RenderCamera(int camera, RgbImage* frame) override {
    CheckBegun("RenderCamera");
    KeepSize("RenderCamera", frame, [&] { ForwardingEnv::RenderCamera(camera, frame); });
  }

  void StateMarks(int width, int height, std::span<float> xy) const override {
    CheckBegun("StateMarks");
    ForwardingEnv::StateMarks(width, height, xy);
  }
  void ActionMarks(std::span<const float> action, int width, int height,
                   std::span<float> xy) const override {
    Check("ActionMarks", [&] {
      RequireBegun();
      RequireActionSize(action.size());
    });
    ForwardingEnv::ActionMarks(action, width, height, xy);
  }

  void Around(const char* name, CallRef call) const override {
    const core::CallWatch::Call watched(watch_, name);
    GuardCall(place_, name, call);
  }

  // Of the host's own code, which throws nothing but Error; GuardCall would take some ns more.
  template <class Call>
  void Check(const char* name, const Call& call) const {
    try {
      call();
    } catch (Error& error) {
      error.AddContext(place_.Context(name));
      throw;
    }
  }

  void Begun() {
    progress_ = Progress::kRunning;
    obs_guard_.StartEpisode();
  }
  void CheckBegun(const char* name) const {
    Check(name, [this] { RequireBegun(); });
  }
  void RequireBegun() const {
    if (progress_ != Progress::kNotBegun) return;
    throw Error(ErrorCode::kEnv, "the episode has not begun: expected a call of Reset first");
  }

  void RequireActionSize(std::size_t found) const {
    const std::size_t wanted = spec().action_low.size();
    if (found == wanted) return;
    throw Error(ErrorCode::kShape,
                fmt::format("expected an action of {} numbers, found {}", wanted, found));
  }
  void RequireAction(std::span<const float> action) const {
    RequireActionSize(action.size());
    for (std::size_t i = 0; i < action.size(); ++i) {
      if (std::isfinite(action[i])) continue;
      throw Error(ErrorCode::kNumeric,
                  fmt::format("expected finite numbers in the action, found {} in dimension {}. "
                              "Look at the policy or expert that chose it.",
                              action[i], i));
    }
  }

  void RequireStateSize(std::size_t found) const {
    const std::size_t wanted = spec().abilities.state_size;
    if (found == wanted) return;
    throw Error(ErrorCode::kEnv,
                fmt::format("expected a state of {} numbers, found {}", wanted, found));
  }

  void RequireResult(const StepResult& result) const {
    RequireFiniteResult(result.reward, "reward");
    const std::vector<MetricSpec>& metrics = spec().metrics;
    if (result.metrics.size() != metrics.size()) {
      throw Error(ErrorCode::kPlugin,
                  fmt::format("the env reported {} metrics, its spec lists {}. Report those of the "
                              "spec with every step, in its order.",
                              result.metrics.size(), metrics.size()));
    }
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      RequireFiniteResult(result.metrics[i], metrics[i].name);
    }
  }

  // Draws, and requires a frame of the size that it had.
  template <class Call>
  void KeepSize(const char* name, RgbImage* frame, const Call& draw) const {
    const int width = frame->width;
    const int height = frame->height;
    const std::size_t size = frame->pixels.size();
    draw();
    Check(name, [&] {
      if (frame->width == width && frame->height == height && frame->pixels.size() == size) return;
      throw Error(
          ErrorCode::kPlugin,
          fmt::format("expected a picture of {} x {} in {} bytes, found {} x {} in {} "
                      "bytes. Draw at the size of `frame`, and do not change it.",
                      width, height, size, frame->width, frame->height, frame->pixels.size()));
    });
  }

  StepAhead* ahead_;  // the wrapped env, if it is one
  PluginPlace place_;
  mutable core::CallWatch watch_;
  Progress progress_ = Progress::kNotBegun;
  BufferGuard obs_guard_;
  const ObsWriter
      guarded_obs_;  // checks its buffers when it is made, which takes longer than a call
  BufferGuard action_guard_;
};

}  // namespace

std::unique_ptr<Env> GuardPlugin(std::unique_ptr<Env> env, PluginPlace place) {
  EnvSpec spec = GuardCall(place, "spec", [&] { return CheckedSpec(*env); });
  return std::make_unique<GuardedEnv>(std::move(env), std::move(spec), std::move(place));
}

}  // namespace dp_bench::plugin
