#include "policy/kernels/projected_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/product_cache.h"
#include "support/difference.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

struct SublayerCase {
  std::int64_t batch, n_query, n_memory;  // n_memory: 0 for self-attention
  std::int64_t n_head, head_dim;
  bool has_bias, has_mask;
  double p;  // of dropout
};

class ProjectedAttentionCases : public testing::TestWithParam<SublayerCase> {
 protected:
  ProjectedAttentionCases() {
    torch::manual_seed(4);
    const SublayerCase& c = GetParam();
    const std::int64_t d = c.n_head * c.head_dim;
    x_ = torch::randn({c.batch * c.n_query, d}).requires_grad_();
    w_in_ = (torch::randn({c.n_memory > 0 ? d : 3 * d, d}) * 0.3).requires_grad_();
    w_out_ = (torch::randn({d, d}) * 0.3).requires_grad_();
    if (c.n_memory > 0) kv_ = torch::randn({c.batch, c.n_memory, 2 * d}).requires_grad_();
    if (c.has_bias) bias_ = torch::randn({3 * d}).requires_grad_();
    if (c.has_mask) {
      const std::int64_t n_key = c.n_memory > 0 ? c.n_memory : c.n_query;
      mask_ = torch::full({c.n_query, n_key}, -INFINITY).triu(1);
    }
  }

  AttentionInputs Inputs(DropoutMasks* masks) const {
    return {
        .kv = kv_, .bias = bias_, .mask = mask_, .dropout = {.masks = masks, .p = GetParam().p}};
  }

  DropoutMasks MakeMasks() const {
    NoiseSource noise = NoiseOfRows(GetParam().batch);
    return DropoutMasks(noise);
  }

  std::vector<Tensor> Variables() const {
    std::vector<Tensor> variables = {x_, w_in_, w_out_};
    for (const Tensor& tensor : {kv_, bias_}) {
      if (tensor.defined()) variables.push_back(tensor);
    }
    return variables;
  }

  Tensor InBlocks(DropoutMasks* masks) const {
    return ProjectedAttention(x_, GetParam().batch,
                              {.w_in = w_in_, .w_out = w_out_, .n_head = GetParam().n_head},
                              Inputs(masks));
  }

  // The three operations one after the other.
  Tensor InParts(DropoutMasks* masks) const {
    AttentionInputs inputs = Inputs(masks);
    inputs.q = RowProduct(x_, w_in_).view({GetParam().batch, -1, w_in_.size(0)});
    return RowProduct(Attention(inputs, GetParam().n_head).flatten(0, 1), w_out_);
  }

  // The value and the gradients of all variables.
  std::vector<Tensor> WithGradients(const Tensor& y) const {
    const Tensor grad = torch::linspace(-1.0, 1.5, y.numel()).view(y.sizes());
    std::vector<Tensor> results = torch::autograd::grad({y}, Variables(), {grad});
    results.insert(results.begin(), y.detach());
    return results;
  }

  Tensor x_;
  Tensor w_in_;
  Tensor w_out_;
  Tensor kv_;
  Tensor bias_;
  Tensor mask_;
};

INSTANTIATE_TEST_SUITE_P(
    Cases, ProjectedAttentionCases,
    testing::Values(
        SublayerCase{.batch = 3, .n_query = 5, .n_head = 2, .head_dim = 3},
        SublayerCase{.batch = 40,
                     .n_query = 16,
                     .n_head = 3,
                     .head_dim = 32,
                     .has_bias = true,
                     .has_mask = true},
        SublayerCase{.batch = 37,
                     .n_query = 10,
                     .n_memory = 3,
                     .n_head = 2,
                     .head_dim = 24,
                     .has_bias = true,
                     .has_mask = true},
        SublayerCase{
            .batch = 9, .n_query = 100, .n_head = 2, .head_dim = 8, .has_bias = true, .p = 0.2},
        SublayerCase{
            .batch = 8, .n_query = 33, .n_memory = 40, .n_head = 1, .head_dim = 20, .p = 0.1}));

TEST_P(ProjectedAttentionCases, TrainingInBf16EqualsItsPartsWithGradients) {
  const AutocastGuard bf16(torch::kCPU, torch::kBFloat16);
  DropoutMasks masks = MakeMasks();
  DropoutMasks same = MakeMasks();
  const std::vector<Tensor> found = WithGradients(InBlocks(&masks));
  const std::vector<Tensor> expected = WithGradients(InParts(&same));
  EXPECT_TRUE(torch::equal(found[0], expected[0]));
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(RelativeDifference(found[i], expected[i]), 1e-4) << "gradient " << i;
  }
}

TEST_P(ProjectedAttentionCases, TheNumberOfThreadsDoesNotChangeTraining) {
  const AutocastGuard bf16(torch::kCPU, torch::kBFloat16);
  const int n_threads = at::get_num_threads();
  std::vector<std::vector<Tensor>> results;
  for (const int n : {1, 3}) {
    at::set_num_threads(n);
    DropoutMasks masks = MakeMasks();
    results.push_back(WithGradients(InBlocks(&masks)));
  }
  at::set_num_threads(n_threads);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(torch::equal(results[0][i], results[1][i])) << "result " << i;
  }
}

TEST_P(ProjectedAttentionCases, InferenceHasTheBitsOfItsParts) {
  const torch::NoGradGuard no_grad;
  for (const ProductType type : {ProductType::kFloat32, ProductType::kBf16, ProductType::kInt8}) {
    ProductCache cache(type);
    const ProductScope scope(&cache);
    EXPECT_TRUE(torch::equal(InBlocks(nullptr), InParts(nullptr)));
  }
}

}  // namespace
}  // namespace dp_bench::policy
