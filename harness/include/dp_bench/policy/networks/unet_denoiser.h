// The conditional UNet1D as a denoiser: its settings, and the flattened observation window.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include "dp_bench/policy.h"
#include "dp_bench/policy/networks/conditional_unet1d.h"
#include "dp_bench/policy/networks/denoiser.h"

namespace dp_bench::policy {

/// The 1D UNet as a `Denoiser`.
class UnetDenoiser final : public Denoiser {
 public:
  /// Reads down_dims, kernel_size, n_groups, diffusion_step_embed_dim and cond_predict_scale from
  /// `params`; registers `unet` with `parent`. Throws Error{kConfig} for settings that cannot work.
  UnetDenoiser(const Config& params, const PolicySpec& spec, const DenoiserChannels& channels,
               torch::nn::Module& parent);

  torch::Tensor Forward(const torch::Tensor& noisy, const torch::Tensor& times,
                        const torch::Tensor& cond, NoiseSource* noise) override;
  ConditionedDenoiser Condition(const std::vector<double>& times,
                                const torch::Tensor& cond) override;
  void DropCaches() override { unet_->DropCaches(); }
  void set_gradient_checkpointing(bool is_on) override { unet_->set_gradient_checkpointing(is_on); }

 private:
  ConditionalUnet1d unet_;
};

}  // namespace dp_bench::policy
