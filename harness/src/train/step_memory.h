// The memory that training a policy needs, by batch size: a part that depends only on the
// parameters, and the additional need of a step.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dp_bench/policy.h"
#include "train/optimizer.h"
#include "train/train_config.h"

namespace dp_bench::train {

// Peak memory of tensors during a piece of code, as reported by LibTorch's CPU allocator.

/// Counts the CPU tensors that its thread allocates and frees while it exists. Backward passes of
/// CPU tensors run on the calling thread. Not counted: earlier tensors, memory outside tensors
/// (host arrays, internals of matrix libraries), and other threads. Cannot be used together with a
/// LibTorch profiler.
class MemoryPeak {
 public:
  MemoryPeak();
  MemoryPeak(const MemoryPeak&) = delete;
  MemoryPeak& operator=(const MemoryPeak&) = delete;
  ~MemoryPeak();

  /// [bytes] allocated now, and the peak so far.
  std::int64_t current() const;
  std::int64_t peak() const;

 private:
  class Counter;

  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

/// Memory that stays allocated from step to step [bytes].
struct HeldMemory {
  std::int64_t parameters = 0;  // including buffers
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;   // its state: two moments of every trainable parameter for AdamW
  std::int64_t ema = 0;         // a second network, if there is one
  std::int64_t checkpoint = 0;  // the copy for background writes: everything but gradients

  std::int64_t total() const { return parameters + gradients + optimizer + ema + checkpoint; }
};

/// With what the config of a run says.
HeldMemory MeasureHeldMemory(const torch::nn::Module& module, const Config& config);

/// The additional memory of one step [bytes].
struct StepMemory {
  std::int64_t batch_size = 0;
  std::int64_t batch = 0;        // in raw units, as loaded
  std::int64_t activations = 0;  // peak during ComputeLoss and the backward pass
  bool is_estimated = false;     // otherwise measured

  std::int64_t total() const { return batch + activations; }
};

/// An estimate next to a measurement.
struct MemoryCheck {
  StepMemory estimated;
  StepMemory measured;

  /// |estimated / measured - 1|
  double deviation() const {
    const double ratio =
        static_cast<double>(estimated.total()) / static_cast<double>(measured.total());
    return ratio > 1.0 ? ratio - 1.0 : 1.0 - ratio;
  }
};

/// Runs a training step on a synthetic batch, without the optimizer, in `precision`. The policy
/// must be on the CPU and have a normalizer. Its parameters have gradients afterwards, which are
/// not counted.
StepMemory MeasureStepMemory(Policy& policy, std::int64_t batch_size,
                             MixedPrecision precision = MixedPrecision::kNo);

/// A straight line through two measurements at different batch sizes. It holds only for larger
/// sizes: for smaller ones the parameters determine when the peak occurs, and memory is higher.
StepMemory EstimateStepMemory(const StepMemory& a, const StepMemory& b, std::int64_t batch_size);

/// The memory of a step at any batch size. Small sizes are measured, larger ones estimated, so a
/// query never needs more than a few hundred megabytes. The policy must outlive it.
class StepMemoryModel {
 public:
  /// Measures two steps, at the largest batch sizes that memory and a few seconds allow: at small
  /// sizes the parameters, not the batch, determine when the peak occurs.
  explicit StepMemoryModel(Policy& policy, MixedPrecision precision = MixedPrecision::kNo);

  /// The two measurements behind the estimates, the smaller one first.
  const std::vector<StepMemory>& measured() const { return measured_; }

  StepMemory At(std::int64_t batch_size) const;

 private:
  Policy& policy_;
  MixedPrecision precision_;
  std::vector<StepMemory> measured_;
};

inline double Mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// The parameters of a network by module.

/// One module, or one parameter that belongs directly to a module with children.
struct ModuleSize {
  std::string name;  // relative to its parent; chains of single children are joined: "a.b"
  int depth = 0;     // 0: a child of the root
  std::int64_t n_parameters = 0;
};

/// The modules below `root` that have parameters, each followed by its children, down to `n_levels`
/// levels. The rows of one level below the same parent add up to that parent.
std::vector<ModuleSize> ModuleSizes(const torch::nn::Module& root, int n_levels);

/// The number of values in all parameters.
std::int64_t NumParameters(const torch::nn::Module& module);

}  // namespace dp_bench::train
