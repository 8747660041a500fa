// Rolls a policy out as the config's env_runner section says, and writes down what came of it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "app/experiment.h"
#include "distributed/communicator.h"
#include "dp_bench/policy.h"
#include "rollout/env_runner.h"

namespace dp_bench {

class Evaluation {
 public:
  /// Reads env_runner. Videos go to `output_dir`/media; `n_videos` counts in place of the
  /// config's. The experiment and the ranks must outlive it.
  Evaluation(const Experiment& experiment, Communicator& ranks,
             const std::filesystem::path& output_dir, std::optional<int> n_videos = std::nullopt);

  /// Every rank plays its share of the episodes and gets the records of all. Shows progress on
  /// standard error, in place of the hook.
  RunResult Run(Policy& policy, torch::Device device, const RunHooks& hooks = {});

  /// The same with these places of the seed list.
  RunResult Run(Policy& policy, torch::Device device, std::span<const int> episodes,
                const RunHooks& hooks);

  const EnvRunner& runner() const { return runner_; }

 private:
  Communicator& ranks_;
  EnvRunnerConfig config_;
  EnvRunner runner_;
};

/// "test/mean_score" and the like: what goes into logs.json.txt and decides about checkpoints.
std::map<std::string, double> MetricsOf(const RunResult& result);

/// "rollout/<split>_<seed>": frames of each filmed episode side by side.
std::map<std::string, RgbImage> FilmStripsOf(const RunResult& result,
                                             const std::filesystem::path& output_dir);

/// Writes episodes.jsonl, eval_log.json and report.html, and prints the result table.
/// Returns the exit code: 0, or 5 when an episode failed.
int ReportEvaluation(const RunResult& result, const std::filesystem::path& output_dir);

}  // namespace dp_bench
