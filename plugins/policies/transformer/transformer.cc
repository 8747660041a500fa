// Diffusion Policy with a transformer (Chi et al. 2023, Sec. III-B; upstream's
// DiffusionTransformerHybridImagePolicy): action tokens attend to the diffusion timestep and to a
// window of low_dim and rgb observations.
#include <memory>
#include <utility>

#include "dp_bench/plugin.h"
#include "dp_bench/policy/networks/diffusion_policy.h"

namespace {

using dp_bench::policy::DiffusionPolicy;

std::unique_ptr<dp_bench::Policy> Create(const dp_bench::Config& params,
                                         const dp_bench::PolicySpec& spec) {
  DiffusionPolicy::Model model;
  model.obs_encoder = dp_bench::policy::MakeHybridObsEncoder(params, spec, *model.module);
  model.channels = dp_bench::policy::DenoiserChannels::FromConfig(params, spec,
                                                                  model.obs_encoder->feature_dim());
  model.denoiser =
      dp_bench::policy::MakeTransformerDenoiser(params, spec, model.channels, *model.module);
  return std::make_unique<DiffusionPolicy>("transformer", params, spec, std::move(model));
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Policy, "transformer", "1.0.0", &Create)
