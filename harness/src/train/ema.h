// Exponential moving average of a model's weights, with the warm-up curve of diffusers' EMAModel as
// used in diffusion_policy. Evaluations use the averaged model.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "dp_bench/config.h"

namespace dp_bench::train {

/// Field names and defaults are those of diffusion_policy's configs.
struct EmaConfig {
  std::int64_t update_after_step = 0;
  double inv_gamma = 1.0;
  double power = 0.75;
  double min_value = 0.0;
  double max_value = 0.9999;

  static EmaConfig FromConfig(const Config& config);
};

/// The decay of the update that follows `n` earlier ones:
/// clip(1 - (1 + s / inv_gamma)^-power, min_value, max_value) with s = n - update_after_step - 1,
/// and 0 while s <= 0.
double EmaDecay(const EmaConfig& config, std::int64_t n);

class Ema {
 public:
  /// Makes `ema_model` a copy of `model` and takes it out of autograd; a resumed run must load its
  /// EMA weights afterwards. Both models must have the same structure, otherwise Error{kInternal}.
  /// Both must outlive this object, and the set of frozen parameters must not change.
  Ema(const EmaConfig& config, torch::nn::Module& model, torch::nn::Module& ema_model);

  /// ema = decay * ema + (1 - decay) * model. Frozen parameters, those of batch norms, and all
  /// buffers are copied.
  void Update();

  /// The number of updates: the only state besides the weights.
  std::int64_t step() const { return step_; }
  void set_step(std::int64_t step) { step_ = step; }

 private:
  void PairParameters(const torch::nn::Module& model, const torch::nn::Module& ema_model);

  EmaConfig config_;
  std::vector<torch::Tensor> averaged_from_;
  std::vector<torch::Tensor> averaged_to_;
  std::vector<torch::Tensor> copied_from_;
  std::vector<torch::Tensor> copied_to_;
  std::int64_t step_ = 0;
};

}  // namespace dp_bench::train
