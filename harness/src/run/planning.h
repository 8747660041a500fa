// How long a policy plans: latency.json.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.h"

namespace dp_bench::run {

/// Percentiles by nearest rank, so each is a measured time.
struct LatencySummary {
  int n = 0;
  double p50_s = 0.0;
  double p95_s = 0.0;
  double p99_s = 0.0;
  double max_s = 0.0;
};

/// All zero for an empty list.
LatencySummary SummarizeLatency(std::vector<double> seconds);

/// The fraction of times above `deadline_s`; 0 for an empty list.
double ShareLate(std::span<const double> seconds, double deadline_s);

/// {n, p50_ms, p95_ms, p99_ms, max_ms}
nlohmann::json ToJson(const LatencySummary& summary);

/// Times of planning chunks at one batch size. On a GPU, a stage is the time that the host waits in
/// it.
struct PlanningLatency {
  int batch_size = 0;
  std::vector<double> chunk_s;                         // whole chunks, in order of planning
  std::map<std::string, std::vector<double>> stage_s;  // by the policy's stage name, for all chunks
};

struct PlanningSummary {
  int batch_size = 0;
  LatencySummary chunk;
  double share_late = 0.0;                       // of the chunks
  std::map<std::string, LatencySummary> stages;  // by the policy's stage name
  std::vector<double> quantiles_s = {};          // of the chunk at 0, 1, ..., 100 %
};

PlanningSummary Summarize(const PlanningLatency& planning, double deadline_s);

/// Planning times of a policy, as latency.json, the terminal and report.html show them.
struct PolicyLatencySummary {
  double control_hz = 0.0;         // of the env
  double deadline_s = 0.0;         // time between two env steps
  PlanningSummary alone;           // batch 1, as on a robot, measured separately
  bool is_of_recorded_obs = true;  // `alone` was measured on observations of the rollouts
  std::optional<PlanningSummary> in_rollouts;  // padded micro-batches; none: nothing was planned
  std::optional<core::MachineLoad> load = std::nullopt;  // meanwhile; none in older files
};

/// {control_hz, deadline_ms, batch_1: {batch_size, observations, chunk, share_late, stages,
/// quantiles_ms (of the chunk at 0, 1, ..., 100 %)}, rollouts: the same or null, load_average,
/// n_processors}; chunk and each stage as above.
nlohmann::json ToJson(const PolicyLatencySummary& latency);

/// The inverse of ToJson. Throws Error{kData} naming `origin` if the text is not a latency.json.
PolicyLatencySummary ParseLatency(std::string_view text, const std::string& origin);

/// Times in ms of a text with one on each line (a first line without a number is a heading), or of
/// the quantiles of a latency.json. Throws Error{kData} naming file and line, Error{kIo}.
std::vector<double> ReadLatencySamples(const std::filesystem::path& file);

/// Writes latency.json. Without rollouts it does not overwrite an existing one. Throws Error{kIo}.
void WriteLatency(const std::filesystem::path& folder, const PolicyLatencySummary& latency);

}  // namespace dp_bench::run
