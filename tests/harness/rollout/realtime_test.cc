// Rollouts in which simulated time passes while the policy plans.
#include "harness/rollout/fixture.h"
#include "support/record_hash.h"

namespace dp_bench::rollout {
namespace {

using testing::HasSubstr;

class RealtimeTest : public RolloutTest {
 protected:
  run::RunResult RunAt(double latency_ms, double factor = 1.0) {
    config_.realtime = factor;
    config_.realtime_latency_ms = latency_ms;
    return Run();
  }
};

TEST_F(RealtimeTest, ALatencyBelowAnythingThatTakesAStepIsAStep) {
  world_.max_steps = 30;  // at 10 Hz: 6 fresh + 1 stale per plan after the first 7
  for (const run::EpisodeRecord& record : RunAt(0.001).records) EXPECT_EQ(record.n_stale_steps, 4);
}

TEST_F(RealtimeTest, WithoutItNothingChanges) {
  const run::RunResult plain = Run();
  config_.realtime_latency_ms = 500.0;  // has no effect without realtime
  const run::RunResult result = Run();
  EXPECT_EQ(run::HashRecords(result.records), run::HashRecords(plain.records));
  for (const run::EpisodeRecord& record : plain.records) EXPECT_EQ(record.n_stale_steps, 0);
}

// 300 ms at 10 Hz are 3 steps: 5, then 3 stale + 2 fresh for each plan, 30 in all.
TEST_F(RealtimeTest, CountsTheStaleStepsOfAKnownLatency) {
  const run::RunResult result = RunAt(300.0);
  for (const run::EpisodeRecord& record : result.records) {
    EXPECT_EQ(record.n_steps, 30);
    EXPECT_EQ(record.n_stale_steps, 15);
  }
  EXPECT_EQ(run::Summarize(result.records, "test").n_stale_steps, 6 * 15);
  EXPECT_EQ(run::HashRecords(RunAt(100.0, 3.0).records), run::HashRecords(result.records));
  EXPECT_NE(run::HashRecords(RunAt(200.0).records), run::HashRecords(result.records));
}

TEST_F(RealtimeTest, WhatIsExecutedDependsOnNeitherWorkersNorCompanions) {
  config_.n_workers = 1;
  config_.n_envs = 1;
  const run::RunResult alone = RunAt(400.0);
  config_.n_workers = 3;
  config_.n_envs = 8;
  EXPECT_EQ(run::HashRecords(RunAt(400.0).records), run::HashRecords(alone.records));
}

TEST_F(RealtimeTest, PlansFromWhatWasSeenWhenTheyWereAskedFor) {
  std::vector<float> last_seen;
  config_.n_train = 0;
  config_.n_test = 1;
  config_.realtime = 1.0;
  config_.realtime_latency_ms = 700.0;
  config_.check_batch_invariance = false;
  Run([&](const PlannedRow& row) {
    EXPECT_EQ(row.window("step").back(), static_cast<float>(row.name.env_step));
    last_seen.push_back(static_cast<float>(row.name.env_step));
  });
  // 8 - 7 fresh actions of the first chunk, then all are stale
  EXPECT_EQ(last_seen, (std::vector<float>{0, 1, 8, 15, 22, 29}));
}

// Of state_roll_forward: a plan that is earlier or later than expected too.
TEST_F(RealtimeTest, APlanForALaterTimeIsExecutedAtThatTime) {
  config_.n_train = 0;
  config_.n_envs = 1;
  config_.check_batch_invariance = false;
  config_.chunking.method = control::ChunkingMethod::kStateRollForward;
  config_.chunking.followed = {{"pos", {0, 1}}};
  config_.chunking.execute = 4;
  control::LatencyModel& latency = config_.chunking.latency;
  latency.distribution = control::LatencyDistribution::kLongTail;
  latency.median_ms = 100.0;  // a step
  latency.sigma = 0.0;
  latency.tail_share = 0.4;
  latency.tail_factor = 3.0;
  std::vector<float> executed;
  FakePlanner planner(/*batch_size=*/1, [](const PlannedRow& row) {
    const control::PlanRow& plan = row.name;
    const auto passed = plan.env_step == 0 ? 0 : static_cast<std::size_t>(plan.delay);
    for (std::size_t i = 0; i < row.chunk.size(); ++i) {
      const std::size_t step = plan.env_step + passed + i / 2;  // the step it is meant for
      row.chunk[i] = static_cast<float>(step);
    }
  });
  MakeRunner([&] {
    return std::make_unique<RecordingEnv>(world_, &executed, /*n_kept=*/1);
  }).Run(planner);
  ASSERT_EQ(executed.size(), 6U * 30U);
  for (std::size_t i = 0; i < executed.size(); ++i) {
    ASSERT_EQ(executed[i], static_cast<float>(i % 30)) << "episode " << i / 30;
  }
}

TEST_F(RealtimeTest, WantsALatency) {
  config_.realtime = 1.0;
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [this] { MakeRunner(); }),
              HasSubstr("env_runner.realtime_latency_ms"));
}

TEST_F(RealtimeTest, AFileOfLatenciesIsForEval) {
  config_.chunking.latency.distribution = control::LatencyDistribution::kMeasured;
  config_.chunking.latency.file = "latency.json";
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [this] { MakeRunner(); }), HasSubstr("samples_ms"));
}

TEST(RealtimeConfig, IsASwitchOrAFactor) {
  const auto read = [](const std::string& text) {
    return control::EnvRunnerConfig::FromConfig(Config::FromJson(text)).realtime;
  };
  EXPECT_EQ(read("{}"), 0.0);
  EXPECT_EQ(read(R"({"realtime": true})"), 1.0);
  EXPECT_EQ(read(R"({"realtime": 2.5})"), 2.5);
  EXPECT_THROW(read(R"({"realtime": "yes"})"), Error);
}

}  // namespace
}  // namespace dp_bench::rollout
