// Which features of LeRobot are which keys, and the order of the weights that follows.
#include "interop/feature_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "support/error_of.h"

namespace dp_bench::interop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

KeySpec LowDim(const char* name, std::int64_t size) { return {.name = name, .shape = {size}}; }

KeySpec Rgb(const char* name) {
  return {.name = name, .type = KeyType::kRgb, .shape = {3, 8, 8}, .dtype = DType::kUInt8};
}

LerobotFeature Image(const char* name) {
  return {.name = name, .type = LerobotFeatureType::kVisual, .shape = {3, 8, 8}};
}

LerobotFeature State(std::int64_t size) {
  return {.name = "observation.state", .type = LerobotFeatureType::kState, .shape = {size}};
}

LerobotFeature EnvState(std::int64_t size) {
  return {
      .name = "observation.environment_state", .type = LerobotFeatureType::kEnv, .shape = {size}};
}

using Keys = std::vector<std::string>;

Keys KeysOf(const std::vector<FeatureBinding>& bindings, std::string_view feature) {
  for (const FeatureBinding& binding : bindings) {
    if (binding.feature.name == feature) return binding.keys;
  }
  return {};
}

TEST(BindFeatures, TakesEqualNamesTheOnlyImageAndTheOnlyKeyOfASize) {
  const ShapeMeta meta = {.obs = {LowDim("agent_pos", 2), Rgb("image"), LowDim("keypoint", 18)}};
  const auto bindings =
      BindFeatures({State(2), Image("observation.image"), EnvState(18)}, meta, {});
  EXPECT_THAT(KeysOf(bindings, "observation.state"), ElementsAre("agent_pos"));
  EXPECT_THAT(KeysOf(bindings, "observation.image"), ElementsAre("image"));
  EXPECT_THAT(KeysOf(bindings, "observation.environment_state"), ElementsAre("keypoint"));
}

TEST(BindFeatures, AFeatureMayConsistOfSeveralKeys) {
  const ShapeMeta meta = {.obs = {Rgb("image"), LowDim("left", 3), LowDim("right", 4)}};
  const Keys asked = {"observation.state=right,left"};
  const auto bindings = BindFeatures({State(7), Image("observation.image")}, meta, asked);
  EXPECT_THAT(KeysOf(bindings, "observation.state"), ElementsAre("right", "left"));
}

TEST(BindFeatures, DoubtIsAnErrorThatSaysWhatToDo) {
  const ShapeMeta twins = {.obs = {Rgb("a"), Rgb("b"), LowDim("state", 2)}};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] {
                          BindFeatures({State(2), Image("observation.images.x"),
                                        Image("observation.images.y")},
                                       twins, {});
                        }),
              HasSubstr("--map observation.images.x=<key>; free are a, b"));
}

TEST(BindFeatures, KeysThatAreLeftAndSizesThatDifferAreErrors) {
  const ShapeMeta meta = {.obs = {LowDim("agent_pos", 2), Rgb("image"), LowDim("speed", 1)}};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] {
                          BindFeatures({State(2), Image("observation.image")}, meta, {});
                        }),
              HasSubstr("the policy has no input for the task's speed"));
  const Keys asked = {"observation.state=agent_pos,speed"};
  EXPECT_THAT(MessageOf(ErrorCode::kShape,
                        [&] {
                          BindFeatures({State(2), Image("observation.image")}, meta, asked);
                        }),
              HasSubstr("the policy's 'observation.state' is [2]; the task's agent_pos + speed is "
                        "[3]"));
}

TEST(BindFeatures, RequestsThatDoNotFitAreErrors) {
  const ShapeMeta meta = {.obs = {LowDim("agent_pos", 2), Rgb("image")}};
  const std::vector<LerobotFeature> features = {State(2), Image("observation.image")};
  for (const char* request :
       {"observation.state", "observation.state=", "=agent_pos", "observation.state=agent_pos,",
        "observation.state=nothing", "observation.velocity=agent_pos"}) {
    const Keys asked = {request};
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { BindFeatures(features, meta, asked); }),
                HasSubstr("--map"))
        << request;
  }
}

TEST(MakeFeatures, OnlyNumbersBecomeStateAndStateOfTheWorld) {
  const ShapeMeta meta = {.obs = {LowDim("agent_pos", 2), LowDim("keypoint", 18)}};
  EXPECT_THAT(MakeFeatures(meta, {}), ElementsAre(FeatureBinding{State(2), {"agent_pos"}},
                                                  FeatureBinding{EnvState(18), {"keypoint"}}));
}

TEST(MakeFeatures, WithCamerasAllNumbersAreTheState) {
  const ShapeMeta meta = {.obs = {Rgb("image"), LowDim("left", 3), LowDim("right", 4), Rgb("top")}};
  EXPECT_THAT(MakeFeatures(meta, {}),
              ElementsAre(FeatureBinding{State(7), {"left", "right"}},
                          FeatureBinding{Image("observation.image"), {"image"}},
                          FeatureBinding{Image("observation.images.top"), {"top"}}));
}

TEST(MakeFeatures, NamesOfLerobotStay) {
  const ShapeMeta meta = {.obs = {LowDim("object", 3), Rgb("observation.images.head"),
                                  LowDim("observation.state", 16)}};
  EXPECT_THAT(
      MakeFeatures(meta, Keys{"observation.environment_state=object"}),
      ElementsAre(FeatureBinding{State(16), {"observation.state"}},
                  FeatureBinding{Image("observation.images.head"), {"observation.images.head"}},
                  FeatureBinding{EnvState(3), {"object"}}));
}

TEST(MakeFeatures, RefusesATaskKey) {
  const ShapeMeta meta = {
      .obs = {LowDim("agent_pos", 2), {.name = "task", .type = KeyType::kTask, .shape = {3}}}};
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { MakeFeatures(meta, {}); }),
              HasSubstr("LeRobot's policies have no input for the task key 'task'"));
}

TEST(MakeFeatures, RefusesWhatLerobotCannotHave) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [] { MakeFeatures({.obs = {LowDim("observation.state", 16)}}, {}); }),
              HasSubstr("a camera or 'observation.environment_state'"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [] {
                          MakeFeatures({.obs = {Rgb("image"), Rgb("top")}}, {});
                        }),
              HasSubstr("has only 'observation.image', 'observation.images.top'"));
  const Keys twice = {"observation.state=left", "observation.state=right"};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] {
                          MakeFeatures({.obs = {LowDim("left", 1), LowDim("right", 1)}}, twice);
                        }),
              HasSubstr("is given twice; give all its keys at once"));
  const Keys asked = {"observation.velocity=speed"};
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { MakeFeatures({.obs = {LowDim("speed", 1)}}, asked); }),
      HasSubstr("observation.velocity"));
}

LerobotPolicyConfig SmallConfig() {
  LerobotPolicyConfig config;
  config.n_obs_steps = 2;
  config.diffusion_step_embed_dim = 1;
  config.spatial_softmax_num_keypoints = 1;
  config.use_separate_rgb_encoder_per_camera = true;
  return config;
}

// LeRobot: step | state, camera z, camera a, world | the same. Ours: numbers, then cameras, sorted.
struct Reordering {
  ShapeMeta meta = {.obs = {Rgb("a"), LowDim("m_state", 1), LowDim("world", 1), Rgb("z")}};
  std::vector<FeatureBinding> bindings = {{State(1), {"m_state"}},
                                          {Image("observation.images.z"), {"z"}},
                                          {Image("observation.images.a"), {"a"}},
                                          {EnvState(1), {"world"}}};
  ConditionOrder order = MakeConditionOrder(bindings, meta, SmallConfig());
};

Array Row(std::int64_t size) {
  Array array(DType::kFloat32, {1, size});
  std::iota(array.as<float>().begin(), array.as<float>().end(), 0.0F);
  return array;
}

constexpr const char* kFilm = "diffusion.unet.mid_modules.0.cond_encoder.1.weight";

TEST(ConditionOrder, ColumnsAndEncodersGetOurOrder) {
  const Reordering example;
  ArrayMap weights;
  weights[kFilm] = Row(13);
  weights["diffusion.rgb_encoder.0.out.bias"] = Row(1);
  weights["diffusion.rgb_encoder.1.out.bias"] = Row(2);
  const ArrayMap ours = FromLerobotOrder(weights, example.order);
  EXPECT_THAT(ours.at(kFilm).as<float>(), ElementsAre(0, 1, 6, 4, 5, 2, 3, 7, 12, 10, 11, 8, 9));
  EXPECT_EQ(ours.at("diffusion.rgb_encoder.0.out.bias").size(), 2);  // "a", LeRobot's second
  EXPECT_EQ(ours.at("diffusion.rgb_encoder.1.out.bias").size(), 1);

  const ArrayMap back = ToLerobotOrder(ours, example.order);
  EXPECT_THAT(back.at(kFilm).as<float>(), testing::ElementsAreArray(Row(13).as<float>()));
  EXPECT_EQ(back.at("diffusion.rgb_encoder.0.out.bias").size(), 1);
}

// With three, the way back is another one than the way there.
TEST(ConditionOrder, ThreeEncodersComeBackToTheirPlaces) {
  ConditionOrder order = Reordering().order;
  order.cameras = {1, 2, 0};
  ArrayMap weights;
  for (std::int64_t i = 0; i < 3; ++i) {
    weights["diffusion.rgb_encoder." + std::to_string(i) + ".out.bias"] = Row(i + 1);
  }
  const ArrayMap ours = FromLerobotOrder(weights, order);
  EXPECT_EQ(ours.at("diffusion.rgb_encoder.0.out.bias").size(), 2);
  const ArrayMap back = ToLerobotOrder(ours, order);
  for (const auto& [name, array] : weights) EXPECT_EQ(back.at(name).size(), array.size()) << name;
}

TEST(ConditionOrder, WeightsWithOtherColumnsAreNamed) {
  const Reordering example;
  ArrayMap weights;
  weights[kFilm] = Row(12);
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, [&] { FromLerobotOrder(weights, example.order); }),
              HasSubstr("expected float32 [out, 13]"));
}

}  // namespace
}  // namespace dp_bench::interop
