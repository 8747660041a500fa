#include "experiment/checkpoint_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/stop_signal.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "experiment/key_check.h"
#include "experiment/manifest.h"
#include "experiment/realtime.h"
#include "run/checkpoint.h"
#include "run/policy_weights.h"
#include "run/run_files.h"
#include "run/run_folder.h"
#include "run/run_id.h"

namespace dp_bench::experiment {
namespace fs = std::filesystem;

void TakeFromFolder(CheckpointEvaluationOptions* options) {
  const auto evaluated = run::EvaluatedCheckpoint(run::ReadRunManifest(options->resume));
  if (!evaluated) {
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' is not the folder of an evaluation: its {} names no checkpoint",
                            options->resume.string(), run::kManifestFile));
  }
  const run::RunFolder run = run::ReadRunFolder(options->resume);
  options->checkpoint = evaluated->folder;
  options->weights = evaluated->weights;
  options->experiment.config = run.config_file();
  if (run.config.empty()) run::RequireFinished(run);
}

CheckpointEvaluation::CheckpointEvaluation(CheckpointEvaluationOptions options,
                                           core::Communicator& ranks)
    : options_(std::move(options)), ranks_(ranks) {
  OpenFolder();
  if (!options_.resume.empty()) TakeFromFolder(&options_);
  if (options_.experiment.config.empty()) {
    options_.experiment.config = options_.checkpoint / run::kConfigFile;
  }
  if (options_.resume.empty()) ProvideRealtimeLatency(&options_, ranks_);
  const run::Checkpoint checkpoint = run::Checkpoint::Open(options_.checkpoint);
  experiment_ = std::make_unique<Experiment>(options_.experiment);
  policy_ = experiment_->LoadPolicy(checkpoint, options_.weights);
  if (folder_ == nullptr) folder_ = std::make_unique<OutputFolder>(*experiment_, ranks_);
  evaluation_ = std::make_unique<Evaluation>(*experiment_, ranks_, folder());
  evaluation_->SetNormalizer(run::NormalizerOf(checkpoint));
  RejectUnknownKeys(*experiment_, {.makes_policy = true, .is_of_checkpoint = true});

  // a signal between the first file and the first episode must not end the program
  core::CatchStopSignals();
  folder_->Begin();
  WriteHead();
}

void CheckpointEvaluation::OpenFolder() {
  if (!options_.resume.empty()) {
    folder_ = std::make_unique<OutputFolder>(options_.resume, OldRun::kContinue, ranks_);
  } else if (!options_.output.empty()) {
    folder_ = std::make_unique<OutputFolder>(
        options_.output, options_.overwrites ? OldRun::kOverwrite : OldRun::kMayOverwrite, ranks_);
  }
}

// The manifest has the hash of the config, so it is written first.
void CheckpointEvaluation::WriteHead() {
  std::string manifest = MakeManifest(*experiment_, ranks_.size(),
                                      run::CheckpointChoice{options_.checkpoint, options_.weights});
  if (options_.resume.empty()) {
    if (ranks_.is_root()) {
      WarnOfChangedPlugins(options_.checkpoint, manifest);
      manifest = WithCertificate(*experiment_, manifest);
    }
    manifest = ranks_.FromRoot(manifest);
    manifest = WriteRunHead(folder(), manifest, experiment_->config(), ranks_);
  } else {
    manifest = RequireSameManifest(folder(), manifest);
  }
  if (ranks_.size() > 1) return;
  if (!options_.resume.empty()) core::RemoveTemporaryFiles(folder());  // left by a kill
  journal_.emplace(folder() / run::kJournalFile, runner().metric_names(), run::RunIdOf(manifest));
}

CheckpointEvaluation::~CheckpointEvaluation() = default;

run::RunResult CheckpointEvaluation::Run(std::span<const int> episodes) {
  if (journal_) return RunJournalled(episodes);
  return evaluation_->Run(*policy_, experiment_->device(), episodes,
                          {.stop = &core::CatchStopSignals()});
}

run::RunResult CheckpointEvaluation::RunJournalled(std::span<const int> episodes) {
  std::vector<int> missing(episodes.begin(), episodes.end());
  std::vector<run::EpisodeRecord> found;
  for (const run::EpisodeRecord& record : journal_->found()) {
    if (std::erase(missing, record.episode) > 0) found.push_back(record);
  }
  const auto keep = [this](const run::EpisodeRecord& record) { journal_->Append(record); };
  run::RunResult result = evaluation_->Run(*policy_, experiment_->device(), missing,
                                           {.stop = &core::CatchStopSignals(), .on_episode = keep});
  std::ranges::copy(found, std::back_inserter(result.records));
  std::ranges::sort(result.records, {}, &run::EpisodeRecord::episode);
  return result;
}

int CheckpointEvaluation::Report(const run::RunResult& result) {
  if (!ranks_.is_root()) return 0;
  const run::PlanningRecord planning = evaluation_->RecordPlanning(*policy_, experiment_->device());
  const int exit_code = ReportEvaluation(result, planning, folder());
  fs::remove(folder() / run::kJournalFile);
  return exit_code;
}

}  // namespace dp_bench::experiment
