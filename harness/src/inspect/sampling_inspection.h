// A quick look at what sampling with a trained policy does: each denoising step, and the error of
// the chunks. Includes LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/noise_scheduler.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"
#include "inspect/finding.h"
#include "rollout/env_runner.h"
#include "train/clip_reach.h"
#include "train/sampling_trace.h"

namespace dp_bench::inspect {

struct SamplingInspectionCase {
  Policy& policy;  // trained, on the CPU
  const Normalizer& normalizer;
  Config config;                     // of the whole run
  const Dataset* dataset = nullptr;  // null: the env supplies the first observations of episodes
  rollout::EnvFactory make_env;
};

/// The error of sampled chunks against the recorded ones, mean square in normalized units.
struct ChunkError {
  double mean = 0.0;
  double of_mean_action = 0.0;  // with the best constant instead
  std::vector<double> by_step;  // [Ta]
};

struct SamplingInspection {
  std::int64_t n_chunks = 0;
  std::optional<NoiseSchedulerConfig> scheduler;
  std::optional<train::ClipReach> reach;
  std::vector<train::SamplingStep> steps;  // empty if the policy reports none
  std::optional<ChunkError> error;         // none without data
  Findings findings;
  double seconds = 0.0;  // of sampling
};

/// Plans for 8 observations, with noise that is the same each time. Throws Error{kData} if neither
/// the data nor the env has any.
SamplingInspection InspectSampling(const SamplingInspectionCase& subject);

std::string ToText(const SamplingInspection& inspection);
nlohmann::json ToJson(const SamplingInspection& inspection);

}  // namespace dp_bench::inspect
