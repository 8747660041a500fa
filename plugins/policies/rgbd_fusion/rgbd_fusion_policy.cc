// See rgbd_fusion_policy.h.
#include "rgbd_fusion_policy.h"

#include <fmt/format.h>

#include <utility>

#include "dp_bench/error.h"
#include "dp_bench/policy/networks/transformer_denoiser.h"
#include "dp_bench/policy/networks/unet_denoiser.h"
#include "rgbd_obs_encoder.h"

namespace dp_bench::rgbd_fusion {
namespace {

// The number of last frames of an episode from which a chunk of n_action_steps would reach into the
// padding. The sampler leaves them out. A config with another value was made for other horizons and
// is refused.
void CheckDropNLastFrames(const Config& params, const Horizons& horizons) {
  const auto found = params.GetOptional<std::int64_t>(
      "drop_n_last_frames",
      "a check for configs of other programs: must be horizon - n_action_steps - n_obs_steps + 1, "
      "or none");
  const int wanted = horizons.horizon - horizons.n_action_steps - horizons.n_obs_steps + 1;
  if (!found || *found == wanted) return;
  throw Error(ErrorCode::kConfig,
              fmt::format("{} is {}; with horizon {}, n_action_steps {} and n_obs_steps {} it is "
                          "horizon - n_action_steps - n_obs_steps + 1 = {}. The sampler leaves out "
                          "that many frames; leave the key out, or change the horizons",
                          params.Where("drop_n_last_frames"), *found, horizons.horizon,
                          horizons.n_action_steps, horizons.n_obs_steps, wanted));
}

std::unique_ptr<policy::Denoiser> MakeDenoiser(const Config& params, const PolicySpec& spec,
                                               std::int64_t obs_feature_dim,
                                               torch::nn::Module& parent) {
  const Config settings = params.Sub("denoiser", "the network that removes noise from actions");
  if (settings.GetChoice("type", {"transformer", "unet"},
                         "each has the keys of the policy of its name") == "unet") {
    return std::make_unique<policy::UnetDenoiser>(settings, spec, obs_feature_dim, parent);
  }
  return std::make_unique<policy::TransformerDenoiser>(settings, spec, obs_feature_dim, parent);
}

}  // namespace

std::unique_ptr<policy::DiffusionPolicy> MakePolicy(const Config& params, const PolicySpec& spec) {
  CheckDropNLastFrames(params, spec.horizons);
  policy::DiffusionPolicy::Model model;
  model.obs_encoder = std::make_unique<RgbdObsEncoder>(params, spec, *model.module);
  model.denoiser = MakeDenoiser(params, spec, model.obs_encoder->feature_dim(), *model.module);
  return std::make_unique<policy::DiffusionPolicy>("rgbd_fusion", params, spec, std::move(model));
}

}  // namespace dp_bench::rgbd_fusion
