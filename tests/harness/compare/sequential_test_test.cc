// The paired sequential test: golden stopping times, blocks, and continuing where it stopped.
#include "compare/sequential_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(n_pairs(0.20), 20);
  EXPECT_EQ(n_pairs(0.10), 43);
  EXPECT_EQ(n_pairs(0.05), 88);
  EXPECT_EQ(n_pairs(0.02), 224);
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

TEST(SequentialTest, ContinuesWithTheNumbersOfAnUninterruptedOne) {
  const SequentialTestConfig config = {.margin = 0.05, .max_pairs = 237};
  SequentialTest whole(config);
  SequentialTest stopped(config);
  for (std::uint64_t seed = 0; !whole.is_finished(); ++seed) {
    const Outcome outcome = OutcomeOf(seed);
    whole.Add(outcome.old_succeeded, outcome.new_succeeded);
    stopped.Add(outcome.old_succeeded, outcome.new_succeeded);
    const std::string state = stopped.ToJson().dump();
    stopped = SequentialTest::FromJson(nlohmann::json::parse(state));
    ASSERT_EQ(stopped.ToJson(), whole.ToJson());
  }
  EXPECT_EQ(whole.verdict(), Verdict::kInconclusive);
  EXPECT_EQ(whole.counts().n_pairs(), 237);

  // a pull request's test can continue to the length of a nightly one
  SequentialTest longer({.margin = 0.05, .max_pairs = 1500});
  stopped.ContinueTo(1500);
  EXPECT_FALSE(stopped.is_finished());
  for (std::uint64_t seed = 0; !longer.is_finished(); ++seed) {
    const Outcome outcome = OutcomeOf(seed);
    longer.Add(outcome.old_succeeded, outcome.new_succeeded);
    if (seed >= 237) stopped.Add(outcome.old_succeeded, outcome.new_succeeded);
  }
  EXPECT_EQ(stopped.ToJson(), longer.ToJson());
  EXPECT_NE(longer.verdict(), Verdict::kInconclusive);
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

TEST(SequentialTest, RefusesAStateThatDoesNotFollow) {
  SequentialTest test({});
  for (std::uint64_t seed = 0; seed < 35; ++seed) {
    test.Add(OutcomeOf(seed).old_succeeded, OutcomeOf(seed).new_succeeded);
  }
  const nlohmann::json good = test.ToJson();
  const auto fault = [&good](const char* place, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(place)] = value;
    return MessageOf(ErrorCode::kData, [&] { SequentialTest::FromJson(bad); });
  };
  EXPECT_THAT(fault("/format", "other"), HasSubstr("its format is not"));
  EXPECT_THAT(fault("/looks/1/n_same", 3), HasSubstr("look 2 does not follow"));
  EXPECT_THAT(fault("/looks/0/n_lost", -1), HasSubstr("n_lost is -1"));
  EXPECT_THAT(fault("/looks/0/n_lost", std::int64_t{1} << 40),
              HasSubstr("n_lost is 1099511627776"));
  EXPECT_THAT(fault("/counts/n_same", 400), HasSubstr("counts do not follow"));
  EXPECT_THAT(fault("/verdict", "PASS"), HasSubstr("its verdict is \"PASS\""));
  EXPECT_THAT(fault("/config/margin", "large"), HasSubstr("cannot be continued"));
  EXPECT_THAT(fault("/config/margin", 5.0), HasSubstr("margin of a sequential test is 5"));
  EXPECT_THAT(fault("/looks", nullptr), HasSubstr("cannot be continued: looks: expected an array"));
}

}  // namespace
}  // namespace dp_bench::compare
