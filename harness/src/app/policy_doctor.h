// dp_bench doctor --url.
#pragma once

#include <string>

#include "task/task.h"

namespace dp_bench::app {

struct PolicyDoctorOptions {
  task::ExperimentOptions experiment;  // env, obs, overrides
  std::string url;
  std::string protocol = "openpi";
  bool as_json = false;
};

/// Asks the policy behind `url` about observations of the env: whether its answers are a function
/// of (observation, seed), how long they take, and how many per second 1, 2, 4 and 8 clients get.
/// Returns the exit code, 1 if they are not.
int ExaminePolicy(const PolicyDoctorOptions& options);

}  // namespace dp_bench::app
