// See time_conv.h. A convolution is a list of taps. The forward pass, the gradient of the input and
// the gradient of the weight are the same list of matrix products with swapped operands.
#include "policy/networks/time_conv.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/product_cache.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// y[out_phase][:, t] += W[index] @ x[in_phase][:, t + shift]. A phase is every second time step of
// the finer side of a strided convolution; without a stride there is one phase.
struct Tap {
  std::int64_t index;
  std::int64_t in_phase;
  std::int64_t out_phase;
  std::int64_t shift;
};

// The block of time steps that a tap reads, and the block that it writes.
struct TapRange {
  std::int64_t in_begin;
  std::int64_t out_begin;
  std::int64_t length;  // <= 0: the tap only meets padding
};

// The taps of each kind. On both sides, the first tap of a phase has shift 0: it overwrites, the
// others add.
std::vector<Tap> TapsFor(TimeConvKind kind, std::int64_t kernel_size) {
  // y[t] = sum_j W_j x[2t + j - 1]
  if (kind == TimeConvKind::kDown) return {{1, 0, 0, 0}, {2, 1, 0, 0}, {0, 1, 0, -1}};
  // y[2t + j - 1] += W_j x[t]
  if (kind == TimeConvKind::kUp) return {{1, 0, 0, 0}, {2, 0, 1, 0}, {3, 0, 0, -1}, {0, 0, 1, 1}};

  const std::int64_t half = kernel_size / 2;
  std::vector<Tap> taps = {{half, 0, 0, 0}};
  for (std::int64_t shift = 1; shift <= half; ++shift) {
    taps.push_back({half - shift, 0, 0, -shift});
    taps.push_back({half + shift, 0, 0, shift});
  }
  return taps;
}

TapRange RangeOf(const Tap& tap, std::int64_t steps) {
  return {std::max<std::int64_t>(0, tap.shift), std::max<std::int64_t>(0, -tap.shift),
          steps - std::abs(tap.shift)};
}

std::int64_t PhasesIn(TimeConvKind kind) { return kind == TimeConvKind::kDown ? 2 : 1; }
std::int64_t PhasesOut(TimeConvKind kind) { return kind == TimeConvKind::kUp ? 2 : 1; }

// [C, P * T, B] -> [P, C, T, B]: step P * t + p becomes step t of phase p.
Tensor SplitPhases(const Tensor& x, std::int64_t phases) {
  if (phases == 1) return x.contiguous().unsqueeze(0);
  return x.reshape({x.size(0), x.size(1) / phases, phases, x.size(2)})
      .permute({2, 0, 1, 3})
      .contiguous();
}

// The inverse of SplitPhases.
Tensor JoinPhases(const Tensor& x) {
  if (x.size(0) == 1) return x.squeeze(0);
  return x.permute({1, 2, 0, 3}).reshape({x.size(1), x.size(0) * x.size(2), x.size(3)});
}

// Time steps [begin, begin + length) of one phase as a matrix [C, length * B].
Tensor Block(const Tensor& x, std::int64_t phase, std::int64_t begin, std::int64_t length) {
  const std::int64_t batch = x.size(3);
  return x.select(0, phase).view({x.size(1), -1}).narrow(1, begin * batch, length * batch);
}

// The taps with input and output swapped.
std::vector<Tap> Mirrored(std::vector<Tap> taps) {
  for (Tap& tap : taps) {
    std::swap(tap.in_phase, tap.out_phase);
    tap.shift = -tap.shift;
  }
  return taps;
}

// The weights [O, I] of the taps that write a phase; `weight` is [k, O, I].
std::vector<Tensor> WeightsOfPhase(const Tensor& weight, std::span<const Tap> taps,
                                   std::int64_t phase) {
  std::vector<Tensor> weights;
  for (const Tap& tap : taps) {
    if (tap.out_phase == phase) weights.push_back(weight.select(0, tap.index));
  }
  return weights;
}

// What these taps read of x [P_in, I, T, B].
std::vector<ShiftedRows> SourcesOfPhase(const Tensor& x, std::span<const Tap> taps,
                                        std::int64_t phase) {
  std::vector<ShiftedRows> sources;
  for (const Tap& tap : taps) {
    if (tap.out_phase != phase) continue;
    sources.push_back({.x = x.const_data_ptr<float>() + tap.in_phase * x.stride(0),
                       .shift = tap.shift * x.size(3)});
  }
  return sources;
}

// The taps in inference: one product per phase of the result, with the weights of each phase side
// by side, [O, taps * I].
Tensor ApplyTapsAtOnce(const Tensor& x, std::span<const Tensor> weights,
                       std::span<const Tap> taps) {
  const auto n_phases = static_cast<std::int64_t>(weights.size());
  Tensor y = at::empty({n_phases, weights[0].size(0), x.size(2), x.size(3)}, x.options());
  for (std::int64_t phase = 0; phase < n_phases; ++phase) {
    Tensor out = Block(y, phase, 0, x.size(2));
    ColumnProduct(weights[static_cast<std::size_t>(phase)], SourcesOfPhase(x, taps, phase),
                  /*scale_period=*/x.size(3), out);
  }
  return y;
}

// [O, I, k] or, for kUp, [I, O, k] -> [k, O, I]; and the way back. The weight and its gradient lie
// in memory tap by tap, so that neither copies.
Tensor TapsFirst(const Tensor& weight, TimeConvKind kind) {
  if (kind == TimeConvKind::kUp) return weight.permute({2, 1, 0}).contiguous();
  return weight.permute({2, 0, 1}).contiguous();
}

Tensor TapsLast(const Tensor& weight, TimeConvKind kind) {
  if (kind == TimeConvKind::kUp) return weight.permute({2, 1, 0});
  return weight.permute({1, 2, 0});
}

// A convolution in training, with the products of `Self`, CPU float32:
//   Multiply: x [P_in, I, T, B], weight [k, O, I] -> [phases_out, O, T, B]
//   WeightGradient: the gradient of Multiply with respect to the weight, of its shape
template <class Self>
class TrainingTapConv : public torch::autograd::Function<Self> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        std::int64_t kind_number) {
    const auto kind = static_cast<TimeConvKind>(kind_number);
    const Tensor phases = SplitPhases(x, PhasesIn(kind));
    const Tensor rearranged = TapsFirst(weight, kind);
    ctx->save_for_backward({phases, rearranged});
    ctx->saved_data["kind"] = kind_number;
    const std::vector<Tap> taps = TapsFor(kind, rearranged.size(0));
    return JoinPhases(Self::Multiply(phases, rearranged, taps, PhasesOut(kind)));
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    const auto kind = static_cast<TimeConvKind>(ctx->saved_data["kind"].toInt());
    const std::vector<Tap> taps = TapsFor(kind, weight.size(0));
    const Tensor grad = SplitPhases(grads[0], PhasesOut(kind));

    Tensor grad_x;
    if (ctx->needs_input_grad(0)) {
      grad_x =
          JoinPhases(Self::Multiply(grad, weight.transpose(1, 2), Mirrored(taps), PhasesIn(kind)));
    }
    return {grad_x, TapsLast(Self::WeightGradient(grad, x, taps, weight.sizes()), kind), Tensor()};
  }
};

// The operands are small blocks of a larger matrix. For those, accumulating in place, the kernels
// made for inference are at least as fast as a BLAS.
class TapConvFunction : public TrainingTapConv<TapConvFunction> {
 public:
  static Tensor Multiply(const Tensor& x, const Tensor& weight, std::span<const Tap> taps,
                         std::int64_t phases_out) {
    const std::int64_t steps = x.size(2);
    Tensor y = at::empty({phases_out, weight.size(1), steps, x.size(3)}, x.options());
    for (const Tap& tap : taps) {
      const TapRange range = RangeOf(tap, steps);
      if (range.length <= 0) continue;
      const Tensor in = Block(x, tap.in_phase, range.in_begin, range.length);
      Tensor out = Block(y, tap.out_phase, range.out_begin, range.length);
      const bool is_first = tap.shift == 0 && (tap.in_phase == 0 || phases_out == 2);
      ColumnProduct(weight.select(0, tap.index), in, /*accumulates=*/!is_first, out);
    }
    return y;
  }

  static Tensor WeightGradient(const Tensor& grad, const Tensor& x, std::span<const Tap> taps,
                               at::IntArrayRef shape) {
    const std::int64_t steps = x.size(2);
    Tensor grad_weight = at::empty(shape, x.options());
    for (const Tap& tap : taps) {
      const TapRange range = RangeOf(tap, steps);
      Tensor out = grad_weight.select(0, tap.index);
      if (range.length <= 0) {
        out.zero_();
        continue;
      }
      at::mm_out(out, Block(grad, tap.out_phase, range.out_begin, range.length),
                 Block(x, tap.in_phase, range.in_begin, range.length).t());
    }
    return grad_weight;
  }
};

constexpr const char* kConvName = "dp_bench::time_conv";  // name shown in profilers

// In bfloat16. All taps of a phase are one product.
class Bf16TapConvFunction : public TrainingTapConv<Bf16TapConvFunction> {
 public:
  static Tensor Multiply(const Tensor& x, const Tensor& weight, std::span<const Tap> taps,
                         std::int64_t phases_out) {
    const int n_threads = at::get_num_threads();
    Tensor y = at::empty({phases_out, weight.size(1), x.size(2), x.size(3)}, x.options());
    RECORD_FUNCTION(kConvName, std::vector<c10::IValue>({weight, x.narrow(0, 0, 1)}));
    for (std::int64_t phase = 0; phase < phases_out; ++phase) {
      std::vector<MatrixView> weights;
      std::ranges::transform(WeightsOfPhase(weight, taps, phase), std::back_inserter(weights),
                             ViewOf);
      const std::vector<ShiftedRows> sources = SourcesOfPhase(x, taps, phase);
      const Tensor out = Block(y, phase, 0, x.size(2));
      MultiplyWeight({.sources = sources,
                      .x_stride = out.size(1),
                      .n_columns = out.size(1),
                      .scale_period = out.size(1),
                      .c = out.mutable_data_ptr<float>(),
                      .c_stride = out.stride(0)},
                     PackedWeight::InRows(weights, ProductType::kBf16AnyOrder, n_threads),
                     n_threads);
    }
    return y;
  }

  static Tensor WeightGradient(const Tensor& grad, const Tensor& x, std::span<const Tap> taps,
                               at::IntArrayRef shape) {
    Tensor grad_weight = at::empty(shape, grad.options());
    RECORD_FUNCTION(kConvName, std::vector<c10::IValue>({grad_weight, x.narrow(0, 0, 1)}));
    const std::int64_t steps = x.size(2);
    for (std::int64_t pair = 0; pair < grad.size(0) * x.size(0); ++pair) {
      const std::int64_t out_phase = pair / x.size(0);
      const std::int64_t in_phase = pair % x.size(0);
      std::vector<ShiftedResult> results;
      for (const Tap& tap : taps) {
        if (tap.in_phase != in_phase || tap.out_phase != out_phase) continue;
        results.push_back({.shift = -tap.shift * x.size(3),
                           .c = grad_weight.select(0, tap.index).mutable_data_ptr<float>(),
                           .c_stride = x.size(1)});
      }
      MultiplyOverColumns({.a = ViewOf(Block(grad, out_phase, 0, steps)),
                           .b = ViewOf(Block(x, in_phase, 0, steps)),
                           .results = results},
                          at::get_num_threads());
    }
    return grad_weight;
  }
};

// The inputs of each step of a convolution: [B, C, T] -> [B * T', C * k].
Tensor Windows(const Tensor& x, std::int64_t k, std::int64_t stride, std::int64_t padding) {
  if (x.size(0) == 1) {  // one kernel on a GPU; with more rows, one for each of them
    return at::im2col(x.unsqueeze(2), {1, k}, {1, 1}, {0, padding}, {1, stride}).squeeze(0).t();
  }
  const Tensor padded = padding == 0 ? x : torch::constant_pad_nd(x, {padding, padding});
  return padded.unfold(2, k, stride).transpose(1, 2).reshape({-1, x.size(1) * k});
}

}  // namespace

TimeConvImpl::TimeConvImpl(TimeConvKind kind, std::int64_t in_channels, std::int64_t out_channels,
                           std::int64_t kernel_size)
    : kind_(kind) {
  const std::int64_t wanted = kind == TimeConvKind::kDown ? 3 : kind == TimeConvKind::kUp ? 4 : 0;
  if (wanted == 0 ? kernel_size % 2 != 1 : kernel_size != wanted) {
    throw ConfigError("kernel_size is {}; a convolution that keeps T needs an odd one",
                      kernel_size);
  }
  // LibTorch's modules are created only for their initialization
  if (kind == TimeConvKind::kUp) {
    torch::nn::ConvTranspose1d conv(
        torch::nn::ConvTranspose1dOptions(in_channels, out_channels, kernel_size));
    weight_ = register_parameter("weight", TapsLast(TapsFirst(conv->weight.detach(), kind), kind));
    bias_ = register_parameter("bias", conv->bias.detach());
  } else {
    torch::nn::Conv1d conv(torch::nn::Conv1dOptions(in_channels, out_channels, kernel_size));
    weight_ = register_parameter("weight", TapsLast(TapsFirst(conv->weight.detach(), kind), kind));
    bias_ = register_parameter("bias", conv->bias.detach());
  }
}

Tensor TimeConvImpl::forward(const Tensor& x) { return Apply(x, bias_); }

Tensor TimeConvImpl::Apply(const Tensor& x, const Tensor& bias) {
  if (kind_ == TimeConvKind::kUp) {
    return torch::conv_transpose1d(x, weight_, bias, /*stride=*/2, /*padding=*/1);
  }
  const std::int64_t stride = kind_ == TimeConvKind::kDown ? 2 : 1;
  const std::int64_t padding = weight_.size(2) / 2;
  if (x.device().is_cpu() || torch::GradMode::is_enabled()) {
    return torch::conv1d(x, weight_, bias, stride, padding);
  }
  // For short sequences, cuDNN's repeatable kernels take several times as long as one product.
  const Tensor product =
      torch::addmm(bias, Windows(x, weight_.size(2), stride, padding), weight_.flatten(1).t());
  return product.view({x.size(0), -1, product.size(1)}).transpose(1, 2);
}

Tensor TimeConvImpl::ForwardTimeMajor(const Tensor& x) {
  if (TrainsInBf16(x)) {
    return Bf16TapConvFunction::apply(x, weight_, static_cast<std::int64_t>(kind_));
  }
  if (AutocastType(torch::kCPU)) {
    const Tensor y = Apply(x.permute({2, 0, 1}), /*bias=*/{});
    return FullPrecision(y.permute({1, 2, 0})).contiguous();
  }
  if (torch::GradMode::is_enabled()) {
    return TapConvFunction::apply(x, weight_, static_cast<std::int64_t>(kind_));
  }
  const std::vector<Tap> taps = TapsFor(kind_, weight_.size(2));
  return JoinPhases(ApplyTapsAtOnce(SplitPhases(x, PhasesIn(kind_)), InferenceWeights(), taps));
}

Tensor TimeConvImpl::ForwardTimeMajorWithBias(const Tensor& x) {
  return ForwardTimeMajor(x) + bias_.view({-1, 1, 1});
}

std::vector<Tensor> TimeConvImpl::InferenceWeights() {
  // versions reveal in-place changes of a weight; DropCache is for changes that do not bump the
  // version
  const std::lock_guard lock(cache_mutex_);
  const std::int64_t version = weight_.is_inference() ? -1 : weight_._version();
  if (cached_weights_.empty() || version < 0 || version != cached_version_) {
    const Tensor weight = TapsFirst(weight_.detach(), kind_);
    const std::vector<Tap> taps = TapsFor(kind_, weight.size(0));
    cached_weights_.clear();
    for (std::int64_t phase = 0; phase < PhasesOut(kind_); ++phase) {
      cached_weights_.push_back(torch::cat(WeightsOfPhase(weight, taps, phase), /*dim=*/1));
    }
    cached_version_ = version;
  }
  return cached_weights_;
}

}  // namespace dp_bench::policy
