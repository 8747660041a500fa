// The training step: loss, gradients, update of the weights, averaged weights. Training, profile
// and benchmark all use this one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "data/loader.h"
#include "dp_bench/policy.h"
#include "train/data_parallel.h"
#include "train/ema.h"
#include "train/optimizer.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::train {

/// The phases of a step, in order. On a GPU a phase is the time that the host waits: the host waits
/// for the backward pass where it reads the gradient norm, in kOptimizer.
enum class StepPhase {
  kDataWait,   // BatchLoader::Next
  kForward,    // copy to the device, and the loss
  kBackward,   // the gradients
  kOptimizer,  // clipping, and the update of the weights
  kEma,
};

/// A stopwatch with one reading per phase; it allocates nothing.
class StepTimer {
 public:
  /// `now` returns seconds, increasing. `wait` is called before each reading: a profile waits there
  /// for its device, a training does not.
  explicit StepTimer(std::function<double()> now, std::function<void()> wait = {})
      : now_(std::move(now)), wait_(std::move(wait)) {}

  /// Starts timing. The time since the last Lap belongs to no phase.
  void Start() { last_ = now_(); }

  /// Adds the time since Start or the last Lap to `phase`.
  void Lap(StepPhase phase) {
    if (wait_) wait_();
    const double now = now_();
    seconds_[static_cast<std::size_t>(phase)] += now - last_;
    last_ = now;
  }

  void Reset() { seconds_.fill(0.0); }

  /// [s] since Reset.
  double seconds(StepPhase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  double total() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

 private:
  std::function<double()> now_;
  std::function<void()> wait_;
  double last_ = 0.0;
  std::array<double, static_cast<std::size_t>(StepPhase::kEma) + 1> seconds_{};
};

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

  /// Whether an exception left Run while the weights, their average or the loss scale were
  /// changing: they are then of no step.
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
