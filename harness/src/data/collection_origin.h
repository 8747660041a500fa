// The origin of a collected data set. Data sets with equal origins hold the same episodes.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "data/collector.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"

namespace dp_bench::data {

/// `env_section`: {"plugin", "params"} with all defaults, as JSON text. The numbers of episodes and
/// workers are not part of it, because they do not change the first n episodes.
nlohmann::json CollectionOrigin(const std::string& env_section, const std::string& env_version,
                                const CollectConfig& config);

/// data/<name>-<hash>.zarr: where `run` looks for `n_episodes` of this origin, or else collects
/// them.
std::filesystem::path CollectionPath(const std::string& name, const nlohmann::json& origin,
                                     int n_episodes);

/// Throws Error{kUsage} if `env` has no expert, with the names of the env plugins that have one.
void RequireExpert(const EnvSpec& env, const std::string& name, plugin::PluginCatalogue& catalogue);

}  // namespace dp_bench::data
