// The start states of episodes, and the success criteria.
#include <gtest/gtest.h>

#include "stage.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr std::uint64_t kNumSeeds = 200;

struct Span {
  double low = 1e9;
  double high = -1e9;
  void Add(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
};

/// Expects values that fill most of a range and stay inside.
void ExpectFills(const Span& found, double low, double high, const std::string& what) {
  EXPECT_GE(found.low, low) << what;
  EXPECT_LE(found.high, high) << what;
  EXPECT_GT(found.high - found.low, 0.9 * (high - low)) << what;
}

double YawOf(const KuavoEnv& env, const std::string& body) {
  const double* const r = env.data().xmat + 9 * env.model().Body(body);
  return std::atan2(r[3], r[0]) / kDegree;
}

struct Starts {
  Span x, y, yaw;
};

/// The positions of a body at the start of many episodes.
Starts StartsOf(const std::string& task, const std::string& body) {
  KuavoEnv env = MakeEnv(R"({"task": ")" + task + "\"}");
  Starts starts;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    env.Reset(seed);
    const std::array<double, 3> position = PositionOf(env, body);
    starts.x.Add(position[0]);
    starts.y.Add(position[1]);
    starts.yaw.Add(YawOf(env, body));
  }
  return starts;
}

TEST(KuavoStart, PickPlaceFillsItsRanges) {
  const Starts cube = StartsOf("pick_place", "cube");
  ExpectFills(cube.x, 0.28, 0.40, "cube x");
  ExpectFills(cube.y, -0.38, -0.16, "cube y");
  ExpectFills(cube.yaw, -45, 45, "cube yaw");
  const Starts tray = StartsOf("pick_place", "tray");
  ExpectFills(tray.x, 0.28, 0.33, "tray x");
  ExpectFills(tray.y, -0.04, 0.0, "tray y");
}

TEST(KuavoStart, BimanualLiftFillsItsRanges) {
  const Starts tray = StartsOf("bimanual_lift", "tray");
  ExpectFills(tray.x, 0.32, 0.38, "tray x");
  ExpectFills(tray.y, -0.02, 0.02, "tray y");
  ExpectFills(tray.yaw, -8, 8, "tray yaw");
}

TEST(KuavoStart, WeighRelayFillsItsRanges) {
  const Starts parcel = StartsOf("weigh_relay", "parcel");
  ExpectFills(parcel.x, 0.28, 0.36, "parcel x");
  ExpectFills(parcel.y, -0.42, -0.30, "parcel y");
  ExpectFills(parcel.yaw, -45, 45, "parcel yaw");
  const Starts goal = StartsOf("weigh_relay", "goal");
  ExpectFills(goal.x, 0.28, 0.36, "goal x");
  ExpectFills(goal.y, 0.30, 0.42, "goal y");
}

TEST(KuavoStart, ConveyorPickFillsItsRanges) {
  const Starts cube = StartsOf("conveyor_pick", "cube");
  ExpectFills(cube.x, 0.30, 0.38, "cube x");
  ExpectFills(cube.y, -0.18, -0.14, "cube y");
  ExpectFills(cube.yaw, -45, 45, "cube yaw");
  const Starts tray = StartsOf("conveyor_pick", "tray");
  ExpectFills(tray.x, 0.28, 0.33, "tray x");
  ExpectFills(tray.y, -0.02, 0.0, "tray y");
}

TEST(KuavoStart, NothingOverlapsAndNothingMoves) {
  for (const std::string& task : TaskNames()) {
    KuavoEnv env = MakeEnv(R"({"conveyor": {"speed": 0}, "task": ")" + task + "\"}");
    const mjModel& m = *env.model().model();
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
      env.Reset(seed);
      for (int i = 0; i < env.data().ncon; ++i) {
        EXPECT_GT(env.data().contact[i].dist, -1e-6) << task << ", seed " << seed;
      }
      const std::vector<double> before(env.data().qpos, env.data().qpos + m.nq);
      StayHome(env, 4);
      for (int i = 0; i < m.nq; ++i) {
        EXPECT_NEAR(env.data().qpos[i], before[static_cast<std::size_t>(i)], 1e-3)
            << task << ", seed " << seed << ", coordinate " << i;
      }
    }
  }
}

/// Puts the cube into the tray.
void PutCubeIntoTray(KuavoEnv& env, double x = 0.0) {
  const std::array<double, 3> tray = PositionOf(env, "tray");
  Teleport(env, "cube", {tray[0] + x, tray[1], 0.7751});
}

TEST(KuavoPickPlace, IsSolvedWhenTheCubeRestedInTheTrayForFiveSteps) {
  KuavoEnv env = MakeEnv();
  env.Reset(11);
  EXPECT_EQ(StayHome(env, 1).reward, 0.0);
  PutCubeIntoTray(env);
  const StepResult fourth = StayHome(env, 4);
  EXPECT_EQ(fourth.reward, 0.6);
  EXPECT_FALSE(fourth.success || fourth.terminated);
  const StepResult fifth = StayHome(env, 1);
  EXPECT_EQ(fifth.reward, 1.0);
  EXPECT_TRUE(fifth.success && fifth.terminated);
}

TEST(KuavoPickPlace, StepsInTheTrayMustFollowOneAnother) {
  KuavoEnv env = MakeEnv();
  env.Reset(11);
  PutCubeIntoTray(env);
  StayHome(env, 4);
  Teleport(env, "cube", {0.34, -0.3, 0.7701});
  EXPECT_EQ(StayHome(env, 1).reward, 0.0);
  PutCubeIntoTray(env);
  EXPECT_FALSE(StayHome(env, 4).success);
  EXPECT_TRUE(StayHome(env, 1).success);
}

TEST(KuavoConveyor, TheBeltCarriesTheCubeAwayAtTheSpeedOfTheObservation) {
  KuavoEnv env = MakeEnv(R"({"task": "conveyor_pick", "conveyor": {"speed": 0.1}})");
  EXPECT_TRUE(env.spec().moves_without_actions);
  Span speeds;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    env.Reset(seed);
    const std::array<double, 3> before = PositionOf(env, "cube");
    StayHome(env, 20);
    const std::array<double, 3> after = PositionOf(env, "cube");
    const double speed = (before[1] - after[1]) / 2.0;  // to the right, in 2 s
    speeds.Add(speed);
    EXPECT_NEAR(after[0], before[0], 1e-3);
    EXPECT_NEAR(after[2], before[2], 1e-3);
    EXPECT_NEAR(Observation(env).Get<float>("observation.environment_state").back(), speed, 1e-3);
  }
  EXPECT_LT(speeds.low, 0.065);
  EXPECT_GT(speeds.low, 0.0595);
  EXPECT_GT(speeds.high, 0.095);
  EXPECT_LT(speeds.high, 0.1005);
}

TEST(KuavoConveyor, TheBeltChangesItsSpeedEveryHalfSecondAndTheCubeFollows) {
  KuavoEnv env = MakeEnv(R"({"task": "conveyor_pick", "conveyor": {"speed": 0.1, "change": 1}})");
  env.Reset(1);
  std::vector<double> speeds;
  for (int change = 0; change < 6; ++change) {
    StayHome(env, 1);  // the cube slips for a moment
    const double before = PositionOf(env, "cube")[1];
    StayHome(env, 4);
    const double speed = Observation(env).Get<float>("observation.environment_state").back();
    EXPECT_NEAR((before - PositionOf(env, "cube")[1]) / 0.4, speed, 1e-3);
    EXPECT_GE(speed, 0.0);
    EXPECT_LE(speed, 0.1);
    if (!speeds.empty()) {
      EXPECT_NE(speed, speeds.back());
    }
    speeds.push_back(speed);
  }
  EXPECT_NEAR(PositionOf(env, "cube")[2], 0.771, 1e-3);
}

TEST(KuavoConveyor, ABeltAtRestIsPickPlaceFromABelt) {
  KuavoEnv env = MakeEnv(R"({"task": "conveyor_pick", "conveyor": {"speed": 0}})");
  EXPECT_FALSE(env.spec().moves_without_actions);
  env.Reset(3);
  const std::array<double, 3> before = PositionOf(env, "cube");
  StayHome(env, 20);
  EXPECT_NEAR(PositionOf(env, "cube")[1], before[1], 1e-4);
  PutCubeIntoTray(env);
  EXPECT_TRUE(StayHome(env, 5).success);
}

TEST(KuavoPickPlace, AClosedHandIsNotDone) {
  KuavoEnv env = MakeEnv();
  env.Reset(11);
  PutCubeIntoTray(env);
  std::vector<float> closed = HomeAction();
  closed[kSideDim + kNumArmJoints] = 0.8F;
  for (int step = 0; step < 8; ++step) EXPECT_FALSE(env.Step(closed).success);
}

TEST(KuavoPickPlace, OnTheRimOrBesideTheTrayDoesNotCount) {
  KuavoEnv env = MakeEnv();
  env.Reset(11);
  PutCubeIntoTray(env, 0.12);
  EXPECT_EQ(StayHome(env, 6).reward, 0.0);
}

TEST(KuavoPickPlace, LiftingEarnsTheFirstStage) {
  KuavoEnv env = MakeEnv();
  env.Reset(11);
  Teleport(env, "cube", {0.40, -0.3, 0.97});  // 0.1 s later it fell by 5 cm
  const StepResult result = StayHome(env, 1);
  EXPECT_EQ(result.reward, 0.3);
  EXPECT_NEAR(result.metrics[0], 0.15, 0.01);
}

/// Plays the expert until the reward reaches `reward`; returns the latest result.
StepResult PlayExpert(KuavoEnv& env, double reward) {
  std::vector<float> action(kActionDim);
  StepResult result;
  for (int step = 0; step < env.spec().max_steps && result.reward < reward; ++step) {
    env.Act(action);
    result = env.Step(action);
  }
  return result;
}

TEST(KuavoBimanualLift, ATrayInTheAirThatNobodyHoldsEarnsNothing) {
  KuavoEnv env = MakeEnv(R"({"task": "bimanual_lift"})");
  env.Reset(5);
  Teleport(env, "load", {0.35, 0.0, 1.2});
  Teleport(env, "tray", {0.40, 0.0, 1.1});
  const StepResult result = StayHome(env, 1);
  EXPECT_GT(result.metrics[0], 0.10);
  EXPECT_EQ(result.reward, 0.0);
}

TEST(KuavoBimanualLift, IsSolvedTenStepsAfterTheTrayIsUpWithItsLoad) {
  KuavoEnv env = MakeEnv(R"({"task": "bimanual_lift"})");
  env.Reset(5);
  env.BeginExpert(5);
  EXPECT_EQ(PlayExpert(env, 0.3).reward, 0.3);
  EXPECT_EQ(PlayExpert(env, 0.6).reward, 0.6);
  int steps_up = 0;
  std::vector<float> action(kActionDim);
  StepResult result;
  while (!result.terminated && steps_up < 20) {
    env.Act(action);
    result = env.Step(action);
    steps_up += result.metrics[0] >= 0.10 ? 1 : 0;
  }
  EXPECT_TRUE(result.success);
  EXPECT_EQ(steps_up, 10);
}

TEST(KuavoBimanualLift, WithoutItsLoadTheTrayDoesNotCount) {
  KuavoEnv env = MakeEnv(R"({"task": "bimanual_lift"})");
  env.Reset(5);
  env.BeginExpert(5);
  PlayExpert(env, 0.6);
  Teleport(env, "load", {0.80, 0.0, 0.7651});
  const StepResult result = PlayExpert(env, 1.0);
  EXPECT_GT(result.metrics[0], 0.10);
  EXPECT_EQ(result.reward, 0.6);
}

void PutParcelOnScale(KuavoEnv& env) { Teleport(env, "parcel", {0.34, 0.0, 0.8201}); }

void PutParcelIntoGoal(KuavoEnv& env) {
  const std::array<double, 3> goal = PositionOf(env, "goal");
  Teleport(env, "parcel", {goal[0], goal[1], 0.7701});
}

TEST(KuavoWeighRelay, IsSolvedByWeighingThenPlacing) {
  KuavoEnv env = MakeEnv(R"({"task": "weigh_relay"})");
  env.Reset(9);
  PutParcelOnScale(env);
  EXPECT_EQ(StayHome(env, 4).reward, 0.2) << "lifted, not yet weighed";
  const StepResult weighed = StayHome(env, 1);
  EXPECT_EQ(weighed.reward, 0.4);
  EXPECT_EQ(weighed.metrics[0], 40.0);
  PutParcelIntoGoal(env);
  EXPECT_EQ(StayHome(env, 4).reward, 0.4);
  const StepResult placed = StayHome(env, 1);
  EXPECT_TRUE(placed.success && placed.terminated);
  EXPECT_EQ(placed.reward, 1.0);
  EXPECT_EQ(placed.metrics[0], 100.0) << "within 20 s";
}

TEST(KuavoWeighRelay, WithoutWeighingTheGoalDoesNotCount) {
  KuavoEnv env = MakeEnv(R"({"task": "weigh_relay"})");
  env.Reset(9);
  PutParcelIntoGoal(env);
  EXPECT_EQ(StayHome(env, 8).reward, 0.0);
}

TEST(KuavoWeighRelay, TimeBeyondTwentySecondsCostsScore) {
  KuavoEnv env = MakeEnv(R"({"task": "weigh_relay"})");
  env.Reset(9);
  PutParcelOnScale(env);
  StayHome(env, 5);
  std::vector<double> state = StateOf(env);
  state[0] = 24.5;  // [s]
  env.SetState(state);
  PutParcelIntoGoal(env);
  EXPECT_NEAR(StayHome(env, 5).metrics[0], 95.0, 1e-6);
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
