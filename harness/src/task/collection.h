// Collects datasets with a progress bar and a summary on standard error.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "data/collector.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"
#include "task/task.h"

namespace dp_bench::task {

/// Collects a dataset, unless it is complete already. Returns false if `stop` interrupted it; the
/// same call continues. Throws Error{kUsage} if the env has no expert.
bool RunCollection(const Task& task, data::CollectRequest request, const std::atomic<bool>& stop);

/// Collects the task's dataset, or those of its mixture, if Task::is_collected. Returns false as
/// above.
bool ProvideDataset(const Task& task, const std::atomic<bool>& stop);

// The policy that acts in an env until the expert takes over: for demonstrations that begin where a
// policy leads.

/// The averaged weights of a checkpoint, on the CPU. `checkpoint` may be a run folder. Throws
/// Error{kCheckpoint}, {kConfig}, {kPlugin}, or {kShape} if the env lacks an observation.
std::unique_ptr<data::FirstActor> LoadFirstActor(const std::filesystem::path& checkpoint,
                                                 const EnvSpec& env,
                                                 plugin::PluginCatalogue& catalogue);

/// What decides the first actor's steps: the hashes of its weights and config, and its share.
nlohmann::json TakeoverOrigin(const data::TakeoverConfig& config);

}  // namespace dp_bench::task
