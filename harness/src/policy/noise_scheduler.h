// Noise schedulers with the semantics of the `diffusers` library: DDPM (Ho et al. 2020), DDIM (Song
// et al. 2021), DPM-Solver++ 2M (Lu et al. 2022), and the Euler and Heun methods on the
// probability-flow ODE (Karras et al. 2022).
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "policy/sampling.h"

namespace dp_bench {

/// kQuadratic: beta rises from beta_start to beta_end with the square of t; kScaledLinear: its
/// square root rises linearly ("quad" in the code of DDPM and DDIM). kCosine is kSquaredcosCapV2
/// with betas within beta_clip; kSquaredcosCapV2 has no lower limit and the upper limit 0.999.
enum class BetaSchedule { kLinear, kScaledLinear, kSquaredcosCapV2, kQuadratic, kCosine };
enum class PredictionType { kEpsilon, kSample, kVPrediction };
enum class TimestepSpacing { kLeading, kTrailing, kLinspace };

/// The names of all samplers: ddpm, ddim, ...
std::vector<std::string> SamplerNames();

/// Field names and defaults are those of diffusers; `FromConfig` reads the same names.
struct NoiseSchedulerConfig {
  std::string type = "ddpm";  // one of SamplerNames
  int num_train_timesteps = 100;
  int num_inference_steps = 100;
  double beta_start = 1e-4;
  double beta_end = 0.02;
  std::array<double, 2> beta_clip = {1e-4, 0.9999};  // kCosine: the smallest and the largest beta
  BetaSchedule beta_schedule = BetaSchedule::kSquaredcosCapV2;
  PredictionType prediction_type = PredictionType::kEpsilon;
  bool clip_sample = true;         // differs: diffusers' DPM-Solver++ and Euler never clip
  double clip_sample_range = 1.0;  // predicted x_0 is clipped to +- this
  TimestepSpacing timestep_spacing = TimestepSpacing::kLeading;
  int steps_offset = 0;
  bool set_alpha_to_one =
      true;          // DDIM: alpha_cumprod before the first step is 1, else that of step 0
  double eta = 0.0;  // DDIM: 0 deterministic, 1 DDPM-like noise

  static NoiseSchedulerConfig FromConfig(const Config& config);

  /// The most that num_inference_steps can be with every spacing.
  int most_inference_steps() const;
};

/// The noise that training adds, and the reverse process that sampling runs.
class NoiseScheduler {
 public:
  /// Throws Error{kConfig} for settings that cannot work (more inference than training steps, ...).
  explicit NoiseScheduler(const NoiseSchedulerConfig& config);

  const NoiseSchedulerConfig& config() const { return config_; }
  const std::vector<double>& betas() const { return betas_; }
  const std::vector<double>& alphas_cumprod() const { return alphas_cumprod_; }

  /// Timesteps of the reverse process, high to low.
  const std::vector<std::int64_t>& timesteps() const { return timesteps_; }

  /// q(x_t | x_0) in closed form (DDPM eq. 4): x_0, noise [B, ...], timesteps int64 [B].
  torch::Tensor AddNoise(const torch::Tensor& x_0, const torch::Tensor& noise,
                         const torch::Tensor& timesteps) const;

  /// What the network is trained to predict for (x_0, noise, t): the noise, x_0, or v.
  torch::Tensor Target(const torch::Tensor& x_0, const torch::Tensor& noise,
                       const torch::Tensor& timesteps) const;

  /// The reverse process: one step for each timestep, and with heun another one that corrects it,
  /// except after the last.
  std::vector<policy::SamplerStep> steps() const;

 private:
  NoiseSchedulerConfig config_;
  std::vector<double> betas_;
  std::vector<double> alphas_cumprod_;
  torch::Tensor sqrt_alphas_cumprod_;            // float64, [num_train_timesteps]
  torch::Tensor sqrt_one_minus_alphas_cumprod_;  // float64, [num_train_timesteps]
  std::vector<std::int64_t> timesteps_;
};

}  // namespace dp_bench
