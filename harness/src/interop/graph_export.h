// A policy as graphs that other programs run.
#pragma once

#include <filesystem>

#include "run/checkpoint.h"

namespace dp_bench::plugin {
class PluginCatalogue;
}

namespace dp_bench::interop {

enum class GraphFormat { kTorchScript, kOnnx };

/// Writes the evaluated weights of `checkpoint` as graphs into `output`, which does not exist or is
/// empty. Before that, plans of the graphs are compared with those of the policy, for random
/// observations and two batch sizes; returns the largest difference of normalized actions. Throws
/// Error{kConfig} for a policy without graphs, Error{kNumeric} if they plan something else.
double ExportPolicyGraphs(const run::Checkpoint& checkpoint, plugin::PluginCatalogue& catalogue,
                          GraphFormat format, const std::filesystem::path& output);

}  // namespace dp_bench::interop
