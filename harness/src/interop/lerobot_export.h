// A policy of dp_bench as a LeRobot policy: diffusion or ACT.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "interop/feature_map.h"
#include "run/checkpoint.h"

namespace dp_bench::plugin {
class PluginCatalogue;
}

namespace dp_bench::interop {

/// The features and keys of an imported policy, as --map says them; none of another policy.
std::vector<std::string> ReadLerobotMap(const Config& section);

struct LerobotExport {
  std::filesystem::path output;  // does not exist, or is empty
  std::vector<std::string> map;  // see MakeFeatures; empty: that of the import, if any
};

/// Writes the evaluated weights of `checkpoint`, and returns LeRobot's features with the keys that
/// they are made of. Throws Error{kConfig} naming the setting for a policy that LeRobot cannot
/// compute: another plugin than unet_hybrid and act, another objective, sampler or encoder.
std::vector<FeatureBinding> ExportLerobotPolicy(const run::Checkpoint& checkpoint,
                                                plugin::PluginCatalogue& catalogue,
                                                const LerobotExport& request);

}  // namespace dp_bench::interop
