// The options that several verbs have, each declared once.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/light/options.h"
#include "plugin/catalogue.h"
#include "run/run_checkpoint.h"
#include "task/dataset_reading.h"
#include "task/experiment.h"

namespace dp_bench::app {

/// The plugins in these folders, then those of the search path.
plugin::PluginCatalogue OpenCatalogue(const std::vector<std::filesystem::path>& plugin_dirs);

/// --isolate and --no-isolate.
void AddIsolateOption(CLI::App* app, task::ExperimentOptions* options);

/// --plugin-dir.
void AddPluginDirOption(CLI::App* app, std::vector<std::filesystem::path>* folders);

/// --config-dir.
void AddConfigDirOption(CLI::App* app, std::vector<std::filesystem::path>* folders);

/// --device.
void AddDeviceOption(CLI::App* app, std::string* device);

/// --weights of a checkpoint.
CLI::Option* AddWeightsOption(CLI::App* app, std::string* weights);

/// --isolate, --plugin-dir, --env, --obs, --task, --config, --config-dir and overrides.
void AddTaskOptions(CLI::App* app, task::ExperimentOptions* options);

/// The options above and --policy, --dataset and --device.
void AddExperimentOptions(CLI::App* app, task::ExperimentOptions* options);

/// Replaces the path of a run folder by that of its checkpoint (run::FindCheckpoint), which is
/// printed on standard error. An empty path stays empty.
void ChooseCheckpoint(std::filesystem::path* path,
                      run::CheckpointOrder order = run::CheckpointOrder::kBestFirst);

/// --json: a file for what --dry-run predicts (run/cost_prediction.h).
void AddPredictionFile(CLI::App* app, std::filesystem::path* file);

/// --map: which of LeRobot's features are which keys.
void AddMapOption(CLI::App* app, std::vector<std::string>* map);

/// --keys and --tolerance, for verbs that read a dataset without a config.
void AddReadingOptions(CLI::App* app, task::DatasetReading* reading);

/// Throws Error{kUsage} unless a folder can be written to `output`. To be called before anything is
/// read.
void RequireFreeFolder(const std::filesystem::path& output);

/// The seeds of "42,43" in each text. CLI11 alone would read -1 as the largest one and skip what is
/// empty. Throws Error{kUsage} naming the option, unless there is at least one seed and all are
/// integers from 0 to 2^63 - 1.
std::vector<std::uint64_t> ParseSeeds(std::string_view option,
                                      const std::vector<std::string>& texts);

}  // namespace dp_bench::app
