#include "evaluate/predicted_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/stop_signal.h"
#include "core/temporary_folder.h"
#include "run/episode_log.h"

namespace dp_bench::evaluate {
namespace {

constexpr int kTried = 64;  // episodes, at most
constexpr int kTriedOfRun = 8;

// Spread over the seed list.
std::vector<int> SomeOf(int n_jobs, int n_tried) {
  const int n_shards = std::max(1, n_jobs / n_tried);
  std::vector<int> some = run::EpisodesOf({.index = 0, .n = n_shards}, n_jobs);
  some.resize(std::min(some.size(), static_cast<std::size_t>(n_tried)));
  return some;
}

// Of `n_wanted` episodes, from those of `result`, which `meter` measures.
std::optional<run::CostPrediction> FromTrial(const run::RunResult& result, core::CostMeter& meter,
                                             int n_wanted) {
  if (result.is_interrupted) return std::nullopt;
  const std::size_t n_tried = result.records.size();
  const double factor =
      static_cast<double>(n_wanted) / static_cast<double>(std::max<std::size_t>(1, n_tried));
  run::CostPrediction prediction =
      run::PredictionFrom(meter.Read(), factor, fmt::format("{} episodes", n_tried));
  prediction.disk_bytes = factor * static_cast<double>(run::EpisodesJsonl(result).size());
  return prediction;
}

}  // namespace

std::optional<run::CostPrediction> PredictCost(CheckpointEvaluationOptions options) {
  const core::TemporaryFolder folder;
  const run::SeedShard shard = options.shard.value_or(run::SeedShard{});
  options.shard.reset();
  options.output = folder.path() / "run";
  options.experiment.overrides.emplace_back("env_runner.n_videos=0");
  core::SingleProcess alone;
  CheckpointEvaluation evaluation(std::move(options), alone);
  const auto n_jobs = static_cast<int>(evaluation.runner().jobs().size());
  core::CostMeter meter;
  const run::RunResult result = evaluation.Run(SomeOf(n_jobs, kTried));
  return FromTrial(result, meter, run::CountOf(shard, n_jobs));
}

std::optional<run::CostPrediction> PredictEvaluation(const task::Experiment& experiment,
                                                     Policy& policy) {
  const core::TemporaryFolder folder;
  core::SingleProcess alone;
  Evaluation evaluation(experiment, alone, folder.path(), /*n_videos=*/0);
  const auto n_jobs = static_cast<int>(evaluation.runner().jobs().size());
  policy.module().eval();
  core::CostMeter meter;
  const run::RunResult result =
      evaluation.Run(policy, experiment.device(), SomeOf(n_jobs, kTriedOfRun),
                     {.stop = &core::CatchStopSignals()});
  return FromTrial(result, meter, n_jobs);
}

}  // namespace dp_bench::evaluate
