#include "policy/networks/time_conv.h"

#include <tuple>

#include "dp_bench/error.h"
#include "harness/policy/gradient_check.h"
#include "policy/kernels/loop_tensors.h"

namespace dp_bench::policy {
namespace {

// [C, T, B] <-> [B, C, T]
torch::Tensor ToTimeMajor(const torch::Tensor& x) { return x.permute({1, 2, 0}).contiguous(); }
torch::Tensor ToBatchMajor(const torch::Tensor& x) { return x.permute({2, 0, 1}); }

// kind, kernel size, T, B
class TimeConvShapes
    : public testing::TestWithParam<std::tuple<TimeConvKind, int, std::int64_t, std::int64_t>> {};

TEST_P(TimeConvShapes, TimeMajorEqualsLibTorchWithGradients) {
  const auto [kind, kernel_size, steps, batch] = GetParam();
  torch::manual_seed(1);
  TimeConv conv(kind, 6, 10, kernel_size);
  const torch::Tensor x = torch::randn({batch, 6, steps}).requires_grad_();
  std::vector<torch::Tensor> inputs = conv->parameters();
  inputs.push_back(x);
  ExpectEqualWithGradients(ToBatchMajor(conv->ForwardTimeMajorWithBias(ToTimeMajor(x))), conv(x),
                           inputs);
}

TEST_P(TimeConvShapes, InferenceEqualsTraining) {
  const auto [kind, kernel_size, steps, batch] = GetParam();
  torch::manual_seed(1);
  TimeConv conv(kind, 6, 10, kernel_size);
  const torch::Tensor x = torch::randn({6, steps, batch});
  const torch::Tensor trained = conv->ForwardTimeMajor(x);
  const torch::NoGradGuard no_grad;
  EXPECT_LE(RelativeDifference(conv->ForwardTimeMajor(x), trained), kRounding);
}

TEST_P(TimeConvShapes, LowerPrecisionIsRoundedOncePerProduct) {
  const auto [kind, kernel_size, steps, batch] = GetParam();
  torch::manual_seed(1);
  TimeConv conv(kind, 6, 10, kernel_size);
  const torch::Tensor x = torch::randn({batch, 6, steps}).requires_grad_();
  std::vector<torch::Tensor> inputs = conv->parameters();
  inputs.push_back(x);
  const torch::Tensor expected = conv(x);
  torch::Tensor found;
  {
    const AutocastGuard autocast(torch::kCPU, torch::kBFloat16);
    found = ToBatchMajor(conv->ForwardTimeMajorWithBias(ToTimeMajor(x)));
  }
  EXPECT_EQ(found.scalar_type(), torch::kFloat32);
  const torch::Tensor weights = torch::linspace(-1.0, 1.5, expected.numel()).view(expected.sizes());
  const auto found_grads = torch::autograd::grad({(found * weights).sum()}, inputs);
  const auto expected_grads = torch::autograd::grad({(expected * weights).sum()}, inputs);
  // both operands and the result are rounded, by up to 2^-9 of themselves
  const auto error = [](const torch::Tensor& a, const torch::Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
  };
  EXPECT_LE(error(found, expected), 3.0 * 0x1p-9);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_LE(error(found_grads[i], expected_grads[i]), 3.0 * 0x1p-9) << "input " << i;
  }
}

// kernel 7 on 2 steps: most taps meet only padding
INSTANTIATE_TEST_SUITE_P(Kinds, TimeConvShapes,
                         testing::Values(std::tuple{TimeConvKind::kSame, 5, 16, 3},
                                         std::tuple{TimeConvKind::kSame, 5, 4, 40},
                                         std::tuple{TimeConvKind::kSame, 1, 8, 5},
                                         std::tuple{TimeConvKind::kSame, 3, 1, 1},
                                         std::tuple{TimeConvKind::kSame, 7, 2, 4},
                                         std::tuple{TimeConvKind::kDown, 3, 16, 3},
                                         std::tuple{TimeConvKind::kDown, 3, 2, 1},
                                         std::tuple{TimeConvKind::kUp, 4, 8, 3},
                                         std::tuple{TimeConvKind::kUp, 4, 1, 2}));

TEST(TimeConv, InferenceSeesWeightsThatChangedInPlace) {
  TimeConv conv(TimeConvKind::kSame, 2, 2, 3);
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::ones({2, 4, 1});
  const torch::Tensor before = conv->ForwardTimeMajor(x);
  for (torch::Tensor& parameter : conv->parameters()) parameter.mul_(2.0);
  EXPECT_TRUE(torch::allclose(conv->ForwardTimeMajor(x), 2.0 * before));
}

TEST(TimeConv, AnEvenKernelCannotKeepTheLength) {
  EXPECT_THROW(TimeConv(TimeConvKind::kSame, 2, 2, 4), Error);
}

}  // namespace
}  // namespace dp_bench::policy
