// Creates a policy and its config from a checkpoint folder, like the policy part of
// diffusion_policy's BaseWorkspace.create_from_checkpoint. (A training continues from its run
// folder, see train/resume_point.h.)
#pragma once

#include <filesystem>
#include <memory>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "dp_bench/policy.h"
#include "planner/policy_weights.h"
#include "plugin/catalogue.h"
#include "run/checkpoint.h"

namespace dp_bench::planner {

/// Reads policy.weights.
WeightFormat ReadWeightFormat(const Config& policy);

/// The policy that a config names, with initial weights, for the config's shape_meta and horizons.
/// `env` is what it will act in, if that is known. Throws Error{kConfig} or Error{kPlugin}.
std::unique_ptr<Policy> CreatePolicy(const Config& config, plugin::PluginCatalogue& catalogue,
                                     const EnvSpec& env = {});

/// The same on `device`, with the weights and normalizer of a checkpoint and the backend that
/// `config` names. `config` is the checkpoint's config; the caller may change values, such as the
/// number of inference steps. Throws Error{kCheckpoint} listing what does not fit.
std::unique_ptr<Policy> CreateFromCheckpoint(const run::Checkpoint& checkpoint,
                                             const Config& config,
                                             plugin::PluginCatalogue& catalogue, Weights weights,
                                             torch::Device device = torch::kCPU);

struct PolicyFromCheckpoint {
  Config config;  // of the whole run
  std::unique_ptr<Policy> policy;
};

/// Verifies all checksums first. The policy is on the CPU and in evaluation mode. Its next
/// PredictAction equals that of the saved policy.
PolicyFromCheckpoint CreateFromCheckpoint(const std::filesystem::path& folder,
                                          plugin::PluginCatalogue& catalogue,
                                          Weights weights = Weights::kEma);

}  // namespace dp_bench::planner
