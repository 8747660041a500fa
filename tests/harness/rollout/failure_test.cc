// A failing episode becomes a record and does not affect any other episode. A planner that mixes
// rows is detected.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/utf8.h"
#include "harness/rollout/fixture.h"
#include "support/images.h"
#include "support/record_hash.h"

namespace dp_bench::rollout {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kBadSeed = 100002;
constexpr std::size_t kBadEpisode = 4;

class FailureTest : public RolloutTest {
 protected:
  // Runs with the fault in one episode, and checks that only this one differs from a run without
  // the fault.
  std::string ReasonFor(Fault fault) {
    world_.fault_of = [](std::uint64_t) { return Fault::kNone; };
    const run::RunResult good = Run();
    world_.fault_of = [fault](std::uint64_t seed) {
      return seed == kBadSeed ? fault : Fault::kNone;
    };
    return OnlyFailure(good, Run());
  }

  static std::string OnlyFailure(const run::RunResult& good, const run::RunResult& bad) {
    EXPECT_EQ(bad.records.size(), good.records.size());
    for (std::size_t i = 0; i < good.records.size(); ++i) {
      if (i == kBadEpisode) continue;
      EXPECT_EQ(run::HashRecords(std::span(&bad.records[i], 1)),
                run::HashRecords(std::span(&good.records[i], 1)))
          << "episode " << i;
    }
    const run::EpisodeRecord& failed = bad.records[kBadEpisode];
    EXPECT_EQ(failed.score, 0.0);
    EXPECT_FALSE(failed.success);
    EXPECT_EQ(run::Summarize(bad.records, "test").n_failed, 1);
    EXPECT_EQ(run::Summarize(bad.records, "test").n_episodes, 6);
    return failed.failure_reason.value_or("none");
  }
};

TEST_F(FailureTest, ThrowingEnvFailsItsEpisodeOnly) {
  EXPECT_EQ(ReasonFor(Fault::kThrowInReset), "reset: cannot reset");
  EXPECT_EQ(ReasonFor(Fault::kThrowInStep), "step 5: it broke");
  EXPECT_EQ(ReasonFor(Fault::kThrowANumberInStep),
            "step 5: threw something that is not a std::exception");
  EXPECT_EQ(ReasonFor(Fault::kThrowInObserve), "step 6: cannot observe");
}

// Rewards may be distances with a minus, for which 0 would be the best.
TEST_F(FailureTest, AnEpisodeDoesNotScoreHigherBecauseItFails) {
  world_.reward_sign = -1.0;
  world_.fault_of = [](std::uint64_t) { return Fault::kThrowInStep; };
  for (const run::EpisodeRecord& record : Run().records) EXPECT_LT(record.score, 0.0);
}

TEST_F(FailureTest, OnlyBothEndsOfALongReasonAreKept) {
  const std::string reason = ReasonFor(Fault::kThrowALongTextInStep);
  EXPECT_THAT(reason, StartsWith("step 5: it broke: "));
  EXPECT_THAT(reason, testing::EndsWith(", joint 7"));
  EXPECT_THAT(reason, HasSubstr(" ... (95932 bytes are left out) ... "));
  EXPECT_LT(reason.size(), 4200U);
  EXPECT_TRUE(core::IsUtf8(reason));
}

TEST_F(FailureTest, EnvThatReportsNonsenseFailsItsEpisodeOnly) {
  using testing::StartsWith;
  EXPECT_THAT(ReasonFor(Fault::kNanReward), StartsWith("step 5: the env reported reward = nan,"));
  EXPECT_THAT(ReasonFor(Fault::kNanMetric), StartsWith("step 5: the env reported x_mean = nan,"));
  EXPECT_THAT(ReasonFor(Fault::kTooFewMetrics),
              StartsWith("step 5: the env reported 2 metrics, its spec lists 3."));
}

TEST_F(FailureTest, EnvIsMadeAnewAfterAFailure) {
  config_.n_envs = 1;
  Run();
  const int n_created = world_.n_created;
  world_.n_created = 0;
  world_.fault_of = [](std::uint64_t seed) {
    return seed == kBadSeed ? Fault::kThrowInStep : Fault::kNone;
  };
  Run();
  EXPECT_EQ(world_.n_created, n_created + 1);
}

TEST_F(FailureTest, FactoryThatFailsLaterFailsEpisodes) {
  int n_calls = 0;
  config_.n_envs = 2;
  config_.n_workers = 1;
  const run::RunResult result = RunIn([&]() -> std::unique_ptr<Env> {
    if (++n_calls == 2) throw std::runtime_error("no memory left");
    return std::make_unique<FakeEnv>(world_);
  });
  EXPECT_FALSE(result.records[0].failure_reason.has_value());
  EXPECT_EQ(result.records[1].failure_reason, "reset: no memory left");
  EXPECT_FALSE(result.records[2].failure_reason.has_value());
  EXPECT_EQ(n_calls, 3) << "the runner's first env is the first slot's";
}

TEST_F(FailureTest, NonFiniteActionFailsItsEpisodeOnly) {
  const run::RunResult good = Run();
  const run::RunResult bad = Run([](const PlannedRow& row) {
    if (row.name.seed == kBadSeed && row.name.env_step == 16) row.chunk[5] = std::nanf("");
  });
  EXPECT_EQ(OnlyFailure(good, bad),
            "plan at step 16: non-finite action: dimension 1 of chunk step 2 is nan");
  EXPECT_EQ(bad.records[kBadEpisode].n_steps, 16);
}

TEST_F(FailureTest, ThrowingPlannerFailsTheEpisodeThatMadeItThrow) {
  const run::RunResult good = Run();
  const run::RunResult bad = Run([](const PlannedRow& row) {
    if (row.name.seed == kBadSeed && row.name.env_step == 8) throw std::runtime_error("no plan");
  });
  EXPECT_EQ(OnlyFailure(good, bad), "plan at step 8: no plan");
}

TEST_F(FailureTest, PlannerThatAlwaysThrowsFailsEveryEpisode) {
  const run::RunResult result = Run([](const PlannedRow&) { throw 1; });
  EXPECT_EQ(run::Summarize(result.records, "test").n_failed, 6);
  EXPECT_EQ(run::Summarize(result.records, "train").n_failed, 2);
}

TEST_F(FailureTest, PlannerWhoseRowsDependOnCompanionsIsCaught) {
  const auto mix = [](const PlannedRow& row) {
    float sum = 0.0F;
    for (const float value : row.obs.find("pos")->second.as<float>()) sum += value;
    row.chunk[0] += 1e-3F * sum;
  };
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { Run(mix); }),
              StartsWith("the policy is not batch-invariant: the actions of row "));
  config_.check_batch_invariance = false;
  EXPECT_EQ(run::Summarize(Run(mix).records, "test").n_failed, 0);
}

TEST_F(FailureTest, PlannerWhoseRowsDependOnTheirPlaceIsCaught) {
  const auto place = [](const PlannedRow& row) {
    row.chunk[0] += 1e-6F * static_cast<float>(row.row);
  };
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { Run(place); }),
              HasSubstr("changed when the batch was planned in another order"));
}

TEST_F(FailureTest, PlannerThatCountsItsCallsIsCaughtWithABatchOfOne) {
  int n_calls = 0;
  const auto count = [&](const PlannedRow& row) { row.chunk[0] += static_cast<float>(++n_calls); };
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { Run(count, /*batch_size=*/1); }),
              HasSubstr("not batch-invariant"));
}

TEST_F(FailureTest, RunnerIsUsableAfterARunThatThrew) {
  const std::string hash = run::HashRecords(Run().records);
  EnvRunner runner = MakeRunner();
  FakePlanner planner(4);
  EXPECT_THROW(
      runner.Run(planner,
                 {.progress = [](const run::RunProgress&) { throw std::runtime_error("stop"); }}),
      std::runtime_error);
  EXPECT_EQ(run::HashRecords(runner.Run(planner).records), hash);
}

class VideoOfRolloutTest : public FailureTest {
 protected:
  VideoOfRolloutTest() {
    config_.n_videos = 1;
    config_.video_width = 32;
    config_.video_height = 32;
  }

  std::size_t CountFrames(const std::string& video) const {
    return FramesOf(scratch_.path() / video).size();
  }
};

TEST_F(VideoOfRolloutTest, VideosOfTheFirstEpisodesOfEachSplitHaveOneFrameMoreThanSteps) {
  world_.end_of = [](std::uint64_t seed) { return seed == 100000 ? 13 : 1 << 30; };
  const run::RunResult result = Run();
  EXPECT_EQ(result.records[0].video, "media/train_0.mp4");
  EXPECT_EQ(result.records[1].video, "");
  EXPECT_EQ(result.records[2].video, "media/test_100000.mp4");
  EXPECT_EQ(CountFrames("media/train_0.mp4"), 30U + 1U);
  EXPECT_EQ(CountFrames("media/test_100000.mp4"), 13U + 1U);
  EXPECT_EQ(world_.n_rendered, 31 + 14);
}

TEST_F(VideoOfRolloutTest, RecordingAVideoChangesNoOutcome) {
  const std::string with_videos = run::HashRecords(Run().records);
  config_.n_videos = 0;
  EXPECT_EQ(run::HashRecords(Run().records), with_videos);
}

TEST_F(VideoOfRolloutTest, FailedEpisodeKeepsTheVideoUpToTheFailure) {
  world_.fault_of = [](std::uint64_t) { return Fault::kThrowInStep; };
  const run::RunResult result = Run();
  EXPECT_EQ(CountFrames(result.records[0].video), 5U + 1U);
}

TEST_F(VideoOfRolloutTest, EnvThatCannotDrawCostsTheVideoOnly) {
  const std::string hash = run::HashRecords(Run().records);
  world_.fault_of = [](std::uint64_t) { return Fault::kThrowInRender; };
  const run::RunResult result = Run();
  EXPECT_EQ(run::HashRecords(result.records), hash);
  EXPECT_EQ(result.records[0].video, "");
  EXPECT_EQ(result.records[0].video_error, "cannot draw");
}

TEST_F(VideoOfRolloutTest, FolderThatCannotBeWrittenCostsTheVideoOnly) {
  const std::string hash = run::HashRecords(Run().records);
  const std::filesystem::path file = scratch_.path() / "a_file";
  std::ofstream(file) << "in the way";
  EnvRunner runner(
      config_, [this] { return std::make_unique<FakeEnv>(world_); }, meta_, horizons_, file);
  FakePlanner planner(4);
  const run::RunResult result = runner.Run(planner);
  EXPECT_EQ(run::HashRecords(result.records), hash);
  EXPECT_EQ(result.records[0].video, "");
  EXPECT_THAT(result.records[0].video_error, HasSubstr("a_file"));
}

}  // namespace
}  // namespace dp_bench::rollout
