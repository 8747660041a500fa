// Which states count as not covered by the data, and how serious that is.
#include "diagnose/coverage_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp_bench::diagnose {
namespace {

using testing::HasSubstr;

constexpr int kEpisodes = 20;
constexpr int kSteps = 50;

// Along a line, y = x in [0, 1], with a slight offset for each episode.
Demonstrations Line() {
  Demonstrations data = {.signals = {{.name = "pos", .dim = 2, .values = {}}}, .episode_ends = {}};
  for (int e = 0; e < kEpisodes; ++e) {
    for (int t = 0; t < kSteps; ++t) {
      const float along = static_cast<float>(t) / kSteps;
      data.signals[0].values.push_back(along + 0.001F * static_cast<float>(e));
      data.signals[0].values.push_back(along);
    }
    data.episode_ends.push_back((e + 1) * kSteps);
  }
  return data;
}

const ObsScales kScales = {{"pos", {2.0F, 2.0F}}};
const std::vector<bool> kAllEpisodes(kEpisodes, true);

// Along the line until step `n_on_line`, then off it by `y_off` in y.
std::vector<ObservedEpisode> Rollouts(int n_on_line, float y_off, bool success = false) {
  ObservedEpisode episode = {.success = success, .env_steps = {}, .obs = {}};
  for (int t = 0; t < kSteps; t += 5) {
    const float along = static_cast<float>(t) / kSteps;
    episode.env_steps.push_back(static_cast<std::uint64_t>(t));
    episode.obs["pos"].push_back(along);
    episode.obs["pos"].push_back(t < n_on_line ? along : along + y_off);
  }
  return {episode, episode};
}

Finding Check(const std::vector<ObservedEpisode>& episodes, const Findings& so_far = {}) {
  return CheckCoverage(Line(), kAllEpisodes, kScales, episodes, so_far);
}

TEST(Coverage, RolloutsThatFollowTheDataRaiseNothing) {
  EXPECT_EQ(Check(Rollouts(kSteps, 0.0F)).verdict, Judgement::kRejected);
}

TEST(Coverage, DriftIsNamedWithDimensionAndStep) {
  const Finding finding = Check(Rollouts(20, 3.0F));
  EXPECT_TRUE(finding.is_problem());
  EXPECT_THAT(finding.evidence, HasSubstr("in 2 of 2 episodes from env step 20 on (median)"));
  EXPECT_THAT(finding.evidence, HasSubstr("'pos'[1] makes"));
  EXPECT_EQ(finding.config_key, "collect.action_noise");
}

TEST(Coverage, StatesNewOnlyInTheirCombinationAreUnseen) {
  ObservedEpisode episode = {.success = false, .env_steps = {0, 4}, .obs = {}};
  episode.obs["pos"] = {0.2F, 0.8F, 0.8F, 0.2F};  // each number occurs in the data
  const Finding finding = Check({episode});
  EXPECT_TRUE(finding.is_problem());
  EXPECT_EQ(finding.config_key, "env.params") << "it is so from the start";
}

TEST(Coverage, IsANoteWhereTheEpisodesSucceed) {
  const Finding finding = Check(Rollouts(20, 3.0F, /*success=*/true));
  EXPECT_EQ(finding.verdict, Judgement::kConfirmed);
  EXPECT_EQ(finding.severity, Severity::kNote);
}

TEST(Coverage, DriftIsANoteWhereThePolicyIsBadByItself) {
  const Findings untrained = {
      {.id = "weights.untrained", .claim = "", .verdict = Judgement::kConfirmed}};
  const Finding drift = Check(Rollouts(20, 3.0F), untrained);
  EXPECT_EQ(drift.severity, Severity::kNote);
  EXPECT_THAT(drift.evidence, HasSubstr("follows from weights.untrained"));
  EXPECT_TRUE(Check(Rollouts(0, 3.0F), untrained).is_problem()) << "no policy chooses its start";
}

TEST(Coverage, IsLeftOpenWithoutWhatItTakes) {
  const Demonstrations line = Line();
  const auto rollouts = Rollouts(kSteps, 0.0F);
  std::vector<bool> one_episode(kEpisodes, false);
  one_episode[3] = true;
  for (const Finding& finding : {CheckCoverage(line, kAllEpisodes, {}, rollouts, {}),
                                 CheckCoverage(line, kAllEpisodes, kScales, {}, {}),
                                 CheckCoverage(line, one_episode, kScales, rollouts, {})}) {
    EXPECT_EQ(finding.verdict, Judgement::kInconclusive) << finding.evidence;
  }
}

}  // namespace
}  // namespace dp_bench::diagnose
