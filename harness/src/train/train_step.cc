#include "train/train_step.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "core/console.h"
#include "core/errors.h"
#include "policy/guarded_policy.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/stage_recorder.h"
#include "train/batches.h"
#include "train/process_stages.h"

namespace dp_bench::train {

const char* NameOf(StepPhase phase) {
  constexpr std::array kNames = {"data", "forward", "backward", "optimizer", "EMA"};
  return kNames.at(static_cast<std::size_t>(phase));
}

TrainStep::TrainStep(const Parts& parts)
    : config_(TrainingConfig::FromConfig(parts.config.Sub("training"))),
      device_(parts.device),
      parallel_(parts.parallel),
      grad_scaler_(parts.grad_scaler),
      policy_plugin_(parts.config.Sub("policy").GetOptional<std::string>("plugin").value_or("")),
      policy_(parts.create_policy()) {
  if (!policy_->is_trainable()) {
    throw UsageError("policy plugin '{}' has nothing to train; roll it out with eval --policy",
                     policy_plugin_);
  }
  policy_->module().to(device_);
  parallel_.RequireNoBatchNorm(policy_->module());
  const auto optimizer = OptimizerConfig::FromConfig(parts.config.Sub("optimizer"));
  CheckBaseLr(config_.lr_schedule, optimizer.lr);
  FreezeParameters(policy_->module(), optimizer);
  optimizer_ =
      std::make_unique<Optimizer>(optimizer, MakeParameterGroups(policy_->module(), optimizer));

  const EmaConfig ema = EmaConfig::FromConfig(parts.config.Sub("ema"));
  if (!config_.use_ema) return;
  ema_policy_ = parts.create_policy();
  ema_policy_->module().to(device_);
  ema_ = std::make_unique<Ema>(ema, policy_->module(), ema_policy_->module());
  if (parts.teacher != nullptr) policy_->LearnFrom(*parts.teacher, *ema_policy_);
}

void TrainStep::StartGradScaler() {
  const bool is_scaling = config_.mixed_precision == MixedPrecision::kFp16;
  if (is_scaling && device_.is_cpu()) {
    core::LogWarning(
        "training.mixed_precision=fp16 on a CPU: most CPUs have no float16 products and take far "
        "longer than in float32; use bf16 on a CPU");
  }
  if (is_scaling && !grad_scaler_) {
    grad_scaler_.emplace();
    UnscaleGradients(optimizer_->groups(), 1.0 / grad_scaler_->scale);
  } else if (!is_scaling && grad_scaler_) {
    UnscaleGradients(optimizer_->groups(), grad_scaler_->scale);
    grad_scaler_.reset();
  }
}

TrainStepResult TrainStep::Run(data::HostBatch& host, const StepPlace& place, StepTimer& timer) {
  TrainStepResult own;
  TrainStepResult result;
  torch::Tensor loss;
  {
    RECORD_USER_SCOPE(NameOf(StepPhase::kForward));
    ProcessStages stages;
    loss = OwnLoss(host, place, &own, place.has_ranges ? &stages : nullptr);
    result = parallel_.MeanOverRows(own);
    RequireFinite(result.loss, "loss", place, host);
    if (place.has_ranges) result.parts.merge(ProcessRanges(stages, parallel_));
    timer.Lap(StepPhase::kForward);
  }
  {
    RECORD_USER_SCOPE(NameOf(StepPhase::kBackward));
    // rows have equal weight in every batch of the accumulation window
    const double weight = static_cast<double>(own.n_rows) / static_cast<double>(place.window_rows);
    const double factor = grad_scaler_ ? weight * grad_scaler_->scale : weight;
    if (loss.defined()) plugin::ComputeGradients(*policy_, factor == 1.0 ? loss : loss * factor);
    timer.Lap(StepPhase::kBackward);
  }
  result.lr = place.lr;
  if (!place.ends_window) return result;
  bool is_updated = false;
  {
    RECORD_USER_SCOPE(NameOf(StepPhase::kOptimizer));
    is_updated = UpdateWeights(place, host, &result);
    timer.Lap(StepPhase::kOptimizer);
  }
  if (!is_updated) {
    is_updating_ = false;
    SkipUpdate(place);
    return result;
  }
  RECORD_USER_SCOPE(NameOf(StepPhase::kEma));
  // differs: upstream averages after each batch, even if the weights did not change
  if (ema_) ema_->Update();
  is_updating_ = false;
  timer.Lap(StepPhase::kEma);
  return result;
}

torch::Tensor TrainStep::OwnLoss(data::HostBatch& host, const StepPlace& place,
                                 TrainStepResult* result, ProcessStages* stages) {
  result->n_rows = static_cast<std::int64_t>(host.indices.size());
  if (result->n_rows == 0) return {};  // fewer rows than ranks
  const Batch batch = ToBatch(host, policy_->spec().shape_meta, device_);
  NoiseSource noise =
      BatchNoise(config_.seed, NoisePurpose::kTraining,
                 static_cast<std::uint64_t>(place.global_step), result->n_rows, host.first_row);
  const policy::AutocastGuard autocast(device_.type(), ProductType(config_.mixed_precision));
  std::optional<policy::StageRecorder> recorder;
  if (stages != nullptr) recorder.emplace(std::bind_front(&ProcessStages::Note, stages));
  const LossOutput output = policy_->ComputeLoss(batch, noise);
  result->loss = output.loss.item<double>();
  for (const auto& [name, value] : output.parts) result->parts[name] = value.item<double>();
  return output.loss;
}

// False if float16 gradients overflowed: the weights did not change.
bool TrainStep::UpdateWeights(const StepPlace& place, const data::HostBatch& host,
                              TrainStepResult* result) {
  const double max_norm =
      config_.max_grad_norm > 0.0 ? config_.max_grad_norm : std::numeric_limits<double>::infinity();
  parallel_.SumGradients(optimizer_->groups());
  if (grad_scaler_) {
    const double scale = grad_scaler_->scale;
    const bool is_finite = UnscaleGradients(optimizer_->groups(), scale);
    is_updating_ = true;
    result->parts["grad_scale"] = scale;
    UpdateScale(is_finite, &*grad_scaler_);
    if (!is_finite) {
      optimizer_->ZeroGrad();
      return false;
    }
  }
  result->grad_norm = optimizer_->ClipGradNorm(max_norm).item<double>();
  RequireFinite(*result->grad_norm, "gradient norm", place, host);
  is_updating_ = true;
  optimizer_->Step(result->lr);
  optimizer_->ZeroGrad();
  return true;
}

// The optimizer, its schedule and the averaged weights ignore the step, as with
// torch.amp.GradScaler and accelerate's scheduler.
void TrainStep::SkipUpdate(const StepPlace& place) {
  const GradScalerState& scaler = *grad_scaler_;
  const std::string found = fmt::format("float16 gradients overflowed at epoch {}, global_step {}",
                                        place.epoch, place.global_step);
  if (scaler.skips_in_a_row < kMaxSkipsInARow) {
    if (parallel_.is_root()) {
      core::LogWarning("{}: the update is skipped, the loss scale is now {:g}", found,
                       scaler.scale);
    }
    return;
  }
  throw NumericError(
      "{}, like all of the last {} updates, down to a loss scale of {:g}. The last checkpoint is "
      "kept. Set training.mixed_precision to bf16 or no, or lower optimizer.lr.",
      found, scaler.skips_in_a_row, scaler.scale);
}

// Throws unless the number is finite. The message lists the samples of the batch.
void TrainStep::RequireFinite(double value, std::string_view what, const StepPlace& place,
                              const data::HostBatch& host) const {
  if (std::isfinite(value)) return;
  const std::string advice = place.global_step == 0
                                 ? fmt::format(
                                       "The weights are still those of the start: look at "
                                       "ComputeLoss of policy plugin '{}', and at these sequences.",
                                       policy_plugin_)
                                 : "The last checkpoint is kept. Lower optimizer.lr, set "
                                   "training.max_grad_norm, or look at these sequences.";
  throw NumericError(
      "the {} is {} at epoch {}, global_step {}, expected a finite number; the batch held the "
      "sequences [{}]. {}",
      what, value, place.epoch, place.global_step,
      fmt::join(parallel_.Concatenate(host.indices), ", "), advice);
}

}  // namespace dp_bench::train
