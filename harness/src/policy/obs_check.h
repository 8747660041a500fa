// Checks the input of a policy. A wrong shape is reported by key, with what was expected and what
// was found.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "dp_bench/policy.h"

namespace dp_bench::policy {

/// Requires every key of shape_meta as [B, n_steps, shape...] with its dtype and a common B.
/// Returns B. Throws Error{kShape} naming the key.
std::int64_t CheckObs(const TensorMap& obs, const PolicySpec& spec, int n_steps);

/// Also requires action [B, T, Da] float32, is_pad [B, T] bool, and B rows of noise.
void CheckBatch(const Batch& batch, const PolicySpec& spec, int n_obs_steps,
                const NoiseSource& noise);

}  // namespace dp_bench::policy
