// An experiment from the command line: a task, and a policy to train or evaluate on it.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <memory>
#include <string>

#include "control/env_runner_config.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/spec.h"
#include "run/checkpoint.h"
#include "task/task.h"
#include "train/train_config.h"

namespace dp_bench {
class Policy;
}

namespace dp_bench::task {

class Experiment : public Task {
 public:
  /// Throws Error{kUsage} unless the options name a config, or an env and a policy.
  explicit Experiment(const ExperimentOptions& options);

  const PolicySpec& spec() const { return spec_; }
  std::unique_ptr<Policy> CreatePolicy() const;

  /// The policy of the config if it has no weights (Policy::is_trainable), on device(). Throws
  /// Error{kUsage} for others, and Error{kConfig} if a policy server leaves temporal ensembling to
  /// its client and the config does not say whether to do it.
  std::unique_ptr<Policy> CreateWithoutWeights() const;

  /// The policy of training.teacher, on device() and without gradients; null if there is none.
  std::unique_ptr<Policy> LoadTeacher() const;

  /// The sections env_runner, training and dataloader.
  control::EnvRunnerConfig runner() const {
    return control::EnvRunnerConfig::FromConfig(config().Sub("env_runner"));
  }
  train::TrainingConfig training() const {
    return train::TrainingConfig::FromConfig(config().Sub("training"));
  }
  train::DataLoaderConfig loading() const {
    return train::DataLoaderConfig::FromConfig(config().Sub("dataloader"), true);
  }

  /// To try the policy without data (train::NeutralNormalizer).
  Normalizer NeutralNormalizer() const;

  /// training.device, cpu by default. Throws Error{kConfig} if this machine does not have it.
  c10::Device device() const;

  /// The policy with the checkpoint's normalizer and weights ("ema" or "model"), on device().
  std::unique_ptr<Policy> LoadPolicy(const run::Checkpoint& checkpoint,
                                     const std::string& weights) const;

  /// The same of a folder; if that is empty, CreateWithoutWeights.
  std::unique_ptr<Policy> LoadPolicy(const std::filesystem::path& checkpoint,
                                     const std::string& weights) const;

 private:
  PolicySpec spec_;
};

/// runs/<date>/<time>_<policy>_<task>; n = 1, 2, ... makes it unique.
std::filesystem::path RunFolderName(const Experiment& experiment, int n);

}  // namespace dp_bench::task
