// The parts of a training's memory.
#include "train/step_memory.h"

#include <gtest/gtest.h>

#include <tuple>

namespace dp_bench::train {
namespace {

TEST(HeldMemory, IsFiveTimesTheParametersWithEma) {
  const torch::nn::Linear linear(10, 5);
  const std::int64_t n = 4 * (10 * 5 + 5);
  const HeldMemory memory =
      MeasureHeldMemory(*linear, /*use_ema=*/true, /*copies_checkpoints=*/true);
  EXPECT_EQ(memory.parameters, n);
  EXPECT_EQ(memory.gradients, n);
  EXPECT_EQ(memory.optimizer, 2 * n);
  EXPECT_EQ(memory.ema, n);
  EXPECT_EQ(memory.checkpoint, 4 * n);
  EXPECT_EQ(memory.total(), 9 * n);
  EXPECT_EQ(MeasureHeldMemory(*linear, /*use_ema=*/true, false).total(), 5 * n);
  const auto of_sgd = [&](double momentum) {
    return MeasureHeldMemory(*linear, false, false,
                             {.kind = OptimizerKind::kSgd, .momentum = momentum})
        .optimizer;
  };
  EXPECT_EQ(of_sgd(0.9), n);
  EXPECT_EQ(of_sgd(0.0), 0);
  EXPECT_EQ(MeasureHeldMemory(*linear, /*use_ema=*/false, false).total(), 4 * n);
}

TEST(HeldMemory, OfFrozenParametersHasNoGradients) {
  torch::nn::Linear linear(torch::nn::LinearOptions(10, 5).bias(false));
  linear->weight.requires_grad_(false);
  const HeldMemory memory = MeasureHeldMemory(*linear, /*use_ema=*/true, false);
  EXPECT_EQ(memory.parameters, 200);
  EXPECT_EQ(memory.gradients, 0);
  EXPECT_EQ(memory.optimizer, 0);
  EXPECT_EQ(memory.ema, 200);
}

TEST(StepMemory, IsEstimatedOnAStraightLine) {
  const StepMemory a = {.batch_size = 8, .batch = 80, .activations = 1000};
  const StepMemory b = {.batch_size = 16, .batch = 160, .activations = 1800};
  for (const auto& [batch_size, batch, activations] :
       {std::tuple(1, 10, 300), std::tuple(8, 80, 1000), std::tuple(128, 1280, 13000)}) {
    const StepMemory estimate = EstimateStepMemory(a, b, batch_size);
    EXPECT_EQ(estimate.batch_size, batch_size);
    EXPECT_EQ(estimate.batch, batch);
    EXPECT_EQ(estimate.activations, activations);
  }
}

}  // namespace
}  // namespace dp_bench::train
