// The fake env with every ability that the viewer uses.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dp_bench/env_abilities.h"
#include "dp_bench/error.h"
#include "harness/rollout/fake_env.h"

namespace dp_bench::view {

/// The expert's action is {0.5, seed}, that of the pointer {x, y}. Pictures of camera i are filled
/// with 100 + i, those of the env itself with 8 per step.
class StageEnv final : public rollout::FakeEnv,
                       public Expert,
                       public PointerControl,
                       public CameraAccess {
 public:
  explicit StageEnv(rollout::FakeWorld& world) : FakeEnv(world) {
    spec_.abilities = {
        .has_expert = true, .has_pointer_control = true, .cameras = {"head", "wrist"}};
  }

  Expert* expert() override { return this; }
  PointerControl* pointer_control() override { return this; }
  CameraAccess* camera_access() override { return this; }

  void Begin(std::uint64_t seed) override { seed_ = seed; }
  void Act(std::span<float> action) override {
    if (seed_ == kHopelessSeed) throw Error(ErrorCode::kEnv, "no way on");
    action[0] = 0.5F;
    action[1] = static_cast<float>(seed_);
  }
  void PointerAction(double x, double y, std::span<float> action) const override {
    action[0] = static_cast<float>(x);
    action[1] = static_cast<float>(y);
  }
  CameraParameters Parameters(int, int, int) const override { return {}; }
  void RenderCamera(int camera, RgbImage* frame) override {
    std::ranges::fill(frame->pixels, static_cast<std::uint8_t>(100 + camera));
  }

  static constexpr std::uint64_t kHopelessSeed = 13;

 private:
  std::uint64_t seed_ = 0;
};

}  // namespace dp_bench::view
