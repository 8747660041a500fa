// The observation that says which task it is.
#include "rollout/task_env.h"

#include <algorithm>

#include "harness/rollout/fixture.h"

namespace dp_bench::rollout {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<float> kVector = {0.5F, -2.0F};

KeySpec TaskKeySpec(const std::string& name = "task") {
  return {.name = name, .type = KeyType::kTask, .shape = {2}};
}

class TaskEnvTest : public RolloutTest {
 protected:
  std::unique_ptr<Env> Make() {
    return WithTaskKey(std::make_unique<FakeEnv>(world_), TaskKeySpec(), kVector);
  }
};

TEST_F(TaskEnvTest, ObservesTheVectorInEveryStepOfEveryEpisode) {
  meta_.obs.push_back(TaskKeySpec());
  int n_plans = 0;
  FakePlanner planner(4, [&](const PlannedRow& row) {
    EXPECT_THAT(row.window("task"), ElementsAre(0.5F, -2.0F, 0.5F, -2.0F));
    ++n_plans;
  });
  MakeRunner([this] { return Make(); }).Run(planner);
  EXPECT_GT(n_plans, 0);
}

TEST_F(TaskEnvTest, EpisodesOfAPolicyWithoutTheKeyAreThoseOfTheEnv) {
  const auto with = RunIn([this] { return Make(); }).records;
  const auto without = Run().records;
  ASSERT_EQ(with.size(), without.size());
  for (std::size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i].score, without[i].score);
}

TEST_F(TaskEnvTest, KeepsSpecAndAbilitiesOfTheEnv) {
  const FakeEnv plain(world_, {.state_size = 3, .has_expert = true, .n_marks = 1});
  const auto env =
      WithTaskKey(std::make_unique<FakeEnv>(
                      world_, EnvAbilities{.state_size = 3, .has_expert = true, .n_marks = 1}),
                  TaskKeySpec("a"), kVector);
  EXPECT_EQ(env->spec(), WithTaskKey(plain.spec(), TaskKeySpec("a")));
  EXPECT_EQ(env->spec().abilities, plain.spec().abilities);
  EXPECT_EQ(env->spec().shape_meta.obs.front().name, "a");  // alphabetical
}

TEST_F(TaskEnvTest, RefusesAnEnvWithAnObservationOfThisName) {
  const std::string message = MessageOf(ErrorCode::kPlugin, [&] {
    WithTaskKey(std::make_unique<FakeEnv>(world_), TaskKeySpec("pos"), kVector);
  });
  EXPECT_THAT(message, HasSubstr("the env has an observation 'pos' itself"));
}

}  // namespace
}  // namespace dp_bench::rollout
