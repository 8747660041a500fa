// See token_ops.h and projected_attention.h: attention, through the loops or through LibTorch's
// operators.
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <cmath>
#include <optional>
#include <vector>

#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/kernels/token_ops.h"
#include "policy/kernels/attention_block_kernels.h"
#include "policy/kernels/attention_kernels.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/product_cache.h"
#include "policy/kernels/projected_attention.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Where the parts of an attention's input are. q and kv may be strided, except in their last
// dimension.
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

// `mask` is the result of MaskForKernel; dropout is [B, H, S, padded T]. Both may be undefined.
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
  const bool is_self = !inputs.kv.defined();
  const std::int64_t d = is_self ? inputs.q.size(2) / 3 : inputs.q.size(2);
  const auto biased = [&](const Tensor& x, std::int64_t begin) {
    return inputs.bias.defined() ? x + inputs.bias.narrow(0, begin, x.size(2)) : x;
  };
  const Tensor q = biased(inputs.q, 0);
  const Tensor kv = is_self ? q.narrow(2, d, 2 * d) : biased(inputs.kv, d);
  const auto heads = [&](const Tensor& x, std::int64_t begin) {
    return x.narrow(2, begin, d).unflatten(2, {n_head, d / n_head}).transpose(1, 2);
  };
  return {heads(q, 0), heads(kv, 0), heads(kv, d)};
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

// The dropout mask, [B, H, S, padded T]: the same for both implementations of attention.
Tensor WeightDropout(const AttentionInputs& inputs, std::int64_t n_query, std::int64_t n_head,
                     torch::Device device) {
  if (!inputs.dropout.is_active()) return {};
  const std::int64_t n_key = inputs.kv.defined() ? inputs.kv.size(1) : n_query;
  return inputs.dropout.masks->Next({n_head, n_key, PaddedQueries(n_query)}, inputs.dropout.p,
                                    device);
}

AttentionBlockShape BlockShapeOf(const Tensor& x, std::int64_t batch, const Tensor& kv,
                                 const Tensor& mask, std::int64_t n_head) {
  const bool has_memory = kv.defined();
  const std::int64_t n_query = x.size(0) / batch;
  return {.batch = batch,
          .n_head = n_head,
          .head_dim = x.size(1) / n_head,
          .n_query = n_query,
          .n_key = has_memory ? kv.size(1) : n_query,
          .memory_row = has_memory ? kv.stride(0) : 0,
          .memory_token = has_memory ? kv.stride(1) : 0,
          .mask_row = mask.defined() && mask.dim() == 3 ? mask.stride(0) : 0};
}

// The tensors of a block, for both passes; all but x may be undefined.
struct BlockTensors {
  Tensor x;
  Tensor kv;
  Tensor bias;
  Tensor mask;     // the result of MaskForKernel
  Tensor dropout;  // that of WeightDropout
};

Tensor RunBlocks(const AttentionBlockShape& shape, const BlockTensors& in, const PackedWeight& w_in,
                 const PackedWeight& w_out) {
  Tensor y = at::empty_like(in.x);
  RunAttentionBlockForward({.shape = shape,
                            .x = in.x.const_data_ptr<float>(),
                            .w_in = &w_in,
                            .bias = DataOrNull(in.bias),
                            .memory = DataOrNull(in.kv),
                            .mask = DataOrNull(in.mask),
                            .dropout = DataOrNull(in.dropout),
                            .w_out = &w_out,
                            .y = y.mutable_data_ptr<float>()},
                           at::get_num_threads());
  return y;
}

// In bfloat16.
class ProjectedAttentionFunction : public torch::autograd::Function<ProjectedAttentionFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w_in,
                        const Tensor& w_out, const std::optional<Tensor>& kv,
                        const std::optional<Tensor>& bias, const std::optional<Tensor>& mask,
                        const std::optional<Tensor>& dropout, std::int64_t batch,
                        std::int64_t n_head) {
    const BlockTensors in = {.x = x,
                             .kv = kv.value_or(Tensor()),
                             .bias = bias.value_or(Tensor()),
                             .mask = mask.value_or(Tensor()),
                             .dropout = dropout.value_or(Tensor())};
    ctx->save_for_backward({x, w_in, w_out, in.kv, in.bias, in.mask, in.dropout});
    ctx->saved_data["batch"] = batch;
    ctx->saved_data["n_head"] = n_head;
    const AttentionBlockShape shape = BlockShapeOf(x, batch, in.kv, in.mask, n_head);
    RECORD_FUNCTION("dp_bench::projected_attention",
                    std::vector<c10::IValue>({x, w_in, w_out, shape.n_key}));
    return RunBlocks(shape, in, PackForTraining(w_in), PackForTraining(w_out));
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& w_in = saved[1];
    const Tensor& w_out = saved[2];
    const Tensor& kv = saved[3];
    const Tensor& bias = saved[4];
    const Tensor& mask = saved[5];
    const Tensor grad_y = grads[0].contiguous();
    const PackedWeight panels_in = PackForTraining(w_in);
    const PackedWeight panels_in_transposed = PackForTraining(w_in.t());
    const PackedWeight panels_out_transposed = PackForTraining(w_out.t());
    Tensor grad_x = at::empty_like(x);
    Tensor grad_kv = kv.defined() ? at::empty_like(kv) : Tensor();
    Tensor grad_w_in = at::empty_like(w_in, at::MemoryFormat::Contiguous);
    Tensor grad_w_out = at::empty_like(w_out);
    Tensor grad_bias = at::empty({3 * x.size(1)}, x.options());
    const AttentionBlockShape shape = BlockShapeOf(x, ctx->saved_data["batch"].toInt(), kv, mask,
                                                   ctx->saved_data["n_head"].toInt());
    RECORD_FUNCTION("dp_bench::projected_attention_backward",
                    std::vector<c10::IValue>({x, w_in, w_out, shape.n_key}));
    RunAttentionBlockBackward(
        {.shape = shape,
         .bias = DataOrNull(bias),
         .memory = DataOrNull(kv),
         .mask = DataOrNull(mask),
         .dropout = DataOrNull(saved[6]),
         .grad_memory = kv.defined() ? grad_kv.mutable_data_ptr<float>() : nullptr,
         .products = {.rows = x.size(0),
                      .x = x.const_data_ptr<float>(),
                      .grad_y = grad_y.const_data_ptr<float>(),
                      .w1 = &panels_in,
                      .w1_transposed = &panels_in_transposed,
                      .w2_transposed = &panels_out_transposed,
                      .grad_x = grad_x.mutable_data_ptr<float>(),
                      .grad_w1 = grad_w_in.mutable_data_ptr<float>(),
                      .grad_w2 = grad_w_out.mutable_data_ptr<float>(),
                      .grad_bias = grad_bias.mutable_data_ptr<float>()}},
        at::get_num_threads());
    return {grad_x,   grad_w_in, grad_w_out, grad_kv, bias.defined() ? grad_bias : Tensor(),
            Tensor(), Tensor(),  Tensor(),   Tensor()};
  }
};

}  // namespace

Tensor Attention(const AttentionInputs& projections, std::int64_t n_head) {
  AttentionInputs inputs = projections;
  inputs.q = ForLoops(inputs.q);
  inputs.kv = ForLoops(inputs.kv);
  const Tensor dropout = WeightDropout(inputs, inputs.q.size(1), n_head, inputs.q.device());
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

Tensor ProjectedAttention(const Tensor& x, std::int64_t batch,
                          const AttentionProjections& projections, const AttentionInputs& inputs) {
  const Tensor& w_in = projections.w_in;
  const Tensor& w_out = projections.w_out;
  const std::int64_t n_head = projections.n_head;
  ProductCache* const cache = CacheForBlocks(x, batch);
  const bool trains_in_blocks =
      TrainsInBf16(x) && HasBlocks(BlockShapeOf(x, batch, inputs.kv, {}, n_head));
  if (cache == nullptr && !trains_in_blocks) {
    AttentionInputs projected = inputs;
    projected.q = RowProduct(x, w_in).view({batch, -1, w_in.size(0)});
    return RowProduct(Attention(projected, n_head).flatten(0, 1), w_out);
  }
  BlockTensors in = {.x = FullPrecision(x).contiguous(),
                     .kv = ForLoops(inputs.kv),
                     .bias = inputs.bias,
                     .mask = MaskForKernel(inputs.mask),
                     .dropout = WeightDropout(inputs, x.size(0) / batch, n_head, x.device())};
  if (cache != nullptr) {
    const AttentionBlockShape shape = BlockShapeOf(in.x, batch, in.kv, in.mask, n_head);
    RECORD_FUNCTION("dp_bench::projected_attention",
                    std::vector<c10::IValue>({x, w_in, w_out, shape.n_key}));
    return RunBlocks(shape, in, cache->InPanels(w_in), cache->InPanels(w_out));
  }
  if (in.kv.defined()) in.kv = in.kv.contiguous();
  return ProjectedAttentionFunction::apply(in.x, w_in, w_out, IfDefined(in.kv), IfDefined(in.bias),
                                           IfDefined(in.mask), IfDefined(in.dropout), batch,
                                           n_head);
}

Tensor AttentionWeights(const AttentionInputs& inputs, std::int64_t n_head) {
  return WeightsOf(SplitHeads(inputs, n_head), inputs.mask);
}

}  // namespace dp_bench::policy
