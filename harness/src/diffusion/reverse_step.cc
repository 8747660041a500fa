// Coefficients of the reverse steps: DDPM (Ho et al. 2020, eq. 7 and 15) and DDIM (Song et al.
// 2021, eq. 12 and 16); v-prediction after Salimans & Ho 2022, appendix D.
#include "diffusion/reverse_step.h"

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

// How x_0 follows from x_t and the network's output (DDPM eq. 15 for epsilon).
StepCoefficients PredictX0(PredictionType prediction_type, double alpha_bar) {
  const double signal = std::sqrt(alpha_bar);
  const double noise = std::sqrt(1.0 - alpha_bar);
  switch (prediction_type) {
    case PredictionType::kEpsilon:
      return {.x0_from_sample = 1.0 / signal, .x0_from_output = -noise / signal};
    case PredictionType::kSample:
      return {.x0_from_sample = 0.0, .x0_from_output = 1.0};
    case PredictionType::kVPrediction:
      return {.x0_from_sample = signal, .x0_from_output = -noise};
  }
  throw Error(ErrorCode::kInternal, "unknown prediction_type");
}

// Variance of the posterior q(x_{t-1} | x_t, x_0), DDPM eq. 7; DDIM eq. 16 is its root times eta.
double PosteriorVariance(double alpha_bar, double alpha_bar_prev) {
  return (1.0 - alpha_bar_prev) / (1.0 - alpha_bar) * (1.0 - alpha_bar / alpha_bar_prev);
}

}  // namespace

StepCoefficients DdpmCoefficients(PredictionType prediction_type, double alpha_bar,
                                  double alpha_bar_prev, bool is_timestep_zero) {
  StepCoefficients c = PredictX0(prediction_type, alpha_bar);
  // DDPM eq. 7: posterior mean; alpha and beta are those of the whole stride
  const double alpha = alpha_bar / alpha_bar_prev;
  const double beta = 1.0 - alpha;
  c.prev_from_x0 = std::sqrt(alpha_bar_prev) * beta / (1.0 - alpha_bar);
  c.prev_from_sample = std::sqrt(alpha) * (1.0 - alpha_bar_prev) / (1.0 - alpha_bar);
  constexpr double kMinVariance = 1e-20;  // diffusers' floor
  if (!is_timestep_zero) {
    c.sigma = std::sqrt(std::max(PosteriorVariance(alpha_bar, alpha_bar_prev), kMinVariance));
  }
  return c;
}

StepCoefficients DdimCoefficients(PredictionType prediction_type, double alpha_bar,
                                  double alpha_bar_prev, double eta) {
  StepCoefficients c = PredictX0(prediction_type, alpha_bar);
  c.sigma = eta * std::sqrt(PosteriorVariance(alpha_bar, alpha_bar_prev));
  c.prev_from_x0 = std::sqrt(alpha_bar_prev);

  // DDIM eq. 12: the direction to x_t is along the predicted noise, which is not clipped
  const double direction = std::sqrt(std::max(1.0 - alpha_bar_prev - c.sigma * c.sigma, 0.0));
  const double signal = std::sqrt(alpha_bar);
  const double noise = std::sqrt(1.0 - alpha_bar);
  switch (prediction_type) {
    case PredictionType::kEpsilon:
      c.prev_from_output = direction;
      break;
    case PredictionType::kSample:
      c.prev_from_sample = direction / noise;
      c.prev_from_output = -direction * signal / noise;
      break;
    case PredictionType::kVPrediction:
      c.prev_from_sample = direction * noise;
      c.prev_from_output = direction * signal;
      break;
  }
  return c;
}

}  // namespace dp_bench
