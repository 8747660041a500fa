// All checks on one case: a config with its data and env, perhaps a checkpoint, perhaps a log.
// Includes LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "inspect/checkpoint_checks.h"
#include "inspect/finding.h"
#include "rollout/env_runner.h"
#include "run/checkpoint.h"

namespace dp_bench::inspect {

struct DiagnosisCase {
  Config config;  // of the whole run
  PolicySpec spec;
  const Dataset& dataset;
  MakeVariant make_policy;                      // of the config, with its first weights
  rollout::EnvFactory make_env;                 // empty: nothing is compared with it
  const run::Checkpoint* checkpoint = nullptr;  // null: nothing is trained yet
  std::optional<std::filesystem::path> log;     // logs.json.txt of the training
  int n_rollouts = 8;                           // episodes with the checkpoint in the env; 0: none
};

/// Runs the checks that the case has the parts for, on the CPU, in at most a minute for networks of
/// a few million parameters, and the rollouts. With a checkpoint, what it was trained with counts
/// as given: learning is not tried again. Throws only what a damaged input throws.
Findings Diagnose(const DiagnosisCase& subject);

}  // namespace dp_bench::inspect
