// All checks on one case: a config with its data and env, optionally a checkpoint and a log; and a
// quick look at what sampling with a trained policy does.
// Includes LibTorch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "diagnose/diagnosis_report.h"
#include "diagnose/policy_checks.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "rollout/env_runner.h"
#include "run/checkpoint.h"
#include "train/clip_reach.h"

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
  bool is_sample = false;                       // of the data that the checkpoint was trained on
};

/// Runs the checks that the case has the parts for, on the CPU. For networks of a few million
/// parameters that takes at most a minute, plus the rollouts. With a checkpoint, its training setup
/// is not questioned: the learning checks are skipped. Throws only if an input is damaged.
Diagnosis Diagnose(const DiagnosisCase& subject);

// The quick look: each denoising step, and the error of the chunks.

struct SamplingInspectionCase {
  Policy& policy;  // trained, on the CPU
  const Normalizer& normalizer;
  Config config;                     // of the whole run
  const Dataset* dataset = nullptr;  // null: the env supplies the first observations of episodes
  rollout::EnvFactory make_env;
};

struct SamplingInspection {
  SamplingSample sample;  // its error: only with data
  std::optional<NoiseSchedulerConfig> scheduler;
  std::optional<train::ClipReach> reach;
  Findings findings;
  double seconds = 0.0;  // of sampling
};

/// Plans for 8 observations, with noise that is the same each time. Throws Error{kData} if neither
/// the data nor the env has any.
SamplingInspection InspectSampling(const SamplingInspectionCase& subject);

std::string ToText(const SamplingInspection& inspection);
nlohmann::json ToJson(const SamplingInspection& inspection);

}  // namespace dp_bench::diagnose
