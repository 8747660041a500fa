#include "app/collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/stop_signal.h"
#include "collect/collection_origin.h"
#include "core/console.h"
#include "core/progress.h"

namespace dp_bench {
namespace {

constexpr std::size_t kShownFailures = 5;

void PrintFailures(const CollectReport& report, const std::filesystem::path& folder) {
  const std::size_t n = report.failures.size();
  if (n == 0) return;
  PrintStatus("{} seed{} failed and {} left out:\n", n, n == 1 ? "" : "s", n == 1 ? "was" : "were");
  for (std::size_t i = 0; i < std::min(n, kShownFailures); ++i) {
    PrintStatus("  {}: {}\n", report.failures[i].seed, report.failures[i].reason);
  }
  if (n > kShownFailures) PrintStatus("  the others are in {}/.zattrs\n", folder.string());
}

}  // namespace

bool RunCollection(const Task& task, CollectRequest request, const std::atomic<bool>& stop) {
  const std::string folder = request.output.string();
  if (const auto found = FindCollection(request)) {
    PrintStatus("data set: {}, {} episodes collected before\n", folder, found->n_episodes);
    return true;
  }
  RequireExpert(*task.CreateEnv(), task.env_name(), task.catalogue());
  PrintStatus("collecting {} episodes of {} with its expert into {}\n", request.config.n_episodes,
              task.name(), folder);

  request.stop = &stop;
  Progress progress(Progress::StandardError(), 0);
  const CollectReport report = Collect(request, [&progress](const CollectProgress& state) {
    progress.Update({.done = state.n_episodes, .total = state.n_wanted, .unit = "episodes"},
                    "collect", fmt::format("{} steps  failed {}", state.n_steps, state.n_failed));
  });
  progress.Pause();
  if (report.is_interrupted) {
    PrintStatus("interrupted after {} episodes; the same command continues\n", report.n_episodes);
    return false;
  }
  PrintStatus("data set: {}, {} episodes, {} steps, {}\n", folder, report.n_episodes,
              report.n_steps, FormatDuration(report.wall_s));
  PrintFailures(report, request.output);
  return true;
}

bool ProvideDataset(const Task& task, const std::atomic<bool>& stop) {
  if (task.is_collected()) return RunCollection(task, task.MakeCollectRequest(), stop);
  // the section has no part in this run, and is checked all the same
  if (task.config().Has("collect")) CollectConfig::FromConfig(task.config().Sub("collect"));
  return true;
}

bool ProvideDatasetAlone(const Task& task) {
  if (!task.is_collected()) {
    const std::atomic<bool> never{false};
    return ProvideDataset(task, never);
  }
  const bool is_there = ProvideDataset(task, CatchStopSignals());
  return !ReleaseStopSignals() && is_there;
}

}  // namespace dp_bench
