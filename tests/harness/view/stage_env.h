// The fake env with every ability that the viewer uses.
#pragma once

#include <cstdint>
#include <span>

#include "dp_bench/error.h"
#include "harness/rollout/fake_env.h"

namespace dp_bench::view {

/// The expert's action is {0.5, seed}, that of the pointer {x, y}. Images of camera i are filled
/// with 100 + i, those of the env itself with 8 per step.
class StageEnv final : public rollout::FakeEnv {
 public:
  explicit StageEnv(rollout::FakeWorld& world)
      : FakeEnv(world,
                {.has_expert = true, .has_pointer_control = true, .cameras = {"head", "wrist"}}) {}

  static constexpr std::uint64_t kHopelessSeed = 13;

 private:
  void DoBeginExpert(std::uint64_t seed) override { seed_ = seed; }
  void DoAct(std::span<float> action) override {
    if (seed_ == kHopelessSeed) throw Error(ErrorCode::kEnv, "no way on");
    action[0] = 0.5F;
    action[1] = static_cast<float>(seed_);
  }
  void DoPointerAction(double x, double y, std::span<float> action) const override {
    action[0] = static_cast<float>(x);
    action[1] = static_cast<float>(y);
  }
  CameraParameters DoGetCamera(int, int, int) const override { return {}; }
  void DoRenderCamera(int camera, RgbImage* frame) override {
    std::ranges::fill(frame->pixels, static_cast<std::uint8_t>(100 + camera));
  }

  std::uint64_t seed_ = 0;
};

}  // namespace dp_bench::view
