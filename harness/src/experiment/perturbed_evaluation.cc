#include "experiment/perturbed_evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "compare/run_comparison.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "dp_bench/error.h"
#include "experiment/manifest.h"
#include "experiment/perturbation_arms.h"
#include "experiment/perturbation_effects.h"
#include "report/html_report.h"

namespace dp_bench::experiment {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArmsFolder = "perturbations";
constexpr const char* kResultsFile = "eval_log.json";  // written when all episodes have ended

bool IsFinished(const fs::path& folder) {
  return !folder.empty() && fs::exists(folder / kResultsFile);
}

// The config that arms perturb: of the checkpoint, or of the folder that is resumed.
ExperimentOptions Unperturbed(const CheckpointEvaluationOptions& options) {
  ExperimentOptions experiment = options.experiment;
  experiment.config =
      (options.resume.empty() ? options.checkpoint : options.resume) / "config.json";
  return experiment;
}

// Arms that a resumed folder lacks start from its checkpoint and config.
void TakeOriginFromFolder(CheckpointEvaluationOptions* options) {
  const auto evaluated =
      EvaluatedCheckpoint(core::ReadTextFile(options->resume / "manifest.json", 1U << 24));
  if (!evaluated) return;  // an error of the evaluation that resumes it
  options->checkpoint = evaluated->folder;
  options->weights = evaluated->weights;
  options->experiment.config = options->resume / "config.json";
}

CheckpointEvaluationOptions OptionsOf(const PerturbationArm& arm, const fs::path& folder,
                                      CheckpointEvaluationOptions options) {
  if (!options.resume.empty() && fs::exists(folder / "manifest.json")) {
    options.resume = folder;
    options.experiment.config.clear();
    return options;
  }
  options.resume.clear();
  options.output = folder;
  options.overwrites = true;  // a kill may have left the beginning of one
  std::ranges::copy(arm.overrides, std::back_inserter(options.experiment.overrides));
  return options;
}

// Writes what the arms did; true when no episode failed.
bool ReportEffects(const fs::path& control, const std::vector<PerturbationArm>& arms) {
  std::vector<fs::path> folders = {control};
  for (const PerturbationArm& arm : arms) folders.push_back(control / kArmsFolder / arm.name);
  const compare::RunComparison comparison =
      compare::CompareRuns(compare::ReadRunsToCompare(folders), {});
  const std::string json = PerturbationJson(comparison, arms).dump(2) + "\n";
  core::WriteFileAtomically(control / kEffectsFile, std::string_view(json));
  report::WriteHtmlReport(control);
  core::PrintResult("\n{}{}\n", PerturbationTable(comparison, arms),
                    (control / kEffectsFile).string());
  return std::ranges::all_of(comparison.runs, [](const compare::ComparedRun& run) {
    return std::ranges::none_of(run.files.episodes, [](const run::EpisodeRecord& record) {
      return record.failure_reason.has_value();
    });
  });
}

}  // namespace

int RunToItsEnd(CheckpointEvaluation& evaluation) {
  std::vector<int> all(evaluation.runner().jobs().size());
  std::iota(all.begin(), all.end(), 0);
  const run::RunResult result = evaluation.Run(all);
  if (result.is_interrupted) {
    core::PrintResult("interrupted after {} of {} episodes; continue with --resume {}\n",
                      result.records.size(), all.size(), evaluation.folder().string());
    return core::kExitInterrupted;
  }
  return evaluation.Report(result);
}

int EvaluateWithArms(CheckpointEvaluationOptions options, const std::vector<std::string>& texts,
                     core::Communicator& ranks) {
  const std::vector<PerturbationArm> arms = ReadArms(texts, Unperturbed(options));
  for (const PerturbationArm& arm : arms) {
    if (!arm.note.empty()) core::PrintResult("note: {}\n", arm.note);
  }
  const bool is_resumed = !options.resume.empty();
  fs::path control = is_resumed ? options.resume : options.output;
  std::unique_ptr<OutputFolder> held;  // the control's, which gets the effects at the end
  const auto run = [&](const CheckpointEvaluationOptions& evaluation_options) {
    if (is_resumed && IsFinished(evaluation_options.resume)) return true;
    CheckpointEvaluation evaluation(evaluation_options, ranks);
    if (control.empty()) control = evaluation.folder();
    const bool is_done = RunToItsEnd(evaluation) != core::kExitInterrupted;
    if (held == nullptr) held = evaluation.TakeFolder();
    return is_done;
  };
  if (is_resumed && IsFinished(control)) {
    held = std::make_unique<OutputFolder>(control, OldRun::kContinue, ranks);
  }
  bool is_done = run(options);
  if (is_resumed) TakeOriginFromFolder(&options);
  for (const PerturbationArm& arm : arms) {
    if (!is_done) break;
    core::PrintResult("\nperturbation {}\n", arm.name);
    is_done = run(OptionsOf(arm, control / kArmsFolder / arm.name, options));
  }
  if (!is_done) {
    core::PrintResult("with the arms: --resume {} --perturb {}\n", control.string(),
                      fmt::join(texts, ","));
    return core::kExitInterrupted;
  }
  if (!ranks.is_root()) return 0;
  return ReportEffects(control, arms) ? 0 : ExitCodeFor(ErrorCode::kEnv);
}

}  // namespace dp_bench::experiment
