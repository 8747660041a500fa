// A policy and its config from a checkpoint folder alone: diffusion_policy's
// BaseWorkspace.create_from_checkpoint, as far as it is about the policy. (A whole training
// continues from its run folder, see train/snapshot.h.)
#pragma once

#include <filesystem>
#include <memory>

#include "dp_bench/config.h"
#include "dp_bench/policy.h"
#include "plugin/catalogue.h"
#include "run/checkpoint.h"
#include "run/policy_weights.h"

namespace dp_bench::run {

/// The policy that a config names, for the config's shape_meta and horizons, with its first
/// weights. Throws Error{kConfig} or Error{kPlugin}.
std::unique_ptr<Policy> CreatePolicy(const Config& config, plugin::PluginCatalogue& catalogue);

/// The same on `device`, with weights and normalizer of a checkpoint. `config` is the checkpoint's,
/// perhaps with values of the caller's own, such as fewer inference steps. Throws
/// Error{kCheckpoint} listing what does not fit.
std::unique_ptr<Policy> CreateFromCheckpoint(const Checkpoint& checkpoint, const Config& config,
                                             plugin::PluginCatalogue& catalogue, Weights weights,
                                             torch::Device device = torch::kCPU);

struct PolicyFromCheckpoint {
  Config config;  // of the whole run
  std::unique_ptr<Policy> policy;
};

/// Reads the folder, all checksums first. The policy is on the CPU and in evaluation mode: its next
/// PredictAction is that of the policy that was saved.
PolicyFromCheckpoint CreateFromCheckpoint(const std::filesystem::path& folder,
                                          plugin::PluginCatalogue& catalogue,
                                          Weights weights = Weights::kEma);

}  // namespace dp_bench::run
