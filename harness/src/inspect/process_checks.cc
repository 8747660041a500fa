// See process_checks.h.
#include "inspect/process_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <numbers>
#include <vector>

namespace dp_bench::inspect {
namespace {

using torch::Tensor;

constexpr int kBins = 10;
constexpr double kMinPValue = 1e-5;
constexpr double kMaxTerminalSignal = 0.1;

Tensor Rows(const std::vector<double>& values, const Tensor& timesteps) {
  return torch::tensor(values, torch::kFloat64).index_select(0, timesteps).view({-1, 1, 1});
}

// Chi-square of the counts in bins against the counts expected from the bins' widths.
double ChiSquare(const Tensor& timesteps, int num_train_timesteps) {
  const auto n = static_cast<double>(timesteps.numel());
  const int bins = std::min(kBins, num_train_timesteps);
  double sum = 0.0;
  for (int b = 0; b < bins; ++b) {
    const std::int64_t begin = std::int64_t{b} * num_train_timesteps / bins;
    const std::int64_t end = std::int64_t{b + 1} * num_train_timesteps / bins;
    const double expected = n * static_cast<double>(end - begin) / num_train_timesteps;
    const auto found = static_cast<double>(
        timesteps.ge(begin).logical_and(timesteps.lt(end)).sum().item<std::int64_t>());
    sum += (found - expected) * (found - expected) / expected;
  }
  return sum;
}

// Mean square error of the prediction in each fifth of the timesteps.
std::string ErrorsByTimestep(const ProcessSample& sample, const Tensor& target, int n_timesteps) {
  const Tensor errors = (sample.prediction - target).square().mean({1, 2});
  std::string text;
  for (int b = 0; b < 5; ++b) {
    const Tensor is_in = sample.timesteps.ge(b * n_timesteps / 5)
                             .logical_and(sample.timesteps.lt((b + 1) * n_timesteps / 5));
    const Tensor chosen = errors.masked_select(is_in);
    text += chosen.numel() == 0 ? " -" : fmt::format(" {:.3g}", chosen.mean().item<double>());
  }
  return text;
}

double ClosedFormBeta(const NoiseSchedulerConfig& config, int t) {
  const int n = config.num_train_timesteps;
  const double at = n > 1 ? static_cast<double>(t) / (n - 1) : 0.0;
  const double range = config.beta_end - config.beta_start;
  switch (config.beta_schedule) {
    case BetaSchedule::kLinear:
      return config.beta_start + at * range;
    case BetaSchedule::kScaledLinear:
      return std::pow(std::sqrt(config.beta_start) +
                          at * (std::sqrt(config.beta_end) - std::sqrt(config.beta_start)),
                      2);
    case BetaSchedule::kQuadratic:
      return config.beta_start + at * at * range;
    case BetaSchedule::kSquaredcosCapV2:
      break;
  }
  const auto alpha_bar = [](double time) {
    return std::pow(std::cos((time + 0.008) / 1.008 * std::numbers::pi / 2.0), 2);
  };
  return std::min(1.0 - alpha_bar((t + 1.0) / n) / alpha_bar(static_cast<double>(t) / n), 0.999);
}

}  // namespace

Finding CheckTimesteps(const Tensor& timesteps, int num_train_timesteps) {
  const Finding hypothesis = {.id = "B.timesteps",
                              .claim = "timesteps are not drawn uniformly",
                              .advice = "check how the policy draws them",
                              .config_key = "policy.params.noise_scheduler.num_train_timesteps"};
  const double statistic = ChiSquare(timesteps, num_train_timesteps);
  const boost::math::chi_squared distribution(
      std::max(1, std::min(kBins, num_train_timesteps) - 1));
  const double p = boost::math::cdf(boost::math::complement(distribution, statistic));
  const double t = num_train_timesteps;
  return Decide(
      hypothesis, p < kMinPValue,
      fmt::format("chi-square {:.1f}, p = {:.2g}; {} (uniform: mean {:.1f}, std {:.1f})", statistic,
                  p, Summary(timesteps), (t - 1.0) / 2.0, std::sqrt((t * t - 1.0) / 12.0)));
}

Finding CheckForwardProcess(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Finding hypothesis = {.id = "C.forward_process",
                              .claim = "x_t does not follow from x_0 and N(0, 1) noise",
                              .advice = "check how the policy adds noise"};
  std::vector<double> signal = scheduler.alphas_cumprod();
  std::vector<double> spread = signal;
  std::ranges::transform(signal, signal.begin(), [](double a) { return std::sqrt(a); });
  std::ranges::transform(spread, spread.begin(), [](double a) { return std::sqrt(1.0 - a); });
  const Tensor expected =
      Rows(signal, sample.timesteps) * sample.x_0 + Rows(spread, sample.timesteps) * sample.noise;
  const double off = (sample.x_t - expected).abs().max().item<double>();
  const Tensor noise = sample.noise.to(torch::kFloat64);
  const double tolerance = 6.0 / std::sqrt(static_cast<double>(noise.numel()));
  const bool is_normal = std::abs(noise.mean().item<double>()) < tolerance &&
                         std::abs(noise.std().item<double>() - 1.0) < tolerance;
  return Decide(hypothesis, !(off < 1e-3) || !is_normal,
                fmt::format("largest difference to the closed form {:.2g}; noise: {}; x_t: {}", off,
                            Summary(noise), Summary(sample.x_t)));
}

Finding CheckPrediction(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Finding hypothesis = {.id = "D.prediction",
                              .claim = "the network's output is out of scale",
                              .advice = "check weights and input ranges; train in float32",
                              .config_key = "training.mixed_precision"};
  const Tensor target = scheduler.Target(sample.x_0, sample.noise, sample.timesteps);
  const bool is_finite = torch::isfinite(sample.prediction).all().item<bool>();
  if (!is_finite) return Decide(hypothesis, true, "it contains NaN or Inf");
  const double ratio = sample.prediction.std().item<double>() / target.std().item<double>();
  return Decide(
      hypothesis, ratio > 10.0,
      fmt::format("{}; target: {}; mean square error by fifths of the timesteps:{}",
                  Summary(sample.prediction), Summary(target),
                  ErrorsByTimestep(sample, target, scheduler.config().num_train_timesteps)));
}

Finding CheckConstants(const NoiseScheduler& scheduler) {
  const Finding hypothesis = {.id = "F.constants",
                              .claim = "the constants of the process are wrong",
                              .advice = "this is a bug in the noise scheduler",
                              .config_key = "policy.params.noise_scheduler.beta_schedule"};
  double off = 0.0;
  bool is_in_range = true;
  double product = 1.0;
  for (int t = 0; t < scheduler.config().num_train_timesteps; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const double beta = scheduler.betas()[i];
    is_in_range = is_in_range && beta > 0.0 && beta < 1.0;
    product *= 1.0 - beta;
    off = std::max({off, std::abs(beta - ClosedFormBeta(scheduler.config(), t)),
                    std::abs(scheduler.alphas_cumprod()[i] - product)});
  }
  return Decide(
      hypothesis, !is_in_range || off > 1e-5,
      fmt::format("betas {:.3g} to {:.3g}, alphas_cumprod {:.4g} to {:.3g}; largest "
                  "difference to the closed form {:.1g}",
                  scheduler.betas().front(), scheduler.betas().back(),
                  scheduler.alphas_cumprod().front(), scheduler.alphas_cumprod().back(), off));
}

Finding CheckTerminalNoise(const NoiseScheduler& scheduler) {
  const Finding hypothesis = {.id = "F.terminal_noise",
                              .claim =
                                  "training never sees the pure noise that sampling starts "
                                  "from",
                              .advice =
                                  "beta_schedule=squaredcos_cap_v2, a larger beta_end, or "
                                  "more num_train_timesteps",
                              .config_key = "policy.params.noise_scheduler.beta_end"};
  const double signal = std::sqrt(scheduler.alphas_cumprod().back());
  return Decide(hypothesis, signal > kMaxTerminalSignal,
                fmt::format("the last timestep keeps {:.1f} % of x_0", 100.0 * signal));
}

Findings CheckProcess(const ProcessSample& sample,
                      const std::optional<NoiseSchedulerConfig>& scheduler_config) {
  if (!scheduler_config || !sample.is_diffusion()) {
    return {LeaveOpen({.id = "process", .claim = "the diffusion process is wrong"},
                      "the policy has no noise_scheduler, or reports no stages")};
  }
  const NoiseScheduler scheduler(*scheduler_config);
  return {CheckTimesteps(sample.timesteps, scheduler_config->num_train_timesteps),
          CheckForwardProcess(sample, scheduler), CheckPrediction(sample, scheduler),
          CheckConstants(scheduler), CheckTerminalNoise(scheduler)};
}

}  // namespace dp_bench::inspect
