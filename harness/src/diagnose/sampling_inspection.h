// A quick look at what sampling with a trained policy does: each denoising step, and the error of
// the chunks. Includes LibTorch.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "diagnose/checkpoint_checks.h"
#include "diagnose/finding.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "policy/noise_scheduler.h"
#include "rollout/env_runner.h"
#include "train/clip_reach.h"

namespace dp_bench::diagnose {

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
