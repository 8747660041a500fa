#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "rollout/env_runner.h"
#include "run/manifest.h"

namespace dp_bench::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

TEST(CountShared, CountsWhatIsInBothRanges) {
  EXPECT_EQ(CountShared({100, 50}, {100, 50}), 50);
  EXPECT_EQ(CountShared({100, 50}, {140, 50}), 10);
  EXPECT_EQ(CountShared({140, 50}, {100, 50}), 10);
  EXPECT_EQ(CountShared({100, 50}, {110, 5}), 5);
  EXPECT_EQ(CountShared({100, 50}, {150, 50}), 0);
  EXPECT_EQ(CountShared({100, 50}, {100, 0}), 0);
  EXPECT_EQ(CountShared({0, 0}, {0, 50}), 0);
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(CountShared({last, 1}, {0, 50}), 0);
  EXPECT_EQ(CountShared({last - 5, 6}, {last, 1}), 1);
}

TEST(SeedUse, ATrainingLooksAtOtherSeedsThanTheReportByDefault) {
  const Json config = {
      {"env_runner",
       {{"n_test", 50}, {"test_start_seed", 100000}, {"selection_start_seed", 200000}}},
      {"training", {{"rollout_every", 20}}}};
  const SeedUse use = {.report = ReportSeeds(config), .selection = SelectionSeeds(config)};
  EXPECT_EQ(use.report, (SeedRange{100000, 50}));
  EXPECT_EQ(use.selection, (SeedRange{200000, 50}));
  EXPECT_EQ(use.n_shared(), 0);
  const control::EnvRunnerConfig defaults;
  EXPECT_EQ(
      CountShared({defaults.test_start_seed, 50'000}, {defaults.selection_start_seed, 50'000}), 0);
}

TEST(SeedUse, AConfigWithoutTheKeyLookedAtItsTestSeeds) {
  const Json config = {{"env_runner", {{"n_test", 50}, {"test_start_seed", 100000}}},
                       {"training", {{"rollout_every", 20}}}};
  EXPECT_EQ(SelectionSeeds(config), (SeedRange{100000, 50}));
}

TEST(SeedUse, ATrainingWithoutRolloutsLookedAtNone) {
  EXPECT_EQ(SelectionSeeds({{"training", {{"rollout_every", 0}}}}).n, 0);
}

TEST(RangesOf, HasEachSeedOnce) {
  EXPECT_THAT(RangesOf({}), IsEmpty());
  EXPECT_THAT(RangesOf({7, 5, 6, 5, 9}), ElementsAre(SeedRange{5, 3}, SeedRange{9, 1}));
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(RangesOf({0, last, last - 1}), ElementsAre(SeedRange{0, 1}, SeedRange{last - 1, 2}));
}

TEST(SeedUse, CountsTheTestSeedsOfTheDataset) {
  const SeedUse use = {.report = {100000, 50}, .demonstrations = {{99990, 12}, {100049, 5}}};
  EXPECT_EQ(use.n_demonstrated(), 3);
  EXPECT_EQ((SeedUse{.report = {100000, 50}, .demonstrations = {{100050, 5}}}).n_demonstrated(), 0);
  EXPECT_EQ((SeedUse{.report = {100000, 50}}).n_demonstrated(), 0);
}

TEST(SeedUse, IsReadBackFromAManifest) {
  const SeedUse use = {.report = {100000, 50}, .selection = {100040, 50}};
  const Json manifest = {{"seeds", ToJson(use)}};
  EXPECT_EQ(manifest["seeds"]["n_shared"], 10);
  EXPECT_EQ(SeedUseOf(manifest.dump()), use);
  EXPECT_FALSE(manifest["seeds"].contains("demonstrations"));
  const SeedUse trained = {.report = {100000, 50}, .demonstrations = {{5, 3}, {9, 1}}};
  EXPECT_EQ(SeedUseOf(Json{{"seeds", ToJson(trained)}}.dump()), trained);
  for (const char* text : {"", "{", "[]", "{}", R"({"seeds": 1})", R"({"seeds": {"report": {}}})",
                           R"({"seeds": {"report": {"first": "x", "n": 1}, "selection": {}}})"}) {
    EXPECT_FALSE(SeedUseOf(text).has_value()) << text;
  }
}

TEST(SeedText, SaysWhichSeedsReportAndWhichChose) {
  EXPECT_EQ(SeedText({{100000, 50}, {200000, 50}}),
            "Test seeds 100000 to 100049; the training was evaluated on others, 200000 to 200049.");
  EXPECT_THAT(SeedText({{100000, 1}, {}}), HasSubstr("seeds 100000; the training was evaluated on "
                                                     "none"));
  EXPECT_EQ(SeedText({{100000, 0}, {200000, 50}}), "");
}

TEST(SeedText, WarnsOfSeedsThatDidBoth) {
  const std::string text = SeedText({{100000, 50}, {100040, 50}});
  EXPECT_THAT(text, HasSubstr("WARNING: 10 of the 50 test seeds"));
  EXPECT_THAT(text, HasSubstr("env_runner.test_start_seed"));
  EXPECT_THAT(SeedText({{100000, 50}, {100050, 50}}), Not(HasSubstr("WARNING")));
}

TEST(SeedText, WarnsOfSeedsThatThePolicyWasTrainedOn) {
  const SeedUse use = {.report = {100000, 4}, .demonstrations = {{100001, 50}}};
  EXPECT_EQ(SeedText(use),
            "Test seeds 100000 to 100003; the training was evaluated on none. WARNING: 3 of the 4 "
            "test seeds are seeds of episodes in the training dataset: the policy has seen these "
            "starts. Report another env_runner.test_start_seed.");
  EXPECT_THAT(SeedText(use), HasSubstr(DemonstrationText(use)));
  EXPECT_EQ(DemonstrationText({.report = {100000, 4}, .demonstrations = {{7, 50}}}), "");
}

}  // namespace
}  // namespace dp_bench::run
