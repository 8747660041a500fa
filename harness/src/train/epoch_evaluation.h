// What is measured between two epochs: the scores of rollouts, the validation loss, and the error
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
#include "train/train_config.h"

namespace dp_bench::train {

/// What rollouts found.
struct Scores {
  std::map<std::string, double> metrics;       // such as "test/mean_score"
  std::map<std::string, RgbImage> pictures{};  // tag -> what TensorBoard shows of it
};

/// Scores a policy; nothing when WorkspaceParts::stop ended it before. Called between two epochs.
using EvalFn = std::function<std::optional<Scores>(Policy& policy, int epoch)>;

/// What was due at the end of an epoch.
struct EpochResults {
  std::optional<Scores> scores;           // of the rollouts
  std::map<std::string, double> metrics;  // theirs, and those that need no rollout
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

  /// Measures what is due at the end of `epoch`. Rollouts and sampled actions are those of
  /// `eval_policy`, the validation loss is that of `policy`; both are left in evaluation mode where
  /// they were used. Nothing when `evaluate`, which may be empty, was interrupted.
  std::optional<EpochResults> Run(const EvalFn& evaluate, Policy& policy, Policy& eval_policy,
                                  int epoch);

 private:
  double ValidationLoss(Policy& policy);
  double ActionMse(Policy& policy);
  double OwnActionMse(Policy& policy);  // over this rank's rows

  Parts parts_;
};

}  // namespace dp_bench::train
