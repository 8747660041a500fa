// The memory that training a policy takes, by batch size: a part that depends on the parameters
// alone, and what a step needs on top.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dp_bench/policy.h"
#include "train/train_config.h"

namespace dp_bench::train {

// How much memory tensors take at most while something runs, as LibTorch's CPU allocator reports
// it.

/// Follows the CPU tensors that its thread takes and frees while it lives; backward passes of CPU
/// tensors run on the calling thread. Not counted: tensors from before, memory that is not a
/// tensor's (host arrays, the insides of matrix libraries), and other threads. A profiler of
/// LibTorch and this exclude each other.
class MemoryPeak {
 public:
  MemoryPeak();
  MemoryPeak(const MemoryPeak&) = delete;
  MemoryPeak& operator=(const MemoryPeak&) = delete;
  ~MemoryPeak();

  /// [bytes] that live now, and at most so far.
  std::int64_t current() const;
  std::int64_t peak() const;

 private:
  class Counter;

  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

/// What stays from step to step [bytes].
struct HeldMemory {
  std::int64_t parameters = 0;  // and buffers
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;   // AdamW: two moments of every trainable parameter
  std::int64_t ema = 0;         // a second network, where there is one
  std::int64_t checkpoint = 0;  // the copy of all but gradients that is written in the background

  std::int64_t total() const { return parameters + gradients + optimizer + ema + checkpoint; }
};

/// `copies_checkpoints`: checkpoint.background.
HeldMemory MeasureHeldMemory(const torch::nn::Module& module, bool use_ema,
                             bool copies_checkpoints);

/// What one step needs on top [bytes].
struct StepMemory {
  std::int64_t batch_size = 0;
  std::int64_t batch = 0;        // in raw units, as it is loaded
  std::int64_t activations = 0;  // most that lives during ComputeLoss and the backward pass
  bool is_estimated = false;     // else measured

  std::int64_t total() const { return batch + activations; }
};

/// Runs a training step on a synthetic batch, without the optimiser, in `precision`. The policy is
/// on the CPU and has a normalizer; its parameters have gradients afterwards, which are not
/// counted.
StepMemory MeasureStepMemory(Policy& policy, std::int64_t batch_size,
                             MixedPrecision precision = MixedPrecision::kNo);

/// The straight line through two measurements at different batch sizes. Trust it for larger sizes
/// than theirs: for smaller ones the parameters decide when the peak is, and there is more.
StepMemory EstimateStepMemory(const StepMemory& a, const StepMemory& b, std::int64_t batch_size);

/// The memory of a step at any batch size: small ones are measured, larger ones estimated, so that
/// asking takes no more memory than a few hundred megabytes. The policy must outlive it.
class StepMemoryModel {
 public:
  /// Measures two steps, at batch sizes as large as memory and a few seconds allow: at small ones
  /// the parameters decide when the peak is, not the batch.
  explicit StepMemoryModel(Policy& policy, MixedPrecision precision = MixedPrecision::kNo);

  /// The two that estimates stand on, the smaller one first.
  const std::vector<StepMemory>& measured() const { return measured_; }

  StepMemory At(std::int64_t batch_size) const;

 private:
  Policy& policy_;
  MixedPrecision precision_;
  std::vector<StepMemory> measured_;
};

inline double Mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace dp_bench::train
