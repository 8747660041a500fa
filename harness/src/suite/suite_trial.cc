#include "suite/suite_trial.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "core/console.h"
#include "core/temporary_folder.h"
#include "suite/child_processes.h"
#include "suite/suite_run.h"

namespace dp_bench::suite {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kTrialSlice(50);
constexpr const char* kPredictionFile = "prediction.json";

// Without demonstrations the dry run collects a few of its own.
std::vector<std::string> DryRunOf(const SuiteStep& step, bool has_data, const fs::path& result) {
  std::vector<std::string> command = CommandOf(step);
  const auto dataset = std::ranges::find(command, "--dataset");
  if (!has_data && dataset != command.end()) command.erase(dataset, dataset + 2);
  command.insert(command.begin() + 1, {"--dry-run", "--json", result.string()});
  return command;
}

// Without its weights an evaluation cannot be tried; the dry run of the training evaluates too.
const SuiteStep& TriedFor(const SuiteStep& wanted, std::span<const SuiteStep> steps) {
  if (wanted.kind != StepKind::kEvaluate || wanted.needs.empty()) return wanted;
  const SuiteStep& training = steps[wanted.needs.front()];
  return IsDone(training) ? wanted : training;
}

// What a step of this kind takes of what its trial predicts; none if that failed.
std::optional<run::CostPrediction> CostOf(StepKind kind, const run::CostPredictions& costs) {
  if (costs.empty()) return std::nullopt;
  if (kind == StepKind::kRun || kind == StepKind::kCollect) return run::Sum(costs);
  const auto part =
      costs.find(kind == StepKind::kTrain ? run::kPredictedTraining : run::kPredictedEvaluation);
  return part == costs.end() ? std::nullopt : std::optional(part->second);
}

struct Trial {
  const SuiteStep* step = nullptr;
  run::CostPredictions costs;  // empty: failed
  std::string failure;
};

}  // namespace

std::vector<StepTrial> TrySteps(std::span<const SuiteStep> steps,
                                const std::vector<std::size_t>& wanted, int n_at_once,
                                const std::atomic<bool>& stop) {
  const core::TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);  // nothing of a trial outlives this one
  std::map<std::string, Trial> trials;
  std::vector<Trial*> waiting;
  std::vector<const Trial*> of_wanted;
  for (const std::size_t step : wanted) {
    const SuiteStep& tried = TriedFor(steps[step], steps);
    const auto [trial, is_new] = trials.try_emplace(tried.trial, Trial{.step = &tried});
    of_wanted.push_back(&trial->second);
    if (is_new) waiting.push_back(&trial->second);
  }
  const auto folder_of = [&](std::size_t i) { return folder.path() / std::to_string(i); };
  ChildProcesses children(n_at_once);
  std::size_t n_started = 0;
  while (!stop && (n_started < waiting.size() || children.n_running() > 0)) {
    while (const auto ended = children.TakeEnded()) {
      Trial& trial = *waiting[ended->id];
      const fs::path result = folder_of(ended->id) / kPredictionFile;
      if (ended->status == 0 && fs::exists(result)) {
        trial.costs = run::ReadPredictions(result);
      } else {
        trial.failure = FailureOf({.folder = folder_of(ended->id)});
      }
    }
    while (n_started < waiting.size() && children.has_place()) {
      const SuiteStep& step = *waiting[n_started]->step;
      const bool has_data =
          std::ranges::all_of(step.needs, [&](std::size_t need) { return IsDone(steps[need]); });
      const fs::path own = folder_of(n_started);
      fs::create_directories(own);
      core::PrintStatus("trial of {}\n", step.title);
      children.Start(n_started, DryRunOf(step, has_data, own / kPredictionFile), own / kOutputFile);
      ++n_started;
    }
    std::this_thread::sleep_for(kTrialSlice);
  }
  std::vector<StepTrial> found;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    found.push_back({.cost = CostOf(steps[wanted[i]].kind, of_wanted[i]->costs),
                     .failure = of_wanted[i]->failure});
  }
  return found;
}

}  // namespace dp_bench::suite
