#include "planner/checkpoint_planner.h"

#include "control/env_runner_config.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_planner.h"

namespace dp_bench::planner {
namespace {

int BatchOfEvaluations(const Config& config) {
  return control::EnvRunnerConfig::FromConfig(config.Sub("env_runner")).micro_batch;
}

}  // namespace

CheckpointPlanner::CheckpointPlanner(const run::Checkpoint& checkpoint, Weights weights,
                                     torch::Device device, std::optional<int> micro_batch,
                                     const std::vector<std::filesystem::path>& plugin_dirs,
                                     const control::ChunkingConfig& chunking)
    : config_(
          Config::FromJson(checkpoint.config(), (checkpoint.folder() / "config.json").string())),
      catalogue_(plugin::PluginCatalogue::DefaultSearchPath(plugin_dirs)),
      policy_(CreateFromCheckpoint(checkpoint, config_, catalogue_, weights, device)),
      planner_(MakePlanner(*policy_, device,
                           micro_batch ? *micro_batch : BatchOfEvaluations(config_), chunking)) {}

}  // namespace dp_bench::planner
