// The verbs of the command line. Each Add* declares its options on a CLI11 app and returns what
// runs when the user chose it; the result is the exit code of the program.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "experiment/experiment.h"
#include "run/run_checkpoint.h"

namespace dp_bench::app {

using Verb = std::function<int()>;

/// --isolate and --no-isolate.
void AddIsolateOption(CLI::App* app, experiment::ExperimentOptions* options);

/// These, --env, --obs, --task, --config, --config-dir, --plugin-dir and overrides.
void AddTaskOptions(CLI::App* app, experiment::ExperimentOptions* options);

/// The same with --policy, --dataset and --device.
void AddExperimentOptions(CLI::App* app, experiment::ExperimentOptions* options);

/// Puts in place of a run folder the checkpoint that stands for it, and says which on standard
/// error. An empty path stays empty.
void ChooseCheckpoint(std::filesystem::path* path,
                      run::CheckpointOrder order = run::CheckpointOrder::kBestFirst);

Verb AddRun(CLI::App* app);
Verb AddTrain(CLI::App* app);
Verb AddEval(CLI::App* app);
Verb AddCompare(CLI::App* app);
Verb AddGate(CLI::App* app);
Verb AddReplay(CLI::App* app);
Verb AddDiff(CLI::App* app);
Verb AddCollect(CLI::App* app);
Verb AddExport(CLI::App* app);
Verb AddFilm(CLI::App* app);
Verb AddDiagnose(CLI::App* app);
Verb AddInspect(CLI::App* app);
Verb AddPlugins(CLI::App* app);
Verb AddKeys(CLI::App* app);
Verb AddProfile(CLI::App* app);
Verb AddView(CLI::App* app);
Verb AddBench(CLI::App* app);

}  // namespace dp_bench::app
