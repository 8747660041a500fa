// Products with operands of 8 bits: their definition in product_kernels.h, on every kind of
// processor that this one can stand in for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/product_cache.h"
#include "policy/kernels/product_tiles.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// which operand is the weight, tiles of 16 rows, panels, blocks of the inner dimension
using TileCase = std::tuple<Int8Weights, std::int64_t, std::int64_t, std::int64_t>;

class Int8Tiles : public testing::TestWithParam<TileCase> {};

INSTANTIATE_TEST_SUITE_P(
    Cases, Int8Tiles,
    testing::Combine(testing::Values(Int8Weights::kInRows, Int8Weights::kInPanels),
                     testing::Values(16, 32), testing::Values(1, 2), testing::Values(1, 3)));

TEST_P(Int8Tiles, EveryProcessorComputesTheSameSums) {
  const Int8Weights weights = std::get<0>(GetParam());
  const std::int64_t n_rows = std::get<1>(GetParam());
  const std::int64_t n_panels = std::get<2>(GetParam());
  const std::int64_t n_blocks = std::get<3>(GetParam());
  std::mt19937 random(5);
  std::uniform_int_distribution<int> byte(0, 255);
  const auto bytes = [&](std::int64_t n) {
    std::vector<std::uint8_t> numbers;
    // the largest magnitudes first, in which narrower sums would saturate
    for (std::int64_t i = 0; i < n; ++i) {
      numbers.push_back(static_cast<std::uint8_t>(i < n / 4 ? 127 + i % 2 * 128 : byte(random)));
    }
    return numbers;
  };
  const std::int64_t n_inner = n_blocks * kInt8Inner;
  const std::vector<std::uint8_t> a = bytes(n_rows * n_inner);
  const std::vector<std::uint8_t> b = bytes(n_panels * n_inner * kBf16Width);
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < n_blocks; ++i) offsets.push_back(i * kInt8Inner * kBf16Width);
  const auto run = [&](Int8Processor processor) {
    std::vector<std::int32_t> c(static_cast<std::size_t>(n_rows * n_panels * kBf16Width));
    const Int8Kernels kernels(processor, weights);
    kernels.Run({.n_blocks = n_blocks,
                 .n_rows = n_rows,
                 .n_panels = n_panels,
                 .a = a.data(),
                 .a_stride = n_inner,
                 .b = b.data(),
                 .block_offsets = offsets.data(),
                 .b_stride = 4 * kBf16Width,
                 .panel_stride = n_inner * kBf16Width,
                 .c = c.data(),
                 .c_stride = n_panels * kBf16Width});
    return c;
  };
  const std::vector<std::int32_t> expected = run(Int8Processor::kAny);
  int n_processors = 0;
  for (const Int8Processor processor :
       {Int8Processor::kAmx, Int8Processor::kAvx512Vnni, Int8Processor::kAvx2}) {
    if (FindInt8Kernel(processor, weights) == nullptr) continue;
    ++n_processors;
    EXPECT_EQ(run(processor), expected) << "processor " << static_cast<int>(processor);
  }
  if (n_processors == 0) GTEST_SKIP() << "this processor has no AVX2";
}

// A row with its scale and zero point.
struct Levels {
  explicit Levels(const Tensor& row) {
    const float low = std::min(0.0F, row.min().item<float>());
    const float high = std::max(0.0F, row.max().item<float>());
    scale = (high - low) / 255.0F;
    const float inverse = 255.0F / (high - low);
    zero_point = std::nearbyint(-low * inverse);
    numbers = ((row * inverse).round() + zero_point).clamp(0, 255).to(torch::kInt64);
  }
  float scale = 0.0F;
  float zero_point = 0.0F;
  Tensor numbers;
};

class Int8Products : public testing::Test {
 protected:
  Int8Products() : scope_(&cache_) { torch::manual_seed(1); }

  const torch::NoGradGuard no_grad_;
  ProductCache cache_{ProductType::kInt8};
  const ProductScope scope_;
};

TEST_F(Int8Products, AreThoseOfTheirRoundedOperands) {
  const Tensor x = torch::randn({37, 70}) + 0.5;
  const Tensor weight = torch::randn({65, 70});
  const Tensor found = RowProduct(x, weight);
  const Tensor scales = weight.abs().amax(1, /*keepdim=*/true) / 127.0F;
  const Tensor rounded = (weight / scales).round().to(torch::kInt64);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    const Levels row(x[i]);
    const Tensor sums = rounded.matmul(row.numbers - static_cast<std::int64_t>(row.zero_point));
    const Tensor expected = sums.to(torch::kFloat32) * (scales.squeeze(1) * row.scale);
    ASSERT_TRUE(torch::equal(found[i], expected)) << "row " << i;
  }
  const Tensor exact = torch::matmul(x, weight.t());
  EXPECT_LT(((found - exact).norm() / exact.norm()).item<double>(), 0.02);
}

TEST_F(Int8Products, ARowEqualsThatRowAloneAndInColumns) {
  const Tensor x = torch::randn({45, 96});
  const Tensor weight = torch::randn({70, 96});
  const Tensor together = RowProduct(x, weight);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    ASSERT_TRUE(torch::equal(RowProduct(x.narrow(0, i, 1), weight), together.narrow(0, i, 1)));
  }
  const Tensor columns = x.t().contiguous();
  const ShiftedRows source = {.x = columns.const_data_ptr<float>()};
  Tensor found = torch::empty({70, 45});
  ColumnProduct(weight, {&source, 1}, /*scale_period=*/45, found);
  EXPECT_TRUE(torch::equal(found.t(), together));
}

// x [I, T, B], kernel [O, I, 3] -> [O, T, B].
Tensor Convolve(const Tensor& x, const Tensor& kernel) {
  const Tensor dense = x.contiguous();
  std::vector<ShiftedRows> sources;
  for (std::int64_t shift = -1; shift <= 1; ++shift) {
    sources.push_back({.x = dense.const_data_ptr<float>(), .shift = shift * x.size(2)});
  }
  Tensor y = torch::empty({kernel.size(0), x.size(1) * x.size(2)});
  ColumnProduct(kernel.permute({0, 2, 1}).flatten(1), sources, x.size(2), y);
  return y.view({kernel.size(0), x.size(1), x.size(2)});
}

TEST_F(Int8Products, ShiftedSourcesAreConvolutionsOfEachBatchRow) {
  const Tensor x = torch::randn({70, 6, 7}) - 0.5;
  const Tensor kernel = torch::randn({80, 70, 3});
  const Tensor found = Convolve(x, kernel);
  const Tensor exact = torch::conv1d(x.permute({2, 0, 1}), kernel, {}, 1, 1).permute({1, 2, 0});
  EXPECT_LT(((found - exact).norm() / exact.norm()).item<double>(), 0.02);
  for (const auto& [begin, n] : {std::pair{0, 1}, std::pair{2, 4}}) {
    EXPECT_TRUE(torch::equal(Convolve(x.narrow(2, begin, n), kernel), found.narrow(2, begin, n)));
  }
}

TEST_F(Int8Products, ThreadsDoNotChangeThem) {
  const Tensor x = torch::randn({256, 8, 20});
  const Tensor kernel = torch::randn({256, 256, 3});
  const int n_threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor alone = Convolve(x, kernel);
  at::set_num_threads(3);
  const Tensor shared = Convolve(x, kernel);
  at::set_num_threads(n_threads);
  EXPECT_TRUE(torch::equal(alone, shared));
}

TEST_F(Int8Products, ARowWithoutFiniteNumbersHasNoProducts) {
  Tensor x = torch::randn({3, 64});
  const Tensor weight = torch::randn({64, 64});
  const Tensor before = RowProduct(x, weight);
  x[0][5] = std::numeric_limits<float>::quiet_NaN();
  x[2][7] = -std::numeric_limits<float>::infinity();
  const Tensor found = RowProduct(x, weight);
  EXPECT_TRUE(found[0].isnan().all().item<bool>());
  EXPECT_TRUE(torch::equal(found[1], before[1]));
  EXPECT_TRUE(found[2].isnan().all().item<bool>());
}

TEST_F(Int8Products, ZerosStayZeros) {
  const Tensor weight = torch::randn({64, 64});
  EXPECT_TRUE(torch::equal(RowProduct(torch::zeros({5, 64}), weight), torch::zeros({5, 64})));
  EXPECT_TRUE(torch::equal(RowProduct(torch::randn({5, 64}), weight * 0.0), torch::zeros({5, 64})));
}

TEST_F(Int8Products, SmallWeightsAreInFloat32) {
  const Tensor x = torch::randn({5, 63});
  const Tensor weight = torch::randn({70, 63});
  const Tensor found = RowProduct(x, weight);
  ProductCache exact(ProductType::kFloat32);
  const ProductScope scope(&exact);
  EXPECT_TRUE(torch::equal(RowProduct(x, weight), found));
}

}  // namespace
}  // namespace dp_bench::policy
