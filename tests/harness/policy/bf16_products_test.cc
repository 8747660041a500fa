// Products with bfloat16 operands: their definition in product_kernels.h, on every kind of
// processor that this one can stand in for.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
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

float FromBf16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16U);
}

float Flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

std::uint16_t Rounded(float x) {
  std::uint16_t result = 0;
  RoundToBf16(&x, 1, &result);
  return result;
}

// one or two tiles of rows, one or two panels, blocks of the inner dimension
using TileShape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

class Bf16Tiles : public testing::TestWithParam<TileShape> {
 protected:
  Bf16Tiles() {
    const auto [n_rows, n_panels, n_blocks] = GetParam();
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-70, 20);
    // numbers of every size: small ones whose products are denormal, and zeros
    const auto fill = [&](std::vector<std::uint16_t>& numbers, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        const float x = i % 7 == 0 ? std::ldexp(normal(random), exponent(random)) : normal(random);
        numbers.push_back(i % 31 == 0 ? std::uint16_t{0} : Rounded(x));
      }
    };
    fill(a_, n_rows * n_blocks * kBf16Inner);
    fill(b_, n_panels * n_blocks * kBf16Inner * kBf16Width);
    for (std::int64_t i = 0; i < n_blocks; ++i) offsets_.push_back(i * kBf16Inner * kBf16Width);
  }

  std::vector<float> Run(Bf16Processor processor) const {
    const auto [n_rows, n_panels, n_blocks] = GetParam();
    std::vector<float> c(static_cast<std::size_t>(n_rows * n_panels * kBf16Width));
    const Bf16Kernels scope(processor);
    scope.Run({.n_blocks = n_blocks,
               .n_rows = n_rows,
               .n_panels = n_panels,
               .a = a_.data(),
               .a_stride = n_blocks * kBf16Inner,
               .b = b_.data(),
               .block_offsets = offsets_.data(),
               .b_stride = 2 * kBf16Width,
               .panel_stride = n_blocks * kBf16Inner * kBf16Width,
               .c = c.data(),
               .c_stride = n_panels * kBf16Width});
    return c;
  }

  // The definition, element by element.
  float Expected(std::int64_t row, std::int64_t column) const {
    const auto [n_rows, n_panels, n_blocks] = GetParam();
    const std::int64_t panel = column / kBf16Width * n_blocks * kBf16Inner * kBf16Width;
    float sum = 0.0F;
    for (std::int64_t block = 0; block < n_blocks; ++block) {
      std::array<float, 2> chains = {};
      for (std::int64_t k = 0; k < kBf16Inner; ++k) {
        const std::int64_t inner = block * kBf16Inner + k;
        const float x = FromBf16(a_[static_cast<std::size_t>(row * n_blocks * kBf16Inner + inner)]);
        const float y = FromBf16(b_[static_cast<std::size_t>(
            panel + (inner / 2 * kBf16Width + column % kBf16Width) * 2 + inner % 2)]);
        float& chain = chains[static_cast<std::size_t>(k % 2)];
        chain = Flushed(std::fma(Flushed(x), Flushed(y), chain));
      }
      sum = Flushed(sum + Flushed(chains[0] + chains[1]));
    }
    return sum;
  }

  std::vector<std::uint16_t> a_;
  std::vector<std::uint16_t> b_;
  std::vector<std::int64_t> offsets_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, Bf16Tiles,
                         testing::Values(TileShape{16, 1, 1}, TileShape{32, 1, 3},
                                         TileShape{16, 2, 2}, TileShape{32, 2, 9}));

TEST_P(Bf16Tiles, EveryProcessorComputesTheDefinitionBitForBit) {
  const auto [n_rows, n_panels, n_blocks] = GetParam();
  int n_processors = 0;
  for (const Bf16Processor processor :
       {Bf16Processor::kAmx, Bf16Processor::kAvx512, Bf16Processor::kAvx2}) {
    if (FindBf16Kernel(processor) == nullptr) continue;
    ++n_processors;
    const std::vector<float> found = Run(processor);
    for (std::int64_t i = 0; i < n_rows; ++i) {
      for (std::int64_t j = 0; j < n_panels * kBf16Width; ++j) {
        const float value = found[static_cast<std::size_t>(i * n_panels * kBf16Width + j)];
        ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(Expected(i, j)))
            << "processor " << static_cast<int>(processor) << ", element " << i << ", " << j;
      }
    }
  }
  if (n_processors == 0) GTEST_SKIP() << "this processor has no fused multiply-add";
}

TEST_P(Bf16Tiles, AnyOrderDiffersOnlyByRounding) {
  if (FindBf16Kernel(Bf16Processor::kAvx512Bf16) == nullptr) {
    GTEST_SKIP() << "this processor has no products of bfloat16 pairs";
  }
  const std::vector<float> found = Run(Bf16Processor::kAvx512Bf16);
  const std::vector<float> expected = Run(Bf16Processor::kAny);
  const auto largest = *std::ranges::max_element(
      expected, {}, [](float value) { return std::isfinite(value) ? std::abs(value) : 0.0F; });
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(expected[i])) continue;
    ASSERT_NEAR(found[i], expected[i], 1e-5 * std::abs(largest)) << "element " << i;
  }
}

TEST(Bf16, NumbersAreRoundedToTheNearestAndTiesToEven) {
  EXPECT_EQ(FromBf16(Rounded(1.0F)), 1.0F);
  EXPECT_EQ(FromBf16(Rounded(1.0F + 0x1p-8F)), 1.0F);                   // a tie, to even
  EXPECT_EQ(FromBf16(Rounded(1.0F + 3.0F * 0x1p-8F)), 1.0F + 0x1p-6F);  // a tie, to even
  EXPECT_EQ(FromBf16(Rounded(1.0F + 0x1.1p-8F)), 1.0F + 0x1p-7F);
  EXPECT_EQ(FromBf16(Rounded(-3.4e38F)), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(FromBf16(Rounded(std::bit_cast<float>(0x7F800001U)))));
}

TEST(Bf16, LongAndShortArraysAreRoundedAlike) {
  const Tensor x = torch::randn({53});
  const Tensor y = torch::randn({53});
  std::vector<std::uint16_t> rounded(53);
  std::vector<std::uint16_t> pairs(106);
  RoundToBf16(x.const_data_ptr<float>(), 53, rounded.data());
  InterleaveBf16(x.const_data_ptr<float>(), y.const_data_ptr<float>(), 53, pairs.data());
  for (std::size_t i = 0; i < 53; ++i) {
    EXPECT_EQ(rounded[i], Rounded(x.const_data_ptr<float>()[i]));
    EXPECT_EQ(pairs[2 * i], rounded[i]);
    EXPECT_EQ(pairs[2 * i + 1], Rounded(y.const_data_ptr<float>()[i]));
  }
}

class Bf16Products : public testing::Test {
 protected:
  Bf16Products() : scope_(&cache_) { torch::manual_seed(1); }

  const torch::NoGradGuard no_grad_;
  ProductCache cache_{ProductType::kBf16};
  const ProductScope scope_;
};

TEST_F(Bf16Products, ErrAsMuchAsTheRoundingOfTheirOperands) {
  for (const auto& [rows, inner, out] : {std::tuple{1, 1, 1}, std::tuple{37, 70, 29},
                                         std::tuple{100, 192, 65}, std::tuple{800, 14, 2}}) {
    const Tensor x = torch::randn({rows, inner});
    const Tensor weight = torch::randn({out, inner});
    const auto rounded = [](const Tensor& t) { return t.to(torch::kBFloat16).to(torch::kFloat64); };
    const Tensor expected = torch::matmul(rounded(x), rounded(weight).t());
    const Tensor error = (RowProduct(x, weight).to(torch::kFloat64) - expected).abs().max();
    EXPECT_LT(error.item<double>(), 1e-5 * inner) << rows << ", " << inner << ", " << out;
  }
}

TEST_F(Bf16Products, ARowEqualsThatRowAloneAndInColumns) {
  const Tensor x = torch::randn({45, 96});
  const Tensor weight = torch::randn({50, 96});
  const Tensor together = RowProduct(x, weight);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    ASSERT_TRUE(torch::equal(RowProduct(x.narrow(0, i, 1), weight), together.narrow(0, i, 1)));
  }
  const Tensor columns = x.t().contiguous();
  const ShiftedRows source = {.x = columns.const_data_ptr<float>()};
  Tensor found = torch::empty({50, 45});
  ColumnProduct(weight, {&source, 1}, /*scale_period=*/45, found);
  EXPECT_TRUE(torch::equal(found.t(), together));
}

TEST_F(Bf16Products, ShiftedSourcesAreConvolutions) {
  constexpr std::int64_t kSteps = 6;
  constexpr std::int64_t kBatch = 7;
  const Tensor x = torch::randn({5, kSteps, kBatch});
  const Tensor kernel = torch::randn({9, 5, 3});  // [O, I, k]
  std::vector<ShiftedRows> sources;
  for (std::int64_t shift = -1; shift <= 1; ++shift) {
    sources.push_back({.x = x.const_data_ptr<float>(), .shift = shift * kBatch});
  }
  Tensor found = torch::empty({9, kSteps * kBatch});
  ColumnProduct(kernel.permute({0, 2, 1}).reshape({9, 15}), sources, kBatch, found);
  const auto rounded = [](const Tensor& t) { return t.to(torch::kBFloat16).to(torch::kFloat32); };
  const Tensor expected = torch::conv1d(rounded(x).permute({2, 0, 1}), rounded(kernel), {}, 1, 1);
  EXPECT_TRUE(
      torch::allclose(found.view({9, kSteps, kBatch}).permute({2, 0, 1}), expected, 1e-4, 1e-4));
}

TEST_F(Bf16Products, AWeightThatChangedIsLaidOutAgain) {
  const Tensor x = torch::randn({20, 64});
  Tensor weight = torch::randn({30, 64});
  const Tensor before = RowProduct(x, weight);
  weight.mul_(2.0);  // exact in bfloat16
  EXPECT_TRUE(torch::equal(RowProduct(x, weight), before * 2.0));
}

}  // namespace
}  // namespace dp_bench::policy
