// A pipeline of processors around a LeRobot policy, policy_preprocessor.json or
// policy_postprocessor.json: what its normalizing step does. Torch-free.
// Format: LeRobot 0.4 to 0.6 (processor/pipeline.py, processor/normalize_processor.py).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "run/lerobot/policy_config.h"

namespace dp_bench::run {

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

}  // namespace dp_bench::run
