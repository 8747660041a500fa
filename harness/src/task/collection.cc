#include "task/collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/console.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "data/collector.h"

namespace dp_bench::task {
namespace {

constexpr std::size_t kShownFailures = 5;

void PrintFailures(const data::CollectReport& report, const std::filesystem::path& folder) {
  const std::size_t n = report.failures.size();
  if (n == 0) return;
  core::PrintStatus("{} seed{} failed and {} skipped:\n", n, n == 1 ? "" : "s",
                    n == 1 ? "was" : "were");
  for (std::size_t i = 0; i < std::min(n, kShownFailures); ++i) {
    core::PrintStatus("  {}: {}\n", report.failures[i].seed, report.failures[i].reason);
  }
  if (n > kShownFailures) core::PrintStatus("  the others are in {}/.zattrs\n", folder.string());
}

}  // namespace

bool RunCollection(const Task& task, data::CollectRequest request, const std::atomic<bool>& stop) {
  const std::string folder = request.output.string();
  if (const auto found = data::FindCollection(request)) {
    core::PrintStatus("dataset: {}, {} episodes collected before\n", folder, found->n_episodes);
    if (found->is_of_another_env) {
      core::LogWarning(
          fmt::format("the env plugin '{}' changed since it collected {}: its expert or "
                      "its physics may be others now. Remove the folder to collect "
                      "again.",
                      task.env_name(), folder));
    }
    return true;
  }
  data::RequireExpert(task.DescribeEnv(), task.env_name(), task.catalogue());
  core::PrintStatus("collecting {} episodes of {} with its expert into {}\n",
                    request.config.n_episodes, task.name(), folder);

  request.stop = &stop;
  core::Progress progress(core::Progress::StandardError(), 0);
  const data::CollectReport report =
      data::Collect(request, [&progress](const data::CollectProgress& state) {
        progress.Update({.done = state.n_episodes, .total = state.n_wanted, .unit = "episodes"},
                        "collect",
                        fmt::format("{} steps  failed {}", state.n_steps, state.n_failed));
      });
  progress.Pause();
  if (report.is_interrupted) {
    core::PrintStatus("interrupted after {} episodes; the same command continues\n",
                      report.n_episodes);
    return false;
  }
  core::PrintStatus("dataset: {}, {} episodes, {} steps, {}\n", folder, report.n_episodes,
                    report.n_steps, core::FormatDuration(report.wall_s));
  PrintFailures(report, request.output);
  return true;
}

bool ProvideDataset(const Task& task, const std::atomic<bool>& stop) {
  if (task.is_collected()) return RunCollection(task, task.MakeCollectRequest(), stop);
  // not used in this run, but checked
  if (task.config().Has("collect")) data::CollectConfig::FromConfig(task.config().Sub("collect"));
  return true;
}

bool ProvideDatasetAlone(const Task& task) {
  if (!task.is_collected()) {
    const std::atomic<bool> never{false};
    return ProvideDataset(task, never);
  }
  const bool is_there = ProvideDataset(task, core::CatchStopSignals());
  return !core::ReleaseStopSignals() && is_there;
}

}  // namespace dp_bench::task
