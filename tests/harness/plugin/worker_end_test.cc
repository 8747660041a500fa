// Any end of an env's process costs one repetition, then gives one error with the cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "dp_bench/error.h"
#include "harness/plugin/faulty_env.h"
#include "harness/plugin/processes.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::plugin {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::array<float, 2> kAction = {0.25F, -0.75F};
constexpr int kFaultStep = 5;

std::vector<double> Rewards(Env& env, std::uint64_t seed) {
  std::vector<double> seen;
  env.Reset(seed);
  for (int step = 0; step < 10; ++step) {
    const StepResult result = env.Step(kAction);
    seen.insert(seen.end(), {result.reward, result.metrics[0], result.metrics[1]});
  }
  return seen;
}

std::string EndingOf(const std::string& kind, const std::string& in = "step") {
  const auto env = MakeIsolated(OneFault(kind, in, in == "step" ? kFaultStep : 0));
  return MessageOf(ErrorCode::kEnv, [&] { Rewards(*env, 0); });
}

TEST(WorkerEnd, IsReportedWithCauseAndCall) {
  // a sanitizer turns some signals into an exit
  EXPECT_THAT(
      EndingOf("segv"),
      AnyOf(StartsWith("the env plugin died with signal 11 (SIGSEGV), and again in a fresh "
                       "process\n  in env plugin 'faulty' (libdpb_env_faulty.so), during Step"),
            StartsWith("the env plugin exited with code")));
  EXPECT_THAT(EndingOf("overflow"), AnyOf(HasSubstr("SIGSEGV"), HasSubstr("exited with code")));
  EXPECT_THAT(EndingOf("abort"), StartsWith("the env plugin died with signal 6 (SIGABRT)"));
  EXPECT_THAT(EndingOf("kill"), StartsWith("the env plugin died with signal 9 (SIGKILL)"));
  EXPECT_THAT(EndingOf("exit"), StartsWith("the env plugin exited with code 3"));
  EXPECT_THAT(EndingOf("close"), StartsWith("the env plugin exited with code 0"));
  EXPECT_THAT(EndingOf("segv", "reset"), HasSubstr("during Reset"));
}

TEST(WorkerEnd, AnEnvThatHangsIsKilledAtItsLimit) {
  for (const char* kind : {"hang", "spin", "stop"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(EndingOf(kind), StartsWith("the env plugin did not answer within 2 s, and again"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << kind;
  }
}

TEST(WorkerEnd, AnEnvThatCannotBeCreatedIsAnError) {
  EXPECT_THAT(
      MessageOf(ErrorCode::kEnv, [] { MakeIsolated(OneFault("exit", "create")); }),
      testing::AllOf(StartsWith("the env plugin exited with code 3, and again in a fresh process"),
                     HasSubstr("during Create")));
}

TEST(WorkerEnd, AnEnvThatLeaksIsStopped) {
  EnvLimits config = ShortLimits();
  config.step_timeout = 20.0;
  config.memory_limit_mb = 256;
  const auto env = MakeIsolated(OneFault("leak", "step"), config);
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { Rewards(*env, 0); }),
              HasSubstr("MB of memory, more than memory_limit_mb (256)"));
  EXPECT_EQ(Rewards(*env, 1), Rewards(*MakeDirect(), 1));
}

TEST(WorkerEnd, AFaultThatDoesNotRepeatLeavesNoTrace) {
  for (const char* kind : {"segv", "abort", "exit", "hang", "close"}) {
    for (const char* in : {"create", "reset", "step"}) {
      const ScratchFolder scratch;
      const int step = std::string_view(in) == "step" ? kFaultStep : 0;
      EnvLimits config = ShortLimits();
      config.step_timeout = 1.0;
      config.reset_timeout = 3.0;
      const auto env = MakeIsolated(OneFault(kind, in, step, scratch.path()), config);
      EXPECT_EQ(Rewards(*env, 0), Rewards(*MakeDirect(), 0)) << kind << " in " << in;
      EXPECT_TRUE(std::filesystem::exists(scratch.path() / "0")) << kind << " in " << in;
    }
  }
}

TEST(WorkerEnd, AnExpertIsRepeatedWithItsMemory) {
  const auto play = [](Env& env) {
    std::vector<float> actions(20);
    env.Reset(0);
    env.BeginExpert(3);
    for (std::size_t i = 0; i < actions.size(); i += 2) {
      const auto action = std::span(actions).subspan(i, 2);
      env.Act(action);
      env.Step(action);
    }
    return actions;
  };
  for (const char* in : {"act", "step"}) {
    const ScratchFolder scratch;
    const auto env = MakeIsolated(OneFault("segv", in, kFaultStep, scratch.path()));
    EXPECT_EQ(play(*env), play(*MakeDirect())) << in;
  }
}

TEST(WorkerEnd, AStateIsRepeatedWithoutWhatCameBefore) {
  const ScratchFolder scratch;
  const auto play = [](Env& env) {
    env.Reset(0);
    env.Step(kAction);
    env.SetState(std::array{0.5, -0.5, 3.0});
    for (int i = 0; i < 3; ++i) env.Step(kAction);
    return env.Step(kAction).reward;
  };
  const auto env = MakeIsolated(OneFault("abort", "step", kFaultStep, scratch.path()));
  EXPECT_EQ(play(*env), play(*MakeDirect()));
}

TEST(WorkerEnd, AnImageThatCannotBeDrawnCostsTheEpisodeNothing) {
  const auto env = MakeIsolated(OneFault("segv", "render", kFaultStep));
  const auto direct = MakeDirect();
  env->Reset(0);
  direct->Reset(0);
  for (int step = 0; step < 10; ++step) {
    RgbImage frame(8, 8);
    if (step == kFaultStep) {
      EXPECT_EQ(CodeOf([&] { env->Render(&frame); }), ErrorCode::kEnv);
    }
    EXPECT_EQ(env->Step(kAction).reward, direct->Step(kAction).reward);
  }
}

TEST(WorkerEnd, AnotherResetStartsAnew) {
  const auto env = MakeIsolated(OneFault("segv", "step", kFaultStep));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(CodeOf([&] { Rewards(*env, 0); }), ErrorCode::kEnv);
    EXPECT_EQ(Rewards(*env, 1), Rewards(*MakeDirect(), 1));
  }
}

TEST(WorkerEnd, AnEnvThatDoesNotRepeatItselfIsFoundOut) {
  const ScratchFolder scratch;
  const auto env = MakeIsolated(fmt::format(R"({{"is_random": true, "marker_dir": "{}",
                       "faults": [{{"kind": "exit", "step": 5}}]}})",
                                            scratch.path().string()));
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { Rewards(*env, 0); }),
              HasSubstr("its episode could not be repeated: the same seed and actions gave other"));
  EXPECT_EQ(CodeOf([&] { env->Step(kAction); }), ErrorCode::kEnv) << "went on from elsewhere";
}

TEST(WorkerEnd, NothingThatTheEnvStartedOutlivesIt) {
  for (const char* end : {"exit", "segv", "hang", "nothing"}) {
    auto env = MakeIsolated(fmt::format(R"({{"faults": [{{"kind": "daemon", "step": 0}},
                         {{"kind": "{}", "step": 1}}]}})",
                                        end));
    env->Reset(0);
    env->Step(kAction);
    const std::vector<pid_t> started = StartedBy(getpid());
    ASSERT_EQ(started.size(), 3U) << "worker, env and daemon";
    try {
      env->Step(kAction);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kEnv) << end;
    }
    env.reset();
    for (const pid_t pid : started) EXPECT_TRUE(HasEnded(pid)) << end;
    EXPECT_TRUE(StartedBy(getpid()).empty()) << end;
  }
}

TEST(WorkerEnd, ADestructorThatBreaksHarmsNobody) {
  for (const char* kind : {"segv", "exit"}) {
    EXPECT_NO_THROW(MakeIsolated(OneFault(kind, "destroy"))->Reset(0));
  }
}

}  // namespace
}  // namespace dp_bench::plugin
