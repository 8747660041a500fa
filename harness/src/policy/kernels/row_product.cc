// See row_product.h.
#include "dp_bench/policy/kernels/row_product.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <optional>
#include <string_view>
#include <vector>

#include "policy/kernels/conv_kernels.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/product_cache.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr const char* kProductName = "dp_bench::product";  // name shown in profilers

bool UsesOwnKernels(const Tensor& x) { return !torch::GradMode::is_enabled() && UsesOwnLoops(x); }

Tensor WithDenseRows(const Tensor& matrix) {
  return matrix.stride(1) == 1 ? matrix : matrix.contiguous();
}

using OneDnnLinear = Tensor(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                            std::string_view, c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>);

// LibTorch's oneDNN operator, or none if LibTorch was built without oneDNN.
const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& FindOneDnnLinear() {
  static const auto linear = [] {
    const auto schema = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    return schema ? std::optional(schema->typed<OneDnnLinear>()) : std::nullopt;
  }();
  return linear;
}

// MKL, which LibTorch's matmul uses, has AVX-512 kernels only for Intel processors. oneDNN has them
// for all processors. There it computes x W^T and its gradient of x at 1.1 to 1.35 times MKL's
// rate.
bool TrainsWithOneDnn(const Tensor& x) {
  return torch::GradMode::is_enabled() && x.device().is_cpu() &&
         x.scalar_type() == torch::kFloat32 && !AutocastType(torch::kCPU) &&
         FindOneDnnLinear().has_value();
}

// The layouts of a weight for products without gradients, from the cache of this thread's scope.
PackedWeight InPanels(const Tensor& weight) {
  ProductCache* const cache = ProductScope::Current();
  return cache != nullptr ? cache->InPanels(weight)
                          : PackedWeight::InPanels(ViewOf(weight), ProductType::kFloat32);
}

PackedWeight InRows(const Tensor& weight, std::int64_t n_sources) {
  ProductCache* const cache = ProductScope::Current();
  return cache != nullptr ? cache->InRows(weight, n_sources)
                          : PackedWeight::InRows(ViewOf(weight), n_sources, ProductType::kFloat32);
}

// rows [M, K] times the transpose of weight [N, K], which `pack` lays out in panels: [..., N] in
// the given shape.
Tensor ProductOfRows(const Tensor& rows, const Tensor& weight, PackedWeight (*pack)(const Tensor&),
                     at::IntArrayRef shape) {
  Tensor out = at::empty(shape, rows.options());
  RECORD_FUNCTION(kProductName, std::vector<c10::IValue>({weight, out}));
  MultiplyByWeight({.n_rows = rows.size(0),
                    .x = rows.const_data_ptr<float>(),
                    .x_stride = rows.size(1),
                    .c = out.mutable_data_ptr<float>(),
                    .c_stride = weight.size(0)},
                   pack(weight), at::get_num_threads());
  return out;
}

struct OneDnnProducts {
  // x [..., K] times the transpose of weight [N, K].
  static Tensor Multiply(const Tensor& x, const Tensor& weight) {
    const c10::List<std::optional<at::Scalar>> no_scalars;
    return FindOneDnnLinear()->call(x, weight, std::nullopt, "none", no_scalars, "");
  }

  // [N, K], for grad [..., N].
  static Tensor WeightGradient(const Tensor& grad, const Tensor& x) {
    return at::mm(grad.flatten(0, -2).t(), x.flatten(0, -2));
  }
};

// Autocast to bfloat16 on the CPU, for matrices x and grad. LibTorch would write each operand and
// result in bfloat16 to memory and convert it for the loops in float32 around it.
struct Bf16Products {
  static Tensor Multiply(const Tensor& x, const Tensor& weight) {
    return ProductOfRows(x, weight, PackForTraining, {x.size(0), weight.size(0)});
  }

  static Tensor WeightGradient(const Tensor& grad, const Tensor& x) {
    Tensor gradient = at::empty({grad.size(1), x.size(1)}, grad.options());
    RECORD_FUNCTION(kProductName, std::vector<c10::IValue>({grad.t(), gradient}));
    const ShiftedResult result = {
        .shift = 0, .c = gradient.mutable_data_ptr<float>(), .c_stride = x.size(1)};
    MultiplyOverColumns({.a = ViewOf(grad.t()), .b = ViewOf(x.t()), .results = {&result, 1}},
                        at::get_num_threads());
    return gradient;
  }
};

template <class Products>
class TrainingRowProduct : public torch::autograd::Function<TrainingRowProduct<Products>> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight) {
    ctx->save_for_backward({x, weight});
    return Products::Multiply(x, weight);
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor grad = grads[0].contiguous();
    Tensor grad_x;
    if (ctx->needs_input_grad(0)) grad_x = Products::Multiply(grad, saved[1].t());
    Tensor grad_weight;
    if (ctx->needs_input_grad(1)) grad_weight = Products::WeightGradient(grad, saved[0]);
    return {grad_x, grad_weight};
  }
};

// With images of one column, oneDNN's gradient of the weights in bfloat16 reads memory that nothing
// was written to, if the stride is above 1 (oneDNN 3.10 and 3.12).
bool IsBrokenInBf16(const torch::nn::Conv2d& conv, const Tensor& images) {
  return images.device().is_cpu() && images.size(3) == 1 && conv->options.stride()->at(1) > 1 &&
         AutocastType(torch::kCPU) == torch::kBFloat16;
}

}  // namespace

bool TrainsInBf16(const Tensor& x) {
  return torch::GradMode::is_enabled() && x.device().is_cpu() &&
         AutocastType(torch::kCPU) == torch::kBFloat16 && UsesOwnLoops(FullPrecision(x));
}

Tensor RowProduct(const Tensor& x, const Tensor& weight) {
  if (TrainsWithOneDnn(x)) return TrainingRowProduct<OneDnnProducts>::apply(x, weight);
  const bool trains_in_bf16 = TrainsInBf16(x);
  if (!trains_in_bf16 && !UsesOwnKernels(x)) return torch::matmul(x, weight.t());
  const Tensor rows = FullPrecision(x).reshape({-1, x.size(-1)}).contiguous();
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  if (trains_in_bf16) return TrainingRowProduct<Bf16Products>::apply(rows, weight).view(shape);
  return ProductOfRows(rows, weight, InPanels, shape);
}

Tensor ApplyLinear(const torch::nn::Linear& linear, const Tensor& x) {
  if (!UsesOwnKernels(x)) return torch::linear(x, linear->weight, linear->bias);
  const Tensor y = RowProduct(x, linear->weight);
  return linear->bias.defined() ? y + linear->bias : y;
}

Tensor ApplyConv2d(torch::nn::Conv2d conv, const Tensor& images) {
  if (IsBrokenInBf16(conv, images)) {
    const Tensor x = FullPrecision(images);
    const AutocastGuard in_float32(torch::kCPU);
    return conv->forward(x);
  }
  if (!UsesOwnKernels(images)) return conv->forward(images);
  const auto& options = conv->options;
  const auto& padding = *std::get_if<torch::ExpandingArray<2>>(&options.padding());
  const Tensor x = images.contiguous();
  const Tensor& w = conv->weight;
  const auto axis = [&](std::int64_t dim) {
    const auto i = static_cast<std::size_t>(dim - 2);
    ConvAxis result = {.in = x.size(dim),
                       .out = 0,
                       .kernel = w.size(dim),
                       .stride = options.stride()->at(i),
                       .padding = padding->at(i)};
    result.out = (result.in + 2 * result.padding - result.kernel) / result.stride + 1;
    return result;
  };
  const ConvAxis rows = axis(2);
  const ConvAxis columns = axis(3);
  const Tensor bias = options.bias() ? conv->bias.contiguous() : Tensor();
  Tensor y = at::empty({x.size(0), w.size(0), rows.out, columns.out}, x.options());
  RECORD_FUNCTION("dp_bench::conv2d", std::vector<c10::IValue>({w, y}));
  const Tensor kernels = w.contiguous().flatten(1);
  RunConv2dForward({.batch = x.size(0),
                    .channels = x.size(1),
                    .out_channels = w.size(0),
                    .rows = rows,
                    .columns = columns,
                    .x = x.const_data_ptr<float>(),
                    .w = InRows(kernels, 1),
                    .bias = DataOrNull(bias),
                    .y = y.mutable_data_ptr<float>()},
                   at::get_num_threads());
  return y;
}

void ColumnProduct(const Tensor& weight, const Tensor& x, bool accumulates, Tensor& out) {
  const Tensor columns = WithDenseRows(x);
  RECORD_FUNCTION(kProductName, std::vector<c10::IValue>({weight, out}));
  const ShiftedRows rows = {.x = columns.const_data_ptr<float>()};
  MultiplyWeight({.sources = {&rows, 1},
                  .x_stride = columns.stride(0),
                  .n_columns = columns.size(1),
                  .scale_period = columns.size(1),
                  .c = out.mutable_data_ptr<float>(),
                  .c_stride = out.stride(0),
                  .accumulates = accumulates},
                 PackedWeight::InRows(ViewOf(weight), 1, ProductType::kFloat32),
                 at::get_num_threads());
}

void ColumnProduct(const Tensor& weight, std::span<const ShiftedRows> sources,
                   std::int64_t scale_period, Tensor& out) {
  const auto n_sources = static_cast<std::int64_t>(sources.size());
  RECORD_FUNCTION(kProductName, std::vector<c10::IValue>({weight, out}));
  const WeightByColumns args = {.sources = sources,
                                .x_stride = out.size(1),
                                .n_columns = out.size(1),
                                .scale_period = scale_period,
                                .c = out.mutable_data_ptr<float>(),
                                .c_stride = out.stride(0)};
  ProductCache* const cache = ProductScope::Current();
  if (cache != nullptr && cache->type() == ProductType::kFloat32 && args.n_columns <= kFewColumns) {
    MultiplyWeightInPanels(args, cache->InPanels(weight), at::get_num_threads());
  } else {
    MultiplyWeight(args, InRows(weight, n_sources), at::get_num_threads());
  }
}

}  // namespace dp_bench::policy
