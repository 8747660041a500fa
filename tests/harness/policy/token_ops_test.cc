#include "dp_bench/policy/kernels/token_ops.h"

#include <torch/nn/init.h>

#include <array>
#include <limits>

#include "dp_bench/random.h"
#include "harness/policy/gradient_check.h"
#include "policy/kernels/attention_kernels.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

torch::Tensor Random(at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(true); }

// In float64 the same functions use LibTorch's operators.
torch::Tensor Double(const torch::Tensor& x) { return x.defined() ? x.to(torch::kFloat64) : x; }

TEST(TokenOps, AddNormEqualsLibTorchWithGradients) {
  torch::manual_seed(0);
  for (const std::int64_t rows : {1, 7, 200}) {
    for (const std::int64_t d : {5, 32, 100}) {
      torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({d}));
      torch::nn::init::normal_(norm->weight);
      torch::nn::init::normal_(norm->bias);
      const torch::Tensor x = Random({rows, d});
      const torch::Tensor branch = Random({rows, d});
      const torch::Tensor bias = Random({d});
      const AddNormResult found = AddNorm(x, branch, bias, norm);
      const torch::Tensor sum = x + branch + bias;
      const torch::Tensor normed = torch::layer_norm(sum, {d}, norm->weight, norm->bias);
      ExpectEqualWithGradients(torch::cat({found.sum, found.normed}), torch::cat({sum, normed}),
                               {x, branch, bias, norm->weight, norm->bias});
      ExpectEqualWithGradients(AddNorm(x, {}, {}, norm).normed,
                               torch::layer_norm(x, {d}, norm->weight, norm->bias),
                               {x, norm->weight, norm->bias});
    }
  }
}

TEST(TokenOps, BiasGeluEqualsLibTorchWithGradients) {
  torch::manual_seed(0);
  const torch::Tensor x = (torch::randn({70, 33}) * 4.0).requires_grad_(true);
  const torch::Tensor bias = Random({33});
  ExpectEqualWithGradients(BiasGelu(x, bias), torch::gelu(x + bias), {x, bias});
}

TEST(TokenOps, BiasReluEqualsLibTorchWithGradients) {
  torch::manual_seed(0);
  const torch::Tensor x = Random({70, 33});
  const torch::Tensor bias = Random({33});
  ExpectEqualWithGradients(BiasRelu(x, bias), torch::relu(x + bias), {x, bias});
}

TEST(TokenOps, BiasReluKeepsNotANumber) {
  const torch::Tensor x = torch::full({1, 20}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(BiasRelu(x, torch::zeros({20})).isnan().all().item<bool>());
}

TEST(TokenOps, BiasGeluIsTheExactOneFarOut) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::linspace(-40.0, 40.0, 4001).view({1, -1});
  const torch::Tensor expected = torch::gelu(x.to(torch::kFloat64));
  const torch::Tensor found = BiasGelu(x, torch::zeros({4001}));
  EXPECT_LE((found - expected).abs().max().item<double>(), 3e-6);
}

struct AttentionCase {
  std::int64_t batch, n_query, n_key, n_head, head_dim;
  int mask_dims;
};

class TokenAttention : public testing::TestWithParam<AttentionCase> {};

torch::Tensor MaskOf(const AttentionCase& c) {
  if (c.mask_dims == 0) return {};
  torch::Tensor mask = torch::rand({c.batch, c.n_query, c.n_key});
  mask.masked_fill_(mask < 0.3, -std::numeric_limits<float>::infinity());
  mask.select(2, 0).fill_(0.0);  // a key that every query sees
  return c.mask_dims == 3 ? mask : mask[0];
}

TEST_P(TokenAttention, EqualsLibTorchWithGradients) {
  const AttentionCase c = GetParam();
  torch::manual_seed(0);
  const std::int64_t d = c.n_head * c.head_dim;
  const bool is_self = c.n_query == c.n_key;
  const torch::Tensor q = Random({c.batch, c.n_query, is_self ? 3 * d : d});
  const torch::Tensor kv = is_self ? torch::Tensor() : Random({c.batch, c.n_key, 2 * d});
  const torch::Tensor bias = Random({3 * d});
  const torch::Tensor mask = MaskOf(c);
  std::vector<torch::Tensor> inputs = {q, bias};
  if (!is_self) inputs.push_back(kv);
  for (const double p : {0.0, 0.4}) {
    NoiseSource noise = NoiseOfRows(c.batch);
    NoiseSource same_noise = NoiseOfRows(c.batch);
    DropoutMasks masks(noise);
    DropoutMasks same_masks(same_noise);
    const torch::Tensor found =
        Attention({.q = q, .kv = kv, .bias = bias, .mask = mask, .dropout = {&masks, p}}, c.n_head);
    const torch::Tensor expected = Attention({.q = Double(q),
                                              .kv = Double(kv),
                                              .bias = Double(bias),
                                              .mask = Double(mask),
                                              .dropout = {&same_masks, p}},
                                             c.n_head);
    ExpectEqualWithGradients(found, expected.to(torch::kFloat32), inputs);
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(torch::equal(
        Attention({.q = q, .kv = kv, .bias = bias, .mask = mask}, c.n_head),
        Attention({.q = q, .kv = kv, .bias = bias, .mask = mask, .dropout = {&masks, 0.0}},
                  c.n_head)));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TokenAttention,
                         testing::Values(AttentionCase{1, 16, 16, 2, 32, 0},
                                         AttentionCase{9, 16, 3, 2, 16, 0},
                                         AttentionCase{20, 8, 8, 3, 6, 2},
                                         AttentionCase{3, 5, 7, 1, 20, 3},
                                         AttentionCase{2, 40, 40, 2, 64, 2}));

TEST(TokenOps, DropoutMasksAreTheHalfwordsOfPhilox) {
  NoiseSource noise = NoiseOfRows(2);
  NoiseSource same = NoiseOfRows(2);
  DropoutMasks masks(noise);
  masks.Next({7}, 0.5, torch::kCPU);
  const torch::Tensor mask = masks.Next({3, 100}, 0.25, torch::kCPU).view({2, 300});

  const torch::Tensor low = same.RandInt(StreamId::kDropout, 0xFFFFFFFF);
  const torch::Tensor high = same.RandInt(StreamId::kDropout, 0xFFFFFFFF);
  for (const std::int64_t element : {0, 5, 16, 63, 127, 128, 299}) {
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto lane = static_cast<std::uint32_t>(element / 128 * 16 + element % 16);
      const auto key0 = static_cast<std::uint32_t>(low[row].item<std::int64_t>());
      const auto key1 = static_cast<std::uint32_t>(high[row].item<std::int64_t>());
      const std::uint32_t word =
          Philox4x32({lane, 1, 0, 0}, {key0, key1})[static_cast<std::size_t>(element % 128 / 32)];
      const std::uint32_t halfword = element / 16 % 2 == 0 ? word & 0xFFFFU : word >> 16U;
      EXPECT_EQ(mask[row][element].item<float>(), halfword < 16384 ? 0.0F : 1.0F / 0.75F)
          << row << " " << element;
    }
  }
}

TEST(TokenOps, DropoutKeepsTheMean) {
  NoiseSource noise = NoiseOfRows(8);
  DropoutMasks masks(noise);
  const torch::Tensor mask = masks.Next({100000}, 0.1, torch::kCPU);
  EXPECT_NEAR(mask.mean().item<double>(), 1.0, 3e-3);
  EXPECT_NEAR((mask == 0.0).to(torch::kFloat64).mean().item<double>(), 0.1, 2e-3);
  EXPECT_FALSE(torch::equal(mask[0], mask[1]));
}

TEST(TokenOps, TheNumberOfThreadsChangesNoBit) {
  const auto run = [](int n_threads) {
    torch::set_num_threads(n_threads);
    torch::manual_seed(0);
    torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({96}));
    const torch::Tensor x = Random({4096, 96});
    const torch::Tensor bias = Random({96});
    const torch::Tensor qkv = Random({64, 16, 96});
    const torch::Tensor loss = BiasGelu(AddNorm(x, x, bias, norm).normed, bias).square().sum() +
                               Attention({.q = qkv, .bias = bias}, 2).square().sum();
    return torch::autograd::grad({loss}, {x, bias, qkv, norm->weight});
  };
  const int n_threads = torch::get_num_threads();
  const auto one = run(1);
  const auto three = run(3);
  torch::set_num_threads(n_threads);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << i;
}

}  // namespace
}  // namespace dp_bench::policy
