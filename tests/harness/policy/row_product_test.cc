#include "dp_bench/policy/kernels/row_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "harness/policy/gradient_check.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/product_cache.h"
#include "policy/kernels/product_kernels.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// columns of x, inner dimension, rows of the weight: full tiles, remainders, and the odd sizes at
// which a BLAS changes its kernel
using Sizes = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

class ProductSizes : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override { torch::manual_seed(1); }

  const torch::NoGradGuard no_grad_;
};

INSTANTIATE_TEST_SUITE_P(Sizes, ProductSizes,
                         testing::Values(Sizes{1, 1, 1}, Sizes{3, 5, 24}, Sizes{6, 5, 48},
                                         Sizes{4, 64, 7}, Sizes{8, 33, 100}, Sizes{16, 256, 97},
                                         Sizes{17, 14, 2}, Sizes{33, 20, 256}, Sizes{100, 64, 200},
                                         Sizes{800, 14, 2}));

TEST_P(ProductSizes, RowProductEqualsDoublePrecision) {
  const auto [rows, inner, out] = GetParam();
  const Tensor x = torch::randn({rows, inner});
  const Tensor weight = torch::randn({out, inner});
  const Tensor expected = torch::matmul(x.to(torch::kFloat64), weight.to(torch::kFloat64).t());
  EXPECT_LE(RelativeDifference(RowProduct(x, weight), expected), kRounding);
}

TEST_P(ProductSizes, ColumnProductAddsToBlocksOfLargerMatrices) {
  const auto [columns, inner, out] = GetParam();
  const Tensor x = torch::randn({inner, columns + 3}).narrow(1, 2, columns);
  const Tensor weight = torch::randn({out, 2 * inner}).narrow(1, inner, inner);
  const Tensor whole = torch::randn({out, columns + 5});
  Tensor y = whole.narrow(1, 1, columns);
  const Tensor expected =
      y.to(torch::kFloat64) + torch::matmul(weight.to(torch::kFloat64), x.to(torch::kFloat64));
  const Tensor left = whole.select(1, 0).clone();
  const Tensor right = whole.narrow(1, columns + 1, 4).clone();
  ColumnProduct(weight, x, /*accumulates=*/true, y);
  EXPECT_LE(RelativeDifference(y, expected), kRounding);
  EXPECT_TRUE(torch::equal(whole.select(1, 0), left));
  EXPECT_TRUE(torch::equal(whole.narrow(1, columns + 1, 4), right));

  ColumnProduct(weight, x, /*accumulates=*/false, y);
  EXPECT_LE(RelativeDifference(y, torch::matmul(weight.to(torch::kFloat64), x.to(torch::kFloat64))),
            kRounding);
}

TEST_P(ProductSizes, ARowOfABatchEqualsThatRowAlone) {
  const auto [rows, inner, out] = GetParam();
  const Tensor x = torch::randn({rows, inner});
  const Tensor weight = torch::randn({out, inner});
  const Tensor together = RowProduct(x, weight);
  for (std::int64_t i = 0; i < rows; ++i) {
    ASSERT_TRUE(torch::equal(RowProduct(x.narrow(0, i, 1), weight), together.narrow(0, i, 1)))
        << "row " << i;
  }
}

TEST_P(ProductSizes, TheNumberOfThreadsAndTheLayoutChangeNoBit) {
  const auto [rows, inner, out] = GetParam();
  const Tensor x = torch::randn({rows, inner});
  const Tensor weight = torch::randn({out, inner});
  const int n_threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = RowProduct(x, weight);
  at::set_num_threads(3);
  EXPECT_TRUE(torch::equal(RowProduct(x, weight), one));
  Tensor columns = torch::empty({out, rows});
  ColumnProduct(weight, x.t().contiguous(), /*accumulates=*/false, columns);
  EXPECT_TRUE(torch::equal(columns.t(), one));
  at::set_num_threads(n_threads);
}

// A convolution with three taps: a few columns use the weight in panels, more use it in rows.
TEST_P(ProductSizes, WeightsThatAreLaidOutOnceChangeNoBit) {
  const auto [columns, inner, out] = GetParam();
  const Tensor x = torch::randn({inner, columns});
  const Tensor weight = torch::randn({out, 3 * inner});
  const auto* const data = x.const_data_ptr<float>();
  const std::vector<ShiftedRows> sources = {
      {.x = data, .shift = -1}, {.x = data, .shift = 0}, {.x = data, .shift = 1}};
  Tensor expected = torch::empty({out, columns});
  ColumnProduct(weight, sources, /*scale_period=*/1, expected);
  ProductCache cache(ProductType::kFloat32);
  const ProductScope scope(&cache);
  Tensor whole = torch::zeros({out, columns + 2});  // the result is a block of a larger matrix
  Tensor found = whole.narrow(1, 1, columns);
  ColumnProduct(weight, sources, /*scale_period=*/1, found);
  EXPECT_TRUE(torch::equal(found, expected));
  EXPECT_EQ(whole.select(1, 0).abs().sum().item<float>(), 0.0F);
  EXPECT_EQ(whole.select(1, columns + 1).abs().sum().item<float>(), 0.0F);
}

TEST(ProductCache, AWeightStaysValidAfterTheCacheForgotIt) {
  ProductCache cache(ProductType::kBf16);
  const Tensor weight = torch::randn({32, 8});
  const PackedWeight& packed = cache.InPanels(weight);
  const std::vector<std::uint16_t> before(packed.bf16, packed.bf16 + 32 * 8);
  for (int i = 0; i < 3000; ++i) cache.InPanels(torch::randn({32, 8}));
  EXPECT_EQ(std::vector<std::uint16_t>(packed.bf16, packed.bf16 + 32 * 8), before);
}

TEST_P(ProductSizes, InTrainingItHasTheGradientsOfAMatrixProduct) {
  const auto [rows, inner, out] = GetParam();
  const torch::AutoGradMode with_grad(true);
  const Tensor x = torch::randn({rows, inner}).requires_grad_();
  // a part of a larger weight, like the query projection in in_proj_weight
  const Tensor weight = torch::randn({3 * out, inner}).requires_grad_();
  const Tensor part = weight.narrow(0, out, out);
  ExpectEqualWithGradients(RowProduct(x, part), torch::matmul(x, part.t()), {x, weight});
}

TEST_P(ProductSizes, UnderAutocastOnlyItsOperandsAreRounded) {
  const auto [rows, inner, out] = GetParam();
  const torch::AutoGradMode with_grad(true);
  const Tensor x = torch::randn({rows, inner}).requires_grad_();
  const Tensor weight = torch::randn({3 * out, inner}).requires_grad_();
  const Tensor part = weight.narrow(0, out, out);
  const auto rounded = [](const Tensor& t) { return t.to(torch::kBFloat16).to(torch::kFloat32); };
  const Tensor grad = torch::randn({rows, out});
  Tensor found;
  {
    const AutocastGuard autocast(torch::kCPU, torch::kBFloat16);
    found = RowProduct(x, part);
  }
  EXPECT_EQ(found.scalar_type(), torch::kFloat32);
  EXPECT_LE(RelativeDifference(found, torch::matmul(rounded(x), rounded(part).t())), kRounding);
  const auto grads = torch::autograd::grad({found}, {x, weight}, {grad});
  EXPECT_LE(RelativeDifference(grads[0], torch::matmul(rounded(grad), rounded(part))), kRounding);
  EXPECT_LE(RelativeDifference(grads[1].narrow(0, out, out),
                               torch::matmul(rounded(grad).t(), rounded(x))),
            kRounding);
}

// so equal weights and observations give equal bits on every processor that has FMA
TEST(RowProduct, AnElementIsOneChainOfFusedMultiplyAdds) {
#if defined(__x86_64__)
  const bool is_fused = __builtin_cpu_supports("fma");
#else
  const bool is_fused = true;
#endif
  const torch::NoGradGuard no_grad;
  torch::manual_seed(2);
  const Tensor x = torch::randn({37, 300});
  const Tensor weight = torch::randn({29, 300});
  const Tensor found = RowProduct(x, weight);
  const auto at = [](const Tensor& matrix, std::int64_t i, std::int64_t j) {
    return matrix.const_data_ptr<float>()[i * matrix.size(1) + j];
  };
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    for (std::int64_t j = 0; j < weight.size(0); ++j) {
      float sum = 0.0F;
      for (std::int64_t k = 0; k < x.size(1); ++k) {
        const float a = at(weight, j, k);
        const float b = at(x, i, k);
        sum = is_fused ? std::fma(a, b, sum) : a * b + sum;
      }
      ASSERT_EQ(at(found, i, j), sum) << "element " << i << ", " << j;
    }
  }
}

TEST(RowProduct, ALayersBiasGetsItsGradient) {
  torch::manual_seed(3);
  const Tensor x = torch::randn({2, 5, 6}).requires_grad_();
  torch::nn::Linear linear(6, 4);
  ExpectEqualWithGradients(ApplyLinear(linear, x), linear(x), {x, linear->weight, linear->bias});
}

TEST(RowProduct, ALayerWithoutBiasAddsNone) {
  const torch::NoGradGuard no_grad;
  torch::nn::Linear linear(torch::nn::LinearOptions(6, 4).bias(false));
  const Tensor x = torch::randn({3, 6});
  EXPECT_TRUE(torch::equal(ApplyLinear(linear, x), RowProduct(x, linear->weight)));
}

// batch, channels in and out, height, width, kernel, stride
using ImageSizes = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                              std::int64_t, std::int64_t>;

class ConvSizes : public testing::TestWithParam<ImageSizes> {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    const auto [batch, in, out, height, width, kernel, stride] = GetParam();
    conv_ = torch::nn::Conv2d(
        torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2));
    images_ = torch::randn({batch, in, height, width});
  }

  Tensor Apply(const Tensor& images) { return ApplyConv2d(conv_, images); }

  const torch::NoGradGuard no_grad_;
  torch::nn::Conv2d conv_{nullptr};
  Tensor images_;
};

// a stem, blocks with and without a stride, a shortcut, maps smaller than the kernel, and rows that
// blocks of places split
INSTANTIATE_TEST_SUITE_P(
    Sizes, ConvSizes,
    testing::Values(ImageSizes{2, 3, 16, 21, 34, 7, 2}, ImageSizes{3, 16, 24, 12, 11, 3, 1},
                    ImageSizes{2, 16, 32, 13, 10, 3, 2}, ImageSizes{2, 16, 32, 13, 10, 1, 2},
                    ImageSizes{5, 256, 40, 2, 1, 3, 1}, ImageSizes{1, 1, 1, 1, 1, 7, 2},
                    ImageSizes{1, 2, 3, 5, 1500, 3, 1}));

TEST_P(ConvSizes, EqualDoublePrecision) {
  const auto& options = conv_->options;
  const Tensor expected = torch::conv2d(
      images_.to(torch::kFloat64), conv_->weight.to(torch::kFloat64),
      conv_->bias.to(torch::kFloat64), options.stride(), options.kernel_size()->at(0) / 2);
  const Tensor out = Apply(images_);
  EXPECT_EQ(out.sizes(), expected.sizes());
  EXPECT_LE(RelativeDifference(out, expected), kRounding);
}

TEST_P(ConvSizes, TheNumberOfThreadsChangesNoBit) {
  const int n_threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = Apply(images_);
  at::set_num_threads(3);
  EXPECT_TRUE(torch::equal(Apply(images_), one));
  at::set_num_threads(n_threads);
}

TEST_P(ConvSizes, AnImageOfABatchEqualsThatImageAlone) {
  const Tensor together = Apply(images_);
  for (std::int64_t i = 0; i < images_.size(0); ++i) {
    EXPECT_TRUE(torch::equal(Apply(images_.narrow(0, i, 1)), together.narrow(0, i, 1)));
  }
}

TEST_P(ConvSizes, TrainingUsesLibTorchAndAgrees) {
  const Tensor inference = Apply(images_);
  const torch::AutoGradMode with_gradients(true);
  const Tensor training = Apply(images_);
  EXPECT_TRUE(training.requires_grad());
  EXPECT_LE(RelativeDifference(inference, training.detach().to(torch::kFloat64)), kRounding);
}

// oneDNN's gradient in bfloat16 would be made of memory that nothing was written to.
TEST(ApplyConv2d, TheGradientOfImagesOfOneColumnIsThatOfFloat32) {
  torch::manual_seed(1);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(64, 128, 3).stride(2).padding(1).bias(false));
  const Tensor images = torch::randn({8, 64, 2, 1});
  const auto gradient = [&](std::optional<torch::ScalarType> type) {
    const AutocastGuard autocast(torch::kCPU, type);
    conv->zero_grad();
    ApplyConv2d(conv, images).to(torch::kFloat32).square().sum().backward();
    return conv->weight.grad().clone();
  };
  EXPECT_TRUE(torch::equal(gradient(torch::kBFloat16), gradient(std::nullopt)));
}

}  // namespace
}  // namespace dp_bench::policy
