// A LeRobot policy on disk. Torch-free. Two layouts:
//   since 0.4   config.json, model.safetensors, policy_preprocessor.json and _postprocessor.json,
//               each with a safetensors file of statistics, "<feature>.<stat>"
//   until 0.3   config.json, model.safetensors with the statistics inside:
//               "normalize_inputs.buffer_<feature, with _ for .>.<stat>"
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/stats.h"
#include "interop/policy_config.h"

namespace dp_bench::interop {

struct LerobotProcessor {
  LerobotNormMap norm_map;
  double eps = 0.0;                  // see LerobotPolicy
  std::vector<std::string> cameras;  // in the order of its features
  std::string state_file;            // with its statistics, in the same folder
};

/// `wanted_step`: the name of the normalizing step, "normalizer_processor" or
/// "unnormalizer_processor". Throws Error{kCheckpoint} naming `path` and the place if it is missing
/// or there is a step that dp_bench does not know, because that step may change numbers.
LerobotProcessor ParseLerobotProcessor(std::string_view text, const std::filesystem::path& path,
                                       std::string_view wanted_step);

struct LerobotPolicy {
  LerobotPolicyConfig config;
  ArrayMap weights;  // "diffusion.unet..." or "model...": the names of dp_bench's plugins
  // by feature; every feature has the statistics that its normalization needs
  std::map<std::string, KeyStats, std::less<>> stats;
  double eps = 1e-8;  // what is added to a deviation, or stands for a range of zero
};

/// Reads either layout. Throws Error{kCheckpoint} naming file and place for anything that is
/// missing or that dp_bench cannot reproduce: above all for a missing statistic, in whose place
/// LeRobot leaves the values as they are. Throws Error{kIo} if a file cannot be read.
LerobotPolicy ReadLerobotPolicy(const std::filesystem::path& folder);

/// Writes the layout since 0.4 into an existing folder. Throws Error{kIo}.
void WriteLerobotPolicy(const std::filesystem::path& folder, const LerobotPolicy& policy);

}  // namespace dp_bench::interop
