// The normalizer compared with plain numpy, and its state in a checkpoint.
#include "train/fit_normalizer.h"

#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "dp_bench/normalizer.h"
#include "planner/policy_weights.h"
#include "policy/normalize_mode.h"
#include "support/difference.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace dp_bench::policy {
namespace {

// float32 arithmetic on values up to a few hundred, relative to the largest one
constexpr double kTolerance = 2e-6;

const run::Safetensors& Reference() { return Golden("normalizer"); }

torch::Tensor GoldenTensor(const std::string& name) {
  return ToTensor(Reference().tensors.at(name));
}

std::vector<double> GoldenNumbers(const std::string& name) {
  const auto values = Reference().tensors.at(name).as<double>();
  return {values.begin(), values.end()};
}

KeyStats GoldenStats() {
  return {.min = GoldenNumbers("min"),
          .max = GoldenNumbers("max"),
          .mean = GoldenNumbers("mean"),
          .std = GoldenNumbers("std"),
          .count = 50};
}

class NormalizerModes : public testing::TestWithParam<const char*> {};

TEST_P(NormalizerModes, AgreesWithNumpy) {
  const std::string mode = GetParam();
  const Normalizer normalizer({train::FitKey("keypoint", GoldenStats(), ParseNormalizeMode(mode))});
  const Normalizer::Field& field = normalizer.fields().at("keypoint");
  EXPECT_EQ(field.scale.sizes(), torch::IntArrayRef({18}));
  EXPECT_LE(RelativeDifference(field.scale, GoldenTensor(mode + ".scale")), kTolerance);
  EXPECT_LE(RelativeDifference(field.offset, GoldenTensor(mode + ".offset")), kTolerance);

  const torch::Tensor data = GoldenTensor("data");  // [50, 9, 2]
  const torch::Tensor normalized = normalizer.Normalize("keypoint", data);
  EXPECT_EQ(normalized.scalar_type(), torch::kFloat32);
  EXPECT_EQ(normalized.sizes(), data.sizes());
  EXPECT_LE(RelativeDifference(normalized, GoldenTensor(mode + ".normalized")), kTolerance);
  EXPECT_LE(RelativeDifference(normalizer.Unnormalize("keypoint", normalized), data), kTolerance);
}

TEST_P(NormalizerModes, NamesTheDimensionsWithoutRange) {
  const Normalizer normalizer(
      {train::FitKey("keypoint", GoldenStats(), ParseNormalizeMode(GetParam()))});
  EXPECT_EQ(normalizer.fields().at("keypoint").zero_range_dims, (std::vector<int>{3, 4}));
  const torch::Tensor flat = normalizer.Normalize("keypoint", GoldenTensor("data").view({50, 18}));
  EXPECT_LE(flat.select(1, 3).abs().max().item<double>(), 1e-4);
}

TEST_P(NormalizerModes, SurvivesTheStateDict) {
  const Normalizer normalizer(
      {train::FitKey("observation.state", GoldenStats(), ParseNormalizeMode(GetParam())),
       train::FitKey("image", {}, NormalizeMode::kImage)});
  const Normalizer restored = planner::NormalizerFromState(planner::NormalizerState(normalizer));
  ASSERT_EQ(restored.fields().size(), 2U);
  const Normalizer::Field& before = normalizer.fields().at("observation.state");
  const Normalizer::Field& after = restored.fields().at("observation.state");
  EXPECT_TRUE(torch::equal(before.scale, after.scale));
  EXPECT_TRUE(torch::equal(before.offset, after.offset));
  EXPECT_EQ(before.stats.min, after.stats.min);
  EXPECT_EQ(before.stats.std, after.stats.std);
  EXPECT_EQ(before.stats.count, after.stats.count);
  EXPECT_EQ(before.mode, after.mode);
  EXPECT_EQ(before.zero_range_dims, after.zero_range_dims);
  EXPECT_EQ(restored.fields().at("image").mode, NormalizeMode::kImage);
}

INSTANTIATE_TEST_SUITE_P(Fitted, NormalizerModes, testing::Values("limits", "gaussian"));

TEST(Normalizer, MinRangeLimitsTheScale) {
  const KeyStats stats = {.min = {0.5, -1.0, 0.2}, .max = {0.6, 1.0, 0.2}};
  const auto [key, field] = train::FitKey("state", stats, NormalizeMode::kLimits, 0.4);
  EXPECT_TRUE(torch::allclose(field.scale, torch::tensor({5.0F, 1.0F, 5.0F})));
  EXPECT_EQ(field.zero_range_dims, std::vector<int>{2});
  const Normalizer normalizer({{key, field}});
  const torch::Tensor x = torch::tensor({{0.5F, -1.0F, 0.2F}, {0.6F, 1.0F, 0.2F}});
  const torch::Tensor expected = torch::tensor({{-0.25F, -1.0F, 0.0F}, {0.25F, 1.0F, 0.0F}});
  EXPECT_TRUE(torch::allclose(normalizer.Normalize(key, x), expected, 0.0, 1e-6));
}

TEST(Normalizer, MinRangeLimitsTheScaleOfDeviationsToo) {
  const KeyStats stats = {.mean = {0.5, 1.0}, .std = {0.01, 2.0}};
  const auto [key, field] = train::FitKey("state", stats, NormalizeMode::kGaussian, 0.12);
  EXPECT_TRUE(torch::allclose(field.scale, torch::tensor({28.867513F, 0.5F})));  // sqrt(12) / 0.12
  EXPECT_TRUE(torch::allclose(field.offset, torch::tensor({-14.433757F, -0.5F})));
}

TEST(Normalizer, MinRangeIsForScaledNumbers) {
  const ShapeMeta meta = {.obs = {{.name = "state", .shape = {3}}},
                          .action = {.name = "action", .shape = {2}}};
  const auto refused = [&](const train::NormalizerConfig& config) {
    return MessageOf(ErrorCode::kConfig, [&] { train::NeutralNormalizer(meta, config); });
  };
  EXPECT_EQ(refused({.min_range = {{"stat", 0.4}}}),
            "normalizer.min_range.stat names no key of shape_meta; it has: state, action");
  EXPECT_EQ(refused({.modes = {{"state", "identity"}}, .min_range = {{"state", 0.4}}}),
            "normalizer.min_range.state is for the modes limits and gaussian; normalizer.state is "
            "identity");
}

TEST(Normalizer, LimitsMapTheRangeToMinusOneAndOne) {
  const Normalizer normalizer(
      {train::FitKey("action", {.min = {0.0, -4.0}, .max = {512.0, 4.0}}, NormalizeMode::kLimits)});
  const torch::Tensor x = torch::tensor({{0.0F, -4.0F}, {512.0F, 4.0F}, {256.0F, 0.0F}});
  EXPECT_TRUE(torch::equal(normalizer.Normalize("action", x),
                           torch::tensor({{-1.0F, -1.0F}, {1.0F, 1.0F}, {0.0F, 0.0F}})));
}

TEST(Normalizer, IdentityChangesNothing) {
  const Normalizer normalizer(
      {train::FitKey("action", {.min = {0.0}, .max = {9.0}}, NormalizeMode::kIdentity)});
  const torch::Tensor x = torch::tensor({{3.5F}, {-2.0F}});
  EXPECT_TRUE(torch::equal(normalizer.Normalize("action", x), x));
  EXPECT_TRUE(torch::equal(normalizer.Unnormalize("action", x), x));
}

TEST(Normalizer, LeavesATaskKeyAsItIsWhateverTheDefault) {
  const ShapeMeta meta = {.obs = {{.name = "task", .type = KeyType::kTask, .shape = {3}}},
                          .action = {.name = "action", .shape = {2}}};
  const Normalizer normalizer = train::NeutralNormalizer(meta, {.default_mode = "gaussian"});
  const torch::Tensor task = torch::tensor({{0.0F, 1.0F, -7.5F}});
  EXPECT_TRUE(torch::equal(normalizer.Normalize("task", task), task));
  EXPECT_THROW(train::NeutralNormalizer(meta, {.modes = {{"task", "limits"}}}), Error);
}

TEST(Normalizer, ImagesOfBytesAndOfUnitFloatsMeanTheSame) {
  const Normalizer normalizer({train::FitKey("image", {}, NormalizeMode::kImage)});
  const torch::Tensor bytes = torch::tensor({0, 51, 255}, torch::kUInt8).view({1, 1, 3});
  const torch::Tensor expected = torch::tensor({-1.0F, -0.6F, 1.0F}).view({1, 1, 3});
  EXPECT_LE(RelativeDifference(normalizer.Normalize("image", bytes), expected), kTolerance);
  EXPECT_LE(RelativeDifference(normalizer.Normalize("image", bytes / 255.0), expected), kTolerance);
  EXPECT_LE(RelativeDifference(normalizer.Unnormalize("image", expected), bytes / 255.0),
            kTolerance);
}

TEST(Normalizer, ColoursGetMeanZeroAndDeviationOnePerChannel) {
  const Normalizer normalizer({train::FitKey(
      "image", {.mean = {0.2, 0.4, 0.6}, .std = {0.1, 0.2, 0.4}}, NormalizeMode::kImageGaussian)});
  const torch::Tensor bytes = torch::tensor({51, 102, 255}, torch::kUInt8).view({1, 3, 1, 1});
  const torch::Tensor expected = torch::tensor({0.0F, 0.0F, 1.0F}).view({1, 3, 1, 1});
  const auto images = bytes.expand({2, 3, 4, 5});
  const auto wanted = expected.expand({2, 3, 4, 5});
  EXPECT_LE(RelativeDifference(normalizer.Normalize("image", images), wanted), kTolerance);
  EXPECT_LE(RelativeDifference(normalizer.Normalize("image", images / 255.0), wanted), kTolerance);
  EXPECT_LE(RelativeDifference(normalizer.Unnormalize("image", wanted), images / 255.0),
            kTolerance);
}

TEST(Normalizer, DepthOfMillimetresAndOfMetresMeansTheSameAndIsClipped) {
  const Normalizer normalizer(
      {train::FitKey("depth", {.min = {0.5}, .max = {1.5}}, NormalizeMode::kDepth)});
  const torch::Tensor metres = torch::tensor({0.0F, 0.5F, 0.75F, 1.5F, 9.0F}).view({1, 1, 5});
  const torch::Tensor millimetres = (metres * 1000.0).to(torch::kUInt16);
  const torch::Tensor expected = torch::tensor({0.0F, 0.0F, 0.25F, 1.0F, 1.0F}).view({1, 1, 5});
  EXPECT_LE(RelativeDifference(normalizer.Normalize("depth", metres), expected), kTolerance);
  EXPECT_LE(RelativeDifference(normalizer.Normalize("depth", millimetres), expected), kTolerance);
  const torch::Tensor inside = metres.narrow(2, 1, 3);
  EXPECT_LE(RelativeDifference(normalizer.Unnormalize("depth", expected.narrow(2, 1, 3)), inside),
            kTolerance);
}

TEST(Normalizer, ImageModesSurviveTheStateDict) {
  const Normalizer normalizer(
      {train::FitKey("image", {.mean = {0.2}, .std = {0.1}}, NormalizeMode::kImageGaussian),
       train::FitKey("depth", {.min = {0.5}, .max = {1.5}}, NormalizeMode::kDepth)});
  const Normalizer restored = planner::NormalizerFromState(planner::NormalizerState(normalizer));
  for (const auto& [key, field] : normalizer.fields()) {
    EXPECT_EQ(restored.fields().at(key).mode, field.mode);
    EXPECT_TRUE(torch::equal(restored.fields().at(key).scale, field.scale));
    EXPECT_TRUE(torch::equal(restored.fields().at(key).offset, field.offset));
  }
}

TEST(Normalizer, AMissingKeyIsAnErrorThatListsTheKeys) {
  const Normalizer normalizer(
      {train::FitKey("action", {.min = {0.0}, .max = {1.0}}, NormalizeMode::kLimits),
       train::FitKey("image", {}, NormalizeMode::kImage)});
  EXPECT_EQ(
      MessageOf(ErrorCode::kData, [&] { normalizer.Normalize("agent_pos", torch::zeros({1})); }),
      "the normalizer has no key 'agent_pos'; it has: action, image");
}

TEST(Normalizer, RejectsAShapeThatIsNotTheKeys) {
  const Normalizer normalizer({train::FitKey("keypoint", GoldenStats(), NormalizeMode::kLimits)});
  EXPECT_EQ(MessageOf(ErrorCode::kShape,
                      [&] {
                        normalizer.Normalize("keypoint", torch::zeros({4, 6}));
                      }),
            "'keypoint' has shape [4, 6]; its last sizes must multiply to the 18 values that its "
            "normalizer was fitted to");
}

TEST(Normalizer, RejectsImagesWithOtherChannelsThanItWasFittedTo) {
  const Normalizer normalizer(
      {train::FitKey("image", {.mean = {0.2}, .std = {0.1}}, NormalizeMode::kImageGaussian)});
  EXPECT_EQ(MessageOf(ErrorCode::kShape,
                      [&] {
                        normalizer.Normalize("image", torch::zeros({2, 3, 4, 5}));
                      }),
            "'image' has shape [2, 3, 4, 5]; expected [..., 1, height, width], the channels that "
            "its normalizer was fitted to");
}

TEST(Normalizer, RejectsADepthRangeWithoutExtent) {
  EXPECT_EQ(MessageOf(ErrorCode::kData,
                      [&] {
                        train::FitKey("depth", {.min = {1.5}, .max = {1.5}}, NormalizeMode::kDepth);
                      }),
            "the depth range of 'depth' is 1.5 to 1.5 m; expected min < max");
}

TEST(Normalizer, RejectsStatisticsThatAreNotFinite) {
  EXPECT_EQ(MessageOf(ErrorCode::kNumeric,
                      [&] {
                        train::FitKey("action", {.min = {0.0, 0.0}, .max = {1.0, INFINITY}},
                                      NormalizeMode::kLimits);
                      }),
            "max of 'action' is inf in dimension 1; the dataset holds values that are not finite");
}

TEST(Normalizer, RejectsAnUnknownMode) {
  EXPECT_EQ(
      MessageOf(ErrorCode::kConfig, [] { ParseNormalizeMode("minmax"); }),
      "'minmax' is not a normalization mode; the modes are limits, gaussian, identity, image, "
      "image_gaussian, depth");
}

TEST(Normalizer, AStateWithoutOffsetIsAnError) {
  const Normalizer normalizer(
      {train::FitKey("action", {.min = {0.0}, .max = {1.0}}, NormalizeMode::kLimits)});
  TensorMap state = planner::NormalizerState(normalizer);
  state.erase("action.offset");
  EXPECT_EQ(MessageOf(ErrorCode::kCheckpoint, [&] { planner::NormalizerFromState(state); }),
            "the normalizer's state has no tensor 'action.offset'");
}

}  // namespace
}  // namespace dp_bench::policy
