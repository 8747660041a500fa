// The parts of a training outside of a Workspace: single steps on the experiment's own data, to
// measure them.
#pragma once

#include <cstdint>
#include <memory>

#include "data/loader.h"
#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"
#include "experiment/experiment.h"
#include "train/ema.h"
#include "train/optimizer.h"
#include "train/step_timer.h"
#include "train/train_config.h"

namespace dp_bench::experiment {

/// Takes the training step of Workspace: data, loss, gradients, optimiser, EMA; no schedule, no
/// accumulation, no loss scale. Its weights are nobody's.
class TrainingRig {
 public:
  /// `dataset` must outlive it. Throws Error{kData} when it holds less than one batch.
  TrainingRig(const Experiment& experiment, const Dataset& dataset);

  /// The policy in training, with the data set's normalizer.
  Policy& policy() { return *policy_; }

  const train::DataLoaderConfig& loading() const { return loading_; }
  const train::TrainingConfig& training() const { return training_; }
  data::BatchLoader& loader() { return *loader_; }

  /// The next batch of the loader, epoch after epoch, which must not be used otherwise meanwhile.
  void NextBatch(data::HostBatch* host);

  /// A step on the next batch. Each phase is a scope of LibTorch's profilers, named as StepPhase.
  void Step(train::StepTimer* timer);

  /// A step on this batch, without waiting for data.
  void TrainOn(const Batch& batch);

 private:
  torch::Tensor Loss(const Batch& batch);
  void UpdateWeights();

  ShapeMeta shape_meta_;
  train::TrainingConfig training_;
  train::DataLoaderConfig loading_;
  torch::Device device_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Policy> ema_policy_;
  std::unique_ptr<data::BatchLoader> loader_;
  std::unique_ptr<train::AdamW> optimizer_;
  std::unique_ptr<train::Ema> ema_;
  data::HostBatch host_;
  std::uint64_t epoch_ = 0;
  std::uint64_t step_ = 0;
};

/// "data", "forward", "backward", "optimizer", "EMA".
const char* NameOf(train::StepPhase phase);

}  // namespace dp_bench::experiment
