// What repeated work takes, and whether that is in time for the robot.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::run {

/// Percentiles by nearest rank: each is a time that occurred [s].
struct LatencySummary {
  int n = 0;
  double p50_s = 0.0;
  double p95_s = 0.0;
  double p99_s = 0.0;
  double max_s = 0.0;
};

/// All zero without times.
LatencySummary SummarizeLatency(std::vector<double> seconds);

/// The fraction of times beyond `deadline_s`; 0 without times.
double ShareLate(std::span<const double> seconds, double deadline_s);

/// {n, p50_ms, p95_ms, p99_ms, max_ms}
nlohmann::json ToJson(const LatencySummary& summary);

/// What planning chunks at one batch size took. On a GPU a stage is what the host waits for in it.
struct PlanningLatency {
  int batch_size = 0;
  std::vector<double> chunk_s;                         // whole chunks, in the order planned
  std::map<std::string, std::vector<double>> stage_s;  // that the policy names; those of all chunks
};

/// How long a policy thinks, against the rate at which the env is controlled.
struct PolicyLatency {
  double control_hz = 0.0;
  PlanningLatency alone;           // batch 1, what a robot waits for, measured by itself
  bool is_of_recorded_obs = true;  // `alone` looked at observations of the rollouts
  PlanningLatency in_rollouts;     // micro-batches with their padding; empty: none were planned

  /// Until the next env step is due [s]: a robot that plans between two steps must be done by then.
  double deadline_s() const { return 1.0 / control_hz; }
};

/// {control_hz, deadline_ms, batch_1: {batch_size, observations, chunk, share_late, stages},
/// rollouts: the same or null}; chunk and each stage as above.
nlohmann::json ToJson(const PolicyLatency& latency);

}  // namespace dp_bench::run
