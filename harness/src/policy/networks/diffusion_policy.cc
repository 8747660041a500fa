// See diffusion_policy.h. Training: DDPM (Ho et al. 2020) Alg. 1; inference: ConditionalSample.
#include "dp_bench/policy/networks/diffusion_policy.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/policy/kernels/autocast.h"
#include "dp_bench/policy/networks/obs_check.h"
#include "dp_bench/stage_trace.h"
#include "policy/networks/loss_weights.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

const char* PredictionName(PredictionType type) {
  switch (type) {
    case PredictionType::kEpsilon:
      return "predicted noise";
    case PredictionType::kSample:
      return "predicted action";
    case PredictionType::kVPrediction:
      return "predicted velocity";
  }
  return "prediction";
}

// Freezes batch statistics while it exists.
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

DiffusionPolicy::DiffusionPolicy(std::string name, const Config& params, const PolicySpec& spec,
                                 Model model)
    : name_(std::move(name)),
      spec_(spec),
      scheduler_(NoiseSchedulerConfig::FromConfig(params.Sub("noise_scheduler"))),
      mask_loss_for_padding_(params.Get<bool>(
          "do_mask_loss_for_padding", false,
          "leave steps before the start and after the end of an episode out of the loss")),
      chunk_weights_(ReadChunkWeights(params, spec.horizons.horizon)),
      timestep_weights_(ReadTimestepWeights(params, scheduler_)),
      root_(std::make_shared<torch::nn::Module>(name_)),
      model_(std::move(model)) {
  root_->register_module("diffusion", model_.module);
  const bool is_checkpointing = params.Get<bool>(
      "gradient_checkpointing", false,
      "save memory in training: recompute the inside of each block in the backward pass");
  model_.obs_encoder->set_gradient_checkpointing(is_checkpointing);
  model_.denoiser->set_gradient_checkpointing(is_checkpointing);
}

void DiffusionPolicy::SetNormalizer(const Normalizer& normalizer) {
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

int DiffusionPolicy::n_train_obs_steps() const {
  return model_.channels.inpaints_obs ? spec_.horizons.horizon : spec_.horizons.n_obs_steps;
}

LossOutput DiffusionPolicy::ComputeLoss(const Batch& batch, NoiseSource& noise) {
  RequireNormalizer();
  CheckBatch(batch, spec_, n_train_obs_steps(), noise);
  NoiseSource* regularizing = root_->is_training() ? &noise : nullptr;    // crops, dropout
  const Tensor naction = normalizer_->Normalize("action", batch.action);  // [B, T, Da]
  const Tensor features = EncodeObs(batch.obs, regularizing);             // [B, To or T, Do]

  // with inpainting, the encoder learns from the steps that the network is given, as upstream
  const bool inpaints = model_.channels.inpaints_obs;
  const Tensor x_0 = inpaints ? torch::cat({naction, features.detach()}, /*dim=*/2) : naction;

  // forward process at one random timestep per row (DDPM eq. 4)
  const Tensor epsilon = noise.Randn(StreamId::kTrainingNoise, x_0.sizes()).to(x_0.device());
  const Tensor timesteps =
      noise.RandInt(StreamId::kDiffusionTimestep, scheduler_.config().num_train_timesteps)
          .to(x_0.device());
  Tensor noisy = scheduler_.AddNoise(x_0, epsilon, timesteps);
  if (inpaints) noisy = Inpaint(noisy, features);
  TraceStage("normalized action", naction);
  TraceStage("noise", ActionOf(epsilon));
  TraceStage("timesteps", timesteps);
  TraceStage("noisy action", ActionOf(noisy));

  // DDPM eq. 14, for each prediction type
  const Tensor target = scheduler_.Target(x_0, epsilon, timesteps);
  const Tensor output =
      model_.denoiser->Forward(noisy, timesteps, ConditionOf(features), regularizing);
  TraceStage("network output", output);
  const Tensor prediction = FullPrecision(output);
  TraceStage(PredictionName(scheduler_.config().prediction_type), ActionOf(prediction));
  const Tensor loss = WeightedLoss(prediction, target, timesteps, batch.is_pad);
  TraceStage("loss", loss);
  return {.loss = loss, .parts = {}};
}

Tensor DiffusionPolicy::WeightedLoss(const Tensor& prediction, const Tensor& target,
                                     const Tensor& timesteps, const Tensor& is_pad) const {
  const bool inpaints = model_.channels.inpaints_obs;
  if (!mask_loss_for_padding_ && !chunk_weights_.defined() && !timestep_weights_.defined() &&
      !inpaints) {
    return torch::mse_loss(prediction, target);
  }
  Tensor squares = torch::square(prediction - target);  // [B, T, Da or Da + Do]
  if (mask_loss_for_padding_) squares = squares * is_pad.logical_not().unsqueeze(-1);
  if (chunk_weights_.defined()) squares = squares * chunk_weights_.to(squares.device());
  if (timestep_weights_.defined()) {
    const Tensor weights = timestep_weights_.to(squares.device()).index_select(0, timesteps);
    squares = squares * weights.view({-1, 1, 1});
  }
  if (inpaints) squares = Inpaint(squares, torch::zeros_like(squares.slice(2, action_dim())));
  return squares.mean();
}

// Puts the first To steps of `features` [B, To or more, Do] in the place of the observations of
// `sequence` [B, T, Da + Do].
Tensor DiffusionPolicy::Inpaint(const Tensor& sequence, const Tensor& features) const {
  const std::int64_t n_obs = spec_.horizons.n_obs_steps;
  const Tensor obs =
      torch::cat({features.slice(1, 0, n_obs), sequence.slice(2, action_dim()).slice(1, n_obs)},
                 /*dim=*/1);
  return torch::cat({ActionOf(sequence), obs}, /*dim=*/2);
}

// The action's channels of [B, T, Da or Da + Do].
Tensor DiffusionPolicy::ActionOf(const Tensor& sequence) const {
  return model_.channels.inpaints_obs ? sequence.slice(2, 0, action_dim()) : sequence;
}

// What the denoiser gets beside the sequence: the features, or with inpainting no channels of them.
Tensor DiffusionPolicy::ConditionOf(const Tensor& features) const {
  return model_.channels.inpaints_obs ? features.slice(2, 0, 0) : features;
}

Tensor DiffusionPolicy::PredictAction(const TensorMap& obs, NoiseSource& noise) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation(*root_);
  RequireNormalizer();
  CheckObs(obs, spec_, spec_.horizons.n_obs_steps);
  const Tensor features = EncodeObs(obs, /*augment=*/nullptr);
  const std::int64_t width = action_dim() + (model_.channels.inpaints_obs ? features.size(2) : 0);
  const Tensor initial =
      noise.Randn(StreamId::kPolicyNoise, {features.size(0), spec_.horizons.horizon, width});
  const Tensor sequence = ConditionalSample(features, initial.to(features.device()), noise);

  // the prediction starts at the oldest observation; the current step is index To - 1
  const Tensor action = normalizer_->Unnormalize("action", ActionOf(sequence));
  const std::int64_t start = spec_.horizons.n_obs_steps - 1;
  return action.narrow(/*dim=*/1, start, spec_.horizons.n_action_steps).contiguous();
}

Tensor DiffusionPolicy::ConditionalSample(const Tensor& features, const Tensor& initial,
                                          NoiseSource& noise) {
  const bool inpaints = model_.channels.inpaints_obs;
  Tensor sequence = initial;
  {
    // InferenceMode uses cheaper operators, but its tensors must not leave it: hence the copy below
    const c10::InferenceMode inference;
    const std::vector<std::int64_t>& timesteps = scheduler_.timesteps();
    const ConditionedDenoiser predict = [&] {
      RECORD_USER_SCOPE("conditioning");
      return model_.denoiser->Condition(timesteps, ConditionOf(features));
    }();
    TraceStage("noise", ActionOf(sequence));
    for (std::size_t i = 0; i < timesteps.size(); ++i) {
      RECORD_USER_SCOPE("denoising step");
      if (IsTracingStages()) TraceStage("timestep", torch::tensor(timesteps[i]));
      if (inpaints) sequence = Inpaint(sequence, features);
      const Tensor prediction = predict(sequence, static_cast<std::int64_t>(i));
      Tensor variance_noise;
      if (scheduler_.NeedsNoise(timesteps[i])) {
        variance_noise =
            noise.Randn(StreamId::kPolicyNoise, sequence.sizes()).to(sequence.device());
      }
      if (IsTracingStages()) TraceStep(prediction, timesteps[i], sequence, variance_noise);
      sequence = scheduler_.Step(prediction, timesteps[i], sequence, variance_noise).prev_sample;
    }
    if (inpaints) sequence = Inpaint(sequence, features);
  }
  return sequence.clone();
}

// Traces what a step makes of the action.
void DiffusionPolicy::TraceStep(const Tensor& prediction, std::int64_t timestep,
                                const Tensor& sequence, const Tensor& variance_noise) const {
  const auto step = scheduler_.Step(ActionOf(prediction), timestep, ActionOf(sequence),
                                    variance_noise.defined() ? ActionOf(variance_noise) : Tensor(),
                                    /*count_clipped=*/true);
  TraceStage("denoised action", step.pred_original_sample);
  TraceStage("clipped values", step.n_clipped);
  TraceStage("sample", step.prev_sample);
}

Tensor DiffusionPolicy::EncodeObs(const TensorMap& obs, NoiseSource* augment) {
  RequireNormalizer();
  RECORD_USER_SCOPE("observation encoding");
  const Tensor cond = FullPrecision(model_.obs_encoder->Encode(obs, *normalizer_, augment));
  TraceStage("condition", cond);
  return cond;
}

void DiffusionPolicy::RequireNormalizer() const {
  if (normalizer_.has_value()) return;
  throw Error(
      ErrorCode::kData,
      fmt::format("{} has no normalizer; call SetNormalizer before ComputeLoss and PredictAction",
                  name_));
}

}  // namespace dp_bench::policy
