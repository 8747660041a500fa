// The evaluation of a checkpoint in a run folder of its own, which a kill does not lose.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "experiment/evaluation.h"
#include "experiment/output_folder.h"
#include "run/episode_journal.h"

namespace dp_bench::experiment {

struct CheckpointEvaluationOptions {
  ExperimentOptions experiment;  // without a config: the checkpoint's
  std::filesystem::path checkpoint;
  std::filesystem::path output;  // empty: a new run folder
  std::filesystem::path resume;  // folder of an interrupted evaluation, in place of the other two
  bool overwrites = false;       // an evaluation that `output` holds
  std::string weights = "ema";   // or "model"
};

/// Takes checkpoint, weights and config from the folder that is resumed: an evaluation that goes on
/// is its folder. Throws Error{kUsage} when it is not the folder of an evaluation, Error{kData}
/// when its files are not of one run.
void TakeFromFolder(CheckpointEvaluationOptions* options);

class CheckpointEvaluation {
 public:
  /// Locks the folder, opens the checkpoint, checks everything, and writes manifest.json and
  /// config.json; or finds them there as they would be written. Throws Error{kUsage} when they
  /// differ, when the folder holds another run, or when another process writes there;
  /// Error{kCheckpoint}, Error{kConfig}. The folder is then as it was. The ranks must outlive it.
  CheckpointEvaluation(CheckpointEvaluationOptions options, core::Communicator& ranks);
  ~CheckpointEvaluation();

  const std::filesystem::path& folder() const { return folder_->path(); }

  /// The lock of the folder, to keep it when the evaluation has ended.
  std::unique_ptr<OutputFolder> TakeFolder() { return std::move(folder_); }
  const rollout::EnvRunner& runner() const { return evaluation_->runner(); }

  /// Runs those of these places of the seed list that the folder does not have yet, until a stop
  /// signal; the result has the others of them too.
  run::RunResult Run(std::span<const int> episodes);

  /// Writes the results into the folder and prints them. Returns the exit code.
  int Report(const run::RunResult& result);

 private:
  void OpenFolder();
  void WriteHead();
  run::RunResult RunJournalled(std::span<const int> episodes);

  CheckpointEvaluationOptions options_;
  core::Communicator& ranks_;
  std::unique_ptr<OutputFolder> folder_;
  std::unique_ptr<Experiment> experiment_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Evaluation> evaluation_;
  std::optional<run::EpisodeJournal> journal_;  // none with several ranks: they share no file
};

}  // namespace dp_bench::experiment
