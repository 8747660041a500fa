#pragma once

#include "task/task.h"

namespace dp_bench::app {

struct EnvDoctorOptions {
  task::ExperimentOptions experiment;
  bool as_json = false;
};

/// Makes the env, resets it, plays an episode of random actions for up to 20 s, draws it, measures
/// that, asks whether the seed decides, and proposes a task config. Returns 1 if the seed does not
/// decide. Throws what the env throws.
int ExamineEnv(const EnvDoctorOptions& options);

}  // namespace dp_bench::app
