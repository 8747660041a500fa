// The workspace between two epochs: evaluation, validation, log lines. What of it goes to disk is
// in workspace_checkpoint.cc.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "train/device_batch.h"
#include "train/workspace.h"

namespace dp_bench::train {

void Workspace::FinishEpoch(const EvalFn& evaluate) {
  const int epoch = state_.epoch;
  report_.train_loss = state_.train_loss_sum / static_cast<double>(batches_per_epoch_);
  last_step_.loss = report_.train_loss;

  // evaluate the averaged weights
  std::map<std::string, double> metrics;
  const bool is_evaluated = evaluate && IsDue(config_.rollout_every);
  eval_policy().module().eval();
  eval_policy().WeightsChanged();
  if (is_evaluated) {
    progress_->Pause();
    state_.last_step = last_step_;  // whoever is interrupted or continued now begins with this
    const auto scores = evaluate(eval_policy(), epoch);
    if (!scores) return;
    state_.last_step.reset();
    metrics = report_.metrics = scores->metrics;
    log_->AddPictures(state_.global_step, scores->pictures);
  }
  if (val_loader_ && IsDue(config_.val_every)) metrics["val_loss"] = ValidationLoss();
  if (IsDue(config_.sample_every)) metrics["train_action_mse_error"] = ActionMse();
  log_->AddEpochEnd(state_, last_step_, metrics);
  metrics["train_loss"] = report_.train_loss;
  if (early_stop_) early_stop_->Observe(epoch, metrics, AreAllMetricsDue(), &state_.early_stop);

  const bool is_checkpoint_due = IsDue(config_.checkpoint_every) ||
                                 IsDue(checkpoint_config_.keep_every) || is_evaluated ||
                                 epoch + 1 == config_.num_epochs || IsEarlyStop();
  std::optional<CheckpointSave> save;
  if (is_checkpoint_due) save = SaveOfEpoch(metrics, is_evaluated);

  // the next epoch begins
  ++state_.global_step;
  ++state_.epoch;
  state_.batch_in_epoch = 0;
  state_.train_loss_sum = 0.0;
  if (save) Save(std::move(*save));
}

double Workspace::ValidationLoss() {
  const torch::NoGradGuard no_grad;
  step_->policy().module().eval();
  step_->policy()
      .WeightsChanged();  // without gradient, a network may use what it derived from weights
  val_loader_->StartEpoch(0);
  data::HostBatch host;
  double sum = 0.0;
  std::int64_t n_samples = 0;
  for (std::int64_t i = 0; i < config_.max_val_steps.value_or(val_loader_->num_batches()); ++i) {
    if (!val_loader_->Next(&host)) break;
    const auto n_rows = static_cast<std::int64_t>(host.indices.size());
    if (n_rows == 0) continue;  // fewer rows than ranks
    const Batch batch = ToBatch(host, step_->policy().spec().shape_meta, device_);
    // the same noise at every epoch, so that the curve shows the weights alone
    NoiseSource noise = BatchNoise(config_.seed, NoisePurpose::kValidation,
                                   static_cast<std::uint64_t>(i), n_rows, host.first_row);
    sum +=
        step_->policy().ComputeLoss(batch, noise).loss.item<double>() * static_cast<double>(n_rows);
    n_samples += n_rows;
  }
  const double mean = sum / static_cast<double>(std::max<std::int64_t>(n_samples, 1));
  return parallel_.MeanOverRows(mean, n_samples);
}

double Workspace::ActionMse() {
  const auto n_rows = static_cast<std::int64_t>(sampling_host_.indices.size());
  return parallel_.MeanOverRows(n_rows > 0 ? OwnActionMse() : 0.0, n_rows);
}

double Workspace::OwnActionMse() {
  const torch::NoGradGuard no_grad;
  Policy& policy = eval_policy();
  const Horizons& horizons = policy.spec().horizons;
  const Batch batch = ToBatch(sampling_host_, policy.spec().shape_meta, device_);
  NoiseSource noise = BatchNoise(config_.seed, NoisePurpose::kSampling, 0, batch.action.size(0),
                                 sampling_host_.first_row);
  const torch::Tensor predicted = policy.PredictAction(batch.obs, noise);  // [B, Ta, Da]

  // the executed steps of the recorded sequence; differs: upstream compares all T of them
  const std::int64_t start = horizons.n_obs_steps - 1;
  const torch::Tensor recorded = batch.action.slice(1, start, start + horizons.n_action_steps);
  return torch::mse_loss(predicted.to(device_), recorded).item<double>();
}

bool Workspace::IsDue(int every) const {
  return every > 0 && (state_.epoch % every == 0 || state_.epoch + 1 == config_.num_epochs);
}

bool Workspace::AreAllMetricsDue() const {
  const auto is_due = [this](int every) { return every == 0 || IsDue(every); };
  return is_due(config_.rollout_every) && is_due(config_.val_every) && is_due(config_.sample_every);
}

bool Workspace::IsEarlyStop() const {
  return early_stop_ && state_.epoch < config_.num_epochs && early_stop_->IsOver(state_.early_stop);
}

}  // namespace dp_bench::train
