// Diffusion Policy on colour and depth of several cameras: the data flow of the Kuavo data
// challenge's policy, with a transformer or a conditional UNet1D as denoiser.
#pragma once

#include <memory>

#include "dp_bench/policy/networks/diffusion_policy.h"

namespace dp_bench::rgbd_fusion {

/// Throws Error{kConfig} for settings that do not fit together or do not fit the spec.
std::unique_ptr<policy::DiffusionPolicy> MakePolicy(const Config& params, const PolicySpec& spec);

}  // namespace dp_bench::rgbd_fusion
