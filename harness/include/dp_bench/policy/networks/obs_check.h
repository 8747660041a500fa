// Checks of what a policy is handed: a wrong shape is reported by key, with what was wanted and
// found.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "dp_bench/policy.h"

namespace dp_bench::policy {

/// Every key of shape_meta is there as [B, To, shape...] with one B and its dtype; returns B.
/// Throws Error{kShape} naming the key.
std::int64_t CheckObs(const TensorMap& obs, const PolicySpec& spec);

/// Also: action [B, T, Da] float32, is_pad [B, T] bool, and B rows of noise. Returns B.
std::int64_t CheckBatch(const Batch& batch, const PolicySpec& spec, const NoiseSource& noise);

}  // namespace dp_bench::policy
