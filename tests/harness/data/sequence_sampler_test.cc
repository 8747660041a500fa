#include "data/sequence_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
      EXPECT_EQ(sampler.StepIndices(i), rows[static_cast<std::size_t>(i)]) << c.dump();
    }
  }
}

TEST(SequenceSampler, PadsEpisodeEdgesByRepeatingTheEdgeStep) {
  const SequenceSampler sampler(
      {.episode_ends = {3, 8}, .horizon = 4, .pad_before = 1, .pad_after = 2});
  EXPECT_EQ(sampler.at(0), (Sequence{.begin = 0, .end = 3, .n_pad_front = 1, .n_pad_back = 0}));
  EXPECT_THAT(sampler.StepIndices(0), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(sampler.StepIndices(2), ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(sampler.StepIndices(3), ElementsAre(3, 3, 4, 5)) << "the second episode begins anew";
  EXPECT_THAT(sampler.StepIndices(sampler.size() - 1), ElementsAre(6, 7, 7, 7));
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

TEST(SequenceSampler, RefusesWhatDoesNotFit) {
  EXPECT_THROW(SequenceSampler({.episode_ends = {3}, .horizon = 0}), Error);
  EXPECT_THROW(SequenceSampler({.episode_ends = {3, 3}}), Error);
  EXPECT_THROW(SequenceSampler({.episode_ends = {3, 5}, .episode_mask = {true}}), Error);
  EXPECT_THROW(SequenceSampler({.episode_ends = {3}}).at(10), Error);
}

}  // namespace
}  // namespace dp_bench::data
