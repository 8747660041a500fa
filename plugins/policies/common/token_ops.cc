// See token_ops.h: hands tensors to the loops and makes them nodes of the autograd graph.
#include "token_ops.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "attention_kernels.h"
#include "autocast.h"
#include "fused_norm.h"
#include "token_kernels.h"

namespace dp_bench::common {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

bool UsesOwnLoops(const Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32;
}

// On the CPU what autocast left in lower precision goes on in float32, through our own loops.
Tensor ForLoops(const Tensor& x) {
  return x.defined() && x.device().is_cpu() ? FullPrecision(x) : x;
}

// An autograd function takes a missing tensor as nullopt.
std::optional<Tensor> IfDefined(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Tensor>(tensor) : std::nullopt;
}

const float* DataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

struct NormedRows {
  Tensor sum;
  Tensor normed;
  Tensor mean;
  Tensor rstd;
};

// Contiguous tensors; without a branch `sum` is x itself.
NormedRows RunAddNorm(const Tensor& x, const Tensor& branch, const Tensor& bias,
                      const Tensor& gamma, const Tensor& beta, double eps) {
  const std::int64_t rows = x.size(0);
  NormedRows result = {branch.defined() ? at::empty_like(x) : x, at::empty_like(x),
                       at::empty({rows}, x.options()), at::empty({rows}, x.options())};
  const Tensor added = bias.defined() ? bias : at::zeros({x.size(1)}, x.options());
  RunAddNormForward({.rows = rows,
                     .width = x.size(1),
                     .eps = static_cast<float>(eps),
                     .x = x.const_data_ptr<float>(),
                     .branch = DataOrNull(branch),
                     .bias = added.const_data_ptr<float>(),
                     .gamma = gamma.const_data_ptr<float>(),
                     .beta = beta.const_data_ptr<float>(),
                     .sum = branch.defined() ? result.sum.mutable_data_ptr<float>() : nullptr,
                     .normed = result.normed.mutable_data_ptr<float>(),
                     .mean = result.mean.mutable_data_ptr<float>(),
                     .rstd = result.rstd.mutable_data_ptr<float>()},
                    at::get_num_threads());
  return result;
}

// Returns {normed}, and with a branch {normed, sum}.
class AddNormFunction : public torch::autograd::Function<AddNormFunction> {
 public:
  static tensor_list forward(AutogradContext* ctx, const Tensor& x,
                             const std::optional<Tensor>& branch, const std::optional<Tensor>& bias,
                             const Tensor& gamma, const Tensor& beta, double eps) {
    const NormedRows result =
        RunAddNorm(x, branch.value_or(Tensor()), bias.value_or(Tensor()), gamma, beta, eps);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({result.sum, gamma, result.mean, result.rstd});
    ctx->saved_data["has_branch"] = branch.has_value();
    ctx->saved_data["has_bias"] = bias.has_value();
    if (!branch.has_value()) return {result.normed};
    return {result.normed, result.sum};
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& sum = saved[0];
    const Tensor& gamma = saved[1];
    const bool has_branch = ctx->saved_data["has_branch"].toBool();
    const Tensor grad_normed = grads[0].defined() ? grads[0].contiguous() : at::zeros_like(sum);
    const Tensor grad_sum = has_branch && grads[1].defined() ? grads[1].contiguous() : Tensor();
    Tensor grad_x = at::empty_like(sum);
    Tensor grad_gamma = at::empty_like(gamma);
    Tensor grad_beta = at::empty_like(gamma);
    Tensor grad_bias = at::empty_like(gamma);
    RunAddNormBackward({.rows = sum.size(0),
                        .width = sum.size(1),
                        .sum = sum.const_data_ptr<float>(),
                        .gamma = gamma.const_data_ptr<float>(),
                        .mean = saved[2].const_data_ptr<float>(),
                        .rstd = saved[3].const_data_ptr<float>(),
                        .grad_sum = DataOrNull(grad_sum),
                        .grad_normed = grad_normed.const_data_ptr<float>(),
                        .grad_x = grad_x.mutable_data_ptr<float>(),
                        .grad_gamma = grad_gamma.mutable_data_ptr<float>(),
                        .grad_beta = grad_beta.mutable_data_ptr<float>(),
                        .grad_bias = grad_bias.mutable_data_ptr<float>()},
                       at::get_num_threads());
    const bool has_bias = ctx->saved_data["has_bias"].toBool();
    return {grad_x,
            has_branch ? grad_x : Tensor(),
            has_bias ? grad_bias : Tensor(),
            grad_gamma,
            grad_beta,
            Tensor()};
  }
};

Tensor RunBiasGelu(const Tensor& x, const Tensor& bias) {
  Tensor y = at::empty_like(x);
  RunBiasGeluForward({.rows = x.size(0),
                      .width = x.size(1),
                      .x = x.const_data_ptr<float>(),
                      .bias = bias.const_data_ptr<float>(),
                      .y = y.mutable_data_ptr<float>()},
                     at::get_num_threads());
  return y;
}

class BiasGeluFunction : public torch::autograd::Function<BiasGeluFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& bias) {
    ctx->save_for_backward({x, bias});
    return RunBiasGelu(x, bias);
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor grad_y = grads[0].contiguous();
    Tensor grad_x = at::empty_like(x);
    Tensor grad_bias = at::empty_like(saved[1]);
    RunBiasGeluBackward({.rows = x.size(0),
                         .width = x.size(1),
                         .x = x.const_data_ptr<float>(),
                         .bias = saved[1].const_data_ptr<float>(),
                         .grad_y = grad_y.const_data_ptr<float>(),
                         .grad_x = grad_x.mutable_data_ptr<float>(),
                         .grad_bias = grad_bias.mutable_data_ptr<float>()},
                        at::get_num_threads());
    return {grad_x, grad_bias};
  }
};

// Where the parts of an attention's input lie. q and kv may be strided, their last dimension not.
struct AttentionPlaces {
  AttentionShape shape;
  std::int64_t k_offset;  // within the tensor that holds keys and values
  std::int64_t v_offset;
};

AttentionPlaces PlacesOf(const Tensor& q, const Tensor& kv, const Tensor& mask,
                         std::int64_t n_head) {
  const std::int64_t d = kv.defined() ? q.size(2) : q.size(2) / 3;
  const Tensor& source = kv.defined() ? kv : q;
  const std::int64_t k_offset = kv.defined() ? 0 : d;
  return {.shape = {.batch = q.size(0),
                    .n_head = n_head,
                    .head_dim = d / n_head,
                    .n_query = q.size(1),
                    .n_key = source.size(1),
                    .q_row = q.stride(0),
                    .q_token = q.stride(1),
                    .kv_row = source.stride(0),
                    .kv_token = source.stride(1),
                    .mask_row = mask.defined() && mask.dim() == 3 ? mask.stride(0) : 0},
          .k_offset = k_offset,
          .v_offset = k_offset + d};
}

struct AttentionResult {
  Tensor out;            // [B, T, d]
  Tensor probabilities;  // [B, H, S, padded T]
};

// `mask` as MaskForKernel returns it; dropout [B, H, S, padded T], both may be undefined.
AttentionResult RunAttention(const Tensor& q, const Tensor& kv, const Tensor& bias,
                             const Tensor& mask, const Tensor& dropout, std::int64_t n_head) {
  const AttentionPlaces places = PlacesOf(q, kv, mask, n_head);
  const AttentionShape& s = places.shape;
  AttentionResult result = {
      at::empty({s.batch, s.n_query, s.n_head * s.head_dim}, q.options()),
      at::empty({s.batch, s.n_head, s.n_key, PaddedQueries(s.n_query)}, q.options())};
  const float* kv_data = (kv.defined() ? kv : q).const_data_ptr<float>();
  RECORD_FUNCTION("dp_bench::attention", std::vector<c10::IValue>({q, kv, result.out}));
  RunAttentionForward({.shape = s,
                       .q = q.const_data_ptr<float>(),
                       .k = kv_data + places.k_offset,
                       .v = kv_data + places.v_offset,
                       .bias = DataOrNull(bias),
                       .mask = DataOrNull(mask),
                       .dropout = DataOrNull(dropout),
                       .out = result.out.mutable_data_ptr<float>(),
                       .probabilities = result.probabilities.mutable_data_ptr<float>()},
                      at::get_num_threads());
  return result;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const std::optional<Tensor>& kv,
                        const std::optional<Tensor>& bias, const std::optional<Tensor>& mask,
                        const std::optional<Tensor>& dropout, std::int64_t n_head) {
    const Tensor kv_tensor = kv.value_or(Tensor());
    const Tensor bias_tensor = bias.value_or(Tensor());
    const Tensor dropout_tensor = dropout.value_or(Tensor());
    const AttentionResult result =
        RunAttention(q, kv_tensor, bias_tensor, mask.value_or(Tensor()), dropout_tensor, n_head);
    ctx->save_for_backward({q, kv_tensor, bias_tensor, dropout_tensor, result.probabilities});
    ctx->saved_data["n_head"] = n_head;
    return result.out;
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& q = saved[0];
    const Tensor& kv = saved[1];
    const Tensor& bias = saved[2];
    const AttentionPlaces places = PlacesOf(q, kv, Tensor(), ctx->saved_data["n_head"].toInt());
    const Tensor grad_out = grads[0].contiguous();
    Tensor grad_q = at::empty_like(q);
    Tensor grad_kv = kv.defined() ? at::empty_like(kv) : grad_q;
    Tensor grad_bias = bias.defined() ? at::empty_like(bias) : Tensor();
    const float* kv_data = (kv.defined() ? kv : q).const_data_ptr<float>();
    float* grad_kv_data = grad_kv.mutable_data_ptr<float>();
    RECORD_FUNCTION("dp_bench::attention_backward",
                    std::vector<c10::IValue>({q, kv, grad_out, grad_q, grad_kv}));
    RunAttentionBackward(
        {.shape = places.shape,
         .q = q.const_data_ptr<float>(),
         .k = kv_data + places.k_offset,
         .v = kv_data + places.v_offset,
         .bias = DataOrNull(bias),
         .dropout = DataOrNull(saved[3]),
         .probabilities = saved[4].const_data_ptr<float>(),
         .grad_out = grad_out.const_data_ptr<float>(),
         .grad_q = grad_q.mutable_data_ptr<float>(),
         .grad_k = grad_kv_data + places.k_offset,
         .grad_v = grad_kv_data + places.v_offset,
         .grad_bias = bias.defined() ? grad_bias.mutable_data_ptr<float>() : nullptr},
        at::get_num_threads());
    return {grad_q, kv.defined() ? grad_kv : Tensor(), grad_bias, Tensor(), Tensor(), Tensor()};
  }
};

// [T, S] or [B, T, S] -> [S, padded T] or [B, S, padded T].
Tensor MaskForKernel(const Tensor& mask) {
  if (!mask.defined()) return {};
  const std::int64_t n_query = mask.size(-2);
  const Tensor transposed = mask.to(torch::kFloat32).transpose(-2, -1);
  return at::constant_pad_nd(transposed, {0, PaddedQueries(n_query) - n_query}, 0.0).contiguous();
}

// The parts as [B, H, T, D], for LibTorch's operators.
struct Heads {
  Tensor q, k, v;
};

Heads SplitHeads(const AttentionInputs& inputs, std::int64_t n_head) {
  const std::int64_t d = inputs.kv.defined() ? inputs.q.size(2) : inputs.q.size(2) / 3;
  Tensor packed[3] = {
      inputs.q.narrow(2, 0, d),
      inputs.kv.defined() ? inputs.kv.narrow(2, 0, d) : inputs.q.narrow(2, d, d),
      inputs.kv.defined() ? inputs.kv.narrow(2, d, d) : inputs.q.narrow(2, 2 * d, d)};
  std::int64_t part = 0;
  for (Tensor& tensor : packed) {
    if (inputs.bias.defined()) tensor = tensor + inputs.bias.narrow(0, part * d, d);
    tensor = tensor.unflatten(2, {n_head, d / n_head}).transpose(1, 2);
    ++part;
  }
  return {packed[0], packed[1], packed[2]};
}

// [T, S] or [B, T, S] -> broadcast over the heads, with the scores' type.
Tensor MaskForHeads(const Tensor& mask, torch::ScalarType type) {
  if (!mask.defined()) return mask;
  return (mask.dim() == 3 ? mask.unsqueeze(1) : mask).to(type);
}

Tensor WeightsOf(const Heads& heads, const Tensor& mask) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(heads.q.size(3)));
  const Tensor scores = torch::matmul(heads.q * scale, heads.k.transpose(-2, -1));
  return torch::softmax(mask.defined() ? scores + MaskForHeads(mask, scores.scalar_type()) : scores,
                        /*dim=*/-1);
}

// The mask of [B, H, S, padded T], whichever way the attention is computed.
Tensor WeightDropout(const AttentionInputs& inputs, std::int64_t n_head) {
  if (!inputs.dropout.is_active()) return {};
  const std::int64_t n_key = (inputs.kv.defined() ? inputs.kv : inputs.q).size(1);
  return inputs.dropout.masks->Next({n_head, n_key, PaddedQueries(inputs.q.size(1))},
                                    inputs.dropout.p, inputs.q.device());
}

}  // namespace

DropoutMasks::DropoutMasks(NoiseSource& noise) {
  constexpr std::int64_t kBound = std::numeric_limits<std::uint32_t>::max();
  const Tensor low = noise.RandInt(StreamId::kDropout, kBound);
  const Tensor high = noise.RandInt(StreamId::kDropout, kBound);
  for (std::int64_t row = 0; row < noise.batch_size(); ++row) {
    keys_.push_back(static_cast<std::uint64_t>(high.const_data_ptr<std::int64_t>()[row]) << 32U |
                    static_cast<std::uint64_t>(low.const_data_ptr<std::int64_t>()[row]));
  }
}

Tensor DropoutMasks::Next(at::IntArrayRef shape, double p, torch::Device device) {
  constexpr double kHalfwords = 65536.0;
  const double threshold = std::round(p * kHalfwords);
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(keys_.size())};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  Tensor mask = at::empty(sizes, torch::kFloat32);
  RunDropout(keys_, next_++, mask.numel() / mask.size(0), static_cast<std::uint32_t>(threshold),
             static_cast<float>(kHalfwords / (kHalfwords - threshold)),
             mask.mutable_data_ptr<float>(), at::get_num_threads());
  return mask.to(device);
}

Tensor Dropout::Apply(const Tensor& x) const {
  if (!is_active()) return x;
  return x * masks->Next(x.sizes().slice(1), p, x.device());
}

AddNormResult AddNorm(const Tensor& stream, const Tensor& joining, const Tensor& bias,
                      const torch::nn::LayerNorm& norm) {
  const Tensor x = ForLoops(stream);
  const Tensor branch = ForLoops(joining);
  if (!UsesOwnLoops(x)) {
    Tensor sum = branch.defined() ? x + branch : x;
    if (branch.defined() && bias.defined()) sum = sum + bias;
    return {sum,
            torch::layer_norm(sum, {sum.size(1)}, norm->weight, norm->bias, norm->options.eps())};
  }
  const double eps = norm->options.eps();
  const Tensor in = x.contiguous();
  const Tensor added = branch.defined() ? branch.contiguous() : branch;
  const Tensor bias_of_branch = branch.defined() ? bias : Tensor();
  if (!torch::GradMode::is_enabled()) {
    const NormedRows result = RunAddNorm(in, added, bias_of_branch, norm->weight, norm->bias, eps);
    return {result.sum, result.normed};
  }
  const tensor_list result = AddNormFunction::apply(in, IfDefined(added), IfDefined(bias_of_branch),
                                                    norm->weight, norm->bias, eps);
  return {result.size() == 2 ? result[1] : in, result[0]};
}

Tensor BiasGelu(const Tensor& product, const Tensor& bias) {
  const Tensor x = ForLoops(product);
  if (!UsesOwnLoops(x)) return torch::gelu(x + bias);
  if (!torch::GradMode::is_enabled()) return RunBiasGelu(x.contiguous(), bias);
  return BiasGeluFunction::apply(x.contiguous(), bias);
}

Tensor Attention(const AttentionInputs& projections, std::int64_t n_head) {
  AttentionInputs inputs = projections;
  inputs.q = ForLoops(inputs.q);
  inputs.kv = ForLoops(inputs.kv);
  const Tensor dropout = WeightDropout(inputs, n_head);
  if (!UsesOwnLoops(inputs.q)) {
    const Heads heads = SplitHeads(inputs, n_head);
    Tensor out;  // [B, H, T, D]
    if (dropout.defined()) {
      const Tensor kept = dropout.narrow(3, 0, inputs.q.size(1)).transpose(2, 3);
      out = torch::matmul(WeightsOf(heads, inputs.mask) * kept, heads.v);
    } else {
      out = torch::scaled_dot_product_attention(
          heads.q, heads.k, heads.v, IfDefined(MaskForHeads(inputs.mask, heads.q.scalar_type())));
    }
    return out.transpose(1, 2).flatten(2);
  }

  const Tensor mask = MaskForKernel(inputs.mask);
  if (!torch::GradMode::is_enabled()) {
    return RunAttention(inputs.q, inputs.kv, inputs.bias, mask, dropout, n_head).out;
  }
  const Tensor kv = inputs.kv.defined() ? inputs.kv.contiguous() : inputs.kv;
  return AttentionFunction::apply(inputs.q.contiguous(), IfDefined(kv), IfDefined(inputs.bias),
                                  IfDefined(mask), IfDefined(dropout), n_head);
}

Tensor AttentionWeights(const AttentionInputs& inputs, std::int64_t n_head) {
  return WeightsOf(SplitHeads(inputs, n_head), inputs.mask);
}

Tensor TokenMish(const Tensor& product) {
  const Tensor x = FullPrecision(product);
  const bool needs_place_independence = UsesOwnLoops(x) && !torch::GradMode::is_enabled();
  return needs_place_independence ? PositionIndependentMish(x) : torch::mish(x);
}

}  // namespace dp_bench::common
