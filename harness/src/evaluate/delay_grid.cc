#include "evaluate/delay_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compare/delay_curves.h"
#include "control/chunking_config.h"
#include "control/control_loop.h"
#include "control/latency_model.h"
#include "control/roll_forward.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/json.h"
#include "core/shell.h"
#include "dp_bench/policy.h"
#include "planner/correction_file.h"
#include "planner/policy_planner.h"
#include "report/delay_page.h"
#include "run/run_files.h"
#include "task/key_check.h"
#include "task/output_folder.h"
#include "task/sweep.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxGridBytes = std::size_t{64} << 20;
constexpr std::string_view kEnsembling = "temporal_ensembling";
constexpr double kEnsembleCoeff = 0.01;  // of Zhao et al. 2023

template <class T>
std::vector<T> OrOne(const std::vector<T>& values, T value) {
  return values.empty() ? std::vector<T>{value} : values;
}

void RequireMethods(const std::vector<std::string>& methods) {
  std::vector<std::string> known = control::ChunkingMethodNames();
  known.emplace_back(kEnsembling);
  for (const std::string& method : methods) {
    if (std::ranges::find(known, method) != known.end()) continue;
    throw UsageError("--chunking: expected some of {}, found '{}'", fmt::join(known, ", "), method);
  }
}

// A point of no delay would have that of the config. A resumed grid keeps its config.
void RequireNoOtherLatency(const DelayGrid& grid, const control::EnvRunnerConfig& runner,
                           bool is_resumed) {
  const char* setting = nullptr;
  if (!grid.delays.empty() && runner.realtime > 0.0) setting = "realtime=false";
  if (!grid.latencies_ms.empty() && runner.chunking.delay > 0) setting = "chunking.delay=0";
  if (runner.chunking.latency.is_random()) setting = "chunking.latency.distribution=none";
  if (setting == nullptr) return;
  throw UsageError(
      "the points of --delays and --latencies say how long a plan takes, and so does the config: "
      "{}set env_runner.{}",
      is_resumed ? "begin again in another --output, and " : "", setting);
}

// The folder of a point is named by what differs.
std::string FolderOf(const compare::DelayPoint& point) {
  std::string name = point.delay ? fmt::format("{}_delay_{}", point.method, *point.delay)
                                 : fmt::format("{}_latency_{:g}", point.method, *point.delay_ms);
  if (point.execute > 0) name += fmt::format("_execute_{}", point.execute);
  return name;
}

// What all points of a grid have in common.
struct GridSettings {
  double factor = 1.0;  // env_runner.realtime of points in ms
  double ensemble_coeff = kEnsembleCoeff;
};

std::vector<std::string> OverridesOf(const compare::DelayPoint& point,
                                     const GridSettings& settings) {
  const bool is_ensembling = point.method == kEnsembling;
  std::vector<std::string> overrides = {
      "env_runner.chunking.method=" + (is_ensembling ? "naive" : point.method),
      is_ensembling ? fmt::format("temporal_ensemble_coeff={}", settings.ensemble_coeff)
                    : "temporal_ensemble_coeff=null"};
  if (point.delay) {
    overrides.push_back(fmt::format("env_runner.chunking.delay={}", *point.delay));
  } else {
    const double realtime = *point.delay_ms > 0.0 ? settings.factor : 0.0;
    overrides.push_back(fmt::format("env_runner.realtime={:g}", realtime));
    overrides.push_back(fmt::format("env_runner.realtime_latency_ms={:g}", *point.delay_ms));
  }
  if (point.execute > 0) {
    overrides.push_back(fmt::format("env_runner.chunking.execute={}", point.execute));
  }
  return overrides;
}

// Adds the folders of points in which a plan takes more steps than are executed to `left_out`.
std::vector<compare::DelayPoint> PointsOf(const DelayGrid& grid,
                                          const control::EnvRunnerConfig& config,
                                          const Horizons& horizons,
                                          std::vector<std::string>* left_out) {
  const bool is_ensembling =
      horizons.temporal_ensemble_coeff && config.chunking.method == control::ChunkingMethod::kNaive;
  const std::string method(is_ensembling ? kEnsembling : Name(config.chunking.method));
  std::vector<compare::DelayPoint> points;
  for (const std::string& name : OrOne(grid.methods, method)) {
    for (const int execute : OrOne(grid.execute, config.chunking.execute)) {
      for (const int delay : grid.delays) {
        compare::DelayPoint point = {.method = name, .delay = delay, .execute = execute};
        if (execute > 0 && execute < delay) {
          left_out->push_back(FolderOf(point));
          continue;
        }
        points.push_back(std::move(point));
      }
      for (const double latency_ms : grid.latencies_ms) {
        points.push_back({.method = name, .delay_ms = latency_ms, .execute = execute});
      }
    }
  }
  if (points.empty()) {
    throw UsageError(
        "the grid has no point: a plan that takes more steps than are executed between two plans "
        "is left out");
  }
  return points;
}

CheckpointEvaluationOptions OptionsAt(const compare::DelayPoint& point,
                                      const CheckpointEvaluationOptions& options,
                                      const GridSettings& settings) {
  CheckpointEvaluationOptions at_point = options;
  std::ranges::copy(OverridesOf(point, settings),
                    std::back_inserter(at_point.experiment.overrides));
  return at_point;
}

// Finds what is wrong with the last point before the first one runs. Returns the points at which a
// plan is there only after the old chunk has ended.
std::vector<std::string> RequireValid(const std::vector<compare::DelayPoint>& points,
                                      const CheckpointEvaluationOptions& options,
                                      const GridSettings& settings, double control_hz,
                                      Policy& policy, torch::Device device) {
  std::vector<std::string> late;
  for (const compare::DelayPoint& point : points) {
    const task::Experiment experiment(WithConfig(OptionsAt(point, options, settings)));
    control::ChunkingConfig chunking = experiment.runner().chunking;
    if (point.delay_ms) {
      chunking.delay = control::ControlSteps(*point.delay_ms * settings.factor, control_hz);
    }
    static_cast<void>(planner::PolicyPlanner(policy, device, /*micro_batch=*/1, chunking));
    static_cast<void>(planner::ReadCorrection(chunking, experiment.spec()));
    if (chunking.method == control::ChunkingMethod::kStateRollForward) {
      control::RequireFits(chunking.followed, experiment.spec().shape_meta);
    }
    const Horizons& horizons = experiment.spec().horizons;
    const int n_used =
        chunking.delay + control::ExecuteSteps(chunking, horizons.n_action_steps, chunking.delay);
    const bool is_late = !horizons.temporal_ensemble_coeff && n_used > horizons.n_action_steps;
    if (is_late) late.push_back(FolderOf(point));
  }
  return late;
}

void NoteLatePoints(const std::vector<std::string>& late, const Horizons& horizons) {
  if (late.empty()) return;
  core::PrintResult(
      "note: plans are late at {}: a chunk has {} actions, fewer than execute + delay, and its "
      "last one is held until the next plan is there; n_action_steps may be up to {}\n",
      fmt::join(late, ", "), horizons.n_action_steps, horizons.horizon - horizons.n_obs_steps + 1);
}

// Locks the folder of the grid.
std::unique_ptr<task::OutputFolder> OpenGrid(const CheckpointEvaluationOptions& options,
                                             const task::Experiment& experiment,
                                             core::Communicator& ranks) {
  if (!options.resume.empty()) {
    return std::make_unique<task::OutputFolder>(options.resume, task::OldRun::kContinue, ranks);
  }
  const task::OldRun old_run =
      options.overwrites ? task::OldRun::kOverwrite : task::OldRun::kMayOverwrite;
  return options.output.empty()
             ? std::make_unique<task::OutputFolder>(experiment, ranks)
             : std::make_unique<task::OutputFolder>(options.output, old_run, ranks);
}

// What a resumed grid evaluates.
void VisitSubject(const core::JsonFields& fields, CheckpointEvaluationOptions* c) {
  std::string checkpoint = c->checkpoint.empty() ? "" : fs::absolute(c->checkpoint).string();
  fields("checkpoint", &checkpoint);
  c->checkpoint = checkpoint;
  fields("weights", &c->weights);
  fields("policy", &c->experiment.policy);
  fields("env", &c->experiment.env);
  fields("obs", &c->experiment.obs);
  fields("task", &c->experiment.task);
  fields("overrides", &c->experiment.overrides);
}

// Older versions averaged plans in all rows of an ensembling policy.
void RequireNamedAsItPlans(const compare::DelayPoint& point) {
  const fs::path file = point.folder / run::kConfigFile;
  if (point.method == kEnsembling || !fs::exists(file)) return;
  const nlohmann::json config = core::ReadJsonFile(file, kMaxGridBytes);
  if (!core::ValueAt(config, "/temporal_ensemble_coeff").is_number()) return;
  throw UsageError(
      "--resume: '{}' is of a version whose row {} averages plans; begin again in another --output",
      point.folder.parent_path().string(), point.method);
}

// Takes what the grid in `folder` evaluates, and returns its points.
std::vector<compare::DelayPoint> TakeSubject(const fs::path& folder,
                                             CheckpointEvaluationOptions* options) {
  task::ExperimentOptions& experiment = options->experiment;
  if (!experiment.overrides.empty()) {
    throw UsageError("--resume continues a grid with its own config; found {}",
                     fmt::join(experiment.overrides, " "));
  }
  const fs::path file = folder / run::kDelaysFile;
  const std::string text = core::ReadTextFile(file, kMaxGridBytes);
  const std::string origin = file.string();
  const nlohmann::json grid = core::ParseJson(text, origin);
  VisitSubject(core::JsonFields(core::JsonView(grid, origin).At("of")), options);
  experiment.takes_env_only = experiment.policy.empty() && !experiment.env.empty();
  std::vector<compare::DelayPoint> points = compare::ReadDelayGrid(text, folder, origin).points;
  for (const compare::DelayPoint& point : points) RequireNamedAsItPlans(point);
  return points;
}

// A resumed grid keeps its points.
void AddMissing(const std::vector<compare::DelayPoint>& asked,
                std::vector<compare::DelayPoint>* points) {
  for (const compare::DelayPoint& point : asked) {
    const bool is_there = std::ranges::any_of(*points, [&point](const compare::DelayPoint& other) {
      return FolderOf(other) == FolderOf(point);
    });
    if (!is_there) points->push_back(point);
  }
}

void WriteGrid(const fs::path& folder, const CheckpointEvaluationOptions& options,
               const std::vector<compare::DelayPoint>& points, bool is_quasi_static,
               const nlohmann::json& rows) {
  nlohmann::json grid = {{"of", core::ToFields(options, VisitSubject)},
                         {"is_quasi_static", is_quasi_static},
                         {"points", nlohmann::json::array()},
                         {"rows", rows}};
  for (const compare::DelayPoint& point : points) {
    grid["points"].push_back(compare::ToJson(point, folder));
  }
  core::WriteFileAtomically(folder / run::kDelaysFile, grid.dump(2) + "\n");
}

// A resumed grid keeps the points that are done, and continues one that was begun.
int RunPoints(const CheckpointEvaluationOptions& options,
              const std::vector<compare::DelayPoint>& points, const GridSettings& settings,
              core::Communicator& ranks) {
  const bool is_resumed = !options.resume.empty();
  std::vector<task::SweepRun> runs;
  for (const compare::DelayPoint& point : points) {
    runs.push_back({.title = "\n" + point.folder.filename().string(),
                    .folder = point.folder,
                    .overrides = OverridesOf(point, settings)});
  }
  const auto evaluate = [&](const task::SweepRun& run, task::SweepProgress progress) {
    CheckpointEvaluationOptions of_point = options;
    of_point.resume.clear();
    if (progress == task::SweepProgress::kBegun && is_resumed) {
      of_point.resume = run.folder;
      of_point.checkpoint.clear();
      of_point.experiment = {.plugin_dirs = options.experiment.plugin_dirs};
    } else {
      std::ranges::copy(run.overrides, std::back_inserter(of_point.experiment.overrides));
      of_point.output = run.folder;
    }
    return CheckpointEvaluation(of_point, ranks).RunToItsEnd();
  };
  const int exit_code = task::RunSweep(
      runs, is_resumed ? task::DoneRuns::kSkip : task::DoneRuns::kRepeat, ranks, evaluate);
  if (exit_code == core::kExitInterrupted) {
    core::PrintResult("the other points: repeat the command with --resume {}\n",
                      core::ShellWord(points.front().folder.parent_path().string()));
  }
  return exit_code;
}

void ReportGrid(const fs::path& folder, const CheckpointEvaluationOptions& options,
                const std::vector<compare::DelayPoint>& points, bool is_quasi_static) {
  const nlohmann::json rows = compare::CompareDelays(points, folder);
  WriteGrid(folder, options, points, is_quasi_static, rows);
  report::WriteDelayPage(rows, is_quasi_static, "dp_bench eval", folder / run::kDelaysPage);
  core::PrintResult("\n{}{}\n", report::DelayTable(rows), (folder / run::kDelaysPage).string());
}

}  // namespace

int EvaluateDelayGrid(CheckpointEvaluationOptions options, const DelayGrid& grid,
                      core::Communicator& ranks) {
  RequireMethods(grid.methods);
  std::vector<compare::DelayPoint> points;
  if (!options.resume.empty()) points = TakeSubject(options.resume, &options);
  const task::Experiment experiment(WithConfig(options));
  const control::EnvRunnerConfig runner = experiment.runner();
  RequireNoOtherLatency(grid, runner, !options.resume.empty());
  const Horizons& horizons = experiment.spec().horizons;
  const GridSettings settings = {
      .factor = runner.realtime > 0.0 ? runner.realtime : 1.0,
      .ensemble_coeff = horizons.temporal_ensemble_coeff.value_or(kEnsembleCoeff)};
  std::vector<std::string> left_out;
  AddMissing(PointsOf(grid, runner, horizons, &left_out), &points);
  const std::unique_ptr<task::OutputFolder> output = OpenGrid(options, experiment, ranks);
  const std::unique_ptr<Policy> policy = experiment.LoadPolicy(options.checkpoint, options.weights);
  task::RejectUnknownKeys(experiment, {.makes_policy = true, .is_of_checkpoint = true});
  const EnvSpec env = experiment.DescribeEnv();
  const std::vector<std::string> late =
      RequireValid(points, options, settings, env.control_hz, *policy, experiment.device());
  output->Begin();
  for (compare::DelayPoint& point : points) point.folder = output->path() / FolderOf(point);
  const bool is_quasi_static = !env.moves_without_actions;
  if (ranks.is_root()) {
    WriteGrid(output->path(), options, points, is_quasi_static, nlohmann::json::array());
  }

  if (!left_out.empty() && ranks.is_root()) {
    core::PrintResult("note: left out, because the delay is longer than execute: {}\n",
                      fmt::join(left_out, ", "));
  }
  if (ranks.is_root()) NoteLatePoints(late, horizons);
  if (is_quasi_static && ranks.is_root()) {
    core::PrintResult("note: env '{}' does not move without actions, so delays cost little there\n",
                      experiment.env_name());
  }
  const int exit_code = RunPoints(options, points, settings, ranks);
  if (exit_code == core::kExitInterrupted || !ranks.is_root()) return exit_code;
  ReportGrid(output->path(), options, points, is_quasi_static);
  return exit_code;
}

}  // namespace dp_bench::evaluate
