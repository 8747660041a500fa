// Guarded env and dataset: each method forwards through GuardCall.
#include "plugin/guard.h"

#include <fmt/format.h>

#include "dp_bench/env_abilities.h"

namespace dp_bench::plugin {
namespace {

class GuardedStateAccess final : public StateAccess {
 public:
  GuardedStateAccess(StateAccess* access, const PluginPlace* place)
      : access_(access), place_(place) {}

  std::size_t state_size() const override {
    return GuardCall(*place_, "state_size", [&] { return access_->state_size(); });
  }
  void GetState(std::span<double> state) const override {
    GuardCall(*place_, "GetState", [&] { access_->GetState(state); });
  }
  void SetState(std::span<const double> state) override {
    GuardCall(*place_, "SetState", [&] { access_->SetState(state); });
  }

 private:
  StateAccess* access_;       // owned by the guarded env's plugin object
  const PluginPlace* place_;  // owned by the guarded env
};

class GuardedExpert final : public Expert {
 public:
  GuardedExpert(Expert* expert, const PluginPlace* place) : expert_(expert), place_(place) {}

  void Begin(std::uint64_t seed) override {
    GuardCall(*place_, "Expert::Begin", [&] { expert_->Begin(seed); });
  }
  void Act(std::span<float> action) override {
    GuardCall(*place_, "Expert::Act", [&] { expert_->Act(action); });
  }

 private:
  Expert* expert_;  // these two as in GuardedStateAccess
  const PluginPlace* place_;
};

class GuardedPointerControl final : public PointerControl {
 public:
  GuardedPointerControl(PointerControl* control, const PluginPlace* place)
      : control_(control), place_(place) {}

  void PointerAction(double x, double y, std::span<float> action) const override {
    GuardCall(*place_, "PointerAction", [&] { control_->PointerAction(x, y, action); });
  }

 private:
  PointerControl* control_;
  const PluginPlace* place_;
};

class GuardedCameraAccess final : public CameraAccess {
 public:
  GuardedCameraAccess(CameraAccess* access, const PluginPlace* place)
      : access_(access), place_(place) {}

  std::span<const std::string> camera_names() const override {
    return GuardCall(*place_, "camera_names", [&] { return access_->camera_names(); });
  }
  CameraParameters Parameters(int camera, int width, int height) const override {
    return GuardCall(*place_, "Parameters",
                     [&] { return access_->Parameters(camera, width, height); });
  }
  void RenderCamera(int camera, RgbImage* frame) override {
    GuardCall(*place_, "RenderCamera", [&] { access_->RenderCamera(camera, frame); });
  }

 private:
  CameraAccess* access_;
  const PluginPlace* place_;
};

class GuardedPictureMarks final : public PictureMarks {
 public:
  GuardedPictureMarks(PictureMarks* marks, const PluginPlace* place)
      : marks_(marks), place_(place) {}

  int n_marks() const override {
    return GuardCall(*place_, "n_marks", [&] { return marks_->n_marks(); });
  }
  void StateMarks(int width, int height, std::span<float> xy) const override {
    GuardCall(*place_, "StateMarks", [&] { marks_->StateMarks(width, height, xy); });
  }
  void ActionMarks(std::span<const float> action, int width, int height,
                   std::span<float> xy) const override {
    GuardCall(*place_, "ActionMarks", [&] { marks_->ActionMarks(action, width, height, xy); });
  }

 private:
  PictureMarks* marks_;
  const PluginPlace* place_;
};

class GuardedEnv final : public Env {
 public:
  GuardedEnv(std::unique_ptr<Env> env, PluginPlace place)
      : place_(std::move(place)), env_(std::move(env)) {
    state_access_ = GuardAbility<GuardedStateAccess>("state_access", &Env::state_access);
    expert_ = GuardAbility<GuardedExpert>("expert", &Env::expert);
    pointer_control_ =
        GuardAbility<GuardedPointerControl>("pointer_control", &Env::pointer_control);
    camera_access_ = GuardAbility<GuardedCameraAccess>("camera_access", &Env::camera_access);
    picture_marks_ = GuardAbility<GuardedPictureMarks>("picture_marks", &Env::picture_marks);
  }

  const EnvSpec& spec() const override {
    return GuardCall(place_, "spec", [&]() -> const EnvSpec& { return env_->spec(); });
  }
  void Reset(std::uint64_t seed) override {
    GuardCall(place_, "Reset", [&] { env_->Reset(seed); });
  }
  StepResult Step(std::span<const float> action) override {
    return GuardCall(place_, "Step", [&] { return env_->Step(action); });
  }
  void Observe(ObsBuffers obs) override {
    GuardCall(place_, "Observe", [&] { env_->Observe(obs); });
  }
  void Render(RgbImage* frame) override {
    GuardCall(place_, "Render", [&] { env_->Render(frame); });
  }
  StateAccess* state_access() override { return state_access_.get(); }
  Expert* expert() override { return expert_.get(); }
  PointerControl* pointer_control() override { return pointer_control_.get(); }
  CameraAccess* camera_access() override { return camera_access_.get(); }
  PictureMarks* picture_marks() override { return picture_marks_.get(); }

 private:
  // null when the env does not offer the ability
  template <class Guarded, class Ability>
  std::unique_ptr<Guarded> GuardAbility(const char* name, Ability* (Env::*query)()) {
    Ability* const ability = GuardCall(place_, name, [&] { return (*env_.*query)(); });
    return ability ? std::make_unique<Guarded>(ability, &place_) : nullptr;
  }

  PluginPlace place_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<GuardedStateAccess> state_access_;
  std::unique_ptr<GuardedExpert> expert_;
  std::unique_ptr<GuardedPointerControl> pointer_control_;
  std::unique_ptr<GuardedCameraAccess> camera_access_;
  std::unique_ptr<GuardedPictureMarks> picture_marks_;
};

class GuardedDataset final : public Dataset {
 public:
  GuardedDataset(std::unique_ptr<Dataset> dataset, PluginPlace place)
      : place_(std::move(place)), dataset_(std::move(dataset)) {}

  const DatasetSpec& spec() const override {
    return GuardCall(place_, "spec", [&]() -> const DatasetSpec& { return dataset_->spec(); });
  }
  std::span<const std::int64_t> episode_ends() const override {
    return GuardCall(place_, "episode_ends", [&] { return dataset_->episode_ends(); });
  }
  void Read(int key, std::int64_t begin, std::int64_t end,
            std::span<std::byte> out) const override {
    GuardCall(place_, "Read", [&] { dataset_->Read(key, begin, end, out); });
  }

 private:
  PluginPlace place_;
  std::unique_ptr<Dataset> dataset_;
};

}  // namespace

std::string KindName(PluginKind kind) {
  switch (kind) {
    case PluginKind::kEnv:
      return "env";
    case PluginKind::kDataset:
      return "dataset";
    case PluginKind::kPolicy:
      return "policy";
  }
  return fmt::format("unknown ({})", static_cast<std::uint32_t>(kind));
}

std::string PluginPlace::Context(const char* during) const {
  return fmt::format("in {} plugin '{}' ({}), during {}", KindName(kind), name,
                     file.filename().string(), during);
}

Error ForeignExceptionError(const PluginPlace& place, const char* during, const std::string& what) {
  Error error(ErrorCode::kPlugin, fmt::format("the plugin threw {}", what));
  error.AddContext(place.Context(during));
  return error;
}

std::unique_ptr<Env> GuardPlugin(std::unique_ptr<Env> env, PluginPlace place) {
  return std::make_unique<GuardedEnv>(std::move(env), std::move(place));
}

std::unique_ptr<Dataset> GuardPlugin(std::unique_ptr<Dataset> dataset, PluginPlace place) {
  return std::make_unique<GuardedDataset>(std::move(dataset), std::move(place));
}

}  // namespace dp_bench::plugin
