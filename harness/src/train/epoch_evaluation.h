// The measurements between two epochs: the scores of rollouts, the validation loss, and the error
// of sampled actions.
#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/loader.h"
#include "dp_bench/env.h"
#include "dp_bench/policy.h"
#include "train/data_parallel.h"
#include "train/process_stages.h"
#include "train/train_config.h"

namespace dp_bench::train {

/// The results of rollouts.
struct Scores {
  std::map<std::string, double> metrics;     // such as "test/mean_score"
  std::map<std::string, RgbImage> images{};  // tag -> the image for TensorBoard
};

/// Scores a policy; nothing if WorkspaceParts::stop interrupted it. Called between two epochs.
using EvalFn = std::function<std::optional<Scores>(Policy& policy, int epoch)>;

/// The results that were due at the end of an epoch.
struct EpochResults {
  std::optional<Scores> scores;           // of the rollouts
  std::map<std::string, double> metrics;  // theirs, and those without rollouts
};

class EpochEvaluation {
 public:
  /// Config and parallel must outlive the evaluation.
  struct Parts {
    const TrainingConfig& config;
    const DataParallel& parallel;
    torch::Device device;                           // of the policies
    std::unique_ptr<data::BatchLoader> val_loader;  // null without validation episodes
    data::HostBatch sampled;                        // the rows whose actions are sampled
  };

  explicit EpochEvaluation(Parts parts) : parts_(std::move(parts)) {}

  /// Measures what is due at the end of `epoch`. Rollouts and sampled actions use `eval_policy`,
  /// the validation loss uses `policy`. A policy that was used is left in evaluation mode. Nothing
  /// if `evaluate` was interrupted; it may be empty.
  std::optional<EpochResults> Run(const EvalFn& evaluate, Policy& policy, Policy& eval_policy,
                                  int epoch);

 private:
  double ValidationLoss(Policy& policy);
  std::map<std::string, double> SampleActions(Policy& policy);  // numbers for the log
  double OwnActionMse(Policy& policy, SamplingTrace* trace);    // over this rank's rows

  Parts parts_;
};

}  // namespace dp_bench::train
