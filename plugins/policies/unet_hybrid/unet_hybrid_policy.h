// Diffusion Policy with a convolutional network (Chi et al. 2023; upstream's
// DiffusionUnetHybridImagePolicy): a conditional UNet1D denoises the action sequence, conditioned
// on a window of low_dim and rgb observations.
#pragma once

#include <memory>

#include "dp_bench/policy/networks/diffusion_policy.h"

namespace dp_bench::unet_hybrid {

/// Throws Error{kConfig} for settings that do not fit together or do not fit the spec.
std::unique_ptr<policy::DiffusionPolicy> MakePolicy(const Config& params, const PolicySpec& spec);

}  // namespace dp_bench::unet_hybrid
