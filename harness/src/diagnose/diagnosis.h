// All checks on one case: a config with its data and env, optionally a checkpoint and a log.
// Includes LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/checkpoint_checks.h"
#include "diagnose/diagnosis_report.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "rollout/env_runner.h"
#include "run/checkpoint.h"

namespace dp_bench::diagnose {

struct DiagnosisCase {
  Config config;  // of the whole run
  PolicySpec spec;
  const Dataset& dataset;
  MakeVariant make_policy;                      // of the config, with its initial weights
  rollout::EnvFactory make_env;                 // empty: no comparison with the env
  const run::Checkpoint* checkpoint = nullptr;  // null: nothing is trained yet
  std::optional<std::filesystem::path> log;     // logs.json.txt of the training
  int n_rollouts = 8;                           // episodes with the checkpoint in the env; 0: none
  bool is_recorded_here = false;                // the dataset is one that dp_bench wrote
  bool is_sample = false;                       // of the data that the checkpoint was trained on
};

/// Runs the checks that the case has the parts for, on the CPU. For networks of a few million
/// parameters that takes at most a minute, plus the rollouts. With a checkpoint, its training setup
/// is not questioned: the learning checks are skipped. Throws only if an input is damaged.
Diagnosis Diagnose(const DiagnosisCase& subject);

}  // namespace dp_bench::diagnose
