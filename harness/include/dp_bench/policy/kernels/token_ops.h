// The operations of a transformer between its matrix products, each as one node of the autograd
// graph: residual sum with LayerNorm, bias with GELU, and attention. Float32 on the CPU uses our
// own loops (token_kernels.h, attention_kernels.h). So does lower precision from autocast on the
// CPU, after conversion. Everything else uses LibTorch's operators. Both give the same numbers up
// to rounding. No row of a result depends on its neighbours.
#pragma once

#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "dp_bench/tensor.h"

namespace dp_bench::policy {

/// The dropout masks of one training step. Two draws from each row's kDropout stream form the key
/// of the row's masks. Their elements are a function of that key, the number of the mask and their
/// position only.
class DropoutMasks {
 public:
  explicit DropoutMasks(NoiseSource& noise);

  /// The next mask, [B, shape...]: 0 with probability p (to 16 bits), else 1 / (1 - p).
  torch::Tensor Next(at::IntArrayRef shape, double p, torch::Device device);

 private:
  std::vector<std::uint64_t> keys_;  // one per row
  std::uint32_t next_ = 0;
};

/// Dropout at one place of the network: none without masks or with p = 0.
struct Dropout {
  DropoutMasks* masks = nullptr;
  double p = 0.0;

  bool is_active() const { return masks != nullptr && p > 0.0; }

  /// x [B, ...].
  torch::Tensor Apply(const torch::Tensor& x) const;
};

/// What `AddNorm` returns.
struct AddNormResult {
  torch::Tensor sum;     // x + branch + bias
  torch::Tensor normed;  // layer_norm(sum)
};

/// x [rows, d]; branch [rows, d] or undefined; bias [d] or undefined.
AddNormResult AddNorm(const torch::Tensor& x, const torch::Tensor& branch,
                      const torch::Tensor& bias, const torch::nn::LayerNorm& norm);

/// gelu(x + bias), the exact formula; x [rows, d], bias [d].
torch::Tensor BiasGelu(const torch::Tensor& x, const torch::Tensor& bias);

/// relu(x + bias); x [rows, d], bias [d].
torch::Tensor BiasRelu(const torch::Tensor& x, const torch::Tensor& bias);

/// What `Attention` takes.
struct AttentionInputs {
  torch::Tensor q;     // [B, T, d], or [B, T, 3d]: queries, keys and values side by side
  torch::Tensor kv;    // [B, S, 2d]: keys, values; undefined if q has them. May be strided
  torch::Tensor bias;  // [3d], added to queries, keys and values; optional
  torch::Tensor mask;  // [T, S] or [B, T, S], added to the scores; optional. -inf excludes; every
                       // query needs a key
  Dropout dropout;     // of the attention weights
};

/// softmax(q k^T / sqrt(d / n_head) + mask) v, with heads as adjacent columns -> [B, T, d].
torch::Tensor Attention(const AttentionInputs& inputs, std::int64_t n_head);

/// The softmax of Attention, without dropout: [B, n_head, T, S].
torch::Tensor AttentionWeights(const AttentionInputs& inputs, std::int64_t n_head);

/// mish(x). Rows do not depend on their place where that matters, see fused_norm.h.
torch::Tensor TokenMish(const torch::Tensor& x);

}  // namespace dp_bench::policy
