// The parameters of a network's modules, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/module_sizes.h"

namespace dp_bench::inspect {

/// One line per module with its parameters and their share, and the total.
std::string ModuleTable(const std::vector<train::ModuleSize>& modules, std::int64_t n_parameters);

/// [{"name", "depth", "parameters"}]
nlohmann::json ModuleList(const std::vector<train::ModuleSize>& modules);

}  // namespace dp_bench::inspect
