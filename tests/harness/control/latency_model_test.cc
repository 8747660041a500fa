// How long plans take, drawn from the seed.
#include "control/latency_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/error_of.h"

namespace dp_bench::control {
namespace {

using testing::HasSubstr;

LatencyModel ModelOf(const std::string& text) {
  return LatencyModel::FromConfig(Config::FromJson(text, "latency.json"));
}

std::vector<double> AscendingDraws(const LatencyModel& model) {
  std::vector<double> draws;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) draws.push_back(model.DrawMs(seed, 8));
  std::ranges::sort(draws);
  return draws;
}

double QuantileAt(const std::vector<double>& ascending, double share) {
  return ascending[static_cast<std::size_t>(share * static_cast<double>(ascending.size() - 1))];
}

TEST(LatencyModel, ADrawIsAFunctionOfSeedAndStep) {
  const LatencyModel model = ModelOf(R"({"distribution": "log_normal"})");
  EXPECT_EQ(model.DrawMs(5, 16), model.DrawMs(5, 16));
  EXPECT_NE(model.DrawMs(5, 16), model.DrawMs(5, 17));
  EXPECT_NE(model.DrawMs(5, 16), model.DrawMs(6, 16));
}

TEST(LatencyModel, ALogNormalHasItsQuantiles) {
  const auto draws =
      AscendingDraws(ModelOf(R"({"distribution": "log_normal", "median_ms": 80, "sigma": 0.5})"));
  EXPECT_NEAR(QuantileAt(draws, 0.5), 80.0, 1.5);
  EXPECT_NEAR(QuantileAt(draws, 0.975), 80.0 * std::exp(0.5 * 1.96), 8.0);
}

TEST(LatencyModel, ALongTailIsSlowAsOftenAsItSays) {
  const auto draws = AscendingDraws(ModelOf(
      R"({"distribution": "long_tail", "median_ms": 10, "sigma": 0.1, "tail_share": 0.1,
          "tail_factor": 20})"));
  const auto n_slow = std::ranges::count_if(draws, [](double ms) { return ms > 100.0; });
  EXPECT_NEAR(static_cast<double>(n_slow) / 20'000, 0.1, 0.007);
}

TEST(LatencyModel, MeasuredTimesAreDrawnBetweenTheSamples) {
  const LatencyModel model =
      ModelOf(R"({"distribution": "measured", "samples_ms": [30, 10, 20, 100]})");
  EXPECT_EQ(model.MedianMs(), 25.0);
  const auto draws = AscendingDraws(model);
  EXPECT_GE(draws.front(), 10.0);
  EXPECT_LE(draws.back(), 100.0);
  EXPECT_NEAR(QuantileAt(draws, 1.0 / 3.0), 20.0, 0.3);
  EXPECT_NEAR(QuantileAt(draws, 0.65), 29.5, 0.3);
}

TEST(LatencyModel, WhatCannotBeDrawnIsRefused) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { ModelOf(R"({"distribution": "measured"})"); }),
              HasSubstr("needs samples_ms or file"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [] { ModelOf(R"({"distribution": "measured", "samples_ms": [1, -2]})"); }),
              HasSubstr("expected times of 0 to"));
}

TEST(LatencyModel, WholeStepsAreNotRoundedUp) {
  EXPECT_EQ(ControlSteps(100.0, 10.0), 1);
  EXPECT_EQ(ControlSteps(100.1, 10.0), 2);
  EXPECT_EQ(ControlSteps(0.0, 10.0), 0);
  EXPECT_EQ(ControlSteps(60.0, 50.0), 3);
}

}  // namespace
}  // namespace dp_bench::control
