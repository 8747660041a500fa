#include "plugin/forwarding_env.h"

#include <utility>

namespace dp_bench::plugin {

ForwardingEnv::ForwardingEnv(std::unique_ptr<Env> env, EnvSpec spec)
    : EnvWithAbilities(std::move(spec)), env_(std::move(env)) {}

void ForwardingEnv::Around(const char*, CallRef call) const { call(); }

void ForwardingEnv::Reset(std::uint64_t seed) {
  Around("Reset", [&] { env_->Reset(seed); });
}

StepResult ForwardingEnv::Step(std::span<const float> action) {
  StepResult result;
  Around("Step", [&] { result = env_->Step(action); });
  return result;
}

void ForwardingEnv::Observe(const ObsWriter& obs) {
  Around("Observe", [&] { env_->Observe(obs); });
}

void ForwardingEnv::Render(RgbImage* frame) {
  Around("Render", [&] { env_->Render(frame); });
}

void ForwardingEnv::GetState(std::span<double> state) const {
  Around("GetState", [&] { env_->state_access()->GetState(state); });
}

void ForwardingEnv::SetState(std::span<const double> state) {
  Around("SetState", [&] { env_->state_access()->SetState(state); });
}

void ForwardingEnv::Begin(std::uint64_t seed) {
  Around("Expert::Begin", [&] { env_->expert()->Begin(seed); });
}

void ForwardingEnv::Act(std::span<float> action) {
  Around("Expert::Act", [&] { env_->expert()->Act(action); });
}

void ForwardingEnv::PointerAction(double x, double y, std::span<float> action) const {
  Around("PointerAction", [&] { env_->pointer_control()->PointerAction(x, y, action); });
}

CameraParameters ForwardingEnv::Parameters(int camera, int width, int height) const {
  CameraParameters parameters;
  Around("Parameters",
         [&] { parameters = env_->camera_access()->Parameters(camera, width, height); });
  return parameters;
}

void ForwardingEnv::RenderCamera(int camera, RgbImage* frame) {
  Around("RenderCamera", [&] { env_->camera_access()->RenderCamera(camera, frame); });
}

void ForwardingEnv::StateMarks(int width, int height, std::span<float> xy) const {
  Around("StateMarks", [&] { env_->picture_marks()->StateMarks(width, height, xy); });
}

void ForwardingEnv::ActionMarks(std::span<const float> action, int width, int height,
                                std::span<float> xy) const {
  Around("ActionMarks", [&] { env_->picture_marks()->ActionMarks(action, width, height, xy); });
}

}  // namespace dp_bench::plugin
