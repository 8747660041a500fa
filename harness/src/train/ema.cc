// EMA of weights. The warm-up curve is Katherine Crowson's, as in diffusers' EMAModel and
// diffusion_policy's ema_model.
#include "train/ema.h"

#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <cmath>

#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::train {
namespace {

bool IsBatchNorm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1d>() != nullptr ||
         module.as<torch::nn::BatchNorm2d>() != nullptr ||
         module.as<torch::nn::BatchNorm3d>() != nullptr;
}

void RequireEqualStructure(const torch::nn::Module& model, const torch::nn::Module& ema_model) {
  const auto ours = model.named_parameters();
  const auto theirs = ema_model.named_parameters();
  bool equal = ours.size() == theirs.size() && model.buffers().size() == ema_model.buffers().size();
  for (std::size_t i = 0; equal && i < ours.size(); ++i) {
    equal =
        ours[i].key() == theirs[i].key() && ours[i].value().sizes() == theirs[i].value().sizes();
  }
  if (!equal) {
    throw InternalError(
        "the EMA model ({} parameters) is built differently from the model ({} parameters)",
        theirs.size(), ours.size());
  }
}

}  // namespace

EmaConfig EmaConfig::FromConfig(const Config& config) {
  EmaConfig c;
  const ConfigKeys keys(config);
  keys("update_after_step", &c.update_after_step, 0, std::int64_t{1} << 40,
       "updates before the average begins");
  keys("inv_gamma", &c.inv_gamma, 1e-9, 1e9,
       "the decay after s updates is 1 - (1 + s / inv_gamma)^-power");
  keys("power", &c.power, 0.0, 10.0, "see inv_gamma");
  keys("min_value", &c.min_value, 0.0, 1.0, "smallest decay");
  keys("max_value", &c.max_value, 0.0, 1.0, "largest decay");
  return c;
}

double EmaDecay(const EmaConfig& config, std::int64_t n) {
  const std::int64_t s = n - config.update_after_step - 1;
  if (s <= 0) return 0.0;
  const double value =
      1.0 - std::pow(1.0 + static_cast<double>(s) / config.inv_gamma, -config.power);
  return std::max(config.min_value, std::min(value, config.max_value));
}

Ema::Ema(const EmaConfig& config, torch::nn::Module& model, torch::nn::Module& ema_model)
    : config_(config) {
  RequireEqualStructure(model, ema_model);
  PairParameters(model, ema_model);
  // differs: upstream does not touch buffers, so the running statistics of batch norms keep their
  // initial values there
  for (const torch::Tensor& buffer : model.buffers()) copied_from_.push_back(buffer);
  for (const torch::Tensor& buffer : ema_model.buffers()) copied_to_.push_back(buffer);

  for (torch::Tensor& parameter : ema_model.parameters()) parameter.requires_grad_(false);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averaged_to_.size(); ++i) averaged_to_[i].copy_(averaged_from_[i]);
  for (std::size_t i = 0; i < copied_to_.size(); ++i) copied_to_[i].copy_(copied_from_[i]);
}

// Walks by reference: Module::modules() would require the models to be in a shared_ptr.
void Ema::PairParameters(const torch::nn::Module& model, const torch::nn::Module& ema_model) {
  const std::vector<torch::Tensor> from = model.parameters(/*recurse=*/false);
  const std::vector<torch::Tensor> to = ema_model.parameters(/*recurse=*/false);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool is_averaged = from[i].requires_grad() && !IsBatchNorm(model);
    (is_averaged ? averaged_from_ : copied_from_).push_back(from[i]);
    (is_averaged ? averaged_to_ : copied_to_).push_back(to[i]);
  }
  const auto children = model.children();
  const auto ema_children = ema_model.children();
  for (std::size_t i = 0; i < children.size(); ++i) PairParameters(*children[i], *ema_children[i]);
}

void Ema::Update() {
  const torch::NoGradGuard no_grad;
  const double decay = EmaDecay(config_, step_);
  if (!averaged_to_.empty()) torch::_foreach_lerp_(averaged_to_, averaged_from_, 1.0 - decay);
  for (std::size_t i = 0; i < copied_to_.size(); ++i) copied_to_[i].copy_(copied_from_[i]);
  ++step_;
}

}  // namespace dp_bench::train
