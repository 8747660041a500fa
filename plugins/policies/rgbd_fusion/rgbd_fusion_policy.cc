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

// A config of LeRobot has drop_n_last_frames among the params of the policy. Here the sampler reads
// a top-level key. Another value would have no effect, so it is refused.
void CheckDropNLastFrames(const Config& params, const Horizons& horizons) {
  const auto found = params.GetOptional<std::int64_t>(
      "drop_n_last_frames",
      "a check for configs of other programs: must be the number of the top-level key, or none");
  if (!found || *found == horizons.n_dropped_last_frames()) return;
  throw Error(
      ErrorCode::kConfig,
      fmt::format("{}: expected {}, which is what the sampler leaves out, found {}; leave "
                  "the key out, or set the top-level key drop_n_last_frames",
                  params.Where("drop_n_last_frames"), horizons.n_dropped_last_frames(), *found));
}

std::unique_ptr<policy::Denoiser> MakeDenoiser(const Config& params, const PolicySpec& spec,
                                               const policy::DenoiserChannels& channels,
                                               torch::nn::Module& parent) {
  const Config settings = params.Sub("denoiser", "the network that removes noise from actions");
  if (settings.GetChoice("type", {"transformer", "unet"},
                         "each has the keys of the policy of its name") == "unet") {
    return std::make_unique<policy::UnetDenoiser>(settings, spec, channels, parent);
  }
  return std::make_unique<policy::TransformerDenoiser>(settings, spec, channels, parent);
}

}  // namespace

std::unique_ptr<policy::DiffusionPolicy> MakePolicy(const Config& params, const PolicySpec& spec) {
  CheckDropNLastFrames(params, spec.horizons);
  policy::DiffusionPolicy::Model model;
  model.obs_encoder = std::make_unique<RgbdObsEncoder>(params, spec, *model.module);
  model.channels =
      policy::DenoiserChannels::FromConfig(params, spec, model.obs_encoder->feature_dim());
  model.denoiser = MakeDenoiser(params, spec, model.channels, *model.module);
  return std::make_unique<policy::DiffusionPolicy>("rgbd_fusion", params, spec, std::move(model));
}

}  // namespace dp_bench::rgbd_fusion
