// See normalizer_checks.h.
#include "diagnose/normalizer_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "diagnose/probe.h"
#include "train/clip_reach.h"

namespace dp_bench::diagnose {
namespace {

constexpr double kTolerance = 0.05;  // share of the data's range
constexpr double kMaxClippedShare = 0.005;

torch::Tensor Values(const Signal& signal) {
  return torch::from_blob(const_cast<float*>(signal.values.data()), {signal.n_steps(), signal.dim});
}

// "min -1, fitted to -3" for the statistic that is farthest off; empty if all agree. A sample of
// the data may have a smaller range and another mean, but no values beyond.
std::string WorstDifference(const KeyStats& fitted, const Signal& signal, bool is_sample) {
  double worst = kTolerance;
  std::string text;
  for (std::int64_t d = 0; d < signal.dim; ++d) {
    const std::vector<float> column = signal.Column(d);
    const auto [low, high] = std::ranges::minmax(column);
    const double range = std::max(1e-4, static_cast<double>(high) - static_cast<double>(low));
    const auto i = static_cast<std::size_t>(d);
    const auto compare = [&](const char* name, double found, double wanted) {
      const double off = std::abs(found - wanted) / range;
      if (!(off > worst)) return;
      worst = off;
      text = fmt::format("'{}'[{}] has {} {:.4g}, fitted to {:.4g}", signal.name, d, name, found,
                         wanted);
    };
    if (!is_sample || low < fitted.min[i]) compare("min", low, fitted.min[i]);
    if (!is_sample || high > fitted.max[i]) compare("max", high, fitted.max[i]);
    if (is_sample) continue;
    compare("mean", Values(signal).select(1, d).to(torch::kFloat64).mean().item<double>(),
            fitted.mean[i]);
  }
  return text;
}

torch::Tensor NormalizedAction(const Normalizer& normalizer, const Demonstrations& data) {
  return normalizer.Normalize("action", Values(data.action()));
}

Finding CheckStatistics(const Normalizer& normalizer, const Demonstrations& data) {
  std::vector<std::string> found;
  for (const Signal& signal : data.signals) {
    const auto field = normalizer.fields().find(signal.name);
    if (field == normalizer.fields().end()) continue;
    if (std::ssize(field->second.stats.min) != signal.dim) continue;
    const std::string difference = WorstDifference(field->second.stats, signal, data.is_sample);
    if (!difference.empty()) found.push_back(difference);
  }
  return DecideByFaults(
      "normalizer.wrong_statistics", found, "",
      fmt::format("{} of {} keys {} within {:.0f} % of their range",
                  data.is_sample ? "the values" : "min, max and mean", data.signals.size(),
                  data.is_sample ? "lie in the fitted range" : "agree", 100.0 * kTolerance));
}

Finding CheckClipRange(const Normalizer& normalizer, const Demonstrations& data,
                       const std::optional<NoiseSchedulerConfig>& scheduler) {
  if (!scheduler || !scheduler->clip_sample) {
    return LeaveOpen("normalizer.clip_conflict", "predicted actions are not clipped");
  }
  const torch::Tensor x_0 = NormalizedAction(normalizer, data);
  const double share =
      (x_0.abs() > scheduler->clip_sample_range * 1.001).to(torch::kFloat64).mean().item<double>();
  const auto reach = train::ActionReach(normalizer, *scheduler);
  return Decide(
      "normalizer.clip_conflict", share > kMaxClippedShare,
      fmt::format("{:.2f} % of the normalized actions lie beyond +-{:g}, where predictions "
                  "are clipped{}",
                  100.0 * share, scheduler->clip_sample_range,
                  reach ? "; " + reach->InWords() : ""));
}

Finding CheckScale(const Normalizer& normalizer, const Demonstrations& data) {
  const torch::Tensor x_0 = NormalizedAction(normalizer, data).to(torch::kFloat64);
  const torch::Tensor largest = x_0.abs().amax();
  const double std = x_0.std(/*unbiased=*/false).item<double>();
  const double mean = x_0.mean().item<double>();
  const bool is_fault =
      !(largest.item<double>() <= 20.0 && std >= 0.02 && std <= 3.0 && std::abs(mean) <= 2.0);
  return Decide("A.input_range", is_fault, Summary(x_0));
}

}  // namespace

Finding CheckFittedClipRange(const Normalizer& normalizer, const NoiseSchedulerConfig& scheduler) {
  Finding hypothesis = Hypothesis("normalizer.clip_conflict");
  hypothesis.severity = Severity::kNote;
  const auto reach = train::ActionReach(normalizer, scheduler);
  if (!reach) return LeaveOpen(hypothesis, "the normalizer has no statistics of the actions");
  return Decide(hypothesis, reach->n_cut > 0, reach->InWords());
}

Findings CheckNormalizer(const Normalizer& normalizer, const Demonstrations& data,
                         const std::optional<NoiseSchedulerConfig>& scheduler) {
  return {CheckStatistics(normalizer, data), CheckClipRange(normalizer, data, scheduler),
          CheckScale(normalizer, data)};
}

}  // namespace dp_bench::diagnose
