// dp_bench suite: fills a table of policies x tasks x training seeds.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/verbs.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "report/suite_page.h"
#include "run/shard.h"
#include "suite/suite_results.h"
#include "suite/suite_run.h"
#include "suite/suite_steps.h"
#include "suite/suite_trial.h"
#include "task/dry_run.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuiteExamples =
    R"(The file lists policies, tasks and training seeds; configs/suite/ has examples. What is done is not
done again: repeat the command after an interruption, or with a longer file. Several processes may
work on one --output.

Examples:
  dp_bench suite configs/suite/tiny.json
  dp_bench suite configs/suite/mt50.json --jobs 2 env.params.python=/opt/metaworld/bin/python
  dp_bench suite configs/suite/mt50.json --dry-run
  dp_bench suite configs/suite/mt50.json --budget 20000          # episodes go where they tell most
  dp_bench suite configs/suite/mt50.json --results other_machine/suite.json)";

struct SuiteVerbOptions {
  fs::path file;
  suite::SuiteOptions step_options;
  std::vector<fs::path> results;
  int n_jobs = 1;
  std::string shard;
  bool is_dry_run = false;
  int n_budget = 0;  // test episodes of all cells; 0: each has those of its config
};

// The steps that this process has nothing to do with: the cells of other shards count as known.
std::vector<bool> KnownIn(const std::string& shard, const std::vector<suite::SuiteStep>& steps,
                          std::vector<bool> known) {
  if (shard.empty()) return known;
  std::vector<std::size_t> cells;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].cell) cells.push_back(i);
  }
  std::vector<bool> is_ours(steps.size(), false);
  for (const int place : run::EpisodesOf(run::ReadShard(shard), static_cast<int>(cells.size()))) {
    is_ours[cells[static_cast<std::size_t>(place)]] = true;
  }
  for (const std::size_t i : cells) known[i] = known[i] || !is_ours[i];
  return known;
}

// What each of some steps took, or will take, by its folder.
using StepCosts = run::CostPredictions;

// Of the finished cells, by policy.
std::map<std::string, StepCosts> CostsOf(const std::vector<suite::SuiteStep>& steps,
                                         const report::SuiteExtras& extras) {
  std::map<std::string, StepCosts> costs;
  for (const suite::SuiteStep& step : steps) {
    if (!step.cell) continue;
    const auto cost = extras.costs.find(step.cell->folder);
    if (cost == extras.costs.end()) continue;
    run::CostPrediction& taken = costs[step.cell->policy][step.folder.string()];
    taken = run::PredictionFrom(cost->second, /*factor=*/1.0, /*tried=*/"");
    taken.disk_bytes = static_cast<double>(task::BytesBelow(step.folder));
  }
  return costs;
}

run::CostPrediction MeanOf(const StepCosts& costs) {
  run::CostPrediction mean = run::Sum(costs);
  const auto n = static_cast<double>(costs.size());
  mean.wall_s /= n;
  mean.cpu_s /= n;
  mean.disk_bytes /= n;
  return mean;
}

// Cells without results, and what they need that is not done.
std::vector<std::size_t> StepsToDo(const std::vector<suite::SuiteStep>& steps,
                                   const std::vector<bool>& known) {
  std::set<std::size_t> to_do;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].cell || known[i]) continue;
    to_do.insert(i);
    for (const std::size_t need : steps[i].needs) {
      if (!suite::IsDone(steps[need])) to_do.insert(need);
    }
  }
  return {to_do.begin(), to_do.end()};
}

void PrintCosts(std::string_view what, const StepCosts& costs, int n_jobs) {
  const run::CostPrediction sum = run::Sum(costs);
  core::PrintResult(
      "{} to do{}: about {} with --jobs {}, processor time {}, {:.2f} GiB on disk, {:.0f} MiB of "
      "memory for each job\n",
      costs.size(), what,
      core::FormatDuration(sum.wall_s / std::min(n_jobs, static_cast<int>(costs.size()))), n_jobs,
      core::FormatDuration(sum.cpu_s), sum.disk_bytes / (1 << 30),
      static_cast<double>(sum.peak_bytes) / (1 << 20));
}

// What is missing will take what the finished cells of the same policy took, or else what a trial
// says. Returns the exit code.
int PrintPlan(const SuiteVerbOptions& options, const std::vector<suite::SuiteStep>& steps,
              const suite::SuiteResults& results, const std::atomic<bool>& stop) {
  const int n_jobs = options.n_jobs;
  const std::vector<bool> done = results.known();
  const std::vector<bool> known = KnownIn(options.shard, steps, done);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].cell) continue;
    const std::string seeds =
        steps[i].n_test > 0 ? fmt::format(", {} test seeds", steps[i].n_test) : "";
    const char* const state = done[i] ? "done " : known[i] ? "other shard" : "to do";
    core::PrintResult("{}  {}{}\n", state, steps[i].title, seeds);
  }
  const std::map<std::string, StepCosts> finished = CostsOf(steps, results.Extras({}));
  std::map<std::string, StepCosts> by_source;
  StepCosts all;
  std::vector<std::size_t> to_try;
  const auto add = [&](std::size_t step, const std::string& source,
                       const run::CostPrediction& cost) {
    by_source[source][steps[step].folder.string()] = cost;
    all[steps[step].folder.string()] = cost;
  };
  for (const std::size_t i : StepsToDo(steps, known)) {
    const auto of_policy = finished.find(steps[i].cell ? steps[i].cell->policy : "");
    if (of_policy == finished.end()) {
      to_try.push_back(i);
      continue;
    }
    add(i, fmt::format(" of {}, from {} finished", of_policy->first, of_policy->second.size()),
        MeanOf(of_policy->second));
  }
  const std::vector<suite::StepTrial> trials = suite::TrySteps(steps, to_try, n_jobs, stop);
  if (stop) return core::kExitInterrupted;
  for (std::size_t i = 0; i < to_try.size(); ++i) {
    const suite::SuiteStep& step = steps[to_try[i]];
    const std::string whose = step.cell                                ? step.cell->policy
                              : step.kind == suite::StepKind::kCollect ? "demonstrations"
                                                                       : step.title;
    const auto& [cost, failure] = trials[i];
    if (!cost) {
      core::PrintResult("no estimate of {}: {}\n", step.title, failure);
      continue;
    }
    add(to_try[i], fmt::format(" of {}, from {}", whose, cost->tried), *cost);
  }
  if (!all.empty()) core::PrintResult("\n");
  for (const auto& [source, costs] : by_source) PrintCosts(source, costs, n_jobs);
  if (by_source.size() > 1) PrintCosts("", all, n_jobs);
  return 0;
}

std::ptrdiff_t CountCells(const std::vector<suite::SuiteStep>& steps) {
  return std::ranges::count_if(steps,
                               [](const suite::SuiteStep& step) { return step.cell.has_value(); });
}

// Says what happened to a step, and takes what it has done.
void NoteStep(const std::vector<suite::SuiteStep>& steps, std::size_t step,
              const std::vector<suite::StepState>& states, suite::SuiteResults* results) {
  const std::string& title = steps[step].title;
  if (states[step] == suite::StepState::kRunning) core::PrintStatus("begin   {}\n", title);
  if (states[step] == suite::StepState::kFailed) {
    core::PrintStatus("FAILED  {}: {}\n        see {}\n", title, suite::FailureOf(steps[step]),
                      (steps[step].folder / suite::kOutputFile).string());
  }
  if (states[step] != suite::StepState::kDone) return;
  results->Take(step);
  const auto n_known = std::ranges::count(results->known(), true);
  try {
    results->Write(states);
  } catch (const Error& error) {  // the steps that run must not end for that
    core::LogWarning("the results are not written yet: {}", error.what());
  }
  core::PrintStatus("done    {}  [{}/{}]\n", title, n_known, CountCells(steps));
}

// Runs what is not done.
suite::SuiteRunReport FillTable(const SuiteVerbOptions& options,
                                const std::vector<suite::SuiteStep>& steps,
                                const std::atomic<bool>& stop, suite::SuiteResults* results) {
  suite::SuiteRunReport report = suite::RunSteps(
      steps, KnownIn(options.shard, steps, results->known()),
      {.n_at_once = options.n_jobs,
       .stop = stop,
       .changed = [&](std::size_t step, const std::vector<suite::StepState>& states) {
         NoteStep(steps, step, states, results);
       }});
  results->TakeAll();
  results->Write(report.states);
  return report;
}

// Sets the test seeds of the cells to what the budget gives next. False after the last round.
bool BeginRound(int n_budget, suite::SuiteResults* results, std::vector<suite::SuiteStep>* steps) {
  const compare::BudgetRound& round = results->NextRound(n_budget);
  std::size_t cell = 0;
  for (suite::SuiteStep& step : *steps) {
    if (step.cell) step.n_test = round.n_seeds[cell++];
  }
  std::string what = fmt::format("round {}, where policies share a letter", round.index + 1);
  if (round.index == 0) {
    what = fmt::format("round 1, {} test seeds of each cell; later ones have up to {} episodes",
                       round.n_first, round.n_more);
  }
  if (round.is_over) {
    what = round.is_decided ? "on each task, all policies are told apart" : "the budget is spent";
  }
  core::PrintStatus("{} of {} test episodes: {}\n", round.n_episodes, n_budget, what);
  return !round.is_over;
}

// Round by round, up to one that is not completed.
suite::SuiteRunReport SpendBudget(const SuiteVerbOptions& options, const std::atomic<bool>& stop,
                                  suite::SuiteResults* results,
                                  std::vector<suite::SuiteStep>* steps) {
  suite::SuiteRunReport report;
  while (BeginRound(options.n_budget, results, steps)) {
    report = FillTable(options, *steps, stop, results);
    // a result that cannot be read would begin the same round again
    const auto n_known = std::ranges::count(results->known(), true);
    if (report.exit_code != 0 || n_known < CountCells(*steps)) return report;
  }
  results->Write(report.states);
  return report;
}

int RunSuite(SuiteVerbOptions options) {
  const std::atomic<bool>& stop = core::CatchStopSignals();
  const suite::SuiteFile suite = suite::ReadSuiteFile(options.file);
  fs::path& folder = options.step_options.folder;
  if (folder.empty()) folder = fs::path("runs") / "suites" / suite.name;
  folder = fs::absolute(folder).lexically_normal();  // it gets into configs
  options.step_options.has_budget = options.n_budget > 0;
  options.step_options.resolve = [&options](const config::ConfigRequest& request) {
    task::ExperimentOptions experiment{request};
    experiment.plugin_dirs = options.step_options.plugin_dirs;
    return task::ResolvedConfig(experiment);
  };
  std::vector<suite::SuiteStep> steps = suite::StepsOf(suite, options.step_options);
  suite::SuiteResults results(suite, steps, folder, options.results);
  if (options.is_dry_run) {
    if (options.n_budget > 0) BeginRound(options.n_budget, &results, &steps);
    return PrintPlan(options, steps, results, stop);
  }
  fs::create_directories(folder);
  const suite::SuiteRunReport report = options.n_budget > 0
                                           ? SpendBudget(options, stop, &results, &steps)
                                           : FillTable(options, steps, stop, &results);
  if (report.exit_code == core::kExitInterrupted) {
    core::PrintResult("interrupted; the same command continues\n");
    return report.exit_code;
  }
  const compare::SuiteTable table = results.Table();
  const report::SuiteExtras extras = results.Extras(report.states);
  core::PrintResult("{}\npage: {}\n", report::SuiteText(table, extras),
                    (folder / "suite.html").string());
  if (report.exit_code != 0) return report.exit_code;
  if (!extras.failed.empty()) return ExitCodeFor(ErrorCode::kData);
  const bool has_broken = std::ranges::any_of(
      table.cells, [](const compare::SuiteCell& cell) { return cell.n_failed > 0; });
  return has_broken ? ExitCodeFor(ErrorCode::kEnv) : 0;
}

}  // namespace

Verb AddSuite(CLI::App* app) {
  auto options = std::make_shared<SuiteVerbOptions>();
  app->footer(kSuiteExamples);
  app->add_option("file", options->file, "Policies, tasks and seeds")
      ->required()
      ->check(CLI::ExistingFile);
  app->add_option("--output", options->step_options.folder,
                  "Folder of the suite (default: runs/suites/<name>)");
  AddNumber(app, "--jobs", &options->n_jobs, 1, 1024,
            "Steps at once; the processors are divided between them");
  CLI::Option* shard = app->add_option(
      "--shard", options->shard,
      "i/n, from 0 on, or auto: only the i-th of n parts of the cells; join them with --results");
  AddNumber(
      app, "--budget", &options->n_budget, 1, 1'000'000'000,
      "Test episodes of all cells together, instead of env_runner.n_test of each: 10 for each "
      "cell first, then where policies share a letter on a task")
      ->excludes(shard);
  app->add_option("--results", options->results,
                  "suite.json of another folder or machine, whose cells count as done; may be "
                  "repeated")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  app->add_flag(
      "--dry-run", options->is_dry_run,
      "List what is done and what is missing, and predict time, memory and disk: from finished "
      "cells of the policy, or else from a trial of a few steps and episodes");
  AddDeviceOption(app, &options->step_options.device);
  AddConfigDirOption(app, &options->step_options.config_dirs);
  AddPluginDirOption(app, &options->step_options.plugin_dirs);
  app->add_option("overrides", options->step_options.overrides,
                  "Config values of every run: env_runner.n_test=100");
  return [options] { return RunSuite(*options); };
}

}  // namespace dp_bench::app
