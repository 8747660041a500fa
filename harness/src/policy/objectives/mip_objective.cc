// The minimal iterative policy (MIP, arXiv 2512.01809): the network predicts the action sequence
// from nothing, and once more from its first answer. Sampling draws no noise.
#include "dp_bench/config_keys.h"
#include "policy/objectives/objective.h"

namespace dp_bench::policy {
namespace {

class MipObjective final : public Objective {
 public:
  explicit MipObjective(const Config& config) {
    const ConfigKeys keys(config);
    keys("t_star", &t_star_, 0.01, 0.99,
         "time of the second pass; in training it sees the action with noise of deviation 1 - "
         "t_star");
  }

  // Two passes, f(0, 0) and f(x_0 + (1 - t*) noise, t*), whose squared errors are divided by t*^2
  // and (1 - t*)^2.
  std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const override {
    const torch::Tensor& x_0 = inputs.x_0;
    const torch::Tensor epsilon =
        inputs.noise.Randn(StreamId::kTrainingNoise, x_0.sizes()).to(x_0.device());
    const double t = t_star_;
    const torch::Tensor ones = torch::ones({x_0.size(0)}, x_0.options());
    return {{.noisy = torch::zeros_like(x_0),
             .times = torch::zeros_like(ones),
             .target = x_0,
             .row_weights = ones / (t * t)},
            {.noisy = x_0 + epsilon * (1.0 - t),
             .times = ones * (t * kNetworkTime),
             .target = x_0,
             .noise = epsilon,
             .row_weights = ones / ((1.0 - t) * (1.0 - t))}};
  }

  const char* prediction_name() const override { return "predicted action"; }
  bool starts_from_noise() const override { return false; }
  double time_unit() const override { return kNetworkTime; }

  std::vector<SamplerStep> steps() const override {
    return {{.time = 0.0, .x0_from_output = 1.0, .next_from_x0 = 1.0},
            {.time = t_star_ * kNetworkTime,
             .x0_from_output = 1.0,
             .next_from_x0 = 1.0,
             .signal_level = 1.0,
             .noise_level = 1.0 - t_star_}};
  }

 private:
  double t_star_ = 0.9;  // the time of the second pass
};

}  // namespace

std::unique_ptr<Objective> MakeMip(const Config& section) {
  return std::make_unique<MipObjective>(section);
}

}  // namespace dp_bench::policy
