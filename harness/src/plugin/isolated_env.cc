#include "plugin/isolated_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/hosted_env.h"
#include "plugin/env_session.h"
#include "plugin/env_with_abilities.h"
#include "plugin/step_ahead.h"

namespace dp_bench::plugin {

namespace {

// Copies to memory of the same size.
void Copy(std::span<const std::byte> from, std::span<std::byte> to) {
  DPB_ASSERT(from.size() == to.size());
  std::ranges::copy(from, to.begin());
}

void RequireSize(ErrorCode code, const char* what, std::size_t wanted, std::size_t found) {
  if (found == wanted) return;
  throw Error(code, fmt::format("expected {} of {} numbers, found {}", what, wanted, found));
}

class IsolatedEnv final : public EnvWithAbilities, public StepAhead {
 public:
  explicit IsolatedEnv(std::unique_ptr<EnvSession> session)
      : EnvWithAbilities(session->offer().spec),
        session_(std::move(session)),
        metrics_(spec().metrics.size()) {}

  void Reset(std::uint64_t seed) override {
    session_->Call({.command = EnvCommand::kReset, .seed = seed});
  }

  StepResult Step(std::span<const float> action) override {
    RequireAction(action);
    const Answer answer = session_->Call({.command = EnvCommand::kStep}, std::as_bytes(action));
    const std::size_t n_metrics =
        std::min<std::size_t>(answer.size / sizeof(double), metrics_.size());
    const auto metrics = std::span(metrics_).first(n_metrics);
    Copy(session_->Output(metrics.size_bytes()), std::as_writable_bytes(metrics));
    return {.reward = answer.reward,
            .terminated = answer.terminated,
            .success = answer.success,
            .metrics = metrics};
  }

  void ExpectSteps(std::span<const float> actions, int first_observed) override {
    session_->StepAhead(std::as_bytes(actions), first_observed);
  }

  void Observe(const ObsWriter& obs) override {
    if (!session_->has_observation()) session_->Call({.command = EnvCommand::kObserve});
    for (std::size_t i = 0; i < obs.buffers().size(); ++i) Copy(session_->Obs(i), obs.buffers()[i]);
  }

  void Render(RgbImage* frame) override { CallForFrame({.command = EnvCommand::kRender}, frame); }

 private:
  void GetState(std::span<double> state) const override {
    RequireSize(ErrorCode::kEnv, "room for a state", abilities().state_size, state.size());
    session_->Call({.command = EnvCommand::kGetState});
    Copy(session_->Output(state.size_bytes()), std::as_writable_bytes(state));
  }
  void SetState(std::span<const double> state) override {
    RequireSize(ErrorCode::kEnv, "a state", abilities().state_size, state.size());
    session_->Call({.command = EnvCommand::kSetState}, std::as_bytes(state));
  }

  void Begin(std::uint64_t seed) override {
    session_->Call({.command = EnvCommand::kBegin, .seed = seed});
  }
  void Act(std::span<float> action) override {
    CallForAction({.command = EnvCommand::kAct}, action);
  }

  void PointerAction(double x, double y, std::span<float> action) const override {
    CallForAction({.command = EnvCommand::kPointerAction, .x = x, .y = y}, action);
  }

  CameraParameters Parameters(int camera, int width, int height) const override {
    const Answer answer = session_->Call({.command = EnvCommand::kCameraParameters,
                                          .camera = camera,
                                          .width = width,
                                          .height = height});
    return DecodeCamera(session_->Bulk(answer.size));
  }
  void RenderCamera(int camera, RgbImage* frame) override {
    CallForFrame({.command = EnvCommand::kRenderCamera, .camera = camera}, frame);
  }

  void StateMarks(int width, int height, std::span<float> xy) const override {
    CallForMarks({.command = EnvCommand::kStateMarks, .width = width, .height = height}, {}, xy);
  }
  void ActionMarks(std::span<const float> action, int width, int height,
                   std::span<float> xy) const override {
    RequireAction(action);
    CallForMarks({.command = EnvCommand::kActionMarks, .width = width, .height = height}, action,
                 xy);
  }

  const EnvAbilities& abilities() const { return spec().abilities; }
  std::size_t action_dim() const {
    return static_cast<std::size_t>(spec().shape_meta.action_dim());
  }

  void RequireAction(std::span<const float> action) const {
    RequireSize(ErrorCode::kShape, "an action", action_dim(), action.size());
  }

  void CallForAction(const Request& request, std::span<float> action) const {
    RequireSize(ErrorCode::kShape, "room for an action", action_dim(), action.size());
    session_->Call(request);
    Copy(session_->Output(action.size_bytes()), std::as_writable_bytes(action));
  }

  void CallForFrame(Request request, RgbImage* frame) const {
    request.width = frame->width;
    request.height = frame->height;
    session_->ReserveBulk(frame->pixels.size());
    session_->Call(request);
    Copy(session_->Bulk(frame->pixels.size()), std::as_writable_bytes(std::span(frame->pixels)));
  }

  void CallForMarks(const Request& request, std::span<const float> action,
                    std::span<float> xy) const {
    const std::size_t n_numbers = 2 * static_cast<std::size_t>(abilities().n_marks);
    RequireSize(ErrorCode::kShape, "room for marks", n_numbers, xy.size());
    session_->ReserveBulk(xy.size_bytes());
    session_->Call(request, std::as_bytes(action));
    Copy(session_->Bulk(xy.size_bytes()), std::as_writable_bytes(xy));
  }

  std::unique_ptr<EnvSession> session_;
  std::vector<double> metrics_;
};

// Keys of `params` that the plugin reads there count as read here.
std::unique_ptr<EnvSession> StartSession(PluginPlace plugin, const Config& params,
                                         const IsolationConfig& config, EnvCommand command) {
  auto session = std::make_unique<EnvSession>(SessionStart::OfPlugin(std::move(plugin), params),
                                              config, command);
  AdoptReads(params, nlohmann::json::parse(session->offer().params));
  return session;
}

// The caller's guard names the plugin in every message.
SessionStart StartOf(const HostedEnv& hosted) {
  const auto* const text = reinterpret_cast<const std::uint8_t*>(hosted.request.data());
  return {.command = {.arguments = hosted.command, .files = hosted.files},
          .request = {text, text + hosted.request.size()},
          .plugin = {.name = hosted.name},
          .adds_context = false};
}

IsolationConfig LimitsOf(const HostedEnv& hosted) {
  return {.is_enabled = true,
          .step_timeout = hosted.step_timeout,
          .reset_timeout = hosted.reset_timeout,
          .memory_limit_mb = hosted.memory_limit_mb};
}

constexpr double kMinTimeout = 0.1;    // [s]
constexpr double kMaxTimeout = 1.0e6;  // [s]

}  // namespace

std::unique_ptr<Env> CreateIsolatedEnv(PluginPlace plugin, const Config& params,
                                       const IsolationConfig& config) {
  return std::make_unique<IsolatedEnv>(
      StartSession(std::move(plugin), params, config, EnvCommand::kCreate));
}

EnvSpec DescribeIsolatedEnv(PluginPlace plugin, const Config& params,
                            const IsolationConfig& config) {
  return StartSession(std::move(plugin), params, config, EnvCommand::kDescribe)->offer().spec;
}

IsolationConfig IsolationConfig::FromConfig(const Config& env_runner) {
  IsolationConfig c;
  c.is_enabled = env_runner.Get<bool>("isolate", c.is_enabled, "one process per env");
  c.step_timeout = env_runner.GetInRange(
      "step_timeout", c.step_timeout, kMinTimeout, kMaxTimeout,
      "seconds that a step, an observation or an image of an isolated env may take");
  c.reset_timeout =
      env_runner.GetInRange("reset_timeout", c.reset_timeout, kMinTimeout, kMaxTimeout,
                            "seconds that creating or resetting an isolated env may take");
  c.memory_limit_mb = static_cast<int>(env_runner.GetInRange(
      "memory_limit_mb", std::int64_t{c.memory_limit_mb}, std::int64_t{0}, std::int64_t{1} << 30,
      "memory that the process of an isolated env may use, in MiB; 0 = no limit"));
  return c;
}

}  // namespace dp_bench::plugin

namespace dp_bench {

EnvSpec DescribeHostedEnv(const HostedEnv& hosted) {
  return plugin::EnvSession(plugin::StartOf(hosted), plugin::LimitsOf(hosted),
                            plugin::EnvCommand::kDescribe)
      .offer()
      .spec;
}

std::unique_ptr<Env> CreateHostedEnv(const HostedEnv& hosted) {
  return std::make_unique<plugin::IsolatedEnv>(
      std::make_unique<plugin::EnvSession>(plugin::StartOf(hosted), plugin::LimitsOf(hosted)));
}

}  // namespace dp_bench
