// Late and noisy actions: what the env receives, and that outcomes still depend only on the seed.
#include "rollout/perturbed_env.h"

#include <cmath>

#include "harness/rollout/fixture.h"
#include "support/record_hash.h"

namespace dp_bench::rollout {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PerturbedEnvTest : public RolloutTest {
 protected:
  // An env that keeps the first number of every action that it receives.
  std::unique_ptr<Env> MakePerturbed(std::vector<float>* executed,
                                     const ActionPerturbation& perturbation) {
    return PerturbActions(std::make_unique<RecordingEnv>(world_, executed, /*n_kept=*/1),
                          perturbation);
  }

  // The actions that the env receives in an episode whose n-th action is n / 10.
  std::vector<float> Executed(const ActionPerturbation& perturbation, int n_steps,
                              std::uint64_t seed = 1) {
    std::vector<float> executed;
    const auto env = MakePerturbed(&executed, perturbation);
    env->Reset(seed);
    for (int i = 1; i <= n_steps; ++i) {
      env->Step(std::vector<float>{0.1F * static_cast<float>(i), 0.0F});
    }
    return executed;
  }

  std::vector<run::EpisodeRecord> Records(const std::optional<ActionPerturbation>& perturbation) {
    const auto make = [&]() -> std::unique_ptr<Env> {
      auto env = std::make_unique<FakeEnv>(world_);
      if (!perturbation) return env;
      return PerturbActions(std::move(env), *perturbation);
    };
    return RunIn(make).records;
  }
};

TEST_F(PerturbedEnvTest, DelayHoldsTheFirstActionUntilTheOthersArrive) {
  EXPECT_THAT(Executed({.delay = 0}, 3), ElementsAre(0.1F, 0.2F, 0.3F));
  EXPECT_THAT(Executed({.delay = 1}, 4), ElementsAre(0.1F, 0.1F, 0.2F, 0.3F));
  EXPECT_THAT(Executed({.delay = 3}, 6), ElementsAre(0.1F, 0.1F, 0.1F, 0.1F, 0.2F, 0.3F));
}

TEST_F(PerturbedEnvTest, ResetForgetsActionsThatAreOnTheirWay) {
  std::vector<float> executed;
  const auto env = MakePerturbed(&executed, {.delay = 2});
  env->Reset(1);
  for (const float x : {0.1F, 0.2F, 0.3F}) env->Step(std::vector<float>{x, x});
  env->Reset(2);
  executed.clear();
  for (const float x : {0.5F, 0.6F, 0.7F, 0.8F}) env->Step(std::vector<float>{x, x});
  EXPECT_THAT(executed, ElementsAre(0.5F, 0.5F, 0.5F, 0.6F));
}

TEST_F(PerturbedEnvTest, NoiseIsAFunctionOfSeedAndStepInUnitsOfTheActionRange) {
  const std::vector<float> noisy = Executed({.noise = 0.01}, 9);
  EXPECT_EQ(Executed({.noise = 0.01}, 9), noisy);
  EXPECT_NE(Executed({.noise = 0.01}, 9, /*seed=*/2), noisy);
  const std::vector<float> twice = Executed({.noise = 0.02}, 9);
  const std::vector<float> plain = Executed({}, 9);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(twice[i] - plain[i], 2.0F * (noisy[i] - plain[i]), 1e-6);
  }
  double squares = 0.0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    squares += std::pow(Executed({.noise = 0.01}, 1, seed)[0] - 0.1, 2.0);
  }
  // the range is 2; a standard deviation of 400 draws is known to 4 %
  EXPECT_NEAR(std::sqrt(squares / 400.0), 0.02, 0.003);
}

TEST_F(PerturbedEnvTest, NoiseStaysWithinTheActionRange) {
  for (const float action : Executed({.noise = 1.0}, 100)) {
    EXPECT_LE(std::abs(action), 1.0F);
  }
}

TEST_F(PerturbedEnvTest, NullChangesNoBit) {
  EXPECT_EQ(run::HashRecords(Records(ActionPerturbation{})),
            run::HashRecords(Records(std::nullopt)));
}

TEST_F(PerturbedEnvTest, OutcomeDependsOnNeitherWorkersNorEnvs) {
  config_.n_test = 30;
  const ActionPerturbation both = {.delay = 2, .noise = 0.05};
  config_.n_workers = 1;
  config_.n_envs = 1;
  const std::string hash = run::HashRecords(Records(both));
  EXPECT_NE(run::HashRecords(Records(ActionPerturbation{.delay = 2})), hash);
  EXPECT_NE(run::HashRecords(Records(ActionPerturbation{.noise = 0.05})), hash);
  for (const int n : {2, 5, 16}) {
    config_.n_workers = n;
    config_.n_envs = 2 * n;
    EXPECT_EQ(run::HashRecords(Records(both)), hash) << n << " workers";
  }
}

TEST_F(PerturbedEnvTest, AnInvalidActionIsTheEnvsToRefuse) {
  std::vector<float> executed;
  const auto env = MakePerturbed(&executed, {.delay = 2});
  env->Reset(1);
  env->Step(std::vector<float>{0.1F, 0.1F});
  EXPECT_THROW(env->Step(std::vector<float>{NAN, 0.1F}), Error) << "at once, not two steps later";
  env->Step(std::vector<float>{0.2F, 0.1F});
  EXPECT_THAT(executed, ElementsAre(0.1F, 0.1F)) << "it is not on its way";
}

TEST_F(PerturbedEnvTest, ConfigWithoutTheSectionGetsNoKeys) {
  const Config env = Config::FromJson(R"({"plugin": "fake"})");
  EXPECT_FALSE(ActionPerturbation::FromConfig(env));
  EXPECT_THAT(env.Keys(), ElementsAre("plugin"));

  const auto read = ActionPerturbation::FromConfig(
      Config::FromJson(R"({"perturb": {"delay": 3, "noise": 0.1}})"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->delay, 3);
  EXPECT_EQ(read->noise, 0.1);
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig,
                [] {
                  ActionPerturbation::FromConfig(Config::FromJson(R"({"perturb": {"delay": -1}})"));
                }),
      HasSubstr("perturb.delay"));
}

}  // namespace
}  // namespace dp_bench::rollout
