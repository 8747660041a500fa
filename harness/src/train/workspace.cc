// Construction and the training loop.
#include "train/workspace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "control/roll_forward.h"
#include "core/console.h"
#include "core/errors.h"
#include "data/key_check.h"
#include "data/mixture.h"
#include "data/split.h"
#include "policy/device.h"
#include "train/batches.h"

namespace dp_bench::train {
namespace {

constexpr std::int64_t kMaxSampleRows = 64;  // of the batch whose actions are sampled and compared

// Says which part of a dataset the limit leaves out.
void TellLimit(const Config& section, std::int64_t n_train, std::int64_t n_val,
               std::int64_t n_episodes) {
  if (n_train + n_val == n_episodes) return;
  core::LogWarning("trains on {} of {} episodes, {} more validate: {} leaves out {}", n_train,
                   n_episodes, n_val, section.Where("max_train_episodes"),
                   n_episodes - n_train - n_val);
}

// What is rolled forward in the training samples; nothing without training.max_roll_forward.
control::FollowedActions FollowedInTraining(const Config& config, const TrainingConfig& training,
                                            const Policy& policy) {
  if (training.max_roll_forward == 0) return {};
  const PolicySpec& spec = policy.spec();
  if (policy.n_train_obs_steps() != spec.horizons.n_obs_steps) {
    throw ConfigError(
        "{} needs a policy that trains on what it observes when it acts, n_obs_steps = {} steps; "
        "found one that trains on {}. Set it to 0.",
        config.Sub("training").Where("max_roll_forward"), spec.horizons.n_obs_steps,
        policy.n_train_obs_steps());
  }
  auto followed = control::ReadFollowedActions(
      config.Sub("env_runner").Sub("chunking").Sub("followed_actions"));
  control::RequireFits(followed, spec.shape_meta);
  return followed;
}

}  // namespace

Workspace::Workspace(WorkspaceParts parts)
    : parts_(std::move(parts)),
      parallel_(parts_.ranks != nullptr ? *parts_.ranks : alone_),
      config_(TrainingConfig::FromConfig(parts_.config.Sub("training"))),
      checkpoint_config_(CheckpointConfig::FromConfig(parts_.config.Sub("checkpoint"))),
      loader_config_(DataLoaderConfig::FromConfig(parts_.config.Sub("dataloader"), true)),
      normalizer_config_(NormalizerConfig::FromConfig(parts_.config.Sub("normalizer"))),
      logging_config_(LoggingConfig::FromConfig(parts_.config.Sub("logging"))),
      device_(policy::OpenDevice(config_.device)),
      store_(parts_.output_dir / "checkpoints", parts_.after_store_step),
      schedule_(config_, checkpoint_config_) {
  if (!parallel_.is_root()) parts_.progress.file = nullptr;
  DPB_ASSERT(config_.teacher.has_value() == (parts_.teacher != nullptr));
  // LibTorch draws the initial weights from its global generator
  torch::manual_seed(config_.seed);
  step_ = std::make_unique<TrainStep>(TrainStep::Parts{.config = parts_.config,
                                                       .create_policy = parts_.create_policy,
                                                       .device = device_,
                                                       .parallel = parallel_,
                                                       .grad_scaler = state_.grad_scaler,
                                                       .teacher = parts_.teacher});
  CreateLoaders();
}

Workspace::~Workspace() = default;

void Workspace::CreateLoaders() {
  const PolicySpec& spec = step_->policy().spec();
  const auto split_config = SplitConfig::FromConfig(parts_.config.Sub("dataset"));
  const auto val_config = DataLoaderConfig::FromConfig(parts_.config.Sub("val_dataloader"), false);
  const auto n_episodes = static_cast<std::int64_t>(parts_.dataset.episode_ends().size());
  data::RequireKeys(parts_.dataset.spec(), spec.shape_meta);
  const data::Split split = data::SplitEpisodes(n_episodes, split_config.val_ratio,
                                                split_config.max_train_episodes, split_config.seed);
  const std::int64_t n_train = std::ranges::count(split.train, true);
  const std::int64_t n_val = std::ranges::count(split.val, true);
  if (parallel_.is_root()) TellLimit(parts_.config.Sub("dataset"), n_train, n_val, n_episodes);

  const data::Shard shard = parallel_.shard();
  if (loader_config_.batch_size < shard.count) {
    throw ConfigError(
        "{} is {}, but {} ranks share a batch and each needs a row of it. Raise it, or start fewer "
        "ranks.",
        parts_.config.Sub("dataloader").Where("batch_size"), loader_config_.batch_size,
        shard.count);
  }
  data::RequireSequences(parts_.dataset, spec.horizons, split.train);
  const data::SequenceSampler sampler =
      data::MakeTrainingSampler(parts_.dataset, spec.horizons, split.train);
  const data::Mixture* const mixture = data::Mixture::Find(parts_.dataset);
  // trainings of older versions go on without effect
  if (!loader_config_.shuffle && !store_.HasCheckpoints() && mixture != nullptr &&
      !mixture->PoolsOf(sampler).empty()) {
    throw ConfigError(
        "{}: expected true with dataset.mixture.sampling=balanced or weights, which draw the "
        "sequences of each epoch; found false",
        parts_.config.Sub("dataloader").Where("shuffle"));
  }
  const control::FollowedActions followed =
      FollowedInTraining(parts_.config, config_, step_->policy());
  const auto options_of = [&](const DataLoaderConfig& config) {
    data::BatchLoaderOptions options = LoaderOptions(step_->policy(), config);
    options.seed = config_.seed;
    options.shard = shard;
    options.max_roll_forward = config_.max_roll_forward;
    options.followed_actions = followed;
    return options;
  };
  data::BatchLoaderOptions options = options_of(loader_config_);
  train_loader_ = std::make_unique<data::BatchLoader>(parts_.dataset, sampler, options);
  batches_per_epoch_ =
      std::min(train_loader_->num_batches(),
               config_.max_train_steps.value_or(std::numeric_limits<std::int64_t>::max()));
  if (batches_per_epoch_ <= 0) {
    throw DataError("there is nothing to train on: {} episodes of {} give {} batches", n_train,
                    n_episodes, train_loader_->num_batches());
  }

  EpochEvaluation::Parts evaluation = {.config = config_, .parallel = parallel_, .device = device_};
  data::SequenceSampler of_val =
      data::MakeTrainingSampler(parts_.dataset, spec.horizons, split.val);
  if (of_val.size() > 0) {
    evaluation.val_loader = std::make_unique<data::BatchLoader>(parts_.dataset, std::move(of_val),
                                                                options_of(val_config));
  } else {
    TellNoValLoss(n_val);
  }

  if (config_.sample_every > 0) {  // the first rows of the first epoch, as upstream
    options.batch_size = std::min(options.batch_size, kMaxSampleRows);
    options.n_threads = 0;
    data::BatchLoader first(parts_.dataset, sampler, options);
    first.StartEpoch(0);
    first.Next(&evaluation.sampled);
  }
  evaluation_ = std::make_unique<EpochEvaluation>(std::move(evaluation));
}

void Workspace::TellNoValLoss(std::int64_t n_val) const {
  const std::string text =
      n_val == 0 ? "no val_loss: dataset.val_ratio leaves no validation episode"
                 : fmt::format(
                       "no val_loss: all {} validation episodes are shorter than a training "
                       "sequence. Choose others with dataset.seed, or more with dataset.val_ratio",
                       n_val);
  if (schedule_.IsRankedBy("val_loss") && !store_.HasCheckpoints()) {
    throw ConfigError("checkpoint.topk.monitor_key is val_loss, but there is {}", text);
  }
  if (n_val > 0 && parallel_.is_root()) core::LogWarning(text);
}

TrainReport Workspace::Run(const EvalFn& evaluate) {
  try {
    Prepare();
    Begin();
    Train(evaluate);
    progress_->Pause();
    writer_->Finish();
    if (parallel_.is_root()) store_.EndEmpty();
  } catch (...) {
    writer_.reset();  // waits for the checkpoint that is being written
    throw;
  }
  eval_policy().module().eval();
  eval_policy().WeightsChanged();
  report_.global_step = state_.global_step;
  report_.n_steps = state_.global_step - first_step_;
  report_.epoch = state_.epoch;
  report_.seconds = Elapsed();
  report_.samples_per_second = progress_->Rate(ProgressNow());
  return report_;
}

void Workspace::Train(const EvalFn& evaluate) {
  const bool has_time = !config_.max_minutes || seconds_before_ < *config_.max_minutes * 60.0;
  const bool has_work = state_.epoch < config_.num_epochs && !state_.last_step;
  report_.end = has_work && !has_time ? TrainEnd::kOutOfTime : TrainEnd::kFinished;
  while (state_.epoch < config_.num_epochs && report_.end == TrainEnd::kFinished) {
    if (TrainEpoch()) FinishEpoch(evaluate);
    const auto reason = state_.last_step ? TrainEnd::kInterrupted : ReasonToStop();
    if (reason && state_.epoch < config_.num_epochs) {
      Save({});
      report_.end = *reason;
    }
  }
}

bool Workspace::TrainEpoch() {
  if (state_.last_step) {  // an evaluation was interrupted: all batches of this epoch are done
    last_step_ = *std::exchange(state_.last_step, std::nullopt);
    return true;
  }
  step_->policy().module().train();
  train_loader_->StartEpoch(static_cast<std::uint64_t>(state_.epoch), state_.batch_in_epoch);
  data::HostBatch host;
  while (true) {
    writer_->ThrowIfFailed();
    log_->timer().Start();
    const bool has_batch = train_loader_->Next(&host);
    DPB_ASSERT(has_batch);
    log_->timer().Lap(StepPhase::kDataWait);
    last_step_ = TakeStep(host);
    ShowProgress();

    // the line of an epoch's last step waits for the epoch's metrics
    if (state_.batch_in_epoch + 1 == batches_per_epoch_) return true;
    log_->AddStep(state_, last_step_);
    ++state_.global_step;
    ++state_.batch_in_epoch;
    SaveSnapshotIfAsked();
    if (ReasonToStop()) return false;
  }
}

TrainStepResult Workspace::TakeStep(data::HostBatch& host) {
  const double base_lr = step_->optimizer().config().lr;
  const bool is_last_of_epoch = state_.batch_in_epoch + 1 == batches_per_epoch_;
  const StepPlace place = {
      .epoch = state_.epoch,
      .global_step = state_.global_step,
      .window_rows = WindowRows(),
      .ends_window =
          (state_.batch_in_epoch + 1) % config_.gradient_accumulate_every == 0 || is_last_of_epoch,
      .lr = base_lr *
            LrFactor(config_.lr_schedule, state_.optimizer_step, num_training_steps(), base_lr),
      .has_ranges = logging_config_.ranges_every > 0 &&
                    state_.global_step % logging_config_.ranges_every == 0};
  TrainStepResult result = RunStep(host, place);
  n_samples_ += result.n_rows;
  state_.train_loss_sum += result.loss;
  if (result.grad_norm) ++state_.optimizer_step;
  return result;
}

TrainStepResult Workspace::RunStep(data::HostBatch& host, const StepPlace& place) {
  std::string what;
  try {
    return step_->Run(host, place, log_->timer());
  } catch (const std::bad_alloc& error) {
    what = error.what();
  } catch (const c10::Error& error) {
    if (!policy::IsOutOfMemory(error)) throw;
    what = error.what_without_backtrace();
  }
  EndOutOfMemory(what);  // the step's tensors are gone by now
}

void Workspace::FinishEpoch(const EvalFn& evaluate) {
  report_.train_loss = state_.train_loss_sum / static_cast<double>(batches_per_epoch_);
  last_step_.loss = report_.train_loss;

  EvalFn paused;
  if (evaluate) {
    paused = [&](Policy& policy, int epoch) {
      progress_->Pause();
      return evaluate(policy, epoch);
    };
  }
  state_.last_step = last_step_;  // a run that is interrupted or copied now continues from here
  const double before = parts_.progress.now();
  auto results = evaluation_->Run(paused, step_->policy(), eval_policy(), state_.epoch);
  const double seconds = parts_.progress.now() - before;
  progress_->LeaveOut(seconds);
  if (!results) return;
  state_.last_step.reset();
  if (results->scores) {
    report_.metrics = results->scores->metrics;
    rollout_seconds_ += seconds;
    ++n_rollouts_;
    log_->AddImages(state_.global_step, results->scores->images);
  }
  log_->AddEpochEnd(state_, last_step_, results->metrics);
  results->metrics["train_loss"] = report_.train_loss;
  auto save = schedule_.EndEpoch(results->metrics, results->scores.has_value(), state_.epoch);

  // the next epoch begins
  ++state_.global_step;
  ++state_.epoch;
  state_.batch_in_epoch = 0;
  state_.train_loss_sum = 0.0;
  SaveNamedCheckpoints(state_.epoch - 1);  // first: if it is killed here, the epoch is repeated
  if (save) Save(std::move(*save));
}

Policy& Workspace::eval_policy() {
  return step_->ema_policy() != nullptr ? *step_->ema_policy() : step_->policy();
}

std::int64_t Workspace::UpdatesPerEpoch() const {
  const std::int64_t window = config_.gradient_accumulate_every;
  return (batches_per_epoch_ + window - 1) / window;
}

std::int64_t Workspace::num_training_steps() const {
  return UpdatesPerEpoch() * config_.num_epochs;
}

std::int64_t Workspace::WindowRows() const {
  const std::int64_t window = config_.gradient_accumulate_every;
  const std::int64_t first = state_.batch_in_epoch / window * window;
  const std::int64_t last = std::min(first + window, batches_per_epoch_);
  const std::int64_t n_samples = train_loader_->sampler().size();
  return std::min(last * loader_config_.batch_size, n_samples) - first * loader_config_.batch_size;
}

std::optional<TrainEnd> Workspace::ReasonToStop() const {
  enum Reason { kNone, kTime, kSignal };  // the larger one takes precedence
  Reason own = kNone;
  const bool has_limit = config_.max_minutes && parallel_.is_root();  // checkpoints keep its time
  if (has_limit && SecondsUsed() >= *config_.max_minutes * 60.0) own = kTime;
  if (parts_.stop != nullptr && parts_.stop->load()) own = kSignal;
  switch (parallel_.Max(own)) {
    case kSignal:
      return TrainEnd::kInterrupted;
    case kTime:
      return TrainEnd::kOutOfTime;
    default:
      return std::nullopt;
  }
}

double Workspace::Elapsed() const { return parts_.progress.now() - start_; }

double Workspace::SecondsUsed() const { return seconds_before_ + Elapsed(); }

core::ProgressState Workspace::ProgressNow() const {
  return {.done = state_.global_step,
          .total = batches_per_epoch_ * config_.num_epochs,
          .items = n_samples_,
          .unit = "samples"};
}

// The evaluations to come take as long as those so far.
double Workspace::ExpectedRolloutSeconds() const {
  if (n_rollouts_ == 0) return 0.0;
  int n_left = 0;
  for (int epoch = state_.epoch; epoch < config_.num_epochs; ++epoch) {
    n_left += config_.IsDue(config_.rollout_every, epoch) ? 1 : 0;
  }
  return n_left * rollout_seconds_ / n_rollouts_;
}

void Workspace::ShowProgress() {
  core::ProgressState now = ProgressNow();
  ++now.done;  // this step is not counted yet
  now.other_work = ExpectedRolloutSeconds();
  std::string suffix = fmt::format("loss {:.4f}", last_step_.loss);
  const auto success_rate = report_.metrics.find("test/success_rate");
  if (success_rate != report_.metrics.end()) {
    suffix += fmt::format("  success {:.0f} %", 100.0 * success_rate->second);
  }
  suffix += fmt::format("  lr {:.2e}", last_step_.lr);
  progress_->Update(now, fmt::format("epoch {}", state_.epoch), suffix);
}

}  // namespace dp_bench::train
