// See grad_scaler.h.
#include "train/grad_scaler.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

namespace dp_bench::train {
namespace {

constexpr std::int64_t kGrowthInterval = 2000;  // updates
constexpr float kGrowthFactor = 2.0F;
constexpr float kBackoffFactor = 0.5F;

}  // namespace

bool UnscaleGradients(const std::vector<ParameterGroup>& groups, double scale) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const ParameterGroup& group : groups) {
    for (const torch::Tensor& parameter : group.parameters) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  if (gradients.empty()) return true;
  const auto options = torch::TensorOptions(torch::kFloat32).device(gradients.front().device());
  torch::Tensor found_inf = torch::zeros({1}, options);
  const torch::Tensor inverse = torch::full({1}, 1.0 / scale, options);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse);
  return found_inf.item<float>() == 0.0F;
}

void UpdateScale(bool is_finite, GradScalerState* state) {
  if (!is_finite) {
    state->scale *= kBackoffFactor;
    state->growth_tracker = 0;
    ++state->skips_in_a_row;
    return;
  }
  state->skips_in_a_row = 0;
  if (++state->growth_tracker < kGrowthInterval) return;
  state->growth_tracker = 0;
  const float grown = state->scale * kGrowthFactor;
  if (std::isfinite(grown)) state->scale = grown;
}

}  // namespace dp_bench::train
