// See diffusion_policy.h. Training: DDPM (Ho et al. 2020) Alg. 1; inference: ConditionalSample.
#include "dp_bench/policy/networks/diffusion_policy.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/policy/kernels/autocast.h"
#include "dp_bench/policy/networks/obs_check.h"
#include "dp_bench/stage_trace.h"

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

[[noreturn]] void ThrowTimeWeights(const Config& params, const std::string& wanted) {
  throw Error(ErrorCode::kConfig,
              fmt::format("{}: expected {}", params.Where("loss_time_weights"), wanted));
}

// The weight of each of the T steps in the loss: "loss_time_weights", a list, or "loss_time_decay"
// d for d^t. [T, 1] with mean 1; undefined if neither is given.
Tensor ReadLossTimeWeights(const Config& params, std::int64_t horizon) {
  const bool has_list = params.Has("loss_time_weights");
  const bool has_decay = params.Has("loss_time_decay");
  if (has_list && has_decay) ThrowTimeWeights(params, "either this or loss_time_decay, found both");
  if (!has_list && !has_decay) return {};
  std::vector<double> weights(static_cast<std::size_t>(horizon));
  if (has_decay) {
    const double decay = params.GetInRange("loss_time_decay", 1.0, 1e-3, 1.0,
                                           "d, for weights d^t in place of loss_time_weights");
    for (std::size_t t = 0; t < weights.size(); ++t) {
      weights[t] = std::pow(decay, static_cast<double>(t));
    }
  } else {
    weights = params.Require<std::vector<double>>(
        "loss_time_weights",
        "T numbers that weigh the predicted steps in the loss; scaled to mean 1");
  }
  if (std::ssize(weights) != horizon) {
    ThrowTimeWeights(params, fmt::format("{} numbers, one per step of the horizon, found {}",
                                         horizon, weights.size()));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (std::ranges::any_of(weights, [](double weight) { return weight < 0.0; }) || sum <= 0.0) {
    ThrowTimeWeights(params, "non-negative numbers, at least one greater than 0");
  }
  const Tensor column = torch::tensor(weights, torch::kFloat64).unsqueeze(1);
  return (column * (static_cast<double>(horizon) / sum)).to(torch::kFloat32);
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
      loss_time_weights_(ReadLossTimeWeights(params, spec.horizons.horizon)),
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

LossOutput DiffusionPolicy::ComputeLoss(const Batch& batch, NoiseSource& noise) {
  RequireNormalizer();
  CheckBatch(batch, spec_, noise);
  NoiseSource* regularizing = root_->is_training() ? &noise : nullptr;    // crops, dropout
  const Tensor naction = normalizer_->Normalize("action", batch.action);  // [B, T, Da]
  const Tensor cond = EncodeObs(batch.obs, regularizing);                 // [B, To, Do]

  // forward process at one random timestep per row (DDPM eq. 4)
  const Tensor epsilon =
      noise.Randn(StreamId::kTrainingNoise, naction.sizes()).to(naction.device());
  const Tensor timesteps =
      noise.RandInt(StreamId::kDiffusionTimestep, scheduler_.config().num_train_timesteps)
          .to(naction.device());
  const Tensor noisy = scheduler_.AddNoise(naction, epsilon, timesteps);
  TraceStage("normalized action", naction);
  TraceStage("noise", epsilon);
  TraceStage("timesteps", timesteps);
  TraceStage("noisy action", noisy);

  // DDPM eq. 14, for each prediction type
  const Tensor target = scheduler_.Target(naction, epsilon, timesteps);
  const Tensor output = model_.denoiser->Forward(noisy, timesteps, cond, regularizing);
  TraceStage("network output", output);
  const Tensor prediction = FullPrecision(output);
  TraceStage(PredictionName(scheduler_.config().prediction_type), prediction);
  const Tensor loss = WeightedLoss(prediction, target, batch.is_pad);
  TraceStage("loss", loss);
  return {.loss = loss, .parts = {}};
}

Tensor DiffusionPolicy::WeightedLoss(const Tensor& prediction, const Tensor& target,
                                     const Tensor& is_pad) const {
  if (!mask_loss_for_padding_ && !loss_time_weights_.defined()) {
    return torch::mse_loss(prediction, target);
  }
  Tensor squares = torch::square(prediction - target);  // [B, T, Da]
  if (mask_loss_for_padding_) squares = squares * is_pad.logical_not().unsqueeze(-1);
  if (loss_time_weights_.defined()) squares = squares * loss_time_weights_.to(squares.device());
  return squares.mean();
}

Tensor DiffusionPolicy::PredictAction(const TensorMap& obs, NoiseSource& noise) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation(*root_);
  RequireNormalizer();
  CheckObs(obs, spec_);
  const Tensor cond = EncodeObs(obs, /*augment=*/nullptr);
  const Tensor initial = noise.Randn(StreamId::kPolicyNoise, {cond.size(0), spec_.horizons.horizon,
                                                              spec_.shape_meta.action_dim()});
  const Tensor naction = ConditionalSample(cond, initial.to(cond.device()), noise);

  // the prediction starts at the oldest observation; the current step is index To - 1
  const Tensor action = normalizer_->Unnormalize("action", naction);
  const std::int64_t start = spec_.horizons.n_obs_steps - 1;
  return action.narrow(/*dim=*/1, start, spec_.horizons.n_action_steps).contiguous();
}

Tensor DiffusionPolicy::ConditionalSample(const Tensor& cond, const Tensor& initial,
                                          NoiseSource& noise) {
  Tensor naction = initial;
  {
    // InferenceMode uses cheaper operators, but its tensors must not leave it: hence the copy below
    const c10::InferenceMode inference;
    const std::vector<std::int64_t>& timesteps = scheduler_.timesteps();
    const ConditionedDenoiser predict = [&] {
      RECORD_USER_SCOPE("conditioning");
      return model_.denoiser->Condition(timesteps, cond);
    }();
    TraceStage("noise", naction);
    for (std::size_t i = 0; i < timesteps.size(); ++i) {
      RECORD_USER_SCOPE("denoising step");
      if (IsTracingStages()) TraceStage("timestep", torch::tensor(timesteps[i]));
      const Tensor prediction = predict(naction, static_cast<std::int64_t>(i));
      Tensor variance_noise;
      if (scheduler_.NeedsNoise(timesteps[i])) {
        variance_noise = noise.Randn(StreamId::kPolicyNoise, naction.sizes()).to(naction.device());
      }
      const auto step = scheduler_.Step(prediction, timesteps[i], naction, variance_noise,
                                        /*count_clipped=*/IsTracingStages());
      TraceStage("denoised action", step.pred_original_sample);
      if (step.n_clipped.defined()) TraceStage("clipped values", step.n_clipped);
      naction = step.prev_sample;
      TraceStage("sample", naction);
    }
  }
  return naction.clone();
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
