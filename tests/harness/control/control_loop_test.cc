// A policy in a control loop: the same actions as in the EnvRunner, plans of another thread, late
// plans, faults, memory and time.
#include "control/control_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "harness/rollout/fake_env.h"
#include "plugin/obs_memory.h"
#include "rollout/env_runner.h"
#include "support/counted_heap.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::control {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kSeed = 100000;
const Horizons kHorizons;  // T = 16, To = 2, Ta = 8

// An env, and what it shows to a control loop.
class Robot {
 public:
  explicit Robot(std::uint64_t seed) : seen_(env_.spec()) {
    env_.Reset(seed);
    for (std::size_t i = 0; i < seen_.keys().size(); ++i) {
      const KeySpec& key = seen_.keys()[i];
      views_.emplace_back(key.name, seen_[i].data(), key.dtype, Dims(key.StorageShape()));
    }
  }

  const ShapeMeta& shape_meta() const { return env_.spec().shape_meta; }

  // One control step; returns its action.
  std::vector<float> Step(ControlLoop& loop) {
    seen_.Observe(env_);
    const std::span<const float> action = loop.Act(views_);
    env_.Step(action);
    return {action.begin(), action.end()};
  }

  std::vector<float> Steps(ControlLoop& loop, int n) {
    std::vector<float> actions;
    for (int i = 0; i < n; ++i) {
      for (const float value : Step(loop)) actions.push_back(value);
    }
    return actions;
  }

  std::span<ObsView> views() { return views_; }

 private:
  rollout::FakeWorld world_;
  rollout::FakeEnv env_{world_};
  plugin::ObsMemory seen_;
  std::vector<ObsView> views_;
};

// Chunks that say what they are: both numbers of action i of the plan for step s are 100 s + i.
void NumberActions(const rollout::PlannedRow& row) {
  for (std::size_t i = 0; i < row.chunk.size(); ++i) {
    const std::size_t action = i / 2;
    row.chunk[i] = static_cast<float>(100 * row.name.env_step + action);
  }
}

// The first number of the action of each of `n` steps.
std::vector<float> FirstNumbers(Robot& robot, ControlLoop& loop, int n) {
  std::vector<float> numbers;
  for (int i = 0; i < n; ++i) numbers.push_back(robot.Step(loop)[0]);
  return numbers;
}

// Holds plans back until it is opened.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }
  void Set(bool is_open) {
    const std::lock_guard lock(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
};

// A head of one layer whose weights are small numbers.
ArrayMap HeadTensors(const ShapeMeta& shape_meta) {
  const std::int64_t n_in = CorrectionInputs(shape_meta, kHorizons);
  ArrayMap tensors;
  const auto add = [&](const char* name, Shape shape, float first, float step) {
    Array array(DType::kFloat32, std::move(shape));
    float value = first;
    for (float& number : array.as<float>()) number = std::exchange(value, value + step);
    tensors.emplace(name, std::move(array));
  };
  add("input.mean", {n_in - 1}, 0.0F, 0.5F);
  add("input.std", {n_in - 1}, 1.0F, 0.25F);
  add("0.weight", {shape_meta.action_dim(), n_in}, -0.05F, 0.01F);
  add("0.bias", {shape_meta.action_dim()}, 0.1F, 0.1F);
  return tensors;
}

std::vector<float> ActionsOfRunner(int latency_steps, int max_steps,
                                   const Horizons& horizons = kHorizons,
                                   const ChunkingConfig& chunking = {},
                                   std::shared_ptr<const CorrectionHead> correction = nullptr) {
  rollout::FakeWorld world;
  world.max_steps = max_steps;
  std::vector<float> actions;
  EnvRunnerConfig config;
  config.n_train = 0;
  config.n_test = 1;
  config.test_start_seed = kSeed;
  config.n_videos = 0;
  config.realtime = latency_steps > 0 ? 1.0 : 0.0;
  config.realtime_latency_ms = 100.0 * latency_steps;  // at 10 Hz
  config.chunking = chunking;
  const ScratchFolder scratch;
  rollout::EnvRunner runner(
      config, [&] { return std::make_unique<rollout::RecordingEnv>(world, &actions, 2); },
      rollout::FakeEnv(world).spec().shape_meta, horizons, scratch.path());
  runner.SetCorrection(std::move(correction));
  rollout::FakePlanner planner(/*batch_size=*/3);
  runner.Run(planner);
  return actions;
}

TEST(ControlLoop, ActsAsTheEnvRunnerDoes) {
  constexpr int kSteps = 45;
  Horizons ensembling = kHorizons;
  ensembling.temporal_ensemble_coeff = 0.01;
  for (const Horizons& horizons : {kHorizons, ensembling}) {
    for (const int latency_steps : {0, 1, 3, 5, 7, 8, 9, 20}) {
      Robot robot(kSeed);
      rollout::FakePlanner planner(/*batch_size=*/2);
      ControlLoop loop(planner, robot.shape_meta(), horizons, {.latency_steps = latency_steps});
      loop.Reset(kSeed);
      EXPECT_EQ(robot.Steps(loop, kSteps), ActionsOfRunner(latency_steps, kSteps, horizons))
          << "latency " << latency_steps;
    }
  }
}

TEST(ControlLoop, JoinsChunksAsTheEnvRunnerDoes) {
  ChunkingConfig often;
  often.execute = 4;
  ChunkingConfig rolled;
  rolled.method = ChunkingMethod::kStateRollForward;
  rolled.followed = {{"pos", {1, 0}}};
  for (const ChunkingConfig& chunking : {often, rolled}) {
    for (const int latency_steps : {0, 1, 3, 5}) {
      Robot robot(kSeed);
      rollout::FakePlanner planner(/*batch_size=*/2);
      ControlLoop loop(planner, robot.shape_meta(), kHorizons,
                       {.latency_steps = latency_steps, .chunking = chunking});
      loop.Reset(kSeed);
      EXPECT_EQ(robot.Steps(loop, 45), ActionsOfRunner(latency_steps, 45, kHorizons, chunking))
          << "latency " << latency_steps;
    }
  }
}

TEST(ControlLoop, CorrectsActionsAsTheEnvRunnerDoes) {
  Robot robot(kSeed);
  const auto head = std::make_shared<const CorrectionHead>(HeadTensors(robot.shape_meta()),
                                                           robot.shape_meta(), kHorizons, "head");
  for (const int latency_steps : {0, 3}) {
    Robot fresh(kSeed);
    rollout::FakePlanner planner(/*batch_size=*/1);
    ControlLoop loop(planner, fresh.shape_meta(), kHorizons,
                     {.latency_steps = latency_steps, .correction = head});
    loop.Reset(kSeed);
    const std::vector<float> actions = fresh.Steps(loop, 30);
    EXPECT_EQ(actions, ActionsOfRunner(latency_steps, 30, kHorizons, {}, head));
    EXPECT_NE(actions, ActionsOfRunner(latency_steps, 30));
  }
}

TEST(ControlLoop, ForgetsThePreviousEpisode) {
  for (const int latency_steps : {0, 3}) {
    Robot first(1);
    Robot second(kSeed);
    rollout::FakePlanner planner(1);
    ControlLoop loop(planner, first.shape_meta(), kHorizons, {.latency_steps = latency_steps});
    loop.Reset(1);
    first.Steps(loop, 6);  // with a latency, a plan is on its way
    loop.Reset(kSeed);
    EXPECT_EQ(second.Steps(loop, 20), ActionsOfRunner(latency_steps, 20));
  }
}

TEST(ControlLoop, AnotherThreadPlansWhileTheChunkIsExecuted) {
  Robot robot(kSeed);
  Gate gate;
  rollout::FakePlanner planner(1, [&](const rollout::PlannedRow& row) {
    gate.Pass();
    NumberActions(row);
  });
  ControlLoop loop(planner, robot.shape_meta(), kHorizons, {.latency_steps = 3});
  loop.Reset(kSeed);
  EXPECT_THAT(FirstNumbers(robot, loop, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_FALSE(loop.timing().is_stale);
  gate.Set(false);
  EXPECT_THAT(FirstNumbers(robot, loop, 3), ElementsAre(5, 6, 7));
  EXPECT_TRUE(loop.timing().is_stale);
  EXPECT_FALSE(loop.timing().is_late);
  gate.Set(true);
  EXPECT_THAT(FirstNumbers(robot, loop, 2), ElementsAre(503, 504));
  EXPECT_GT(loop.counts().n_plans, 1);
}

TEST(ControlLoop, ALatePlanIsReplacedAndContinuesWhereItsTimeIs) {
  Robot robot(kSeed);
  Gate gate;
  rollout::FakePlanner planner(1, [&](const rollout::PlannedRow& row) {
    gate.Pass();
    NumberActions(row);
  });
  ControlLoop loop(planner, robot.shape_meta(), kHorizons,
                   {.latency_steps = 6, .deadline_s = 2.0e-3});
  loop.Reset(kSeed);
  EXPECT_THAT(FirstNumbers(robot, loop, 2), ElementsAre(0, 1));
  gate.Set(false);
  // six steps of the latency, then the last action is held
  EXPECT_THAT(FirstNumbers(robot, loop, 8), ElementsAre(2, 3, 4, 5, 6, 7, 7, 7));
  EXPECT_TRUE(loop.timing().is_late);
  EXPECT_TRUE(loop.timing().is_stale);
  EXPECT_TRUE(loop.timing().has_missed_deadline);
  EXPECT_GE(loop.counts().n_missed_deadlines, 2);

  gate.Set(true);
  // The plan was for step 2 and is used at step 10 or later: nothing of it is left. The next one
  // is asked for in that step, and bridged by the last action of this one.
  float number = 7;
  for (int i = 0; number == 7; ++i) {
    ASSERT_LT(i, 1000);
    number = robot.Step(loop)[0];
  }
  EXPECT_EQ(number, 207);
  EXPECT_TRUE(loop.timing().is_stale);
  EXPECT_FALSE(loop.timing().is_late);
}

TEST(ControlLoop, AnEpisodeBeginsWithItsFirstChunkHoweverLate) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1, NumberActions);
  ControlLoop loop(planner, robot.shape_meta(), kHorizons,
                   {.latency_steps = 2, .deadline_s = 1.0e-12});
  loop.Reset(kSeed);
  EXPECT_EQ(robot.Step(loop)[0], 0);
  EXPECT_FALSE(loop.timing().is_late);
  EXPECT_TRUE(loop.timing().has_missed_deadline);
  EXPECT_EQ(loop.counts().n_missed_deadlines, 1);
}

// Throws in the plans for these steps.
rollout::FakePlanner::Hook ThrowAt(std::vector<std::uint64_t> steps) {
  return [steps = std::move(steps)](const rollout::PlannedRow& row) {
    if (std::ranges::find(steps, row.name.env_step) != steps.end()) {
      throw Error(ErrorCode::kPlugin, "the network is on fire");
    }
    NumberActions(row);
  };
}

TEST(ControlLoop, PlansAgainAfterAFailedPlan) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1, ThrowAt({0, 9}));
  ControlLoop loop(planner, robot.shape_meta(), kHorizons);
  loop.Reset(kSeed);
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { robot.Step(loop); }),
              AllOf(HasSubstr("on fire"), HasSubstr("in the plan at step 0 of seed 100000")));
  EXPECT_THAT(FirstNumbers(robot, loop, 8), ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
  EXPECT_EQ(CodeOf([&] { robot.Step(loop); }), ErrorCode::kPlugin);
  EXPECT_THAT(FirstNumbers(robot, loop, 2), ElementsAre(1000, 1001));
  EXPECT_EQ(loop.counts().n_failed_plans, 2);
  EXPECT_EQ(loop.counts().n_plans, 2);
  EXPECT_EQ(loop.counts().n_acts, 10);
}

TEST(ControlLoop, TheFaultOfAnotherThreadArrivesWhenThePlanIsNeeded) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1, ThrowAt({5}));
  ControlLoop loop(planner, robot.shape_meta(), kHorizons, {.latency_steps = 3});
  loop.Reset(kSeed);
  EXPECT_THAT(FirstNumbers(robot, loop, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(CodeOf([&] { robot.Step(loop); }), ErrorCode::kPlugin);
  // a new plan is asked for at step 9, and the last action is held until then
  EXPECT_THAT(FirstNumbers(robot, loop, 5), ElementsAre(7, 7, 7, 903, 904));
}

TEST(ControlLoop, AnUnfinishedPlanOfAForgottenEpisodeMayFail) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1, ThrowAt({5}));
  ControlLoop loop(planner, robot.shape_meta(), kHorizons, {.latency_steps = 3});
  loop.Reset(kSeed);
  FirstNumbers(robot, loop, 6);
  loop.Reset(kSeed);
  EXPECT_THAT(FirstNumbers(robot, loop, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(loop.counts().n_failed_plans, 0);
}

TEST(ControlLoop, AnExceptionOfAnyTypeReachesTheCaller) {
  for (const int latency_steps : {0, 2}) {
    Robot robot(kSeed);
    bool is_faulty = true;
    rollout::FakePlanner planner(1, [&](const rollout::PlannedRow& row) {
      if (is_faulty) throw 42;
      NumberActions(row);
    });
    ControlLoop loop(planner, robot.shape_meta(), kHorizons, {.latency_steps = latency_steps});
    EXPECT_THROW(loop.WarmUp(), int);
    loop.Reset(kSeed);
    EXPECT_THROW(robot.Step(loop), int);
    is_faulty = false;
    EXPECT_EQ(robot.Step(loop)[0], 100);
  }
}

TEST(ControlLoop, RefusesAPlanThatIsNotFinite) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1, [](const rollout::PlannedRow& row) {
    row.chunk[3] = std::numeric_limits<float>::infinity();
  });
  ControlLoop loop(planner, robot.shape_meta(), kHorizons);
  loop.Reset(kSeed);
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { robot.Step(loop); }),
              HasSubstr("a non-finite action: dimension 1 of chunk step 1 is inf"));
}

class SilentPlanner final : public rollout::FakePlanner {
 public:
  using rollout::FakePlanner::FakePlanner;
  std::string FaultOf(std::size_t /*row*/) const override { return "policy_timeout: no answer"; }
};

TEST(ControlLoop, SaysWhyThereIsNoPlan) {
  Robot robot(kSeed);
  SilentPlanner planner(1, [](const rollout::PlannedRow& row) {
    std::ranges::fill(row.chunk, std::numeric_limits<float>::quiet_NaN());
  });
  ControlLoop loop(planner, robot.shape_meta(), kHorizons);
  loop.Reset(kSeed);
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { robot.Step(loop); }),
              HasSubstr("policy_timeout: no answer"));
}

TEST(ControlLoop, NeedsAResetFirst) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1);
  ControlLoop loop(planner, robot.shape_meta(), kHorizons);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { robot.Step(loop); }),
              HasSubstr("Act was called before Reset"));
}

TEST(ControlLoop, IgnoresAWrongObservation) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1);
  ControlLoop loop(planner, robot.shape_meta(), kHorizons);
  loop.Reset(kSeed);
  std::vector<float> actions;
  const std::array<float, 2> nan = {0.0F, std::numeric_limits<float>::quiet_NaN()};
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(CodeOf([&] { loop.Act(robot.views().first(2)); }), ErrorCode::kShape);
    std::vector<ObsView> views(robot.views().begin(), robot.views().end());
    views[1].data = nan.data();
    EXPECT_EQ(CodeOf([&] { loop.Act(views); }), ErrorCode::kNumeric);
    for (const float value : robot.Step(loop)) actions.push_back(value);
  }
  EXPECT_EQ(actions, ActionsOfRunner(0, 20));
}

TEST(ControlLoop, RefusesSenselessOptions) {
  const Robot robot(kSeed);
  rollout::FakePlanner planner(1);
  const auto error_of = [&](const LoopOptions& options) {
    return MessageOf(ErrorCode::kUsage,
                     [&] { ControlLoop(planner, robot.shape_meta(), kHorizons, options); });
  };
  EXPECT_THAT(error_of({.latency_steps = -1}),
              HasSubstr("latency_steps is -1, expected 0 or more"));
  EXPECT_THAT(error_of({.deadline_s = -0.1}), HasSubstr("deadline_s is -0.1, expected 0 to"));
  EXPECT_THAT(error_of({.deadline_s = std::numeric_limits<double>::quiet_NaN()}),
              HasSubstr("deadline_s is nan"));
}

// Of the calls of Act in `n` steps, those that allocated memory in this thread.
int CountAllocatingCalls(const LoopOptions& options, int n) {
  Robot robot(kSeed);
  std::unique_ptr<int> kept;
  rollout::FakePlanner planner(2, [&kept](const rollout::PlannedRow&) {
    kept = std::make_unique<int>(1);  // so that a plan is seen
  });
  ControlLoop loop(planner, robot.shape_meta(), kHorizons, options);
  loop.WarmUp();
  loop.Reset(kSeed);
  int n_calls = 0;
  for (int i = 0; i < n; ++i) {
    const long before = n_allocations_of_thread;
    loop.Act(robot.views());
    n_calls += n_allocations_of_thread != before ? 1 : 0;
  }
  return n_calls;
}

TEST(ControlLoop, AllocatesOnlyWhereItPlans) {
  EXPECT_EQ(CountAllocatingCalls({}, 32), 4);  // the calls that plan: the count works
  EXPECT_EQ(CountAllocatingCalls({.latency_steps = 2}, 32), 0);
  EXPECT_EQ(CountAllocatingCalls({.latency_steps = 9, .deadline_s = 1.0e-6}, 64), 0);
}

TEST(ControlLoop, TimesTheCallThatTakesAPlan) {
  Robot robot(kSeed);
  rollout::FakePlanner planner(1);
  ControlLoop loop(planner, robot.shape_meta(), kHorizons);
  loop.Reset(kSeed);
  for (int i = 0; i < 17; ++i) {
    robot.Step(loop);
    EXPECT_GT(loop.timing().act_s, 0.0);
    EXPECT_EQ(loop.timing().plan_s > 0.0, i % 8 == 0);
    EXPECT_GE(loop.timing().act_s, loop.timing().plan_s);
  }
  EXPECT_EQ(loop.counts().n_plans, 3);
  EXPECT_EQ(loop.counts().n_acts, 17);
  EXPECT_EQ(loop.counts().n_missed_deadlines, 0);
}

}  // namespace
}  // namespace dp_bench::control
