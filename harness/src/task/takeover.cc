#include "task/takeover.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "control/control_loop.h"
#include "core/sha256.h"
#include "dp_bench/deploy.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_planner.h"
#include "rollout/shape_match.h"
#include "run/checkpoint.h"
#include "run/run_checkpoint.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;

class CheckpointActor final : public data::FirstActor {
 public:
  CheckpointActor(planner::PolicyFromCheckpoint from, const EnvSpec& env)
      : config_(std::move(from.config)),
        policy_(std::move(from.policy)),
        spec_(policy_->spec()),
        env_keys_(env.shape_meta.obs),
        policy_keys_(rollout::MatchObsKeys(env.shape_meta, spec_.shape_meta)),
        planner_(*policy_, torch::kCPU, /*micro_batch=*/1),
        loop_(planner_, spec_.shape_meta, spec_.horizons) {}

  void Reset(std::uint64_t seed) override { loop_.Reset(seed); }

  std::span<const float> Act(std::span<const std::span<const std::byte>> obs) override {
    std::vector<ObsView> views;
    for (std::size_t i = 0; i < env_keys_.size(); ++i) {
      if (policy_keys_[i] < 0) continue;
      const KeySpec& key = env_keys_[i];
      views.emplace_back(key.name, obs[i].data(), key.dtype, Dims(key.StorageShape()));
    }
    return loop_.Act(views);
  }

 private:
  Config config_;
  std::unique_ptr<Policy> policy_;
  PolicySpec spec_;
  std::vector<KeySpec> env_keys_;
  std::vector<int> policy_keys_;  // of each key of the env; -1: the policy does not use it
  planner::PolicyPlanner planner_;
  control::ControlLoop loop_;
};

fs::path FindFolder(const fs::path& checkpoint) {
  if (fs::is_directory(checkpoint)) return run::FindCheckpoint(checkpoint).folder;
  throw Error(
      ErrorCode::kConfig,
      fmt::format("collect.takeover.checkpoint: expected the folder of a checkpoint or of a "
                  "run, found no folder '{}'",
                  checkpoint.string()));
}

}  // namespace

std::unique_ptr<data::FirstActor> LoadFirstActor(const fs::path& checkpoint, const EnvSpec& env,
                                                 plugin::PluginCatalogue& catalogue) {
  try {
    return std::make_unique<CheckpointActor>(
        planner::CreateFromCheckpoint(FindFolder(checkpoint), catalogue), env);
  } catch (Error& error) {
    error.AddContext("in the policy of collect.takeover");
    throw;
  }
}

nlohmann::json TakeoverOrigin(const data::TakeoverConfig& config) {
  const run::Checkpoint checkpoint = run::Checkpoint::Open(FindFolder(config.checkpoint));
  return {{"weights", checkpoint.Sha256Of(run::kEmaFile)},
          {"normalizer", checkpoint.Sha256Of(run::kNormalizerFile)},
          {"config", core::Sha256Hex(std::as_bytes(std::span(checkpoint.config())))},
          {"max_steps", config.max_steps}};
}

}  // namespace dp_bench::task
