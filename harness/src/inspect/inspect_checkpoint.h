// The content of a checkpoint: files, training state, normalizer, and its parameters by module.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "plugin/catalogue.h"

namespace dp_bench::inspect {

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
