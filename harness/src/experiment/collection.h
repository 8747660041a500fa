// Collecting from the command line: with a progress bar, and a word on what came of it, on standard
// error.
#pragma once

#include <atomic>

#include "data/collector.h"
#include "experiment/task.h"

namespace dp_bench::experiment {

/// Collects what `request` asks of the task's env, or finds it done. False when `stop` ended it:
/// the same command continues. Throws Error{kUsage} when the env has no expert.
bool RunCollection(const Task& task, data::CollectRequest request, const std::atomic<bool>& stop);

/// Collects the dataset of a task that says so (Task::is_collected), once. False as above.
bool ProvideDataset(const Task& task, const std::atomic<bool>& stop);

/// The same for a verb that keeps nothing but the data set: a stop signal that comes later ends the
/// program.
bool ProvideDatasetAlone(const Task& task);

}  // namespace dp_bench::experiment
