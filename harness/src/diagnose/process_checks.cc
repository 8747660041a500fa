// See process_checks.h.
#include "diagnose/process_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "diagnose/log_checks.h"
#include "train/train_config.h"

namespace dp_bench::diagnose {
namespace {

using torch::Tensor;

constexpr int kBins = 10;
constexpr double kMinPValue = 1e-5;
constexpr double kMaxTerminalSignal = 0.1;
constexpr double kMaxPrecisionChange = 0.2;

Tensor RowsOf(const Tensor& table, const Tensor& timesteps) {
  return table.index_select(0, timesteps).view({-1, 1, 1});
}

// The policy's own table; the config's, if it noted none that fits.
Tensor AlphasCumprodOf(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor& noted = sample.alphas_cumprod;
  if (noted.defined() && noted.numel() == scheduler.config().num_train_timesteps) return noted;
  return torch::tensor(scheduler.alphas_cumprod(), torch::kFloat64);
}

// The first timestep of a bin.
std::int64_t BinBegin(int bin, int n_bins, int num_train_timesteps) {
  return std::int64_t{bin} * num_train_timesteps / n_bins;
}

Tensor IsInBin(const Tensor& timesteps, int bin, int n_bins, int num_train_timesteps) {
  return timesteps.ge(BinBegin(bin, n_bins, num_train_timesteps))
      .logical_and(timesteps.lt(BinBegin(bin + 1, n_bins, num_train_timesteps)));
}

// Chi-square of the counts in bins against the counts expected from the bins' widths.
double ChiSquare(const Tensor& timesteps, int num_train_timesteps) {
  const auto n = static_cast<double>(timesteps.numel());
  const int bins = std::min(kBins, num_train_timesteps);
  const std::vector<std::int64_t> counts = CountsByTimestep(timesteps, num_train_timesteps, bins);
  double sum = 0.0;
  for (int b = 0; b < bins; ++b) {
    const auto width = static_cast<double>(BinBegin(b + 1, bins, num_train_timesteps) -
                                           BinBegin(b, bins, num_train_timesteps));
    const double expected = n * width / num_train_timesteps;
    const auto found = static_cast<double>(counts[static_cast<std::size_t>(b)]);
    sum += (found - expected) * (found - expected) / expected;
  }
  return sum;
}

// B: the timesteps are not uniform (Pearson's chi-square over ten bins).
Finding CheckTimesteps(const Tensor& timesteps, int num_train_timesteps) {
  const double statistic = ChiSquare(timesteps, num_train_timesteps);
  const boost::math::chi_squared distribution(
      std::max(1, std::min(kBins, num_train_timesteps) - 1));
  const double p = boost::math::cdf(boost::math::complement(distribution, statistic));
  const double t = num_train_timesteps;
  return Decide(
      "B.timesteps", p < kMinPValue,
      fmt::format("chi-square {:.1f}, p = {:.2g}; {} (uniform: mean {:.1f}, std {:.1f})", statistic,
                  p, Summary(timesteps), (t - 1.0) / 2.0, std::sqrt((t * t - 1.0) / 12.0)));
}

// C: the noise is not N(0, 1), or x_t does not follow from it and x_0 (DDPM eq. 4) with the tables
// that the policy noted; the config's, if it noted none.
Finding CheckForwardProcess(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor alphas_cumprod = AlphasCumprodOf(sample, scheduler);
  const Tensor expected = RowsOf(alphas_cumprod.sqrt(), sample.timesteps) * sample.x_0 +
                          RowsOf((1.0 - alphas_cumprod).sqrt(), sample.timesteps) * sample.noise;
  const double off = (sample.x_t - expected).abs().max().item<double>();
  const Tensor noise = sample.noise.to(torch::kFloat64);
  const double tolerance = 6.0 / std::sqrt(static_cast<double>(noise.numel()));
  const bool is_normal = std::abs(noise.mean().item<double>()) < tolerance &&
                         std::abs(noise.std().item<double>() - 1.0) < tolerance;
  return Decide("C.forward_process", !(off < 1e-3) || !is_normal,
                fmt::format("largest difference to the closed form {:.2g}; noise: {}; x_t: {}", off,
                            Summary(noise), Summary(sample.x_t)));
}

// D: the network's output is not finite, or of another scale than its target.
Finding CheckPrediction(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor target = scheduler.Target(sample.x_0, sample.noise, sample.timesteps);
  const bool is_finite = torch::isfinite(sample.prediction).all().item<bool>();
  if (!is_finite) return Decide("D.prediction", true, "it contains NaN or Inf");
  const double ratio = sample.prediction.std().item<double>() / target.std().item<double>();
  return Decide("D.prediction", ratio > 10.0,
                fmt::format("{}; target: {}; mean square error by fifths of the timesteps: {:.3g}",
                            Summary(sample.prediction), Summary(target),
                            fmt::join(ErrorsByTimestep(sample, scheduler, 5), " ")));
}

// Training ends at less noise than sampling starts from (Lin et al. 2024, "Common diffusion noise
// schedules and sample steps are flawed").
Finding CheckTerminalNoise(const NoiseScheduler& scheduler) {
  const double signal = std::sqrt(scheduler.alphas_cumprod().back());
  return Decide("F.terminal_noise", signal > kMaxTerminalSignal,
                fmt::format("the last timestep keeps {:.1f} % of x_0", 100.0 * signal));
}

Tensor Differences(const Tensor& table, const std::vector<double>& expected) {
  return (table.flatten().to(torch::kFloat64) - torch::tensor(expected, torch::kFloat64)).abs();
}

// F: the tables that the policy noted differ from those of the noise scheduler of its config.
Finding CheckConstants(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor& used = sample.alphas_cumprod;
  const Tensor& betas = sample.betas;
  if (!used.defined()) {
    return LeaveOpen("F.constants",
                     "the policy does not note its alphas_cumprod (dp_bench/stage_trace.h)");
  }
  const std::int64_t n = std::ssize(scheduler.alphas_cumprod());
  const std::int64_t n_betas = betas.defined() ? betas.numel() : 0;
  if (used.numel() != n || (n_betas > 0 && n_betas != n)) {
    return Decide("F.constants", true,
                  fmt::format("tables of {} betas and {} alphas_cumprod, num_train_timesteps is {}",
                              n_betas, used.numel(), n));
  }
  Tensor differences = Differences(used, scheduler.alphas_cumprod());
  if (n_betas > 0) differences = torch::cat({differences, Differences(betas, scheduler.betas())});
  const double off = differences.max().item<double>();  // NaN if one of them is
  return Decide(
      "F.constants", !(off <= 1e-5),
      fmt::format("alphas_cumprod of the policy {:.4g} to {:.3g}; largest difference to "
                  "the scheduler of the config {:.1g}",
                  used.flatten()[0].item<double>(), used.flatten()[-1].item<double>(), off));
}

}  // namespace

std::vector<double> ErrorsByTimestep(const ProcessSample& sample, const NoiseScheduler& scheduler,
                                     int n_bins) {
  const Tensor target = scheduler.Target(sample.x_0, sample.noise, sample.timesteps);
  const Tensor errors = (sample.prediction - target).square().mean({1, 2});
  std::vector<double> means;
  for (int b = 0; b < n_bins; ++b) {
    const Tensor chosen = errors.masked_select(
        IsInBin(sample.timesteps, b, n_bins, scheduler.config().num_train_timesteps));
    means.push_back(chosen.numel() == 0 ? std::numeric_limits<double>::quiet_NaN()
                                        : chosen.mean().item<double>());
  }
  return means;
}

std::vector<std::int64_t> CountsByTimestep(const Tensor& timesteps, int num_train_timesteps,
                                           int n_bins) {
  std::vector<std::int64_t> counts;
  for (int b = 0; b < n_bins; ++b) {
    counts.push_back(IsInBin(timesteps, b, n_bins, num_train_timesteps).sum().item<std::int64_t>());
  }
  return counts;
}

std::string PrecisionInWords(const ProcessSample& sample, train::MixedPrecision precision) {
  const auto name = [](std::optional<torch::ScalarType> type) {
    return type ? std::string(c10::getDtypeNames(*type).first) : std::string("unknown");
  };
  const auto products = train::ProductType(precision);
  if (!products) return name(sample.output_type);
  return fmt::format("products in {}, output in {}", name(products), name(sample.output_type));
}

Finding CheckPrecision(const ProcessSample& lower, const ProcessSample& full,
                       train::MixedPrecision precision) {
  const double change = lower.losses.front() / full.losses.front() - 1.0;
  const bool is_finite =
      !lower.prediction.defined() || torch::isfinite(lower.prediction).all().item<bool>();
  return Decide(
      "D.precision", !is_finite || !(std::abs(change) < kMaxPrecisionChange),
      fmt::format("{}, target in float32; loss {:.4g}, in float32 {:.4g}",
                  PrecisionInWords(lower, precision), lower.losses.front(), full.losses.front()));
}

Findings CheckProcess(const ProcessSample& sample,
                      const std::optional<NoiseSchedulerConfig>& scheduler_config,
                      bool is_trained) {
  if (!scheduler_config || !sample.is_complete()) {
    return {LeaveOpen("process",
                      "the policy has no noise_scheduler or another objective than diffusion, or "
                      "reports no stages")};
  }
  const NoiseScheduler scheduler(*scheduler_config);
  Findings findings = {CheckTimesteps(sample.timesteps, scheduler_config->num_train_timesteps),
                       CheckForwardProcess(sample, scheduler), CheckPrediction(sample, scheduler)};
  if (is_trained) {
    const Tensor predicted = train::PredictedX0(sample);
    findings.push_back(
        CheckPredictedX0(RangeOf(predicted), RangeOf(predicted.defined() ? sample.x_0 : Tensor())));
  }
  findings.push_back(CheckConstants(sample, scheduler));
  findings.push_back(CheckTerminalNoise(scheduler));
  return findings;
}

}  // namespace dp_bench::diagnose
