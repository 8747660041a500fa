// Statistics that a LeRobot policy is exported with.
#include "interop/lerobot_normalizer.h"

#include <gtest/gtest.h>

namespace dp_bench::interop {
namespace {

using Numbers = std::vector<double>;

// One feature of three numbers, made of the keys "arm" (two) and "hand" (one).
class TwoKeysOfAFeature : public testing::Test {
 protected:
  TwoKeysOfAFeature() {
    policy_.config.action = {.name = "action", .type = LerobotFeatureType::kAction, .shape = {1}};
    policy_.config.normalization_mapping = {{LerobotFeatureType::kState, LerobotNorm::kMinMax},
                                            {LerobotFeatureType::kAction, LerobotNorm::kMinMax}};
    policy_.stats["observation.state"] = {.min = {0.0, -1.0, 2.0},
                                          .max = {1.0, 3.0, 7.0},
                                          .mean = {0.5, 1.0, 4.0},
                                          .std = {0.25, 0.5, 2.0}};
    policy_.stats["action"] = {.min = {-2.0}, .max = {2.0}, .mean = {}, .std = {}};
  }

  Normalizer::Fields Imported() const {
    const ShapeMeta shape_meta{
        .obs = {{.name = "arm", .shape = {2}}, {.name = "hand", .shape = {1}}},
        .action = {.name = "action", .shape = {1}}};
    return FromLerobotStats(policy_, bindings_, shape_meta).fields();
  }

  KeyStats Exported(Normalizer::Fields fields) const {
    LerobotPolicy policy;
    policy.config.action = policy_.config.action;
    ToLerobotStats(Normalizer(std::move(fields)), bindings_, &policy);
    return policy.stats.at("observation.state");
  }

  const std::vector<FeatureBinding> bindings_ = {
      {.feature = {.name = "observation.state", .type = LerobotFeatureType::kState, .shape = {3}},
       .keys = {"arm", "hand"}}};
  LerobotPolicy policy_;
};

TEST_F(TwoKeysOfAFeature, AllStatisticsComeBack) {
  const KeyStats stats = Exported(Imported());
  EXPECT_EQ(stats.min, (Numbers{0.0, -1.0, 2.0}));
  EXPECT_EQ(stats.max, (Numbers{1.0, 3.0, 7.0}));
  EXPECT_EQ(stats.mean, (Numbers{0.5, 1.0, 4.0}));
  EXPECT_EQ(stats.std, (Numbers{0.25, 0.5, 2.0}));
}

TEST_F(TwoKeysOfAFeature, AStatisticThatOneKeyLacksIsLeftOut) {
  Normalizer::Fields fields = Imported();
  fields.at("hand").stats.mean.clear();
  const KeyStats stats = Exported(std::move(fields));
  EXPECT_EQ(stats.min, (Numbers{0.0, -1.0, 2.0}));
  EXPECT_EQ(stats.mean, Numbers{});
  EXPECT_EQ(stats.std, (Numbers{0.25, 0.5, 2.0}));
}

// dp_bench does not scale up a deviation near 0, as LeRobot's formula would.
TEST_F(TwoKeysOfAFeature, SmallDeviationsBecomeStatisticsOfAllNumbers) {
  policy_.config.normalization_mapping[LerobotFeatureType::kState] = LerobotNorm::kMeanStd;
  policy_.stats["observation.state"].std[2] = 1e-5;
  Normalizer::Fields fields = Imported();
  fields.at("hand").scale = torch::ones({1});
  fields.at("hand").offset = torch::full({1}, -4.0);
  const KeyStats stats = Exported(std::move(fields));
  ASSERT_EQ(stats.mean.size(), 3);
  ASSERT_EQ(stats.std.size(), 3);
  EXPECT_NEAR(stats.std[0], 0.25, 1e-5);
  EXPECT_EQ(stats.mean[2], 4.0);
  EXPECT_EQ(stats.std[2], 1.0);
}

TEST_F(TwoKeysOfAFeature, OneThatIsLackingIsLeftOutOfComputedStatisticsToo) {
  Normalizer::Fields fields = Imported();
  fields.at("hand").stats = {};  // so min and max are computed from scale and offset
  const KeyStats stats = Exported(std::move(fields));
  ASSERT_EQ(stats.max.size(), 3);
  EXPECT_NEAR(stats.max[2], 7.0, 1e-5);
  EXPECT_EQ(stats.mean, Numbers{});
  EXPECT_EQ(stats.std, Numbers{});
}

}  // namespace
}  // namespace dp_bench::interop
