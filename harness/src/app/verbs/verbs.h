// The verbs of the command line. Each Add* declares its options on a CLI11 app and returns what
// runs when the user chose it; the result is the exit code of the program.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "app/experiment.h"
#include "report/run_checkpoint.h"

namespace dp_bench {

using Verb = std::function<int()>;

/// --isolate and --no-isolate.
void AddIsolateOption(CLI::App* app, ExperimentOptions* options);

/// These, --env, --obs, --task, --config, --config-dir, --plugin-dir and overrides.
void AddTaskOptions(CLI::App* app, ExperimentOptions* options);

/// The same with --policy, --dataset and --device.
void AddExperimentOptions(CLI::App* app, ExperimentOptions* options);

/// Puts in place of a run folder the checkpoint that stands for it, and says which on standard
/// error. An empty path stays empty.
void ChooseCheckpoint(std::filesystem::path* path,
                      CheckpointOrder order = CheckpointOrder::kBestFirst);

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
Verb AddProfile(CLI::App* app);
Verb AddView(CLI::App* app);
Verb AddBench(CLI::App* app);

inline constexpr int kExitNotComparable = 4;
inline constexpr int kExitInterrupted = 75;  // EX_TEMPFAIL: --resume continues

}  // namespace dp_bench
