// latency.json, there and back.
#include "run/planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "support/error_of.h"

namespace dp_bench::run {
namespace {

TEST(Latency, PercentilesAreTimesThatOccurred) {
  std::vector<double> seconds(200);
  std::iota(seconds.rbegin(), seconds.rend(), 1.0);
  const LatencySummary summary = SummarizeLatency(seconds);
  EXPECT_EQ(summary.n, 200);
  EXPECT_EQ(summary.p50_s, 100.0);
  EXPECT_EQ(summary.p95_s, 190.0);
  EXPECT_EQ(summary.p99_s, 198.0);
  EXPECT_EQ(summary.max_s, 200.0);
  EXPECT_EQ(SummarizeLatency({0.5}).p99_s, 0.5);
  EXPECT_EQ(SummarizeLatency({}).n, 0);
}

TEST(Latency, LateIsWhatTakesLongerThanTheDeadline) {
  EXPECT_EQ(ShareLate(std::vector<double>{0.05, 0.1, 0.11, 0.2}, 0.1), 0.5);
  EXPECT_EQ(ShareLate({}, 0.1), 0.0);
}

TEST(Latency, JsonSaysAtWhichBatchSizeItWasMeasured) {
  const PlanningLatency alone = {
      .batch_size = 1, .chunk_s = {0.02, 0.3}, .stage_s = {{"denoising step", {0.001}}}};
  PolicyLatencySummary latency = {
      .control_hz = 10.0, .deadline_s = 0.1, .alone = Summarize(alone, 0.1)};
  nlohmann::json file = ToJson(latency);
  EXPECT_EQ(file["deadline_ms"], 100.0);
  EXPECT_EQ(file["batch_1"]["batch_size"], 1);
  EXPECT_EQ(file["batch_1"]["share_late"], 0.5);
  EXPECT_EQ(file["batch_1"]["chunk"]["p50_ms"], 20.0);
  EXPECT_EQ(file["batch_1"]["stages"]["denoising step"]["n"], 1);
  EXPECT_TRUE(file["rollouts"].is_null());
  latency.in_rollouts = Summarize({.batch_size = 16, .chunk_s = {0.04}, .stage_s = {}}, 0.1);
  const nlohmann::json whole = ToJson(latency);
  EXPECT_EQ(whole["rollouts"]["batch_size"], 16);
}

TEST(Latency, IsReadBackAsItWas) {
  const PlanningLatency alone = {
      .batch_size = 1, .chunk_s = {0.25, 0.5}, .stage_s = {{"denoising step", {0.125}}}};
  const PlanningLatency in_rollouts = {.batch_size = 16, .chunk_s = {0.0625}, .stage_s = {}};
  const PolicyLatencySummary latency = {.control_hz = 10.0,
                                        .deadline_s = 0.1,
                                        .alone = Summarize(alone, 0.1),
                                        .is_of_recorded_obs = false,
                                        .in_rollouts = Summarize(in_rollouts, 0.1)};
  const PolicyLatencySummary read = ParseLatency(ToJson(latency).dump(), "here");
  EXPECT_FALSE(read.is_of_recorded_obs);
  EXPECT_DOUBLE_EQ(read.deadline_s, 0.1);
  EXPECT_DOUBLE_EQ(read.alone.chunk.max_s, 0.5);
  EXPECT_EQ(read.alone.share_late, 1.0);
  EXPECT_DOUBLE_EQ(read.alone.stages.at("denoising step").p50_s, 0.125);
  ASSERT_TRUE(read.in_rollouts);
  EXPECT_EQ(read.in_rollouts->batch_size, 16);
  EXPECT_THAT(MessageOf(ErrorCode::kData, [] { ParseLatency("{}", "a/latency.json"); }),
              testing::HasSubstr("a/latency.json"));
}

}  // namespace
}  // namespace dp_bench::run
