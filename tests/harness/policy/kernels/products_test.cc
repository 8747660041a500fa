// Products of every type without LibTorch, so that the address sanitizer sees their arrays, each of
// which has a heap block of its own. More about their values is in the tests of policy/.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "policy/kernels/product_kernels.h"

namespace dp_bench::policy {
namespace {

using FloatArray = std::vector<float>;

FloatArray RandomArray(std::int64_t n) {
  std::mt19937 random(static_cast<unsigned int>(n));
  std::normal_distribution<float> normal;
  FloatArray numbers(static_cast<std::size_t>(n));
  for (float& x : numbers) x = normal(random);
  return numbers;
}

double RelativeError(const FloatArray& found, const std::vector<double>& expected) {
  double error = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(error / size);
}

// rows of x, of the weight, inner elements, threads
using Sizes = std::tuple<ProductType, std::int64_t, std::int64_t, std::int64_t, int>;

class Products : public testing::TestWithParam<Sizes> {};

INSTANTIATE_TEST_SUITE_P(Types, Products,
                         testing::Combine(testing::Values(ProductType::kFloat32, ProductType::kBf16,
                                                          ProductType::kBf16AnyOrder,
                                                          ProductType::kInt8),
                                          testing::Values(1, 37, 130), testing::Values(1, 70),
                                          testing::Values(3, 67), testing::Values(1, 3)));

TEST_P(Products, OfRowsAreThoseOfTheDefinition) {
  const auto [type, n_rows, n_out, n_inner, n_threads] = GetParam();
  const FloatArray x = RandomArray(n_rows * n_inner);
  const FloatArray w = RandomArray(n_out * n_inner);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < n_rows; ++i) {
    for (std::int64_t j = 0; j < n_out; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < n_inner; ++k) {
        sum += static_cast<double>(x[static_cast<std::size_t>(i * n_inner + k)]) *
               w[static_cast<std::size_t>(j * n_inner + k)];
      }
      expected.push_back(sum);
    }
  }
  FloatArray found(expected.size(), NAN);
  MultiplyByWeight(
      {.n_rows = n_rows, .x = x.data(), .x_stride = n_inner, .c = found.data(), .c_stride = n_out},
      PackedWeight::InPanels({.data = w.data(),
                              .n_rows = n_out,
                              .n_columns = n_inner,
                              .row_stride = n_inner,
                              .column_stride = 1},
                             type),
      n_threads);
  EXPECT_LT(RelativeError(found, expected), 0.02);
}

TEST_P(Products, OfShiftedColumnsAreConvolutions) {
  constexpr std::int64_t kSteps = 3;
  constexpr std::int64_t kTaps = 5;  // of which the outermost ones never meet all steps
  const auto [type, batch, n_out, n_inner, n_threads] = GetParam();
  const std::int64_t n_columns = kSteps * batch;
  const FloatArray x = RandomArray(n_inner * n_columns);
  const FloatArray w = RandomArray(n_out * kTaps * n_inner);
  std::vector<ShiftedRows> sources;
  for (std::int64_t tap = 0; tap < kTaps; ++tap) {
    sources.push_back({.x = x.data(), .shift = (tap - kTaps / 2) * batch});
  }
  std::vector<double> expected;
  for (std::int64_t o = 0; o < n_out; ++o) {
    for (std::int64_t column = 0; column < n_columns; ++column) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < kTaps * n_inner; ++k) {
        const std::int64_t from = column + sources[static_cast<std::size_t>(k / n_inner)].shift;
        if (from < 0 || from >= n_columns) continue;
        sum += static_cast<double>(x[static_cast<std::size_t>(k % n_inner * n_columns + from)]) *
               w[static_cast<std::size_t>(o * kTaps * n_inner + k)];
      }
      expected.push_back(sum);
    }
  }
  FloatArray found(expected.size(), NAN);
  MultiplyWeight({.sources = sources,
                  .x_stride = n_columns,
                  .n_columns = n_columns,
                  .scale_period = batch,
                  .c = found.data(),
                  .c_stride = n_columns},
                 PackedWeight::InRows({.data = w.data(),
                                       .n_rows = n_out,
                                       .n_columns = kTaps * n_inner,
                                       .row_stride = kTaps * n_inner,
                                       .column_stride = 1},
                                      kTaps, type),
                 n_threads);
  EXPECT_LT(RelativeError(found, expected), 0.02);
}

}  // namespace
}  // namespace dp_bench::policy
