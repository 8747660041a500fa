#include "suite/suite_run.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "config/json_source.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/folder_lock.h"
#include "core/json.h"
#include "data/replay_writer.h"
#include "data/zarr/metadata.h"
#include "run/manifest.h"
#include "run/run_contents.h"
#include "run/run_files.h"
#include "suite/child_processes.h"

namespace dp_bench::suite {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kSlice(50);
constexpr std::chrono::seconds kLookElsewhere(2);
constexpr std::size_t kMaxShown = 600;
constexpr std::string_view kPythonOverride = "env.params.python=";
constexpr const char* kTrainedFile = "trained";  // of kTrain, whose run folder does not say it

bool IsRun(StepKind kind) { return kind == StepKind::kRun || kind == StepKind::kEvaluate; }

// A kill may have come between the first two files of a run.
void RemoveLoneManifest(const fs::path& product) {
  if (fs::exists(product / run::kConfigFile)) return;
  const run::RunContents contents = run::LookIntoRun(product);
  if (contents.training.size() + contents.evaluation.size() == 1) {
    fs::remove(product / run::kManifestFile);
  }
}

// By the config of a run folder; 0 without one.
int TestSeedsOf(const fs::path& product) {
  const fs::path file = product / run::kConfigFile;
  if (!fs::exists(file)) return 0;
  return run::ReportSeeds(core::ReadJsonFile(file, config::kMaxConfigBytes)).n;
}

// A cell with a budget whose evaluation was begun, and so gets more seeds by `eval`.
bool IsExtended(const SuiteStep& step) {
  if (step.n_test == 0) return false;
  return step.kind == StepKind::kEvaluate || fs::exists(step.product / run::kEvalLogFile) ||
         fs::exists(step.product / run::kJournalFile);
}

// What --resume takes of a first command: what may differ between machines.
std::vector<std::string> ResumeCommand(const SuiteStep& step) {
  const std::vector<std::string>& first = step.command;
  const bool is_extended = IsExtended(step);
  std::vector<std::string> command = {is_extended ? "eval" : first.front(), "--resume",
                                      step.product.string()};
  for (std::size_t i = 1; i < first.size(); ++i) {
    if (first[i] == "--plugin-dir") command.insert(command.end(), {first[i], first[i + 1]});
    const bool is_free =
        step.kind != StepKind::kEvaluate && !is_extended && first[i].starts_with(kPythonOverride);
    if (is_free) command.push_back(first[i]);
  }
  if (is_extended) {  // it may have been interrupted on its way to more
    const int n_test = std::max(step.n_test, TestSeedsOf(step.product));
    command.push_back(fmt::format("env_runner.n_test={}", n_test));
  }
  return command;
}

// The command for the rest of the step; `starts_over`: an evaluation that cannot be continued, such
// as one of another machine.
std::vector<std::string> CommandNow(const SuiteStep& step, bool starts_over) {
  if (step.kind != StepKind::kCollect) RemoveLoneManifest(step.product);
  std::vector<std::string> command = CommandOf(step);
  const bool is_begun =
      step.kind != StepKind::kCollect && !run::LookIntoRun(step.product).is_empty();
  if (is_begun && !starts_over) return ResumeCommand(step);
  command.insert(command.begin() + 1, {"--output", step.product.string()});
  if (is_begun) command.insert(command.begin() + 1, "--overwrite");
  return command;
}

class SuiteRunner {
 public:
  SuiteRunner(std::span<const SuiteStep> steps, const std::vector<bool>& is_known,
              const SuiteRunOptions& options)
      : steps_(steps),
        options_(options),
        report_{.states = std::vector<StepState>(steps.size(), StepState::kWaiting)},
        starts_over_(steps.size(), false),
        children_(options.n_at_once) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (is_known[i] || IsDone(steps_[i])) report_.states[i] = StepState::kDone;
    }
    SkipUnneeded();
  }

  SuiteRunReport Run() {
    auto looked = std::chrono::steady_clock::now();
    bool is_asked = false;
    while (true) {
      TakeEnded();
      if (options_.stop && !is_asked) {
        children_.AskToEnd();
        is_asked = true;
      }
      while (!is_asked && children_.has_place() && StartNext()) {
      }
      if (children_.n_running() == 0 && (is_asked || !Has(StepState::kElsewhere))) break;
      if (children_.n_running() == 0 && !std::exchange(has_said_wait_, true)) {
        core::PrintStatus("waiting for steps that other processes run: {}\n", why_elsewhere_);
      }
      std::this_thread::sleep_for(kSlice);
      if (std::chrono::steady_clock::now() - looked < kLookElsewhere) continue;
      looked = std::chrono::steady_clock::now();
      LookElsewhere();
    }
    if (is_asked) report_.exit_code = core::kExitInterrupted;
    return report_;
  }

 private:
  void Set(std::size_t step, StepState state) {
    if (report_.states[step] == state) return;
    report_.states[step] = state;
    options_.changed(step, report_.states);
  }

  // Demonstrations and trainings whose users are all done.
  void SkipUnneeded() {
    std::vector<bool> is_needed(steps_.size(), false);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (report_.states[i] == StepState::kDone) continue;
      for (const std::size_t need : steps_[i].needs) is_needed[need] = true;
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!IsRun(steps_[i].kind) && !is_needed[i]) report_.states[i] = StepState::kDone;
    }
  }

  bool StartNext() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (CanStart(i) && TryStart(i)) return true;
    }
    return false;
  }

  // False if another process has it, or has just done it.
  bool TryStart(std::size_t step) {
    const SuiteStep& wanted = steps_[step];
    fs::create_directories(wanted.folder);
    try {
      auto lock = std::make_unique<core::FolderLock>(wanted.folder);
      // after a kill of the suite, a step may still be saving its work
      if (fs::exists(wanted.product)) const core::FolderLock of_step(wanted.product);
      if (IsDone(wanted)) {
        Set(step, StepState::kDone);
        return false;
      }
      children_.Start(step, CommandNow(wanted, starts_over_[step]), wanted.folder / kOutputFile);
      locks_[step] = std::move(lock);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;  // the lock
      Set(step, StepState::kElsewhere);
      why_elsewhere_ = error.what();
      return false;
    }
    Set(step, StepState::kRunning);
    return true;
  }

  bool CanStart(std::size_t step) {
    if (report_.states[step] != StepState::kWaiting) return false;
    for (const std::size_t need : steps_[step].needs) {
      const StepState state = report_.states[need];
      if (state == StepState::kFailed || state == StepState::kImpossible) {
        Set(step, StepState::kImpossible);
      }
      if (state != StepState::kDone) return false;
    }
    return true;
  }

  void TakeEnded() {
    while (const auto ended = children_.TakeEnded()) {
      const SuiteStep& step = steps_[ended->id];
      const int code =
          WIFEXITED(ended->status) ? WEXITSTATUS(ended->status) : 128 + WTERMSIG(ended->status);
      if (step.kind == StepKind::kTrain && code == 0) {
        core::WriteFileAtomically(step.folder / kTrainedFile, "\n");
      }
      locks_.erase(ended->id);
      if (IsDone(step)) {  // also with failed episodes, which the result tells
        Set(ended->id, StepState::kDone);
      } else if (code == core::kExitInterrupted || options_.stop ||
                 (code == ExitCodeFor(ErrorCode::kUsage) && CanTryAgain(ended->id))) {
        Set(ended->id, StepState::kWaiting);
      } else {
        if (report_.exit_code == 0) report_.exit_code = code != 0 ? code : 1;
        Set(ended->id, StepState::kFailed);
      }
    }
  }

  // A step of a killed suite may still save its work, and the evaluation of another outcome class
  // cannot be continued on this one, only begun again.
  bool CanTryAgain(std::size_t step) {
    const SuiteStep& ended = steps_[step];
    if (!fs::exists(ended.product)) return false;
    try {
      const core::FolderLock lock(ended.product);
    } catch (const Error&) {
      return true;
    }
    if (ended.kind != StepKind::kEvaluate || starts_over_[step]) return false;
    const std::string why = FailureOf(ended);
    starts_over_[step] = why.find(run::kBegunWithAnother) != std::string::npos;
    if (starts_over_[step]) core::PrintStatus("{}: {}\nit begins again\n", ended.title, why);
    return starts_over_[step];
  }

  // What another process did; what it gave up is ours.
  void LookElsewhere() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (report_.states[i] == StepState::kElsewhere) {
        Set(i, IsDone(steps_[i]) ? StepState::kDone : StepState::kWaiting);
      }
    }
  }

  bool Has(StepState state) const {
    return std::ranges::find(report_.states, state) != report_.states.end();
  }

  std::span<const SuiteStep> steps_;
  const SuiteRunOptions& options_;
  SuiteRunReport report_;
  std::vector<bool> starts_over_;
  bool has_said_wait_ = false;
  std::string why_elsewhere_;  // of the last one
  std::map<std::size_t, std::unique_ptr<core::FolderLock>> locks_;
  ChildProcesses children_;
};

}  // namespace

std::string FailureOf(const SuiteStep& step) {
  std::ifstream file(step.folder / kOutputFile);
  std::string message;
  bool is_error = false;
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    if (line.starts_with(kAttemptLine)) {
      message = "it printed nothing";
      is_error = false;
    } else if (line.starts_with(kSignalLine)) {
      message = fmt::format("{}; last output: {}", line.substr(kErrorPrefix.size()), message);
      is_error = false;
    } else if (line.starts_with(kErrorPrefix)) {
      message = line.substr(kErrorPrefix.size());
      is_error = true;
    } else if (is_error) {
      message += " " + line.substr(begin);
    } else {
      message = line;
    }
  }
  return message.substr(0, kMaxShown);
}

bool IsDone(const SuiteStep& step) {
  if (step.kind == StepKind::kTrain) {
    return fs::exists(step.folder / kTrainedFile) &&
           fs::is_directory(step.product / run::kCheckpointsFolder);
  }
  if (IsRun(step.kind)) {
    return run::LookIntoRun(step.product).is_finished &&
           (step.n_test == 0 || TestSeedsOf(step.product) >= step.n_test);
  }
  const nlohmann::json attributes = data::ReadReplayAttributes(step.product);
  return !attributes.is_null() &&
         attributes.value(zarr::kCompleteAttribute, nlohmann::json()) == true;
}

SuiteRunReport RunSteps(std::span<const SuiteStep> steps, const std::vector<bool>& is_known,
                        const SuiteRunOptions& options) {
  return SuiteRunner(steps, is_known, options).Run();
}

}  // namespace dp_bench::suite
