// Single training steps on the experiment's data without a Workspace, for measurements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/communicator.h"
#include "data/loader.h"
#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"
#include "task/experiment.h"
#include "train/train_config.h"
#include "train/train_step.h"

namespace dp_bench::task {

/// Takes the steps of a training (train/train_step.h) with a constant learning rate. Saves no
/// weights.
class TrainingRig {
 public:
  /// `dataset` must outlive this object. Throws Error{kData} if it has less than one batch.
  TrainingRig(const Experiment& experiment, const Dataset& dataset);

  /// In training mode, with the dataset's normalizer.
  Policy& policy() { return step_->policy(); }

  const train::DataLoaderConfig& loading() const { return loading_; }
  const train::TrainingConfig& training() const { return step_->config(); }

  /// The next batch, epoch after epoch.
  void NextBatch(data::HostBatch* host);

  /// Takes a step on the next batch.
  void Step(train::StepTimer* timer);

 private:
  core::SingleProcess alone_;
  train::DataParallel parallel_;
  std::optional<train::GradScalerState> grad_scaler_;
  train::DataLoaderConfig loading_;
  std::unique_ptr<train::TrainStep> step_;
  std::unique_ptr<data::BatchLoader> loader_;
  data::HostBatch host_;
  std::uint64_t epoch_ = 0;
  std::int64_t n_steps_ = 0;
};

}  // namespace dp_bench::task
