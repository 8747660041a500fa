// See early_stop.h.
#include "train/early_stop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/console.h"

namespace dp_bench::train {
namespace {

// as for checkpoint.topk.monitor_key, so that both accept the same names
std::string Spelling(std::string name) {
  std::ranges::replace(name, '/', '_');
  return name;
}

}  // namespace

EarlyStopConfig EarlyStopConfig::FromConfig(const Config& config) {
  EarlyStopConfig c;
  c.monitor = config.Get<std::string>("monitor", c.monitor, "a metric of `logs.json.txt`");
  c.is_max = config.GetChoice("mode", {"min", "max"}, "whether less or more is better") == "max";
  c.patience = static_cast<int>(
      config.GetInRange("patience", std::int64_t{c.patience}, 1, std::numeric_limits<int>::max(),
                        "epochs without improvement, of those that measured the metric"));
  c.min_delta =
      config.GetInRange("min_delta", c.min_delta, 0.0, 1e30, "an improvement is more than this");
  return c;
}

void EarlyStop::Observe(int epoch, const std::map<std::string, double>& metrics, bool is_all_due,
                        EarlyStopState* state) {
  const auto is_monitored = [&](const auto& metric) {
    return Spelling(metric.first) == Spelling(config_.monitor);
  };
  const auto found = std::ranges::find_if(metrics, is_monitored);
  if (found != metrics.end()) {
    if (IsImprovement(found->second, *state)) {
      *state = {.best = found->second, .best_epoch = epoch};
    } else {
      ++state->epochs_without_improvement;
    }
    return;
  }
  if (!is_all_due || has_warned_) return;
  has_warned_ = true;
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  core::LogWarning(
      fmt::format("training.early_stop.monitor is '{}', which is not among the metrics of "
                  "epoch {}: {}. The training will not stop early.",
                  config_.monitor, epoch, fmt::join(names, ", ")));
}

bool EarlyStop::IsImprovement(double value, const EarlyStopState& state) const {
  if (!std::isfinite(value)) return false;
  if (!state.best) return true;
  return config_.is_max ? value > *state.best + config_.min_delta
                        : value < *state.best - config_.min_delta;
}

std::string EarlyStop::Reason(const EarlyStopState& state) const {
  const std::string best = state.best ? fmt::format("has not improved on {:.6g} of epoch {}",
                                                    *state.best, state.best_epoch)
                                      : "had no finite value";
  const int n = state.epochs_without_improvement;
  return fmt::format("{} {} for {} {} that measured it", config_.monitor, best, n,
                     n == 1 ? "epoch" : "epochs");
}

}  // namespace dp_bench::train
