#include "app/evaluation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "core/progress.h"
#include "dp_bench/error.h"
#include "report/console_table.h"
#include "report/html_report.h"
#include "rollout/episode_log.h"
#include "rollout/policy_planner.h"

namespace dp_bench {
namespace {

EnvRunnerConfig ReadConfig(const Experiment& experiment, bool with_videos) {
  EnvRunnerConfig config = EnvRunnerConfig::FromConfig(experiment.config().Sub("env_runner"));
  if (!with_videos) config.n_videos = 0;
  return config;
}

}  // namespace

Evaluation::Evaluation(const Experiment& experiment, const std::filesystem::path& output_dir,
                       bool with_videos)
    : config_(ReadConfig(experiment, with_videos)),
      runner_(
          config_, [&experiment] { return experiment.CreateEnv(); }, experiment.spec().shape_meta,
          experiment.spec().horizons, output_dir) {}

RunResult Evaluation::Run(Policy& policy, torch::Device device, const std::atomic<bool>* stop) {
  PolicyPlanner planner(policy, device, config_.micro_batch);
  Progress progress(Progress::StandardError(), 0);
  const auto show = [&](const RunProgress& state) {
    progress.Update({.done = state.n_done, .total = state.n_episodes, .unit = "episodes"},
                    "rollout",
                    fmt::format("mean score {:.3f}  failed {}", state.mean_score, state.n_failed));
  };
  RunResult result = runner_.Run(planner, show, stop);
  progress.Pause();
  return result;
}

std::map<std::string, double> MetricsOf(const RunResult& result) {
  std::map<std::string, double> metrics;
  for (const std::string split : {"train", "test"}) {
    const SplitSummary summary = Summarize(result.records, split);
    if (summary.n_episodes == 0) continue;
    metrics[split + "/mean_score"] = summary.mean_score;
    metrics[split + "/success_rate"] = summary.success_rate;
  }
  return metrics;
}

int ReportEvaluation(const RunResult& result, const std::filesystem::path& output_dir) {
  WriteEpisodeLog(output_dir, result);
  WriteHtmlReport(output_dir);
  fmt::print("{}", ResultTable(result));
  fmt::print("{:.1f} s for {} env steps, of which {:.1f} s in the policy\n", result.wall_s,
             result.n_env_steps, result.plan_s);
  fmt::print("report: {}\n", (output_dir / "report.html").string());
  for (const EpisodeRecord& record : result.records) {
    if (record.video_error.empty()) continue;
    fmt::print("no video of {} seed {}: {}\n", record.split, record.seed, record.video_error);
  }
  for (const EpisodeRecord& record : result.records) {
    if (record.failure_reason) return ExitCodeFor(ErrorCode::kEnv);
  }
  return 0;
}

}  // namespace dp_bench
