// The policy that ships with dp_bench, in a control loop with PushT: bit for bit the actions of
// `dp_bench eval`, with and without latency. Uses the library as a user's program does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dp_bench/deploy.h"
#include "dp_bench/error.h"
#include "dp_bench/load_env.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_planner.h"
#include "plugin/catalogue.h"
#include "plugin/obs_memory.h"
#include "rollout/env_runner.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::uint64_t kSeed = 100000;
constexpr int kSteps = 60;

fs::path ShippedCheckpoint() { return fs::path(DPB_SOURCE_DIR) / "models/pusht_unet_hybrid"; }

// Keeps the actions that an env executes.
class RecordedActions : public Env {
 public:
  RecordedActions(std::unique_ptr<Env> env, std::vector<float>* actions)
      : Env(env->spec()), env_(std::move(env)), actions_(actions) {}

 private:
  void DoReset(std::uint64_t seed) override { env_->Reset(seed); }
  StepResult DoStep(std::span<const float> action) override {
    actions_->insert(actions_->end(), action.begin(), action.end());
    return env_->Step(action);
  }
  void DoObserve(const ObsWriter& obs) override { env_->Observe(obs); }
  void DoRender(RgbImage* frame) override { env_->Render(frame); }

  std::unique_ptr<Env> env_;
  std::vector<float>* actions_;
};

// `micro_batch` 0: that of the checkpoint. `chunking`: its section without the delay.
std::vector<float> ActionsOfEvaluation(int latency_steps, int micro_batch,
                                       const std::string& chunking = "{}") {
  plugin::PluginCatalogue catalogue({DPB_PLUGIN_DIR});
  const planner::PolicyFromCheckpoint loaded =
      planner::CreateFromCheckpoint(ShippedCheckpoint(), catalogue);
  control::EnvRunnerConfig config =
      control::EnvRunnerConfig::FromConfig(loaded.config.Sub("env_runner"));
  if (micro_batch > 0) config.micro_batch = micro_batch;
  config.n_train = 0;
  config.n_test = 1;
  config.n_videos = 0;
  config.max_steps = kSteps;
  config.chunking = control::ChunkingConfig::FromConfig(Config::FromJson(chunking));
  config.chunking.delay = latency_steps;
  std::vector<float> actions;
  const ScratchFolder scratch;
  const PolicySpec& spec = loaded.policy->spec();
  rollout::EnvRunner runner(
      config,
      [&] {
        return std::make_unique<RecordedActions>(LoadEnv(loaded.config.Sub("env")), &actions);
      },
      spec.shape_meta, spec.horizons, scratch.path());
  planner::PolicyPlanner planner(*loaded.policy, torch::kCPU, config.micro_batch, config.chunking);
  const run::RunResult result = runner.Run(planner);
  EXPECT_FALSE(result.records.at(0).failure_reason.has_value());
  return actions;
}

std::vector<float> ActionsInControlLoop(Controller& controller) {
  const std::unique_ptr<Env> env = LoadEnv(controller.config().Sub("env"));
  plugin::ObsMemory seen(env->spec());
  std::vector<ObsView> views;
  for (std::size_t i = 0; i < seen.keys().size(); ++i) {
    const KeySpec& key = seen.keys()[i];
    views.emplace_back(key.name, seen[i].data(), key.dtype, Dims(key.StorageShape()));
  }
  std::vector<float> actions;
  env->Reset(kSeed);
  controller.Reset(kSeed);
  for (int i = 0; i < kSteps; ++i) {
    seen.Observe(*env);
    const std::span<const float> action = controller.Act(views);
    actions.insert(actions.end(), action.begin(), action.end());
    if (env->Step(action).terminated) break;
  }
  return actions;
}

TEST(DeployedPolicy, ActsBitForBitAsInItsEvaluation) {
  for (const int latency_steps : {0, 2}) {
    for (const int micro_batch : {0, 1}) {
      const std::vector<float> evaluated = ActionsOfEvaluation(latency_steps, micro_batch);
      Controller controller = Controller::Load(
          ShippedCheckpoint(), {.latency_steps = latency_steps, .micro_batch = micro_batch});
      EXPECT_EQ(ActionsInControlLoop(controller), evaluated)
          << "latency " << latency_steps << ", batch " << micro_batch;
      EXPECT_EQ(2 * controller.counts().n_acts, std::ssize(evaluated));
    }
  }
}

TEST(DeployedPolicy, ContinuesChunksBitForBitAsInItsEvaluation) {
  std::vector<std::vector<float>> of_methods;
  for (const char* method : {"naive", "hard_prefix", "rtc"}) {
    const std::string chunking = std::string(R"({"execute": 4, "method": ")") + method + R"("})";
    of_methods.push_back(ActionsOfEvaluation(/*latency_steps=*/2, /*micro_batch=*/1, chunking));
    Controller controller =
        Controller::Load(ShippedCheckpoint(), {.latency_steps = 2, .chunking = chunking});
    EXPECT_EQ(ActionsInControlLoop(controller), of_methods.back()) << method;
    EXPECT_EQ(controller.counts().n_missed_deadlines, 0);
  }
  EXPECT_NE(of_methods[1], of_methods[0]);
  EXPECT_NE(of_methods[2], of_methods[0]);
  EXPECT_NE(of_methods[2], of_methods[1]);
}

TEST(DeployedPolicy, ControllersOfTwoThreadsDoNotDisturbEachOther) {
  Controller first = Controller::Load(ShippedCheckpoint());
  Controller second = Controller::Load(ShippedCheckpoint(), {.latency_steps = 2});
  const std::vector<float> alone[] = {ActionsInControlLoop(first), ActionsInControlLoop(second)};
  std::vector<float> together[2];
  {
    const std::jthread thread([&] { together[0] = ActionsInControlLoop(first); });
    together[1] = ActionsInControlLoop(second);
  }
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
}

TEST(DeployedPolicy, SaysWhatItReads) {
  const Controller controller = Controller::Load(ShippedCheckpoint());
  EXPECT_EQ(controller.spec().horizons.n_action_steps, 8);
  ASSERT_EQ(controller.spec().shape_meta.obs.size(), 2U);
  EXPECT_EQ(controller.spec().shape_meta.obs[1].name, "keypoint");
}

TEST(DeployedPolicy, RefusesWhatItCannotLoad) {
  const auto load = [](const fs::path& checkpoint, const ControllerOptions& options = {}) {
    return [=] { Controller::Load(checkpoint, options); };
  };
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, load("/no/such/folder")),
              HasSubstr("'/no/such/folder' is not a folder; expected that of a checkpoint"));
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, load(DPB_SOURCE_DIR)),
              HasSubstr("is neither a checkpoint"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, load(ShippedCheckpoint(), {.weights = "best"})),
              HasSubstr("ControllerOptions::weights is 'best', expected ema or model"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, load(ShippedCheckpoint(), {.device = "gpu"})),
              HasSubstr("from ControllerOptions::device"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, load(ShippedCheckpoint(), {.micro_batch = -1})),
              HasSubstr("ControllerOptions::micro_batch is -1"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, load(ShippedCheckpoint(), {.plugin_dirs = {"/no/dir"}})),
              HasSubstr("/no/dir"));
}

TEST(LoadEnv, RefusesKeysThatNothingReads) {
  const auto load = [](const char* section) { return [=] { LoadEnv(Config::FromJson(section)); }; };
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, load(R"({"plugin": "pusht", "perturb": {"delay": 1}})")),
      HasSubstr("perturb"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, load(R"({"plugin": "pushed"})")),
              HasSubstr("did you mean 'pusht'?"));
}

}  // namespace
}  // namespace dp_bench
