// The template env does what its comments say. env_conformance tests the contract of all envs.
#include "point_mass_env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::point_mass {
namespace {

PointMassEnv Make(const char* json = "{}") { return PointMassEnv(Config::FromJson(json)); }

StepResult StepFrom(PointMassEnv& env, double x, double goal_x, float force) {
  const std::vector<double> state = {x, 0.0, 0.0, 0.0, goal_x, 0.0};
  env.SetState(state);
  return env.Step(std::vector<float>{force, 0.0F});
}

// Steps that the expert needs, or max_steps.
int StepsOfExpert(PointMassEnv& env, std::uint64_t start_seed, std::uint64_t expert_seed) {
  env.Reset(start_seed);
  env.BeginExpert(expert_seed);
  std::vector<float> force(2);
  for (int step = 0; step < env.spec().max_steps; ++step) {
    env.Act(force);
    if (env.Step(force).success) return step + 1;
  }
  return env.spec().max_steps;
}

TEST(PointMassEnv, TheExpertSolvesEveryStart) {
  PointMassEnv env = Make();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    EXPECT_LT(StepsOfExpert(env, seed, seed), env.spec().max_steps) << "seed " << seed;
  }
}

TEST(PointMassEnv, ExpertsOfDifferentSeedsDiffer) {
  PointMassEnv env = Make();
  std::set<int> n_steps;
  for (std::uint64_t seed = 0; seed < 20; ++seed) n_steps.insert(StepsOfExpert(env, 0, seed));
  EXPECT_GT(n_steps.size(), 2U);
}

TEST(PointMassEnv, RewardFallsWithTheDistance) {
  PointMassEnv env = Make();
  EXPECT_EQ(StepFrom(env, 0.0, 0.05, 0.0F).reward, 1.0);
  EXPECT_DOUBLE_EQ(StepFrom(env, -0.25, 0.25, 0.0F).reward, 0.75);
  EXPECT_EQ(StepFrom(env, -1.0, 1.0, 0.0F).reward, 0.0);
}

TEST(PointMassEnv, ForcesBeyondOneNewtonAreCut) {
  PointMassEnv env = Make();
  EXPECT_EQ(StepFrom(env, 0.0, 0.9, 1.0F).metrics[0], StepFrom(env, 0.0, 0.9, 50.0F).metrics[0]);
}

TEST(PointMassEnv, ShowsMassAndGoalInItsImage) {
  PointMassEnv env = Make(R"({"image_size": 20})");
  StepFrom(env, -0.5, 0.5, 0.0F);
  RgbImage frame(20, 20);
  env.Render(&frame);
  const auto blue = [&](int column) {
    return static_cast<int>(frame.pixels[static_cast<std::size_t>((10 * 20 + column) * 3 + 2)]);
  };
  EXPECT_EQ(blue(5), 220);   // the mass
  EXPECT_EQ(blue(15), 90);   // the goal
  EXPECT_EQ(blue(10), 255);  // white between them
}

TEST(PointMassEnv, RefusesAnImageSizeBelowZero) {
  EXPECT_THROW(Make(R"({"image_size": -1})"), Error);
}

}  // namespace
}  // namespace dp_bench::point_mass
