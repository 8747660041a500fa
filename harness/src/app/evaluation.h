// Rolls a policy out as the config's env_runner section says, and writes down what came of it.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "app/experiment.h"
#include "dp_bench/policy.h"
#include "rollout/env_runner.h"

namespace dp_bench {

class Evaluation {
 public:
  /// Reads env_runner. Videos go to `output_dir`/media; `with_videos` false films nothing.
  /// The experiment must outlive it.
  Evaluation(const Experiment& experiment, const std::filesystem::path& output_dir,
             bool with_videos);

  /// Shows progress on standard error. Ends early once `stop` (may be null) is set, see EnvRunner.
  RunResult Run(Policy& policy, torch::Device device, const std::atomic<bool>* stop = nullptr);

 private:
  EnvRunnerConfig config_;
  EnvRunner runner_;
};

/// "test/mean_score" and the like: what goes into logs.json.txt and decides about checkpoints.
std::map<std::string, double> MetricsOf(const RunResult& result);

/// Writes episodes.jsonl, eval_log.json and report.html, and prints the result table.
/// Returns the exit code: 0, or 5 when an episode failed.
int ReportEvaluation(const RunResult& result, const std::filesystem::path& output_dir);

}  // namespace dp_bench
