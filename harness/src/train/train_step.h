// The training step: loss, gradients, update of the weights, averaged weights. Training, profile
// and benchmark all use this one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/loader.h"
#include "dp_bench/policy.h"
#include "train/data_parallel.h"
#include "train/ema.h"
#include "train/optimizer.h"
#include "train/step_timer.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::train {

struct ProcessStages;

/// "data", "forward", "backward", "optimizer", "EMA".
const char* NameOf(StepPhase phase);

/// The position of a step in the training.
struct StepPlace {
  int epoch = 0;                 // for messages
  std::int64_t global_step = 0;  // the number in its noise keys
  std::int64_t window_rows = 0;  // samples of its accumulation window
  bool ends_window = true;       // the weights are updated after it
  double lr = 0.0;
  bool has_ranges = false;  // the result's parts have the ranges of the process
  std::function<void()> before_gradients_go = {};  // called after the update; may be null
};

/// A policy in training, with its optimizer and its averaged weights.
class TrainStep {
 public:
  struct Parts {
    const Config& config;  // of the run: training, optimizer, ema
    std::function<std::unique_ptr<Policy>()> create_policy;
    torch::Device device;
    DataParallel& parallel;                       // must outlive the step
    std::optional<GradScalerState>& grad_scaler;  // the loss scale of fp16; must outlive it too
    Policy* teacher = nullptr;  // of training.teacher, which must outlive it; null: none
  };

  /// Creates the policy, then the EMA's copy of it, on the device. Throws Error{kConfig} for
  /// settings that cannot work.
  explicit TrainStep(const Parts& parts);

  Policy& policy() { return *policy_; }
  const Policy& policy() const { return *policy_; }
  Policy* ema_policy() { return ema_policy_.get(); }  // null without EMA
  Optimizer& optimizer() { return *optimizer_; }
  Ema* ema() { return ema_.get(); }  // null without EMA
  const TrainingConfig& config() const { return config_; }

  /// Whether an exception left Run while the weights or their average were changing: they are then
  /// of no step.
  bool is_torn() const { return is_updating_; }

  /// Starts with the loss scale that mixed_precision requires, even if a resumed accumulation
  /// window already has gradients of another scale. Call it before the first Run.
  void StartGradScaler();

  /// Trains on this rank's rows of a batch. Every phase except kDataWait is a lap of `timer` and a
  /// scope of LibTorch's profilers. The result covers all ranks. It has a grad_norm if the weights
  /// were updated; fp16 skips the update if gradients overflow. Throws Error{kNumeric} with the
  /// sample indices if a loss or gradient is not finite.
  TrainStepResult Run(data::HostBatch& host, const StepPlace& place, StepTimer& timer);

 private:
  // With `stages`, which may be null, also what the policy noted about the loss.
  torch::Tensor OwnLoss(data::HostBatch& host, const StepPlace& place, TrainStepResult* result,
                        ProcessStages* stages);
  bool UpdateWeights(const StepPlace& place, const data::HostBatch& host, TrainStepResult* result);
  void SkipUpdate(const StepPlace& place);
  void RequireFinite(double value, std::string_view what, const StepPlace& place,
                     const data::HostBatch& host) const;

  TrainingConfig config_;
  torch::Device device_;
  DataParallel& parallel_;
  std::optional<GradScalerState>& grad_scaler_;
  std::string policy_plugin_;  // its name, for messages
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Policy> ema_policy_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ema> ema_;
  bool is_updating_ = false;
};

}  // namespace dp_bench::train
