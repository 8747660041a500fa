// The paired sequential test: golden stopping times, blocks, and settings out of range.
#include "compare/sequential_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "dp_bench/random.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;

// Looks after every pair, until the first verdict.
int FirstVerdict(SequentialTestConfig config, bool new_succeeds, Verdict wanted) {
  config.block_size = 1;
  config.max_pairs = 1000;
  SequentialTest test(config);
  while (!test.is_finished()) test.Add(true, new_succeeds);
  EXPECT_EQ(test.verdict(), wanted);
  return test.counts().n_pairs();
}

TEST(SequentialTest, PassesEqualRunsAfterAKnownNumberOfSeeds) {
  const auto n_pairs = [](double margin) {
    return FirstVerdict({.margin = margin, .beta = 0.05}, true, Verdict::kPass);
  };
  EXPECT_EQ(n_pairs(0.20), 18);
  EXPECT_EQ(n_pairs(0.10), 37);
  EXPECT_EQ(n_pairs(0.05), 75);
  EXPECT_EQ(n_pairs(0.02), 189);
}

TEST(SequentialTest, FailsAfterAKnownNumberOfLostSeeds) {
  const auto n_pairs = [](double alpha) {
    return FirstVerdict({.alpha = alpha}, false, Verdict::kFail);
  };
  EXPECT_EQ(n_pairs(0.05), 7);
  EXPECT_EQ(n_pairs(0.01), 9);
  EXPECT_EQ(n_pairs(0.001), 13);
}

TEST(SequentialTest, DefaultsAreThoseOfPullRequestAndNight) {
  EXPECT_EQ(SequentialTestConfig::PullRequest(), (SequentialTestConfig{0.10, 0.01, 0.05, 400, 10}));
  EXPECT_EQ(SequentialTestConfig::Nightly(), (SequentialTestConfig{0.05, 0.01, 0.05, 1500, 10}));
}

TEST(SequentialTest, LooksAfterCompleteBlocksOnly) {
  SequentialTest test({});
  for (int i = 0; i < 9; ++i) test.Add(true, false);
  EXPECT_EQ(test.verdict(), Verdict::kInconclusive);  // although nine losses are enough
  EXPECT_TRUE(test.looks().empty());
  test.Add(true, true);
  EXPECT_EQ(test.verdict(), Verdict::kFail);
  ASSERT_EQ(test.looks().size(), 1U);
  EXPECT_EQ(test.looks()[0].counts, (OutcomeCounts{.n_lost = 9, .n_same = 1}));
}

TEST(SequentialTest, FailWinsWhenBothThresholdsAreReached) {
  const SequentialRule rule({});
  EXPECT_EQ(rule.Judge({.log_fail_evidence = 5.0, .log_pass_evidence = 5.0}), Verdict::kFail);
  EXPECT_EQ(rule.Judge({.log_fail_evidence = 4.6, .log_pass_evidence = 5.0}), Verdict::kPass);
  EXPECT_EQ(rule.Judge({.log_fail_evidence = 4.6, .log_pass_evidence = 2.9}),
            Verdict::kInconclusive);
}

struct Outcome {
  bool old_succeeded, new_succeeded;
};

Outcome OutcomeOf(std::uint64_t seed) {
  RandomStream stream(seed, StreamId::kEnvStart);
  const double draw = stream.UniformDouble();
  const bool new_succeeded = 0.12 < draw && draw < 0.71;
  return {.old_succeeded = draw < 0.65, .new_succeeded = new_succeeded};
}

// So a gate continues with more pairs by counting all of them again.
TEST(SequentialTest, TheNumberOfPairsChangesNoLook) {
  SequentialTest shorter({.margin = 0.05, .max_pairs = 237});
  SequentialTest longer({.margin = 0.05, .max_pairs = 1500});
  for (std::uint64_t seed = 0; !longer.is_finished(); ++seed) {
    const Outcome outcome = OutcomeOf(seed);
    if (!shorter.is_finished()) shorter.Add(outcome.old_succeeded, outcome.new_succeeded);
    longer.Add(outcome.old_succeeded, outcome.new_succeeded);
  }
  EXPECT_EQ(shorter.verdict(), Verdict::kInconclusive);
  EXPECT_NE(longer.verdict(), Verdict::kInconclusive);
  const nlohmann::json first = ToJson(shorter)["looks"];
  const nlohmann::json all = ToJson(longer)["looks"];
  ASSERT_EQ(first.size(), 23U);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
}

TEST(SequentialTest, RefusesAConfigOutOfRange) {
  const auto fault = [](const SequentialTestConfig& config) {
    return MessageOf(ErrorCode::kConfig, [&] { SequentialTest test(config); });
  };
  EXPECT_THAT(fault({.margin = 0.0}), HasSubstr("margin of a sequential test is 0"));
  EXPECT_THAT(fault({.margin = 1.0}), HasSubstr("between 0 and 1"));
  EXPECT_THAT(fault({.alpha = -0.1}), HasSubstr("alpha"));
  EXPECT_THAT(fault({.beta = 2.0}), HasSubstr("beta"));
  EXPECT_THAT(fault({.max_pairs = 0}), HasSubstr("max_pairs"));
  EXPECT_THAT(fault({.block_size = 0}), HasSubstr("block_size"));
}

}  // namespace
}  // namespace dp_bench::compare
