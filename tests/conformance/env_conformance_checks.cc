// The contract of every env plugin, ours or foreign.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include "dp_bench/error.h"
#include "env_conformance.h"
#include "support/error_of.h"

namespace dp_bench::conformance {
namespace {

TEST(EnvConformance, SpecFitsTogether) {
  const auto env = MakeEnv();
  const EnvSpec& spec = env->spec();
  ASSERT_FALSE(spec.shape_meta.obs.empty());
  for (std::size_t i = 0; i < spec.shape_meta.obs.size(); ++i) {
    const KeySpec& key = spec.shape_meta.obs[i];
    if (i > 0) {
      EXPECT_LT(spec.shape_meta.obs[i - 1].name, key.name) << "expected alphabetical order";
    }
    EXPECT_GT(key.NumElements(), 0) << key.name;
    if (key.type == KeyType::kRgb) {
      EXPECT_EQ(key.dtype, DType::kUInt8) << key.name;
      ASSERT_EQ(key.shape.size(), 3U) << key.name;
      EXPECT_EQ(key.shape[0], 3) << key.name;
    }
    if (key.type == KeyType::kLowDim) {
      EXPECT_EQ(key.dtype, DType::kFloat32) << key.name;
    }
  }
  EXPECT_EQ(spec.shape_meta.action.name, "action");
  ASSERT_EQ(spec.shape_meta.action.shape.size(), 1U);
  const auto action_dim = static_cast<std::size_t>(spec.shape_meta.action_dim());
  ASSERT_EQ(spec.action_low.size(), action_dim);
  ASSERT_EQ(spec.action_high.size(), action_dim);
  for (std::size_t i = 0; i < action_dim; ++i) {
    EXPECT_TRUE(std::isfinite(spec.action_low[i]) && std::isfinite(spec.action_high[i]));
    EXPECT_LT(spec.action_low[i], spec.action_high[i]);
  }
  EXPECT_GT(spec.control_hz, 0.0);
  EXPECT_GT(spec.max_steps, 0);
  std::set<std::string> names;
  for (const MetricSpec& metric : spec.metrics) EXPECT_TRUE(names.insert(metric.name).second);
}

TEST(EnvConformance, RefusesUnknownParams) {
  const Config params = ParamsWith({{"no_such_param", 1}});
  EXPECT_EQ(CodeOf([&] { MakeEnv(params); }), ErrorCode::kConfig);
}

TEST(EnvConformance, IsDescribedAsItIs) {
  const Config described = ParamsWith({});
  const Config created = ParamsWith({});
  EXPECT_TRUE(DescribeEnv(described) == MakeEnv(created)->spec());
  EXPECT_EQ(described.ToJson(), created.ToJson()) << "Describe must read the same params";
}

TEST(EnvConformance, HasTheTasksOfItsSpec) {
  for (const std::string& task : DescribeEnv(ParamsWith({})).tasks) {
    EXPECT_NO_THROW(MakeEnv(ParamsWith({{"task", task}}))) << task;
  }
}

TEST(EnvConformance, PerturbationsOfItsSpecAreParamsThatChangeNothingAtStrengthZero) {
  const Trace wanted = PlayEpisode(*MakeEnv(ParamsWith({{"perturb", nullptr}})), kSeed);
  for (const PerturbationSpec& perturbation : DescribeEnv(ParamsWith({})).perturbations) {
    EXPECT_LE(perturbation.low, perturbation.strength) << perturbation.name;
    EXPECT_GE(perturbation.high, perturbation.strength) << perturbation.name;
    const auto with = [&perturbation](double strength) {
      return ParamsWith({{"perturb", {{perturbation.name, strength}}}});
    };
    EXPECT_TRUE(AreEqual(PlayEpisode(*MakeEnv(with(0.0)), kSeed), wanted)) << perturbation.name;
    EXPECT_NO_THROW(MakeEnv(with(perturbation.high)));
    EXPECT_EQ(CodeOf([&] { MakeEnv(with(perturbation.high + 1.0)); }), ErrorCode::kConfig);
    EXPECT_EQ(CodeOf([&] { MakeEnv(with(perturbation.low - 1.0)); }), ErrorCode::kConfig);
  }
}

// Uninitialised memory makes them differ too: as a double, one fill is 0 and the other -8577.
TEST(EnvConformance, EqualSeedsAndActionsGiveEqualEpisodes) {
  constexpr int kFill = 0x00;
  constexpr int kOtherFill = 0xC0;
  FillNewMemory(kFill);
  const auto env = MakeEnv();
  FillNewMemory(kOtherFill);
  const auto other = MakeEnv();
  for (std::uint64_t seed : {std::uint64_t{0}, kSeed, std::numeric_limits<std::uint64_t>::max()}) {
    FillNewMemory(kFill);
    const Trace wanted = PlayEpisode(*env, seed);
    EXPECT_TRUE(AreEqual(PlayEpisode(*env, seed), wanted)) << "the same instance, seed " << seed;
    FillNewMemory(kOtherFill);
    EXPECT_TRUE(AreEqual(PlayEpisode(*other, seed), wanted))
        << "another instance, whose new memory held other bytes, seed " << seed;
  }
  FillNewMemory(-1);
}

TEST(EnvConformance, DifferentSeedsStartDifferently) {
  const auto env = MakeEnv();
  std::set<std::string> starts;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    env->Reset(seed);
    Trace start;
    AddView(*env, 0, start);
    starts.emplace(start.text());
  }
  EXPECT_GT(starts.size(), 1U);
}

TEST(EnvConformance, HistoryBeforeResetChangesNothing) {
  const Trace wanted = PlayEpisode(*MakeEnv(), kSeed);
  const auto env = MakeEnv();
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    env->Reset(seed);
    Play(*env, seed + 50, 0, 17 * static_cast<int>(seed));
  }
  EXPECT_TRUE(AreEqual(PlayEpisode(*env, kSeed), wanted));
}

TEST(EnvConformance, OtherThreadsChangeNothing) {
  constexpr std::size_t kThreads = 4;
  std::vector<Trace> wanted;
  for (std::size_t i = 0; i < kThreads; ++i) wanted.push_back(PlayEpisode(*MakeEnv(), kSeed + i));
  std::vector<Trace> found(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&found, i] { found[i] = PlayEpisode(*MakeEnv(), kSeed + i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kThreads; ++i)
    EXPECT_TRUE(AreEqual(found[i], wanted[i])) << "thread " << i;
}

TEST(EnvConformance, LookingChangesNothing) {
  const auto watched = MakeEnv();
  const auto unwatched = MakeEnv();
  watched->Reset(kSeed);
  unwatched->Reset(kSeed);
  const ObsMemory obs(watched->spec());
  for (int step = 0; step < kSteps; ++step) {
    watched->Observe(obs.writer());
    if (step % 5 == 0) {
      RgbImage frame(1 + 13 * step % 97, 1 + step);
      watched->Render(&frame);
      watched->Observe(obs.writer());
    }
    const std::vector<float> action = ActionAt(watched->spec(), kSeed, step);
    const bool terminated = watched->Step(action).terminated;
    ASSERT_EQ(unwatched->Step(action).terminated, terminated);
    if (terminated) break;
  }
  Trace seen;
  Trace unseen;
  AddView(*watched, 0, seen);
  AddView(*unwatched, 0, unseen);
  EXPECT_TRUE(AreEqual(seen, unseen));
}

TEST(EnvConformance, ObserveFillsItsBuffersAndNoMore) {
  const auto env = MakeEnv();
  env->Reset(kSeed);
  const ObsMemory zeros(env->spec(), std::byte{0x00});
  const ObsMemory ones(env->spec(), std::byte{0xFF});
  env->Observe(zeros.writer());
  env->Observe(ones.writer());
  EXPECT_TRUE(zeros == ones) << "some bytes were not written";
  EXPECT_TRUE(zeros.CanariesAlive()) << "bytes after a buffer were written";
}

TEST(EnvConformance, EveryNumberIsFinite) {
  const auto env = MakeEnv();
  const EnvSpec& spec = env->spec();
  const ObsMemory obs(spec);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    env->Reset(seed);
    for (int step = 0; step < spec.max_steps; ++step) {
      env->Observe(obs.writer());
      for (std::size_t k = 0; k < spec.shape_meta.obs.size(); ++k) {
        if (spec.shape_meta.obs[k].dtype != DType::kFloat32) continue;
        const std::string& name = spec.shape_meta.obs[k].name;
        for (const float value : obs.writer().Buffer<float>(name)) {
          ASSERT_TRUE(std::isfinite(value)) << name << ", step " << step;
        }
      }
      const StepResult result = env->Step(ActionAt(spec, seed, step));
      ASSERT_TRUE(std::isfinite(result.reward));
      ASSERT_EQ(result.metrics.size(), spec.metrics.size());
      for (const double metric : result.metrics) ASSERT_TRUE(std::isfinite(metric));
      if (result.terminated) break;
    }
  }
}

TEST(EnvConformance, AStateContinuesBitForBit) {
  const auto env = MakeEnv();
  if (env->spec().abilities.state_size == 0) GTEST_SKIP() << "the env has no state";
  env->Reset(kSeed);
  const int middle = kSteps / 2;
  ASSERT_EQ(Play(*env, kSeed, 0, middle).n_steps, middle)
      << "the episode ended before its state was taken; give params with which it lasts longer";
  std::vector<double> state(env->spec().abilities.state_size);
  env->GetState(state);
  const Trace wanted = Play(*env, kSeed, middle);

  const auto other = MakeEnv();
  other->SetState(state);
  EXPECT_TRUE(AreEqual(Play(*other, kSeed, middle), wanted)) << "in another instance";
  env->Reset(kSeed + 1);
  Play(*env, kSeed + 1);
  env->SetState(state);
  std::vector<double> again(state.size());
  env->GetState(again);
  EXPECT_EQ(std::memcmp(again.data(), state.data(), state.size() * sizeof(double)), 0);
  EXPECT_TRUE(AreEqual(Play(*env, kSeed, middle), wanted)) << "in the same instance, later";
}

TEST(EnvConformance, AllocatesNothingOnceWarm) {
  const auto env = MakeEnv();
  PlayEpisode(*env, kSeed);
  const ObsMemory obs(env->spec());
  std::vector<std::vector<float>> actions;
  for (int step = 0; step < kSteps; ++step) actions.push_back(ActionAt(env->spec(), kSeed, step));
  const long before = NumAllocations();
  env->Reset(kSeed);
  for (const std::vector<float>& action : actions) {
    env->Observe(obs.writer());
    if (env->Step(action).terminated) break;
  }
  EXPECT_EQ(NumAllocations() - before, 0);
}

}  // namespace
}  // namespace dp_bench::conformance
