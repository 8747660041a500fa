// See denoiser.h.
#include "dp_bench/policy/networks/denoiser.h"

namespace dp_bench::policy {

DenoiserChannels DenoiserChannels::FromConfig(const Config& params, const PolicySpec& spec,
                                              std::int64_t obs_feature_dim) {
  const bool is_global = params.Get<bool>(
      "obs_as_global_cond", true,
      "observations condition the network; false: inpainting, the network denoises them together "
      "with the action, and the first n_obs_steps are put back before each denoising step");
  const std::int64_t action_dim = spec.shape_meta.action_dim();
  if (is_global) return {.sample = action_dim, .cond = obs_feature_dim};
  return {.inpaints_obs = true, .sample = action_dim + obs_feature_dim};
}

}  // namespace dp_bench::policy
