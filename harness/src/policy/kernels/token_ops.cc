// See token_ops.h, except attention: passes tensors to the loops and wraps them as nodes of the
// autograd graph.
#include "dp_bench/policy/kernels/token_ops.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <optional>

#include "policy/kernels/fused_norm.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/token_kernels.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct NormedRows {
  Tensor sum;
  Tensor normed;
  Tensor mean;
  Tensor rstd;
};

// The tensors are contiguous. Without a branch, `sum` is x itself.
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

// Returns {normed}, or {normed, sum} with a branch.
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

Tensor RunBiasActivation(const Tensor& x, const Tensor& bias, Activation activation) {
  Tensor y = at::empty_like(x);
  RunBiasActivationForward({.activation = activation,
                            .rows = x.size(0),
                            .width = x.size(1),
                            .x = x.const_data_ptr<float>(),
                            .bias = bias.const_data_ptr<float>(),
                            .y = y.mutable_data_ptr<float>()},
                           at::get_num_threads());
  return y;
}

class BiasActivationFunction : public torch::autograd::Function<BiasActivationFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& bias,
                        Activation activation) {
    ctx->save_for_backward({x, bias});
    ctx->saved_data["activation"] = static_cast<std::int64_t>(activation);
    return RunBiasActivation(x, bias, activation);
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor grad_y = grads[0].contiguous();
    Tensor grad_x = at::empty_like(x);
    Tensor grad_bias = at::empty_like(saved[1]);
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    RunBiasActivationBackward({.activation = activation,
                               .rows = x.size(0),
                               .width = x.size(1),
                               .x = x.const_data_ptr<float>(),
                               .bias = saved[1].const_data_ptr<float>(),
                               .grad_y = grad_y.const_data_ptr<float>(),
                               .grad_x = grad_x.mutable_data_ptr<float>(),
                               .grad_bias = grad_bias.mutable_data_ptr<float>()},
                              at::get_num_threads());
    return {grad_x, grad_bias, Tensor()};
  }
};

Tensor Activate(const Tensor& x, const Tensor& bias, Activation activation) {
  if (!torch::GradMode::is_enabled()) return RunBiasActivation(x, bias, activation);
  return BiasActivationFunction::apply(x, bias, activation);
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
  return UsesOwnLoops(x) ? Activate(x.contiguous(), bias, Activation::kGelu)
                         : torch::gelu(x + bias);
}

Tensor BiasRelu(const Tensor& product, const Tensor& bias) {
  const Tensor x = ForLoops(product);
  return UsesOwnLoops(x) ? Activate(x.contiguous(), bias, Activation::kRelu)
                         : torch::relu(x + bias);
}

Tensor TokenMish(const Tensor& product) {
  const Tensor x = FullPrecision(product);
  const bool needs_place_independence = UsesOwnLoops(x) && !torch::GradMode::is_enabled();
  return needs_place_independence ? PositionIndependentMish(x) : torch::mish(x);
}

}  // namespace dp_bench::policy
