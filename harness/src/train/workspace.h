// The training of a policy, like diffusion_policy's TrainDiffusionUnetHybridWorkspace. After an
// interruption it continues bit for bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/communicator.h"
#include "core/progress.h"
#include "data/loader.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"
#include "run/checkpoint.h"
#include "train/checkpoint_schedule.h"
#include "train/data_parallel.h"
#include "train/epoch_evaluation.h"
#include "train/train_config.h"
#include "train/train_state.h"
#include "train/train_step.h"
#include "train/training_log.h"

namespace dp_bench::train {

struct WorkspaceParts {
  Config config;  // the whole run: training, optimizer, ema, dataloader, dataset, checkpoint,
                  // normalizer
  const Dataset& dataset;  // must outlive the workspace
  std::function<std::unique_ptr<Policy>()> create_policy;
  std::filesystem::path output_dir;
  const std::atomic<bool>* stop =
      nullptr;  // set by a signal handler: save and return at the next step
  std::atomic<bool>* snapshot = nullptr;  // set by one: snapshot at the next step, then cleared
  core::Progress::Output progress = core::Progress::StandardError();
  std::function<void(int step)> after_store_step = {};  // CheckpointStore's, for tests
  core::Communicator* ranks = nullptr;     // that train together, see Run; null: this process alone
  std::filesystem::path resume_from = {};  // with training.resume: this checkpoint, not the latest
  Policy* teacher = nullptr;  // needed with training.teacher; must outlive the workspace
};

enum class TrainEnd { kFinished, kInterrupted, kOutOfTime };

struct TrainReport {
  TrainEnd end = TrainEnd::kFinished;
  std::int64_t global_step = 0;
  std::int64_t n_steps = 0;               // of this process
  int epoch = 0;                          // epochs completed
  double train_loss = 0.0;                // mean over the last completed epoch of this process
  std::map<std::string, double> metrics;  // of the last evaluation
  std::optional<std::filesystem::path> latest;  // where the weights are
  double seconds = 0.0;                         // of this process
  double samples_per_second = 0.0;              // rows of batches, without the time of evaluations
};

class Workspace {
 public:
  /// Reads all its config sections and builds the parts. Throws Error{kConfig} for settings that
  /// cannot work.
  explicit Workspace(WorkspaceParts parts);
  ~Workspace();

  /// Loads the checkpoint to resume from, or makes a new training's start, and checks that it fits.
  /// Run does the same, unless it was done before. Writes nothing: a caller may refuse, or change
  /// the folder, afterwards. Throws Error{kCheckpoint} if a part is missing, damaged or of another
  /// network or optimizer, and if the folder has a training without its checkpoints
  /// (resume_point.h).
  void Prepare();

  /// Trains until num_epochs is reached. With training.resume, continues from `checkpoints/latest`
  /// or `resume_from`. A run that was interrupted and resumed leaves the same files as one that was
  /// not. Throws Error{kUsage} if the output folder has
  /// checkpoints and resume is off, and Error{kNumeric} with the sample indices if a loss or
  /// gradient is not finite. If writing a checkpoint in the background fails, the next step throws
  /// the error. Throws core::OutOfMemory if a step does not fit into memory; its message says which
  /// checkpoint is kept: that of the last finished step, if the gradients of no earlier batch are
  /// lost with this one. When this returns or throws, no checkpoint is being written any more.
  /// `evaluate` may be empty.
  ///
  /// Several ranks train one model with the same batches as one process, each on its rows of them.
  /// They end at the same step for the same reason, and the result differs only by rounding. All
  /// ranks call this with the same config. `evaluate` is called on all ranks and must return the
  /// same on all. Rank 0 writes the files. Throws Error{kCheckpoint} if the ranks do not have the
  /// same weights.
  TrainReport Run(const EvalFn& evaluate);

  /// Writes snapshots/`tag`, from which the run can be continued elsewhere (resume_point.h), and
  /// returns its folder. It has every part of the state, regardless of `checkpoint.exclude_keys`.
  /// To be called while Run is running, on its thread, between two steps or from `evaluate`. Waits
  /// for the disk. Throws Error{kIo}.
  std::filesystem::path SaveSnapshot(const std::string& tag);

  /// diffusion_policy's save_checkpoint: writes the checkpoint folder `path`, or checkpoints/`tag`
  /// if `path` is empty, and returns its absolute path. Replaces an older checkpoint there. It has
  /// the parts that the section `checkpoint` selects. To be called like SaveSnapshot. Throws
  /// Error{kUsage} for a tag that cannot be a checkpoint's name, or if another folder is there.
  std::filesystem::path SaveCheckpoint(const std::filesystem::path& path,
                                       const std::string& tag = "latest");

  /// The policy whose weights are evaluated: the EMA's if it is used.
  Policy& eval_policy();

  /// Fitted to the data or taken from a checkpoint. Empty before Run.
  const Normalizer& normalizer() const { return normalizer_; }

  std::int64_t num_training_steps() const;  // optimiser steps of the whole run

 private:
  void CreateLoaders();
  void TellNoValLoss(std::int64_t n_val) const;  // throws if it ranks the checkpoints
  std::optional<run::Checkpoint> FindCheckpoint() const;
  void Begin();  // the first files
  void Train(const EvalFn& evaluate);
  void StartAnew();
  void LoadInitialWeights(const run::Checkpoint& checkpoint);
  void Restore(const run::Checkpoint& checkpoint);
  void RequireSameDataset(const std::string& origin);  // of the checkpoint
  bool TrainEpoch();                                   // false: stopped before its end
  TrainStepResult TakeStep(data::HostBatch& host);
  TrainStepResult RunStep(data::HostBatch& host, const StepPlace& place);
  [[noreturn]] void EndOutOfMemory(const std::string& what);
  std::int64_t UpdatesPerEpoch() const;
  std::int64_t WindowRows() const;  // samples of the running accumulation window
  void FinishEpoch(const EvalFn& evaluate);
  void ShowProgress();
  double ExpectedRolloutSeconds() const;
  core::ProgressState ProgressNow() const;
  void CompleteSave();
  void BeginSave(const CheckpointSave& save);
  void Save(CheckpointSave save);
  void SaveNamedCheckpoints(int epoch);  // those of checkpoint.save_at
  void SaveSnapshotIfAsked();
  void CopyTo(run::CheckpointContents* contents, const CheckpointParts& parts);
  bool IsInWindow() const;  // of accumulated gradients, with some of its batches done
  std::optional<TrainEnd> ReasonToStop() const;
  double Elapsed() const;
  double SecondsUsed() const;  // by this process and those before it

  void RequireSameWeights() const;
  void RequireSameStart() const;

  WorkspaceParts parts_;
  core::SingleProcess alone_;
  DataParallel parallel_;
  TrainingConfig config_;
  CheckpointConfig checkpoint_config_;
  DataLoaderConfig loader_config_;
  NormalizerConfig normalizer_config_;
  LoggingConfig logging_config_;
  torch::Device device_;
  TrainState state_;
  std::unique_ptr<TrainStep> step_;  // refers to the loss scale in state_
  std::unique_ptr<data::BatchLoader> train_loader_;
  std::unique_ptr<EpochEvaluation> evaluation_;
  std::int64_t batches_per_epoch_ = 0;
  Normalizer normalizer_;
  bool is_prepared_ = false;
  std::filesystem::path restored_from_;  // empty: a new training

  run::CheckpointStore store_;
  CheckpointSchedule schedule_;
  std::unique_ptr<TrainingLog> log_;
  std::unique_ptr<CheckpointWriter> writer_;  // behind store and log, which it uses
  std::unique_ptr<core::Progress> progress_;
  TrainStepResult last_step_;
  double start_ = 0.0;  // [s] on the progress clock
  double seconds_before_ = 0.0;
  std::int64_t n_samples_ = 0;  // of all ranks, since then
  std::int64_t first_step_ = 0;
  // of this process, for the estimate of the time that is left
  double rollout_seconds_ = 0.0;
  int n_rollouts_ = 0;
  TrainReport report_;
};

}  // namespace dp_bench::train
