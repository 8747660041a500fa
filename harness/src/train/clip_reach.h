// Whether clip_sample_range covers the actions that the normalizer makes. Includes LibTorch.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "dp_bench/config.h"
#include "dp_bench/normalizer.h"
#include "policy/noise_scheduler.h"

namespace dp_bench::train {

/// The data that a normalizer was fitted to, in normalized units, beside the clip range.
struct ClipReach {
  NormalizeMode mode = NormalizeMode::kIdentity;
  double low = 0.0;  // of all dimensions
  double high = 0.0;
  double range = 0.0;  // clip_sample_range; infinite without clip_sample
  int n_dims = 0;
  int n_cut = 0;  // dimensions with values beyond +- range

  double largest() const;

  /// "limits maps the actions to [-1, 1]; predictions are clipped to +-1, which cuts none of them"
  std::string InWords() const;
};

/// Of the actions. None if the normalizer has no statistics of them.
std::optional<ClipReach> ActionReach(const Normalizer& normalizer,
                                     const NoiseSchedulerConfig& scheduler);

/// policy.params.noise_scheduler of the config of a run; none if the policy has no such section or
/// another objective.
std::optional<NoiseSchedulerConfig> SchedulerOf(const Config& config,
                                                const std::set<std::string>& objectives = {
                                                    "diffusion"});

/// Warns if sampling cannot reach all actions of the training data.
void WarnOfCutActions(const Normalizer& normalizer, const Config& config);

}  // namespace dp_bench::train
