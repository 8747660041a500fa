// See fused_norm.h: passes tensors to the loops of norm_kernels.h, one group of channels per task,
// and wraps them as one node of the autograd graph.
#include "policy/kernels/fused_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/norm_kernels.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// The two halves of a FiLM tensor: scale [C, B] (absent if the tensor has only offsets) and offset
// [C, B].
template <class T>
struct Film {
  T* scale = nullptr;
  T* offset = nullptr;
};

template <class T>
Film<T> SplitFilm(T* film, std::int64_t rows, std::int64_t channels, std::int64_t batch) {
  if (film == nullptr) return {};
  if (rows == channels) return {.offset = film};
  return {.scale = film, .offset = film + channels * batch};
}

struct NormResult {
  Tensor y;     // [C, T, B]
  Tensor mean;  // [n_groups, B]
  Tensor rstd;  // [n_groups, B]
};

// All tensors contiguous.
NormResult RunForward(const Tensor& x, const NormInputs& inputs, std::int64_t n_groups,
                      double eps) {
  const std::int64_t channels = x.size(0);
  const std::int64_t batch = x.size(2);
  NormResult result = {at::empty_like(x), at::empty({n_groups, batch}, x.options()),
                       at::empty({n_groups, batch}, x.options())};
  const Film<const float> film = SplitFilm(
      DataOrNull(inputs.film), inputs.film.defined() ? inputs.film.size(0) : 0, channels, batch);
  const NormForward args = {.channels = channels,
                            .n_groups = n_groups,
                            .steps = x.size(1),
                            .batch = batch,
                            .eps = static_cast<float>(eps),
                            .x = x.const_data_ptr<float>(),
                            .bias = inputs.bias.const_data_ptr<float>(),
                            .gamma = inputs.gamma.const_data_ptr<float>(),
                            .beta = inputs.beta.const_data_ptr<float>(),
                            .scale = film.scale,
                            .offset = film.offset,
                            .residual = DataOrNull(inputs.residual),
                            .y = result.y.mutable_data_ptr<float>(),
                            .mean = result.mean.mutable_data_ptr<float>(),
                            .rstd = result.rstd.mutable_data_ptr<float>()};
  RunNormForward(args, at::get_num_threads());
  return result;
}

class NormMishFilmFunction : public torch::autograd::Function<NormMishFilmFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& bias,
                        const Tensor& gamma, const Tensor& beta, const std::optional<Tensor>& film,
                        const std::optional<Tensor>& residual, std::int64_t n_groups, double eps) {
    const NormInputs inputs = {bias, gamma, beta, film.value_or(Tensor()),
                               residual.value_or(Tensor())};
    const NormResult result = RunForward(x, inputs, n_groups, eps);
    ctx->save_for_backward({x, bias, gamma, beta, inputs.film, result.mean, result.rstd});
    ctx->saved_data["has_residual"] = residual.has_value();
    return result.y;
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& film = saved[4];
    const std::int64_t channels = x.size(0);
    const std::int64_t batch = x.size(2);
    const std::int64_t n_groups = saved[5].size(0);
    const std::int64_t film_rows = film.defined() ? film.size(0) : 0;
    const Tensor grad_y = grads[0].contiguous();

    Tensor grad_x = at::empty_like(x);
    Tensor grad_bias = at::empty_like(saved[1]);
    Tensor grad_gamma = at::empty_like(saved[2]);
    Tensor grad_beta = at::empty_like(saved[3]);
    Tensor grad_film = film.defined() ? at::empty_like(film) : Tensor();
    const Film<const float> film_in = SplitFilm(DataOrNull(film), film_rows, channels, batch);
    const Film<float> film_out = SplitFilm(
        film.defined() ? grad_film.mutable_data_ptr<float>() : nullptr, film_rows, channels, batch);
    const NormBackward args = {.channels = channels,
                               .n_groups = n_groups,
                               .steps = x.size(1),
                               .batch = batch,
                               .x = x.const_data_ptr<float>(),
                               .bias = saved[1].const_data_ptr<float>(),
                               .gamma = saved[2].const_data_ptr<float>(),
                               .beta = saved[3].const_data_ptr<float>(),
                               .scale = film_in.scale,
                               .mean = saved[5].const_data_ptr<float>(),
                               .rstd = saved[6].const_data_ptr<float>(),
                               .grad_y = grad_y.const_data_ptr<float>(),
                               .grad_x = grad_x.mutable_data_ptr<float>(),
                               .grad_bias = grad_bias.mutable_data_ptr<float>(),
                               .grad_gamma = grad_gamma.mutable_data_ptr<float>(),
                               .grad_beta = grad_beta.mutable_data_ptr<float>(),
                               .grad_scale = film_out.scale,
                               .grad_offset = film_out.offset};
    RunNormBackward(args, at::get_num_threads());
    const Tensor grad_residual = ctx->saved_data["has_residual"].toBool() ? grad_y : Tensor();
    return {grad_x, grad_bias, grad_gamma, grad_beta, grad_film, grad_residual, Tensor(), Tensor()};
  }
};

// The input type of the loops; autocast may have produced lower precision than float32.
Tensor DenseFloat32(const Tensor& tensor) {
  return tensor.defined() ? FullPrecision(tensor).contiguous() : tensor;
}

}  // namespace

Tensor NormMishFilm(const Tensor& x, const NormInputs& inputs, std::int64_t n_groups, double eps) {
  const Tensor in = DenseFloat32(x);
  const Tensor film = DenseFloat32(inputs.film);
  const Tensor residual = DenseFloat32(inputs.residual);
  if (torch::GradMode::is_enabled()) {
    return NormMishFilmFunction::apply(in, inputs.bias, inputs.gamma, inputs.beta, IfDefined(film),
                                       IfDefined(residual), n_groups, eps);
  }
  return RunForward(in, {inputs.bias, inputs.gamma, inputs.beta, film, residual}, n_groups, eps).y;
}

Tensor PositionIndependentMish(const Tensor& x) {
  const Tensor in = x.contiguous();
  Tensor out = at::empty_like(in);
  MishForward(in.numel(), in.const_data_ptr<float>(), out.mutable_data_ptr<float>());
  return out;
}

}  // namespace dp_bench::policy
