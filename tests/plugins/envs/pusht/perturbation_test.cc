// Light and friction: their effects, and that they change nothing else.
#include "perturbation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dp_bench/error.h"
#include "make_env.h"
#include "support/env_state.h"

namespace dp_bench::pusht {
namespace {

constexpr const char* kPlain = R"({"obs": ["state", "image"]})";
constexpr const char* kZero =
    R"({"obs": ["state", "image"], "perturb": {"light": 0, "friction": 0}})";
constexpr const char* kLight = R"({"obs": ["state", "image"], "perturb": {"light": 1}})";
constexpr const char* kFriction = R"({"obs": ["state", "image"], "perturb": {"friction": 1}})";

struct View {
  std::vector<std::uint8_t> image = std::vector<std::uint8_t>(96 * 96 * 3);
  std::vector<float> state = std::vector<float>(5);
  bool operator==(const View&) const = default;
};

View ViewOf(PushtEnv& env) {
  View view;
  std::vector<std::span<std::byte>> buffers = {std::as_writable_bytes(std::span(view.image)),
                                               std::as_writable_bytes(std::span(view.state))};
  env.Observe({env.spec().shape_meta.obs, buffers});
  return view;
}

/// Sends the agent to where the block started.
View AfterPush(PushtEnv& env, std::uint64_t seed) {
  env.Reset(seed);
  const std::vector<double> state = StateOf(env);
  const auto x = static_cast<float>(state[4]);
  const auto y = static_cast<float>(state[5]);
  for (int i = 0; i < 12; ++i) env.Step(std::vector<float>{x, y});
  return ViewOf(env);
}

TEST(PushtPerturbation, OfStrengthZeroChangesNoBit) {
  PushtEnv plain = Make(kPlain);
  PushtEnv zero = Make(kZero);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(AfterPush(plain, seed), AfterPush(zero, seed));
  }
}

TEST(PushtPerturbation, LightColoursImagesAlone) {
  PushtEnv plain = Make(kPlain);
  PushtEnv lit = Make(kLight);
  const View as_it_is = AfterPush(plain, 3);
  const View in_light = AfterPush(lit, 3);
  EXPECT_EQ(in_light.state, as_it_is.state);
  EXPECT_NE(in_light.image, as_it_is.image);
  const Perturbation drawn = Perturbation::Draw({.is_given = true, .light = 1.0}, 3);
  for (std::size_t i = 0; i < in_light.image.size(); ++i) {
    EXPECT_GE(drawn.light[i % 3], 0.4);
    EXPECT_NEAR(in_light.image[i], drawn.light[i % 3] * as_it_is.image[i], 0.5 + 1e-9);
  }
  RgbImage frame(64, 64);
  RgbImage lit_frame(64, 64);
  plain.Render(&frame);
  lit.Render(&lit_frame);
  EXPECT_NE(frame.pixels, lit_frame.pixels) << "videos show it";
}

TEST(PushtPerturbation, LessFrictionLetsTheBlockSlideOnAndStop) {
  PushtPhysics physics;
  physics.SetSlide(0.8);
  physics.SetState({.agent = {30, 30}, .block = {256, 256, 0.3}, .block_velocity = {100, 0, 0}});
  for (int i = 0; i < 200; ++i) physics.Substep();
  // 100 px/s for 10 ms, and 0.8 of it in each one after that
  EXPECT_NEAR(physics.state().block.x, 256 + 1.0 / (1.0 - 0.8), 1e-6);
  EXPECT_NEAR(physics.state().block.y, 256, 1e-6);
  EXPECT_NEAR(physics.state().block.angle, 0.3, 1e-12);

  PushtEnv plain = Make(kPlain);
  PushtEnv slippery = Make(kFriction);
  int n_different = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const View view = AfterPush(slippery, seed);
    n_different += view.state != AfterPush(plain, seed).state ? 1 : 0;
    EXPECT_THAT(view.state, testing::Each(testing::Truly([](float x) {
                  return std::isfinite(x) && x > -50.0F && x < 562.0F;
                })));
  }
  EXPECT_GT(n_different, 5) << "most pushes hit the block";
}

TEST(PushtPerturbation, IsAFunctionOfTheSeed) {
  const PerturbationParams both = {.is_given = true, .light = 1.0, .friction = 1.0};
  const Perturbation first = Perturbation::Draw(both, 1);
  EXPECT_EQ(Perturbation::Draw(both, 1).light, first.light);
  EXPECT_EQ(Perturbation::Draw(both, 1).slide, first.slide);
  EXPECT_NE(Perturbation::Draw(both, 2).light, first.light);
  EXPECT_NE(Perturbation::Draw(both, 2).slide, first.slide);
  EXPECT_EQ(Perturbation::Draw({.is_given = true, .light = 1.0}, 1).light, first.light)
      << "one switch does not move the other's draws";
  EXPECT_EQ(Perturbation::Draw({.is_given = true, .friction = 1.0}, 1).slide, first.slide);

  PushtEnv used = Make(kFriction);
  PushtEnv fresh = Make(kFriction);
  AfterPush(used, 7);
  EXPECT_EQ(AfterPush(used, 3), AfterPush(fresh, 3));
}

TEST(PushtPerturbation, StateHasTheSeedThatItIsDrawnFrom) {
  PushtEnv env = Make(kFriction);
  PushtEnv other = Make(kFriction);
  EXPECT_EQ(env.spec().abilities.state_size, PushtEnv::kStateSize + PushtEnv::kSeedSize);
  EXPECT_EQ(Make(kPlain).spec().abilities.state_size, PushtEnv::kStateSize);
  AfterPush(env, (std::uint64_t{9} << 32) + 5);
  std::vector<double> state = StateOf(env);
  other.SetState(state);
  const std::vector<float> action = {200.0F, 300.0F};
  for (int i = 0; i < 5; ++i) {
    env.Step(action);
    other.Step(action);
    EXPECT_EQ(ViewOf(env), ViewOf(other));
  }
  std::vector<float> planned(2);
  env.BeginExpert(1);
  EXPECT_NO_THROW(env.Act(planned)) << "which reads the state too";
  state.back() = 0.5;
  EXPECT_THROW(other.SetState(state), Error);
}

TEST(PushtPerturbation, EnvWithoutTheParamGetsNoKeys) {
  const Config plain = Config::FromJson("{}");
  PushtEnv without(plain);
  EXPECT_THAT(plain.Keys(), testing::Not(testing::Contains("perturb")));
  const Config asked = Config::FromJson(R"({"perturb": {}})");
  PushtEnv with(asked);
  EXPECT_THAT(asked.Sub("perturb").Keys(), testing::ElementsAre("friction", "light"));
}

}  // namespace
}  // namespace dp_bench::pusht
