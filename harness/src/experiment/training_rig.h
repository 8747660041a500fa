// The parts of a training outside of a Workspace: single steps on the experiment's own data, to
// measure them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/communicator.h"
#include "data/loader.h"
#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"
#include "experiment/experiment.h"
#include "train/step_timer.h"
#include "train/train_config.h"
#include "train/train_step.h"

namespace dp_bench::experiment {

/// Takes the step of a training (train/train_step.h) with constant learning rate, and keeps no
/// weights.
class TrainingRig {
 public:
  /// `dataset` must outlive it. Throws Error{kData} when it holds less than one batch.
  TrainingRig(const Experiment& experiment, const Dataset& dataset);

  /// The policy in training, with the data set's normalizer.
  Policy& policy() { return step_->policy(); }

  const train::DataLoaderConfig& loading() const { return loading_; }
  const train::TrainingConfig& training() const { return step_->config(); }
  data::BatchLoader& loader() { return *loader_; }

  /// The next batch of the loader, epoch after epoch. The loader must not be used otherwise
  /// meanwhile.
  void NextBatch(data::HostBatch* host);

  /// A step on the next batch.
  void Step(train::StepTimer* timer);

  /// A step on this batch, without waiting for data.
  void TrainOn(data::HostBatch& host, train::StepTimer* timer);

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

}  // namespace dp_bench::experiment
