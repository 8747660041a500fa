// A LeRobot policy, diffusion or ACT, as a checkpoint of dp_bench.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "interop/feature_map.h"
#include "task/task.h"

namespace dp_bench::task {

struct LerobotImport {
  std::filesystem::path folder;  // pretrained_model of LeRobot
  std::filesystem::path output;  // a checkpoint; does not exist, or is empty
  ExperimentOptions experiment;  // the task, or none; the policy is unet_hybrid or act with
                                 // LeRobot's settings
  std::vector<std::string> map;  // see interop::BindFeatures
};

/// Without a task, each input of the policy is a key: "observation.images.top" is "top".
/// Writes the checkpoint, whose policy computes what LeRobot's computes, and returns which of the
/// task's keys are the policy's features. Throws Error{kCheckpoint} for a policy that is damaged or
/// that dp_bench cannot reproduce, Error{kUsage}, Error{kShape} or Error{kConfig} for a task that
/// does not fit.
std::vector<interop::FeatureBinding> ImportLerobotPolicy(const LerobotImport& request);

}  // namespace dp_bench::task
