#include "control/latency_model.h"

#include <algorithm>
#include <cmath>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/random.h"

namespace dp_bench::control {
namespace {

constexpr double kLongestMs = 1.0e6;

// Linear between the samples, which are quantiles at equal distances.
double QuantileOf(const std::vector<double>& ascending, double share) {
  const double place = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double rest = place - static_cast<double>(below);
  return ascending[below] + rest * (ascending[above] - ascending[below]);
}

}  // namespace

LatencyModel LatencyModel::FromConfig(const Config& section) {
  LatencyModel c;
  const ConfigKeys keys(section);
  keys.Choice("distribution", &c.distribution,
              {{"none", LatencyDistribution::kNone},
               {"log_normal", LatencyDistribution::kLogNormal},
               {"long_tail", LatencyDistribution::kLongTail},
               {"measured", LatencyDistribution::kMeasured}},
              "how long plans take, each drawn from its episode's seed; none: all as long as "
              "chunking.delay");
  keys("median_ms", &c.median_ms, 0.0, kLongestMs, "log_normal and long_tail: half of the plans");
  keys("sigma", &c.sigma, 0.0, 10.0, "log_normal and long_tail: deviation of the logarithm");
  keys("tail_share", &c.tail_share, 0.0, 1.0, "long_tail: share of the slow plans");
  keys("tail_factor", &c.tail_factor, 1.0, 1000.0, "long_tail: how much longer they take");
  keys("samples_ms", &c.samples_ms, "measured: the times");
  keys("file", &c.file,
       "measured: a text with a time in ms on each line, or the latency.json of a run; `eval` "
       "copies its numbers to samples_ms");
  std::ranges::sort(c.samples_ms);
  if (!c.samples_ms.empty() &&
      !(c.samples_ms.front() >= 0.0 && c.samples_ms.back() <= kLongestMs)) {
    throw ConfigError("{}: expected times of 0 to {} ms, found {} to {}",
                      section.Where("samples_ms"), kLongestMs, c.samples_ms.front(),
                      c.samples_ms.back());
  }
  if (c.distribution == LatencyDistribution::kMeasured && c.samples_ms.empty() && !c.file) {
    throw ConfigError("{}: measured needs samples_ms or file, found neither",
                      section.Where("distribution"));
  }
  return c;
}

double LatencyModel::DrawMs(std::uint64_t seed, std::uint64_t env_step) const {
  RandomStream stream(seed, StreamId::kLatency, env_step);
  if (distribution == LatencyDistribution::kMeasured) {
    return QuantileOf(samples_ms, stream.UniformDouble());
  }
  const double ms = median_ms * std::exp(sigma * static_cast<double>(stream.Normal()));
  const bool is_slow =
      distribution == LatencyDistribution::kLongTail && stream.UniformDouble() < tail_share;
  return std::min(is_slow ? ms * tail_factor : ms, kLongestMs);
}

double LatencyModel::MedianMs() const {
  return distribution == LatencyDistribution::kMeasured ? QuantileOf(samples_ms, 0.5) : median_ms;
}

int ControlSteps(double ms, double control_hz) {
  constexpr double kRounding = 1e-9;  // a time of whole steps is not rounded up to one more
  return static_cast<int>(std::ceil(1e-3 * ms * control_hz - kRounding));
}

}  // namespace dp_bench::control
