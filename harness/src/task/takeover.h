// The policy that acts in an env until the expert takes over: for demonstrations that begin where a
// policy leads.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "data/collector.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"

namespace dp_bench::task {

/// The averaged weights of a checkpoint, on the CPU. `checkpoint` may be a run folder. Throws
/// Error{kCheckpoint}, {kConfig}, {kPlugin}, or {kShape} if the env lacks an observation.
std::unique_ptr<data::FirstActor> LoadFirstActor(const std::filesystem::path& checkpoint,
                                                 const EnvSpec& env,
                                                 plugin::PluginCatalogue& catalogue);

/// What decides the first actor's steps: the hashes of its weights and config, and its share.
nlohmann::json TakeoverOrigin(const data::TakeoverConfig& config);

}  // namespace dp_bench::task
