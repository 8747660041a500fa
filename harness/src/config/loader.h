// From the command line to one config: files with includes, --policy, --env, --obs, --task,
// --dataset and overrides.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/dataset_format.h"
#include "config/json_source.h"
#include "config/references.h"
#include "dp_bench/config.h"

namespace dp_bench::config {

/// What the command line says about the config. Later ones win: config, env, policy, dataset, task,
/// overrides. Only the section `dataset` of the config wins over that of the env.
struct ConfigRequest {
  std::string policy;                  // <config_dir>/policy/<policy>.json
  std::string env;                     // <config_dir>/task/<env>.json
  std::string obs;                     // <config_dir>/task/<env>_<obs>.json is used instead
  bool takes_env_only = false;         // of its file only env, env_runner and name count, and they
                                       // replace those of `config`: for a trained policy
  std::string task;                    // env.params.task, for envs that have several
  std::string dataset;                 // a path (dataset.params.path), or <config_dir>/dataset/...
  bool is_collected = false;           // dp_bench wrote that path, so it is read with default
                                       // settings, and the config's settings for another data
                                       // set are dropped
  std::filesystem::path config;        // another config file
  std::vector<std::string> overrides;  // "a.b.c=value"; the value is JSON, or else a string
  std::vector<std::filesystem::path> config_dirs;  // searched in this order
  DefaultsOf defaults = {};  // what a reference finds if no file and no override has the key
  DatasetReaders* readers = nullptr;  // choose the plugin for `dataset`, if that is a path
};

/// Loads and merges. A file may have "include": a path or a list of paths relative to itself. Later
/// includes win over earlier ones, and the file's own keys win over all includes. Objects merge key
/// by key, everything else is replaced. What belongs to a dataset (`dataset` without `val_ratio`)
/// gives way to a file that names another dataset plugin, and to the path of another dataset; the
/// document's notes say so for the path. Then references are resolved (config/references.h), except
/// in the config.json of a run or checkpoint, where they were resolved when it was written. Throws
/// Error{kConfig} naming file and line.
Config LoadConfig(const ConfigRequest& request);

/// The same as the document behind a Config, which knows where each key comes from and whether it
/// was read.
std::shared_ptr<ConfigDocument> LoadConfigDocument(const ConfigRequest& request);

/// Writes the config with all defaults read so far. LoadConfig on that file gives the same config.
/// Throws Error{kIo}.
void WriteResolvedConfig(const Config& config, const std::filesystem::path& path);

// Command line overrides with dotted keys, "training.lr=1e-4".

/// Sets one key. The value is JSON, or else a string; if the key holds a string, the text is taken
/// unparsed. Throws Error{kUsage} without "=" and Error{kConfig} if the type differs from the
/// existing value's (a number stays a number, an object stays an object; null replaces and is
/// replaced by any type, and so does a reference).
void ApplyOverride(const std::string& override_text, JsonSource* source);

/// Whether a key with this origin was set by an override.
bool IsOverrideOrigin(std::string_view origin);

}  // namespace dp_bench::config
