#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/collector.h"
#include "support/error_of.h"

namespace dp_bench::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CollectConfig Read(const char* json) {
  const Config config = Config::FromJson(json);
  CollectConfig collect = CollectConfig::FromConfig(config);
  config.RejectUnread();
  return collect;
}

EnvSpec EnvWith(const std::vector<float>& low, const std::vector<float>& high) {
  EnvSpec spec;
  spec.action_low = low;
  spec.action_high = high;
  return spec;
}

EnvSpec TwoActions() { return EnvWith({-1.0F, 0.0F}, {1.0F, 10.0F}); }

TEST(CollectConfig, ReadsItsKeys) {
  const CollectConfig c = Read(R"({"n_episodes": 7, "start_seed": 5, "action_noise": 0.1,
                                   "keep_failures": true, "n_workers": 3})");
  EXPECT_EQ(c.n_episodes, 7);
  EXPECT_EQ(c.start_seed, 5U);
  EXPECT_TRUE(c.keep_failures);
  EXPECT_EQ(c.n_workers, 3);
  EXPECT_THAT(c.NoiseStd(TwoActions()), ElementsAre(0.2, 1.0)) << "a fraction of the range";
}

TEST(CollectConfig, SeedsAreFarFromThoseOfTheEnvRunner) {
  EXPECT_EQ(Read("{}").start_seed, 1'000'000U);
}

TEST(CollectConfig, NoiseMayBeGivenPerDimension) {
  const CollectConfig c = Read(R"({"action_noise_std": [0.5, 0]})");
  EXPECT_THAT(c.NoiseStd(TwoActions()), ElementsAre(0.5, 0.0));
  const EnvSpec three = EnvWith({0, 0, 0}, {1, 1, 1});
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { c.NoiseStd(three); }),
              HasSubstr("has 2 numbers; the action has 3 dimensions"));
}

TEST(CollectConfig, APolicyMayActFirst) {
  const CollectConfig c = Read(R"({"takeover": {"checkpoint": "runs/a", "max_steps": 60}})");
  ASSERT_TRUE(c.takeover.has_value());
  EXPECT_EQ(c.takeover->checkpoint, "runs/a");
  EXPECT_EQ(c.takeover->max_steps, 60);
  EXPECT_FALSE(Read("{}").takeover.has_value());
}

TEST(CollectConfig, RefusesImpossibleValues) {
  for (const char* json :
       {R"({"n_episodes": 0})", R"({"action_noise": -0.1})", R"({"action_noise": 2})",
        R"({"action_noise_std": [-1]})", R"({"action_noise": 0.1, "action_noise_std": [1]})",
        R"({"takeover": {"max_steps": 9}})",
        R"({"takeover": {"checkpoint": "a", "max_steps": 0}})"}) {
    EXPECT_EQ(CodeOf([json] { Read(json); }), ErrorCode::kConfig) << json;
  }
}

}  // namespace
}  // namespace dp_bench::data
