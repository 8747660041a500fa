// Consistency models (Song et al. 2023; Consistency Policy, Prasad et al. 2024): the network learns
// to jump from any noise level to the end of the path of the probability-flow ODE, so that one or
// two evaluations plan an action sequence.
#pragma once

#include <torch/types.h>

#include <vector>

#include "dp_bench/config.h"
#include "policy/noise_scheduler.h"
#include "policy/objectives/objective.h"

namespace dp_bench::policy {

class DiffusionObjective;

struct ConsistencyConfig {
  int num_inference_steps = 1;

  static ConsistencyConfig FromConfig(const Config& config);
};

/// The noise levels are the denoising steps of noise_scheduler, below them lies the clean sequence.
/// The network jumps to f(x, t) = a x + b output, with f(x, t) = x where there is no noise:
/// v_prediction: a = sqrt(alpha_bar), b = -sqrt(1 - alpha_bar), which are c_skip and c_out of
/// Karras et al. 2022 for data of deviation 1; sample: the mean of the scaled sequence and the
/// output with the weights of Karras et al. 2022, eq. 7, for data of deviation 0.5.
class ConsistencyObjective final : public Objective {
 public:
  /// Reads noise_scheduler and consistency from the params of a policy. Throws Error{kConfig} for a
  /// sampler other than ddim without noise, and for epsilon: where one step starts, the signal is
  /// too small to compute x_0 from noise.
  explicit ConsistencyObjective(const Config& params);

  /// From a `teacher` with objective diffusion and the same noise schedule. Without one, the
  /// network learns from the data alone (Song et al. 2023, Alg. 3).
  void LearnFrom(const Objective& teacher) override;

  /// Song et al. 2023, Alg. 2: one pass. A step of the teacher's ODE, which is DDIM, leads to a
  /// lower noise level, and the averaged network jumps from there to the target.
  std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const override;
  const char* prediction_name() const override { return "predicted jump"; }

  /// Song et al. 2023, Alg. 1: jumps, with new noise of the next level between them.
  std::vector<SamplerStep> steps() const override;

 private:
  // A noise level, and how the network jumps from there.
  struct Level {
    std::int64_t timestep = 0;
    double signal = 1.0;     // sqrt(alpha_bar)
    double noise = 0.0;      // sqrt(1 - alpha_bar)
    double of_sample = 1.0;  // a
    double of_output = 0.0;  // b
  };
  Level LevelAt(std::int64_t timestep) const;
  torch::Tensor Clipped(const torch::Tensor& x_0) const;
  torch::Tensor OfRows(double Level::*value, const torch::Tensor& rows,
                       const torch::Tensor& like) const;
  torch::Tensor TimesOf(const torch::Tensor& rows, const torch::Tensor& like) const;
  torch::Tensor StepOfTeacher(const torch::Tensor& x_t, const torch::Tensor& rows,
                              const TrainingInputs& inputs) const;

  ConsistencyConfig config_;
  NoiseScheduler scheduler_;
  std::vector<Level> levels_;  // from high to low noise; behind the last one, the clean sequence
  const DiffusionObjective* teacher_ = nullptr;
};

}  // namespace dp_bench::policy
