// How far two tensors are apart, for tolerances.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

namespace dp_bench {

/// The largest difference of two elements. Fails the test if the shapes differ.
inline double Difference(const torch::Tensor& found, const torch::Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  return (found - expected).abs().max().item<double>();
}

/// The same, relative to the largest element of `expected` if that is larger than 1.
inline double RelativeDifference(const torch::Tensor& found, const torch::Tensor& expected) {
  return Difference(found, expected) / std::max(1.0, expected.abs().max().item<double>());
}

}  // namespace dp_bench
