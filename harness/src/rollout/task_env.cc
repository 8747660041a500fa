#include "rollout/task_env.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/errors.h"

namespace dp_bench::rollout {
namespace {

// Passes every call on: the env within checks it and names its plugin in errors.
class TaskEnv final : public Env {
 public:
  TaskEnv(std::unique_ptr<Env> env, const KeySpec& key, std::span<const float> vector)
      : Env(WithTaskKey(env->spec(), key)),
        env_(std::move(env)),
        key_(key.name),
        vector_(vector.begin(), vector.end()) {}

 private:
  void DoReset(std::uint64_t seed) override { env_->Reset(seed); }
  StepResult DoStep(std::span<const float> action) override { return env_->Step(action); }

  void DoObserve(const ObsWriter& obs) override {
    std::ranges::copy(vector_, obs.Buffer<float>(key_).begin());
    buffers_.clear();
    for (std::size_t i = 0; i < spec().shape_meta.obs.size(); ++i) {
      if (spec().shape_meta.obs[i].name != key_) buffers_.push_back(obs.buffers()[i]);
    }
    env_->Observe(ObsWriter(env_->spec().shape_meta.obs, buffers_));
  }

  void DoRender(RgbImage* frame) override { env_->Render(frame); }
  void DoGetState(std::span<double> state) const override { env_->GetState(state); }
  void DoSetState(std::span<const double> state) override { env_->SetState(state); }
  void DoBeginExpert(std::uint64_t seed) override { env_->BeginExpert(seed); }
  void DoAct(std::span<float> action) override { env_->Act(action); }
  void DoPointerAction(double x, double y, std::span<float> action) const override {
    env_->PointerAction(x, y, action);
  }
  CameraParameters DoGetCamera(int camera, int width, int height) const override {
    return env_->GetCamera(camera, width, height);
  }
  void DoRenderCamera(int camera, RgbImage* frame) override { env_->RenderCamera(camera, frame); }
  void DoMarks(std::span<const float> action, int width, int height,
               std::span<float> xy) const override {
    env_->Marks(action, width, height, xy);
  }

  std::unique_ptr<Env> env_;
  std::string key_;
  std::vector<float> vector_;                  // [n]
  std::vector<std::span<std::byte>> buffers_;  // of the env within
};

}  // namespace

EnvSpec WithTaskKey(EnvSpec spec, const KeySpec& key) {
  std::vector<KeySpec>& obs = spec.shape_meta.obs;
  if (std::ranges::find(obs, key.name, &KeySpec::name) != obs.end()) {
    throw PluginError(
        "the env has an observation '{}' itself, which is the name of what the section task_key "
        "adds. Leave out the section, or rename the observation.",
        key.name);
  }
  obs.insert(std::ranges::lower_bound(obs, key.name, {}, &KeySpec::name), key);
  return spec;
}

std::unique_ptr<Env> WithTaskKey(std::unique_ptr<Env> env, const KeySpec& key,
                                 std::span<const float> vector) {
  return std::make_unique<TaskEnv>(std::move(env), key, vector);
}

}  // namespace dp_bench::rollout
