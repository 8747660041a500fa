// The parts of a training's memory.
#include "train/step_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <tuple>

namespace dp_bench::train {
namespace {

Config ConfigOf(bool use_ema, bool background, const std::string& optimizer = "{}") {
  return Config::FromJson(fmt::format(
      R"({{"training": {{"use_ema": {}}}, "checkpoint": {{"background": {}}}, "optimizer": {}}})",
      use_ema, background, optimizer));
}

TEST(HeldMemory, IsFiveTimesTheParametersWithEma) {
  const torch::nn::Linear linear(10, 5);
  const std::int64_t n = 4 * (10 * 5 + 5);
  const HeldMemory memory = MeasureHeldMemory(*linear, ConfigOf(true, true));
  EXPECT_EQ(memory.parameters, n);
  EXPECT_EQ(memory.gradients, n);
  EXPECT_EQ(memory.optimizer, 2 * n);
  EXPECT_EQ(memory.ema, n);
  EXPECT_EQ(memory.checkpoint, 4 * n);
  EXPECT_EQ(memory.total(), 9 * n);
  EXPECT_EQ(MeasureHeldMemory(*linear, ConfigOf(true, false)).total(), 5 * n);
  EXPECT_EQ(MeasureHeldMemory(*linear, ConfigOf(false, false)).total(), 4 * n);
  const auto of_sgd = [&](const char* momentum) {
    const std::string sgd = fmt::format(R"({{"name": "sgd", "momentum": {}}})", momentum);
    return MeasureHeldMemory(*linear, ConfigOf(false, false, sgd)).optimizer;
  };
  EXPECT_EQ(of_sgd("0.9"), n);
  EXPECT_EQ(of_sgd("0"), 0);
}

TEST(HeldMemory, OfFrozenParametersHasNoGradients) {
  torch::nn::Linear linear(torch::nn::LinearOptions(10, 5).bias(false));
  linear->weight.requires_grad_(false);
  const HeldMemory memory = MeasureHeldMemory(*linear, ConfigOf(true, false));
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
