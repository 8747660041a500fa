#include "suite/suite_trial.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

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

}  // namespace

SuiteTrials::SuiteTrials(std::span<const SuiteStep> steps, const std::vector<std::size_t>& wanted,
                         int n_at_once, const std::atomic<bool>& stop)
    : steps_(steps) {
  const core::TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);  // nothing of a trial outlives this one
  std::vector<Trial*> waiting;
  for (const std::size_t step : wanted) {
    const SuiteStep& tried = TriedFor(step);
    const auto [trial, is_new] = trials_.try_emplace(tried.trial);
    if (!is_new) continue;
    trial->second.step = static_cast<std::size_t>(&tried - steps_.data());
    waiting.push_back(&trial->second);
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
      const SuiteStep& step = steps_[waiting[n_started]->step];
      const bool has_data =
          std::ranges::all_of(step.needs, [&](std::size_t need) { return IsDone(steps_[need]); });
      const fs::path own = folder_of(n_started);
      fs::create_directories(own);
      core::PrintStatus("trial of {}\n", step.title);
      children.Start(n_started, DryRunOf(step, has_data, own / kPredictionFile), own / kOutputFile);
      ++n_started;
    }
    std::this_thread::sleep_for(kTrialSlice);
  }
}

// Without its weights an evaluation cannot be tried; the dry run of the training evaluates too.
const SuiteStep& SuiteTrials::TriedFor(std::size_t step) const {
  const SuiteStep& wanted = steps_[step];
  if (wanted.kind != StepKind::kEvaluate || wanted.needs.empty()) return wanted;
  const SuiteStep& training = steps_[wanted.needs.front()];
  return IsDone(training) ? wanted : training;
}

std::optional<run::CostPrediction> SuiteTrials::CostOf(std::size_t step) const {
  const auto trial = trials_.find(TriedFor(step).trial);
  if (trial == trials_.end() || trial->second.costs.empty()) return std::nullopt;
  const run::CostPredictions& costs = trial->second.costs;
  const StepKind kind = steps_[step].kind;
  if (kind == StepKind::kRun || kind == StepKind::kCollect) return run::Sum(costs);
  const auto part =
      costs.find(kind == StepKind::kTrain ? run::kPredictedTraining : run::kPredictedEvaluation);
  return part == costs.end() ? std::nullopt : std::optional(part->second);
}

std::string SuiteTrials::FailureAt(std::size_t step) const {
  const auto trial = trials_.find(TriedFor(step).trial);
  return trial == trials_.end() ? "" : trial->second.failure;
}

}  // namespace dp_bench::suite
