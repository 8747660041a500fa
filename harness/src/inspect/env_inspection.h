// What an env offers: as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "dp_bench/env.h"

namespace dp_bench::inspect {

struct EnvInspection {
  std::string name;    // of the task
  std::string plugin;  // of the env
  EnvSpec spec;
};

/// Tables, and a shape_meta for a task config.
std::string ToText(const EnvInspection& inspection);
nlohmann::json ToJson(const EnvInspection& inspection);

}  // namespace dp_bench::inspect
