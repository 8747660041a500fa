// How a policy samples action sequences, as numbers. All samplers of dp_bench are one loop with
// other coefficients, so a program that runs an exported policy needs no sampler of its own.
#pragma once

#include <optional>
#include <vector>

namespace dp_bench::policy {

/// One evaluation of the network and the step that follows it. With x the sequence and o the
/// network's output for it:
///   x_0    = x0_from_sample * x + x0_from_output * o, clipped to +- clip
///   next x = next_from_x0 * x_0 + next_from_sample * x + next_from_output * o +
///            next_from_last_x0 * (x_0 of the step before) +
///            next_from_last_sample * (x of the step before) + noise * N(0, 1)
struct SamplerStep {
  double time = 0.0;  // goes into the network
  double x0_from_sample = 0.0;
  double x0_from_output = 0.0;
  std::optional<double> clip;
  double next_from_x0 = 0.0;
  double next_from_sample = 0.0;
  double next_from_output = 0.0;
  double next_from_last_x0 = 0.0;
  double next_from_last_sample = 0.0;
  double noise = 0.0;
};

/// From the first sequence to the last, which is the plan.
struct SamplingPlan {
  bool starts_from_noise = true;  // N(0, 1); false: zeros
  bool inpaints_obs = false;      // before each evaluation, and at the end, the channels after the
                                  // action get the features of the To observed steps
  std::vector<SamplerStep> steps;
};

}  // namespace dp_bench::policy
