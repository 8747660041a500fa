// Operations of operators, counted by hand.
#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <functional>
#include <vector>

#include "profile/op_recorder.h"

namespace dp_bench::profile {
namespace {

WorkTotal WorkOf(const std::function<void()>& work) {
  OpRecorder recorder;
  {
    RECORD_USER_SCOPE("test");
    work();
  }
  return SumOf(SummarizeOps(recorder.TakeEvents(), "test"));
}

TEST(OpWork, OfAMatrixProductIsTwoPerMultiplyAdd) {
  const torch::Tensor a = torch::ones({3, 5});
  const torch::Tensor b = torch::ones({5, 7});
  EXPECT_EQ(WorkOf([&] { torch::mm(a, b); }).flops, 2 * 3 * 5 * 7);
}

TEST(OpWork, CountsAProductOnceHoweverItIsReached) {
  const torch::Tensor x = torch::ones({2, 3, 5});
  const torch::Tensor w = torch::ones({7, 5});
  const torch::Tensor bias = torch::ones({7});
  EXPECT_EQ(WorkOf([&] { torch::linear(x, w, bias); }).flops, 2 * 6 * 5 * 7);
  EXPECT_EQ(WorkOf([&] { torch::matmul(x, w.t()); }).flops, 2 * 6 * 5 * 7);
  EXPECT_EQ(WorkOf([&] { torch::bmm(x, torch::ones({2, 5, 4})); }).flops, 2 * 2 * 3 * 5 * 4);
}

TEST(OpWork, OfAConvolutionCountsItsOutputs) {
  const torch::Tensor x = torch::ones({2, 3, 8, 6});
  const torch::Tensor w = torch::ones({5, 3, 3, 3});
  const auto stride2 = torch::nn::functional::Conv2dFuncOptions().stride(2).padding(1);
  EXPECT_EQ(WorkOf([&] { torch::nn::functional::conv2d(x, w, stride2); }).flops,
            2 * (2 * 4 * 3) * 5 * (3 * 9));
}

TEST(OpWork, OfTheGradientsOfAConvolutionIsTwiceThatOfTheConvolution) {
  const torch::Tensor x = torch::ones({2, 3, 8, 6}).requires_grad_();
  const torch::Tensor w = torch::ones({5, 3, 3, 3}).requires_grad_();
  torch::Tensor y;
  const double forward = WorkOf([&] { y = torch::conv2d(x, w).sum(); }).flops;
  EXPECT_EQ(forward, 2 * (2 * 6 * 4) * 5 * (3 * 9));
  EXPECT_EQ(WorkOf([&] { y.backward(); }).flops, 2 * forward);
}

TEST(OpWork, OfOurOwnKernelsComesFromTheirOperands) {
  const auto flops = [](const char* name, const std::vector<c10::IValue>& operands) {
    const c10::ArrayRef<const c10::IValue> inputs(operands.data(), operands.size());
    return ProductFlops(name, inputs).value_or(0.0);
  };
  const torch::Tensor q = torch::ones({2, 4, 6});
  const torch::Tensor kv = torch::ones({2, 5, 12});
  const torch::Tensor qkv = torch::ones({2, 4, 18});
  EXPECT_EQ(flops("dp_bench::attention", {q, kv}), 2 * 2 * (2 * 4 * 5 * 6));
  EXPECT_EQ(flops("dp_bench::attention", {qkv, torch::Tensor()}), 2 * 2 * (2 * 4 * 4 * 6));
  EXPECT_EQ(flops("dp_bench::attention_backward", {q, kv}), 4 * 2 * (2 * 4 * 5 * 6));
  EXPECT_EQ(flops("dp_bench::product", {torch::ones({7, 5}), torch::ones({3, 7})}), 2 * 3 * 5 * 7);
  const torch::Tensor x = torch::ones({3, 5});
  const torch::Tensor w1 = torch::ones({7, 5});
  EXPECT_EQ(flops("dp_bench::feed_forward", {x, w1}), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops("dp_bench::feed_forward_backward", {x, w1}), 4 * 2 * 3 * 5 * 7);
  const torch::Tensor w_in = torch::ones({15, 5});
  const torch::Tensor w_out = torch::ones({5, 5});
  const double attention = 2 * 3 * (15 * 5 + 5 * 5 + 2 * 4 * 5);  // 3 queries, 4 keys
  EXPECT_EQ(flops("dp_bench::projected_attention", {x, w_in, w_out, 4}), attention);
  EXPECT_EQ(flops("dp_bench::projected_attention_backward", {x, w_in, w_out, 4}), 2 * attention);
  EXPECT_EQ(flops("aten::add", {q, q}), 0.0);
}

}  // namespace
}  // namespace dp_bench::profile
