// Two ways to compute the same thing must agree in value and in every gradient.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <vector>

#include "support/difference.h"

namespace dp_bench::policy {

// float32 sums of up to a few thousand terms in another order, relative to the largest element
inline constexpr double kRounding = 1e-4;

/// `found` and `expected` depend on `inputs`. The loss weighs every element differently, so that no
/// gradients cancel.
inline void ExpectEqualWithGradients(const torch::Tensor& found, const torch::Tensor& expected,
                                     const std::vector<torch::Tensor>& inputs) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LE(RelativeDifference(found, expected), kRounding);
  const torch::Tensor weights = torch::linspace(-1.0, 1.5, expected.numel()).view(expected.sizes());
  const auto found_grads = torch::autograd::grad({(found * weights).sum()}, inputs);
  const auto expected_grads = torch::autograd::grad({(expected * weights).sum()}, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_LE(RelativeDifference(found_grads[i], expected_grads[i]), kRounding) << "input " << i;
  }
}

}  // namespace dp_bench::policy
