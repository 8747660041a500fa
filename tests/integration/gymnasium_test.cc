// Gymnasium environments in Python: every fault costs its own episode only, and the certificate
// names hidden state. gymnasium.sh starts this program and sets DPB_GYMNASIUM_PYTHON to an
// interpreter with gymnasium.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/rollout/fake_env.h"
#include "plugin/catalogue.h"
#include "plugin/obs_memory.h"
#include "rollout/certify_determinism.h"
#include "rollout/env_runner.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::uint64_t kFirstSeed = 100000;

class Gymnasium : public testing::Test {
 protected:
  static json Params(const json& kwargs) {
    return {{"id", "faulty_gym:Faulty-v0"},
            {"python", std::getenv("DPB_GYMNASIUM_PYTHON")},
            {"kwargs", kwargs},
            {"step_timeout", 6.0},
            {"memory_limit_mb", 300}};
  }

  std::unique_ptr<Env> Make(const json& params) {
    return catalogue_.Create<Env>("gymnasium", Config::FromJson(params.dump(), "params"));
  }

  run::RunResult Run(const json& faults, int n_episodes) {
    const json params = Params({{"faults", faults}});
    control::EnvRunnerConfig config;
    config.n_train = 0;
    config.n_test = n_episodes;
    config.test_start_seed = kFirstSeed;
    config.n_workers = 4;
    config.n_envs = 4;
    config.n_videos = 0;
    rollout::EnvRunner runner(
        config, [&] { return Make(params); }, Make(params)->spec().shape_meta, Horizons{},
        scratch_.path());
    rollout::FakePlanner planner(8);
    return runner.Run(planner);
  }

  const ScratchFolder scratch_;
  plugin::PluginCatalogue catalogue_{{DPB_PLUGIN_DIR}};
};

struct Fault {
  const char* kind;
  const char* message;
};

constexpr Fault kHang = {"hang", "the env plugin did not answer within 6 s"};
constexpr std::array kFaults = {
    Fault{"exception", "ValueError: the gripper is gone (faulty_gym.py:"},
    Fault{"exit", "the env plugin exited with code 3, and again in a fresh process"},
    Fault{"memory", "more than memory_limit_mb (300)"},
    Fault{"nan", "observation 'pos': expected finite float32 numbers, found nan at 1"},
    Fault{"shape", "observation 'pos': expected the shape (2,) of its space, found (3,)"}};
constexpr int kFaultStep = 5;  // of faulty_gym.py

TEST_F(Gymnasium, EveryFaultCostsItsEpisodeAndTheOthersAreBitEqual) {
  const char* const wanted = std::getenv("DPB_GYMNASIUM_FAULTS");
  const int n_faults = wanted != nullptr ? std::stoi(wanted) : 6;  // 200 take about six minutes
  std::map<int, Fault> faults;                                     // every other episode
  json planned = json::object();
  for (int i = 0; i < n_faults; ++i) {
    const bool is_hang = i % 20 == 5;  // they take the time
    const Fault& fault = is_hang ? kHang : kFaults[static_cast<std::size_t>(i) % kFaults.size()];
    faults.emplace(2 * i, fault);
    planned[std::to_string(kFirstSeed + 2 * static_cast<std::uint64_t>(i))] = fault.kind;
  }
  const run::RunResult clean = Run(json::object(), 2 * n_faults);
  const run::RunResult broken = Run(planned, 2 * n_faults);
  ASSERT_EQ(broken.records.size(), static_cast<std::size_t>(2 * n_faults));
  for (int i = 0; i < 2 * n_faults; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const run::EpisodeRecord& record = broken.records[at];
    EXPECT_FALSE(clean.records[at].failure_reason.has_value()) << i;
    // an episode that the time limit ended is a timeout
    EXPECT_EQ(clean.records[at].course->is_terminated, clean.records[at].n_steps < 20) << i;
    if (faults.contains(i) && clean.records[at].n_steps >= kFaultStep) {
      EXPECT_THAT(record.failure_reason.value_or("none"), HasSubstr(faults.at(i).message)) << i;
    } else {
      EXPECT_FALSE(record.failure_reason.has_value()) << i;
      EXPECT_EQ(record.trace_hash, clean.records[at].trace_hash) << i;
    }
  }
}

// After the first death, a fresh process repeats the episode and dies too. After the second there
// is none.
TEST_F(Gymnasium, ImagesThatCannotBeDrawnLeaveTheObservations) {
  constexpr std::array kPush = {0.5F, -0.5F};
  const auto env = Make(Params({{"faults", {{"1", "render"}}}}));
  const auto clean = Make(Params(json::object()));
  plugin::ObsMemory seen(env->spec());
  plugin::ObsMemory wanted(clean->spec());
  env->Reset(1);
  clean->Reset(1);
  for (int step = 0; step < 2; ++step) {
    env->Step(kPush);
    clean->Step(kPush);
    RgbImage frame(12, 16);
    EXPECT_EQ(CodeOf([&] { env->Render(&frame); }), ErrorCode::kEnv) << step;
    seen.Observe(*env);
    wanted.Observe(*clean);
    for (std::size_t key = 0; key < seen.keys().size(); ++key) {
      EXPECT_TRUE(std::ranges::equal(seen[key], wanted[key])) << step << seen.keys()[key].name;
    }
  }
}

TEST_F(Gymnasium, CertifiesAnEnvWhoseOutcomesAreAFunctionOfTheSeed) {
  const auto certificate = rollout::CertifyDeterminism([&] { return Make(Params({})); });
  EXPECT_FALSE(certificate.difference.has_value());
  EXPECT_EQ(certificate.n_steps, 20);
  EXPECT_THAT(run::Describe(certificate), HasSubstr("a function of the seed: verified"));
}

TEST_F(Gymnasium, NamesHiddenStateByStepAndKey) {
  const auto certificate = rollout::CertifyDeterminism([&] {
    return Make(Params({{"has_hidden_state", true}}));
  });
  ASSERT_TRUE(certificate.difference.has_value());
  EXPECT_EQ(certificate.difference->condition, "with the same seed again");
  EXPECT_EQ(certificate.difference->step, 3);
  EXPECT_EQ(certificate.difference->key, "pos");
  const json manifest = {{run::kDeterminismKey, run::ToJson(certificate)}};
  EXPECT_EQ(run::Describe(run::DeterminismOf(manifest.dump()).value()), run::Describe(certificate));
}

TEST_F(Gymnasium, WrongParamsAreNamedWithWhatTheEnvHas) {
  const auto message = [&](const char* key, const json& value) {
    json params = Params({});
    params[key] = value;
    return MessageOf(ErrorCode::kConfig, [&] { Make(params); });
  };
  EXPECT_THAT(message("obs", {{"image", {{"path", "cameras.left"}}}}),
              HasSubstr("params.obs.image.path: expected one of ['cameras.top', 'pos'], found "
                        "'cameras.left'. All parts, as a mapping: {\"cameras_top\""));
  EXPECT_THAT(message("id", "no_such_package/Task-v0"),
              HasSubstr("has no module 'no_such_package'"));
  EXPECT_THAT(message("typo", 1), HasSubstr("typo"));
  EXPECT_THAT(
      message("python", "nowhere/bin/python"),
      HasSubstr("python: expected a Python interpreter, found no file 'nowhere/bin/python'"));
}

}  // namespace
}  // namespace dp_bench
