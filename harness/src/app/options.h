// The command line: options that several verbs have, each declared once, and errors for unknown
// verbs and options, with suggestions.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plugin/catalogue.h"
#include "run/run_checkpoint.h"
#include "task/dataset_reading.h"
#include "task/experiment.h"

namespace dp_bench::app {

// Kinds of options.

/// For CLI::Option::check: nan is in every CLI::Range. Returns what is wrong.
inline std::string RefuseNan(const std::string& text) {
  if (CLI::detail::to_lower(text).find("nan") == std::string::npos) return "";
  return "Value " + text + " is not a number; expected a finite one";
}

/// A number from `low` to `high`; --help shows its default.
template <class T>
CLI::Option* AddNumber(CLI::App* app, const char* name, T* number, std::type_identity_t<T> low,
                       std::type_identity_t<T> high, const std::string& text) {
  return app->add_option(name, *number, text)
      ->check(CLI::Range(low, high))
      ->check(&RefuseNan)
      ->capture_default_str();
}

/// A folder that must exist.
CLI::Option* AddFolder(CLI::App* app, const char* name, std::filesystem::path* folder,
                       const std::string& text);

/// One of several words; --help shows its default.
CLI::Option* AddChoice(CLI::App* app, const char* name, std::string* choice,
                       const std::vector<std::string>& choices, const std::string& text);

/// Values with commas between them.
template <class T>
CLI::Option* AddList(CLI::App* app, const char* name, std::vector<T>* values,
                     const std::string& text) {
  return app->add_option(name, *values, text)->delimiter(',')->allow_extra_args(false);
}

// The options.

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

/// --map: which of LeRobot's features are which keys.
void AddMapOption(CLI::App* app, std::vector<std::string>* map);

/// --keys and --tolerance, for verbs that read a dataset without a config.
void AddReadingOptions(CLI::App* app, task::DatasetReading* reading);

/// Throws Error{kUsage} unless a folder can be written to `output`. To be called before anything is
/// read.
void RequireFreeFolder(const std::filesystem::path& output);

// What CLI11 does not check.

/// Throws Error{kUsage} if the first argument looks like a verb but is not one of `verbs`.
void RequireKnownVerb(int argc, char** argv, const std::vector<std::string>& verbs);

/// Call it for a command line that CLI11 refused. Throws Error{kUsage} if `verb` was given an
/// unknown option, which explains the error better than a missing required option.
void RequireKnownOptions(const CLI::App& verb);

/// The seeds of "42,43" in each text. CLI11 alone would read -1 as the largest one and skip what is
/// empty. Throws Error{kUsage} naming the option, unless there is at least one seed and all are
/// integers from 0 to 2^63 - 1.
std::vector<std::uint64_t> ParseSeeds(std::string_view option,
                                      const std::vector<std::string>& texts);

}  // namespace dp_bench::app
