// One training step of a policy in several ways: autocast, gradient checkpointing.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dp_bench/policy.h"
#include "policy/kernels/loop_tensors.h"
#include "support/small_policy.h"
#include "train/step_memory.h"

namespace dp_bench::policy {

/// The results of a step.
struct StepOutcome {
  float loss = 0.0F;
  std::map<std::string, torch::Tensor> gradients;  // of every parameter, float32
  std::map<std::string, torch::Tensor> buffers;
};

/// Rows draw the same numbers each time. For float16 it imitates the scaler: the loss is multiplied
/// by 1024 and the gradients are divided.
inline StepOutcome TrainStep(Policy& policy, const Batch& batch,
                             train::MixedPrecision precision = train::MixedPrecision::kNo) {
  NoiseSource noise = NoiseOfRows(batch.action.size(0));
  policy.module().train();
  policy.module().zero_grad();
  const double scale = precision == train::MixedPrecision::kFp16 ? 1024.0 : 1.0;
  torch::Tensor loss;
  {
    const AutocastGuard autocast(torch::kCPU, train::ProductType(precision));
    loss = policy.ComputeLoss(batch, noise).loss;
  }
  EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
  (loss * scale).backward();
  StepOutcome outcome = {.loss = loss.item<float>()};
  for (const auto& item : policy.module().named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
    if (!item.value().grad().defined()) continue;
    EXPECT_EQ(item.value().grad().scalar_type(), torch::kFloat32) << item.key();
    outcome.gradients[item.key()] = item.value().grad() / scale;
  }
  for (const auto& item : policy.module().named_buffers()) {
    outcome.buffers[item.key()] = item.value().clone();
  }
  return outcome;
}

/// |a - b| / |b| over all gradients together, in the L2 norm.
inline double GradientError(const StepOutcome& a, const StepOutcome& b) {
  double error = 0.0;
  double size = 0.0;
  for (const auto& [name, gradient] : b.gradients) {
    error += (a.gradients.at(name) - gradient).square().sum().item<double>();
    size += gradient.square().sum().item<double>();
  }
  return std::sqrt(error / size);
}

/// The gradients of a step under autocast equal those in float32 up to the rounding of products:
/// 2^-9 for each operand and result in bfloat16, 2^-12 in float16, of random sign. A few dozen
/// consecutive products add up to 10 to 20 roundings.
inline void ExpectAutocastGivesNearlyTheSameGradients(Policy& policy, const Batch& batch) {
  const StepOutcome exact = TrainStep(policy, batch);
  for (const auto& [precision, rounding] :
       {std::pair{train::MixedPrecision::kBf16, 0x1p-9}, {train::MixedPrecision::kFp16, 0x1p-12}}) {
    const StepOutcome found = TrainStep(policy, batch, precision);
    EXPECT_LE(GradientError(found, exact), 24.0 * rounding);
    EXPECT_GT(GradientError(found, exact), 0.1 * rounding);  // it really ran in lower precision
    EXPECT_NEAR(found.loss, exact.loss, 4.0 * rounding * exact.loss);
  }
}

inline void ExpectEqualBits(const StepOutcome& found, const StepOutcome& expected) {
  EXPECT_EQ(found.loss, expected.loss);
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(torch::equal(found.gradients.at(name), gradient)) << name;
  }
  for (const auto& [name, buffer] : expected.buffers) {
    EXPECT_TRUE(torch::equal(found.buffers.at(name), buffer)) << name;
  }
}

/// A policy with and without the key in its params, starting from equal weights.
using MakeCheckpointing = std::function<std::unique_ptr<Policy>(bool gradient_checkpointing)>;

/// Two steps, so that buffers matter.
inline void ExpectCheckpointingChangesNoBit(const MakeCheckpointing& make, const Batch& batch) {
  for (const train::MixedPrecision precision :
       {train::MixedPrecision::kNo, train::MixedPrecision::kBf16}) {
    const auto plain = make(false);
    const auto checkpointing = make(true);
    for (int step = 0; step < 2; ++step) {
      const StepOutcome expected = TrainStep(*plain, batch, precision);
      ExpectEqualBits(TrainStep(*checkpointing, batch, precision), expected);
    }
  }
}

/// The activations of a batch of 32 rows take at most a share of `share` of the memory without it.
inline void ExpectCheckpointingSavesMemory(const MakeCheckpointing& make, double share) {
  const std::int64_t plain = train::MeasureStepMemory(*make(false), 32).activations;
  const std::int64_t found = train::MeasureStepMemory(*make(true), 32).activations;
  EXPECT_LE(static_cast<double>(found), share * static_cast<double>(plain)) << plain << " bytes";
}

}  // namespace dp_bench::policy
