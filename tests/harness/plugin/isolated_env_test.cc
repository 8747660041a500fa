// An isolated env behaves exactly like one that is not isolated.
#include "plugin/isolated_env.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "harness/plugin/faulty_env.h"
#include "plugin/obs_memory.h"
#include "support/error_of.h"

namespace dp_bench::plugin {
namespace {

constexpr std::array<float, 2> kPush = {0.25F, -0.75F};

/// Everything visible of an episode.
std::vector<double> Play(Env& env, std::uint64_t seed, int n_steps = 20) {
  std::vector<double> seen;
  ObsMemory obs(env.spec());  // pixels, pos
  env.Reset(seed);
  for (int step = 0; step < n_steps; ++step) {
    const StepResult result = env.Step(kPush);
    seen.push_back(result.reward);
    seen.insert(seen.end(), result.metrics.begin(), result.metrics.end());
    obs.Observe(env);
    for (const std::byte byte : obs[0]) seen.push_back(std::to_integer<int>(byte));
    for (const std::byte byte : obs[1]) seen.push_back(std::to_integer<int>(byte));
    RgbImage frame(1 + 100 * step, 3);
    env.Render(&frame);
    seen.push_back(frame.pixels.back());
  }
  return seen;
}

TEST(IsolatedEnv, EpisodesAreThoseOfAnEnvInThisProcess) {
  const auto isolated = MakeIsolated();
  const auto direct = MakeDirect();
  EXPECT_EQ(isolated->spec(), direct->spec());
  for (const std::uint64_t seed : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    EXPECT_EQ(Play(*isolated, seed), Play(*direct, seed));
  }
}

TEST(IsolatedEnv, OutlivesTheThreadThatMadeIt) {
  std::unique_ptr<Env> env;
  std::thread([&env] {
    env = MakeIsolated();
    env->Reset(1);
  }).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_NO_THROW(env->Step(kPush));
  EXPECT_EQ(Play(*env, 1), Play(*MakeDirect(), 1));
}

TEST(IsolatedEnv, AbilitiesAreThoseOfAnEnvInThisProcess) {
  const auto play = [](Env& env) {
    std::vector<float> actions(20);
    env.Reset(5);
    env.BeginExpert(5);
    for (std::size_t i = 0; i < actions.size(); i += 2) {
      const auto action = std::span(actions).subspan(i, 2);
      env.Act(action);
      env.Step(action);
    }
    std::vector<double> state(env.spec().abilities.state_size);
    env.GetState(state);
    env.Reset(6);
    env.SetState(state);
    const double reward = env.Step(kPush).reward;
    return std::tuple(actions, state, reward);
  };
  const auto isolated = MakeIsolated();
  EXPECT_EQ(play(*isolated), play(*MakeDirect()));
  float action[2] = {};
  EXPECT_EQ(CodeOf([&] { isolated->PointerAction(0.0, 0.0, action); }), ErrorCode::kUsage);
}

TEST(IsolatedEnv, MarksAreThoseOfAnEnvInThisProcess) {
  const auto look = [](Env& env) {
    std::vector<float> seen(4);
    env.Reset(5);
    env.Step(kPush);
    env.Marks({}, 64, 48, std::span(seen).first(2));
    env.Marks(kPush, 64, 48, std::span(seen).last(2));
    seen.push_back(static_cast<float>(env.spec().abilities.n_marks));
    seen.push_back(static_cast<float>(env.Step(kPush).reward));
    return seen;
  };
  const auto isolated = MakeIsolated();
  EXPECT_EQ(look(*isolated), look(*MakeDirect()));
  std::vector<float> xy(2);
  EXPECT_EQ(CodeOf([&] { isolated->Marks(std::span(kPush).first(1), 64, 48, xy); }),
            ErrorCode::kShape);
  xy.resize(3);
  EXPECT_EQ(CodeOf([&] { isolated->Marks({}, 64, 48, xy); }), ErrorCode::kShape);
}

TEST(IsolatedEnv, ErrorsOfTheEnvAreThoseOfAnEnvInThisProcess) {
  for (const char* kind : {"throw", "throw_number"}) {
    const auto message = [&](const std::unique_ptr<Env>& env, ErrorCode code) {
      env->Reset(0);
      return MessageOf(code, [&] { env->Step(kPush); });
    };
    const ErrorCode code = std::string_view(kind) == "throw" ? ErrorCode::kEnv : ErrorCode::kPlugin;
    EXPECT_EQ(message(MakeIsolated(OneFault(kind, "step")), code),
              message(MakeDirect(OneFault(kind, "step")), code));
  }
}

TEST(IsolatedEnv, ConfigErrorsAndDefaultsAreThoseOfAnEnvInThisProcess) {
  const char* const wrong = R"({"faults": [{"seed": 1}], "marker": 2})";
  EXPECT_EQ(MessageOf(ErrorCode::kConfig, [&] { MakeIsolated(wrong); }),
            MessageOf(ErrorCode::kConfig, [&] { MakeDirect(wrong); }));
  const Config here = Config::FromJson(R"({"faults": [{"kind": "none"}]})");
  const Config there = Config::FromJson(R"({"faults": [{"kind": "none"}]})");
  MakeDirect(here);
  MakeIsolated(there);
  EXPECT_EQ(there.ToJson(), here.ToJson());
  EXPECT_NO_THROW(there.RejectUnread());
}

TEST(IsolatedEnv, IsDescribedAsInThisProcessAndNotCreated) {
  const char* const breaks = R"({"faults": [{"kind": "abort", "in": "create"}]})";
  const Config here = Config::FromJson(breaks);
  const Config there = Config::FromJson(breaks);
  EXPECT_EQ(DescribeIsolated(there), DescribeDirect(here));
  EXPECT_EQ(there.ToJson(), here.ToJson());
}

TEST(IsolatedEnv, WrongSizesAreRefusedAndChangeNothing) {
  const auto env = MakeIsolated();
  env->Reset(0);
  EXPECT_EQ(CodeOf([&] { env->Step(std::span(kPush).first(1)); }), ErrorCode::kShape);
  EXPECT_EQ(CodeOf([&] { env->SetState(std::array{1.0}); }), ErrorCode::kEnv);
  EXPECT_EQ(Play(*env, 0), Play(*MakeDirect(), 0));
}

}  // namespace
}  // namespace dp_bench::plugin
