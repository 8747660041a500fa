// As upstream: fill up to k, then replace the worst by anything better.
#include "run/top_k.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "dp_bench/error.h"
#include "run/store.h"

namespace dp_bench::run {
namespace {

/// Metric names contain slashes, folder names cannot.
std::string FolderName(std::string key) {
  std::ranges::replace(key, '/', '_');
  return key;
}

double FindMetric(const std::string& wanted, const std::map<std::string, double>& metrics) {
  std::vector<std::string> names;
  for (const auto& [key, value] : metrics) {
    if (FolderName(key) == FolderName(wanted)) {
      if (std::isfinite(value)) return value;
      throw Error(ErrorCode::kNumeric,
                  fmt::format("the metric '{}' is {}: no checkpoint can be ranked "
                              "by it",
                              key, value));
    }
    names.push_back(key);
  }
  throw Error(ErrorCode::kConfig, fmt::format("checkpoint.topk.monitor_key '{}' is not among the "
                                              "metrics: {}",
                                              wanted, fmt::join(names, ", ")));
}

}  // namespace

TopKConfig TopKConfig::FromConfig(const Config& config) {
  TopKConfig result;
  result.monitor_key = config.Get<std::string>("monitor_key", result.monitor_key,
                                               "a metric of `logs.json.txt`; / and _ are the same");
  result.is_max =
      config.GetChoice("mode", {"max", "min"}, "whether more or less is better") == "max";
  result.k =
      static_cast<int>(config.GetInRange("k", std::int64_t{5}, std::int64_t{0}, std::int64_t{1000},
                                         "number of checkpoints; 0 = none"));
  return result;
}

bool TopK::IsMonitored(const std::map<std::string, double>& metrics) const {
  return std::ranges::any_of(metrics, [&](const auto& metric) {
    return FolderName(metric.first) == FolderName(config_.monitor_key);
  });
}

std::optional<TopK::Decision> TopK::Offer(int epoch, const std::map<std::string, double>& metrics) {
  if (config_.k == 0) return std::nullopt;
  const double value = FindMetric(config_.monitor_key, metrics);
  Decision decision{
      .save = fmt::format("{}-{}={:.3f}", EpochName(epoch), FolderName(config_.monitor_key), value),
      .remove = std::nullopt};

  if (table_.size() >= static_cast<std::size_t>(config_.k)) {
    // names begin with the epoch, so the first of equal values is the earliest
    const auto worst = std::ranges::min_element(
        table_, {}, [&](const auto& item) { return config_.is_max ? item.second : -item.second; });
    const bool is_better = config_.is_max ? value > worst->second : value < worst->second;
    if (!is_better) return std::nullopt;
    decision.remove = worst->first;
    table_.erase(worst);
  }
  table_[decision.save] = value;
  return decision;
}

}  // namespace dp_bench::run
