// Checkpoints of the workspace: start and resume, saving, snapshots.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/machine.h"
#include "core/sha256.h"
#include "data/stats.h"
#include "planner/policy_weights.h"
#include "run/run_checkpoint.h"
#include "train/clip_reach.h"
#include "train/fit_normalizer.h"
#include "train/resume_point.h"
#include "train/workspace.h"

namespace dp_bench::train {
namespace {

using Json = nlohmann::json;

/// The config without what differs between a run and its continuation.
Json RunConfig(const std::string& text) {
  Json json = core::ParseJson(text, "config.json", ErrorCode::kCheckpoint);
  const core::JsonView view(json, "config.json", ErrorCode::kCheckpoint);
  if (view.Has("training")) view.At("training").Members();  // throws unless it is an object
  json["training"]["resume"] = false;
  return json;
}

void WarnOfChanges(const std::string& before, const std::string& now) {
  std::vector<std::string> keys;
  for (const Json& change : Json::diff(RunConfig(before), RunConfig(now))) {
    keys.push_back(change.at("path").get<std::string>());
  }
  if (!keys.empty()) {
    core::LogWarning("the config differs from that of the checkpoint in: {}",
                     fmt::join(keys, ", "));
  }
}

/// The current gradients; they share memory with those of the parameters.
TensorMap Gradients(const std::vector<ParameterGroup>& groups) {
  TensorMap gradients;
  for (const ParameterGroup& group : groups) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const torch::Tensor& gradient = group.parameters[i].grad();
      if (gradient.defined()) gradients[group.names[i]] = gradient;
    }
  }
  return gradients;
}

void SetGradients(const TensorMap& gradients, const std::vector<ParameterGroup>& groups,
                  const std::string& origin) {
  for (const ParameterGroup& group : groups) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const auto found = gradients.find(group.names[i]);
      if (found == gradients.end()) continue;
      const torch::Tensor& parameter = group.parameters[i];
      if (found->second.sizes() != parameter.sizes()) {
        throw CheckpointError("the gradient of {} in '{}' has another shape than the parameter",
                              group.names[i], origin);
      }
      // with the parameter's device and order in memory
      parameter.mutable_grad() = torch::empty_like(parameter).copy_(found->second).detach();
    }
  }
}

std::filesystem::path CheckpointTarget(const std::filesystem::path& path) {
  const auto folder = std::filesystem::absolute(path).lexically_normal();
  auto target = folder.has_filename() ? folder : folder.parent_path();
  if (std::filesystem::exists(target) && !run::IsCheckpointFolder(target)) {
    throw UsageError("'{}' exists and is no checkpoint: a checkpoint replaces only another one",
                     target.string());
  }
  return target;
}

// Of the episodes and actions: enough to tell datasets apart, and quick to read.
std::string HashOfDataset(const Dataset& dataset) {
  constexpr std::int64_t kAtOnce = 1 << 16;  // steps
  core::Sha256 hash;
  hash.Update(std::as_bytes(dataset.episode_ends()));
  const int key = dataset.KeyIndex("action");
  const std::size_t size = dataset.spec().keys[static_cast<std::size_t>(key)].ByteSize();
  const std::int64_t n_steps = dataset.episode_ends().back();
  std::vector<std::byte> actions;
  for (std::int64_t begin = 0; begin < n_steps; begin += kAtOnce) {
    const std::int64_t end = std::min(n_steps, begin + kAtOnce);
    actions.resize(static_cast<std::size_t>(end - begin) * size);
    dataset.Read(key, begin, end, actions);
    hash.Update(actions);
  }
  return hash.HexDigest();
}

}  // namespace

std::optional<run::Checkpoint> Workspace::FindCheckpoint() const {
  if (config_.resume) {
    if (!parts_.resume_from.empty()) return run::Checkpoint::Open(parts_.resume_from);
    std::optional<run::Checkpoint> latest = store_.OpenLatest();
    if (!latest) RequireNothingToLose(parts_.output_dir);
    return latest;
  }
  if (!store_.HasCheckpoints()) return std::nullopt;
  throw UsageError(
      "'{}' already holds checkpoints. Continue with --resume, or give another --output folder.",
      store_.folder().string());
}

void Workspace::Prepare() {
  if (std::exchange(is_prepared_, true)) return;
  if (const auto checkpoint = FindCheckpoint()) {
    Restore(*checkpoint);
  } else {
    StartAnew();
  }
  for (const NamedCheckpoint& wanted : checkpoint_config_.save_at) {
    if (wanted.epoch < state_.epoch) continue;
    CheckpointTarget(wanted.path.empty() ? store_.folder() / wanted.tag : wanted.path);  // throws
  }
  step_->StartGradScaler();
  step_->policy().SetNormalizer(normalizer_);
  if (step_->ema_policy() != nullptr) step_->ema_policy()->SetNormalizer(normalizer_);
  RequireSameStart();  // all ranks have read the checkpoint, so that the first may change the files
}

void Workspace::Begin() {
  core::CreateFolders(parts_.output_dir);
  if (parallel_.is_root()) {
    store_.Repair();
    if (restored_from_.empty()) {
      store_.BeginEmpty();
    } else {
      CompleteSave();
    }
  }
  log_ = std::make_unique<TrainingLog>(TrainingLogParts{.run_folder = parts_.output_dir,
                                                        .config = logging_config_,
                                                        .groups = step_->optimizer().groups(),
                                                        .now = parts_.progress.now,
                                                        .is_written = parallel_.is_root()},
                                       state_);
  writer_ = std::make_unique<CheckpointWriter>(store_, checkpoint_config_.background,
                                               [this] { log_->Sync(); });
  progress_ = std::make_unique<core::Progress>(parts_.progress, state_.global_step);
  start_ = parts_.progress.now();
  first_step_ = state_.global_step;
}

void Workspace::RequireSameStart() const {
  if (parallel_.shard().count == 1) return;
  std::map<std::string, std::string> start = {
      {"config", RunConfig(parts_.config.ToJson()).dump()},
      {"training state", state_.ToJson()},
      {"number of training sequences", std::to_string(train_loader_->sampler().size())},
      {"weights", HashOfParameters(step_->policy().module())}};
  if (step_->ema_policy() != nullptr)
    start["EMA weights"] = HashOfParameters(step_->ema_policy()->module());
  parallel_.RequireSame(start);
}

void Workspace::RequireSameWeights() const {
  if (parallel_.shard().count == 1) return;
  parallel_.RequireSame({{"global_step", std::to_string(state_.global_step)},
                         {"weights", HashOfParameters(step_->policy().module())}});
}

void Workspace::StartAnew() {
  const CheckpointParts& parts = checkpoint_config_.parts;
  if (!parts.model && !(parts.ema && step_->ema() != nullptr)) {
    throw ConfigError(
        "checkpoint.include_keys: with training.use_ema=false a checkpoint without model has no "
        "policy");
  }
  state_.dataset_sha256 = HashOfDataset(parts_.dataset);
  const std::string missing = parts.MissingForResume(step_->ema() != nullptr);
  if (!missing.empty()) {
    core::LogWarning("the checkpoints of this training leave out {}: it cannot be resumed",
                     missing);
  }
  const auto& init = config_.init_checkpoint;
  std::optional<run::Checkpoint> origin;
  if (init) {
    origin = run::Checkpoint::Open(init->path);
    LoadInitialWeights(*origin);
  }
  normalizer_ =
      init && init->normalizer
          ? planner::NormalizerOf(*origin)
          : FitNormalizer(parts_.dataset, step_->policy().spec().shape_meta, normalizer_config_);
  if (parallel_.is_root()) {
    Normalizer::Fields of_data = normalizer_.fields();  // fitted to other data, maybe
    const auto action = of_data.find("action");
    if (init && init->normalizer && action != of_data.end()) {
      action->second.stats = data::ComputeStats(parts_.dataset, parts_.dataset.KeyIndex("action"));
    }
    WarnOfCutActions(Normalizer(std::move(of_data)), parts_.config);
  }
}

void Workspace::LoadInitialWeights(const run::Checkpoint& checkpoint) {
  const InitCheckpointConfig& init = *config_.init_checkpoint;
  const std::string_view file = planner::WeightsFile(
      checkpoint, init.weights == "ema" ? planner::Weights::kEma : planner::Weights::kModel);
  const std::string origin = (checkpoint.folder() / file).string();
  const ArrayMap tensors = checkpoint.ReadTensors(file);
  const std::size_t n_loaded =
      planner::LoadSelectedState(step_->policy().module(), tensors, init.tensors, origin);
  step_->policy().WeightsChanged();
  if (step_->ema_policy() != nullptr) {
    planner::LoadSelectedState(step_->ema_policy()->module(), tensors, init.tensors, origin);
    step_->ema_policy()->WeightsChanged();
  }
  core::LogInfo(
      "the training begins with {} of the policy's {} tensors from '{}'", n_loaded,
      step_->policy().module().parameters().size() + step_->policy().module().buffers().size(),
      origin);
}

// Older checkpoints have no hash.
void Workspace::RequireSameDataset(const std::string& origin) {
  const std::string found = HashOfDataset(parts_.dataset);
  if (state_.dataset_sha256 && state_.dataset_sha256 != found) {
    throw CheckpointError(
        "'{}' was trained on another dataset: its episodes or their actions differ. Resume with "
        "the dataset as it was, such as dataset.params.path=DATASET, or begin a new training with "
        "the weights: training.init_checkpoint.path={}",
        origin, origin);
  }
  state_.dataset_sha256 = found;
}

void Workspace::Restore(const run::Checkpoint& checkpoint) {
  const std::string origin = checkpoint.folder().string();
  RequireResumable(checkpoint, step_->ema() != nullptr);
  if (!parts_.resume_from.empty()) RequireLogOf(parts_.output_dir, checkpoint);
  WarnOfChanges(checkpoint.config(), parts_.config.ToJson());
  state_ = TrainState::FromJson(checkpoint.state(), origin);
  if (state_.batch_in_epoch >= batches_per_epoch_ ||
      state_.global_step != state_.epoch * batches_per_epoch_ + state_.batch_in_epoch) {
    throw CheckpointError(
        "'{}' was saved at step {}, after batch {} of epoch {}, but an epoch now has {} batches: "
        "the dataset changed, or what makes samples of it. Resume with the dataset as it was, or "
        "begin a new training with the weights: training.init_checkpoint.path={}",
        origin, state_.global_step, state_.batch_in_epoch, state_.epoch, batches_per_epoch_,
        origin);
  }
  RequireSameDataset(origin);
  const bool has_gradients = checkpoint.Has(run::kGradientsFile);
  const Json window =
      core::ValueAt(RunConfig(checkpoint.config()), "/training/gradient_accumulate_every");
  if (has_gradients != IsInWindow() ||
      (has_gradients && window != config_.gradient_accumulate_every)) {
    throw CheckpointError(
        "'{}' was saved after batch {} of its epoch, at a place in the accumulation window that "
        "does not fit training.gradient_accumulate_every {}",
        origin, state_.batch_in_epoch, config_.gradient_accumulate_every);
  }
  // keeps the place in the schedule of the learning rate
  if (window != config_.gradient_accumulate_every) {
    const std::int64_t of_epoch = state_.last_step
                                      ? UpdatesPerEpoch()
                                      : state_.batch_in_epoch / config_.gradient_accumulate_every;
    state_.optimizer_step = state_.epoch * UpdatesPerEpoch() + of_epoch;
  }
  planner::LoadModuleState(step_->policy().module(), checkpoint.ReadTensors(run::kModelFile),
                           origin);
  if (step_->ema() != nullptr) {
    planner::LoadModuleState(step_->ema_policy()->module(), checkpoint.ReadTensors(run::kEmaFile),
                             origin);
    step_->ema()->set_step(state_.ema_step);
  }
  step_->optimizer().LoadStateDict(checkpoint.ReadTensors(run::kOptimizerFile));
  if (IsInWindow() && parallel_.is_root()) {  // the root has those of all ranks
    SetGradients(planner::ToTensors(checkpoint.ReadTensors(run::kGradientsFile)),
                 step_->optimizer().groups(), origin);
  }
  normalizer_ = planner::NormalizerOf(checkpoint);
  step_->policy().WeightsChanged();
  if (step_->ema_policy() != nullptr) step_->ema_policy()->WeightsChanged();
  schedule_.set_topk(state_.topk);
  seconds_before_ = state_.seconds.value_or(0.0);
  restored_from_ = checkpoint.folder();
  report_.latest = restored_from_;
  core::LogInfo("resuming from '{}' at epoch {}, global_step {}", origin, state_.epoch,
                state_.global_step);
}

void Workspace::CompleteSave() {
  // what replaced `latest` when a crash cut that short is `latest` by now
  if (!std::filesystem::exists(restored_from_)) {
    report_.latest = restored_from_ = store_.folder() / run::kLatest;
  }
  for (const std::string& name : state_.saved_as) {
    if (std::filesystem::exists(store_.folder() / name)) continue;
    store_.Replace(name, [&](const std::filesystem::path& folder) {
      std::filesystem::copy(restored_from_, folder);
    });
  }
  if (state_.replaced) store_.Remove(*state_.replaced);
}

// Notes in the state what else the save does, and brings all of the state to the root.
void Workspace::BeginSave(const CheckpointSave& save) {
  state_.saved_as.clear();
  for (const auto& name : {save.best, save.kept}) {
    if (name) state_.saved_as.push_back(*name);
  }
  state_.replaced = save.remove;
  RequireSameWeights();
  if (IsInWindow()) parallel_.MoveGradientsToRoot(step_->optimizer().groups());
}

void Workspace::Save(CheckpointSave save) {
  if (save.is_latest) report_.latest = store_.folder() / run::kLatest;
  BeginSave(save);
  if (!parallel_.is_root()) return;
  writer_->Save(std::move(save), [this](run::CheckpointContents* contents) {
    CopyTo(contents, checkpoint_config_.parts);
  });
}

// With several ranks, the others still wait for this one in the middle of the step.
void Workspace::EndOutOfMemory(const std::string& what) {
  const bool can_save =
      parallel_.shard().count == 1 && state_.global_step > 0 && !step_->is_torn() && !IsInWindow();
  std::string kept = "There is no checkpoint yet.";
  try {
    if (can_save) {
      step_->optimizer().ZeroGrad();
      Save({});
    }
    writer_->Finish();
  } catch (const Error& error) {
    core::LogWarning("the last step could not be saved: {}", error.what());
  } catch (const std::exception&) {
    core::LogWarning("there is no memory to save the last step either");
  }
  if (const auto latest = store_.OpenLatest()) {
    const auto saved = TrainState::FromJson(latest->state(), latest->folder().string());
    kept = fmt::format(
        "The training up to step {} is kept in '{}'. --resume accepts training.mixed_precision and "
        "policy.params.gradient_checkpointing; with the other changes, begin a new training with "
        "its weights (training.init_checkpoint.path).",
        saved.global_step, latest->folder().string());
  }
  throw core::OutOfMemory(fmt::format(
      "{} at epoch {}, global_step {}\n  {}\n  What saves memory, in the order in which to try it: "
      "half of dataloader.batch_size with twice the training.gradient_accumulate_every, "
      "training.mixed_precision=bf16, policy.params.gradient_checkpointing=true, smaller images "
      "(policy.params.resize_shape), fewer cameras.",
      what, state_.epoch, state_.global_step, kept));
}

std::filesystem::path Workspace::SaveSnapshot(const std::string& tag) {
  BeginSave({});
  std::filesystem::path folder;
  if (parallel_.is_root()) {
    run::CheckpointContents contents;
    CopyTo(&contents, CheckpointParts{});
    folder = WriteSnapshot(parts_.output_dir, tag, contents, state_.log_position);
  }
  return parallel_.FromRoot(folder.string());
}

std::filesystem::path Workspace::SaveCheckpoint(const std::filesystem::path& path,
                                                const std::string& tag) {
  if (path.empty()) RequireCheckpointTag(tag, "the tag of a checkpoint");
  const std::filesystem::path target =
      CheckpointTarget(path.empty() ? store_.folder() / tag : path);
  BeginSave({});
  if (!parallel_.is_root()) return target;
  writer_->Finish();  // it may be writing into the same folder
  run::CheckpointContents contents;
  CopyTo(&contents, checkpoint_config_.parts);
  log_->Sync();
  run::CheckpointStore(target.parent_path()).Save(target.filename().string(), contents);
  return target;
}

void Workspace::SaveNamedCheckpoints(int epoch) {
  for (const NamedCheckpoint& wanted : checkpoint_config_.save_at) {
    if (wanted.epoch != epoch) continue;
    const auto folder = SaveCheckpoint(wanted.path, wanted.tag);
    if (parallel_.is_root()) core::LogInfo("checkpoint in '{}'", folder.string());
  }
}

void Workspace::SaveSnapshotIfAsked() {
  const bool is_asked = parts_.snapshot != nullptr && parts_.snapshot->exchange(false);
  if (parallel_.Max(is_asked ? 1 : 0) == 0) return;
  const auto folder = SaveSnapshot(fmt::format("step={:07}", state_.global_step));
  core::LogInfo("snapshot of the training in '{}'", folder.string());
}

void Workspace::CopyTo(run::CheckpointContents* contents, const CheckpointParts& parts) {
  state_.ema_step = step_->ema() != nullptr ? step_->ema()->step() : 0;
  state_.topk = schedule_.topk();
  if (config_.max_minutes || state_.seconds) state_.seconds = SecondsUsed();
  state_.log_position = log_->Flush();
  const auto file = [&](std::string_view name) { return &contents->tensors[std::string(name)]; };
  if (parts.model) planner::CopyModuleState(step_->policy().module(), file(run::kModelFile));
  if (parts.ema && step_->ema() != nullptr)
    planner::CopyModuleState(step_->ema_policy()->module(), file(run::kEmaFile));
  planner::CopyToArrays(planner::NormalizerState(normalizer_), file(run::kNormalizerFile));
  if (parts.optimizer)
    planner::CopyToArrays(step_->optimizer().StateDict(), file(run::kOptimizerFile));
  contents->tensors.erase(std::string(run::kGradientsFile));
  if (parts.optimizer && IsInWindow()) {
    planner::CopyToArrays(Gradients(step_->optimizer().groups()), file(run::kGradientsFile));
  }
  contents->config = RunConfig(parts_.config.ToJson()).dump(2) + "\n";
  contents->state = state_.ToJson();
}

bool Workspace::IsInWindow() const {
  // the last batch of an epoch ends its window, even if its evaluation was interrupted
  return !state_.last_step && state_.batch_in_epoch % config_.gradient_accumulate_every != 0;
}

}  // namespace dp_bench::train
