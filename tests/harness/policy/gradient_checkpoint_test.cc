#include "policy/kernels/gradient_checkpoint.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "policy/kernels/loop_tensors.h"

namespace dp_bench::policy {
namespace {

using Tensors = CheckpointedBlock::Tensors;

/// tanh(linear(x)) and its square; counts its runs.
struct SmallBlock {
  torch::nn::Linear linear{torch::nn::LinearOptions(3, 3)};
  std::shared_ptr<int> n_runs = std::make_shared<int>(0);

  CheckpointedBlock AsBlock() const {
    const auto run = [layer = linear, counter = n_runs](const Tensors& inputs,
                                                        DropoutMasks*) mutable {
      ++*counter;
      const torch::Tensor y = torch::tanh(layer(inputs[0]));
      return Tensors{y, y.square()};
    };
    return {.modules = {linear.ptr()}, .run = run};
  }
};

TEST(GradientCheckpoint, RunsTwiceForAGradientAndOnceWithout) {
  SmallBlock small;
  const torch::Tensor x = torch::ones({2, 3});
  RunCheckpointed(small.AsBlock(), {x})[0].sum().backward();
  EXPECT_EQ(*small.n_runs, 2);
  const torch::NoGradGuard no_grad;
  RunCheckpointed(small.AsBlock(), {x});
  EXPECT_EQ(*small.n_runs, 3);
}

TEST(GradientCheckpoint, GradientsAddToThoseAtHand) {
  SmallBlock small;
  const torch::Tensor x = torch::randn({2, 3}).requires_grad_();
  const auto gradient = [&](const std::function<torch::Tensor()>& loss) {
    small.linear->zero_grad();
    loss().backward();
    loss().backward();
    return small.linear->weight.grad().clone();
  };
  const torch::Tensor plain = gradient([&] { return small.AsBlock().run({x}, nullptr)[0].sum(); });
  EXPECT_TRUE(torch::equal(gradient([&] { return RunCheckpointed(small.AsBlock(), {x})[0].sum(); }),
                           plain));
}

TEST(GradientCheckpoint, WhatTakesNoGradientGetsNone) {
  SmallBlock small;
  small.linear->bias.requires_grad_(false);
  const torch::Tensor x = torch::randn({2, 3});
  RunCheckpointed(small.AsBlock(), {x})[1].sum().backward();  // the other output is not used
  EXPECT_TRUE(small.linear->weight.grad().defined());
  EXPECT_FALSE(small.linear->bias.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(GradientCheckpoint, BackwardRunsUnderTheAutocastOfTheForwardPass) {
  std::vector<std::optional<torch::ScalarType>> types;
  const CheckpointedBlock block = {.modules = {}, .run = [&](const Tensors& inputs, DropoutMasks*) {
                                     types.push_back(AutocastType(torch::kCPU));
                                     return Tensors{inputs[0] * 2.0};
                                   }};
  const torch::Tensor x = torch::randn({2}).requires_grad_();
  torch::Tensor y;
  {
    const AutocastGuard autocast(torch::kCPU, torch::kBFloat16);
    y = RunCheckpointed(block, {x})[0];
  }
  y.sum().backward();
  ASSERT_EQ(types.size(), 2U);
  EXPECT_EQ(types[0], torch::kBFloat16);
  EXPECT_EQ(types[1], torch::kBFloat16);
  EXPECT_FALSE(AutocastType(torch::kCPU).has_value());
}

TEST(GradientCheckpoint, AnInputThatWasOverwrittenIsFound) {
  SmallBlock small;
  torch::Tensor x = torch::randn({2, 3});
  const torch::Tensor loss = RunCheckpointed(small.AsBlock(), {x})[0].sum();
  x.zero_();
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace dp_bench::policy
