// See unet_denoiser.h.
#include "dp_bench/policy/networks/unet_denoiser.h"

#include <fmt/format.h>

#include "dp_bench/error.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench::policy {
namespace {

UnetConfig ReadUnetConfig(const Config& params, const PolicySpec& spec,
                          const DenoiserChannels& channels) {
  const UnetConfig defaults;
  UnetConfig config = {
      .action_dim = channels.sample,
      .global_cond_dim = spec.horizons.n_obs_steps * channels.cond,
      .diffusion_step_embed_dim =
          params.GetInRange("diffusion_step_embed_dim", defaults.diffusion_step_embed_dim, 4, 4096,
                            "channels of the embedded denoising step"),
      .down_dims = params.Get<std::vector<std::int64_t>>(
          "down_dims", defaults.down_dims,
          "channels of the levels, 1 to 12; n levels need a horizon divisible by 2^(n-1)"),
      .kernel_size = params.GetInRange("kernel_size", defaults.kernel_size, 1, 63,
                                       "steps that a convolution sees"),
      .n_groups =
          params.GetInRange("n_groups", defaults.n_groups, 1, 1024, "groups of the group norms"),
      .cond_predict_scale =
          params.Get<bool>("cond_predict_scale", defaults.cond_predict_scale,
                           "the condition scales and shifts features; false: it only shifts them")};

  if (config.down_dims.empty() || config.down_dims.size() > 12) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} has {} levels; 1 to 12 make sense", params.Where("down_dims"),
                            config.down_dims.size()));
  }
  const std::int64_t factor = std::int64_t{1} << (config.down_dims.size() - 1);
  if (spec.horizons.horizon % factor != 0) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("horizon is {}; {} levels of {} need a multiple of {}", spec.horizons.horizon,
                    config.down_dims.size(), params.Where("down_dims"), factor));
  }
  return config;
}

}  // namespace

UnetDenoiser::UnetDenoiser(const Config& params, const PolicySpec& spec,
                           const DenoiserChannels& channels, torch::nn::Module& parent)
    : unet_(parent.register_module("unet",
                                   ConditionalUnet1d(ReadUnetConfig(params, spec, channels)))) {}

torch::Tensor UnetDenoiser::Forward(const torch::Tensor& noisy, const torch::Tensor& times,
                                    const torch::Tensor& cond, NoiseSource* /*noise*/) {
  const torch::Tensor global_cond = cond.flatten(1);  // [B, To * Do]
  TraceStage("unet: global condition", global_cond);
  return unet_->forward(noisy, times, global_cond);
}

ConditionedDenoiser UnetDenoiser::Condition(const std::vector<double>& times,
                                            const torch::Tensor& cond) {
  return [this, conditioning = unet_->Condition(times, cond.flatten(1))](
             const torch::Tensor& naction, std::int64_t step) {
    return unet_->Predict(naction, conditioning, step);
  };
}

}  // namespace dp_bench::policy
