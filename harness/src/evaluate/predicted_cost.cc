#include "evaluate/predicted_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "core/progress.h"
#include "core/temporary_folder.h"
#include "run/episode_log.h"

namespace dp_bench::evaluate {
namespace {

constexpr int kTried = 64;  // episodes, at most

// Spread over the seed list.
std::vector<int> SomeOf(int n_jobs) {
  const int n_shards = std::max(1, n_jobs / kTried);
  std::vector<int> some = run::EpisodesOf({.index = 0, .n = n_shards}, n_jobs);
  some.resize(std::min<std::size_t>(some.size(), kTried));
  return some;
}

}  // namespace

int PredictCost(CheckpointEvaluationOptions options) {
  const core::TemporaryFolder folder;
  const run::SeedShard shard = options.shard.value_or(run::SeedShard{});
  options.shard.reset();
  options.output = folder.path() / "run";
  options.experiment.overrides.emplace_back("env_runner.n_videos=0");
  core::SingleProcess alone;
  CheckpointEvaluation evaluation(std::move(options), alone);
  const auto n_jobs = static_cast<int>(evaluation.runner().jobs().size());
  const std::vector<int> some = SomeOf(n_jobs);
  core::CostMeter meter;
  const run::RunResult result = evaluation.Run(some);
  if (result.is_interrupted) return core::kExitInterrupted;
  const core::Cost cost = meter.Read();
  const double bytes = static_cast<double>(run::EpisodesJsonl(result).size());
  const double factor =
      static_cast<double>(run::CountOf(shard, n_jobs)) / static_cast<double>(some.size());
  core::PrintResult(
      "tried {} of {} episodes in {:.1f} s. {} of them take about {}, processor time {}, {:.0f} "
      "MiB "
      "of memory and {:.1f} MiB on disk without videos{}\n",
      some.size(), n_jobs, cost.wall_s, run::CountOf(shard, n_jobs),
      core::FormatDuration(factor * cost.wall_s), core::FormatDuration(factor * cost.cpu_s),
      static_cast<double>(cost.peak_bytes) / (1 << 20), factor * bytes / (1 << 20),
      cost.energy_j ? fmt::format(", {:.3g} kJ of the processors", 1e-3 * factor * *cost.energy_j)
                    : "");
  return 0;
}

}  // namespace dp_bench::evaluate
