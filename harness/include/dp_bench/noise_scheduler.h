// Noise schedulers with the semantics of the `diffusers` library: DDPM (Ho et al. 2020), DDIM (Song
// et al. 2021), DPM-Solver++ 2M (Lu et al. 2022), and the Euler and Heun methods on the
// probability-flow ODE (Karras et al. 2022).
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/export.h"
#include "dp_bench/policy/networks/sampling_plan.h"

namespace dp_bench {

struct StepCoefficients;
struct CorrectionCoefficients;

/// kDpmSolverPlusPlus is the second-order multistep solver; it ends with a step of first order.
enum class SchedulerType { kDdpm, kDdim, kDpmSolverPlusPlus, kEuler, kHeun };
/// kQuadratic: beta rises from beta_start to beta_end with the square of t; kScaledLinear: its
/// square root rises linearly ("quad" in the code of DDPM and DDIM). kCosine is kSquaredcosCapV2
/// with betas within beta_clip; kSquaredcosCapV2 has no lower limit and the upper limit 0.999.
enum class BetaSchedule { kLinear, kScaledLinear, kSquaredcosCapV2, kQuadratic, kCosine };
enum class PredictionType { kEpsilon, kSample, kVPrediction };
enum class TimestepSpacing { kLeading, kTrailing, kLinspace };

/// Field names and defaults are those of diffusers; `FromConfig` reads the same names.
struct DPB_API NoiseSchedulerConfig {
  SchedulerType type = SchedulerType::kDdpm;
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
};

/// The noise that training adds, and the reverse process that sampling runs.
class DPB_API NoiseScheduler {
 public:
  /// Throws Error{kConfig} for settings that cannot work (more inference than training steps, ...).
  explicit NoiseScheduler(const NoiseSchedulerConfig& config);

  const NoiseSchedulerConfig& config() const { return config_; }
  const std::vector<double>& betas() const { return betas_; }
  const std::vector<double>& alphas_cumprod() const { return alphas_cumprod_; }

  /// Timesteps of the reverse process, high to low.
  const std::vector<std::int64_t>& timesteps() const { return timesteps_; }
  void SetTimesteps(int num_inference_steps);

  /// q(x_t | x_0) in closed form (DDPM eq. 4): x_0, noise [B, ...], timesteps int64 [B].
  torch::Tensor AddNoise(const torch::Tensor& x_0, const torch::Tensor& noise,
                         const torch::Tensor& timesteps) const;

  /// What the network is trained to predict for (x_0, noise, t): the noise, x_0, or v.
  torch::Tensor Target(const torch::Tensor& x_0, const torch::Tensor& noise,
                       const torch::Tensor& timesteps) const;

  /// Whether Step at this timestep uses `variance_noise`.
  bool NeedsNoise(std::int64_t timestep) const;

  /// One step of the reverse process.
  struct StepOutput {
    torch::Tensor prev_sample;           // x_{t-1}
    torch::Tensor pred_original_sample;  // predicted x_0, after clipping
    torch::Tensor n_clipped;             // int64 scalar, see `count_clipped`; else undefined
  };

  /// One reverse step. `variance_noise` ~ N(0, 1) in the shape of `sample`; may be undefined if
  /// !NeedsNoise(t). With `count_clipped`, n_clipped is the number of values of x_0 outside +-
  /// clip_sample_range (0 without clip_sample). Counting costs a pass over the sample.
  /// `last_x_0` is pred_original_sample of the step before, which kDpmSolverPlusPlus uses; the
  /// other types ignore it. It is undefined in the first step.
  StepOutput Step(const torch::Tensor& model_output, std::int64_t timestep,
                  const torch::Tensor& sample, const torch::Tensor& variance_noise,
                  bool count_clipped = false, const torch::Tensor& last_x_0 = {}) const;

  /// The evaluations of the network in the reverse step at `timestep`, as numbers: Step, and for
  /// kHeun also Correct. `has_last_x_0`: there was a step before.
  std::vector<policy::SamplerStep> StepAsNumbers(std::int64_t timestep, bool has_last_x_0) const;

  /// For kHeun: the timestep at which the network has to see the result of Step, so that Correct
  /// can finish the step. None after the last step and for the other types.
  std::optional<std::int64_t> CorrectedAt(std::int64_t timestep) const;

  /// The second half of a step of Heun's method, from `sample` at `timestep`. `model_output` is the
  /// network's for `predicted`, the prev_sample of Step, at CorrectedAt(timestep). Returns the
  /// sample there.
  torch::Tensor Correct(const torch::Tensor& model_output, std::int64_t timestep,
                        const torch::Tensor& sample, const torch::Tensor& predicted) const;

 private:
  StepCoefficients Coefficients(std::int64_t timestep, bool has_last_x_0 = false) const;
  torch::Tensor PredictX0(const StepCoefficients& c, const torch::Tensor& model_output,
                          const torch::Tensor& sample) const;
  torch::Tensor Clipped(torch::Tensor x_0) const;
  CorrectionCoefficients CorrectionAt(std::int64_t timestep, std::int64_t next) const;
  double AlphaBar(std::int64_t timestep) const;
  std::size_t IndexOf(std::int64_t timestep) const;

  NoiseSchedulerConfig config_;
  std::vector<double> betas_;
  std::vector<double> alphas_cumprod_;
  torch::Tensor sqrt_alphas_cumprod_;            // float64, [num_train_timesteps]
  torch::Tensor sqrt_one_minus_alphas_cumprod_;  // float64, [num_train_timesteps]
  std::vector<std::int64_t> timesteps_;
};

}  // namespace dp_bench
