// Diffusion Policy with a convolutional network (Chi et al. 2023; upstream's
// DiffusionUnetHybridImagePolicy): a conditional UNet1D denoises the action sequence, conditioned
// on a window of low_dim and rgb observations.
#include "dp_bench/plugin.h"
#include "dp_bench/policy/networks/diffusion_policy.h"

namespace {

std::unique_ptr<dp_bench::Policy> Create(const dp_bench::Config& params,
                                         const dp_bench::PolicySpec& spec) {
  return dp_bench::policy::DiffusionPolicy::Assemble("unet_hybrid", params, spec,
                                                     dp_bench::policy::MakeHybridObsEncoder,
                                                     dp_bench::policy::MakeUnetDenoiser);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Policy, "unet_hybrid", "1.0.0", &Create)
