// The evaluation of a checkpoint in a run folder of its own, which a kill does not lose.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "app/evaluate/evaluation.h"
#include "rollout/episode_journal.h"

namespace dp_bench {

struct CheckpointEvaluationOptions {
  ExperimentOptions experiment;  // without a config: the checkpoint's
  std::filesystem::path checkpoint;
  std::filesystem::path output;  // empty: a new run folder
  std::filesystem::path resume;  // folder of an interrupted evaluation, in place of the other two
  std::string weights = "ema";   // or "model"
};

class CheckpointEvaluation {
 public:
  /// Opens the checkpoint, and writes config.json and manifest.json into the folder; or finds them
  /// there as they would be written. Throws Error{kUsage} when they differ, Error{kCheckpoint},
  /// Error{kConfig}. The ranks must outlive it.
  CheckpointEvaluation(CheckpointEvaluationOptions options, Communicator& ranks);

  const std::filesystem::path& folder() const { return options_.output; }
  const EnvRunner& runner() const { return evaluation_->runner(); }

  /// Runs those of these places of the seed list that the folder does not have yet, until a stop
  /// signal; the result has the others of them too.
  RunResult Run(std::span<const int> episodes);

  /// Writes the results into the folder and prints them. Returns the exit code.
  int Report(const RunResult& result);

 private:
  void WriteManifest();
  RunResult RunJournalled(std::span<const int> episodes);

  CheckpointEvaluationOptions options_;
  Communicator& ranks_;
  std::unique_ptr<Experiment> experiment_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Evaluation> evaluation_;
  std::optional<EpisodeJournal> journal_;  // none with several ranks: they share no file
};

}  // namespace dp_bench
