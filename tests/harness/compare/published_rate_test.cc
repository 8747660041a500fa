#include "compare/published_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/real_rate.h"
#include "harness/compare/run_folders.h"
#include "report/compare_answers.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;

TEST(ParsePublishedRate, TakesCountsRatesAndPercentages) {
  for (const char* text : {"403/500", "0.806/500", "80.6%/500"}) {
    const PublishedRate published = ParsePublishedRate(text);
    EXPECT_NEAR(published.rate, 0.806, 1e-12) << text;
    EXPECT_EQ(published.n_success, 403) << text;
    EXPECT_EQ(published.n, 500) << text;
  }
  EXPECT_EQ(ParsePublishedRate("1/500").n_success, 1);
  EXPECT_EQ(ParsePublishedRate("1.0/500").n_success, 500);
  EXPECT_DOUBLE_EQ(ParsePublishedRate("80.6%").rate, 0.806);
  EXPECT_EQ(ParsePublishedRate("0.8").n, 0);
}

TEST(ParsePublishedRate, RefusesWhatIsNoRate) {
  for (const char* text : {"", "/", "5/", "/5", "6/5", "1.2", "120%", "-1/5", "nan", "a/b", "1/0",
                           "1/2.5", "1/5x", "1/1e12"}) {
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { ParsePublishedRate(text); }),
                HasSubstr("expected successes and episodes (403/500)"))
        << text;
  }
}

// Evo-1#34: Meta-World MT50, 10 episodes a task; .772, .759, .758, .744 with four seeds against
// .806.
TEST(CheckPublished, OneOfFourSeedsDoesNotContradictTheNumberButAllFourDo) {
  const PublishedRate published = ParsePublishedRate("0.806/500");
  const PublishedCheck one = CheckPublished(published, 386, 500);
  EXPECT_TRUE(one.is_credible());
  EXPECT_NEAR(one.p_exact, 0.214, 0.005);
  EXPECT_EQ(one.n_to_detect, EpisodesToDetect(386.0 / 500.0, 0.806));
  const PublishedCheck all = CheckPublished(published, 386 + 380 + 379 + 372, 2000);
  EXPECT_FALSE(all.is_credible());
  EXPECT_NEAR(all.p_exact, 0.024, 0.003);
  EXPECT_GT(published.rate, all.predicted_high);
  EXPECT_GT(all.difference.low, 0.0);
  EXPECT_EQ(ToJson(all)["verdict"], "ours is lower");
}

// LIBERO-plus#61: two replanning settings agree with each other, but not with the leaderboard.
TEST(CheckPublished, TwoSettingsOfLiberoPlusAgreeAndContradictTheLeaderboard) {
  EXPECT_TRUE(CheckPublished(ParsePublishedRate("4641/10030"), 4568, 10030).is_credible());
  for (const int n_success : {4568, 4641}) {
    const PublishedCheck check =
        CheckPublished(ParsePublishedRate("53.6%/10030"), n_success, 10030);
    EXPECT_LT(check.p_exact, 1e-20);
    EXPECT_LT(check.predicted_high, 0.48);
  }
}

// lerobot#4327: 85 % with one task at a time, 0 % with four.
TEST(CheckPublished, TwentyEpisodesAreEnoughForABrokenEvaluation) {
  const PublishedCheck check = CheckPublished(ParsePublishedRate("17/20"), 0, 20);
  EXPECT_FALSE(check.is_credible());
  EXPECT_NEAR(check.p_exact, 2.6e-8, 2e-9);
  EXPECT_DOUBLE_EQ(check.predicted_low, 0.0);
  EXPECT_LE(check.predicted_high, 0.15);
}

// The beta-binomial distribution with n = 1 is that of one coin.
TEST(CheckPublished, PredictsFromThePosteriorOfJeffreys) {
  const PublishedCheck check = CheckPublished(ParsePublishedRate("1/1"), 0, 20);
  EXPECT_DOUBLE_EQ(check.predicted_high, 0.0);  // P(1) = 0.5 / 21 < 2.5 %
  EXPECT_DOUBLE_EQ(CheckPublished(ParsePublishedRate("1/1"), 0, 18).predicted_high, 1.0);
}

// By summing all probabilities, each from gamma functions.
TEST(CheckPublished, PredictsTheQuantilesOfTheBetaBinomialDistribution) {
  const PublishedCheck small = CheckPublished(ParsePublishedRate("7/20"), 3, 10);
  EXPECT_DOUBLE_EQ(small.predicted_low, 1.0 / 20);
  EXPECT_DOUBLE_EQ(small.predicted_high, 14.0 / 20);
  const PublishedCheck many = CheckPublished(ParsePublishedRate("5000000/10000000"), 500, 1000);
  EXPECT_NEAR(many.predicted_low, 0.4691, 2e-4);
  EXPECT_NEAR(many.predicted_high, 0.5309, 2e-4);
}

TEST(CheckPublished, ARateAloneCountsAsExact) {
  const PublishedCheck check = CheckPublished(ParsePublishedRate("0.5"), 9, 10);
  EXPECT_NEAR(check.p_exact, 2.0 * 11.0 / 1024.0, 1e-12);
  EXPECT_EQ(ToJson(check)["verdict"], "ours is higher");
  EXPECT_THAT(report::PublishedText(check, 1), HasSubstr("taken as exact"));
  EXPECT_DOUBLE_EQ(CheckPublished(ParsePublishedRate("1.0"), 10, 10).p_exact, 1.0);
  EXPECT_DOUBLE_EQ(CheckPublished(ParsePublishedRate("0.0"), 1, 10).p_exact, 0.0);
}

TEST(CheckPublished, IsSaidInASentence) {
  const PublishedCheck check = CheckPublished(ParsePublishedRate("17/20"), 0, 20);
  EXPECT_THAT(report::PublishedText(check, 2),
              testing::AllOf(HasSubstr("published   85.0 %, 17 of 20\n"),
                             HasSubstr("0 of 20, 95 % interval 0.0 to 16.1 %, 2 runs together"),
                             HasSubstr("NOT CREDIBLE for these runs: ours is lower")));
}

TEST(BoundRealRateTest, UsesWhatTheSimulationPredicts) {
  // 20 pairs that agree; the simulation succeeds in 600 of 1000
  const RealRate rate = BoundRealRate({.both_succeed = 10, .neither = 10}, 600, 1000);
  EXPECT_DOUBLE_EQ(rate.rate, 0.6);
  EXPECT_DOUBLE_EQ(rate.real_alone.rate, 0.5);
  EXPECT_LT(rate.high - rate.low, 0.8 * (rate.real_alone.high - rate.real_alone.low));
  EXPECT_GT(rate.n_equivalent, 30.0);
}

TEST(BoundRealRateTest, CorrectsTheBiasOfASimulation) {
  const RealRate rate =
      BoundRealRate({.both_succeed = 30, .only_a = 15, .only_b = 0, .neither = 5}, 900, 1000);
  EXPECT_NEAR(rate.rate, 0.6, 1e-12);
  EXPECT_LT(rate.high, 0.9);
}

TEST(BoundRealRateTest, MirroredOutcomesHaveTheMirroredInterval) {
  const RealRate rate = BoundRealRate({4, 3, 2, 11}, 80, 200);
  const RealRate mirrored = BoundRealRate({11, 2, 3, 4}, 120, 200);
  EXPECT_NEAR(rate.low, 1.0 - mirrored.high, 1e-12);
  EXPECT_NEAR(rate.high, 1.0 - mirrored.low, 1e-12);
}

TEST(BoundRealRateTest, ASimulationThatAlwaysSucceedsTellsNothing) {
  const RealRate rate = BoundRealRate({.both_succeed = 12, .only_a = 8}, 500, 500);
  EXPECT_NEAR(rate.rate, 0.6, 1e-12);
  EXPECT_NEAR(rate.low, rate.real_alone.low, 0.01);
}

TEST(BoundRealRateTest, PairsBySeedAndCountsRealRolloutsWithoutASimulatedOne) {
  run::RunFolder simulated;
  simulated.path = "sim";
  simulated.episodes = SmallEpisodes("ssffssff", 0);
  run::RunFolder real;
  real.path = "real.csv";
  real.episodes = SmallEpisodes("sfss", 6);
  const std::optional<RealRate> rate = BoundRealRate(simulated, real);
  ASSERT_TRUE(rate);
  EXPECT_EQ(rate->counts.n(), 2);
  EXPECT_EQ(rate->counts.only_b, 1);
  EXPECT_EQ(rate->simulated.n, 8);
  EXPECT_EQ(rate->n_unpaired, 2);
  EXPECT_THAT(report::RealRateText(*rate), HasSubstr("2 real rollouts have a seed that"));
  real.episodes = SmallEpisodes("sf", 100);
  EXPECT_FALSE(BoundRealRate(simulated, real));
}

}  // namespace
}  // namespace dp_bench::compare
