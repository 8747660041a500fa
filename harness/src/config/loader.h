// From the command line to one config: files with includes, --policy, --env, --obs, --task,
// --dataset and overrides.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/json_source.h"
#include "dp_bench/config.h"

namespace dp_bench::config {

/// What the command line says about the config. Later ones win: config, env, policy, dataset, task,
/// overrides.
struct ConfigRequest {
  std::string policy;                  // <config_dir>/policy/<policy>.json
  std::string env;                     // <config_dir>/task/<env>.json
  std::string obs;                     // <config_dir>/task/<env>_<obs>.json instead
  std::string task;                    // env.params.task, for envs that have several
  std::string dataset;                 // a path (dataset.params.path), or <config_dir>/dataset/...
  bool is_collected = false;           // that path was written by dp_bench: zarr_replay reads it as
                                       // it is, whatever the config says of another data set
  std::filesystem::path config;        // a file of its own
  std::vector<std::string> overrides;  // "a.b.c=value", the value as JSON, or else as a string
  std::vector<std::filesystem::path> config_dirs;  // searched in this order
};

/// Loads and merges. A file may hold "include": a path or a list of paths relative to itself; later
/// includes win over earlier ones, its own keys over all of them. Objects merge key by key,
/// everything else is replaced. Throws Error{kConfig} naming file and line.
Config LoadConfig(const ConfigRequest& request);

/// The same as the document behind a Config, which knows where each key comes from and whether it
/// was read.
std::shared_ptr<ConfigDocument> LoadConfigDocument(const ConfigRequest& request);

/// Writes the config with all defaults read so far; LoadConfig on that file gives the same config.
/// Throws Error{kIo}.
void WriteResolvedConfig(const Config& config, const std::filesystem::path& path);

// Dotted overrides of the command line, "training.lr=1e-4".

/// Sets one key. The value is JSON, or else a string; a key that holds a string takes the text as
/// it is. Throws Error{kUsage} without "=" and Error{kConfig} when the type differs from the
/// existing value's (a number stays a number, an object an object; null goes either way).
void ApplyOverride(const std::string& override_text, JsonSource* source);

/// Whether a key with this origin was set by an override.
bool IsOverrideOrigin(std::string_view origin);

}  // namespace dp_bench::config
