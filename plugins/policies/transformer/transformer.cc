// Diffusion Policy with a transformer (Chi et al. 2023, Sec. III-B; upstream's
// DiffusionTransformerHybridImagePolicy): action tokens attend to the diffusion timestep and to a
// window of low_dim and rgb observations.
#include "dp_bench/plugin.h"
#include "dp_bench/policy/networks/diffusion_policy.h"

namespace {

std::unique_ptr<dp_bench::Policy> Create(const dp_bench::Config& params,
                                         const dp_bench::PolicySpec& spec) {
  return dp_bench::policy::DiffusionPolicy::Assemble("transformer", params, spec,
                                                     dp_bench::policy::MakeHybridObsEncoder,
                                                     dp_bench::policy::MakeTransformerDenoiser);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Policy, "transformer", "1.0.0", &Create)
