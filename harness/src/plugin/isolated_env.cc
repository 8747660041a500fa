#include "plugin/isolated_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/env_abilities.h"
#include "dp_bench/error.h"
#include "plugin/env_session.h"

namespace dp_bench::plugin {

namespace {

// Copies to memory of the same size.
void Copy(std::span<const std::byte> from, std::span<std::byte> to) {
  DPB_ASSERT(from.size() == to.size());
  std::ranges::copy(from, to.begin());
}

void RequireSize(ErrorCode code, const char* what, std::size_t wanted, std::size_t found) {
  if (found == wanted) return;
  throw Error(code, fmt::format("wanted {} of {} numbers, found {}", what, wanted, found));
}

std::size_t ActionDim(const EnvSession& session) {
  return static_cast<std::size_t>(session.offer().spec.shape_meta.action_dim());
}

// An action that the call answered with.
void CallForAction(EnvSession* session, const Request& request, std::span<float> action) {
  RequireSize(ErrorCode::kShape, "room for an action", ActionDim(*session), action.size());
  session->Call(request);
  Copy(session->Output(action.size_bytes()), std::as_writable_bytes(action));
}

void CallForFrame(EnvSession* session, Request request, RgbImage* frame) {
  request.width = frame->width;
  request.height = frame->height;
  session->ReserveBulk(frame->pixels.size());
  session->Call(request);
  Copy(session->Bulk(frame->pixels.size()), std::as_writable_bytes(std::span(frame->pixels)));
}

class IsolatedStateAccess final : public StateAccess {
 public:
  explicit IsolatedStateAccess(EnvSession* session) : session_(session) {}

  std::size_t state_size() const override { return session_->offer().state_size.value_or(0); }
  void GetState(std::span<double> state) const override {
    RequireSize(ErrorCode::kEnv, "room for a state", state_size(), state.size());
    session_->Call({.command = EnvCommand::kGetState});
    Copy(session_->Output(state.size_bytes()), std::as_writable_bytes(state));
  }
  void SetState(std::span<const double> state) override {
    RequireSize(ErrorCode::kEnv, "a state", state_size(), state.size());
    session_->Call({.command = EnvCommand::kSetState}, std::as_bytes(state));
  }

 private:
  EnvSession* session_;  // these five belong to the isolated env, like their session
};

class IsolatedExpert final : public Expert {
 public:
  explicit IsolatedExpert(EnvSession* session) : session_(session) {}

  void Begin(std::uint64_t seed) override {
    session_->Call({.command = EnvCommand::kBegin, .seed = seed});
  }
  void Act(std::span<float> action) override {
    CallForAction(session_, {.command = EnvCommand::kAct}, action);
  }

 private:
  EnvSession* session_;
};

class IsolatedPointerControl final : public PointerControl {
 public:
  explicit IsolatedPointerControl(EnvSession* session) : session_(session) {}

  void PointerAction(double x, double y, std::span<float> action) const override {
    CallForAction(session_, {.command = EnvCommand::kPointerAction, .x = x, .y = y}, action);
  }

 private:
  EnvSession* session_;
};

class IsolatedCameraAccess final : public CameraAccess {
 public:
  explicit IsolatedCameraAccess(EnvSession* session) : session_(session) {}

  std::span<const std::string> camera_names() const override { return session_->offer().cameras; }
  CameraParameters Parameters(int camera, int width, int height) const override {
    const Answer answer = session_->Call({.command = EnvCommand::kCameraParameters,
                                          .camera = camera,
                                          .width = width,
                                          .height = height});
    return DecodeCamera(session_->Bulk(answer.size));
  }
  void RenderCamera(int camera, RgbImage* frame) override {
    CallForFrame(session_, {.command = EnvCommand::kRenderCamera, .camera = camera}, frame);
  }

 private:
  EnvSession* session_;
};

class IsolatedPictureMarks final : public PictureMarks {
 public:
  explicit IsolatedPictureMarks(EnvSession* session) : session_(session) {}

  int n_marks() const override { return session_->offer().n_marks; }
  void StateMarks(int width, int height, std::span<float> xy) const override {
    Ask({.command = EnvCommand::kStateMarks, .width = width, .height = height}, {}, xy);
  }
  void ActionMarks(std::span<const float> action, int width, int height,
                   std::span<float> xy) const override {
    RequireSize(ErrorCode::kShape, "an action", ActionDim(*session_), action.size());
    Ask({.command = EnvCommand::kActionMarks, .width = width, .height = height}, action, xy);
  }

 private:
  void Ask(const Request& request, std::span<const float> action, std::span<float> xy) const {
    const std::size_t n_numbers = 2 * static_cast<std::size_t>(n_marks());
    RequireSize(ErrorCode::kShape, "room for marks", n_numbers, xy.size());
    session_->ReserveBulk(xy.size_bytes());
    session_->Call(request, std::as_bytes(action));
    Copy(session_->Bulk(xy.size_bytes()), std::as_writable_bytes(xy));
  }

  EnvSession* session_;
};

class IsolatedEnv final : public Env {
 public:
  IsolatedEnv(PluginPlace plugin, const Config& params, const IsolationConfig& config)
      : session_(std::move(plugin), params, config), spec_(session_.offer().spec) {
    const EnvOffer& offer = session_.offer();
    if (offer.state_size) state_access_ = std::make_unique<IsolatedStateAccess>(&session_);
    if (offer.has_expert) expert_ = std::make_unique<IsolatedExpert>(&session_);
    if (offer.has_pointer_control) {
      pointer_control_ = std::make_unique<IsolatedPointerControl>(&session_);
    }
    if (!offer.cameras.empty()) camera_access_ = std::make_unique<IsolatedCameraAccess>(&session_);
    if (offer.n_marks > 0) picture_marks_ = std::make_unique<IsolatedPictureMarks>(&session_);
    metrics_.resize(spec_.metrics.size());
  }

  const EnvSpec& spec() const override { return spec_; }

  void Reset(std::uint64_t seed) override {
    session_.Call({.command = EnvCommand::kReset, .seed = seed});
  }

  StepResult Step(std::span<const float> action) override {
    RequireSize(ErrorCode::kShape, "an action", ActionDim(session_), action.size());
    const Answer answer = session_.Call({.command = EnvCommand::kStep}, std::as_bytes(action));
    const std::size_t n_metrics =
        std::min<std::size_t>(answer.size / sizeof(double), metrics_.size());
    const auto metrics = std::span(metrics_).first(n_metrics);
    Copy(session_.Output(metrics.size_bytes()), std::as_writable_bytes(metrics));
    return {.reward = answer.reward,
            .terminated = answer.terminated,
            .success = answer.success,
            .metrics = metrics};
  }

  void Observe(ObsBuffers obs) override {
    const std::vector<KeySpec>& keys = spec_.shape_meta.obs;
    RequireSize(ErrorCode::kShape, "observation buffers for a spec", keys.size(), obs.size());
    session_.Call({.command = EnvCommand::kObserve});
    for (std::size_t i = 0; i < keys.size(); ++i) {
      RequireSize(ErrorCode::kShape, "an observation buffer in bytes", keys[i].ByteSize(),
                  obs[i].size());
      Copy(session_.Obs(i), obs[i]);
    }
  }

  void Render(RgbImage* frame) override {
    CallForFrame(&session_, {.command = EnvCommand::kRender}, frame);
  }

  StateAccess* state_access() override { return state_access_.get(); }
  Expert* expert() override { return expert_.get(); }
  PointerControl* pointer_control() override { return pointer_control_.get(); }
  CameraAccess* camera_access() override { return camera_access_.get(); }
  PictureMarks* picture_marks() override { return picture_marks_.get(); }

 private:
  EnvSession session_;
  EnvSpec spec_;
  std::vector<double> metrics_;
  std::unique_ptr<IsolatedStateAccess> state_access_;
  std::unique_ptr<IsolatedExpert> expert_;
  std::unique_ptr<IsolatedPointerControl> pointer_control_;
  std::unique_ptr<IsolatedCameraAccess> camera_access_;
  std::unique_ptr<IsolatedPictureMarks> picture_marks_;
};

}  // namespace

std::unique_ptr<Env> CreateIsolatedEnv(PluginPlace plugin, const Config& params,
                                       const IsolationConfig& config) {
  return std::make_unique<IsolatedEnv>(std::move(plugin), params, config);
}

namespace {

constexpr double kMinTimeout = 0.1;    // [s]
constexpr double kMaxTimeout = 1.0e6;  // [s]

}  // namespace

IsolationConfig IsolationConfig::FromConfig(const Config& env_runner) {
  IsolationConfig c;
  c.is_enabled = env_runner.Get<bool>("isolate", c.is_enabled);
  c.step_timeout = env_runner.GetInRange("step_timeout", c.step_timeout, kMinTimeout, kMaxTimeout);
  c.reset_timeout =
      env_runner.GetInRange("reset_timeout", c.reset_timeout, kMinTimeout, kMaxTimeout);
  c.memory_limit_mb = static_cast<int>(env_runner.GetInRange(
      "memory_limit_mb", std::int64_t{c.memory_limit_mb}, std::int64_t{0}, std::int64_t{1} << 30));
  return c;
}

}  // namespace dp_bench::plugin
