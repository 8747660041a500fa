// Collects datasets with a progress bar and a summary on standard error.
#pragma once

#include <atomic>

#include "data/collector.h"
#include "task/task.h"

namespace dp_bench::task {

/// Collects a dataset, unless it is complete already. Returns false if `stop` interrupted it; the
/// same call continues. Throws Error{kUsage} if the env has no expert.
bool RunCollection(const Task& task, data::CollectRequest request, const std::atomic<bool>& stop);

/// Collects the task's dataset if Task::is_collected. Returns false as above.
bool ProvideDataset(const Task& task, const std::atomic<bool>& stop);

/// The same for a verb that saves nothing else: later stop signals end the program.
bool ProvideDatasetAlone(const Task& task);

}  // namespace dp_bench::task
