#include "data/sequence_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "dp_bench/error.h"
#include "harness/data/fake_dataset.h"
#include "support/error_of.h"
#include "support/json_golden.h"

namespace dp_bench::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SequenceSampler, EqualsTheReferenceWindows) {
  const nlohmann::json cases = JsonGolden("data")["windows"];
  for (const nlohmann::json& c : cases) {
    const SequenceSampler sampler({.episode_ends = c["ends"].get<std::vector<std::int64_t>>(),
                                   .horizon = c["horizon"].get<int>(),
                                   .pad_before = c["pad_before"].get<int>(),
                                   .pad_after = c["pad_after"].get<int>(),
                                   .episode_mask = [&c] {
                                     std::vector<bool> mask;
                                     for (const int use : c["mask"]) mask.push_back(use != 0);
                                     return mask;
                                   }()});
    const auto rows = c["rows"].get<std::vector<std::vector<std::int64_t>>>();
    ASSERT_EQ(sampler.size(), static_cast<std::int64_t>(rows.size())) << c.dump();
    for (std::int64_t i = 0; i < sampler.size(); ++i) {
      EXPECT_EQ(StepsOf(sampler, i), rows[static_cast<std::size_t>(i)]) << c.dump();
    }
  }
}

TEST(SequenceSampler, PadsEpisodeEdgesByRepeatingTheEdgeStep) {
  const SequenceSampler sampler(
      {.episode_ends = {3, 8}, .horizon = 4, .pad_before = 1, .pad_after = 2});
  EXPECT_EQ(sampler.at(0), (Sequence{.begin = 0, .end = 3, .n_pad_front = 1, .n_pad_back = 0}));
  EXPECT_THAT(StepsOf(sampler, 0), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(StepsOf(sampler, 2), ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(StepsOf(sampler, 3), ElementsAre(3, 3, 4, 5)) << "the second episode begins anew";
  EXPECT_THAT(StepsOf(sampler, sampler.size() - 1), ElementsAre(6, 7, 7, 7));
}

TEST(SequenceSampler, HasNoSequenceWithoutAnEpisode) {
  EXPECT_EQ(SequenceSampler({.episode_ends = {}}).size(), 0);
  EXPECT_EQ(SequenceSampler({.episode_ends = {30}, .episode_mask = {false}}).size(), 0);
}

TEST(SequenceSampler, AHorizonLongerThanEveryEpisodeSaysWhatFits) {
  const FakeDataset dataset({5, 17, 20});  // the longest has 12 steps
  const Horizons fits = {.horizon = 22, .n_obs_steps = 2, .n_action_steps = 10};
  RequireSequences(dataset, fits);
  EXPECT_EQ(MakeTrainingSampler(dataset, fits).size(), 1);
  const Horizons too_long = {.horizon = 23, .n_obs_steps = 2, .n_action_steps = 10};
  EXPECT_EQ(MakeTrainingSampler(dataset, too_long).size(), 0);
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [&] { RequireSequences(dataset, too_long); }),
      HasSubstr("horizon is 23, longer than any training episode: the longest has 12 steps, "
                "and 10 more are padded"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [&] {
                          RequireSequences(dataset, fits, {true, false, true});
                        }),
              HasSubstr("Lower horizon to 15 or less"));
}

TEST(SequenceSampler, EpisodesThatGiveNoSequenceAreCountedInAWarning) {
  const FakeDataset dataset({6, 12, 18, 24, 50});
  const Horizons horizons = {.horizon = 16, .n_obs_steps = 2, .n_action_steps = 8};
  const auto warning = [&](const std::vector<bool>& mask) {
    testing::internal::CaptureStderr();
    RequireSequences(dataset, horizons, mask);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warning({}), HasSubstr("4 of 5 episodes (24 of 50 steps) are shorter than horizon 16 "
                                     "less padding and are not used: an episode needs 8 steps"));
  EXPECT_THAT(warning({true, false, false, false, true}), HasSubstr("1 of 2 episodes (6 of 32"));
  EXPECT_EQ(warning({false, false, false, false, true}), "");
}

std::set<std::int64_t> CurrentSteps(const SequenceSampler& sampler, const Horizons& horizons) {
  std::set<std::int64_t> steps;
  for (std::int64_t i = 0; i < sampler.size(); ++i) {
    const Sequence& sequence = sampler.at(i);
    steps.insert(sequence.begin - sequence.n_pad_front + horizons.n_obs_steps - 1);
  }
  return steps;
}

// LeRobot's EpisodeAwareSampler: every step of an episode but the last n
TEST(SequenceSampler, TheLastFramesOfAnEpisodeAreNoCurrentStep) {
  const FakeDataset dataset({20, 34});
  Horizons horizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 4};
  EXPECT_EQ(horizons.n_dropped_last_frames(), 3);
  for (const std::optional<int> n : {std::optional<int>(), {0}, {3}, {7}, {13}}) {
    horizons.drop_n_last_frames = n;
    std::set<std::int64_t> expected;
    for (std::int64_t t = 0; t < 20 - n.value_or(3); ++t) expected.insert(t);
    for (std::int64_t t = 20; t < 34 - n.value_or(3); ++t) expected.insert(t);
    EXPECT_EQ(CurrentSteps(MakeTrainingSampler(dataset, horizons), horizons), expected)
        << n.value_or(-1);
  }
}

TEST(SequenceSampler, MoreDroppedFramesThanAnEpisodeHasSaysWhatFits) {
  const FakeDataset dataset({5, 17});  // the longest has 12 steps
  Horizons horizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 4};
  horizons.drop_n_last_frames = 11;
  RequireSequences(dataset, horizons);
  EXPECT_EQ(MakeTrainingSampler(dataset, horizons).size(), 1);
  horizons.drop_n_last_frames = 12;
  EXPECT_EQ(MakeTrainingSampler(dataset, horizons).size(), 0);
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { RequireSequences(dataset, horizons); }),
              HasSubstr("drop_n_last_frames is 12, but the longest training episode has 12 steps: "
                        "nothing is left of it. Lower drop_n_last_frames to 11 or less."));
}

TEST(SequenceSampler, TheNumberOfDroppedFramesIsReadWithTheHorizons) {
  const auto read = [](const char* text) { return Horizons::FromConfig(Config::FromJson(text)); };
  EXPECT_EQ(read("{}").drop_n_last_frames, std::nullopt);
  EXPECT_EQ(read("{}").n_dropped_last_frames(), 7);
  EXPECT_EQ(read(R"({"drop_n_last_frames": 2})").n_dropped_last_frames(), 2);
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { read(R"({"drop_n_last_frames": -1})"); }),
              HasSubstr("drop_n_last_frames"));
}

TEST(SequenceSampler, RefusesWhatDoesNotFit) {
  EXPECT_THROW(SequenceSampler({.episode_ends = {3}, .horizon = 0}), Error);
  EXPECT_THROW(SequenceSampler({.episode_ends = {3, 3}}), Error);
  EXPECT_THROW(SequenceSampler({.episode_ends = {3, 5}, .episode_mask = {true}}), Error);
  EXPECT_THROW(SequenceSampler({.episode_ends = {3}}).at(10), Error);
}

}  // namespace
}  // namespace dp_bench::data
