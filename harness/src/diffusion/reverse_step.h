// One reverse diffusion step is linear in the sample x_t, the network's output, the (clipped)
// predicted x_0 and the noise. The two samplers differ in the coefficients alone.
#pragma once

#include <cstdint>

#include "dp_bench/noise_scheduler.h"

namespace dp_bench {

/// x_0     = x0_from_sample * x_t + x0_from_output * output, then clipped
/// x_{t-1} = prev_from_x0 * x_0 + prev_from_sample * x_t + prev_from_output * output + sigma *
/// noise
struct StepCoefficients {
  double x0_from_sample = 0.0;
  double x0_from_output = 0.0;
  double prev_from_x0 = 0.0;
  double prev_from_sample = 0.0;
  double prev_from_output = 0.0;
  double sigma = 0.0;
};

/// DDPM with the posterior's variance ("fixed_small"). `alpha_bar`, `alpha_bar_prev`:
/// alphas_cumprod at this timestep and at the next one of the reverse process, 1 after the last.
StepCoefficients DdpmCoefficients(PredictionType prediction_type, double alpha_bar,
                                  double alpha_bar_prev, bool is_timestep_zero);

StepCoefficients DdimCoefficients(PredictionType prediction_type, double alpha_bar,
                                  double alpha_bar_prev, double eta);

}  // namespace dp_bench
