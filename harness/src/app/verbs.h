// The verbs of the command line. Each Add* declares its options on a CLI11 app and returns the
// function to run, whose result is the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "interop/feature_map.h"
#include "plugin/catalogue.h"
#include "run/run_checkpoint.h"
#include "task/dataset_conversion.h"
#include "task/experiment.h"

namespace dp_bench::app {

using Verb = std::function<int()>;

/// The plugins in these folders, then those of the search path.
plugin::PluginCatalogue OpenCatalogue(const std::vector<std::filesystem::path>& plugin_dirs);

/// --isolate and --no-isolate.
void AddIsolateOption(CLI::App* app, task::ExperimentOptions* options);

/// --plugin-dir.
void AddPluginDirOption(CLI::App* app, std::vector<std::filesystem::path>* folders);

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

// For verbs that write a policy in the format of another program, or read one.

/// --map: which of LeRobot's features are which keys.
void AddMapOption(CLI::App* app, std::vector<std::string>* map);

/// Prints a line per feature: "observation.state: agent_pos".
void PrintBindings(const std::vector<interop::FeatureBinding>& bindings);

/// Throws Error{kUsage} unless a folder can be written to `output`. To be called before anything is
/// read.
void RequireFreeFolder(const std::filesystem::path& output);

/// Trains as `dp_bench train` does, into `output` or, if it is empty, a new run folder.
int Train(const task::ExperimentOptions& options, const std::filesystem::path& output,
          core::Communicator& ranks);

/// --keys and --tolerance, for verbs that read a dataset without a config.
void AddReadingOptions(CLI::App* app, task::DatasetReading* reading);

/// Copies datasets, with a progress bar. Stop signals interrupt it. Returns the exit code.
int ConvertWithProgress(std::vector<task::DatasetConversion> conversions,
                        plugin::PluginCatalogue& catalogue);

Verb AddRun(CLI::App* app);
Verb AddTrain(CLI::App* app);
Verb AddEval(CLI::App* app);
Verb AddCompare(CLI::App* app);
Verb AddGate(CLI::App* app);
Verb AddReplay(CLI::App* app);
Verb AddDiff(CLI::App* app);
Verb AddCollect(CLI::App* app);
Verb AddDataset(CLI::App* app);
Verb AddExport(CLI::App* app);
Verb AddFilm(CLI::App* app);
Verb AddDiagnose(CLI::App* app);
Verb AddDistill(CLI::App* app);
Verb AddDoctor(CLI::App* app);
Verb AddImport(CLI::App* app);
Verb AddInspect(CLI::App* app);
Verb AddPlugins(CLI::App* app);
Verb AddKeys(CLI::App* app);
Verb AddProfile(CLI::App* app);
Verb AddView(CLI::App* app);
Verb AddBench(CLI::App* app);

}  // namespace dp_bench::app
