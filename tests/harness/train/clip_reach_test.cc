// The clip range beside the actions that each normalizer makes.
#include "train/clip_reach.h"

#include <gtest/gtest.h>

#include "train/fit_normalizer.h"

namespace dp_bench::train {
namespace {

Normalizer Fitted(NormalizeMode mode) {
  const KeyStats stats = {
      .min = {-8, 0}, .max = {8, 4}, .mean = {0, 1}, .std = {2, 1}, .count = 100};
  return Normalizer({FitKey("action", stats, mode)});
}

TEST(ClipReach, LimitsFitTheRangeOfOne) {
  const auto reach = ActionReach(Fitted(NormalizeMode::kLimits), {});
  EXPECT_NEAR(reach->low, -1.0, 1e-6);
  EXPECT_NEAR(reach->high, 1.0, 1e-6);
  EXPECT_EQ(reach->n_cut, 0);
  EXPECT_EQ(reach->InWords(),
            "limits maps the actions to [-1, 1]; predictions are clipped to +-1, which cuts none "
            "of them");
}

TEST(ClipReach, GaussianNeedsAsManyDeviationsAsTheDataHave) {
  const auto at_three = ActionReach(Fitted(NormalizeMode::kGaussian), {.clip_sample_range = 3.0});
  EXPECT_EQ(at_three->n_cut, 1) << "the first dimension reaches 4 deviations, the second 3";
  EXPECT_EQ(at_three->InWords(),
            "gaussian maps the actions to [-4, 4]; predictions are clipped to +-3, which cuts 1 of "
            "2 dimensions; +-4 cuts none");
  EXPECT_EQ(ActionReach(Fitted(NormalizeMode::kGaussian), {})->n_cut, 2);
  EXPECT_EQ(ActionReach(Fitted(NormalizeMode::kGaussian), {.clip_sample_range = 4.0})->n_cut, 0);
}

TEST(ClipReach, IdentityLeavesTheUnitsOfTheData) {
  const auto reach = ActionReach(Fitted(NormalizeMode::kIdentity), {.clip_sample_range = 5.0});
  EXPECT_EQ(reach->high, 8.0);
  EXPECT_EQ(reach->n_cut, 1);
}

TEST(ClipReach, NothingIsCutWithoutClipping) {
  const auto reach = ActionReach(Fitted(NormalizeMode::kGaussian), {.clip_sample = false});
  EXPECT_EQ(reach->n_cut, 0);
  EXPECT_NE(reach->InWords().find("not clipped"), std::string::npos);
}

TEST(ClipReach, IsUnknownWithoutStatistics) { EXPECT_FALSE(ActionReach(Normalizer(), {})); }

std::string WarningFor(NormalizeMode mode, const std::string& policy) {
  testing::internal::CaptureStderr();
  WarnOfCutActions(Fitted(mode), Config::FromJson(policy));
  return testing::internal::GetCapturedStderr();
}

TEST(ClipReach, ATrainingThatCannotReachItsActionsIsWarnedOf) {
  const std::string clipped = R"({"policy": {"params": {"noise_scheduler": {}}}})";
  EXPECT_NE(WarningFor(NormalizeMode::kGaussian, clipped).find("+-4 cuts none"), std::string::npos);
  EXPECT_EQ(WarningFor(NormalizeMode::kLimits, clipped), "");
  EXPECT_EQ(WarningFor(NormalizeMode::kGaussian, "{}"), "") << "no diffusion policy";
  const std::string jumps =
      R"({"policy": {"params": {"objective": "consistency", "noise_scheduler": {}}}})";
  EXPECT_NE(WarningFor(NormalizeMode::kGaussian, jumps).find("+-4 cuts none"), std::string::npos);
  const std::string flow =
      R"({"policy": {"params": {"objective": "flow_matching", "noise_scheduler": {}}}})";
  EXPECT_EQ(WarningFor(NormalizeMode::kGaussian, flow), "") << "flow matching does not clip";
}

}  // namespace
}  // namespace dp_bench::train
