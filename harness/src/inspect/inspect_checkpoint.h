// The content of a checkpoint: files, training state, normalizer, and its parameters by module.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dp_bench/normalizer.h"
#include "plugin/catalogue.h"
#include "train/module_sizes.h"

namespace dp_bench::inspect {

/// A tensor with NaN or Inf values.
struct NonFiniteTensor {
  std::string name;
  std::int64_t n_nan = 0;
  std::int64_t n_inf = 0;
  std::int64_t n_values = 0;
};

struct CheckpointFile {
  std::string name;
  std::size_t n_tensors = 0;
  std::int64_t n_bytes = 0;  // of the tensors
  std::vector<NonFiniteTensor> non_finite;
};

struct CheckpointInspection {
  std::filesystem::path folder;
  std::string policy;
  std::string task;
  nlohmann::json state;               // epoch, global_step, ...
  std::vector<CheckpointFile> files;  // of tensors
  Normalizer normalizer;
  std::vector<train::ModuleSize> modules;
  std::int64_t n_parameters = 0;

  bool has_non_finite() const;
};

/// Reads the whole folder and verifies all checksums first. Throws Error{kCheckpoint}.
CheckpointInspection InspectCheckpoint(const std::filesystem::path& folder,
                                       plugin::PluginCatalogue& catalogue, int n_levels);

std::string ToText(const CheckpointInspection& inspection);
nlohmann::json ToJson(const CheckpointInspection& inspection);

}  // namespace dp_bench::inspect
