#include "policy/kernels/feed_forward.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <tuple>
#include <vector>

#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/product_cache.h"
#include "support/difference.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// rows, width, hidden units: whole blocks and tiles, and parts of them
using LayerShape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

constexpr std::int64_t kBatch = 4;

DropoutMasks MakeMasks() {
  NoiseSource noise = NoiseOfRows(kBatch);
  return DropoutMasks(noise);
}

class FeedForwardShapes : public testing::TestWithParam<LayerShape> {
 protected:
  FeedForwardShapes() {
    torch::manual_seed(2);
    const auto [rows, width, n_units] = GetParam();
    x_ = torch::randn({rows, width}).requires_grad_();
    grad_y_ = torch::randn({rows, width});
    linear1_ = torch::nn::Linear(width, n_units);
    linear2_ = torch::nn::Linear(n_units, width);
  }

  FeedForwardLayers Layers(Activation activation, Dropout dropout = {}) const {
    return {.linear1 = linear1_,
            .linear2 = linear2_,
            .activation = activation,
            .dropout = dropout,
            .batch = kBatch};
  }

  // y, and the gradients of x, w1, its bias and w2
  std::vector<Tensor> Train(const FeedForwardLayers& layers) const {
    const AutocastGuard bf16(torch::kCPU, torch::kBFloat16);
    const Tensor y = FeedForward(x_, layers);
    std::vector<Tensor> results = torch::autograd::grad(
        {y}, {x_, linear1_->weight, linear1_->bias, linear2_->weight}, {grad_y_});
    results.insert(results.begin(), y.detach());
    return results;
  }

  // The same from the formulas, in double precision, with operands rounded where products begin.
  std::vector<Tensor> Expected(Activation activation, const Tensor& mask) const {
    const auto rounded = [](const Tensor& t) {
      return t.detach().to(torch::kBFloat16).to(torch::kFloat64);
    };
    const Tensor w1 = rounded(linear1_->weight);
    const Tensor w2 = rounded(linear2_->weight);
    const Tensor sum =
        (torch::matmul(rounded(x_), w1.t()) + linear1_->bias.detach().to(torch::kFloat64))
            .requires_grad_();
    const Tensor units =
        (activation == Activation::kRelu ? torch::relu(sum) : torch::gelu(sum)) * mask;
    const Tensor grad_units = torch::matmul(rounded(grad_y_), w2);
    const Tensor grad_sum = torch::autograd::grad({units}, {sum}, {grad_units})[0];
    return {torch::matmul(rounded(units), w2.t()), torch::matmul(rounded(grad_sum), w1),
            torch::matmul(rounded(grad_sum).t(), rounded(x_)), grad_sum.sum(0),
            torch::matmul(rounded(grad_y_).t(), rounded(units))};
  }

  Tensor x_;
  Tensor grad_y_;
  torch::nn::Linear linear1_ = nullptr;
  torch::nn::Linear linear2_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Shapes, FeedForwardShapes,
                         testing::Values(LayerShape{4, 5, 3}, LayerShape{40, 16, 64},
                                         LayerShape{300, 24, 50}, LayerShape{1100, 64, 192},
                                         LayerShape{516, 33, 130}));

TEST_P(FeedForwardShapes, TrainingInBf16FollowsTheFormulas) {
  const auto [rows, width, n_units] = GetParam();
  constexpr double kRoundingOfUnits = 2e-3;  // float32 sums round some units to another bfloat16
  for (const Activation activation : {Activation::kGelu, Activation::kRelu}) {
    for (const double p : {0.0, 0.25}) {
      DropoutMasks masks = MakeMasks();
      const std::vector<Tensor> found = Train(Layers(activation, {.masks = &masks, .p = p}));
      DropoutMasks same = MakeMasks();
      const Tensor mask = p > 0.0 ? same.Next({rows / kBatch * n_units}, p, torch::kCPU)
                                        .view({rows, n_units})
                                        .to(torch::kFloat64)
                                  : torch::ones({rows, n_units}, torch::kFloat64);
      const std::vector<Tensor> expected = Expected(activation, mask);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_LE(RelativeDifference(found[i], expected[i]), kRoundingOfUnits)
            << "result " << i << ", dropout " << p;
      }
    }
  }
}

TEST_P(FeedForwardShapes, TheNumberOfThreadsDoesNotChangeTraining) {
  const int n_threads = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<Tensor> one = Train(Layers(Activation::kGelu));
  at::set_num_threads(3);
  const std::vector<Tensor> three = Train(Layers(Activation::kGelu));
  at::set_num_threads(n_threads);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(torch::equal(one[i], three[i])) << "result " << i;
  }
}

TEST_P(FeedForwardShapes, InferenceHasTheBitsOfItsThreeOperations) {
  const torch::NoGradGuard no_grad;
  for (const ProductType type : {ProductType::kFloat32, ProductType::kBf16, ProductType::kInt8}) {
    ProductCache cache(type);
    const ProductScope scope(&cache);
    const Tensor units = BiasGelu(RowProduct(x_, linear1_->weight), linear1_->bias);
    EXPECT_TRUE(torch::equal(FeedForward(x_, Layers(Activation::kGelu)),
                             RowProduct(units, linear2_->weight)));
  }
}

}  // namespace
}  // namespace dp_bench::policy
