// One episode of an expert: what is recorded, what is executed, and what counts as failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "data/collector.h"
#include "harness/data/toy_env.h"
#include "support/scratch_folder.h"

namespace dp_bench::data {
namespace {

using testing::HasSubstr;

class ExpertRunnerTest : public testing::Test {
 protected:
  ExpertRunnerTest() {
    const ToyEnv env(world_);
    plan_.env_factory = [this] { return std::make_unique<ToyEnv>(world_); };
    plan_.env = env.spec();
    plan_.keys = env.spec().shape_meta.obs;
    plan_.keys.push_back(env.spec().shape_meta.action);
    plan_.noise_std = {0.0};
  }

  ExpertEpisode Run(std::uint64_t seed) { return *ExpertRunner(plan_).Run(seed); }

  ToyWorld world_;
  ExpertPlan plan_;
};

TEST_F(ExpertRunnerTest, PlaysUntilSuccess) {
  const ExpertEpisode episode = Run(1);
  EXPECT_TRUE(episode.success && episode.is_whole);
  EXPECT_GE(episode.steps.n_steps(), 3);
  EXPECT_LE(episode.steps.n_steps(), 17);
  EXPECT_EQ(episode.failure, "");
}

TEST_F(ExpertRunnerTest, FailuresSayWhy) {
  ToyFault fault = ToyFault::kNone;
  world_.fault_of = [&fault](std::uint64_t) { return fault; };
  const auto reason_of = [&](ToyFault kind, bool is_whole) {
    fault = kind;
    const ExpertEpisode episode = Run(1);
    EXPECT_FALSE(episode.success);
    EXPECT_EQ(episode.is_whole, is_whole);
    return episode.failure;
  };
  EXPECT_EQ(reason_of(ToyFault::kLost, true), "no success within 40 steps");
  EXPECT_EQ(reason_of(ToyFault::kEndsEarly, true), "the episode ended at step 3 without success");
  EXPECT_EQ(reason_of(ToyFault::kNoWayOn, false), "step 2: no way on");
  EXPECT_THAT(reason_of(ToyFault::kNanAction, false),
              HasSubstr("'action': expected finite numbers, found nan"));
  EXPECT_THAT(reason_of(ToyFault::kThrowInReset, false), HasSubstr("cannot reset"));
}

TEST_F(ExpertRunnerTest, AnEnvThatThrewIsMadeAnew) {
  world_.fault_of = [](std::uint64_t seed) {
    return seed == 2 ? ToyFault::kNoWayOn : ToyFault::kNone;
  };
  ExpertRunner runner(plan_);
  world_.n_created = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(runner.Run(seed)->success, seed != 2) << seed;
  }
  EXPECT_EQ(world_.n_created, 2);
}

TEST_F(ExpertRunnerTest, NoiseIsOfTheSeedAndStaysWithinTheBounds) {
  plan_.noise_std = {3.0};  // almost always clamped to [-1, 1]
  const std::int64_t n_steps = Run(4).steps.n_steps();
  EXPECT_EQ(Run(4).steps.n_steps(), n_steps);
  plan_.noise_std = {0.0};
  EXPECT_NE(Run(4).steps.n_steps(), n_steps);
}

// Rows of a low_dim key of a dataset.
std::vector<float> ReadRows(const std::filesystem::path& array, std::int64_t width,
                            std::int64_t n_rows) {
  const zarr::ZarrLayout layout = {
      .row_shape = {width},
      .chunk_rows = zarr::RowsPerChunk(static_cast<std::size_t>(width) * sizeof(float))};
  const zarr::ZarrArrayWriter reader(array, layout, n_rows);
  std::vector<float> values(static_cast<std::size_t>(n_rows * width));
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const std::vector<std::byte> bytes = reader.ReadRow(row);
    std::memcpy(&values[static_cast<std::size_t>(row * width)], bytes.data(), bytes.size());
  }
  return values;
}

TEST_F(ExpertRunnerTest, RecordsTheExpertsOwnActionAndTheStateThatItAnswers) {
  plan_.noise_std = {0.1};
  const ScratchFolder scratch;
  ReplayWriter writer(scratch.path() / "a", plan_.keys, "toy");
  writer.Append(Run(4).steps);
  writer.Commit(nlohmann::json::object(), true);
  const std::int64_t n = writer.n_steps();
  const std::vector<float> action = ReadRows(scratch.path() / "a/data/action", 1, n);
  const std::vector<float> state = ReadRows(scratch.path() / "a/data/state", 2, n);
  EXPECT_EQ(state[0], 0.0F) << "before the first action";
  for (std::size_t step = 0; step < action.size(); ++step) {
    EXPECT_EQ(action[step], action[0]) << "the toy expert's stride is constant";
    EXPECT_EQ(state[2 * step + 1], static_cast<float>(step));
    if (step == 0) continue;
    const float executed = state[2 * step] - state[2 * step - 2];
    EXPECT_NE(executed, action[0]);
    EXPECT_LE(executed, 1.0F + 1e-6F);
  }
}

// Acts like a policy whose steps all have one length, and remembers what it was told.
class ConstantActor final : public FirstActor {
 public:
  explicit ConstantActor(float stride) : action_{stride} {}
  void Reset(std::uint64_t seed) override { seed_ = seed; }
  std::span<const float> Act(std::span<const std::span<const std::byte>> obs) override {
    EXPECT_EQ(obs.size(), 2U) << "every key of the env";
    EXPECT_NE(seed_, 0U) << "reset before it acts";
    return action_;
  }

 private:
  std::array<float, 1> action_;
  std::uint64_t seed_ = 0;
};

class TakeoverTest : public ExpertRunnerTest {
 protected:
  void ActFirst(float stride, int max_steps) {
    plan_.first_actor_factory = [stride] { return std::make_unique<ConstantActor>(stride); };
    plan_.max_first_steps = max_steps;
  }

  // The state {x, step number} of the first recorded step.
  std::vector<float> FirstState(const ExpertEpisode& episode) {
    const ScratchFolder scratch;
    ReplayWriter writer(scratch.path() / "a", plan_.keys, "toy");
    writer.Append(episode.steps);
    writer.Commit(nlohmann::json::object(), true);
    return ReadRows(scratch.path() / "a/data/state", 2, 1);
  }
};

TEST_F(TakeoverTest, OnlyTheExpertsStepsAreRecorded) {
  ActFirst(/*stride=*/0.25F, /*max_steps=*/8);
  std::set<float> takeovers;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const ExpertEpisode episode = Run(seed);
    ASSERT_TRUE(episode.success) << episode.failure;
    const std::vector<float> state = FirstState(episode);
    EXPECT_EQ(state[0], 0.25F * state[1]) << "where the first actor led";
    takeovers.insert(state[1]);
  }
  EXPECT_EQ(*takeovers.begin(), 0.0F) << "some episodes are the expert's alone";
  EXPECT_EQ(*takeovers.rbegin(), 8.0F);
  EXPECT_EQ(takeovers.size(), 9U) << "each number of steps occurs";
}

TEST_F(TakeoverTest, TheSeedDecidesWhenTheExpertTakesOver) {
  ActFirst(/*stride=*/0.25F, /*max_steps=*/8);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(FirstState(Run(seed)), FirstState(Run(seed))) << seed;
  }
}

TEST_F(TakeoverTest, AFirstActorThatSucceedsLeavesNothingToRecord) {
  ActFirst(/*stride=*/9.0F, /*max_steps=*/1'000'000);
  const ExpertEpisode episode = Run(3);
  EXPECT_FALSE(episode.success);
  EXPECT_EQ(episode.steps.n_steps(), 0);
  EXPECT_EQ(episode.failure, "the policy succeeded at step 1, before the takeover");
}

TEST_F(ExpertRunnerTest, StopsBetweenSteps) {
  std::atomic<bool> stop = false;
  plan_.stop = &stop;
  world_.on_step = [&stop](std::uint64_t, int step) { stop = step == 1; };
  EXPECT_FALSE(ExpertRunner(plan_).Run(1).has_value());
}

}  // namespace
}  // namespace dp_bench::data
