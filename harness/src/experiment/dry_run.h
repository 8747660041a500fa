// dp_bench run --dry-run: whether a config works from end to end, in seconds, and what it needs.
#pragma once

#include <filesystem>
#include <functional>

#include "experiment/experiment.h"

namespace dp_bench::experiment {

/// Trains in the given folder and evaluates; returns the exit code.
using TrainOnce =
    std::function<int(const ExperimentOptions& options, const std::filesystem::path& folder)>;

/// Runs all parts of the experiment once in a temporary folder: data set (two episodes of the
/// expert where the config collects one that is not there), statistics, two training steps,
/// validation, checkpoint, one short rollout, report. Then prints disk and memory that the whole
/// run needs beside what there is. `parent` is where run folders go. Throws what the parts throw,
/// and Error{kIo} when the checkpoints will not fit.
int DryRun(const ExperimentOptions& options, const std::filesystem::path& parent,
           const TrainOnce& train_once);

}  // namespace dp_bench::experiment
