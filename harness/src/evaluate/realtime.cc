#include "evaluate/realtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "compare/intervals.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "dp_bench/policy.h"
#include "evaluate/policy_latency.h"
#include "report/evaluation_text.h"
#include "run/run_files.h"
#include "run/run_folder.h"
#include "task/key_check.h"
#include "task/sweep.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;

task::ExperimentOptions WithConfig(const CheckpointEvaluationOptions& options) {
  task::ExperimentOptions experiment = options.experiment;
  if (experiment.config.empty()) experiment.config = options.checkpoint / run::kConfigFile;
  return experiment;
}

control::EnvRunnerConfig RunnerConfig(const task::Experiment& experiment) {
  return control::EnvRunnerConfig::FromConfig(experiment.config().Sub("env_runner"));
}

// One evaluation for each latency, with the factor of the config.
std::vector<task::SweepRun> RunsAt(const std::vector<double>& latencies_ms, double factor,
                                   const fs::path& folder) {
  std::vector<task::SweepRun> runs;
  for (const double latency_ms : latencies_ms) {
    runs.push_back(
        {.folder = folder / fmt::format("latency_{:g}", latency_ms),
         .overrides = {fmt::format("env_runner.realtime={:g}", latency_ms > 0.0 ? factor : 0.0),
                       fmt::format("env_runner.realtime_latency_ms={:g}", latency_ms)}});
  }
  return runs;
}

// Locks the folder of the curve and checks checkpoint and keys, which all its evaluations share.
std::unique_ptr<task::OutputFolder> BeginCurve(const CheckpointEvaluationOptions& options,
                                               const task::Experiment& experiment,
                                               core::Communicator& ranks) {
  const task::OldRun old_run =
      options.overwrites ? task::OldRun::kOverwrite : task::OldRun::kMayOverwrite;
  auto output = options.output.empty()
                    ? std::make_unique<task::OutputFolder>(experiment, ranks)
                    : std::make_unique<task::OutputFolder>(options.output, old_run, ranks);
  experiment.LoadPolicy(run::Checkpoint::Open(options.checkpoint), options.weights);
  task::RejectUnknownKeys(experiment, {.makes_policy = true, .is_of_checkpoint = true});
  output->Begin();
  return output;
}

nlohmann::json RowOf(double latency_ms, const fs::path& folder) {
  const run::RunFolder run = run::ReadRunFolder(folder);
  const run::SplitSummary summary = run::Summarize(run.episodes, "test");
  const compare::RateInterval rate = compare::WilsonInterval(summary.n_success, summary.n_episodes);
  return {{"latency_ms", latency_ms},
          {"folder", folder.filename().string()},
          {"n_episodes", summary.n_episodes},
          {"n_success", summary.n_success},
          {"n_failed", summary.n_failed},
          {"success_rate", rate.rate},
          {"low", rate.low},
          {"high", rate.high},
          {"mean_score", summary.mean_score},
          {"n_steps", summary.n_steps},
          {"n_stale_steps", summary.n_stale_steps}};
}

}  // namespace

void ProvideRealtimeLatency(CheckpointEvaluationOptions* options, core::Communicator& ranks) {
  const task::Experiment experiment(WithConfig(*options));
  const control::EnvRunnerConfig runner = RunnerConfig(experiment);
  if (runner.realtime == 0.0 || runner.realtime_latency_ms > 0.0) return;
  const std::unique_ptr<Policy> policy =
      experiment.LoadPolicy(run::Checkpoint::Open(options->checkpoint), options->weights);
  const std::vector<control::RecordedObs> obs = {SyntheticObs(experiment.spec())};
  const run::LatencySummary latency =
      run::SummarizeLatency(MeasurePlanningAlone(*policy, experiment.device(), obs).chunk_s);
  const std::string ms = ranks.FromRoot(fmt::format("{:.3f}", 1e3 * latency.p50_s));
  core::PrintResult("a plan takes {} ms (median of {}): env_runner.realtime_latency_ms={}\n", ms,
                    latency.n, ms);
  options->experiment.overrides.push_back("env_runner.realtime_latency_ms=" + ms);
}

int EvaluateAtLatencies(const CheckpointEvaluationOptions& options,
                        const std::vector<double>& latencies_ms, core::Communicator& ranks) {
  const task::Experiment experiment(WithConfig(options));
  const double given = RunnerConfig(experiment).realtime;
  const std::unique_ptr<task::OutputFolder> output = BeginCurve(options, experiment, ranks);
  const std::vector<task::SweepRun> runs =
      RunsAt(latencies_ms, given > 0.0 ? given : 1.0, output->path());
  const auto evaluate = [&](const task::SweepRun& run, task::SweepProgress) {
    CheckpointEvaluationOptions at_latency = options;
    std::ranges::copy(run.overrides, std::back_inserter(at_latency.experiment.overrides));
    at_latency.output = run.folder;
    return CheckpointEvaluation(at_latency, ranks).RunToItsEnd();
  };
  const int exit_code = task::RunSweep(runs, task::DoneRuns::kRepeat, ranks, evaluate);
  if (exit_code == core::kExitInterrupted || !ranks.is_root()) return exit_code;
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    rows.push_back(RowOf(latencies_ms[i], runs[i].folder));
  }
  const fs::path summary = output->path() / run::kRealtimeFile;
  core::WriteFileAtomically(summary, std::string_view(rows.dump(2) + "\n"));
  core::PrintResult("\n{}{}\n", report::RealtimeTable(rows), summary.string());
  return exit_code;
}

}  // namespace dp_bench::evaluate
