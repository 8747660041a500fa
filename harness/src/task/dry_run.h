// dp_bench run --dry-run: tries a config from end to end in seconds, and estimates what the run
// needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "run/cost_prediction.h"
#include "task/experiment.h"

namespace dp_bench::task {

/// Trains in the given folder and evaluates; returns the exit code.
using TrainOnce =
    std::function<int(const ExperimentOptions& options, const std::filesystem::path& folder)>;

/// The cost of the run's evaluations, from a few episodes; none after a stop signal.
using PredictRollouts =
    std::function<std::optional<run::CostPrediction>(const Experiment& experiment, Policy& policy)>;

/// Runs all parts of the experiment once in a temporary folder: dataset (two episodes of the
/// expert, or a batch, if it is not collected yet), statistics, two training steps, validation,
/// checkpoint, one short rollout, report. Then prints the disk space and memory that the whole run
/// needs and what is available, and predicts from some more steps and episodes what it costs: the
/// training with its rollouts, and the evaluation if there is an env. `parent`: the folder of run
/// folders; `n_seeds`: the number of trainings in the run; one is tried. Returns the exit
/// code. Throws what the parts throw, and Error{kIo} if the checkpoints will not fit.
int DryRun(const ExperimentOptions& options, const std::filesystem::path& parent,
           std::size_t n_seeds, const TrainOnce& train_once,
           const PredictRollouts& predict_rollouts, run::CostPredictions* costs);

/// The size of the files below the folder.
std::uintmax_t BytesBelow(const std::filesystem::path& folder);

/// What the rest of a collection costs, from two episodes in a temporary folder. None after a stop
/// signal. Throws what RunCollection throws.
std::optional<run::CostPrediction> PredictCollection(const Task& task,
                                                     data::CollectRequest request);

}  // namespace dp_bench::task
