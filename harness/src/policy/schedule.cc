// Beta schedules: linear (Ho et al. 2020), cosine (Nichol & Dhariwal 2021, eq. 17) and two
// quadratic ones. Timestep spacings: Lin et al. 2024, "Common diffusion noise schedules and sample
// steps are flawed", table 2. Both follow diffusers 0.30 and later.
#include "policy/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dp_bench/error.h"

namespace dp_bench::policy {
namespace {

double RoundToFloat(double x) { return static_cast<double>(static_cast<float>(x)); }

// Nichol & Dhariwal 2021, eq. 17, before the division by its value at 0.
double CosineAlphaBar(double progress) {
  constexpr double kOffset = 0.008;
  const double c = std::cos((progress + kOffset) / (1.0 + kOffset) * std::numbers::pi / 2.0);
  return c * c;
}

double CosineBeta(int t, int num_train_timesteps) {
  const double begin = static_cast<double>(t) / num_train_timesteps;
  const double end = static_cast<double>(t + 1) / num_train_timesteps;
  return 1.0 - CosineAlphaBar(end) / CosineAlphaBar(begin);
}

double Beta(const NoiseSchedulerConfig& config, int t) {
  const int last = config.num_train_timesteps - 1;
  const double progress = last == 0 ? 0.0 : static_cast<double>(t) / last;
  switch (config.beta_schedule) {
    case BetaSchedule::kLinear:
      return config.beta_start + (config.beta_end - config.beta_start) * progress;
    case BetaSchedule::kQuadratic:
      return config.beta_start + (config.beta_end - config.beta_start) * progress * progress;
    case BetaSchedule::kScaledLinear: {
      const double start = std::sqrt(config.beta_start);
      const double root = start + (std::sqrt(config.beta_end) - start) * progress;
      return root * root;
    }
    case BetaSchedule::kSquaredcosCapV2:
      return std::min(CosineBeta(t, config.num_train_timesteps), 0.999);  // as in diffusers
    case BetaSchedule::kCosine:
      return std::clamp(CosineBeta(t, config.num_train_timesteps), config.beta_clip[0],
                        config.beta_clip[1]);
  }
  throw Error(ErrorCode::kInternal, "unknown beta_schedule");
}

}  // namespace

std::vector<double> MakeBetas(const NoiseSchedulerConfig& config) {
  std::vector<double> betas;
  for (int t = 0; t < config.num_train_timesteps; ++t) {
    betas.push_back(RoundToFloat(Beta(config, t)));
  }
  return betas;
}

std::vector<double> MakeAlphasCumprod(const std::vector<double>& betas) {
  std::vector<double> alphas_cumprod;
  double product = 1.0;
  for (const double beta : betas) {
    product *= RoundToFloat(1.0 - beta);
    alphas_cumprod.push_back(RoundToFloat(product));
  }
  return alphas_cumprod;
}

std::vector<std::int64_t> MakeTimesteps(const NoiseSchedulerConfig& config,
                                        int num_inference_steps) {
  const int train = config.num_train_timesteps;
  const int inference = num_inference_steps;
  if (inference < 1 || inference > train) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("num_inference_steps is {}; it must lie within 1 and num_train_timesteps = {}",
                    inference, train));
  }
  // DPM-Solver++ spaces one more timestep than it visits, and leaves out the lowest
  const int left_out = config.type == SchedulerType::kDpmSolverPlusPlus ? 1 : 0;
  const int spaced = inference + left_out;
  const int ratio = train / spaced;  // rounded down, as in diffusers
  // std::nearbyint rounds halves to even, as numpy does
  std::vector<std::int64_t> timesteps(static_cast<std::size_t>(inference));
  for (int i = 0; i < inference; ++i) {
    const int from_end = inference - 1 - i + left_out;
    double t = 0.0;
    switch (config.timestep_spacing) {
      case TimestepSpacing::kLeading:
        t = from_end * ratio + config.steps_offset;
        break;
      case TimestepSpacing::kTrailing:
        t = std::nearbyint(train - i * (static_cast<double>(train) / inference)) - 1.0;
        break;
      case TimestepSpacing::kLinspace:
        t = spaced == 1
                ? 0.0
                : std::nearbyint(from_end * (static_cast<double>(train - 1) / (spaced - 1)));
        break;
    }
    timesteps[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(t);
  }
  if (timesteps.front() >= train) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("steps_offset {} moves the first of {} inference steps to timestep {}, but "
                    "the last trained timestep is {}; lower steps_offset",
                    config.steps_offset, inference, timesteps.front(), train - 1));
  }
  const auto twice = std::ranges::adjacent_find(timesteps);
  if (twice != timesteps.end()) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dpmsolver++ with {} of {} timesteps and this timestep_spacing visits "
                            "timestep {} more than once; lower num_inference_steps",
                            inference, train, *twice));
  }
  return timesteps;
}

}  // namespace dp_bench::policy
