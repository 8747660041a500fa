#include "evaluate/gate_rollouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/console.h"
#include "core/stop_signal.h"
#include "dp_bench/error.h"
#include "evaluate/evaluation.h"
#include "report/gate_output.h"
#include "run/manifest.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;

// Two micro-batches: the default number of envs.
constexpr int kEpisodesPerBlock = 32;

run::SeedRange SeedsOf(const run::RunFolder& baseline) {
  run::SeedRange range;
  for (const run::EpisodeRecord& record : baseline.episodes) {
    if (record.split != "test") continue;
    if (range.n == 0) range.first = record.seed;
    if (record.seed != range.first + static_cast<std::uint64_t>(range.n)) {
      throw Error(
          ErrorCode::kData,
          fmt::format("{}: seed {} is not the previous seed plus 1; the gate can roll out a "
                      "checkpoint only on consecutive seeds. Evaluate it with dp_bench eval.",
                      baseline.path.string(), record.seed));
    }
    ++range.n;
  }
  return range;
}

void Append(run::RunResult block, run::RunResult* all) {
  std::ranges::move(block.records, std::back_inserter(all->records));
  all->metric_names = std::move(block.metric_names);
  all->n_env_steps += block.n_env_steps;
  all->n_plans += block.n_plans;
  all->plan_s += block.plan_s;
  all->wall_s += block.wall_s;
  all->is_interrupted = block.is_interrupted;
}

// Whether more episodes cannot change the verdict.
bool IsDecided(const compare::GateResult& result, const GateRolloutPlan& plan) {
  if (result.has_signature && !plan.stops_at_signature) {
    return result.test.verdict() != compare::Verdict::kInconclusive;
  }
  // with more episodes, the share of broken ones may fall below the limit
  return result.status != compare::GateStatus::kInconclusive &&
         result.status != compare::GateStatus::kInfra;
}

}  // namespace

std::optional<compare::GateResult> GateByRollouts(CheckpointEvaluationOptions options,
                                                  const run::RunFolder& baseline,
                                                  const GateRolloutPlan& plan) {
  const run::SeedRange seeds = SeedsOf(baseline);
  const int n_episodes = std::min(seeds.n, plan.max_episodes);
  for (const std::string& value :
       {std::string("env_runner.n_train=0"), std::string("env_runner.n_videos=0"),
        fmt::format("env_runner.n_test={}", seeds.n),
        fmt::format("env_runner.test_start_seed={}", seeds.first)}) {
    options.experiment.overrides.push_back(value);
  }
  core::CatchStopSignals();  // also while loading
  core::SingleProcess alone;
  CheckpointEvaluation evaluation(std::move(options), alone);
  run::RunFolder candidate = run::ReadRunFolder(evaluation.folder());
  run::RunResult all;
  std::optional<compare::GateResult> result;
  while (!result || !IsDecided(*result, plan)) {
    const auto n_done = static_cast<int>(all.records.size());
    if (n_done == n_episodes) break;
    const int wanted = n_done == 0 ? plan.n_first : n_done + kEpisodesPerBlock;
    std::vector<int> block(static_cast<std::size_t>(std::min(wanted, n_episodes) - n_done));
    std::iota(block.begin(), block.end(), n_done);
    Append(evaluation.Run(block), &all);
    if (all.is_interrupted) {
      core::PrintResult(
          "interrupted after {} episodes; continue with dp_bench eval --resume {}, then compare "
          "that folder with the baseline\n",
          all.records.size(), evaluation.folder().string());
      return std::nullopt;
    }
    candidate.episodes = all.records;
    result = plan.judge(candidate);
    const std::string evidence = report::GateProgressLine(*result);
    if (!evidence.empty()) core::PrintStatus("{}\n", evidence);
  }
  evaluation.Report(all);
  return result;
}

}  // namespace dp_bench::evaluate
