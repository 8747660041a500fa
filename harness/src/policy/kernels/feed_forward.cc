// See feed_forward.h.
#include "policy/kernels/feed_forward.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <optional>
#include <vector>

#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/feed_forward_kernels.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/product_cache.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Panels {
  const PackedWeight& w1;
  const PackedWeight& w2;
};

Tensor RunForward(const Tensor& x, const Tensor& bias, const Tensor& dropout, const Panels& panels,
                  Activation activation) {
  Tensor y = at::empty_like(x);
  RunFeedForwardForward({.activation = activation,
                         .rows = x.size(0),
                         .x = x.const_data_ptr<float>(),
                         .w1 = &panels.w1,
                         .bias = bias.const_data_ptr<float>(),
                         .dropout = DataOrNull(dropout),
                         .w2 = &panels.w2,
                         .y = y.mutable_data_ptr<float>()},
                        at::get_num_threads());
  return y;
}

// In bfloat16.
class FeedForwardFunction : public torch::autograd::Function<FeedForwardFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w1, const Tensor& bias,
                        const Tensor& w2, const std::optional<Tensor>& dropout,
                        Activation activation) {
    const Tensor mask = dropout.value_or(Tensor());
    ctx->save_for_backward({x, w1, bias, w2, mask});
    ctx->saved_data["activation"] = static_cast<std::int64_t>(activation);
    RECORD_FUNCTION("dp_bench::feed_forward", std::vector<c10::IValue>({x, w1}));
    return RunForward(x, bias, mask, {PackForTraining(w1), PackForTraining(w2)}, activation);
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& w1 = saved[1];
    const Tensor& bias = saved[2];
    const Tensor& w2 = saved[3];
    const Tensor grad_y = grads[0].contiguous();
    const PackedWeight panels1 = PackForTraining(w1);
    const PackedWeight panels1_transposed = PackForTraining(w1.t());
    const PackedWeight panels2_transposed = PackForTraining(w2.t());
    Tensor grad_x = at::empty_like(x);
    Tensor grad_w1 = at::empty_like(w1);
    Tensor grad_bias = at::empty_like(bias);
    Tensor grad_w2 = at::empty_like(w2);
    RECORD_FUNCTION("dp_bench::feed_forward_backward", std::vector<c10::IValue>({x, w1}));
    RunFeedForwardBackward(
        {.activation = static_cast<Activation>(ctx->saved_data["activation"].toInt()),
         .bias = bias.const_data_ptr<float>(),
         .dropout = DataOrNull(saved[4]),
         .products = {.rows = x.size(0),
                      .x = x.const_data_ptr<float>(),
                      .grad_y = grad_y.const_data_ptr<float>(),
                      .w1 = &panels1,
                      .w1_transposed = &panels1_transposed,
                      .w2_transposed = &panels2_transposed,
                      .grad_x = grad_x.mutable_data_ptr<float>(),
                      .grad_w1 = grad_w1.mutable_data_ptr<float>(),
                      .grad_w2 = grad_w2.mutable_data_ptr<float>(),
                      .grad_bias = grad_bias.mutable_data_ptr<float>()}},
        at::get_num_threads());
    return {grad_x, grad_w1, grad_bias, grad_w2, Tensor(), Tensor()};
  }
};

// The dropout mask of the hidden units, [rows, hidden], if there is one.
Tensor UnitDropout(const FeedForwardLayers& layers, std::int64_t n_rows) {
  if (!layers.dropout.is_active()) return {};
  const std::int64_t n_units = layers.linear1->weight.size(0);
  return layers.dropout.masks
      ->Next({n_rows / layers.batch * n_units}, layers.dropout.p, layers.linear1->weight.device())
      .view({n_rows, n_units});
}

}  // namespace

Tensor FeedForward(const Tensor& x, const FeedForwardLayers& layers) {
  const Tensor& w1 = layers.linear1->weight;
  const Tensor& bias = layers.linear1->bias;
  const Tensor& w2 = layers.linear2->weight;
  const Tensor dropout = UnitDropout(layers, x.size(0));
  if (TrainsInBf16(x)) {
    return FeedForwardFunction::apply(FullPrecision(x).contiguous(), w1, bias, w2,
                                      IfDefined(dropout), layers.activation);
  }
  if (ProductCache* const cache = CacheForBlocks(x, x.size(0))) {
    RECORD_FUNCTION("dp_bench::feed_forward", std::vector<c10::IValue>({x, w1}));
    return RunForward(x.contiguous(), bias, dropout, {cache->InPanels(w1), cache->InPanels(w2)},
                      layers.activation);
  }
  const Tensor product = RowProduct(x, w1);
  const Tensor hidden =
      layers.activation == Activation::kRelu ? BiasRelu(product, bias) : BiasGelu(product, bias);
  return RowProduct(dropout.defined() ? hidden * dropout : hidden, w2);
}

}  // namespace dp_bench::policy
