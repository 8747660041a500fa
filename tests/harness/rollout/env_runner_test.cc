// The runner's guarantees: outcomes depend only on the seed; windows, chunks, scores and splits are
// those of diffusion_policy.
#include "rollout/env_runner.h"

#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "core/errors.h"
#include "core/random_streams.h"
#include "harness/rollout/fixture.h"
#include "support/record_hash.h"

namespace dp_bench::rollout {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Windows of the key "step", by (seed, env step).
using Windows = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<float>>;

FakePlanner::Hook RecordWindows(Windows* windows) {
  return [windows](const PlannedRow& row) {
    const std::span<const float> window = row.window("step");
    (*windows)[{row.name.seed, row.name.env_step}] = {window.begin(), window.end()};
  };
}

TEST_F(RolloutTest, OutcomeDependsOnNeitherWorkersNorEnvsNorOrder) {
  config_.n_train = 8;
  config_.n_test = 56;
  world_.end_of = [](std::uint64_t seed) { return 5 + static_cast<int>(seed % 40); };
  world_.fault_of = [](std::uint64_t seed) {
    return seed % 13 == 0 ? Fault::kThrowInStep : Fault::kNone;
  };
  std::vector<int> order(64);
  std::iota(order.begin(), order.end(), 0);

  std::vector<std::string> hashes;
  for (const int n_workers : {1, 2, 3, 8, 16}) {
    for (const int n_envs : {1, 5, 16, 64}) {
      config_.n_workers = n_workers;
      config_.n_envs = n_envs;
      EnvRunner runner = MakeRunner();
      FakePlanner planner(4);
      hashes.push_back(run::HashRecords(runner.Run(planner, order).records));

      // the next order: a keyed shuffle
      RandomStream random(static_cast<std::uint64_t>(n_workers * 100 + n_envs),
                          core::kShuffleStream);
      for (std::uint32_t i = 63; i > 0; --i) std::swap(order[i], order[random.UniformInt(i + 1)]);
    }
  }
  EXPECT_THAT(hashes, testing::Each(hashes.front()));
}

TEST_F(RolloutTest, OutcomeDependsOnTheSeedAndOnTheActions) {
  const std::string hash = run::HashRecords(Run().records);
  const run::RunResult other = Run([](const PlannedRow& row) {
    if (row.name.seed == 100003 && row.name.env_step == 16) row.chunk[5] += 1e-6F;
  });
  EXPECT_NE(hash, run::HashRecords(other.records));
  config_.test_start_seed += 1;
  EXPECT_NE(hash, run::HashRecords(Run().records));
}

TEST_F(RolloutTest, RunnerGivesTheSameAgainInItsUsedEnvs) {
  EnvRunner runner = MakeRunner();
  FakePlanner planner(4);
  const std::string hash = run::HashRecords(runner.Run(planner).records);
  const int n_created = world_.n_created;
  EXPECT_EQ(run::HashRecords(runner.Run(planner).records), hash);
  // a slot that found no episode in the first run makes its env in the second
  EXPECT_LT(world_.n_created, 2 * n_created);
}

TEST_F(RolloutTest, RecordsFollowTheSeedListTrainFirst) {
  std::vector<std::pair<std::string, std::uint64_t>> found;
  for (const run::EpisodeRecord& record : Run().records) {
    EXPECT_EQ(record.episode, static_cast<int>(found.size()));
    found.emplace_back(record.split, record.seed);
  }
  using P = std::pair<std::string, std::uint64_t>;
  EXPECT_THAT(found, ElementsAre(P("train", 0), P("train", 1), P("test", 100000), P("test", 100001),
                                 P("test", 100002), P("test", 100003), P("test", 100004),
                                 P("test", 100005)));
}

TEST_F(RolloutTest, ChosenEpisodesRunAloneWithTheSameOutcome) {
  const run::RunResult all = Run();
  EnvRunner runner = MakeRunner();
  FakePlanner planner(4);
  const std::vector<int> chosen = {6, 3};
  const run::RunResult some = runner.Run(planner, chosen);
  const std::vector<run::EpisodeRecord> wanted = {all.records[3], all.records[6]};
  EXPECT_EQ(run::HashRecords(some.records), run::HashRecords(wanted));

  const std::vector<int> absent = {8};
  EXPECT_EQ(MessageOf(ErrorCode::kUsage, [&] { runner.Run(planner, absent); }),
            "there is no episode 8; the seed list has 0 to 7");
}

TEST_F(RolloutTest, FirstObservationIsWhatTheFirstPlanIsMadeFrom) {
  Windows windows;
  Run(RecordWindows(&windows));
  const EnvRunner runner = MakeRunner();
  const auto first = runner.FirstObservation(4);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->row.seed, 100002U);
  EXPECT_EQ(first->row.env_step, 0U);
  const auto window = WindowOf(first->obs, "step", 0);
  EXPECT_EQ((windows[{100002, 0}]), std::vector<float>(window.begin(), window.end()));

  EXPECT_EQ(MessageOf(ErrorCode::kUsage, [&] { runner.FirstObservation(8); }),
            "there is no episode 8; the seed list has 0 to 7");
  world_.fault_of = [](std::uint64_t) { return Fault::kThrowInReset; };
  EXPECT_FALSE(MakeRunner().FirstObservation(4));
}

TEST_F(RolloutTest, ARunStopsIfItsPolicyHasGone) {
  EnvRunner runner = MakeRunner();
  FakePlanner planner(8, [](const PlannedRow& row) {
    if (row.name.env_step > 0) throw UnavailableError("the server has gone");
  });
  std::atomic<int> n_ended = 0;
  const run::RunHooks hooks = {.on_episode = [&](const run::EpisodeRecord&) { ++n_ended; }};
  EXPECT_EQ(MessageOf(ErrorCode::kUnavailable, [&] { runner.Run(planner, hooks); }),
            "the server has gone");
  EXPECT_EQ(n_ended, 0) << "an episode failed for that reason";
}

TEST_F(RolloutTest, WindowStartsWithTheFirstObservationRepeated) {
  horizons_ = {.horizon = 16, .n_obs_steps = 3, .n_action_steps = 2};
  world_.max_steps = 7;
  Windows windows;
  Run(RecordWindows(&windows));
  EXPECT_THAT((windows[{100000, 0}]), ElementsAre(0, 0, 0));
  EXPECT_THAT((windows[{100000, 2}]), ElementsAre(0, 1, 2));
  EXPECT_THAT((windows[{100000, 4}]), ElementsAre(2, 3, 4));
  EXPECT_THAT((windows[{100000, 6}]), ElementsAre(4, 5, 6));
}

TEST_F(RolloutTest, WindowLongerThanHistoryIsFilledWithTheFirstObservation) {
  horizons_ = {.horizon = 16, .n_obs_steps = 5, .n_action_steps = 2};
  Windows windows;
  Run(RecordWindows(&windows));
  EXPECT_THAT((windows[{1, 2}]), ElementsAre(0, 0, 0, 1, 2));
}

TEST_F(RolloutTest, WindowEndsAtTheCurrentStep) {
  config_.check_batch_invariance = false;  // the check plans additional rows
  Windows windows;
  Run(RecordWindows(&windows));
  EXPECT_THAT((windows[{1, 0}]), ElementsAre(0, 0));
  EXPECT_THAT((windows[{1, 8}]), ElementsAre(7, 8));
  EXPECT_THAT((windows[{1, 24}]), ElementsAre(23, 24));
  EXPECT_EQ(windows.size(), 8U * 4U);  // 30 steps are four chunks of 8
}

// Records which rows it was asked for.
class RecordedPlanner final : public FakePlanner {
 public:
  using FakePlanner::FakePlanner;

  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    for (const control::PlanRow& row : rows) asked.emplace_back(row.seed, row.env_step);
    FakePlanner::Plan(obs, rows, actions);
  }
  ChunkPlanner& Unrecorded() override { return unrecorded_; }

  std::vector<std::pair<std::uint64_t, std::uint64_t>> asked;

 private:
  FakePlanner unrecorded_{4};
};

TEST_F(RolloutTest, PlansOfTheBatchCheckAreNotRecorded) {
  RecordedPlanner planner(4);
  EnvRunner runner = MakeRunner();
  runner.Run(planner);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> wanted;
  for (const run::EpisodeJob& job : runner.jobs()) {
    for (const std::uint64_t step : {0U, 8U, 16U, 24U}) wanted.emplace_back(job.seed, step);
  }
  EXPECT_THAT(planner.asked, testing::UnorderedElementsAreArray(wanted));
}

TEST_F(RolloutTest, WindowsOfImagesKeepTheirBytes) {
  std::map<std::uint64_t, std::vector<std::uint8_t>> pixels;  // of seed 1, by env step
  Run([&](const PlannedRow& row) {
    const Array& array = row.obs.find("pixels")->second;
    EXPECT_EQ(array.shape(), (Shape{4, 2, 2, 2, 3}));
    const auto window = array.as<std::uint8_t>().subspan(row.row * 24, 24);
    if (row.name.seed == 1) pixels[row.name.env_step] = {window.begin(), window.end()};
  });
  ASSERT_EQ(pixels[8].size(), 24U);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(pixels[8][i], (i < 12 ? 7 * 16 : 8 * 16 - 12) + i);
}

TEST_F(RolloutTest, OnlyStepsThatThePlanLooksAtAreObserved) {
  config_.n_train = 0;
  config_.n_test = 1;
  Run();
  EXPECT_EQ(world_.n_observed, 1 + 3 * 2);  // at reset, and To = 2 for each further plan
}

TEST_F(RolloutTest, ChunkIsExecutedFromItsFirstStep) {
  config_.n_train = 0;
  config_.n_test = 1;
  world_.max_steps = 3;
  world_.reward_sign = 0.0;
  const run::RunResult result =
      Run([](const PlannedRow& row) { std::iota(row.chunk.begin(), row.chunk.end(), 0.0F); });
  RandomStream random(100000, StreamId::kEnvStart);
  float x = random.Uniform();
  for (const float action : {0.0F, 2.0F, 4.0F}) x = 0.9F * x + 0.1F * action;
  EXPECT_EQ(result.records[0].metrics[2], x);
}

TEST_F(RolloutTest, EpisodesAreTruncatedInTheMiddleOfAChunk) {
  config_.max_steps = 11;
  for (const run::EpisodeRecord& record : Run().records) {
    EXPECT_EQ(record.n_steps, 11);
    EXPECT_FALSE(record.success);
    EXPECT_FALSE(record.failure_reason.has_value());
  }
}

TEST_F(RolloutTest, TerminationEndsTheEpisodeInTheMiddleOfAChunk) {
  world_.end_of = [](std::uint64_t seed) { return seed == 100002 ? 13 : 1 << 30; };
  const run::RunResult result = Run();
  EXPECT_EQ(result.records[4].n_steps, 13);
  EXPECT_TRUE(result.records[4].success);
  EXPECT_EQ(result.records[5].n_steps, 30);
  EXPECT_EQ(result.n_env_steps, 7 * 30 + 13);
  EXPECT_EQ(run::Summarize(result.records, "test").n_success, 1);
  EXPECT_DOUBLE_EQ(run::Summarize(result.records, "test").success_rate, 1.0 / 6.0);
}

TEST_F(RolloutTest, ScoreIsTheHighestRewardEvenWhenAllAreNegative) {
  world_.reward_sign = -1.0;
  for (const run::EpisodeRecord& record : Run().records) EXPECT_LT(record.score, 0.0);
}

TEST_F(RolloutTest, AMetricOfTheEnvCanBeTheScore) {
  for (const auto& [name, index] :
       {std::pair("x_max", 0), std::pair("x_mean", 1), std::pair("x_last", 2)}) {
    config_.score_metric = name;
    for (const run::EpisodeRecord& record : Run().records) {
      EXPECT_EQ(record.score, record.metrics[static_cast<std::size_t>(index)]) << name;
    }
  }
}

TEST_F(RolloutTest, AnEpisodeThatFailedHasScoreZeroWhateverTheScoreIs) {
  config_.score_metric = "x_last";
  world_.fault_of = [](std::uint64_t) { return Fault::kThrowInStep; };
  for (const run::EpisodeRecord& record : Run().records) EXPECT_EQ(record.score, 0.0);
}

TEST_F(RolloutTest, AScoreThatTheEnvDoesNotHaveIsRefusedWithItsMetrics) {
  config_.score_metric = "sum";
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { MakeRunner(); }),
              HasSubstr("expected a metric of the env (x_max, x_mean, x_last), found 'sum'"));
}

TEST_F(RolloutTest, MetricsAreAggregatedAsTheSpecSays) {
  config_.n_train = 0;
  config_.n_test = 1;
  config_.max_steps = 3;
  const auto fill = [](const PlannedRow& row) { std::ranges::fill(row.chunk, -10.0F); };
  const run::EpisodeRecord record = Run(fill).records[0];
  RandomStream random(100000, StreamId::kEnvStart);
  std::vector<double> x = {random.Uniform()};
  for (int i = 0; i < 3; ++i) x.push_back(0.9F * static_cast<float>(x.back()) + 0.1F * -10.0F);
  EXPECT_THAT(record.metrics, ElementsAre(x[1], (x[1] + x[2] + x[3]) / 3, x[3]));
}

TEST_F(RolloutTest, KeysThatNobodyAsksForDisturbNothing) {
  std::erase_if(meta_.obs, [](const KeySpec& key) { return key.name != "pos"; });
  std::size_t n_keys = 0;
  const run::RunResult result = Run([&](const PlannedRow& row) { n_keys = row.obs.size(); });
  EXPECT_EQ(n_keys, 1U);
  EXPECT_EQ(run::Summarize(result.records, "test").n_failed, 0);
}

TEST_F(RolloutTest, ShapeMetaThatDoesNotFitListsBothSides) {
  meta_.obs[1].shape = {3};
  meta_.obs.push_back({.name = "wrench", .shape = {6}});
  meta_.action.shape = {7};
  const std::string text = MessageOf(ErrorCode::kShape, [&] { MakeRunner(); });
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("'pos' is low_dim float32"), HasSubstr("the env does not offer 'wrench'"),
            HasSubstr("the action is low_dim float32"), HasSubstr("Correct shape_meta")));
  EXPECT_THAT(text, HasSubstr("pos: low_dim float32 [3]"));
  EXPECT_THAT(text, HasSubstr("pos: low_dim float32 [2]"));
  EXPECT_THAT(text, HasSubstr("pixels: rgb uint8 [3, 2, 2]"));
}

TEST_F(RolloutTest, ProgressReachesTheLastEpisode) {
  EnvRunner runner = MakeRunner();
  FakePlanner planner(4);
  run::RunProgress last;
  int n_calls = 0;
  const run::RunResult result =
      runner.Run(planner, {.progress = [&](const run::RunProgress& progress) {
                   EXPECT_GT(progress.n_done, last.n_done);
                   last = progress;
                   ++n_calls;
                 }});
  EXPECT_GE(n_calls, 1);
  EXPECT_EQ(last.n_done, 8);
  EXPECT_EQ(last.n_episodes, 8);
  EXPECT_EQ(last.n_env_steps, result.n_env_steps);
}

TEST_F(RolloutTest, StopEndsTheRunBetweenTwoPlansAndTheRunnerCanRunAgain) {
  config_.check_batch_invariance = false;  // the check plans too
  const std::string whole = run::HashRecords(Run().records);
  EnvRunner runner = MakeRunner();
  for (const int n_plans : {1, 2, 3}) {
    std::atomic<bool> stop = false;
    int n = 0;
    FakePlanner planner(4, [&](const PlannedRow& row) {
      if (row.row == 0 && ++n == n_plans) stop = true;
    });
    const run::RunResult result = runner.Run(planner, {.stop = &stop});
    EXPECT_TRUE(result.is_interrupted);
    EXPECT_LT(result.records.size(), 8U);
    EXPECT_EQ(result.n_plans, n_plans);
  }
  FakePlanner planner(4);
  const run::RunResult result = runner.Run(planner);
  EXPECT_FALSE(result.is_interrupted);
  EXPECT_EQ(run::HashRecords(result.records), whole);
}

TEST_F(RolloutTest, NoEpisodesIsAnEmptyResult) {
  config_.n_train = 0;
  config_.n_test = 0;
  EXPECT_TRUE(Run().records.empty());
}

TEST(EnvRunnerConfig, ReadsItsKeysAndKeepsDefaults) {
  const Config config = Config::FromJson(
      R"({"n_test": 3, "test_start_seed": 9223372036854775807, "video_size": [320, 200],
          "video_overlay": false})");
  const control::EnvRunnerConfig c = control::EnvRunnerConfig::FromConfig(config);
  config.RejectUnread();
  EXPECT_EQ(c.n_test, 3);
  EXPECT_EQ(c.n_train, 6);
  EXPECT_EQ(c.test_start_seed, 9223372036854775807U);
  EXPECT_EQ(c.selection_start_seed, 200000U);
  EXPECT_EQ(c.video_width, 320);
  EXPECT_EQ(c.video_height, 200);
  EXPECT_FALSE(c.video_overlay);
  EXPECT_EQ(c.micro_batch, 16);
}

TEST(EnvRunnerConfig, RefusesWhatItCannotRun) {
  for (const char* text :
       {R"({"n_test": -1})", R"({"micro_batch": 0})", R"({"crf": 52})",
        R"({"selection_start_seed": -1})", R"({"test_start_seed": 18446744073709551615})",
        R"({"video_size": [256]})", R"({"video_size": [0, 256]})"}) {
    EXPECT_THROW(control::EnvRunnerConfig::FromConfig(Config::FromJson(text)), Error) << text;
  }
}

}  // namespace
}  // namespace dp_bench::rollout
