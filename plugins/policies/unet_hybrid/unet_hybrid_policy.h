// Diffusion Policy with a convolutional network (Chi et al. 2023; upstream's
// DiffusionUnetHybridImagePolicy): a conditional UNet1D denoises the action sequence, conditioned
// on a window of low_dim and rgb observations.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>

#include "conditional_unet1d.h"
#include "dp_bench/noise_scheduler.h"
#include "dp_bench/policy.h"
#include "obs_encoder.h"

namespace dp_bench::unet_hybrid {

class UnetHybridPolicy final : public Policy {
 public:
  static std::unique_ptr<Policy> Create(const Config& params, const PolicySpec& spec);

  UnetHybridPolicy(const Config& params, const PolicySpec& spec);

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer& normalizer) override;
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override;
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override;
  torch::nn::Module& module() override { return *module_; }
  void WeightsChanged() override { unet_->DropCaches(); }

  /// Reverse diffusion: DDPM (Ho et al. 2020) Alg. 2 or DDIM (Song et al. 2021) eq. 12.
  /// global_cond [B, G], initial noise [B, T, Da] -> normalized action sequence [B, T, Da]. `noise`
  /// is drawn from by the steps that add some.
  torch::Tensor ConditionalSample(const torch::Tensor& global_cond, const torch::Tensor& initial,
                                  NoiseSource& noise);

  /// The conditioning vector of each row, [B, To * Do]. Crops at random when `crop_noise` is given.
  torch::Tensor EncodeObs(const TensorMap& obs, NoiseSource* crop_noise);

 private:
  void RequireNormalizer() const;
  torch::Device device() const { return module_->parameters().front().device(); }

  PolicySpec spec_;
  NoiseScheduler scheduler_;
  bool mask_loss_for_padding_;
  std::optional<Normalizer> normalizer_;
  std::shared_ptr<torch::nn::Module> module_;
  std::optional<ObsEncoder> obs_encoder_;
  common::ConditionalUnet1d unet_{nullptr};
};

}  // namespace dp_bench::unet_hybrid
