#include "run/latency.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace dp_bench::run {
namespace {

nlohmann::json ToJson(const PlanningLatency& planning, double deadline_s) {
  nlohmann::json stages = nlohmann::json::object();
  for (const auto& [name, seconds] : planning.stage_s) {
    stages[name] = ToJson(SummarizeLatency(seconds));
  }
  return {{"batch_size", planning.batch_size},
          {"chunk", ToJson(SummarizeLatency(planning.chunk_s))},
          {"share_late", ShareLate(planning.chunk_s, deadline_s)},
          {"stages", stages}};
}

}  // namespace

LatencySummary SummarizeLatency(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::ranges::sort(seconds);
  const auto at = [&seconds](double fraction) {
    const double rank = std::ceil(fraction * static_cast<double>(seconds.size()));
    return seconds[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  };
  return {.n = static_cast<int>(seconds.size()),
          .p50_s = at(0.5),
          .p95_s = at(0.95),
          .p99_s = at(0.99),
          .max_s = seconds.back()};
}

double ShareLate(std::span<const double> seconds, double deadline_s) {
  if (seconds.empty()) return 0.0;
  const auto n_late = std::ranges::count_if(seconds, [&](double s) { return s > deadline_s; });
  return static_cast<double>(n_late) / static_cast<double>(seconds.size());
}

nlohmann::json ToJson(const LatencySummary& summary) {
  return {{"n", summary.n},
          {"p50_ms", 1e3 * summary.p50_s},
          {"p95_ms", 1e3 * summary.p95_s},
          {"p99_ms", 1e3 * summary.p99_s},
          {"max_ms", 1e3 * summary.max_s}};
}

nlohmann::json ToJson(const PolicyLatency& latency) {
  nlohmann::json alone = ToJson(latency.alone, latency.deadline_s());
  alone["observations"] = latency.is_of_recorded_obs ? "of the rollouts" : "random numbers";
  nlohmann::json rollouts;
  if (!latency.in_rollouts.chunk_s.empty()) {
    rollouts = ToJson(latency.in_rollouts, latency.deadline_s());
  }
  return {{"control_hz", latency.control_hz},
          {"deadline_ms", 1e3 * latency.deadline_s()},
          {"batch_1", alone},
          {"rollouts", rollouts}};
}

}  // namespace dp_bench::run
