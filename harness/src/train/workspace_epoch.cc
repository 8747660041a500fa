// The workspace between two epochs: start and resume, validation, log lines, checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/policy_weights.h"
#include "core/log.h"
#include "dp_bench/error.h"
#include "train/device_batch.h"
#include "train/fit_normalizer.h"
#include "train/workspace.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;

/// The config without what differs between a run and its continuation.
Json RunConfig(const std::string& text) {
  Json json = Json::parse(text);
  json["training"]["resume"] = false;
  return json;
}

void WarnOfChanges(const std::string& before, const std::string& now) {
  std::vector<std::string> keys;
  for (const Json& change : Json::diff(RunConfig(before), RunConfig(now))) {
    keys.push_back(change.at("path").get<std::string>());
  }
  if (!keys.empty()) {
    LogWarning(fmt::format("the config differs from that of the checkpoint in: {}",
                           fmt::join(keys, ", ")));
  }
}

}  // namespace

void Workspace::StartOrResume() {
  std::filesystem::create_directories(parts_.output_dir);
  std::optional<Checkpoint> checkpoint;
  if (config_.resume) {
    store_.Repair();
    checkpoint = store_.OpenLatest();
  } else if (store_.HasCheckpoints()) {
    throw Error(
        ErrorCode::kUsage,
        fmt::format("'{}' already holds checkpoints. Continue with --resume, or give another "
                    "--output folder.",
                    store_.folder().string()));
  }

  if (checkpoint) {
    Restore(*checkpoint);
  } else {
    normalizer_ = FitNormalizer(parts_.dataset, policy_->spec().shape_meta, normalizer_config_);
  }
  policy_->SetNormalizer(normalizer_);
  if (ema_policy_) ema_policy_->SetNormalizer(normalizer_);
  log_ = std::make_unique<TrainingLog>(
      TrainingLogParts{.run_folder = parts_.output_dir,
                       .config = logging_config_,
                       .config_text = RunConfig(parts_.config.ToJson()).dump(2),
                       .groups = optimizer_->groups(),
                       .now = parts_.progress.now},
      state_);
  writer_ = std::make_unique<CheckpointWriter>(store_, checkpoint_config_.background,
                                               [this] { log_->Sync(); });
  progress_ = std::make_unique<Progress>(parts_.progress, state_.global_step);
  start_ = parts_.progress.now();
}

void Workspace::Restore(const Checkpoint& checkpoint) {
  const std::string origin = checkpoint.folder().string();
  WarnOfChanges(checkpoint.config(), parts_.config.ToJson());
  state_ = TrainState::FromJson(checkpoint.state(), origin);
  if (state_.batch_in_epoch >= batches_per_epoch_) {
    throw Error(
        ErrorCode::kCheckpoint,
        fmt::format("'{}' stands after batch {} of its epoch, but the epoch now has {}: the "
                    "data or dataloader.batch_size changed",
                    origin, state_.batch_in_epoch, batches_per_epoch_));
  }
  LoadModuleState(policy_->module(), checkpoint.ReadTensors(kModelFile), origin);
  if (ema_) {
    LoadModuleState(ema_policy_->module(), checkpoint.ReadTensors(kEmaFile), origin);
    ema_->set_step(state_.ema_step);
  }
  optimizer_->LoadStateDict(ToTensors(checkpoint.ReadTensors(kOptimizerFile)));
  normalizer_ = Normalizer::FromStateDict(ToTensors(checkpoint.ReadTensors(kNormalizerFile)));
  policy_->WeightsChanged();
  if (ema_policy_) ema_policy_->WeightsChanged();
  topk_.set_table(state_.topk);
  report_.latest = checkpoint.folder();
  LogInfo(fmt::format("resuming from '{}' at epoch {}, global_step {}", origin, state_.epoch,
                      state_.global_step));
}

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
    const auto scores = evaluate(eval_policy(), epoch);
    if (!scores) {
      state_.last_step = last_step_;
      return;
    }
    metrics = report_.metrics = *scores;
  }
  if (val_loader_ && IsDue(config_.val_every)) metrics["val_loss"] = ValidationLoss();
  if (IsDue(config_.sample_every)) metrics["train_action_mse_error"] = ActionMse();
  log_->AddEpochEnd(state_, last_step_, metrics);
  metrics["train_loss"] = report_.train_loss;
  if (early_stop_) early_stop_->Observe(epoch, metrics, AreAllMetricsDue(), &state_.early_stop);

  // the next epoch begins
  const bool is_checkpoint_due = IsDue(config_.checkpoint_every) || epoch + 1 == config_.num_epochs;
  ++state_.global_step;
  ++state_.epoch;
  state_.batch_in_epoch = 0;
  state_.train_loss_sum = 0.0;
  if (is_checkpoint_due || is_evaluated || IsEarlyStop()) SaveEpoch(epoch, metrics, is_evaluated);
}

double Workspace::ValidationLoss() {
  const torch::NoGradGuard no_grad;
  policy_->module().eval();
  val_loader_->StartEpoch(0);
  HostBatch host;
  double sum = 0.0;
  std::int64_t n_samples = 0;
  for (std::int64_t i = 0; i < config_.max_val_steps.value_or(val_loader_->num_batches()); ++i) {
    if (!val_loader_->Next(&host)) break;
    const Batch batch = ToBatch(host, policy_->spec().shape_meta, device_);
    const std::int64_t n_rows = batch.action.size(0);
    // the same noise at every epoch, so that the curve shows the weights alone
    NoiseSource noise =
        BatchNoise(config_.seed, NoisePurpose::kValidation, static_cast<std::uint64_t>(i), n_rows);
    sum += policy_->ComputeLoss(batch, noise).loss.item<double>() * static_cast<double>(n_rows);
    n_samples += n_rows;
  }
  return sum / static_cast<double>(std::max<std::int64_t>(n_samples, 1));
}

double Workspace::ActionMse() {
  const torch::NoGradGuard no_grad;
  Policy& policy = eval_policy();
  const Horizons& horizons = policy.spec().horizons;
  const Batch batch = ToBatch(sampling_host_, policy.spec().shape_meta, device_);
  NoiseSource noise = BatchNoise(config_.seed, NoisePurpose::kSampling, 0, batch.action.size(0));
  const torch::Tensor predicted = policy.PredictAction(batch.obs, noise);  // [B, Ta, Da]

  // the executed steps of the recorded sequence; differs: upstream compares all T of them
  const std::int64_t start = horizons.n_obs_steps - 1;
  const torch::Tensor recorded = batch.action.slice(1, start, start + horizons.n_action_steps);
  return torch::mse_loss(predicted.to(device_), recorded).item<double>();
}

void Workspace::SaveEpoch(int epoch, const std::map<std::string, double>& metrics,
                          bool is_evaluated) {
  std::optional<TopK::Decision> best;
  if (is_evaluated || topk_.IsMonitored(metrics)) best = topk_.Offer(epoch, metrics);
  CheckpointSave save = {.is_latest = checkpoint_config_.save_last_ckpt};
  if (best) {
    save.best = best->save;
    save.remove = best->remove;
  }
  Save(std::move(save));
}

void Workspace::Save(CheckpointSave save) {
  if (save.is_latest) report_.latest = store_.folder() / kLatest;
  writer_->Save(std::move(save), [this](CheckpointContents* contents) { CopyTo(contents); });
}

void Workspace::CopyTo(CheckpointContents* contents) {
  state_.ema_step = ema_ ? ema_->step() : 0;
  state_.topk = topk_.table();
  state_.log_position = log_->Flush();
  const auto file = [&](std::string_view name) { return &contents->tensors[std::string(name)]; };
  CopyModuleState(policy_->module(), file(kModelFile));
  if (ema_) CopyModuleState(ema_policy_->module(), file(kEmaFile));
  CopyToArrays(normalizer_.StateDict(), file(kNormalizerFile));
  CopyToArrays(optimizer_->StateDict(), file(kOptimizerFile));
  contents->config = RunConfig(parts_.config.ToJson()).dump(2) + "\n";
  contents->state = state_.ToJson();
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

}  // namespace dp_bench
