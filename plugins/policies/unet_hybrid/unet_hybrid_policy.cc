// See unet_hybrid_policy.h. Training: DDPM (Ho et al. 2020) Alg. 1; inference: ConditionalSample.
#include "unet_hybrid_policy.h"

#include <fmt/format.h>

#include <vector>

#include "dp_bench/error.h"
#include "obs_check.h"

namespace dp_bench::unet_hybrid {
namespace {

using torch::Tensor;

common::UnetConfig ReadUnetConfig(const Config& params, const PolicySpec& spec,
                                  std::int64_t obs_feature_dim) {
  const common::UnetConfig defaults;
  common::UnetConfig config = {
      .action_dim = spec.shape_meta.action_dim(),
      .global_cond_dim = spec.horizons.n_obs_steps * obs_feature_dim,
      .diffusion_step_embed_dim =
          params.GetInRange("diffusion_step_embed_dim", defaults.diffusion_step_embed_dim, 4, 4096),
      .down_dims = params.Get<std::vector<std::int64_t>>("down_dims", defaults.down_dims),
      .kernel_size = params.GetInRange("kernel_size", defaults.kernel_size, 1, 63),
      .n_groups = params.GetInRange("n_groups", defaults.n_groups, 1, 1024),
      .cond_predict_scale = params.Get<bool>("cond_predict_scale", defaults.cond_predict_scale)};

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

// Batch statistics are frozen while it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    if (was_training_) module_.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    if (was_training_) module_.train();
  }

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

}  // namespace

std::unique_ptr<Policy> UnetHybridPolicy::Create(const Config& params, const PolicySpec& spec) {
  return std::make_unique<UnetHybridPolicy>(params, spec);
}

UnetHybridPolicy::UnetHybridPolicy(const Config& params, const PolicySpec& spec)
    : spec_(spec),
      scheduler_(NoiseSchedulerConfig::FromConfig(params.Sub("noise_scheduler"))),
      mask_loss_for_padding_(params.Get<bool>("do_mask_loss_for_padding", false)),
      module_(std::make_shared<torch::nn::Module>("UnetHybridPolicy")) {
  const auto diffusion =
      module_->register_module("diffusion", std::make_shared<torch::nn::Module>());
  obs_encoder_.emplace(params, spec_, *diffusion);
  unet_ = diffusion->register_module("unet", common::ConditionalUnet1d(ReadUnetConfig(
                                                 params, spec_, obs_encoder_->feature_dim())));
}

void UnetHybridPolicy::SetNormalizer(const Normalizer& normalizer) {
  std::vector<std::string> keys = {"action"};
  for (const KeySpec& key : spec_.shape_meta.obs) keys.push_back(key.name);
  for (const std::string& key : keys) {
    if (!normalizer.fields().contains(key)) {
      throw Error(ErrorCode::kData,
                  fmt::format("the normalizer has no statistics for '{}' of shape_meta", key));
    }
  }
  normalizer_ = normalizer;
  normalizer_->To(device());
}

LossOutput UnetHybridPolicy::ComputeLoss(const Batch& batch, NoiseSource& noise) {
  RequireNormalizer();
  common::CheckBatch(batch, spec_, noise);
  const Tensor naction = normalizer_->Normalize("action", batch.action);  // [B, T, Da]
  const Tensor global_cond =
      EncodeObs(batch.obs, module_->is_training() ? &noise : nullptr);  // [B, G]

  // forward process at one random timestep per row (DDPM eq. 4)
  const Tensor epsilon =
      noise.Randn(StreamId::kTrainingNoise, naction.sizes()).to(naction.device());
  const Tensor timesteps =
      noise.RandInt(StreamId::kDiffusionTimestep, scheduler_.config().num_train_timesteps)
          .to(naction.device());
  const Tensor noisy = scheduler_.AddNoise(naction, epsilon, timesteps);

  // DDPM eq. 14, for whatever the network is to predict
  const Tensor target = scheduler_.Target(naction, epsilon, timesteps);
  const Tensor prediction = unet_->forward(noisy, timesteps, global_cond);
  if (!mask_loss_for_padding_) return {.loss = torch::mse_loss(prediction, target), .parts = {}};
  const Tensor squares = torch::square(prediction - target);
  return {.loss = (squares * batch.is_pad.logical_not().unsqueeze(-1)).mean(), .parts = {}};
}

Tensor UnetHybridPolicy::PredictAction(const TensorMap& obs, NoiseSource& noise) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation(*module_);
  RequireNormalizer();
  common::CheckObs(obs, spec_);
  const Tensor global_cond = EncodeObs(obs, /*crop_noise=*/nullptr);
  const Tensor initial =
      noise.Randn(StreamId::kPolicyNoise,
                  {global_cond.size(0), spec_.horizons.horizon, spec_.shape_meta.action_dim()});
  const Tensor naction = ConditionalSample(global_cond, initial.to(global_cond.device()), noise);

  // the prediction starts at the oldest observation; the current step is index To - 1
  const Tensor action = normalizer_->Unnormalize("action", naction);
  const std::int64_t start = spec_.horizons.n_obs_steps - 1;
  return action.narrow(/*dim=*/1, start, spec_.horizons.n_action_steps).contiguous();
}

Tensor UnetHybridPolicy::ConditionalSample(const Tensor& global_cond, const Tensor& initial,
                                           NoiseSource& noise) {
  Tensor naction = initial;
  {
    // cheaper operators; its tensors may not leave it, hence the copy below
    const c10::InferenceMode inference;
    const std::vector<std::int64_t>& timesteps = scheduler_.timesteps();
    const auto conditioning = unet_->Condition(timesteps, global_cond);
    for (std::size_t i = 0; i < timesteps.size(); ++i) {
      const Tensor prediction = unet_->Predict(naction, conditioning, static_cast<std::int64_t>(i));
      Tensor variance_noise;
      if (scheduler_.NeedsNoise(timesteps[i])) {
        variance_noise = noise.Randn(StreamId::kPolicyNoise, naction.sizes()).to(naction.device());
      }
      naction = scheduler_.Step(prediction, timesteps[i], naction, variance_noise).prev_sample;
    }
  }
  return naction.clone();
}

Tensor UnetHybridPolicy::EncodeObs(const TensorMap& obs, NoiseSource* crop_noise) {
  RequireNormalizer();
  return obs_encoder_->Encode(obs, *normalizer_, crop_noise);
}

void UnetHybridPolicy::RequireNormalizer() const {
  if (normalizer_.has_value()) return;
  throw Error(ErrorCode::kData,
              "unet_hybrid has no normalizer; call SetNormalizer before ComputeLoss and "
              "PredictAction");
}

}  // namespace dp_bench::unet_hybrid
