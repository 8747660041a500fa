// What `dp_bench inspect` reports about a policy: the shapes of its stages, its parameters by
// module, and the memory for training it; and about a checkpoint: its files, training state,
// normalizer and parameters.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plugin/catalogue.h"
#include "task/experiment.h"

namespace dp_bench::inspect {

struct PolicyInspectionOptions {
  std::int64_t batch_size = 1;                                  // of the shapes
  std::vector<std::int64_t> batch_sizes = {1, 8, 32, 64, 128};  // sizes in the memory table
  std::optional<std::int64_t> checked_batch_size;               // size to both estimate and measure
  int n_levels = 3;                                             // of modules
};

/// Runs the policy on the CPU on synthetic batches; reads no dataset. The result has "policy",
/// "task", "batch_size", "stages", the modules, and "memory" in bytes: what is held between steps,
/// the two measured steps behind the estimates, a step per entry of `batch_sizes`, and the "check"
/// of `checked_batch_size`.
nlohmann::json InspectPolicy(const task::Experiment& experiment,
                             const PolicyInspectionOptions& options);

/// Tables for the terminal. Ends with a line break.
std::string PolicyText(nlohmann::json inspection);

/// Reads the whole folder and verifies all checksums first. The result has "checkpoint", "policy",
/// "task", "state", "files" of tensors with those that are "non_finite", "normalizer", and the
/// modules. Throws Error{kCheckpoint}.
nlohmann::json InspectCheckpoint(const std::filesystem::path& folder,
                                 plugin::PluginCatalogue& catalogue, int n_levels);

/// Whether a tensor has NaN or Inf values.
bool HasNonFinite(const nlohmann::json& inspection);

/// Tables for the terminal. Ends with a line break.
std::string CheckpointText(nlohmann::json inspection);

}  // namespace dp_bench::inspect
