// Which tensors our own loops accept, and LibTorch's autocast. Under autocast, LibTorch runs matrix
// products and convolutions in lower precision (bfloat16 or float16) and returns their results in
// that precision. Our own loops, and operations that would lose accuracy, run in float32.
#pragma once

#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <optional>

namespace dp_bench::policy {

/// The type of products and convolutions on `device` under autocast; none if it is off.
inline std::optional<torch::ScalarType> AutocastType(torch::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
}

/// `x` in float32 if autocast gave it lower precision, else `x` itself. Differentiable.
inline torch::Tensor FullPrecision(const torch::Tensor& x) {
  if (!x.defined() || AutocastType(x.device().type()) != x.scalar_type()) return x;
  return x.to(torch::kFloat32);
}

/// Turns autocast on `device` off, or to `type`, while this object exists.
class AutocastGuard {
 public:
  explicit AutocastGuard(torch::DeviceType device,
                         std::optional<torch::ScalarType> type = std::nullopt)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        type_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(device, type.has_value());
    if (type) at::autocast::set_autocast_dtype(device, *type);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  ~AutocastGuard() {
    // the outermost guard owns the weights that autocast converted, as in Python
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, type_before_);
  }

 private:
  torch::DeviceType device_;
  bool was_enabled_;
  torch::ScalarType type_before_;
};

/// Whether our own loops work on `x`: it is float32 on the CPU, and no graph is being traced. A
/// tracer sees only LibTorch's operators.
inline bool UsesOwnLoops(const torch::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32 &&
         !at::tracer::impl::is_dispatch_enabled();
}

/// On the CPU, tensors that autocast left in lower precision are converted to float32 for our own
/// loops.
inline torch::Tensor ForLoops(const torch::Tensor& x) {
  return x.defined() && x.device().is_cpu() ? FullPrecision(x) : x;
}

/// An autograd function takes an undefined tensor as nullopt.
inline std::optional<torch::Tensor> IfDefined(const torch::Tensor& tensor) {
  return tensor.defined() ? std::optional<torch::Tensor>(tensor) : std::nullopt;
}

inline const float* DataOrNull(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

}  // namespace dp_bench::policy
