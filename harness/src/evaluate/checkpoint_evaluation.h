// Evaluates a checkpoint into a run folder: once, which can be resumed after a kill; or with each
// of several perturbations.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/evaluation.h"
#include "evaluate/recorded_dataset.h"
#include "run/episode_log.h"
#include "run/run_folder.h"
#include "run/shard.h"
#include "task/output_folder.h"

namespace dp_bench::evaluate {

struct CheckpointEvaluationOptions {
  task::ExperimentOptions experiment;  // without a config: the checkpoint's
  std::filesystem::path checkpoint;    // empty: the policy of `experiment`, which has no weights
  std::filesystem::path output;        // empty: a new run folder
  /// Folder of an interrupted evaluation, or of a run whose evaluation gets more seeds; instead of
  /// checkpoint and output.
  std::filesystem::path resume;
  bool overwrites = false;      // replaces an evaluation in `output`
  std::string weights = "ema";  // or "model"
  RecordingOptions recording;   // of a dataset; none by default
  /// Only the episodes of this shard, in a folder of its own below `output`, without results, which
  /// `dp_bench merge` makes of all shards. A shard that was begun there is continued.
  std::optional<run::SeedShard> shard;
};

/// The experiment of the options; its config is the checkpoint's if they name no other.
task::ExperimentOptions WithConfig(const CheckpointEvaluationOptions& options);

/// Takes checkpoint, weights and config from the folder to resume, and returns its files. Throws
/// Error{kUsage} unless it is the folder of an evaluation, or of a run whose training is over and
/// was evaluated; Error{kData} if its files are not of one run.
run::RunFolder TakeFromFolder(CheckpointEvaluationOptions* options);

class CheckpointEvaluation {
 public:
  /// Locks the folder, opens the checkpoint, checks everything, and writes manifest.json and
  /// config.json. If it resumes, they must exist with the same content, but env_runner.n_test may
  /// be raised: then a finished evaluation becomes an unfinished one that has its episodes. Throws
  /// Error{kUsage} if they differ otherwise, if the folder contains another run, or if another
  /// process writes there; Error{kCheckpoint}, Error{kConfig}. After an error the folder is
  /// unchanged. The ranks must outlive this object.
  CheckpointEvaluation(CheckpointEvaluationOptions options, core::Communicator& ranks);
  ~CheckpointEvaluation();

  const std::filesystem::path& folder() const { return folder_->path(); }

  /// The locked folder, to keep the lock after the evaluation.
  std::unique_ptr<task::OutputFolder> TakeFolder() { return std::move(folder_); }
  const rollout::EnvRunner& runner() const { return evaluation_->runner(); }

  /// Runs the given episodes (indices in the seed list) that the folder does not have yet, until a
  /// stop signal. The result includes those that it has.
  run::RunResult Run(std::span<const int> episodes);

  /// Runs the whole seed list, or the part of its shard, reports, and writes the recorded dataset
  /// if one was asked for. Returns the exit code, core::kExitInterrupted after a stop signal.
  int RunToItsEnd();

  /// Writes the results into the folder and prints them. Returns the exit code.
  int Report(const run::RunResult& result);

 private:
  void OpenFolder();
  void LoadPolicy();
  std::string CertifiedPolicy(const std::string& manifest);
  void WriteHead();
  void RequireExtension(const run::RunFolder& run) const;
  void FindEpisodes(const run::RunFolder& run);
  std::string ContinueShard(const std::string& manifest);
  int EndShard(const run::RunResult& result);
  std::vector<int> Missing(std::span<const int> episodes) const;
  std::string ContinueHead(const std::string& manifest);

  core::CostMeter meter_;
  CheckpointEvaluationOptions options_;
  core::Communicator& ranks_;
  std::unique_ptr<task::OutputFolder> folder_;
  std::unique_ptr<task::Experiment> experiment_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Evaluation> evaluation_;
  bool continues_ = false;                      // what is in the folder
  bool is_of_training_ = false;                 // the folder to resume is that of a run
  std::vector<run::EpisodeRecord> found_;       // of the folder to resume
  std::optional<run::EpisodeJournal> journal_;  // of this rank
};

/// Evaluates with `options`, then with each arm of `texts` (KIND or KIND=STRENGTH) in
/// perturbations/<arm> of the same run folder. Resuming runs only what is missing. Writes
/// perturbations.json and the report. Returns the exit code: kExitInterrupted after a stop signal,
/// that of failed episodes if any evaluation has one.
int EvaluateWithArms(CheckpointEvaluationOptions options, const std::vector<std::string>& texts,
                     core::Communicator& ranks);

/// With env_runner.realtime and no env_runner.realtime_latency_ms: measures the planning time at
/// batch 1 (median) and adds it to the overrides. So it is in the run's config.json, and outcomes
/// remain a function of checkpoint, env, seed and config. The numbers in
/// env_runner.chunking.latency.file get there too.
void ProvideRealtimeLatency(CheckpointEvaluationOptions* options, core::Communicator& ranks);

}  // namespace dp_bench::evaluate
