// A policy acts in the window exactly as in an evaluation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "harness/rollout/fixture.h"
#include "support/error_of.h"
#include "view/action_source.h"
#include "view/player.h"

namespace dp_bench::view {
namespace {

using PlannerSourceTest = rollout::RolloutTest;

TEST_F(PlannerSourceTest, ShowsTheEpisodeThatWasEvaluated) {
  world_.end_of = [](std::uint64_t seed) { return seed % 2 == 0 ? 21 : 1 << 30; };
  for (const int execute : {0, 3}) {  // control steps from plan to plan; 0: of a whole chunk
    config_.chunking.execute = execute;
    const run::RunResult result = Run();
    ASSERT_GT(result.records.size(), 3U);

    rollout::FakeEnv env(world_);
    rollout::FakePlanner planner(/*batch_size=*/4);
    PlannerSource source(env, planner, meta_, horizons_, {.chunking = config_.chunking});
    for (const run::EpisodeRecord& record : result.records) {
      Player player(env, source, nullptr, {.first_seed = record.seed});
      for (double now = 0.0; !player.status().is_over; now += 1.0) player.Advance(now);
      EXPECT_EQ(player.status().score, record.score) << execute;
      EXPECT_EQ(player.status().step, record.n_steps) << execute;
      EXPECT_EQ(player.status().success, record.success) << execute;
    }
  }
}

TEST_F(PlannerSourceTest, RefusesAnEnvThatLacksWhatThePolicyWants) {
  rollout::FakeEnv env(world_);
  rollout::FakePlanner planner(1);
  meta_.obs.front().name = "depth";
  EXPECT_THAT(
      MessageOf(ErrorCode::kShape, [&] { PlannerSource source(env, planner, meta_, horizons_); }),
      testing::HasSubstr("does not offer 'depth'"));
}

TEST_F(PlannerSourceTest, RefusesAnActionThatIsNotFinite) {
  rollout::FakeEnv env(world_);
  rollout::FakePlanner planner(1, [](const rollout::PlannedRow& row) {
    row.chunk[3] = std::numeric_limits<float>::infinity();
  });
  PlannerSource source(env, planner, meta_, horizons_);
  Player player(env, source, nullptr, {});
  EXPECT_EQ(CodeOf([&] { player.Advance(0.0); }), ErrorCode::kNumeric);
}

}  // namespace
}  // namespace dp_bench::view
