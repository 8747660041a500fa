// See unet_hybrid_policy.h.
#include "unet_hybrid_policy.h"

#include <utility>

#include "dp_bench/policy/networks/unet_denoiser.h"
#include "dp_bench/policy/vision/hybrid_obs_encoder.h"

namespace dp_bench::unet_hybrid {

std::unique_ptr<policy::DiffusionPolicy> MakePolicy(const Config& params, const PolicySpec& spec) {
  policy::DiffusionPolicy::Model model;
  model.obs_encoder = std::make_unique<policy::HybridObsEncoder>(params, spec, *model.module);
  model.channels =
      policy::DenoiserChannels::FromConfig(params, spec, model.obs_encoder->feature_dim());
  model.denoiser =
      std::make_unique<policy::UnetDenoiser>(params, spec, model.channels, *model.module);
  return std::make_unique<policy::DiffusionPolicy>("unet_hybrid", params, spec, std::move(model));
}

}  // namespace dp_bench::unet_hybrid
