// Diffusion Policy with a transformer (Chi et al. 2023, Sec. III-B; upstream's
// DiffusionTransformerHybridImagePolicy): action tokens attend to the diffusion timestep and to a
// window of low_dim and rgb observations.
#pragma once

#include <memory>

#include "dp_bench/policy/networks/diffusion_policy.h"

namespace dp_bench::transformer {

/// Throws Error{kConfig} for settings that do not fit together or do not fit the spec.
std::unique_ptr<policy::DiffusionPolicy> MakePolicy(const Config& params, const PolicySpec& spec);

}  // namespace dp_bench::transformer
