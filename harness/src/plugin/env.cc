// The contract of Env, checked here and nowhere else: on this side of every call into an env, so
// that no plugin can pass it by. A step of a fast env takes 2 us, so its checks may take a few ns.
#include "dp_bench/env.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/errors.h"
#include "plugin/env_guard.h"
#include "plugin/spec_check.h"

namespace dp_bench {
namespace {

void RequireSize(ErrorCode code, const char* what, std::size_t wanted, std::size_t found) {
  if (found == wanted) return;
  throw FormatError(code, "expected {} of {} numbers, found {}", what, wanted, found);
}

void RequireFiniteResult(double value, std::string_view name) {
  if (std::isfinite(value)) return;
  throw NumericError("the env reported {} = {}, expected a finite number. Look at its simulation.",
                     name, value);
}

void RequireDeclared(const char* ability, bool is_declared) {
  if (is_declared) return;
  throw UsageError("the env does not offer this: its spec does not declare {}", ability);
}

[[noreturn]] void ThrowMissing(const char* ability, const char* function) {
  throw PluginError(
      "the env's spec declares {} and there is no {}. Override it, or correct `abilities` in "
      "Describe.",
      ability, function);
}

}  // namespace

namespace plugin {

void EnvGuard::Begun() {
  if (!memory_) memory_.emplace(env_.spec_.shape_meta);
  memory_->obs.StartEpisode();
  progress_ = Progress::kRunning;
}

void EnvGuard::RequireBegun() const {
  if (progress_ == Progress::kRunning || progress_ == Progress::kOver) return;
  throw EnvError("{}: expected a call of Reset first", progress_ == Progress::kBroken
                                                           ? "the last step failed"
                                                           : "the episode has not begun");
}

void EnvGuard::RequireRunning() const {
  RequireBegun();
  if (progress_ == Progress::kRunning) return;
  throw EnvError(
      "the episode is over: expected Reset, found another Step. Stop when a step reports "
      "`terminated`.");
}

void EnvGuard::RequireActionSize(std::size_t found) const {
  RequireSize(ErrorCode::kShape, "an action",
              static_cast<std::size_t>(env_.spec_.shape_meta.action_dim()), found);
}

void EnvGuard::RequireAction(std::span<const float> action) const {
  RequireActionSize(action.size());
  for (std::size_t i = 0; i < action.size(); ++i) {
    if (std::isfinite(action[i])) continue;
    throw NumericError(
        "expected finite numbers in the action, found {} in dimension {}. Look at the policy or "
        "expert that chose it.",
        action[i], i);
  }
}

void EnvGuard::RequireResult(const StepResult& result) const {
  RequireFiniteResult(result.reward, "reward");
  const std::vector<MetricSpec>& metrics = env_.spec_.metrics;
  if (result.metrics.size() != metrics.size()) {
    throw PluginError(
        "the env reported {} metrics, its spec lists {}. Report those of the spec with every step, "
        "in its order.",
        result.metrics.size(), metrics.size());
  }
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    RequireFiniteResult(result.metrics[i], metrics[i].name);
  }
}

void EnvGuard::RequireCamera(int camera) const {
  const std::vector<std::string>& cameras = env_.spec_.abilities.cameras;
  RequireDeclared("cameras", !cameras.empty());
  if (camera >= 0 && std::cmp_less(camera, cameras.size())) return;
  throw EnvError("expected a camera from 0 to {}, found {}", cameras.size() - 1, camera);
}

template <class Write>
void EnvGuard::FillAction(const char* name, std::span<float> action, const Write& write) {
  Check(name, [&] {
    RequireBegun();
    RequireActionSize(action.size());
  });
  const std::span<std::byte> bytes = std::as_writable_bytes(action);
  memory_->action.Prepare({&bytes, 1});
  const std::span<std::byte> own = memory_->action.buffers().front();
  Call(name, [&] { write(std::span(reinterpret_cast<float*>(own.data()), action.size())); });
  Check(name, [&] { memory_->action.Finish({&bytes, 1}); });
}

template <class Draw>
void EnvGuard::KeepSize(const char* name, RgbImage* frame, const Draw& draw) {
  const int width = frame->width;
  const int height = frame->height;
  const std::size_t size = frame->pixels.size();
  Call(name, draw);
  Check(name, [&] {
    if (frame->width == width && frame->height == height && frame->pixels.size() == size) return;
    throw PluginError(
        "expected an image of {} x {} in {} bytes, found {} x {} in {} bytes. Draw at the size of "
        "`frame`, and do not change it.",
        width, height, size, frame->width, frame->height, frame->pixels.size());
  });
}

}  // namespace plugin

Env::Env(EnvSpec spec)
    : spec_(plugin::WithSortedKeys(std::move(spec))),
      guard_(std::make_unique<plugin::EnvGuard>(*this)) {}

Env::~Env() = default;

void Env::Destroy(Env* env) {
  if (!env->guard_->place_) return delete env;
  core::CallWatch watch(env->guard_->place_->Name());  // the guard's own ends with the env
  const core::CallWatch::Call watched(watch, "its destructor");
  delete env;
}

void Env::Reset(std::uint64_t seed) {
  guard_->progress_ = plugin::EnvGuard::Progress::kNotBegun;
  if (guard_->place_) guard_->place_->seed = seed;
  guard_->Call("Reset", [&] { DoReset(seed); });
  if (guard_->filter_) guard_->filter_->Start(seed);
  guard_->Begun();
}

StepResult Env::Step(std::span<const float> action) {
  using Progress = plugin::EnvGuard::Progress;
  guard_->Check("Step", [&] {
    guard_->RequireRunning();
    guard_->RequireAction(action);
  });
  if (guard_->filter_) action = guard_->filter_->Filter(action);
  guard_->progress_ = Progress::kBroken;
  StepResult result;
  guard_->Call("Step", [&] { result = DoStep(action); });
  guard_->progress_ = result.terminated ? Progress::kOver : Progress::kRunning;
  guard_->Check("Step", [&] { guard_->RequireResult(result); });
  return result;
}

void Env::Observe(const ObsWriter& obs) {
  guard_->Check("Observe", [&] { guard_->RequireBegun(); });
  guard_->memory_->obs.Prepare(obs.buffers());
  guard_->Call("Observe", [&] { DoObserve(guard_->memory_->writer); });
  guard_->Check("Observe", [&] { guard_->memory_->obs.Finish(obs.buffers()); });
}

void Env::Render(RgbImage* frame) {
  guard_->Check("Render", [&] { guard_->RequireBegun(); });
  guard_->KeepSize("Render", frame, [&] { DoRender(frame); });
}

void Env::GetState(std::span<double> state) const {
  guard_->Check("GetState", [&] {
    RequireDeclared("state_size", spec_.abilities.state_size > 0);
    guard_->RequireBegun();
    RequireSize(ErrorCode::kEnv, "a state", spec_.abilities.state_size, state.size());
  });
  guard_->Call("GetState", [&] { DoGetState(state); });
}

void Env::SetState(std::span<const double> state) {
  guard_->Check("SetState", [&] {
    RequireDeclared("state_size", spec_.abilities.state_size > 0);
    RequireSize(ErrorCode::kEnv, "a state", spec_.abilities.state_size, state.size());
    const auto bad = std::ranges::find_if_not(state, [](double x) { return std::isfinite(x); });
    if (bad == state.end()) return;
    throw EnvError("expected a finite state, found {} in number {}", *bad, bad - state.begin());
  });
  guard_->Call("SetState", [&] { DoSetState(state); });
  guard_->Begun();
}

void Env::BeginExpert(std::uint64_t seed) {
  guard_->Check("BeginExpert", [&] {
    RequireDeclared("has_expert", spec_.abilities.has_expert);
    guard_->RequireBegun();
  });
  guard_->Call("BeginExpert", [&] { DoBeginExpert(seed); });
}

void Env::Act(std::span<float> action) {
  guard_->Check("Act", [&] { RequireDeclared("has_expert", spec_.abilities.has_expert); });
  guard_->FillAction("Act", action, [&](std::span<float> own) { DoAct(own); });
}

void Env::PointerAction(double x, double y, std::span<float> action) const {
  guard_->Check("PointerAction", [&] {
    RequireDeclared("has_pointer_control", spec_.abilities.has_pointer_control);
  });
  guard_->FillAction("PointerAction", action,
                     [&](std::span<float> own) { DoPointerAction(x, y, own); });
}

CameraParameters Env::GetCamera(int camera, int width, int height) const {
  guard_->Check("GetCamera", [&] {
    guard_->RequireCamera(camera);
    guard_->RequireBegun();
  });
  CameraParameters parameters;
  guard_->Call("GetCamera", [&] { parameters = DoGetCamera(camera, width, height); });
  return parameters;
}

void Env::RenderCamera(int camera, RgbImage* frame) {
  guard_->Check("RenderCamera", [&] {
    guard_->RequireCamera(camera);
    guard_->RequireBegun();
  });
  guard_->KeepSize("RenderCamera", frame, [&] { DoRenderCamera(camera, frame); });
}

void Env::Marks(std::span<const float> action, int width, int height, std::span<float> xy) const {
  guard_->Check("Marks", [&] {
    RequireDeclared("n_marks", spec_.abilities.n_marks > 0);
    guard_->RequireBegun();
    if (!action.empty()) guard_->RequireActionSize(action.size());
    RequireSize(ErrorCode::kShape, "marks", 2 * static_cast<std::size_t>(spec_.abilities.n_marks),
                xy.size());
  });
  guard_->Call("Marks", [&] { DoMarks(action, width, height, xy); });
}

void Env::DoGetState(std::span<double>) const { ThrowMissing("state_size", "DoGetState"); }
void Env::DoSetState(std::span<const double>) { ThrowMissing("state_size", "DoSetState"); }
void Env::DoBeginExpert(std::uint64_t) {}
void Env::DoAct(std::span<float>) { ThrowMissing("has_expert", "DoAct"); }
void Env::DoPointerAction(double, double, std::span<float>) const {
  ThrowMissing("has_pointer_control", "DoPointerAction");
}
CameraParameters Env::DoGetCamera(int, int, int) const { ThrowMissing("cameras", "DoGetCamera"); }
void Env::DoRenderCamera(int, RgbImage*) { ThrowMissing("cameras", "DoRenderCamera"); }
void Env::DoMarks(std::span<const float>, int, int, std::span<float>) const {
  ThrowMissing("n_marks", "DoMarks");
}

}  // namespace dp_bench
