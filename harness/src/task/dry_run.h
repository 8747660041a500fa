// dp_bench run --dry-run: tries a config from end to end in seconds, and estimates what the run
// needs.
#pragma once

#include <filesystem>
#include <functional>

#include "task/experiment.h"

namespace dp_bench::task {

/// Trains in the given folder and evaluates; returns the exit code.
using TrainOnce =
    std::function<int(const ExperimentOptions& options, const std::filesystem::path& folder)>;

/// Runs all parts of the experiment once in a temporary folder: dataset (two episodes of the expert
/// if it is not collected yet), statistics, two training steps, validation, checkpoint, one short
/// rollout, report. Then prints the disk space and memory that the whole run needs and what is
/// available. `parent`: the folder of run folders. Throws what the parts throw, and Error{kIo} if
/// the checkpoints will not fit.
int DryRun(const ExperimentOptions& options, const std::filesystem::path& parent,
           const TrainOnce& train_once);

}  // namespace dp_bench::task
