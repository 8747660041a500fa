#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compare/pairing.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

run::EpisodeRecord Episode(std::uint64_t seed, bool success, double score,
                           const std::string& split = "test") {
  return {.split = split, .seed = seed, .score = score, .success = success};
}

TEST(PairBySeed, CountsWhatBecameOfEachSeed) {
  const std::vector<run::EpisodeRecord> a = {Episode(1, true, 1.0), Episode(2, true, 1.0),
                                             Episode(3, false, 0.5), Episode(4, false, 0.25),
                                             Episode(5, true, 1.0)};
  const std::vector<run::EpisodeRecord> b = {Episode(5, false, 0.5), Episode(4, false, 0.5),
                                             Episode(3, true, 1.0), Episode(2, true, 1.0),
                                             Episode(1, false, 0.75)};
  const PairedOutcomes outcomes = PairBySeed(a, b);
  EXPECT_EQ(outcomes.counts.both_succeed, 1);
  EXPECT_EQ(outcomes.counts.only_a, 2);
  EXPECT_EQ(outcomes.counts.only_b, 1);
  EXPECT_EQ(outcomes.counts.neither, 1);
  EXPECT_EQ(outcomes.counts.n(), 5);
  EXPECT_EQ(outcomes.counts.n_discordant(), 3);
  EXPECT_EQ(outcomes.counts.n_success_a(), 3);
  EXPECT_EQ(outcomes.counts.n_success_b(), 2);
  // in A's order, regardless of B's
  EXPECT_THAT(ScoreDifferences(outcomes), ElementsAre(-0.25, 0.0, 0.5, 0.25, -0.5));
  EXPECT_TRUE(outcomes.only_in_a.empty() && outcomes.only_in_b.empty());
}

TEST(PairBySeed, ListsTheSeedsThatOneRunLacks) {
  const PairedOutcomes outcomes =
      PairBySeed(std::vector{Episode(1, true, 1.0), Episode(2, true, 1.0)},
                 std::vector{Episode(3, true, 1.0), Episode(2, true, 1.0)});
  EXPECT_EQ(outcomes.counts.n(), 1);
  EXPECT_THAT(outcomes.only_in_a, ElementsAre(1));
  EXPECT_THAT(outcomes.only_in_b, ElementsAre(3));
}

TEST(PairBySeed, TakesOneSplit) {
  const std::vector<run::EpisodeRecord> run = {Episode(1, true, 1.0, "train"),
                                               Episode(1, false, 0.0)};
  EXPECT_EQ(PairBySeed(run, run).counts.neither, 1);
  EXPECT_EQ(PairBySeed(run, run, "train").counts.both_succeed, 1);
}

TEST(PairBySeed, KeepsFailedEpisodesAsNotSuccessful) {
  run::EpisodeRecord crashed = Episode(1, false, 0.0);
  crashed.failure_reason = "env threw";
  const PairedOutcomes outcomes =
      PairBySeed(std::vector{Episode(1, true, 1.0)}, std::vector{crashed});
  EXPECT_EQ(outcomes.counts.only_a, 1);
}

TEST(PairBySeed, RefusesASeedThatOccursTwice) {
  const std::vector<run::EpisodeRecord> once = {Episode(7, true, 1.0)};
  const std::vector<run::EpisodeRecord> twice = {Episode(7, true, 1.0), Episode(7, false, 0.0)};
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { PairBySeed(once, twice); }),
              HasSubstr("the second run has two test episodes of seed 7"));
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { PairBySeed(twice, once); }),
              HasSubstr("the first run"));
}

}  // namespace
}  // namespace dp_bench::compare
